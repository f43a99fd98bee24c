"""`SqlIdempotencyStore`: idempotency keys in the database of the catalog, which several workers and servers share. A restart does not drop them.

A row is inserted before the request is executed. If several workers get a request with the same key, one executes it, and the others get its response when that
is final. A worker that dies in between leaves a row without a response, which is valid only for some minutes. Spec: REST catalog, idempotency-key.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from sqlalchemy import BigInteger, Column, Engine, Integer, LargeBinary, MetaData, String, Table, and_, delete, select, update
from sqlalchemy.dialects.postgresql import insert

from icefloe.server.idempotency_store import LIFETIME_S, LOADED_AGAIN, kept_answer, key_of_another, still_running
from icefloe.server.request import Answer

# The milliseconds after which the worker of a row without a response counts as dead.
ABANDONED_MS = 600_000
# The seconds between two checks of a row whose request another worker executes, and between two removals of old rows.
LOOK_S, REMOVE_S = 0.2, 60.0
# The status of a row whose response is loaded again for a retry.
_LOADED = 0

KEYS = Table(
    "icefloe_idempotency_keys",
    MetaData(),
    Column("catalog_name", String(255), primary_key=True),
    Column("user_name", String(255), primary_key=True),
    Column("idempotency_key", String(36), primary_key=True),
    Column("request", String(64), nullable=False),
    Column("until_ms", BigInteger, nullable=False, index=True),
    Column("status", Integer),  # null while the request runs
    Column("headers", LargeBinary),
    Column("body", LargeBinary),
)


class SqlIdempotencyStore:
    """An `IdempotencyStore` in a PostgreSQL database, which several workers and servers can share."""

    def __init__(self, engine: Engine, catalog: str, lifetime_s: float = LIFETIME_S, wait_s: float = 30.0) -> None:
        """Create the store, and its table if that does not exist.

        Args:
            engine: The engine of the database.
            catalog: The name of the catalog, because several catalogs may share a database.
            lifetime_s: Seconds for which a response is kept.
            wait_s: Seconds that a request waits for a running one with its key.
        """
        self._engine = engine
        self._catalog = catalog
        self._lifetime_ms = int(lifetime_s * 1000)
        self._wait_s = wait_s
        self._removed_at = 0.0
        KEYS.metadata.create_all(engine, checkfirst=True)

    def once(self, user: str, key: str, request: str, act: Callable[[], Answer], load: Callable[[], Answer] | None = None) -> Answer:
        if self._reserve(user, key, request):
            return self._first(user, key, act, load is not None)
        until = time.monotonic() + self._wait_s
        while True:
            row = self._row(user, key)
            if row is None:  # the first request failed, and its row was removed
                raise still_running()
            if row["request"] != request:
                raise key_of_another()
            if row["status"] is not None:
                return _answer(row, load)
            if time.monotonic() > until:
                raise still_running()
            time.sleep(LOOK_S)

    def _reserve(self, user: str, key: str, request: str) -> bool:
        """Insert the row of a key. Return False if the row exists already."""
        now_ms = time.time_ns() // 1_000_000
        values = {
            "catalog_name": self._catalog,
            "user_name": user,
            "idempotency_key": key,
            "request": request,
            "until_ms": now_ms + ABANDONED_MS,
        }
        with self._engine.begin() as connection:
            if time.monotonic() - self._removed_at > REMOVE_S:
                connection.execute(delete(KEYS).where(KEYS.c.until_ms < now_ms))
                self._removed_at = time.monotonic()
            connection.execute(delete(KEYS).where(self._of(user, key), KEYS.c.until_ms < now_ms))
            inserted = insert(KEYS).values(**values).on_conflict_do_nothing().returning(KEYS.c.request)
            return connection.execute(inserted).first() is not None

    def _first(self, user: str, key: str, act: Callable[[], Answer], may_be_loaded: bool) -> Answer:
        kept_reply = None
        try:
            answer = act()
            kept_reply = kept_answer(answer, may_be_loaded=may_be_loaded)
        finally:
            with self._engine.begin() as connection:
                if kept_reply is not None:
                    connection.execute(update(KEYS).where(self._of(user, key)).values(**self._columns(kept_reply)))
                else:
                    connection.execute(delete(KEYS).where(self._of(user, key)))
        return answer

    def _columns(self, answer: Answer) -> dict[str, Any]:
        until_ms = time.time_ns() // 1_000_000 + self._lifetime_ms
        if answer is LOADED_AGAIN:
            return {"status": _LOADED, "until_ms": until_ms}
        return {"status": answer.status, "headers": msgspec.json.encode(dict(answer.headers)), "body": answer.body, "until_ms": until_ms}

    def _row(self, user: str, key: str) -> Mapping[str, Any] | None:
        with self._engine.connect() as connection:
            row = connection.execute(select(KEYS).where(self._of(user, key))).mappings().first()
            return None if row is None else dict(row)

    def _of(self, user: str, key: str) -> Any:
        return and_(KEYS.c.catalog_name == self._catalog, KEYS.c.user_name == user, KEYS.c.idempotency_key == key)


def _answer(row: Mapping[str, Any], load: Callable[[], Answer] | None) -> Answer:
    if row["status"] == _LOADED:
        return load() if load is not None else LOADED_AGAIN
    return Answer(status=row["status"], body=bytes(row["body"]), headers=msgspec.json.decode(row["headers"], type=dict[str, str]))
