"""Tables dropped with their files: the name is removed first, then every file that a snapshot reaches is deleted, and no other file."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from tests.table.reachable import everything, on_disk

from icefloe import SqlCatalog, load_catalog
from icefloe.catalog.catalog import Catalog
from icefloe.catalog.file_system_catalog import FileSystemCatalog
from icefloe.catalog.in_memory_catalog import InMemoryCatalog
from icefloe.errors import CommitConflictError, InvalidInputError, NoSuchTableError
from icefloe.operations.expiry.purge_table import purge_table
from icefloe.operations.metadata_cache import load_metadata
from icefloe.operations.table_handle import TableHandle
from icefloe.operations.unreachable_files import FileKind
from icefloe.table import Table
from icefloe.testing.fault_injection import Fault, Faults, FaultyFileIO, FaultyStore


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    return catalog


@pytest.fixture
def table(catalog: SqlCatalog) -> Table:
    table = catalog.create_table(
        "db.t", pa.schema([("a", pa.int64())]), properties={"write.delete.mode": "merge-on-read", "format-version": "3"}
    )
    table.append(pa.table({"a": [1, 2, 3]}))
    table.delete("a = 2")
    table.compute_statistics()
    table.overwrite(pa.table({"a": [4]}))
    return table


def files(folder: str) -> set[str]:
    return {str(path) for path in Path(folder).rglob("*") if path.is_file()}


def test_a_purge_deletes_every_file_that_a_snapshot_reaches(catalog: SqlCatalog, table: Table) -> None:
    stranger = Path(table.location(), "data", "stranger.parquet")
    stranger.write_bytes(b"not of any snapshot")
    reached = files(table.location()) - {str(stranger)}
    report = catalog.purge_table("db.t")
    assert files(table.location()) == {str(stranger)}
    assert set(report.files["path"].to_pylist()) == reached
    assert {FileKind.DATA, FileKind.DELETION_VECTORS, FileKind.STATISTICS, FileKind.METADATA} < report.totals.keys()
    assert "dropped table lake.db.t" in str(report)
    assert not catalog.table_exists("db.t")
    with pytest.raises(NoSuchTableError):
        catalog.purge_table("db.t")


def test_a_drop_without_purge_keeps_the_files(catalog: SqlCatalog, table: Table) -> None:
    before, location = files(table.location()), table.metadata_location
    assert catalog.drop_table("db.t") is None
    assert files(table.location()) == before
    catalog.register_table("db.t", location)
    assert catalog.drop_table("db.t", purge=True) is not None
    assert not files(table.location())


def test_a_purge_is_refused_where_gc_is_disabled_and_changes_nothing(catalog: SqlCatalog, table: Table) -> None:
    table.set_properties({"gc.enabled": "false"})
    before = files(table.location())
    with pytest.raises(InvalidInputError, match=r"gc\.enabled"):
        catalog.purge_table("db.t")
    assert catalog.table_exists("db.t")
    assert files(table.location()) == before


def test_an_interrupted_purge_keeps_the_metadata_that_leads_to_the_remaining_files(catalog: SqlCatalog, table: Table) -> None:
    faults = Faults()
    handle = TableHandle(identifier=table.name(), store=FaultyStore(table.handle.store, faults), io=FaultyFileIO(table.io, faults))
    faults.order("delete", Fault.INTERRUPT, matching="snap-")
    with pytest.raises(KeyboardInterrupt):
        purge_table(handle)
    assert not catalog.table_exists("db.t")
    assert files(table.location())
    # The metadata that names the remaining files is kept.
    assert table.metadata_location in files(table.location())


def test_a_purge_reports_a_missing_manifest_and_deletes_the_files_that_it_can_list(catalog: SqlCatalog, table: Table) -> None:
    lost = table.current_snapshot().manifests(table.io)[0].manifest_path  # type: ignore[union-attr]
    Path(lost).unlink()
    report = catalog.purge_table("db.t")
    assert [problem.where for problem in report.unreadable] == [lost]
    assert "not readable" in str(report)
    assert all(path.endswith(".parquet") for path in files(table.location()))


def test_a_purge_reports_files_that_it_could_not_delete(table: Table) -> None:
    faults = Faults()
    handle = TableHandle(identifier=table.name(), store=table.handle.store, io=FaultyFileIO(table.io, faults))
    faults.order("delete", Fault.DENIED, matching=".puffin")
    reached = everything(load_metadata(handle).metadata)
    report = purge_table(handle)
    assert [problem.where for problem in report.undeleted] == [path for path in reached if path.endswith(".puffin")]
    assert on_disk(table.location()) == {problem.where for problem in report.undeleted}


def busy(table: Table, times: int | None, meanwhile: Callable[[], object]) -> TableHandle:
    """Return the table on a store where another writer runs `meanwhile` just before the name is dropped."""
    faults = Faults()
    faults.order("drop", times=times, meanwhile=lambda: void(meanwhile()))
    return replace(table.handle, store=FaultyStore(table.handle.store, faults))


def void(_: object) -> None:
    """Do nothing."""


@pytest.mark.parametrize("kind", ["sql", "in-memory", "file-system"])
def test_files_of_concurrent_commits_are_purged_too(tmp_path: Path, kind: str) -> None:
    uri = f"sqlite:///{tmp_path}/catalog.db" if kind == "sql" else None
    catalog: Catalog = (
        InMemoryCatalog("lake", warehouse=str(tmp_path))
        if kind == "in-memory"
        else load_catalog("lake", type=kind, uri=uri, warehouse=str(tmp_path))
    )
    catalog.create_namespace("db")
    elsewhere = tmp_path / "elsewhere"
    table = catalog.create_table("db.t", pa.schema([("a", pa.int64())]), properties={"write.data.path": str(elsewhere)})
    table.append(pa.table({"a": [1]}))
    other = catalog.load_table("db.t")
    late: list[str] = []

    def commit() -> None:
        other.append(pa.table({"a": [2]}))
        late.extend(path for path in everything(other.metadata) if path not in late)

    report = purge_table(busy(table, 3, commit))
    assert set(late) <= set(report.files["path"].to_pylist())
    assert len(files(str(elsewhere))) == 0
    assert not files(table.location())
    assert not catalog.table_exists("db.t")


def test_a_concurrent_commit_that_disables_gc_stops_the_purge(catalog: SqlCatalog, table: Table) -> None:
    other = catalog.load_table("db.t")
    handle = busy(table, 1, lambda: other.set_properties({"gc.enabled": "false"}))
    before = files(table.location())
    with pytest.raises(InvalidInputError, match=r"gc\.enabled"):
        purge_table(handle)
    assert catalog.table_exists("db.t")
    assert files(table.location()) >= before


def test_a_purge_gives_up_on_a_table_that_keeps_changing(catalog: SqlCatalog, table: Table) -> None:
    other, count = catalog.load_table("db.t"), iter(range(1000))
    handle = busy(table, None, lambda: other.set_properties({"count": str(next(count))}))
    with pytest.raises(CommitConflictError, match="was not dropped"):
        purge_table(handle)
    assert catalog.load_table("db.t").scan().to_arrow().to_pylist() == [{"a": 4}]


def test_a_purge_deletes_no_files_of_a_table_that_another_process_dropped(catalog: SqlCatalog, table: Table) -> None:
    before = files(table.location())
    with pytest.raises(NoSuchTableError):
        purge_table(busy(table, 1, lambda: catalog.drop_table("db.t")))
    assert files(table.location()) == before


def test_a_file_system_catalog_lists_the_files_before_it_drops_the_folder(tmp_path: Path) -> None:
    catalog = FileSystemCatalog("lake", warehouse=f"{tmp_path}/warehouse")
    catalog.create_namespace("db")
    elsewhere = tmp_path / "elsewhere"
    table = catalog.create_table("db.t", pa.schema([("a", pa.int64())]), properties={"write.data.path": str(elsewhere)})
    table.append(pa.table({"a": [1, 2]}))
    table.delete("a = 2")
    stranger = Path(table.location(), "stranger")
    stranger.touch()
    reached = set(everything(table.metadata)) | {table.metadata_location}
    assert files(str(elsewhere))
    report = catalog.drop_table("db.t", purge=True, allow_outside=[str(elsewhere)])
    assert report is not None
    assert (report.unreadable, report.undeleted, report.outside_files) == ((), (), 0)
    assert set(report.files["path"].to_pylist()) >= reached
    assert {FileKind.DATA, FileKind.MANIFESTS, FileKind.MANIFEST_LISTS, FileKind.METADATA} <= report.totals.keys()
    assert not files(str(elsewhere))
    assert not Path(table.location()).exists()
    with pytest.raises(NoSuchTableError):
        catalog.purge_table("db.t")


def test_a_file_system_catalog_refuses_drops_and_purges_where_gc_is_disabled(tmp_path: Path) -> None:
    catalog = FileSystemCatalog("lake", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", pa.schema([("a", pa.int64())]), properties={"gc.enabled": "false"})
    table.append(pa.table({"a": [1]}))
    before = files(str(tmp_path))
    for purge in (False, True):
        with pytest.raises(InvalidInputError, match=r"gc\.enabled"):
            catalog.drop_table("db.t", purge=purge)
    assert files(str(tmp_path)) == before
    assert catalog.load_table("db.t").scan().to_arrow().num_rows == 1
