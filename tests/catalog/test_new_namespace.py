"""The namespace of a table that is about to be created: dropped if the table is not created, and only by the writer that created it."""

import logging
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from icefloe import InMemoryCatalog, SqlCatalog
from icefloe.catalog.catalog import Catalog
from icefloe.catalog.file_system_catalog import FileSystemCatalog
from icefloe.catalog.new_namespace import NewNamespace
from icefloe.errors import CommitUnknownError, EngineError, StorageUnavailableError
from icefloe.testing.fault_injection import Fault, Faults, FaultyStore

SCHEMA = pa.schema([("n", pa.int64())])
CATALOGS: dict[str, Callable[[Path], Catalog]] = {
    "sql": lambda folder: SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder)),
    "file-system": lambda folder: FileSystemCatalog("lake", warehouse=str(folder / "lake")),
    "memory": lambda folder: InMemoryCatalog("lake", warehouse=str(folder)),
}


@pytest.fixture(params=CATALOGS)
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> Catalog:
    return CATALOGS[request.param](tmp_path)


def faulty(catalog: Catalog, faults: Faults) -> Catalog:
    return Catalog(catalog.name, FaultyStore(catalog.store, faults), catalog.properties)


def fail(namespace: NewNamespace, error: BaseException, *meanwhile: Callable[[], object]) -> None:
    """Create a namespace, let something happen, then fail."""

    def creates_and_fails() -> None:
        with namespace.dropped_on_error():
            namespace.create()
            for happens in meanwhile:
                happens()
            raise error

    with pytest.raises(type(error)) as raised:
        creates_and_fails()
    assert raised.value is error


@pytest.mark.parametrize(
    "error", [EngineError("it fell over"), KeyboardInterrupt(), RuntimeError()], ids=lambda error: type(error).__name__
)
def test_a_new_namespace_is_dropped_with_its_levels_if_the_table_fails(catalog: Catalog, error: BaseException) -> None:
    namespace = NewNamespace(catalog, ("a", "b", "c"))
    fail(namespace, error)
    assert catalog.list_namespaces() == []
    assert not namespace.is_created


def test_a_new_namespace_remains_with_its_table(catalog: Catalog) -> None:
    namespace = NewNamespace(catalog, ("a", "b"))
    with namespace.dropped_on_error():
        namespace.create()
        catalog.create_table("a.b.t", SCHEMA)
    assert namespace.is_created
    assert catalog.list_tables("a.b") == [("a", "b", "t")]


def test_a_namespace_that_exists_is_kept_and_only_new_levels_are_dropped(catalog: Catalog) -> None:
    catalog.create_namespace("a")
    for name in (("a",), ("a", "b")):
        fail(NewNamespace(catalog, name), EngineError("it fell over"))
        assert (catalog.list_namespaces(), catalog.list_namespaces("a")) == ([("a",)], [])


def test_a_namespace_that_another_writer_creates_at_the_same_moment_is_kept(catalog: Catalog) -> None:
    faults = Faults()
    faults.order("create_namespace", meanwhile=lambda: catalog.create_namespace("a"))
    fail(NewNamespace(faulty(catalog, faults), ("a",)), EngineError("it fell over"))
    assert catalog.list_namespaces() == [("a",)]


def test_a_namespace_into_which_another_writer_puts_a_table_is_kept(catalog: Catalog) -> None:
    fail(NewNamespace(catalog, ("a",)), EngineError("it fell over"), lambda: catalog.create_table("a.other", SCHEMA))
    assert catalog.list_tables("a") == [("a", "other")]


def test_an_unknown_commit_keeps_the_namespace(catalog: Catalog) -> None:
    fail(NewNamespace(catalog, ("a",)), CommitUnknownError("the reply was lost"))
    assert catalog.list_namespaces() == [("a",)]


def test_a_namespace_whose_creator_has_dropped_it_is_created_again(catalog: Catalog) -> None:
    first, second = NewNamespace(catalog, ("a",)), NewNamespace(catalog, ("a",))
    with second.dropped_on_error():
        fail(first, EngineError("it fell over"), second.create)
        assert catalog.list_namespaces() == []
        second.create()
        catalog.create_table("a.t", SCHEMA)
    assert catalog.list_tables("a") == [("a", "t")]


def test_a_table_is_created_although_its_namespace_is_dropped_meanwhile(catalog: Catalog) -> None:
    faults = Faults()
    namespace = NewNamespace(faulty(catalog, faults), ("a", "b"))
    faults.order("load", meanwhile=lambda: [catalog.drop_namespace(name) for name in ("a.b", "a")] and None)
    with namespace.dropped_on_error():
        namespace.create_for(lambda: faulty(catalog, faults).create_table("a.b.t", SCHEMA))
    assert catalog.list_tables("a.b") == [("a", "b", "t")]


@pytest.mark.parametrize("kind", ["sql", "memory"])
def test_a_transaction_is_committed_although_its_namespace_is_dropped_meanwhile(kind: str, tmp_path: Path) -> None:
    catalog, faults = CATALOGS[kind](tmp_path), Faults()
    namespace = NewNamespace(faulty(catalog, faults), ("a",))
    faults.order("commit", meanwhile=lambda: catalog.drop_namespace("a"), times=2)
    with namespace.dropped_on_error(), faulty(catalog, faults).transaction() as transaction:
        member = namespace.create_for(lambda: transaction.create_table("a.t", SCHEMA))
        member.restore_namespace(namespace.create)
        member.append(pa.table({"n": [1]}))
    assert catalog.load_table("a.t").scan().to_arrow()["n"].to_pylist() == [1]


def test_a_namespace_that_cannot_be_created_again_refuses_the_commit_and_leaves_nothing(tmp_path: Path) -> None:
    catalog, faults = CATALOGS["sql"](tmp_path), Faults()
    faulty_catalog = faulty(catalog, faults)
    faults.order("commit", meanwhile=lambda: catalog.drop_namespace("a"))

    def commits() -> None:
        with faulty_catalog.transaction() as transaction:
            namespace = NewNamespace(faulty_catalog, ("a",))
            member = namespace.create_for(lambda: transaction.create_table("a.t", SCHEMA))
            member.restore_namespace(namespace.create)
            member.append(pa.table({"n": [1]}))
            faults.order("create_namespace", Fault.UNAVAILABLE)

    with pytest.raises(StorageUnavailableError):
        commits()
    assert [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "catalog.db"] == []


def test_a_namespace_that_another_writer_has_dropped_is_no_error(catalog: Catalog) -> None:
    fail(NewNamespace(catalog, ("a",)), EngineError("it fell over"), lambda: catalog.drop_namespace("a"))


def test_a_namespace_that_cannot_be_dropped_is_logged_and_the_first_error_is_raised(
    catalog: Catalog, caplog: pytest.LogCaptureFixture
) -> None:
    faults = Faults()
    faults.order("drop_namespace", Fault.UNAVAILABLE)
    fail(NewNamespace(faulty(catalog, faults), ("a",)), EngineError("it fell over"))
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "the new namespace a could not be dropped and remains" in caplog.text


def test_an_interrupted_creation_drops_nothing_because_another_writer_may_have_created_it(catalog: Catalog) -> None:
    faults = Faults()
    faults.order("create_namespace", Fault.INTERRUPT_AFTER)
    namespace = NewNamespace(faulty(catalog, faults), ("a",))
    with pytest.raises(KeyboardInterrupt), namespace.dropped_on_error():
        namespace.create()
    assert catalog.list_namespaces() == [("a",)]
