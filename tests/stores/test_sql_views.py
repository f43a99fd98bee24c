"""Views in the SQL catalog store: a name is a table or a view, never both; a swap of one kind never changes the other; databases created before views."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from threading import Barrier, Thread

import pytest
from sqlalchemy.exc import OperationalError

from icefloe.commit.outcome import Committed, Conflicted, Outcome
from icefloe.errors import (
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NoSuchViewError,
    TableAlreadyExistsError,
    UnsupportedFeatureError,
    ViewAlreadyExistsError,
)
from icefloe.stores.catalog_store import CommitRequest, KeepsViews
from icefloe.stores.sql_store import SqlCatalogStore

VIEW, TABLE = ("db", "v"), ("db", "t")
V0 = (
    "create table iceberg_tables (catalog_name varchar(255), table_namespace varchar(255), table_name varchar(255), "
    "metadata_location varchar(1000), previous_metadata_location varchar(1000), primary key (catalog_name, table_namespace, table_name))"
)


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


def test_a_view_is_a_row_of_type_view_as_in_java(store: SqlCatalogStore, database: Path) -> None:
    views = store.views()
    views.create(VIEW, "m0")
    assert views.commit([CommitRequest(identifier=VIEW, expected="m0", new="m1")]) == Committed()
    assert rows(database, "select * from iceberg_tables") == [("lake", "db", "v", "m1", "m0", "VIEW")]
    view = views.load(VIEW)
    assert (view.metadata_location, view.previous_metadata_location) == ("m1", "m0")
    assert isinstance(store, KeepsViews)


def test_tables_and_views_are_listed_separately(store: SqlCatalogStore, database: Path) -> None:
    store.views().create(VIEW, "m0")
    store.create(TABLE, "m0")
    connection = sqlite3.connect(database)
    connection.execute("insert into iceberg_tables values ('lake', 'db', 'old', 'm0', null, null)")
    connection.commit()
    connection.close()
    assert store.list_tables(("db",)) == [("db", "old"), TABLE]
    assert store.views().names(("db",)) == [VIEW]
    with pytest.raises(NoSuchNamespaceError, match="nowhere"):
        store.views().names(("nowhere",))
    with pytest.raises(NamespaceNotEmptyError):
        store.drop_namespace(("db",))


def test_a_name_is_a_table_or_a_view_and_the_error_names_the_kind(store: SqlCatalogStore) -> None:
    views = store.views()
    views.create(VIEW, "m0")
    store.create(TABLE, "m0")
    with pytest.raises(ViewAlreadyExistsError, match=r"view 'db\.v' already exists"):
        store.create(VIEW, "m1")
    with pytest.raises(ViewAlreadyExistsError, match=r"view 'db\.v' already exists"):
        views.create(VIEW, "m1")
    with pytest.raises(TableAlreadyExistsError, match=r"table 'db\.t' already exists"):
        views.create(TABLE, "m1")
    with pytest.raises(TableAlreadyExistsError):
        views.rename(VIEW, TABLE)
    with pytest.raises(ViewAlreadyExistsError):
        store.rename(TABLE, VIEW)
    assert (views.load(VIEW).metadata_location, store.load(TABLE).metadata_location) == ("m0", "m0")


def test_operations_on_one_kind_never_change_the_other(store: SqlCatalogStore, database: Path) -> None:
    views = store.views()
    views.create(VIEW, "m0")
    store.create(TABLE, "m0")
    before = rows(database, "select * from iceberg_tables order by table_name")
    assert store.commit([CommitRequest(identifier=VIEW, expected="m0", new="m1")]) == Conflicted(current_location=None)
    assert views.commit([CommitRequest(identifier=TABLE, expected="m0", new="m1")]) == Conflicted(current_location=None)
    for operation, error, words in (
        (lambda: store.load(VIEW), NoSuchTableError, "that name is a view"),
        (lambda: views.load(TABLE), NoSuchViewError, "that name is a table"),
        (lambda: store.drop(VIEW), NoSuchTableError, "that name is a view"),
        (lambda: views.drop(TABLE), NoSuchViewError, "load_table"),
        (lambda: store.rename(VIEW, ("db", "w")), NoSuchTableError, "load_view"),
        (lambda: views.rename(TABLE, ("db", "w")), NoSuchViewError, "that name is a table"),
    ):
        with pytest.raises(error) as refused:
            operation()  # type: ignore[no-untyped-call]
        assert words in str(refused.value)
    assert rows(database, "select * from iceberg_tables order by table_name") == before


def test_views_are_renamed_and_dropped(store: SqlCatalogStore) -> None:
    views = store.views()
    store.create_namespace(("other",), {})
    views.create(VIEW, "m0")
    views.rename(VIEW, ("other", "w"))
    assert (views.names(("db",)), views.names(("other",))) == ([], [("other", "w")])
    with pytest.raises(NoSuchNamespaceError, match="nowhere"):
        views.rename(("other", "w"), ("nowhere", "w"))
    with pytest.raises(NoSuchViewError) as missing:
        views.load(("other", "x"))
    assert "the namespace holds other.w" in str(missing.value)
    views.drop(("other", "w"))
    with pytest.raises(NoSuchViewError, match="does not exist"):
        views.drop(("other", "w"))


def test_a_swap_whose_reply_is_lost_after_the_commit_is_committed(store: SqlCatalogStore) -> None:
    views = store.views()
    views.create(VIEW, "m0")
    original = store.engine.dialect.do_commit

    def commit_then_fail(connection: sqlite3.Connection) -> None:
        original(connection)
        store.engine.dialect.do_commit = original  # type: ignore[method-assign]
        raise OperationalError("commit", {}, sqlite3.OperationalError("connection lost"))

    store.engine.dialect.do_commit = commit_then_fail  # type: ignore[method-assign,assignment]
    assert views.commit([CommitRequest(identifier=VIEW, expected="m0", new="m1")]) == Committed()
    assert views.load(VIEW).metadata_location == "m1"


def test_exactly_one_of_many_concurrent_swaps_succeeds(store: SqlCatalogStore, database: Path) -> None:
    store.views().create(VIEW, "m0")
    outcomes: list[Outcome] = []
    ready = Barrier(6)

    def race(number: int) -> None:
        own = SqlCatalogStore("lake", f"sqlite:///{database}")
        ready.wait()
        outcomes.append(own.views().commit([CommitRequest(identifier=VIEW, expected="m0", new=f"m1-{number}")]))
        own.engine.dispose()

    threads = [Thread(target=race, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(isinstance(outcome, Committed) for outcome in outcomes) == 1


def test_one_of_a_table_and_a_view_created_concurrently_under_one_name_exists(store: SqlCatalogStore, database: Path) -> None:
    ready = Barrier(2)
    errors: list[Exception] = []

    def make(is_view: bool) -> None:
        own = SqlCatalogStore("lake", f"sqlite:///{database}")
        ready.wait()
        try:
            (own.views() if is_view else own).create(VIEW, "view" if is_view else "table")
        except (TableAlreadyExistsError, ViewAlreadyExistsError) as error:
            errors.append(error)
        own.engine.dispose()

    threads = [Thread(target=make, args=(is_view,)) for is_view in (True, False)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(errors) == 1
    [(location, kind)] = rows(database, "select metadata_location, iceberg_type from iceberg_tables")
    assert str(location).upper() == kind
    assert isinstance(errors[0], ViewAlreadyExistsError if kind == "VIEW" else TableAlreadyExistsError)


def before_views(database: Path) -> None:
    connection = sqlite3.connect(database)
    connection.execute(V0)
    connection.execute("insert into iceberg_tables values ('lake', 'db', 't', 'm0', null)")
    connection.commit()
    connection.close()


def test_views_in_a_database_created_before_views_are_refused_and_it_is_not_changed(database: Path) -> None:
    before_views(database)
    store = SqlCatalogStore("lake", f"sqlite:///{database}")
    with pytest.raises(UnsupportedFeatureError, match="lacks the column iceberg_type") as refused:
        store.views()
    assert "jdbc.schema-version=V1" in str(refused.value)
    assert "iceberg_type" not in [row[1] for row in rows(database, "pragma table_info(iceberg_tables)")]
    store.engine.dispose()


def test_a_database_created_before_views_gets_the_type_column_when_requested(database: Path) -> None:
    before_views(database)
    ready = Barrier(4)
    failed: list[Exception] = []

    def open_at_once() -> None:
        ready.wait()
        try:
            SqlCatalogStore("lake", f"sqlite:///{database}", add_types=True).engine.dispose()
        except Exception as error:  # noqa: BLE001  whatever it is, it fails the test
            failed.append(error)

    threads = [Thread(target=open_at_once) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    store = SqlCatalogStore("lake", f"sqlite:///{database}")
    store.views().create(VIEW, "m0")
    assert store.list_tables(("db",)) == [TABLE]
    assert store.views().names(("db",)) == [VIEW]
    assert ("iceberg_type", "VARCHAR(5)") in [(row[1], row[2]) for row in rows(database, "pragma table_info(iceberg_tables)")]
    store.engine.dispose()
