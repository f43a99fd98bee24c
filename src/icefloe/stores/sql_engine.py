"""`open_engine`: the SQLAlchemy engine of a catalog's database, with a driver, timeouts, and connections that a fork does not share. Spec: Metastore Tables."""

import logging
import os
from importlib.util import find_spec
from typing import Any
from weakref import WeakSet

from sqlalchemy import URL, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError
from sqlalchemy.pool import QueuePool

from icefloe.errors import InvalidPropertyError, NotInstalledError, StorageUnavailableError
from icefloe.optional_packages import not_installed
from icefloe.stores.catalog_store import only_in_this_process
from icefloe.stores.database_uri import without_password
from icefloe.stores.sql_errors import shown_cause, shown_text

LOG = logging.getLogger(__name__)
# The seconds that a writer waits for SQLite's lock before it fails; a commit holds the lock for milliseconds.
SQLITE_LOCK_WAIT_S = 30
# Default options of libpq, by which a lost server is noticed: seconds to connect; seconds until a silent connection is probed, seconds between
# two probes, and their number; milliseconds that sent bytes (such as a COMMIT) may remain without an acknowledgement.
POSTGRES_OPTIONS = {
    "connect_timeout": "10",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
    "application_name": "icefloe",
}
# PostgreSQL drivers, in order of preference.
POSTGRES_DRIVERS = ("psycopg", "psycopg2")

# Connections are not shared with forked children, because both processes would write to the same connection.
_ENGINES: WeakSet[Engine] = WeakSet()


def open_engine(catalog: str, uri: str, *, echo: bool) -> Engine:
    """Create the engine for a catalog's URI, without connecting.

    Raises:
        InvalidPropertyError: the URI does not name a database.
        NotInstalledError: the driver for it is not installed; the error names what to install.
    """
    try:
        url = _absolute(with_driver(make_url(uri)))
        engine = _engine(url, echo=echo)
    except ImportError as error:
        raise _no_driver(catalog, uri, error) from error
    except (ArgumentError, NoSuchModuleError, ValueError) as error:
        raise InvalidPropertyError(
            f"catalog {catalog!r}: uri {without_password(uri)!r} names no database: {shown_text(str(error), uri)}",
            next_step="write it as sqlite:////folder/catalog.db or postgresql://user:password@host/database",
        ) from shown_cause(error, uri)
    if not _is_in_memory(url):  # such an in-memory database is copied with the process
        _ENGINES.add(engine)
    return engine


def check_database_file(catalog: str, url: URL) -> None:
    """Refuse an SQLite file that does not exist, because the first connection would create an empty file. Raises `StorageUnavailableError`."""
    if is_database_file(url) and not os.path.exists(str(url.database)):
        raise StorageUnavailableError(
            f"catalog {catalog!r}: there is no database file {url.database} on this machine",
            path=url.database,
            next_step="check the path; a database in a file can only be opened by processes that see the file, such as Spark's server on the same machine",
        )


def uri_elsewhere(catalog: str, uri: str, url: URL) -> str:
    """Return the URI by which a process with another working directory can open the same database.

    Raises:
        UnsupportedFeatureError: the database is in the memory of this process.
    """
    if _is_in_memory(url):
        raise only_in_this_process(catalog)
    return url.render_as_string(hide_password=False) if is_database_file(url) else uri


def _absolute(url: URL) -> URL:
    """Return the URL with the absolute path of a database file, because the working directory can change later."""
    return url.set(database=os.path.abspath(str(url.database))) if is_database_file(url) else url


def is_database_file(url: URL) -> bool:
    """Return whether the database is an SQLite file, which processes lock as a whole."""
    return url.get_backend_name() == "sqlite" and not _is_in_memory(url) and not str(url.database).startswith("file:")


def with_driver(url: URL) -> URL:
    """Add an installed driver to a PostgreSQL URL, `psycopg` or else `psycopg2`; return any other URL unchanged.

    Raises:
        ModuleNotFoundError: neither driver is installed.
    """
    dialect, _, driver = url.drivername.partition("+")
    if dialect not in ("postgresql", "postgres") or driver not in ("", *POSTGRES_DRIVERS):
        return url
    drivers = [driver] if driver else []
    for name in (*drivers, *POSTGRES_DRIVERS):
        if find_spec(name) is not None:
            return url.set(drivername=f"postgresql+{name}")
    raise ModuleNotFoundError("psycopg is not installed", name="psycopg")


def _engine(url: URL, *, echo: bool) -> Engine:
    if url.get_backend_name() == "sqlite":
        return _sqlite(url, echo=echo)
    options = {key: value for key, value in POSTGRES_OPTIONS.items() if key not in url.query} if "+psycopg" in url.drivername else {}
    # A connection that the server has closed meanwhile is detected and replaced before a statement fails on it.
    return create_engine(url, echo=echo, pool_pre_ping=True, connect_args=options)


def _sqlite(url: URL, *, echo: bool) -> Engine:
    if _is_in_memory(url):
        # The in-memory database is this one connection. Threads use it in turns, because one thread would otherwise commit the unfinished work of another.
        return create_engine(url, echo=echo, poolclass=QueuePool, pool_size=1, max_overflow=0, connect_args={"check_same_thread": False})
    engine = create_engine(url, echo=echo, connect_args={"timeout": SQLITE_LOCK_WAIT_S})
    event.listen(engine, "connect", _full_sync)
    return engine


def _is_in_memory(url: URL) -> bool:
    return url.get_backend_name() == "sqlite" and url.database in (None, "", ":memory:")


def _full_sync(connection: Any, _record: object) -> None:
    # An acknowledged commit must survive a power failure.
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
