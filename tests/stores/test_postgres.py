"""The SQL catalog on a real PostgreSQL server: connections lost during a compare-and-swap, rights that are missing or revoked, and refused logins."""

import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from sqlalchemy import Connection, event
from tests.lossy_proxy import Loss, lossy_proxy
from tests.postgres import OWNER, PASSWORD, PostgresServer

from icefloe import SqlCatalog
from icefloe.commit.outcome import Committed, Conflicted, Refused, Unknown
from icefloe.errors import InvalidInputError, StorageError, StoragePermissionError, StorageUnavailableError, TableAlreadyExistsError
from icefloe.stores.catalog_store import CommitRequest
from icefloe.stores.sql_store import SqlCatalogStore

pytestmark = pytest.mark.postgres
NAME = ("db", "t")
OTHER = "other"  # the password of roles that tests create
SCHEMA = pa.schema([("n", pa.int64())])
QUICK = {
    "commit.retry.min-wait-ms": "1",
    "commit.retry.max-wait-ms": "20",
    "commit.retry.num-retries": "40",
    "commit.status-check.min-wait-ms": "1",
}


def row_of(number: int) -> pa.Table:
    return pa.table({"n": pa.array([number], pa.int64())})


@pytest.fixture
def store(postgres_uri: str) -> Iterator[SqlCatalogStore]:
    opened = SqlCatalogStore("lake", postgres_uri)
    opened.create_namespace(("db",), {})
    opened.create(NAME, "m0")
    yield opened
    opened.engine.dispose()


@pytest.fixture
def catalog(postgres_uri: str, tmp_path: Path) -> Iterator[SqlCatalog]:
    catalog = SqlCatalog("lake", uri=postgres_uri, warehouse=str(tmp_path))
    catalog.create_namespace("db")
    catalog.create_table("db.t", SCHEMA, properties=QUICK)
    yield catalog
    catalog.close()


def numbers(catalog: SqlCatalog) -> list[int]:
    return sorted(catalog.load_table("db.t").scan().to_arrow()["n"].to_pylist())


def files(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file()}


def test_names_and_compare_and_swap_work_as_on_sqlite(store: SqlCatalogStore) -> None:
    assert store.commit([CommitRequest(identifier=NAME, expected="m0", new="m1")]) == Committed()
    assert store.commit([CommitRequest(identifier=NAME, expected="m0", new="m2")]) == Conflicted(current_location="m1")
    assert store.load(NAME).previous_metadata_location == "m0"
    with pytest.raises(TableAlreadyExistsError):
        store.create(NAME, "m9")
    assert store.commit([CommitRequest(identifier=("db", "none"), expected="m0", new="m1")]) == Conflicted(current_location=None)


def test_a_backend_killed_before_its_commit_is_a_conflict_that_is_retried(store: SqlCatalogStore, postgres: PostgresServer) -> None:
    def kill(connection: Connection) -> None:
        backend = connection.connection.dbapi_connection.info.backend_pid  # type: ignore[union-attr]
        postgres.run("postgres", f"SELECT pg_terminate_backend({backend})")

    event.listen(store.engine, "commit", kill, once=True)
    outcome = store.commit([CommitRequest(identifier=NAME, expected="m0", new="m1")])
    assert isinstance(outcome, Conflicted)
    assert (outcome.current_location, outcome.reason is not None) == ("m0", True)
    assert store.load(NAME).metadata_location == "m0"


def test_a_backend_killed_before_its_update_is_a_conflict_that_is_retried(store: SqlCatalogStore, postgres: PostgresServer) -> None:
    def kill(connection: Connection, *_: object) -> None:
        backend = connection.connection.dbapi_connection.info.backend_pid  # type: ignore[union-attr]
        postgres.run("postgres", f"SELECT pg_terminate_backend({backend})")

    event.listen(store.engine, "before_cursor_execute", kill, once=True)
    outcome = store.commit([CommitRequest(identifier=NAME, expected="m0", new="m1")])
    assert isinstance(outcome, Conflicted)
    assert outcome.reason is not None
    assert "terminating connection" in outcome.reason


@pytest.mark.parametrize(("loss", "lands"), [(Loss.REPLY, True), (Loss.COMMIT, False), (Loss.LATE, True)])
def test_a_lost_reply_is_distinguished_from_a_lost_commit(
    store: SqlCatalogStore, postgres: PostgresServer, postgres_database: str, loss: Loss, lands: bool
) -> None:
    """Check also a COMMIT that arrives after the client was cut off: the row lock makes the commit status check wait for it."""
    with lossy_proxy(postgres.port) as proxy:
        through = SqlCatalogStore("lake", postgres.uri(postgres_database, port=proxy.port))
        through.load(NAME)
        proxy.losses.append(loss)
        outcome = through.commit([CommitRequest(identifier=NAME, expected="m0", new="m1")])
        through.engine.dispose()
    found = store.load(NAME).metadata_location
    assert found == ("m1" if lands else "m0")
    assert isinstance(outcome, Committed) if lands else isinstance(outcome, Conflicted) and outcome.current_location == "m0"


@pytest.mark.parametrize("loss", list(Loss))
def test_appends_through_a_proxy_that_loses_commits_are_committed_once(
    catalog: SqlCatalog, postgres: PostgresServer, postgres_database: str, tmp_path: Path, loss: Loss
) -> None:
    with lossy_proxy(postgres.port) as proxy:
        through = SqlCatalog("lake", uri=postgres.uri(postgres_database, port=proxy.port), warehouse=str(tmp_path))
        table = through.load_table("db.t")
        for number in range(3):
            proxy.losses.append(loss)
            table.append(row_of(number))
        through.close()
    assert numbers(catalog) == [0, 1, 2]
    assert len(list(tmp_path.rglob("snap-*.avro"))) == 3


def test_a_lost_reply_to_a_user_who_may_only_read_is_an_unknown_commit_state(
    store: SqlCatalogStore, postgres: PostgresServer, postgres_database: str
) -> None:
    reader = reader_of(postgres, postgres_database)
    changes = [CommitRequest(identifier=NAME, expected="m0", new="m1")]
    assert isinstance(reader.commit_status(changes), Unknown), "without the row's lock a swap may still land"
    store.commit([CommitRequest(identifier=NAME, expected="m0", new="m1")])
    assert reader.commit_status(changes) == Committed()
    reader.engine.dispose()


def reader_of(postgres: PostgresServer, database: str, rights: str = "SELECT") -> SqlCatalogStore:
    user = f"reader_{database}"
    postgres.run(
        database,
        f"CREATE ROLE {user} LOGIN PASSWORD '{OTHER}'",
        f"GRANT {rights} ON iceberg_tables, iceberg_namespace_properties TO {user}",
    )
    return SqlCatalogStore("lake", postgres.uri(database, user=user, password=OTHER))


def test_a_read_only_role_can_read_and_its_writes_name_the_missing_right(
    store: SqlCatalogStore, postgres: PostgresServer, postgres_database: str
) -> None:
    reader = reader_of(postgres, postgres_database)
    assert reader.load(NAME).metadata_location == "m0"
    outcome = reader.commit([CommitRequest(identifier=NAME, expected="m0", new="m1")])
    assert isinstance(outcome, Refused)
    assert isinstance(outcome.error, StoragePermissionError)
    assert "GRANT SELECT, INSERT, UPDATE, DELETE" in str(outcome.error)
    with pytest.raises(StoragePermissionError, match="permission denied"):
        reader.create(("db", "u"), "m0")
    reader.engine.dispose()


def test_a_right_revoked_during_commits_leaves_no_partial_commit(
    catalog: SqlCatalog, postgres: PostgresServer, postgres_database: str, tmp_path: Path
) -> None:
    user = f"writer_{postgres_database}"
    tables = "iceberg_tables, iceberg_namespace_properties"
    postgres.run(postgres_database, f"CREATE ROLE {user} LOGIN PASSWORD '{OTHER}'", f"GRANT ALL ON {tables} TO {user}")
    own = SqlCatalog("lake", uri=postgres.uri(postgres_database, user=user, password=OTHER), warehouse=str(tmp_path))
    table = own.load_table("db.t")
    table.append(row_of(1))
    before = files(tmp_path)
    postgres.run(postgres_database, f"REVOKE UPDATE ON iceberg_tables FROM {user}")
    with pytest.raises(StoragePermissionError, match="permission denied for table iceberg_tables"):
        table.append(row_of(2))
    assert files(tmp_path) == before, "what was written for the refused commit is gone"
    assert numbers(catalog) == [1]
    postgres.run(postgres_database, f"GRANT UPDATE ON iceberg_tables TO {user}")
    table.append(row_of(3))
    assert numbers(catalog) == [1, 3]
    own.close()


def test_an_error_reports_a_server_that_refuses_writes(
    catalog: SqlCatalog, postgres: PostgresServer, postgres_database: str, tmp_path: Path
) -> None:
    postgres.run("postgres", f"ALTER DATABASE {postgres_database} SET default_transaction_read_only = on")
    standby = SqlCatalog("lake", uri=postgres.uri(postgres_database), warehouse=str(tmp_path))
    before = files(tmp_path)
    with pytest.raises(StoragePermissionError, match="read-only transaction") as refused:
        standby.load_table("db.t").append(row_of(1))
    assert "standby" in str(refused.value)
    assert files(tmp_path) == before
    standby.close()


def test_many_writers_in_serializable_transactions_lose_no_rows(
    catalog: SqlCatalog, postgres: PostgresServer, postgres_database: str, tmp_path: Path
) -> None:
    postgres.run("postgres", f"ALTER DATABASE {postgres_database} SET default_transaction_isolation = serializable")

    def append(writer: int) -> None:
        own = SqlCatalog("lake", uri=postgres.uri(postgres_database), warehouse=str(tmp_path))
        table = own.load_table("db.t")
        for number in range(4):
            table.append(row_of(writer * 10 + number))
        own.close()

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(append, range(4)))
    assert numbers(catalog) == sorted(writer * 10 + number for writer in range(4) for number in range(4))


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        ({"password": "wrong"}, StoragePermissionError, "the user and the password"),
        ({"user": "nobody_known"}, StoragePermissionError, "the user and the password"),
        ({"port": 1}, StorageUnavailableError, "the host and the port"),
        ({"database": "nowhere"}, StorageUnavailableError, "create the database"),
    ],
)
def test_each_fault_in_a_uri_has_its_own_next_step(
    postgres: PostgresServer, change: dict[str, object], kind: type[StorageError], message: str
) -> None:
    given = {"database": "postgres", **change}
    uri = postgres.uri(str(given.pop("database")), **given)  # type: ignore[arg-type]
    with pytest.raises(kind, match=message) as refused:
        SqlCatalogStore("lake", uri)
    assert "wrong" not in str(refused.value)
    assert PASSWORD not in str(refused.value)
    assert "***" in str(refused.value)


def test_an_error_names_an_unknown_host() -> None:
    pytest.importorskip("psycopg", reason="the driver is not installed")
    with pytest.raises(StorageUnavailableError, match="the host and the port"):
        SqlCatalogStore("lake", "postgresql://me:x@nowhere.invalid/db")


def test_an_error_reports_that_the_user_may_not_create_tables(postgres: PostgresServer, postgres_database: str) -> None:
    user = f"stranger_{postgres_database}"
    postgres.run(postgres_database, f"CREATE ROLE {user} LOGIN PASSWORD '{OTHER}'", "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    uri = postgres.uri(postgres_database, user=user, password=OTHER)
    with pytest.raises(StoragePermissionError, match="permission denied for schema public"):
        SqlCatalogStore("lake", uri)
    with pytest.raises(StorageUnavailableError, match="there is no table iceberg_namespace_properties, iceberg_tables"):
        SqlCatalogStore("lake", uri, creates_tables=False)


def test_catalogs_opened_concurrently_on_an_empty_database_all_open(postgres_uri: str) -> None:
    def opened(_: int) -> None:
        SqlCatalogStore("lake", postgres_uri).engine.dispose()

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(opened, range(6)))


def test_a_location_longer_than_its_column_is_refused_before_anything_is_written(catalog: SqlCatalog, tmp_path: Path) -> None:
    long = f"memory://{'x' * 1000}"
    with pytest.raises(InvalidInputError, match=r"takes 1000"):
        catalog.create_table("db.long", SCHEMA, location=long)
    with pytest.raises(InvalidInputError, match=r"takes 1000"):
        catalog.load_table("db.t").set_properties({"write.metadata.path": long})
    assert catalog.list_tables("db") == [NAME]
    with pytest.raises(InvalidInputError, match="property 'note'"):
        catalog.update_namespace_properties("db", updates={"note": "n" * 1001})
    assert catalog.load_namespace_properties("db") == {}


def test_a_catalog_whose_columns_are_text_accepts_locations_of_any_length(
    postgres: PostgresServer, postgres_database: str, postgres_uri: str
) -> None:
    postgres.run(
        postgres_database,
        "CREATE TABLE iceberg_tables (catalog_name text, table_namespace text, table_name text, metadata_location text, "
        "previous_metadata_location text, iceberg_type text, PRIMARY KEY (catalog_name, table_namespace, table_name))",
    )
    store = SqlCatalogStore("lake", postgres_uri)
    store.create_namespace(("db",), {})
    assert store.create(NAME, "m" * 3000) == "m" * 3000
    assert store.load(NAME).metadata_location == "m" * 3000
    store.engine.dispose()


def test_connections_that_the_server_closed_are_replaced(store: SqlCatalogStore, postgres: PostgresServer, postgres_database: str) -> None:
    postgres.run("postgres", f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{postgres_database}'")
    assert store.load(NAME).metadata_location == "m0"


def test_a_child_process_does_not_use_its_parents_connections(postgres_uri: str, tmp_path: Path) -> None:
    script = """
import json, os, sys
from icefloe import SqlCatalog
import pyarrow as pa
catalog = SqlCatalog("lake", uri=sys.argv[1], warehouse=sys.argv[2])
catalog.create_namespace("db")
catalog.create_table("db.t", pa.schema([("n", pa.int64())]), properties=json.loads(sys.argv[3]))
children = []
for child in range(2):
    process = os.fork()
    if not process:
        table = catalog.load_table("db.t")
        for number in range(2):
            table.append(pa.table({"n": [child * 10 + number]}))
        os._exit(0)
    children.append(process)
table = catalog.load_table("db.t")
for number in range(2):
    table.append(pa.table({"n": [90 + number]}))
assert [os.waitpid(process, 0)[1] for process in children] == [0, 0]
print(sorted(catalog.load_table("db.t").scan().to_arrow()["n"].to_pylist()))
"""
    done = subprocess.run(
        [sys.executable, "-c", script, postgres_uri, str(tmp_path), json.dumps(QUICK)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip() == str(sorted(writer * 10 + number for writer in (0, 1, 9) for number in range(2)))


def test_a_uri_of_pyiceberg_is_accepted(postgres: PostgresServer, postgres_database: str) -> None:
    for form in ("postgresql+psycopg2", "postgresql+psycopg", "postgres"):
        uri = postgres.uri(postgres_database).replace("postgresql", form)
        opened = SqlCatalogStore("lake", uri)
        assert opened.list_namespaces() == []
        assert opened.engine.url.username == OWNER
        opened.engine.dispose()
