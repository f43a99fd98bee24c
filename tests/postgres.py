"""Fixtures for a PostgreSQL server that runs for the tests: on a free loopback port, with its data in a temporary folder.

The programs are those of Debian's packages or on the PATH; if there are none, Debian's package is unpacked to a cache folder. If that fails too, tests that
need the server are skipped with the reason.
"""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest
from sqlalchemy import Connection, Engine, create_engine, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import NullPool

OWNER, PASSWORD = "lake", "sea/salt"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "icefloe-tests" / "postgresql"
# Seconds to wait for the server, which starts slowly on a loaded machine.
START_S = 60
SETTINGS = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "max_connections": "60", "shared_buffers": "16MB"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresServer:
    """A running server; `numbers` gives new databases their names."""

    port: int
    numbers: Iterator[int]

    def uri(self, database: str, *, user: str = OWNER, password: str = PASSWORD, port: int | None = None) -> str:
        """Return the SQLAlchemy URI of a database, as users write it."""
        return f"postgresql://{user}:{password.replace('/', '%2F')}@127.0.0.1:{port or self.port}/{database}"

    def engine(self, database: str) -> Engine:
        """Return an engine for statements of the test itself, each in its own transaction."""
        uri = self.uri(database).replace("postgresql:", "postgresql+psycopg:")
        return create_engine(uri, poolclass=NullPool, isolation_level="AUTOCOMMIT")

    def run(self, database: str, *statements: str) -> list[tuple[object, ...]]:
        """Run statements and return the rows of the last one."""
        rows: list[tuple[object, ...]] = []
        with self.engine(database).connect() as connection:
            for statement in statements:
                rows = _rows(connection, statement)
        return rows

    def new_database(self) -> str:
        """Create an empty database and return its name."""
        name = f"lake_{next(self.numbers)}"
        self.run("postgres", f"CREATE DATABASE {name}")
        return name

    def drop_database(self, name: str) -> None:
        """Drop a database, also with open connections."""
        self.run("postgres", f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


def _rows(connection: Connection, statement: str) -> list[tuple[object, ...]]:
    done = connection.execute(text(statement))
    return [tuple(row) for row in done] if done.returns_rows else []


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """Start one server for all tests of this process."""
    with running_postgres() as server:
        yield server


@contextmanager
def running_postgres() -> Iterator[PostgresServer]:
    """Start a new server; stop and remove it at the end."""
    pytest.importorskip("psycopg", reason='the driver is not installed: pip install "icefloe[postgres]"')
    programs = _programs()
    folder = Path(tempfile.mkdtemp(prefix="icefloe-pg-"))
    process = None
    try:
        process, server = _start(programs, folder)
        yield server
    finally:
        if process is not None:
            process.send_signal(signal.SIGINT)  # a fast shutdown, which ends sessions
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def postgres_database(postgres: PostgresServer) -> Iterator[str]:
    """Create an empty database for one test and return its name."""
    name = postgres.new_database()
    yield name
    postgres.drop_database(name)


@pytest.fixture(scope="session")
def shared_postgres_database(postgres: PostgresServer) -> str:
    """Create the database of all tests that use `emptied_postgres_uri`."""
    return postgres.new_database()


@pytest.fixture
def emptied_postgres_uri(postgres: PostgresServer, shared_postgres_database: str) -> str:
    """Return the URI of a database without tables, which tests use one after the other: a new one takes five times as long."""
    postgres.run(shared_postgres_database, "DROP SCHEMA public CASCADE", "CREATE SCHEMA public")
    return postgres.uri(shared_postgres_database)


@pytest.fixture
def postgres_uri(postgres: PostgresServer, postgres_database: str) -> str:
    """Return the URI of an empty database."""
    return postgres.uri(postgres_database)


def _programs() -> Path:
    """Return the folder of initdb and postgres."""
    for folder in (*sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True), *sorted(CACHE.glob("usr/lib/postgresql/*/bin"))):
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    initdb = shutil.which("initdb")
    if initdb is not None and (Path(initdb).resolve().parent / "postgres").exists():
        return Path(initdb).resolve().parent
    return _unpacked()


def _unpacked() -> Path:
    if shutil.which("apt-get") is None:
        pytest.skip("there is no PostgreSQL server on this machine, and no apt-get to download Debian's package")
    depends = subprocess.run(["apt-cache", "depends", "postgresql"], capture_output=True, text=True, check=False).stdout
    names = [line.split()[-1] for line in depends.splitlines() if "Depends: postgresql-" in line]
    if not names:
        pytest.skip("there is no PostgreSQL server on this machine, and apt-get has no package of it: run `apt-get update`")
    CACHE.mkdir(parents=True, exist_ok=True)
    packages = [names[0], names[0].replace("postgresql-", "postgresql-client-"), "libpq5"]
    done = subprocess.run(["apt-get", "download", *packages], cwd=CACHE, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(
            f"there is no PostgreSQL server on this machine, and Debian's package could not be downloaded: {done.stderr.strip()[-200:]}"
        )
    for package in CACHE.glob("*.deb"):
        subprocess.run(["dpkg-deb", "-x", str(package), str(CACHE)], check=True)
    folders = sorted(CACHE.glob("usr/lib/postgresql/*/bin"))
    if not folders:
        pytest.skip(f"Debian's package {names[0]} contains no server")
    return folders[-1]


def _start(programs: Path, folder: Path) -> tuple[subprocess.Popen[bytes], PostgresServer]:
    user = _unprivileged()
    data, secret, log = folder / "data", folder / "password", folder / "log"
    data.mkdir(mode=0o700)
    secret.write_text(PASSWORD)
    log.touch()
    if user is not None:
        for path in (folder, data, secret, log):
            shutil.chown(path, user)
    libraries = [str(path) for path in CACHE.glob("usr/lib/*-linux-gnu")] if programs.is_relative_to(CACHE) else []
    environment = {**os.environ, "LC_ALL": "C", **({"LD_LIBRARY_PATH": ":".join(libraries)} if libraries else {})}
    made = subprocess.run(
        [programs / "initdb", "-D", data, "-U", OWNER, "-A", "scram-sha-256", f"--pwfile={secret}", "-E", "UTF8", "--no-sync"],
        capture_output=True,
        text=True,
        check=False,
        user=user,
        env=environment,
        cwd=folder,
    )
    if made.returncode:
        pytest.skip(f"initdb of {programs} failed: {made.stderr.strip()[-300:]}")
    port = _free_port()
    options = [part for key, value in SETTINGS.items() for part in ("-c", f"{key}={value}")]
    command = [programs / "postgres", "-D", data, "-h", "127.0.0.1", "-p", str(port), "-k", folder, *options]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, user=user, env=environment, cwd=folder)
    server = PostgresServer(port=port, numbers=count())
    _wait_for(server, process, log)
    return process, server


def _wait_for(server: PostgresServer, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + START_S
    while True:
        try:
            server.run("postgres", "SELECT 1")
            return
        except OperationalError as error:
            if process.poll() is not None or time.monotonic() > until:
                process.kill()
                process.wait()
                pytest.skip(f"the PostgreSQL server did not start: {error.orig}; its log ends in {log.read_text()[-500:]}")
            time.sleep(0.1)


def _unprivileged() -> str | None:
    """Return the user that runs the server, which root must not; None for the current user."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    user = next((name for name in ("postgres", "nobody") if name in names), None)
    if user is None:
        pytest.skip("root may not run a PostgreSQL server, and there is no unprivileged user for it, such as postgres")
    return user


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])
