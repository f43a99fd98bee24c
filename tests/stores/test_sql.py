"""The SQL catalog store: its tables, shared with Java and PyIceberg, the compare-and-swap, and the error for each database fault."""

import logging
import sqlite3
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from threading import Barrier, Thread

import pytest
from sqlalchemy.exc import OperationalError

from icefloe import SqlCatalog, load_catalog
from icefloe.commit.outcome import Committed, Conflicted, Outcome
from icefloe.errors import (
    InvalidPropertyError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NotInstalledError,
    StoragePermissionError,
    StorageUnavailableError,
    TableAlreadyExistsError,
    ViewAlreadyExistsError,
)
from icefloe.stores import sql_engine, sql_store
from icefloe.stores.catalog_store import CommitRequest
from icefloe.stores.sql_store import SqlCatalogStore

NAME = ("db", "t")


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "catalog.db"


@pytest.fixture
def store(database: Path) -> Iterator[SqlCatalogStore]:
    opened = SqlCatalogStore("lake", f"sqlite:///{database}")
    opened.create_namespace(("db",), {})
    yield opened
    opened.engine.dispose()


def rows(database: Path, statement: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(database)
    try:
        return connection.execute(statement).fetchall()
    finally:
        connection.close()


def test_the_tables_have_the_columns_that_java_and_pyiceberg_share(store: SqlCatalogStore, database: Path) -> None:
    columns = [row[1] for row in rows(database, "pragma table_info(iceberg_tables)")]
    assert columns == [
        "catalog_name",
        "table_namespace",
        "table_name",
        "metadata_location",
        "previous_metadata_location",
        "iceberg_type",
    ]
    assert [row[1] for row in rows(database, "pragma table_info(iceberg_namespace_properties)")] == [
        "catalog_name",
        "namespace",
        "property_key",
        "property_value",
    ]


def test_a_swap_replaces_the_metadata_location_and_keeps_the_previous_one(store: SqlCatalogStore, database: Path) -> None:
    store.create(NAME, "m0")
    assert store.commit([CommitRequest(identifier=NAME, expected="m0", new="m1")]) == Committed()
    assert rows(database, "select metadata_location, previous_metadata_location, iceberg_type from iceberg_tables") == [
        ("m1", "m0", "TABLE")
    ]


def test_a_swap_from_a_stale_location_is_a_conflict_and_changes_nothing(store: SqlCatalogStore) -> None:
    store.create(NAME, "m0")
    store.commit([CommitRequest(identifier=NAME, expected="m0", new="m1")])
    assert store.commit([CommitRequest(identifier=NAME, expected="m0", new="m2")]) == Conflicted(current_location="m1")
    assert store.load(NAME).metadata_location == "m1"


def test_a_swap_on_a_dropped_table_is_a_conflict_without_a_location(store: SqlCatalogStore) -> None:
    assert store.commit([CommitRequest(identifier=NAME, expected="m0", new="m1")]) == Conflicted(current_location=None)


def test_a_swap_whose_reply_is_lost_after_the_commit_is_committed(store: SqlCatalogStore) -> None:
    store.create(NAME, "m0")

    # The transaction commits, and then the reply is lost: SQLAlchemy sees an error though the row has changed.
    original = store.engine.dialect.do_commit

    def commit_then_fail(connection: sqlite3.Connection) -> None:
        original(connection)
        store.engine.dialect.do_commit = original  # type: ignore[method-assign]
        raise OperationalError("commit", {}, sqlite3.OperationalError("connection lost"))

    store.engine.dialect.do_commit = commit_then_fail  # type: ignore[method-assign,assignment]
    assert store.commit([CommitRequest(identifier=NAME, expected="m0", new="m1")]) == Committed()
    assert store.load(NAME).metadata_location == "m1"


def test_exactly_one_of_many_concurrent_swaps_succeeds(store: SqlCatalogStore, database: Path) -> None:
    store.create(NAME, "m0")
    outcomes: list[Outcome] = []
    ready = Barrier(6)

    def race(number: int) -> None:
        own = SqlCatalogStore("lake", f"sqlite:///{database}")
        ready.wait()
        outcomes.append(own.commit([CommitRequest(identifier=NAME, expected="m0", new=f"m1-{number}")]))
        own.engine.dispose()

    threads = [Thread(target=race, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(isinstance(outcome, Committed) for outcome in outcomes) == 1
    assert sum(isinstance(outcome, Conflicted) for outcome in outcomes) == 5


def test_a_catalog_created_before_views_works_without_the_type_column(database: Path) -> None:
    connection = sqlite3.connect(database)
    connection.execute(
        "create table iceberg_tables (catalog_name varchar(255), table_namespace varchar(255), table_name varchar(255), "
        "metadata_location varchar(1000), previous_metadata_location varchar(1000), primary key (catalog_name, table_namespace, table_name))"
    )
    connection.execute("insert into iceberg_tables values ('lake', 'db', 't', 'm0', null)")
    connection.commit()
    connection.close()
    store = SqlCatalogStore("lake", f"sqlite:///{database}")
    assert store.list_tables(("db",)) == [NAME]
    assert store.commit([CommitRequest(identifier=NAME, expected="m0", new="m1")]) == Committed()
    store.create(("db", "u"), "m0")
    assert [row[1] for row in rows(database, "pragma table_info(iceberg_tables)")][-1] == "previous_metadata_location"
    assert store.rows()["iceberg_tables"][0]["metadata_location"] == "m1"
    store.engine.dispose()


def test_a_view_that_another_writer_created_is_not_a_table(store: SqlCatalogStore, database: Path) -> None:
    connection = sqlite3.connect(database)
    connection.execute("insert into iceberg_tables values ('lake', 'db', 'v', 'm0', null, 'VIEW')")
    connection.execute("insert into iceberg_tables values ('lake', 'db', 'old', 'm0', null, null)")
    connection.commit()
    connection.close()
    assert store.list_tables(("db",)) == [("db", "old")]
    with pytest.raises(NoSuchTableError, match="that name is a view"):
        store.load(("db", "v"))
    with pytest.raises(ViewAlreadyExistsError, match=r"view 'db\.v' already exists"):
        store.create(("db", "v"), "m0")
    with pytest.raises(NamespaceNotEmptyError):
        store.drop_namespace(("db",))


def test_catalogs_of_different_names_in_one_database_are_separate(store: SqlCatalogStore, database: Path) -> None:
    store.create(NAME, "m0")
    other = SqlCatalogStore("other", f"sqlite:///{database}")
    assert other.list_namespaces() == []
    other.engine.dispose()


def test_namespaces_can_be_nested_and_have_properties(store: SqlCatalogStore) -> None:
    store.create_namespace(("a", "b", "c"), {"owner": "me"})
    assert store.list_namespaces() == [("a",), ("db",)]
    assert store.list_namespaces(("a",)) == [("a", "b")]
    assert store.namespace_properties(("a", "b", "c")) == {"owner": "me"}
    store.update_namespace(("a", "b", "c"), removals=frozenset({"owner"}), updates={"x": "1"})
    assert store.namespace_properties(("a", "b", "c")) == {"x": "1"}
    with pytest.raises(NamespaceNotEmptyError, match=r"a\.b\.c"):
        store.drop_namespace(("a", "b"))
    store.drop_namespace(("a", "b", "c"))
    with pytest.raises(NoSuchNamespaceError):
        store.namespace_properties(("a", "b", "c"))


def test_sql_wildcards_in_a_namespace_match_only_themselves(store: SqlCatalogStore) -> None:
    store.create_namespace(("a_b",), {})
    store.create_namespace(("axb", "below"), {})
    store.drop_namespace(("a_b",))
    assert store.list_namespaces() == [("axb",), ("db",)]


def test_taken_and_missing_names_raise_their_errors(store: SqlCatalogStore) -> None:
    store.create(NAME, "m0")
    with pytest.raises(TableAlreadyExistsError):
        store.create(NAME, "m1")
    with pytest.raises(NamespaceAlreadyExistsError):
        store.create_namespace(("db",), {})
    with pytest.raises(NoSuchNamespaceError, match="nowhere"):
        store.create(("nowhere", "t"), "m0")
    with pytest.raises(NoSuchTableError) as missing:
        store.load(("db", "nothing"))
    assert "db.t" in str(missing.value)
    with pytest.raises(NoSuchTableError):
        store.drop(("db", "nothing"))
    store.create(("db", "u"), "m0")
    with pytest.raises(TableAlreadyExistsError):
        store.rename(NAME, ("db", "u"))
    store.rename(NAME, ("db", "w"))
    assert store.list_tables(("db",)) == [("db", "u"), ("db", "w")]


def test_an_error_names_the_path_of_a_database_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(StorageUnavailableError, match="missing"):
        SqlCatalogStore("lake", f"sqlite:///{tmp_path}/missing/catalog.db")
    with pytest.raises(InvalidPropertyError, match="names no database"):
        SqlCatalogStore("lake", "not a uri")


@pytest.mark.parametrize(
    ("uri", "missing", "advice"),
    [
        ("postgresql://me:secret@host/db", "psycopg", 'install "icefloe[postgres]"'),
        ("mysql+pymysql://me:secret@host/db", "pymysql", "install the Python package that brings the module pymysql"),
    ],
)
def test_an_error_names_a_missing_driver_and_the_package_to_install(
    monkeypatch: pytest.MonkeyPatch, uri: str, missing: str, advice: str
) -> None:
    monkeypatch.setattr(sql_engine, "find_spec", lambda _: None)
    monkeypatch.setitem(sys.modules, "pymysql", None)
    with pytest.raises(NotInstalledError, match=f"needs the package {missing}, which is not installed") as refused:
        load_catalog("lake", uri=uri)
    assert advice in str(refused.value)
    assert "secret" not in str(refused.value)


def test_a_file_that_is_not_a_database_is_refused(database: Path) -> None:
    database.write_bytes(b"this is not SQLite" * 100)
    with pytest.raises(StorageUnavailableError, match="not a database"):
        SqlCatalogStore("lake", f"sqlite:///{database}")


def test_a_read_only_database_can_be_read_and_refuses_writes(store: SqlCatalogStore, database: Path) -> None:
    store.create(NAME, "m0")
    readonly = SqlCatalogStore("lake", f"sqlite:///file:{database}?mode=ro&uri=true")
    assert readonly.load(NAME).metadata_location == "m0"
    with pytest.raises(StoragePermissionError, match="readonly"):
        readonly.create(("db", "u"), "m0")
    readonly.engine.dispose()


def test_the_traceback_of_a_database_that_cannot_be_opened_has_no_frame_of_sqlalchemy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StorageUnavailableError, match="unable to open database file") as refused:
        load_catalog(warehouse="missing")
    assert isinstance(refused.value.__cause__, sqlite3.OperationalError)
    printed = "".join(traceback.format_exception(refused.value))
    assert "/sqlalchemy/" not in printed
    assert len(printed.splitlines()) < 40


def test_a_database_that_ignores_case_has_no_table_under_another_spelling(store: SqlCatalogStore, database: Path) -> None:
    [(statement,)] = rows(database, "SELECT sql FROM sqlite_master WHERE name = 'iceberg_tables'")
    store.engine.dispose()
    with sqlite3.connect(database) as connection:
        connection.execute("DROP TABLE iceberg_tables")
        connection.execute(str(statement).replace("table_name VARCHAR(255)", "table_name VARCHAR(255) COLLATE NOCASE"))
    store.create(("db", "cafe"), "a.metadata.json")
    assert store.load(("db", "cafe")).metadata_location == "a.metadata.json"
    with pytest.raises(NoSuchTableError):
        store.load(("db", "CAFE"))


@pytest.mark.parametrize("action", ["list", "create"])
def test_what_a_catalog_waits_for_is_logged_while_its_database_is_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, action: str
) -> None:
    monkeypatch.setattr(sql_engine, "SQLITE_LOCK_WAIT_S", 0.3)
    monkeypatch.setattr(sql_store, "REPORTED_WAIT_S", 0.05)
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    other = sqlite3.connect(tmp_path / "catalog.db")
    other.execute("BEGIN EXCLUSIVE")
    caplog.clear()
    with caplog.at_level(logging.WARNING), pytest.raises(StorageUnavailableError, match="lsof"):
        catalog.list_namespaces() if action == "list" else catalog.create_namespace("db")
    (message,) = [record.getMessage() for record in caplog.records]
    assert message.startswith(
        f"catalog 'lake' at sqlite:///{tmp_path}/catalog.db has waited 0.05 s for the database, which another process has locked"
    )
    other.rollback()
    other.close()
    monkeypatch.setattr(sql_store, "REPORTED_WAIT_S", 5.0)
    catalog.create_namespace("db")
    catalog.close()
