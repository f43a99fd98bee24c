"""`SqlDatabase`: a catalog's database: its SQLAlchemy engine, transactions on it, and its tables, which are created if they are missing.

The engine has a driver, timeouts, and connections that a fork does not share. The errors are `sql_errors.py`; the statements are `sql_store.py` and
`sql_namespaces.py`. Spec: Metastore Tables.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any
from weakref import WeakSet

from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, NoSuchModuleError
from sqlalchemy.pool import QueuePool

from icefloe.catalog_store.database_uri import without_password
from icefloe.catalog_store.sql_errors import database_error, shown_cause, shown_text
from icefloe.catalog_store.sql_schema import ICEBERG_TABLES, NAMESPACE_PROPERTIES, TABLES
from icefloe.errors import InvalidInputError, InvalidPropertyError, NotInstalledError, StorageError, StorageUnavailableError
from icefloe.optional_packages import not_installed

_OURS = frozenset(table.name for table in TABLES.sorted_tables)
# Seconds a writer waits for SQLite's lock before it gives up; a commit holds it for milliseconds.
SQLITE_LOCK_WAIT_S = 30
# Options of libpq unless the URI sets them, so that a lost server is noticed: seconds to connect; seconds until a silent connection is probed, seconds between
# two probes, and their number; milliseconds that sent bytes (such as a COMMIT) may remain without an acknowledgement.
POSTGRES_OPTIONS = {
    "connect_timeout": "10",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
    "application_name": "icefloe",
}
# PostgreSQL drivers in the order in which they are looked for.
POSTGRES_DRIVERS = ("psycopg", "psycopg2")

# A child that used its parent's connections would mix its bytes with the parent's.
_ENGINES: WeakSet[Engine] = WeakSet()


class SqlDatabase:
    """The database at `uri` (an SQLAlchemy URL) as catalog `name` uses it."""

    def __init__(self, name: str, uri: str, *, echo: bool = False, add_types: bool = False, creates_tables: bool = True) -> None:
        """Prepare to connect. `add_types` adds the column `iceberg_type`, which all catalogs in the database share, where it is missing."""
        self.name = name
        self.uri = uri
        self.engine: Engine = open_engine(name, uri, echo=echo)
        try:
            if creates_tables:
                self.create_tables()
            else:
                self._check_file_exists()
            self._look_at_columns()
            if add_types and not self.has_types:
                self._add_type_column()
        except BaseException:
            self.engine.dispose()  # the caller has no store to close
            raise

    @property
    def has_types(self) -> bool:
        """Whether there is a column `iceberg_type`; where there is none, every name is a table."""
        return (ICEBERG_TABLES.name, ICEBERG_TABLES.c.iceberg_type.name) in self._lengths

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """Run the block in one transaction. Database errors are raised as errors of Icefloe, except for `IntegrityError`: the key is taken."""
        try:
            with self.engine.begin() as connection:
                yield connection
        except IntegrityError:
            raise
        except DBAPIError as error:
            raise database_error(error, self.name, self.uri) from shown_cause(error, self.uri)

    def check_length(self, table: str, column: str, value: str, what: str) -> None:
        """Refuse a text that the column cannot store. SQLite stores it anyway, and a copy in another database could not. Raises `InvalidInputError`."""
        most = self._lengths.get((table, column))
        if most is not None and len(value) > most:
            raise InvalidInputError(
                f"{what} is {len(value)} characters long, and the column {table}.{column} of catalog {self.name!r} takes {most}: {value[:60]}...",
                next_step="choose a shorter one",
            )

    def drop_tables(self) -> None:
        """Drop the tables of the catalog, with the names of every catalog in the database; data files and metadata files stay."""
        with self.connection() as connection:
            TABLES.drop_all(connection)

    def create_tables(self) -> None:
        """Create the tables of the catalog that are missing."""
        try:
            with self.engine.begin() as connection:
                existing = set(inspect(connection).get_table_names())
                TABLES.create_all(connection, tables=[table for table in TABLES.sorted_tables if table.name not in existing])
        except DBAPIError as error:
            # Another process may have made them at this very moment.
            with self.connection() as connection:
                if not set(inspect(connection).get_table_names()) >= _OURS:
                    raise database_error(error, self.name, self.uri) from shown_cause(error, self.uri)

    def _check_file_exists(self) -> None:
        """Refuse an SQLite file that does not exist, because the first connection would create an empty one."""
        url = self.engine.url
        if url.get_backend_name() != "sqlite" or _is_in_memory(url) or str(url.database).startswith("file:"):
            return
        if not os.path.exists(str(url.database)):
            raise StorageUnavailableError(
                f"catalog {self.name!r}: there is no database file {url.database} on this machine",
                path=url.database,
                next_step="check the path; a database in a file can only be opened by processes that see the file, such as Spark's server on the same machine",
            )

    def _look_at_columns(self) -> None:
        with self.connection() as connection:
            found = inspect(connection)
            missing = sorted(_OURS.difference(found.get_table_names()))
            if missing:
                raise StorageUnavailableError(
                    f"catalog {self.name!r} at {without_password(self.uri)}: there is no table {', '.join(missing)}",
                    next_step="open the catalog once without init_catalog_tables=false, as a user who may create tables",
                )
            # A column that another implementation made may have no length.
            self._lengths: dict[tuple[str, str], int | None] = {
                (table.name, column["name"]): getattr(column["type"], "length", None)
                for table in (ICEBERG_TABLES, NAMESPACE_PROPERTIES)
                for column in found.get_columns(table.name)
            }

    def _add_type_column(self) -> None:
        column = ICEBERG_TABLES.c.iceberg_type
        try:
            with self.connection() as connection:
                kind = column.type.compile(self.engine.dialect)
                connection.execute(text(f"ALTER TABLE {ICEBERG_TABLES.name} ADD COLUMN {column.name} {kind}"))
        except StorageError:
            # Another process may have added it since we looked.
            self._look_at_columns()
            if not self.has_types:
                raise
        self._look_at_columns()


def open_engine(catalog: str, uri: str, *, echo: bool) -> Engine:
    """Return the engine for a catalog's URI, without connecting.

    Raises:
        InvalidPropertyError: the URI does not name a database.
        NotInstalledError: the driver for it is not installed; the error names what to install.
    """
    try:
        url = with_driver(make_url(uri))
        engine = _engine(url, echo=echo)
    except ImportError as error:
        raise _no_driver(catalog, uri, error) from error
    except (ArgumentError, NoSuchModuleError, ValueError) as error:
        raise InvalidPropertyError(
            f"catalog {catalog!r}: uri {without_password(uri)!r} names no database: {shown_text(str(error), uri)}",
            next_step="write it as sqlite:////folder/catalog.db or postgresql://user:password@host/database",
        ) from shown_cause(error, uri)
    if not _is_in_memory(url):  # that one is copied with the process
        _ENGINES.add(engine)
    return engine


def with_driver(url: URL) -> URL:
    """Add an installed driver to a PostgreSQL URL: `psycopg`, or `psycopg2` if that one is installed; return any other URL unchanged.

    Raises:
        ModuleNotFoundError: neither is installed.
    """
    dialect, _, driver = url.drivername.partition("+")
    if dialect not in ("postgresql", "postgres") or driver not in ("", *POSTGRES_DRIVERS):
        return url
    wanted = [driver] if driver else []
    for name in (*wanted, *POSTGRES_DRIVERS):
        if find_spec(name) is not None:
            return url.set(drivername=f"postgresql+{name}")
    raise ModuleNotFoundError("psycopg is not installed", name="psycopg")


def _engine(url: URL, *, echo: bool) -> Engine:
    if url.get_backend_name() == "sqlite":
        return _sqlite(url, echo=echo)
    options = {key: value for key, value in POSTGRES_OPTIONS.items() if key not in url.query} if "+psycopg" in url.drivername else {}
    # A connection that the server closed meanwhile is found and replaced before a statement is lost on it.
    return create_engine(url, echo=echo, pool_pre_ping=True, connect_args=options)


def _sqlite(url: URL, *, echo: bool) -> Engine:
    if _is_in_memory(url):
        # The connection is the database. Threads take it in turns, or one would commit what another has half done.
        return create_engine(url, echo=echo, poolclass=QueuePool, pool_size=1, max_overflow=0, connect_args={"check_same_thread": False})
    engine = create_engine(url, echo=echo, connect_args={"timeout": SQLITE_LOCK_WAIT_S})
    event.listen(engine, "connect", _full_sync)
    return engine


def _is_in_memory(url: URL) -> bool:
    return url.get_backend_name() == "sqlite" and url.database in (None, "", ":memory:")


def _full_sync(connection: Any, _record: object) -> None:
    # A commit that was acknowledged must outlive a power cut.
    cursor = connection.cursor()
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.close()


def _no_driver(catalog: str, uri: str, error: ImportError) -> NotInstalledError:
    extra = "postgres" if uri.startswith("postgres") else None
    return not_installed(f"catalog {catalog!r} at {without_password(uri)}", str(error.name or error), extra=extra, cause=error)


def _drop_connections() -> None:
    for engine in list(_ENGINES):
        engine.dispose(close=False)


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_drop_connections)
