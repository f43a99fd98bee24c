"""`SqlCatalogStore`: a catalog store in a SQL database, through SQLAlchemy Core; SQLite by default.

A row of `iceberg_tables` has the name of either a table or a view, and its metadata location; a row of `iceberg_namespace_properties` has a property of a
namespace. A compare-and-swap of locations is a database transaction of conditional UPDATEs. `sql_engine.py` opens the database's engine, `sql_schema.py`
defines its tables, and `sql_errors.py` translates its errors.

The outcome of a commit after an error: if the error comes before COMMIT is sent, the database rolls back, even if the connection is lost. If the reply to
COMMIT is lost, the rows are read under a lock. The lost transaction holds its locks until it ends, so that a reader with the lock sees its final result. If the
lock cannot be acquired, the outcome stays unknown.
Spec: Metastore Tables; View spec, Metadata Location; Optimistic Concurrency.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

from sqlalchemy import BindParameter, ColumnElement, Connection, Engine, Select, and_, bindparam, delete, insert, or_, select, text, update
from sqlalchemy.exc import DBAPIError, IntegrityError

from icefloe.commit.outcome import Committed, Conflicted, Outcome, Refused, Unknown
from icefloe.errors import (
    AlreadyExistsError,
    CommitUnknownError,
    IcefloeError,
    InvalidInputError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NoSuchViewError,
    NotFoundError,
    StorageError,
    StorageUnavailableError,
    TableAlreadyExistsError,
    UnsupportedFeatureError,
    ViewAlreadyExistsError,
)
from icefloe.spec.identifier import Identifier, dotted
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.stores.catalog_store import SCHEMA_VERSION, CommitRequest, TableLocation
from icefloe.stores.database_uri import without_password
from icefloe.stores.lock_waits import LOOK_S, Process
from icefloe.stores.name_errors import namespace_exists, namespace_not_empty
from icefloe.stores.other_catalogs import OtherCatalogs, catalog_names
from icefloe.stores.sql_engine import SQLITE_LOCK_WAIT_S, check_database_file, is_database_file, open_engine, uri_elsewhere
from icefloe.stores.sql_errors import database_error, may_be_tried_again, shown_cause, shown_text
from icefloe.stores.sql_schema import (
    ICEBERG_TABLES,
    LOCATION_COLUMNS,
    NAMESPACE_EXISTS,
    NAMESPACE_PROPERTIES,
    TABLE_TYPE,
    TABLES,
    VIEW_TYPE,
    add_type_column,
    column_lengths,
    create_missing_tables,
    missing_tables,
)

LOG = logging.getLogger(__name__)
# Databases whose rows can be locked by a read.
ROW_LOCKS = frozenset({"postgresql", "mysql", "mariadb", "oracle"})
# The milliseconds that a read under a lock waits for the end of the other transaction.
LOCK_WAIT_MS = 5_000
# The seconds of waiting for the lock of an SQLite file after which a warning states the cause.
REPORTED_WAIT_S = LOOK_S
# The maximum number of cached queries, each for a different number of names.
_KEPT_QUERIES = 32
# The maximum of names in the next step of an error.
_SHOWN_NAMES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class NameKind:
    """One of the two kinds of names in a SQL catalog, tables or views: its value of `iceberg_type`, and the errors for a missing and for a taken name."""

    noun: str
    stored: str
    missing: type[NotFoundError]
    taken: type[AlreadyExistsError]


TABLE_NAMES = NameKind(noun="table", stored=TABLE_TYPE, missing=NoSuchTableError, taken=TableAlreadyExistsError)
VIEW_NAMES = NameKind(noun="view", stored=VIEW_TYPE, missing=NoSuchViewError, taken=ViewAlreadyExistsError)


class SqlLocations:
    """The tables or the views of a catalog, and the metadata location of each.

    The methods raise the errors that `CatalogStore` documents for tables, or `ViewStore` for views.
    """

    writes_metadata = False

    def __init__(self, store: "SqlCatalogStore", kind: NameKind) -> None:
        self.name: str = store.name
        self._store = store
        self._kind = kind
        # Queries are cached by the number of names, because every Spark statement loads its tables, and building the query takes longer than running it.
        self._by_names = lru_cache(_KEPT_QUERIES)(self._query_by_names)

    def names(self, namespace: Identifier) -> list[Identifier]:
        """Return the names in a namespace, sorted. Raises `NoSuchNamespaceError`."""
        with self._store.connection() as connection:
            self._store.require_namespace(connection, namespace)
            rows = connection.execute(select(ICEBERG_TABLES.c.table_name).where(self._in(dotted(namespace))))
            return sorted((*namespace, row[0]) for row in rows)

    def exists(self, identifier: Identifier) -> bool:
        """Return whether a name exists. See `ChecksNames`."""
        return (dotted(identifier[:-1]), identifier[-1]) in self._read([identifier])[2]

    def load(self, identifier: Identifier) -> TableLocation:
        """Return the location of a name. Raises `NoSuchTableError` for a table, `NoSuchViewError` for a view."""
        return self.load_all([identifier])[0]

    def load_all(self, identifiers: Sequence[Identifier]) -> list[TableLocation]:
        """Return several locations with one statement, so that they are consistent. Raises the errors of `load`."""
        query, values, rows = self._read(identifiers)
        names = {name: (dotted(name[:-1]), name[-1]) for name in identifiers}
        missing = next((name for name, texts in names.items() if texts not in rows), None)
        if missing is not None:
            raise self._missing(missing)
        lookup = partial(self._literal_text, query, values)
        return [
            TableLocation(
                identifier=name, metadata_location=rows[names[name]][0], previous_metadata_location=rows[names[name]][1], lookup=lookup
            )
            for name in identifiers
        ]

    def _read(self, identifiers: Sequence[Identifier]) -> tuple[Select[Any], dict[str, str], dict[tuple[str, str], Any]]:
        """Return the query for names, its values, and the rows of those that exist, by namespace and name."""
        names = [(dotted(name[:-1]), name[-1]) for name in dict.fromkeys(identifiers)]
        values = {f"name_{n}_{part}": value for n, name in enumerate(names) for part, value in enumerate(name)}
        query = self._by_names(len(names))
        with self._store.connection() as connection:
            # A database may compare text without regard to case or accents.
            return query, values, {(row[2], row[3]): row for row in connection.execute(query, values) if row[0] is not None}

    def _query_by_names(self, count: int) -> Select[Any]:
        names = (self._in(bindparam(f"name_{n}_0"), bindparam(f"name_{n}_1")) for n in range(count))
        return select(*LOCATION_COLUMNS).where(or_(*names))

    def _literal_text(self, query: Select[Any], values: Mapping[str, str]) -> str:
        return str(query.params(values).compile(self._store.engine, compile_kwargs={"literal_binds": True}))

    def other_tables(self, identifier: Identifier, naming: str = "") -> list[TableLocation]:
        """Return the locations of other tables. See `ListsOtherTables`. Tables of other catalogs in the database are included, as they share its storage."""
        columns = ICEBERG_TABLES.c
        query = select(columns.catalog_name, columns.table_namespace, columns.table_name, columns.metadata_location)
        if naming:
            query = query.where(columns.metadata_location.contains(naming, autoescape=True))
        own = (self._store.name, dotted(identifier[:-1]), identifier[-1])
        with self._store.connection() as connection:
            rows = [row for row in connection.execute(query) if tuple(row)[:3] != own and row[3] is not None]
        return [
            TableLocation(
                identifier=(*row[1].split("."), row[2]),
                metadata_location=row[3],
                previous_metadata_location=None,
                lookup=lambda: "a query of the other rows of the catalog",
            )
            for row in rows
        ]

    def check(self, identifier: Identifier, location: str, metadata: TableMetadata | None = None) -> None:  # noqa: ARG002  any metadata will do
        """Refuse a location that is too long for its column. Raises `InvalidInputError`."""
        what = f"the metadata location of {self._kind.noun} {dotted(identifier)!r}"
        self._store.check_length(ICEBERG_TABLES.name, ICEBERG_TABLES.c.metadata_location.name, location, what)

    def create(self, identifier: Identifier, metadata_location: str) -> str:
        """Create a name. See `CatalogStore.create`. Raises `TableAlreadyExistsError` or `ViewAlreadyExistsError`, by the kind of the existing name."""
        self.check(identifier, metadata_location)
        outcome = self.commit([CommitRequest(identifier=identifier, expected=None, new=metadata_location)])
        if isinstance(outcome, Committed):
            return metadata_location
        if isinstance(outcome, Refused):
            raise outcome.error
        what = f"{self._kind.noun} {dotted(identifier)!r}"
        if isinstance(outcome, Conflicted):
            raise StorageUnavailableError(
                f"{what} was not created in catalog {self._store.name!r}: {outcome.reason}", next_step="repeat: a retry makes sense"
            )
        raise CommitUnknownError(
            f"{what} may or may not have been created in catalog {self._store.name!r}: {outcome.reason}",
            path=metadata_location,
            next_step="look whether it exists and has this metadata file before creating it again; no file was deleted",
        )

    def commit(self, requests: Sequence[CommitRequest]) -> Outcome:
        commit_begun = False
        request = requests[0]
        try:
            with self._store.reported_wait(), self._store.engine.connect() as connection, connection.begin() as transaction:
                for request in _in_lock_order(requests):
                    if not self._compare_and_swap(connection, request):
                        location = connection.execute(self._location_of(request.identifier)).scalars().one_or_none()
                        transaction.rollback()
                        return Conflicted(current_location=location, table=dotted(request.identifier))
                commit_begun = True
            return Committed()
        except IcefloeError as error:
            return Refused(error=error)
        except DBAPIError as error:
            if commit_begun:
                return self._status(requests, self._text_of(error))
            if isinstance(error, IntegrityError):
                return Refused(error=self._name_in_use(request.identifier))
            translated = database_error(error, self._store.name, self._store.uri)
            if may_be_tried_again(error):
                return Conflicted(current_location=requests[0].expected, reason=translated.message)
            return Refused(error=translated)

    def commit_status(self, requests: Sequence[CommitRequest]) -> Outcome:
        return self._status(requests, "the metadata locations are still those from before")

    def _status(self, requests: Sequence[CommitRequest], reason: str) -> Outcome:
        """Determine how a commit ended by reading its rows; `reason` states why the outcome is unknown so far."""
        engine = self._store.engine
        can_lock = engine.dialect.name in ROW_LOCKS
        try:
            locations = self._current_locations(requests, is_locked=can_lock)
            # SQLite runs within this process, so that anything it has not committed by now it will never commit.
            is_final = can_lock or engine.dialect.name == "sqlite"
        except DBAPIError:
            try:  # without a lock, because a user with only read rights cannot lock rows
                locations, is_final = self._current_locations(requests, is_locked=False), False
            except DBAPIError as error:
                return Unknown(reason=f"{reason}; and then: {self._text_of(error)}")
        if any(locations[request.identifier] == request.new for request in requests):
            return Committed()
        unchanged = [request for request in requests if locations[request.identifier] == request.expected]
        if unchanged:
            # All rows change or none, so that one unchanged row decides for all of them. A row that does not exist yet cannot be locked.
            is_final = is_final and (not can_lock or any(request.expected is not None for request in unchanged))
            return Conflicted(current_location=unchanged[0].expected, reason=reason) if is_final else Unknown(reason=reason)
        first = requests[0]
        return Conflicted(current_location=locations[first.identifier], table=dotted(first.identifier), is_reply_lost=True)

    def _current_locations(self, requests: Sequence[CommitRequest], *, is_locked: bool) -> dict[Identifier, str | None]:
        engine = self._store.engine
        with engine.begin() as connection:
            if is_locked and engine.dialect.name == "postgresql":
                connection.execute(text(f"SET LOCAL lock_timeout = {LOCK_WAIT_MS}"))
            locations: dict[Identifier, str | None] = {}
            for request in _in_lock_order(requests):
                query = self._location_of(request.identifier)
                locations[request.identifier] = connection.execute(query.with_for_update() if is_locked else query).scalars().one_or_none()
        return locations

    def _compare_and_swap(self, connection: Connection, request: CommitRequest) -> bool:
        """Change a location by one conditional UPDATE, or INSERT a new name; return False if the location was not the expected one."""
        if request.expected is None:
            self._insert(connection, request)
            return True
        statement = (
            update(ICEBERG_TABLES)
            .where(self._is(request.identifier), ICEBERG_TABLES.c.metadata_location == request.expected)
            .values(metadata_location=request.new, previous_metadata_location=request.expected)
        )
        return connection.execute(statement).rowcount == 1

    def _insert(self, connection: Connection, request: CommitRequest) -> None:
        self._store.require_namespace(connection, request.identifier[:-1])
        values = {
            "catalog_name": self._store.name,
            "table_namespace": dotted(request.identifier[:-1]),
            "table_name": request.identifier[-1],
            "metadata_location": request.new,
            "previous_metadata_location": None,
        }
        if self._store.has_types:
            values["iceberg_type"] = self._kind.stored
        connection.execute(insert(ICEBERG_TABLES).values(values))

    def rename(self, source: Identifier, target: Identifier) -> None:
        *namespace, name = target
        try:
            with self._store.connection() as connection:
                self._store.require_namespace(connection, tuple(namespace))
                statement = update(ICEBERG_TABLES).where(self._is(source))
                renamed_rows = connection.execute(statement.values(table_namespace=".".join(namespace), table_name=name)).rowcount
        except IntegrityError as error:
            raise self._name_in_use(target) from error
        if renamed_rows == 0:
            raise self._missing(source)

    def drop(self, identifier: Identifier, *, expected: str | None = None) -> bool:
        """Drop a name. See `CatalogStore.drop`. Raises the errors of `load`."""
        statement = delete(ICEBERG_TABLES).where(self._is(identifier))
        if expected is not None:
            statement = statement.where(ICEBERG_TABLES.c.metadata_location == expected)
        with self._store.connection() as connection:
            deleted_rows = connection.execute(statement).rowcount
            exists = deleted_rows == 0 and connection.execute(self._location_of(identifier)).first() is not None
        if deleted_rows == 0 and not exists:
            raise self._missing(identifier)
        return deleted_rows > 0

    def _location_of(self, identifier: Identifier) -> Select[Any]:
        return select(ICEBERG_TABLES.c.metadata_location).where(self._is(identifier))

    def _in(self, namespace: str | BindParameter[str], name: str | BindParameter[str] | None = None) -> ColumnElement[bool]:
        """Return the SQL condition for the rows of all tables (or all views) in a namespace, or of the one with this name."""
        columns = ICEBERG_TABLES.c
        tests = [columns.catalog_name == self._store.name, columns.table_namespace == namespace]
        tests += [] if name is None else [columns.table_name == name]
        if self._store.has_types and self._kind is TABLE_NAMES:
            tests.append(or_(columns.iceberg_type == TABLE_TYPE, columns.iceberg_type.is_(None)))
        elif self._store.has_types:
            tests.append(columns.iceberg_type == self._kind.stored)
        return and_(*tests)

    def _is(self, identifier: Identifier) -> ColumnElement[bool]:
        return self._in(dotted(identifier[:-1]), identifier[-1])

    def _missing(self, identifier: Identifier) -> NotFoundError:
        other = self._other_kind(identifier)
        message = f"{self._kind.noun} {dotted(identifier)!r} does not exist in catalog {self._store.name!r}"
        if other is not None:
            return self._kind.missing(f"{message}: that name is a {other.noun}", next_step=f"load it with load_{other.noun}")
        return self._kind.missing(message, next_step=self._hint(identifier[:-1]))

    def _hint(self, namespace: Identifier) -> str:
        try:
            names = [dotted(name) for name in self.names(namespace)]
        except NoSuchNamespaceError:
            namespaces = ", ".join(map(dotted, self._store.list_namespaces())) or "none"
            with self._store.connection() as connection:
                others = self._store.others.suffix(connection)
            return f"the namespace {dotted(namespace)!r} does not exist either; there are: {namespaces}{others}"
        if not names:
            return f"the namespace {dotted(namespace)!r} holds no {self._kind.noun}; create it"
        return f"the namespace holds {', '.join(names[:_SHOWN_NAMES])}"

    def _other_kind(self, identifier: Identifier) -> NameKind | None:
        if not self._store.has_types:
            return None
        other = SqlLocations(self._store, VIEW_NAMES if self._kind is TABLE_NAMES else TABLE_NAMES)
        with self._store.connection() as connection:
            row = connection.execute(select(ICEBERG_TABLES.c.metadata_location).where(other._is(identifier))).first()
        return None if row is None else other._kind

    def _name_in_use(self, identifier: Identifier) -> AlreadyExistsError:
        kind = self._other_kind(identifier) or self._kind
        return kind.taken(
            f"{kind.noun} {dotted(identifier)!r} already exists in catalog {self._store.name!r}",
            next_step="load it, drop it, or choose another name",
        )

    def _text_of(self, error: DBAPIError) -> str:
        return shown_text(" ".join(str(error.orig).split()), self._store.uri) or type(error.orig).__name__


class SqlCatalogStore(SqlLocations):
    """A catalog store for the catalog `name` in the database at `uri`, an SQLAlchemy URL.

    A namespace exists if it has a row in the namespace table, contains a table, or contains a namespace.
    """

    drops_files = False

    def __init__(self, name: str, uri: str, *, echo: bool = False, add_types: bool = False, creates_tables: bool = True) -> None:
        """Connect, and create missing tables. `add_types` adds the column `iceberg_type`, which all catalogs in the database share."""
        self.name = name
        self.uri = uri
        self.others = OtherCatalogs(name)
        self.engine: Engine = open_engine(name, uri, echo=echo)
        self._is_file = is_database_file(self.engine.url)
        super().__init__(self, TABLE_NAMES)
        try:
            if creates_tables:
                self.create_tables()
            else:
                check_database_file(name, self.engine.url)
            self._read_columns()
            if add_types and not self.has_types:
                self._add_type_column()
        except BaseException:
            self.engine.dispose()  # the caller has no store object to close
            raise

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle only the URI: another process opens a new connection, and does not create or change tables of the database."""
        open_store = partial(SqlCatalogStore, echo=bool(self.engine.echo), creates_tables=False)
        return open_store, (self.name, uri_elsewhere(self.name, self.uri, self.engine.url))

    @property
    def has_types(self) -> bool:
        """Whether the column `iceberg_type` exists; without it, every name is a table."""
        return (ICEBERG_TABLES.name, ICEBERG_TABLES.c.iceberg_type.name) in self._lengths

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """Run the block in a transaction. Database errors are raised as errors of Icefloe, except `IntegrityError`, which means that the key exists."""
        try:
            with self.reported_wait(), self.engine.begin() as connection:
                yield connection
        except IntegrityError:
            raise
        except DBAPIError as error:
            raise database_error(error, self.name, self.uri) from shown_cause(error, self.uri)

    def reported_wait(self) -> AbstractContextManager[None]:
        """Return a context for a transaction that logs a warning if it waits long for the lock of an SQLite file, which another process holds."""
        return report_long_wait(REPORTED_WAIT_S, self._warn_of_wait) if self._is_file else nullcontext()

    def _warn_of_wait(self) -> None:
        warning = (
            "catalog %r at %s has waited %s s for the database, which another process has locked; it gives up after %s s and may try again. "
            "Next: find the process that has the file open, such as by lsof, and let it end its transaction"
        )
        LOG.warning(warning, self.name, without_password(self.uri), f"{REPORTED_WAIT_S:g}", SQLITE_LOCK_WAIT_S)

    def check_length(self, table: str, column: str, value: str, what: str) -> None:
        """Refuse a text that is too long for its column. SQLite would store it, but a copy in another database could not. Raises `InvalidInputError`."""
        most = self._lengths.get((table, column))
        if most is not None and len(value) > most:
            raise InvalidInputError(
                f"{what} is {len(value)} characters long, and the column {table}.{column} of catalog {self.name!r} takes {most}: {value[:60]}...",
                next_step="choose a shorter one",
            )

    def create_tables(self) -> None:
        """Create the missing tables of the catalog."""
        try:
            with self.engine.begin() as connection:
                create_missing_tables(connection)
        except DBAPIError as error:
            # Another process may have created them at the same moment.
            with self.connection() as connection:
                if missing_tables(connection):
                    raise database_error(error, self.name, self.uri) from shown_cause(error, self.uri)

    def drop_tables(self) -> None:
        """Drop the tables of the catalog, with the names of every catalog in the database; data files and metadata files are not deleted."""
        with self.connection() as connection:
            TABLES.drop_all(connection)

    def _read_columns(self) -> None:
        with self.connection() as connection:
            missing = missing_tables(connection)
            if missing:
                raise StorageUnavailableError(
                    f"catalog {self.name!r} at {without_password(self.uri)}: there is no table {', '.join(missing)}",
                    next_step="open the catalog once without init_catalog_tables=false, as a user who may create tables",
                )
            self._lengths = column_lengths(connection)

    def _add_type_column(self) -> None:
        try:
            with self.connection() as connection:
                add_type_column(connection)
        except StorageError:
            # Another process may have added the column meanwhile.
            self._read_columns()
            if not self.has_types:
                raise
        self._read_columns()

    def list_tables(self, namespace: Identifier) -> list[Identifier]:
        return self.names(namespace)

    def views(self) -> SqlLocations:
        """Return the store of the views. Raises `UnsupportedFeatureError` if the database lacks the column that distinguishes views from tables."""
        if self.has_types:
            return SqlLocations(self, VIEW_NAMES)
        raise UnsupportedFeatureError(
            f"catalog {self.name!r} has no views: its table {ICEBERG_TABLES.name} was made before there were views and lacks the column iceberg_type",
            next_step=f"let its users know, then open the catalog once with {SCHEMA_VERSION}=V1, which adds the column",
        )

    def rows(self) -> dict[str, list[dict[str, Any]]]:
        """Return every row of the two tables, by table name, for inspection."""
        with self.connection() as connection:
            rows_by_table = {}
            for table in (ICEBERG_TABLES, NAMESPACE_PROPERTIES):
                columns = [column for column in table.columns if self.has_types or column.name != "iceberg_type"]
                query = select(*columns).order_by(*table.primary_key)
                rows_by_table[table.name] = [dict(row) for row in connection.execute(query).mappings()]
        return rows_by_table

    def catalog_names(self) -> list[str]:
        """Return the sorted names of all catalogs in the database that have a table, a view or a namespace."""
        with self.connection() as connection:
            return catalog_names(connection)

    def warn_of_other_catalogs(self) -> None:
        """Log once that the database contains other catalogs, whether or not this catalog is empty."""
        with self.connection() as connection:
            self.others.warn(connection, of_full_ones=True)

    def _namespace_properties_of(self, namespace: str) -> ColumnElement[bool]:
        return and_(NAMESPACE_PROPERTIES.c.catalog_name == self.name, NAMESPACE_PROPERTIES.c.namespace == namespace)

    def _all_namespaces(self, connection: Connection) -> set[Identifier]:
        """Return every namespace that has a row in the namespace table, contains a table, or contains a namespace."""
        tables = select(ICEBERG_TABLES.c.table_namespace).where(ICEBERG_TABLES.c.catalog_name == self.name).distinct()
        owned = select(NAMESPACE_PROPERTIES.c.namespace).where(NAMESPACE_PROPERTIES.c.catalog_name == self.name).distinct()
        leaves = {tuple(row[0].split(".")) for query in (tables, owned) for row in connection.execute(query)}
        return {leaf[:depth] for leaf in leaves for depth in range(1, len(leaf) + 1)}

    def require_namespace(self, connection: Connection, namespace: Identifier) -> None:
        """Check that a namespace exists. Raises `NoSuchNamespaceError`."""
        if namespace not in self._all_namespaces(connection):
            namespaces = ", ".join(sorted(map(dotted, self._all_namespaces(connection)))) or "none yet"
            raise NoSuchNamespaceError(
                f"namespace {dotted(namespace)!r} does not exist in catalog {self.name!r}",
                next_step=f"create it with create_namespace({dotted(namespace)!r}); there are: {namespaces}{self.others.suffix(connection)}",
            )

    def list_namespaces(self, parent: Identifier = ()) -> list[Identifier]:
        with self.connection() as connection:
            if parent:
                self.require_namespace(connection, parent)
            depth = len(parent) + 1
            namespaces = self._all_namespaces(connection)
            if not namespaces:
                self.others.suffix(connection)
            return sorted(name for name in namespaces if len(name) == depth and name[: depth - 1] == parent)

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
        exists = namespace_exists(self.name, namespace)
        try:
            with self.connection() as connection:
                if namespace in self._all_namespaces(connection):
                    raise exists
                self.others.warn(connection)
                connection.execute(insert(NAMESPACE_PROPERTIES), self._rows(namespace, {NAMESPACE_EXISTS: "true", **properties}))
        except IntegrityError as error:
            raise exists from error

    def _rows(self, namespace: Identifier, properties: Mapping[str, str]) -> list[dict[str, str]]:
        table = NAMESPACE_PROPERTIES.name
        for key, value in properties.items():
            self.check_length(table, "property_key", key, f"the key of a property of namespace {dotted(namespace)!r}")
            self.check_length(table, "property_value", str(value), f"property {key!r} of namespace {dotted(namespace)!r}")
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
                content = [row[0] for row in rows] + [dotted(name) for name in below]
                raise namespace_not_empty(namespace, content)
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


@contextmanager
def report_long_wait(wait_s: float, report: Callable[[], None]) -> Iterator[None]:
    """Run the block, and call `report` once, from another thread, if the block takes longer than `wait_s` seconds."""
    waits, block, due_s = Process.waits, object(), time.monotonic() + wait_s
    waits.blocks[block] = (due_s, report)
    if due_s < waits.wakes_s:
        waits.wake()
    try:
        yield
    finally:
        waits.blocks.pop(block, None)


def _in_lock_order(requests: Sequence[CommitRequest]) -> list[CommitRequest]:
    """Return the requests in an order that is the same for every commit, so that two commits never wait for each other."""
    return sorted(requests, key=lambda request: request.identifier)
