"""`SqlPointerStore`: the catalog pointer in a SQL database, through SQLAlchemy Core; SQLite by default.

Here are connections, their errors, and namespaces. Names of tables and views, and the swap of a pointer, are `sql_names.py`; the database's tables are
`sql_tables.py`. Floor: pointer. Spec: Metastore Tables.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sqlalchemy import ColumnElement, Connection, Engine, and_, create_engine, delete, event, insert, inspect, select, text
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, NoSuchModuleError
from sqlalchemy.pool import StaticPool

from icefloe.errors import (
    InvalidPropertyError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    StorageError,
    StorageFullError,
    StoragePermissionError,
    StorageUnavailableError,
    UnsupportedFeatureError,
)
from icefloe.kernel.commit.outcome import Outcome
from icefloe.pointer.identifier import Identifier, dotted
from icefloe.pointer.pointer import TablePointer
from icefloe.pointer.sql_names import TABLE_NAMES, VIEW_NAMES, SqlNames
from icefloe.pointer.sql_tables import ICEBERG_TABLES, NAMESPACE_EXISTS, NAMESPACE_PROPERTIES, TABLES

# Seconds a writer waits for SQLite's lock before it gives up; a commit holds it for milliseconds.
SQLITE_LOCK_WAIT_S = 30
# The property that asks for the column that views need. Origin: Java's JDBC catalog.
SCHEMA_VERSION = "jdbc.schema-version"


class SqlPointerStore:
    """Tables and namespaces of catalog `name` in the database at `uri` (an SQLAlchemy URL)."""

    def __init__(self, name: str, uri: str, *, echo: bool = False, add_types: bool = False) -> None:
        """`add_types` adds the column `iceberg_type` to a database that lacks it, for every catalog in it; never done unasked."""
        self.name = name
        self.uri = uri
        self._tables = SqlNames(self, TABLE_NAMES)
        try:
            self.engine = _connect(uri, echo=echo)
        except (ArgumentError, NoSuchModuleError, ImportError) as error:
            raise InvalidPropertyError(
                f"catalog {name!r}: uri {without_password(uri)!r} names no database: {error}",
                next_step="write it as sqlite:////folder/catalog.db",
            ) from error
        with self.connection() as connection:
            existing = set(inspect(connection).get_table_names())
            TABLES.create_all(connection, tables=[table for table in TABLES.sorted_tables if table.name not in existing])
        self.has_types = self._has_type_column()
        if add_types and not self.has_types:
            self._add_type_column()

    def _has_type_column(self) -> bool:
        with self.connection() as connection:
            return ICEBERG_TABLES.c.iceberg_type.name in {column["name"] for column in inspect(connection).get_columns(ICEBERG_TABLES.name)}

    def _add_type_column(self) -> None:
        column = ICEBERG_TABLES.c.iceberg_type
        try:
            with self.connection() as connection:
                kind = column.type.compile(self.engine.dialect)
                connection.execute(text(f"ALTER TABLE {ICEBERG_TABLES.name} ADD COLUMN {column.name} {kind}"))
        except StorageError:
            # Another process may have added it since we looked.
            if not self._has_type_column():
                raise
        self.has_types = True

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """One transaction; database errors become ours."""
        try:
            with self.engine.begin() as connection:
                yield connection
        except IntegrityError:
            raise
        except DBAPIError as error:
            raise self._storage_error(error) from error

    def _storage_error(self, error: DBAPIError) -> Exception:
        said = str(error.orig)
        message = f"catalog {self.name!r} at {without_password(self.uri)}: {said}"
        if "readonly" in said or "read-only" in said or "permission" in said.lower():
            return StoragePermissionError(message, next_step="make the database file and its folder writable")
        if "disk is full" in said or "No space left" in said:
            return StorageFullError(message, next_step="free space where the database lies, then repeat")
        if "unable to open database file" in said:
            return StorageUnavailableError(message, next_step="make the folder of the database file, or name another one in `uri`")
        if "not a database" in said or "malformed" in said:
            return StorageUnavailableError(message, next_step="the file is not an SQLite database: name another one in `uri`")
        return StorageUnavailableError(message, next_step="check that the database can be reached, then repeat")

    def _namespace_properties_of(self, namespace: str) -> ColumnElement[bool]:
        return and_(NAMESPACE_PROPERTIES.c.catalog_name == self.name, NAMESPACE_PROPERTIES.c.namespace == namespace)

    def _all_namespaces(self, connection: Connection) -> set[Identifier]:
        """Every namespace with a row of its own, a table, or a namespace below it."""
        tables = select(ICEBERG_TABLES.c.table_namespace).where(ICEBERG_TABLES.c.catalog_name == self.name).distinct()
        owned = select(NAMESPACE_PROPERTIES.c.namespace).where(NAMESPACE_PROPERTIES.c.catalog_name == self.name).distinct()
        leaves = {tuple(row[0].split(".")) for query in (tables, owned) for row in connection.execute(query)}
        return {leaf[:depth] for leaf in leaves for depth in range(1, len(leaf) + 1)}

    def require_namespace(self, connection: Connection, namespace: Identifier) -> None:
        if namespace not in self._all_namespaces(connection):
            known = ", ".join(sorted(map(dotted, self._all_namespaces(connection)))) or "none yet"
            raise NoSuchNamespaceError(
                f"namespace {dotted(namespace)!r} does not exist in catalog {self.name!r}",
                next_step=f"create it with create_namespace({dotted(namespace)!r}); there are: {known}",
            )

    def list_namespaces(self, parent: Identifier = ()) -> list[Identifier]:
        with self.connection() as connection:
            if parent:
                self.require_namespace(connection, parent)
            depth = len(parent) + 1
            return sorted(name for name in self._all_namespaces(connection) if len(name) == depth and name[: depth - 1] == parent)

    def namespace_properties(self, namespace: Identifier) -> dict[str, str]:
        with self.connection() as connection:
            self.require_namespace(connection, namespace)
            rows = connection.execute(
                select(NAMESPACE_PROPERTIES.c.property_key, NAMESPACE_PROPERTIES.c.property_value).where(
                    self._namespace_properties_of(dotted(namespace))
                )
            )
            return {key: value for key, value in rows if key != NAMESPACE_EXISTS}

    def create_namespace(self, namespace: Identifier, properties: Mapping[str, str]) -> None:
        exists = NamespaceAlreadyExistsError(f"namespace {dotted(namespace)!r} already exists in catalog {self.name!r}")
        try:
            with self.connection() as connection:
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
        with self.connection() as connection:
            self.require_namespace(connection, namespace)
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
        with self.connection() as connection:
            self.require_namespace(connection, namespace)
            gone = removals | set(updates) | {NAMESPACE_EXISTS}
            connection.execute(
                delete(NAMESPACE_PROPERTIES).where(
                    self._namespace_properties_of(dotted(namespace)), NAMESPACE_PROPERTIES.c.property_key.in_(gone)
                )
            )
            connection.execute(insert(NAMESPACE_PROPERTIES), self._rows(namespace, {NAMESPACE_EXISTS: "true", **updates}))

    def list_tables(self, namespace: Identifier) -> list[Identifier]:
        return self._tables.names(namespace)

    def load(self, identifier: Identifier) -> TablePointer:
        return self._tables.load(identifier)

    def create(self, identifier: Identifier, metadata_location: str) -> None:
        self._tables.create(identifier, metadata_location)

    def swap(self, identifier: Identifier, *, expected: str, new: str) -> Outcome:
        return self._tables.swap(identifier, expected=expected, new=new)

    def rename(self, source: Identifier, target: Identifier) -> None:
        self._tables.rename(source, target)

    def drop(self, identifier: Identifier) -> None:
        self._tables.drop(identifier)

    def views(self) -> SqlNames:
        """The names of views. Raises `UnsupportedFeatureError` where the database was made without the column that tells views from tables."""
        if self.has_types:
            return SqlNames(self, VIEW_NAMES)
        raise UnsupportedFeatureError(
            f"catalog {self.name!r} has no views: its table {ICEBERG_TABLES.name} was made before there were views and lacks the column iceberg_type",
            next_step=f"let its users know, then open the catalog once with {SCHEMA_VERSION}=V1, which adds the column",
        )

    def rows(self) -> dict[str, list[dict[str, Any]]]:
        """Every row of the two tables, by table name, for people who look inside."""
        with self.connection() as connection:
            shown = {}
            for table in (ICEBERG_TABLES, NAMESPACE_PROPERTIES):
                columns = [c for c in table.columns if self.has_types or c.name != "iceberg_type"]
                shown[table.name] = [dict(row) for row in connection.execute(select(*columns).order_by(*table.primary_key)).mappings()]
        return shown


def without_password(uri: str) -> str:
    """The URI as it may be shown; also one that is no proper URI, which is when it is shown most."""
    return re.sub(r"(://[^:/@]*):[^@/]*@", r"\1:***@", uri)


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
