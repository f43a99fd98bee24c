"""`SqlNames`: the names of one kind in the SQL catalog's table `iceberg_tables`, tables or views, and the one metadata location behind each.

A name is a table or a view and never both: the table's primary key sees to it. Connections and namespaces are `sql.py`. Floor: pointer.
Spec: Metastore Tables; View spec, Metadata Location.
"""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from sqlalchemy import ColumnElement, Connection, Engine, and_, delete, insert, or_, select, update
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from icefloe.errors import (
    AlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NoSuchViewError,
    NotFoundError,
    StorageError,
    TableAlreadyExistsError,
    ViewAlreadyExistsError,
)
from icefloe.kernel.commit.outcome import Committed, Conflicted, Outcome, Unknown
from icefloe.pointer.identifier import Identifier, dotted
from icefloe.pointer.pointer import TablePointer
from icefloe.pointer.sql_tables import ICEBERG_TABLES, TABLE_TYPE, VIEW_TYPE

_MOVED = "the pointer had moved"
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
    engine: Engine
    has_types: bool  # whether there is a column `iceberg_type`; where there is none, every name is a table

    def connection(self) -> AbstractContextManager[Connection]:
        """One transaction; database errors become ours."""

    def require_namespace(self, connection: Connection, namespace: Identifier) -> None:
        """Raises `NoSuchNamespaceError`."""

    def list_namespaces(self, parent: Identifier = ()) -> list[Identifier]:
        """Those one level below `parent`."""


class SqlNames:
    """The names of one kind. Raises as `PointerStore` says, with the kind's own errors."""

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

    def load(self, identifier: Identifier) -> TablePointer:
        """Raises `NoSuchTableError` or `NoSuchViewError`, which says so where the name is one of the other kind."""
        columns = ICEBERG_TABLES.c
        query = select(columns.metadata_location, columns.previous_metadata_location).where(self._is(identifier))
        with self._database.connection() as connection:
            row = connection.execute(query).one_or_none()
        if row is None or row[0] is None:
            raise self._missing(identifier)
        lookup = str(query.compile(self._database.engine, compile_kwargs={"literal_binds": True}))
        return TablePointer(identifier=identifier, metadata_location=row[0], previous_metadata_location=row[1], lookup=lookup)

    def create(self, identifier: Identifier, metadata_location: str) -> None:
        """Raises `NoSuchNamespaceError`, and `TableAlreadyExistsError` or `ViewAlreadyExistsError` by what has the name."""
        *namespace, name = identifier
        values = {
            "catalog_name": self._database.name,
            "table_namespace": ".".join(namespace),
            "table_name": name,
            "metadata_location": metadata_location,
            "previous_metadata_location": None,
        }
        if self._database.has_types:
            values["iceberg_type"] = self._kind.stored
        try:
            with self._database.connection() as connection:
                self._database.require_namespace(connection, tuple(namespace))
                connection.execute(insert(ICEBERG_TABLES).values(values))
        except IntegrityError as error:
            raise self._taken(identifier) from error

    def swap(self, identifier: Identifier, *, expected: str, new: str) -> Outcome:
        """See `PointerStore.swap`."""
        statement = (
            update(ICEBERG_TABLES)
            .where(self._is(identifier), ICEBERG_TABLES.c.metadata_location == expected)
            .values(metadata_location=new, previous_metadata_location=expected)
        )
        try:
            with self._database.engine.begin() as connection:
                changed = connection.execute(statement).rowcount
        except SQLAlchemyError as error:
            # The reply is lost, not necessarily the commit: only the pointer itself can tell.
            return self._look_again(identifier, expected=expected, new=new, reason=str(getattr(error, "orig", error)))
        return Committed() if changed == 1 else self._look_again(identifier, expected=expected, new=new, reason=_MOVED)

    def rename(self, source: Identifier, target: Identifier) -> None:
        """Raises `NoSuchNamespaceError`, and the errors of `load` and `create`."""
        *namespace, name = target
        try:
            with self._database.connection() as connection:
                self._database.require_namespace(connection, tuple(namespace))
                statement = update(ICEBERG_TABLES).where(self._is(source))
                changed = connection.execute(statement.values(table_namespace=".".join(namespace), table_name=name)).rowcount
        except IntegrityError as error:
            raise self._taken(target) from error
        if changed == 0:
            raise self._missing(source)

    def drop(self, identifier: Identifier) -> None:
        """Raises as `load`. Files stay."""
        with self._database.connection() as connection:
            gone = connection.execute(delete(ICEBERG_TABLES).where(self._is(identifier))).rowcount
        if gone == 0:
            raise self._missing(identifier)

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

    def _look_again(self, identifier: Identifier, *, expected: str, new: str, reason: str) -> Outcome:
        try:
            found = self.load(identifier).metadata_location
        except self._kind.missing:
            return Conflicted(found=None)
        except StorageError as error:
            return Unknown(reason=f"{reason}; and then: {error.message}")
        if found == new:
            return Committed()
        if found == expected and reason != _MOVED:
            # Unchanged so far; but a statement still in flight could land, so only a database that rolled back for sure may say "conflict".
            return Conflicted(found=found) if self._database.engine.dialect.name == "sqlite" else Unknown(reason=reason)
        return Conflicted(found=found)

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

    def _taken(self, identifier: Identifier) -> AlreadyExistsError:
        kind = self._other_kind(identifier) or self._kind
        return kind.taken(
            f"{kind.noun} {dotted(identifier)!r} already exists in catalog {self._database.name!r}",
            next_step="load it, drop it, or choose another name",
        )
