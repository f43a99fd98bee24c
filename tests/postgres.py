"""A PostgreSQL server of the tests' own: Debian's programs, on a free port of loopback, in a folder that goes at the end.

Its programs are looked for where Debian's packages put them and on the PATH; where they are not, Debian's package is unpacked into a cache folder. Where
neither can be had, tests that need it are skipped and say why.
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
# Seconds for the server to answer; a loaded machine takes a while.
START_S = 60
SETTINGS = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "max_connections": "60", "shared_buffers": "16MB"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresServer:
    """A running server. `uri` is that of a database for its owner."""

    port: int
    numbers: Iterator[int]

    def uri(self, database: str, *, user: str = OWNER, password: str = PASSWORD, port: int | None = None) -> str:
        """SQLAlchemy's URI, as users write it."""
        return f"postgresql://{user}:{password.replace('/', '%2F')}@127.0.0.1:{port or self.port}/{database}"

    def engine(self, database: str) -> Engine:
        """Statements of their own transaction each, which nobody but the test runs."""
        uri = self.uri(database).replace("postgresql:", "postgresql+psycopg:")
        return create_engine(uri, poolclass=NullPool, isolation_level="AUTOCOMMIT")

    def run(self, database: str, *statements: str) -> list[tuple[object, ...]]:
        """Runs statements and returns the rows of the last one."""
        rows: list[tuple[object, ...]] = []
        with self.engine(database).connect() as connection:
            for statement in statements:
                rows = _rows(connection, statement)
        return rows

    def new_database(self) -> str:
        """An empty database's name."""
        name = f"lake_{next(self.numbers)}"
        self.run("postgres", f"CREATE DATABASE {name}")
        return name

    def drop_database(self, name: str) -> None:
        """Also with connections open."""
        self.run("postgres", f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


def _rows(connection: Connection, statement: str) -> list[tuple[object, ...]]:
    done = connection.execute(text(statement))
    return [tuple(row) for row in done] if done.returns_rows else []


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A server for all tests of this process."""
    with running_postgres() as server:
        yield server


@contextmanager
def running_postgres() -> Iterator[PostgresServer]:
    """A new server, stopped and removed at the end."""
    pytest.importorskip("psycopg", reason='the driver is not installed: pip install "icefloe[postgres]"')
    programs = _programs()
    folder = Path(tempfile.mkdtemp(prefix="icefloe-pg-"))
    process = None
    try:
        process, server = _start(programs, folder)
        yield server
    finally:
        if process is not None:
            process.send_signal(signal.SIGINT)  # a fast shutdown: sessions are ended
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def postgres_database(postgres: PostgresServer) -> Iterator[str]:
    """The name of an empty database, which goes after the test."""
    name = postgres.new_database()
    yield name
    postgres.drop_database(name)


@pytest.fixture
def postgres_uri(postgres: PostgresServer, postgres_database: str) -> str:
    """The URI of an empty database."""
    return postgres.uri(postgres_database)


def _programs() -> Path:
    """The folder of initdb and postgres."""
    for folder in (*sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True), *sorted(CACHE.glob("usr/lib/postgresql/*/bin"))):
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    found = shutil.which("initdb")
    if found is not None and (Path(found).resolve().parent / "postgres").exists():
        return Path(found).resolve().parent
    return _unpacked()


def _unpacked() -> Path:
    if shutil.which("apt-get") is None:
        pytest.skip("there is no PostgreSQL server on this machine, and no apt-get to fetch Debian's package with")
    depends = subprocess.run(["apt-cache", "depends", "postgresql"], capture_output=True, text=True, check=False).stdout
    names = [line.split()[-1] for line in depends.splitlines() if "Depends: postgresql-" in line]
    if not names:
        pytest.skip("there is no PostgreSQL server on this machine, and apt-get knows no package of it: run `apt-get update`")
    CACHE.mkdir(parents=True, exist_ok=True)
    wanted = [names[0], names[0].replace("postgresql-", "postgresql-client-"), "libpq5"]
    done = subprocess.run(["apt-get", "download", *wanted], cwd=CACHE, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(
            f"there is no PostgreSQL server on this machine, and Debian's package could not be fetched: {done.stderr.strip()[-200:]}"
        )
    for package in CACHE.glob("*.deb"):
        subprocess.run(["dpkg-deb", "-x", str(package), str(CACHE)], check=True)
    found = sorted(CACHE.glob("usr/lib/postgresql/*/bin"))
    if not found:
        pytest.skip(f"Debian's package {names[0]} holds no server")
    return found[-1]


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
    """The user to run the server as: root may not."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    found = next((name for name in ("postgres", "nobody") if name in names), None)
    if found is None:
        pytest.skip("root may not run a PostgreSQL server, and there is no user postgres or nobody")
    return found


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])
