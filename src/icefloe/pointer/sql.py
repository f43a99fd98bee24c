"""`SqlPointerStore`: the catalog pointer in a SQL database, through SQLAlchemy Core; SQLite by default.

A commit is one conditional UPDATE on `metadata_location`. The tables are in `sql_tables.py`. Floor: pointer. Spec: Metastore Tables.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sqlalchemy import ColumnElement, Connection, Engine, and_, create_engine, delete, event, insert, inspect, or_, select, update
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import StaticPool

from icefloe.errors import (
    InvalidPropertyError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    StorageFullError,
    StoragePermissionError,
    StorageUnavailableError,
    TableAlreadyExistsError,
)
from icefloe.kernel.commit.outcome import Committed, Conflicted, Outcome, Unknown
from icefloe.pointer.identifier import Identifier, dotted
from icefloe.pointer.pointer import TablePointer
from icefloe.pointer.sql_tables import ICEBERG_TABLES, NAMESPACE_EXISTS, NAMESPACE_PROPERTIES, TABLE_TYPE, TABLES

# Seconds a writer waits for SQLite's lock before it gives up; a commit holds it for milliseconds.
SQLITE_LOCK_WAIT_S = 30


class SqlPointerStore:
    """Tables and namespaces of catalog `name` in the database at `uri` (an SQLAlchemy URL)."""

    def __init__(self, name: str, uri: str, *, echo: bool = False) -> None:
        self.name = name
        self.uri = uri
        try:
            self.engine = _connect(uri, echo=echo)
        except (ArgumentError, NoSuchModuleError, ImportError) as error:
            raise InvalidPropertyError(
                f"catalog {name!r}: uri {without_password(uri)!r} names no database: {error}",
                next_step="write it as sqlite:////folder/catalog.db",
            ) from error
        with self._connection() as connection:
            existing = set(inspect(connection).get_table_names())
            TABLES.create_all(connection, tables=[table for table in TABLES.sorted_tables if table.name not in existing])
            columns = {column["name"] for column in inspect(connection).get_columns(ICEBERG_TABLES.name)}
        self.has_types = "iceberg_type" in columns

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        """One transaction; database errors become ours."""
        try:
            with self.engine.begin() as connection:
                yield connection
        except IntegrityError:
            raise
        except DBAPIError as error:
            raise self._storage_error(error) from error

    def _storage_error(self, error: DBAPIError) -> Exception:
        text = str(error.orig)
        message = f"catalog {self.name!r} at {without_password(self.uri)}: {text}"
        if "readonly" in text or "read-only" in text or "permission" in text.lower():
            return StoragePermissionError(message, next_step="make the database file and its folder writable")
        if "disk is full" in text or "No space left" in text:
            return StorageFullError(message, next_step="free space where the database lies, then repeat")
        if "unable to open database file" in text:
            return StorageUnavailableError(message, next_step="make the folder of the database file, or name another one in `uri`")
        if "not a database" in text or "malformed" in text:
            return StorageUnavailableError(message, next_step="the file is not an SQLite database: name another one in `uri`")
        return StorageUnavailableError(message, next_step="check that the database can be reached, then repeat")

    def _is_table(self, namespace: str, table: str | None = None) -> ColumnElement[bool]:
        columns = ICEBERG_TABLES.c
        tests = [columns.catalog_name == self.name, columns.table_namespace == namespace]
        if table is not None:
            tests.append(columns.table_name == table)
        if self.has_types:
            tests.append(or_(columns.iceberg_type == TABLE_TYPE, columns.iceberg_type.is_(None)))
        return and_(*tests)

    def _namespace_properties_of(self, namespace: str) -> ColumnElement[bool]:
        return and_(NAMESPACE_PROPERTIES.c.catalog_name == self.name, NAMESPACE_PROPERTIES.c.namespace == namespace)

    def _all_namespaces(self, connection: Connection) -> set[Identifier]:
        """Every namespace with a row of its own, a table, or a namespace below it."""
        tables = select(ICEBERG_TABLES.c.table_namespace).where(ICEBERG_TABLES.c.catalog_name == self.name).distinct()
        owned = select(NAMESPACE_PROPERTIES.c.namespace).where(NAMESPACE_PROPERTIES.c.catalog_name == self.name).distinct()
        leaves = {tuple(row[0].split(".")) for query in (tables, owned) for row in connection.execute(query)}
        return {leaf[:depth] for leaf in leaves for depth in range(1, len(leaf) + 1)}

    def _require_namespace(self, connection: Connection, namespace: Identifier) -> None:
        if namespace not in self._all_namespaces(connection):
            known = ", ".join(sorted(map(dotted, self._all_namespaces(connection)))) or "none yet"
            raise NoSuchNamespaceError(
                f"namespace {dotted(namespace)!r} does not exist in catalog {self.name!r}",
                next_step=f"create it with create_namespace({dotted(namespace)!r}); there are: {known}",
            )

    def list_namespaces(self, parent: Identifier = ()) -> list[Identifier]:
        with self._connection() as connection:
            if parent:
                self._require_namespace(connection, parent)
            depth = len(parent) + 1
            return sorted(name for name in self._all_namespaces(connection) if len(name) == depth and name[: depth - 1] == parent)

    def namespace_properties(self, namespace: Identifier) -> dict[str, str]:
        with self._connection() as connection:
            self._require_namespace(connection, namespace)
            rows = connection.execute(
                select(NAMESPACE_PROPERTIES.c.property_key, NAMESPACE_PROPERTIES.c.property_value).where(
                    self._namespace_properties_of(dotted(namespace))
                )
            )
            return {key: value for key, value in rows if key != NAMESPACE_EXISTS}

    def create_namespace(self, namespace: Identifier, properties: Mapping[str, str]) -> None:
        exists = NamespaceAlreadyExistsError(f"namespace {dotted(namespace)!r} already exists in catalog {self.name!r}")
        try:
            with self._connection() as connection:
                if namespace in self._all_namespaces(connection):
                    raise exists
                connection.execute(insert(NAMESPACE_PROPERTIES), self._rows(namespace, {NAMESPACE_EXISTS: "true", **properties}))
        except IntegrityError as error:
            raise exists from error

    def _rows(self, namespace: Identifier, properties: Mapping[str, str]) -> list[dict[str, str]]:
        return [
            {"catalog_name": self.name, "namespace": dotted(namespace), "property_key": key, "property_value": str(value)}
            for key, value in properties.items()
        ]

    def drop_namespace(self, namespace: Identifier) -> None:
        with self._connection() as connection:
            self._require_namespace(connection, namespace)
            below = [
                name for name in self._all_namespaces(connection) if len(name) > len(namespace) and name[: len(namespace)] == namespace
            ]
            rows = connection.execute(
                select(ICEBERG_TABLES.c.table_name).where(
                    ICEBERG_TABLES.c.catalog_name == self.name, ICEBERG_TABLES.c.table_namespace == dotted(namespace)
                )
            ).all()
            if rows or below:
                held = [row[0] for row in rows] + [dotted(name) for name in below]
                raise NamespaceNotEmptyError(
                    f"namespace {dotted(namespace)!r} is not empty: it holds {', '.join(sorted(held)[:5])}", next_step="drop these first"
                )
            connection.execute(delete(NAMESPACE_PROPERTIES).where(self._namespace_properties_of(dotted(namespace))))

    def update_namespace(self, namespace: Identifier, *, removals: frozenset[str], updates: Mapping[str, str]) -> None:
        with self._connection() as connection:
            self._require_namespace(connection, namespace)
            gone = removals | set(updates) | {NAMESPACE_EXISTS}
            connection.execute(
                delete(NAMESPACE_PROPERTIES).where(
                    self._namespace_properties_of(dotted(namespace)), NAMESPACE_PROPERTIES.c.property_key.in_(gone)
                )
            )
            connection.execute(insert(NAMESPACE_PROPERTIES), self._rows(namespace, {NAMESPACE_EXISTS: "true", **updates}))

    def list_tables(self, namespace: Identifier) -> list[Identifier]:
        with self._connection() as connection:
            self._require_namespace(connection, namespace)
            rows = connection.execute(select(ICEBERG_TABLES.c.table_name).where(self._is_table(dotted(namespace))))
            return sorted((*namespace, row[0]) for row in rows)

    def load(self, identifier: Identifier) -> TablePointer:
        *namespace, table = identifier
        columns = ICEBERG_TABLES.c
        query = select(columns.metadata_location, columns.previous_metadata_location).where(self._is_table(".".join(namespace), table))
        with self._connection() as connection:
            row = connection.execute(query).one_or_none()
        if row is None or row[0] is None:
            raise NoSuchTableError(
                f"table {dotted(identifier)!r} does not exist in catalog {self.name!r}",
                next_step=self._tables_hint(tuple(namespace)),
            )
        lookup = str(query.compile(self.engine, compile_kwargs={"literal_binds": True}))
        return TablePointer(identifier=identifier, metadata_location=row[0], previous_metadata_location=row[1], lookup=lookup)

    def _tables_hint(self, namespace: Identifier) -> str:
        try:
            names = [dotted(name) for name in self.list_tables(namespace)]
        except NoSuchNamespaceError:
            spaces = ", ".join(map(dotted, self.list_namespaces())) or "none"
            return f"the namespace {dotted(namespace)!r} does not exist either; there are: {spaces}"
        return f"the namespace holds {', '.join(names[:10])}" if names else f"the namespace {dotted(namespace)!r} holds no table; create it"

    def create(self, identifier: Identifier, metadata_location: str) -> None:
        *namespace, table = identifier
        values = {
            "catalog_name": self.name,
            "table_namespace": ".".join(namespace),
            "table_name": table,
            "metadata_location": metadata_location,
            "previous_metadata_location": None,
        }
        if self.has_types:
            values["iceberg_type"] = TABLE_TYPE
        try:
            with self._connection() as connection:
                self._require_namespace(connection, tuple(namespace))
                connection.execute(insert(ICEBERG_TABLES).values(values))
        except IntegrityError as error:
            raise _taken(identifier, self.name) from error

    def swap(self, identifier: Identifier, *, expected: str, new: str) -> Outcome:
        *namespace, table = identifier
        statement = (
            update(ICEBERG_TABLES)
            .where(self._is_table(".".join(namespace), table), ICEBERG_TABLES.c.metadata_location == expected)
            .values(metadata_location=new, previous_metadata_location=expected)
        )
        try:
            with self.engine.begin() as connection:
                changed = connection.execute(statement).rowcount
        except SQLAlchemyError as error:
            # The reply is lost, not necessarily the commit: only the pointer itself can tell.
            return self._look_again(identifier, expected=expected, new=new, reason=str(getattr(error, "orig", error)))
        return Committed() if changed == 1 else self._look_again(identifier, expected=expected, new=new, reason="the pointer had moved")

    def _look_again(self, identifier: Identifier, *, expected: str, new: str, reason: str) -> Outcome:
        try:
            found = self.load(identifier).metadata_location
        except NoSuchTableError:
            return Conflicted(found=None)
        except (StorageUnavailableError, StoragePermissionError, StorageFullError) as error:
            return Unknown(reason=f"{reason}; and then: {error.message}")
        if found == new:
            return Committed()
        if found == expected and reason != "the pointer had moved":
            # Unchanged so far; but a statement still in flight could land, so only a database that rolled back for sure may say "conflict".
            return Conflicted(found=found) if self.engine.dialect.name == "sqlite" else Unknown(reason=reason)
        return Conflicted(found=found)

    def rename(self, source: Identifier, target: Identifier) -> None:
        *source_namespace, source_table = source
        *target_namespace, target_table = target
        try:
            with self._connection() as connection:
                self._require_namespace(connection, tuple(target_namespace))
                changed = connection.execute(
                    update(ICEBERG_TABLES)
                    .where(self._is_table(".".join(source_namespace), source_table))
                    .values(table_namespace=".".join(target_namespace), table_name=target_table)
                ).rowcount
        except IntegrityError as error:
            raise _taken(target, self.name) from error
        if changed == 0:
            raise NoSuchTableError(f"table {dotted(source)!r} does not exist in catalog {self.name!r}")

    def drop(self, identifier: Identifier) -> None:
        *namespace, table = identifier
        with self._connection() as connection:
            gone = connection.execute(delete(ICEBERG_TABLES).where(self._is_table(".".join(namespace), table))).rowcount
        if gone == 0:
            raise NoSuchTableError(
                f"table {dotted(identifier)!r} does not exist in catalog {self.name!r}", next_step=self._tables_hint(tuple(namespace))
            )

    def rows(self) -> dict[str, list[dict[str, Any]]]:
        """Every row of the two tables, by table name, for people who look inside."""
        with self._connection() as connection:
            shown = {}
            for table in (ICEBERG_TABLES, NAMESPACE_PROPERTIES):
                columns = [c for c in table.columns if self.has_types or c.name != "iceberg_type"]
                shown[table.name] = [dict(row) for row in connection.execute(select(*columns).order_by(*table.primary_key)).mappings()]
        return shown


def without_password(uri: str) -> str:
    """The URI as it may be shown; also one that is no proper URI, which is when it is shown most."""
    return re.sub(r"(://[^:/@]*):[^@/]*@", r"\1:***@", uri)


def _taken(identifier: Identifier, catalog: str) -> TableAlreadyExistsError:
    return TableAlreadyExistsError(
        f"table or view {dotted(identifier)!r} already exists in catalog {catalog!r}", next_step="load it, drop it, or choose another name"
    )


def _connect(uri: str, *, echo: bool) -> Engine:
    if not uri.startswith("sqlite"):
        return create_engine(uri, echo=echo, pool_pre_ping=True)
    if uri in ("sqlite://", "sqlite:///:memory:"):
        return create_engine(uri, echo=echo, poolclass=StaticPool, connect_args={"check_same_thread": False})
    engine = create_engine(uri, echo=echo, connect_args={"timeout": SQLITE_LOCK_WAIT_S})
    event.listen(engine, "connect", _full_sync)
    return engine


def _full_sync(connection: Any, _record: object) -> None:
    # A commit that was acknowledged must outlive a power cut.
    cursor = connection.cursor()
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.close()
