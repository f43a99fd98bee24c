"""The swap of one or several pointers as one database transaction, and what can be known of one whose reply was lost.

Three cases. Where an error comes before COMMIT is sent, the database rolls back, whatever became of the connection. Where the reply to COMMIT is lost, the rows
themselves are asked under a lock: the lost transaction holds theirs until it ends, so who gets it sees how it ended, and knows that nothing of it can land any
more. Where no lock can be had, it stays unknown. Spec: Metastore Tables; Optimistic Concurrency.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from sqlalchemy import Connection, Engine, Select, text
from sqlalchemy.exc import DBAPIError, IntegrityError

from icefloe.catalog_store.catalog_store import LocationChange
from icefloe.catalog_store.identifier import Identifier, dotted
from icefloe.catalog_store.sql_errors import database_error, may_be_tried_again, shown_text
from icefloe.errors import IcefloeError
from icefloe.kernel.commit.outcome import Committed, Conflicted, Outcome, Refused, Unknown

# Databases whose rows can be locked for a look.
ROW_LOCKS = frozenset({"postgresql", "mysql", "mariadb", "oracle"})
# Milliseconds such a look waits for the other transaction to end.
LOCK_WAIT_MS = 5_000


class Names(Protocol):
    """The statements of a swap, of tables or of views."""

    @property
    def database_name(self) -> tuple[str, str]:
        """The catalog's name and URI, for messages."""

    def move(self, connection: Connection, change: LocationChange) -> bool:
        """Whether the name pointed where it was expected to; it points to the new place then."""

    def taken(self, identifier: Identifier) -> IcefloeError:
        """What is raised where the name of a new table or view is one already."""

    def location_of(self, identifier: Identifier) -> Select[Any]:
        """The query for where a name points."""


def swap_together(names: Names, engine: Engine, changes: Sequence[LocationChange]) -> Outcome:
    """Moves every name or none. See `CatalogStore.swap_together`."""
    commit_begun = False
    change = changes[0]
    try:
        with engine.connect() as connection, connection.begin() as transaction:
            for change in _in_one_order(changes):
                if not names.move(connection, change):
                    found = connection.execute(names.location_of(change.identifier)).scalars().one_or_none()
                    transaction.rollback()
                    return Conflicted(found=found, table=dotted(change.identifier))
            commit_begun = True
        return Committed()
    except IcefloeError as error:
        return Refused(error=error)
    except DBAPIError as error:
        if commit_begun:
            return settle(names, engine, changes, _words(error, names))
        if isinstance(error, IntegrityError):
            return Refused(error=names.taken(change.identifier))
        ours = database_error(error, *names.database_name)
        if may_be_tried_again(error):
            return Conflicted(found=changes[0].expected, reason=ours.message)
        return Refused(error=ours)


def settle(names: Names, engine: Engine, changes: Sequence[LocationChange], reason: str) -> Outcome:
    """Looks how a swap ended; `reason` says why that is not known. See `CatalogStore.settle`."""
    can_lock = engine.dialect.name in ROW_LOCKS
    try:
        found = _locations(names, engine, changes, is_locked=can_lock)
        # SQLite runs within this process: what it did not commit by now it never will.
        is_final = can_lock or engine.dialect.name == "sqlite"
    except DBAPIError:
        try:  # without a lock, which a user who may only read cannot have
            found, is_final = _locations(names, engine, changes, is_locked=False), False
        except DBAPIError as error:
            return Unknown(reason=f"{reason}; and then: {_words(error, names)}")
    if any(found[change.identifier] == change.new for change in changes):
        return Committed()
    unmoved = [change for change in changes if found[change.identifier] == change.expected]
    if unmoved:
        # All move or none do, so one that has not moved speaks for all of them. A row that is not there yet cannot be locked.
        is_final = is_final and (not can_lock or any(change.expected is not None for change in unmoved))
        return Conflicted(found=unmoved[0].expected, reason=reason) if is_final else Unknown(reason=reason)
    first = changes[0]
    return Conflicted(found=found[first.identifier], table=dotted(first.identifier), is_unheard=True)


def _locations(names: Names, engine: Engine, changes: Sequence[LocationChange], *, is_locked: bool) -> dict[Identifier, str | None]:
    with engine.begin() as connection:
        if is_locked and engine.dialect.name == "postgresql":
            connection.execute(text(f"SET LOCAL lock_timeout = {LOCK_WAIT_MS}"))
        found: dict[Identifier, str | None] = {}
        for change in _in_one_order(changes):
            query = names.location_of(change.identifier)
            found[change.identifier] = connection.execute(query.with_for_update() if is_locked else query).scalars().one_or_none()
    return found


def _in_one_order(changes: Sequence[LocationChange]) -> list[LocationChange]:
    """The same for everyone, so that no two commits wait for each other."""
    return sorted(changes, key=lambda change: change.identifier)


def _words(error: DBAPIError, names: Names) -> str:
    return shown_text(" ".join(str(error.orig).split()), names.database_name[1]) or type(error.orig).__name__
