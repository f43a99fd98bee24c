"""`SqlNames`: the names of one kind in the SQL catalog's table `iceberg_tables`, tables or views, and the one metadata location behind each.

A name is a table or a view and never both: the table's primary key sees to it. Connections are `sql_database.py`, namespaces `sql_namespaces.py`; how a swap
goes and what is made of a lost reply is `sql_swap.py`.
Spec: Metastore Tables; View spec, Metadata Location.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from sqlalchemy import ColumnElement, Connection, Engine, Select, and_, delete, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from icefloe.catalog_store.catalog_store import LocationChange, TableLocation
from icefloe.catalog_store.identifier import Identifier, dotted
from icefloe.catalog_store.sql_schema import ICEBERG_TABLES, TABLE_TYPE, VIEW_TYPE
from icefloe.catalog_store.sql_swap import settle, swap_together
from icefloe.errors import (
    AlreadyExistsError,
    CommitUnknownError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NoSuchViewError,
    NotFoundError,
    StorageUnavailableError,
    TableAlreadyExistsError,
    ViewAlreadyExistsError,
)
from icefloe.kernel.commit.outcome import Committed, Conflicted, Outcome, Refused

# Names that a hint lists at most.
_SHOWN_NAMES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class NameKind:
    """What a name stands for: the value of `iceberg_type`, and the errors that say it is missing or taken."""

    noun: str
    stored: str
    missing: type[NotFoundError]
    taken: type[AlreadyExistsError]


TABLE_NAMES = NameKind(noun="table", stored=TABLE_TYPE, missing=NoSuchTableError, taken=TableAlreadyExistsError)
VIEW_NAMES = NameKind(noun="view", stored=VIEW_TYPE, missing=NoSuchViewError, taken=ViewAlreadyExistsError)


class Database(Protocol):
    """What names need of the store they are kept in."""

    name: str
    uri: str
    engine: Engine

    @property
    def has_types(self) -> bool:
        """Whether there is a column `iceberg_type`; where there is none, every name is a table."""

    def connection(self) -> AbstractContextManager[Connection]:
        """One transaction; database errors become ours."""

    def require_namespace(self, connection: Connection, namespace: Identifier) -> None:
        """Raises `NoSuchNamespaceError`."""

    def list_namespaces(self, parent: Identifier = ()) -> list[Identifier]:
        """Those one level below `parent`."""

    def check_length(self, table: str, column: str, value: str, what: str) -> None:
        """Raises `InvalidInputError` for a text that is longer than its column."""


class SqlNames:
    """The names of one kind. Raises as `CatalogStore` says, with the kind's own errors."""

    def __init__(self, database: Database, kind: NameKind) -> None:
        self.name = database.name
        self._database = database
        self._kind = kind

    def names(self, namespace: Identifier) -> list[Identifier]:
        """Sorted. Raises `NoSuchNamespaceError`."""
        with self._database.connection() as connection:
            self._database.require_namespace(connection, namespace)
            rows = connection.execute(select(ICEBERG_TABLES.c.table_name).where(self._in(namespace)))
            return sorted((*namespace, row[0]) for row in rows)

    def load(self, identifier: Identifier) -> TableLocation:
        """Raises `NoSuchTableError` or `NoSuchViewError`, which says so where the name is one of the other kind."""
        return self.load_all([identifier])[0]

    def load_all(self, identifiers: Sequence[Identifier]) -> list[TableLocation]:
        """Several pointers by one statement, so that all of them are of one moment. Raises as `load`."""
        columns = ICEBERG_TABLES.c
        query = select(columns.metadata_location, columns.previous_metadata_location, columns.table_namespace, columns.table_name).where(
            or_(*map(self._is, identifiers))
        )
        with self._database.connection() as connection:
            found = {(row[2], row[3]): row for row in connection.execute(query)}
        lookup = str(query.compile(self._database.engine, compile_kwargs={"literal_binds": True}))
        pointers = []
        for name in identifiers:
            row = found.get((dotted(name[:-1]), name[-1]))
            if row is None or row[0] is None:
                raise self._missing(name)
            pointers.append(TableLocation(identifier=name, metadata_location=row[0], previous_metadata_location=row[1], lookup=lookup))
        return pointers

    def all_but(self, identifier: Identifier, naming: str) -> list[TableLocation]:
        """Return every pointer in the database but this one, of any catalog, whose location holds the text `naming`."""
        columns = ICEBERG_TABLES.c
        found = select(columns.catalog_name, columns.table_namespace, columns.table_name, columns.metadata_location)
        if naming:
            found = found.where(columns.metadata_location.contains(naming, autoescape=True))
        own = (self._database.name, dotted(identifier[:-1]), identifier[-1])
        with self._database.connection() as connection:
            rows = [row for row in connection.execute(found) if tuple(row)[:3] != own and row[3] is not None]
        return [
            TableLocation(
                identifier=(*row[1].split("."), row[2]),
                metadata_location=row[3],
                previous_metadata_location=None,
                lookup="every row but one",
            )
            for row in rows
        ]

    def check(self, identifier: Identifier, location: str) -> None:
        """Raises `InvalidInputError` for a location that is longer than its column."""
        what = f"the metadata location of {self._kind.noun} {dotted(identifier)!r}"
        self._database.check_length(ICEBERG_TABLES.name, ICEBERG_TABLES.c.metadata_location.name, location, what)

    def create(self, identifier: Identifier, metadata_location: str) -> str:
        """The location. Raises `NoSuchNamespaceError`, and `TableAlreadyExistsError` or `ViewAlreadyExistsError` by what has the name."""
        self.check(identifier, metadata_location)
        outcome = self.swap_together([LocationChange(identifier=identifier, expected=None, new=metadata_location)])
        if isinstance(outcome, Committed):
            return metadata_location
        if isinstance(outcome, Refused):
            raise outcome.error
        what = f"{self._kind.noun} {dotted(identifier)!r}"
        if isinstance(outcome, Conflicted):
            raise StorageUnavailableError(
                f"{what} was not made in catalog {self._database.name!r}: {outcome.reason}", next_step="repeat: a retry makes sense"
            )
        raise CommitUnknownError(
            f"{what} may or may not have been made in catalog {self._database.name!r}: {outcome.reason}",
            path=metadata_location,
            next_step="look whether it is there and points to this file before making it again; no file was deleted",
        )

    def swap(self, identifier: Identifier, *, expected: str, new: str) -> Outcome:
        """See `CatalogStore.swap`."""
        return self.swap_together([LocationChange(identifier=identifier, expected=expected, new=new)])

    def swap_together(self, changes: Sequence[LocationChange]) -> Outcome:
        """See `CatalogStore.swap_together`."""
        return swap_together(self, self._database.engine, changes)

    def settle(self, changes: Sequence[LocationChange]) -> Outcome:
        """See `CatalogStore.settle`."""
        return settle(self, self._database.engine, changes, "the names still point where they did")

    def move(self, connection: Connection, change: LocationChange) -> bool:
        """One conditional UPDATE, or INSERT of a new name; whether the name pointed where it was expected to. Raises `NoSuchNamespaceError`."""
        if change.expected is None:
            self._insert(connection, change)
            return True
        statement = (
            update(ICEBERG_TABLES)
            .where(self._is(change.identifier), ICEBERG_TABLES.c.metadata_location == change.expected)
            .values(metadata_location=change.new, previous_metadata_location=change.expected)
        )
        return connection.execute(statement).rowcount == 1

    def location_of(self, identifier: Identifier) -> Select[Any]:
        """The query for where a name points."""
        return select(ICEBERG_TABLES.c.metadata_location).where(self._is(identifier))

    @property
    def database_name(self) -> tuple[str, str]:
        """The catalog's name and URI, for messages."""
        return self._database.name, self._database.uri

    def _insert(self, connection: Connection, change: LocationChange) -> None:
        self._database.require_namespace(connection, change.identifier[:-1])
        values = {
            "catalog_name": self._database.name,
            "table_namespace": dotted(change.identifier[:-1]),
            "table_name": change.identifier[-1],
            "metadata_location": change.new,
            "previous_metadata_location": None,
        }
        if self._database.has_types:
            values["iceberg_type"] = self._kind.stored
        connection.execute(insert(ICEBERG_TABLES).values(values))

    def rename(self, source: Identifier, target: Identifier) -> None:
        """Raises `NoSuchNamespaceError`, and the errors of `load` and `create`."""
        *namespace, name = target
        try:
            with self._database.connection() as connection:
                self._database.require_namespace(connection, tuple(namespace))
                statement = update(ICEBERG_TABLES).where(self._is(source))
                changed = connection.execute(statement.values(table_namespace=".".join(namespace), table_name=name)).rowcount
        except IntegrityError as error:
            raise self.taken(target) from error
        if changed == 0:
            raise self._missing(source)

    def drop(self, identifier: Identifier, *, expected: str | None = None) -> bool:
        """See `CatalogStore.drop`. Raises as `load`."""
        statement = delete(ICEBERG_TABLES).where(self._is(identifier))
        if expected is not None:
            statement = statement.where(ICEBERG_TABLES.c.metadata_location == expected)
        with self._database.connection() as connection:
            gone = connection.execute(statement).rowcount
            is_there = gone == 0 and connection.execute(self.location_of(identifier)).first() is not None
        if gone == 0 and not is_there:
            raise self._missing(identifier)
        return gone > 0

    def _in(self, namespace: Identifier) -> ColumnElement[bool]:
        columns = ICEBERG_TABLES.c
        tests = [columns.catalog_name == self._database.name, columns.table_namespace == dotted(namespace)]
        if self._database.has_types and self._kind is TABLE_NAMES:
            tests.append(or_(columns.iceberg_type == TABLE_TYPE, columns.iceberg_type.is_(None)))
        elif self._database.has_types:
            tests.append(columns.iceberg_type == self._kind.stored)
        return and_(*tests)

    def _is(self, identifier: Identifier) -> ColumnElement[bool]:
        return and_(self._in(identifier[:-1]), ICEBERG_TABLES.c.table_name == identifier[-1])

    def _missing(self, identifier: Identifier) -> NotFoundError:
        other = self._other_kind(identifier)
        message = f"{self._kind.noun} {dotted(identifier)!r} does not exist in catalog {self._database.name!r}"
        if other is not None:
            return self._kind.missing(f"{message}: that name is a {other.noun}", next_step=f"load it with load_{other.noun}")
        return self._kind.missing(message, next_step=self._hint(identifier[:-1]))

    def _hint(self, namespace: Identifier) -> str:
        try:
            names = [dotted(name) for name in self.names(namespace)]
        except NoSuchNamespaceError:
            spaces = ", ".join(map(dotted, self._database.list_namespaces())) or "none"
            return f"the namespace {dotted(namespace)!r} does not exist either; there are: {spaces}"
        if not names:
            return f"the namespace {dotted(namespace)!r} holds no {self._kind.noun}; create it"
        return f"the namespace holds {', '.join(names[:_SHOWN_NAMES])}"

    def _other_kind(self, identifier: Identifier) -> NameKind | None:
        if not self._database.has_types:
            return None
        other = SqlNames(self._database, VIEW_NAMES if self._kind is TABLE_NAMES else TABLE_NAMES)
        with self._database.connection() as connection:
            found = connection.execute(select(ICEBERG_TABLES.c.metadata_location).where(other._is(identifier))).first()
        return None if found is None else other._kind

    def taken(self, identifier: Identifier) -> AlreadyExistsError:
        """What is raised where the name of a new table or view is one already."""
        kind = self._other_kind(identifier) or self._kind
        return kind.taken(
            f"{kind.noun} {dotted(identifier)!r} already exists in catalog {self._database.name!r}",
            next_step="load it, drop it, or choose another name",
        )
