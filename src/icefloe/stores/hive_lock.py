"""`MetastoreLock`: the exclusive lock of a table in a Hive metastore. Java's Iceberg, PyIceberg and Hive itself wait for it too.

Hive has no conditional change of a table, so that no other writer may change it between reading the metadata location and the change. A lock ends after some
minutes without a heartbeat (`hive.txn.timeout`), so that a thread sends heartbeats while the lock is held. The settings have the names and defaults of Java's
Hive catalog. Spec: Metastore Tables.
"""

import platform
import random
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

from icefloe.errors import InvalidPropertyError
from icefloe.spec.identifier import Identifier, dotted
from icefloe.stores.hive_metastore import MetastoreError, MetastoreSession, hive_types, setting, user_of

# Settings in milliseconds, and their defaults. Origin: Java's `MetastoreLock`.
TIMEOUT = "iceberg.hive.lock-timeout-ms"
MIN_WAIT, MAX_WAIT = "iceberg.hive.lock-check-min-wait-ms", "iceberg.hive.lock-check-max-wait-ms"
HEARTBEAT = "iceberg.hive.lock-heartbeat-interval-ms"
DEFAULTS: Mapping[str, int] = {TIMEOUT: 180_000, MIN_WAIT: 50, MAX_WAIT: 5_000, HEARTBEAT: 240_000}
_WAIT_GROWTH = 1.5


class LockError(Exception):
    """The lock was not acquired, or was lost."""


class MetastoreLock:
    """A context manager that waits for the lock, holds it in the block, and releases it: `with MetastoreLock(session, properties, ("db", "t")) as lock:`.

    Raises at the start of the block: `LockError` if another writer holds the lock for too long, `MetastoreError` for other failures.
    """

    def __init__(self, session: MetastoreSession, properties: Mapping[str, str], identifier: Identifier) -> None:
        self._session = session
        self._properties = properties
        self._identifier = identifier
        # Threads of this process wait for this lock, so that they need not poll the metastore.
        self._local = _local_lock(properties.get("uri", ""), identifier)
        self._agent = f"Icefloe-{uuid4()}"
        self._id: int | None = None
        self._ended = threading.Event()
        self._failure = ""

    def __enter__(self) -> Self:
        timeout_s = self._seconds(TIMEOUT)
        until = time.monotonic() + timeout_s
        if not self._local.acquire(timeout=timeout_s):
            raise LockError(self._timeout_message(timeout_s))
        try:
            self._acquire(until, timeout_s)
        except BaseException:
            self._release()
            raise
        threading.Thread(target=self._renew, name=f"icefloe-hive-lock-{dotted(self._identifier)}", daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._release()

    def require_held(self) -> None:
        """Raise `LockError` if a heartbeat has failed, because another writer may hold the lock then."""
        if self._failure:
            raise LockError(f"the lock of table {dotted(self._identifier)!r} was lost: {self._failure}")

    def _acquire(self, until: float, timeout_s: float) -> None:
        types = hive_types()
        state = self._request()
        wait_s = self._seconds(MIN_WAIT)
        while state == types.LockState.WAITING:
            if time.monotonic() >= until:
                raise LockError(self._timeout_message(timeout_s))
            time.sleep(min(wait_s * random.SystemRandom().uniform(0.8, 1.2), max(until - time.monotonic(), 0)))
            wait_s = min(wait_s * _WAIT_GROWTH, self._seconds(MAX_WAIT))
            state = self._session.call("check_lock", types.CheckLockRequest(lockid=self._id)).state
        if state != types.LockState.ACQUIRED:
            raise LockError(f"the metastore did not give the lock of table {dotted(self._identifier)!r}: state {state}")

    def _request(self) -> Any:
        """Request the lock, and return its state. If the response is lost, the lock is looked up by its agent, because no other process would release it."""
        types = hive_types()
        database, table = self._identifier
        component = types.LockComponent(type=types.LockType.EXCLUSIVE, level=types.LockLevel.TABLE, dbname=database, tablename=table)
        request = types.LockRequest(
            component=[component], user=user_of(self._properties), hostname=platform.node() or "localhost", agentInfo=self._agent
        )
        try:
            response = self._session.call("lock", request)
        except MetastoreError as error:
            if error.kind or (lock := self._find()) is None:
                raise
            response = lock
        self._id = response.lockid
        return response.state

    def _find(self) -> Any:
        """Return this lock from the metastore's list of locks; None if the list does not contain it."""
        request = hive_types().ShowLocksRequest(dbname=self._identifier[0], tablename=self._identifier[1])
        locks = self._session.call("show_locks", request).locks or ()
        return next((lock for lock in locks if lock.agentInfo == self._agent), None)

    def _renew(self) -> None:
        interval_s = self._seconds(HEARTBEAT)
        with MetastoreSession(self._properties) as session:
            while not self._ended.wait(interval_s):
                try:
                    session.call("heartbeat", hive_types().HeartbeatRequest(lockid=self._id))
                except MetastoreError as error:
                    if not self._ended.is_set():
                        self._failure = str(error)
                    return

    def _release(self) -> None:
        self._ended.set()
        try:
            if self._id is not None:
                with suppress(MetastoreError):  # without heartbeats, the metastore ends the lock itself
                    self._session.call("unlock", hive_types().UnlockRequest(lockid=self._id))
        finally:
            self._local.release()

    def _timeout_message(self, timeout_s: float) -> str:
        return f"another writer has held the lock of table {dotted(self._identifier)!r} for {timeout_s:g} s ({TIMEOUT})"

    def _seconds(self, name: str) -> float:
        text = setting(self._properties, name)
        try:
            value = DEFAULTS[name] if text is None else int(text)
        except ValueError:
            value = 0
        if value <= 0:
            raise InvalidPropertyError(f"{name} is {text!r}, and not a number of milliseconds", next_step="write a whole number above 0")
        return value / 1000


@lru_cache(maxsize=4096)
def _local_lock(uri: str, identifier: Identifier) -> threading.Lock:  # noqa: ARG001  the arguments are the key
    return threading.Lock()
