"""Tables that are dropped with their files: everything their snapshots reach goes, nothing else does, and the name goes first."""

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
from icefloe.table import Table
from icefloe.table.expiry.purge_table import purge_table
from icefloe.table.table_handle import TableHandle, load_metadata
from icefloe.table.unreachable_files import FileKind
from icefloe.testing.fault_injection import Fault, Faults, FaultyFileIO, FaultyStore


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    return catalog


@pytest.fixture
def table(catalog: SqlCatalog) -> Table:
    made = catalog.create_table(
        "db.t", pa.schema([("a", pa.int64())]), properties={"write.delete.mode": "merge-on-read", "format-version": "3"}
    )
    made.append(pa.table({"a": [1, 2, 3]}))
    made.delete("a = 2")
    made.compute_statistics()
    made.overwrite(pa.table({"a": [4]}))
    return made


def files(folder: str) -> set[str]:
    return {str(path) for path in Path(folder).rglob("*") if path.is_file()}


def test_everything_that_snapshots_reach_goes(catalog: SqlCatalog, table: Table) -> None:
    stranger = Path(table.location(), "data", "stranger.parquet")
    stranger.write_bytes(b"not of any snapshot")
    reached = files(table.location()) - {str(stranger)}
    report = catalog.purge_table("db.t")
    assert files(table.location()) == {str(stranger)}
    assert set(report.files["path"].to_pylist()) == reached
    assert {FileKind.DATA, FileKind.DELETION_VECTORS, FileKind.STATISTICS, FileKind.METADATA} < report.totals.keys()
    assert "db.t: dropped" in str(report)
    assert not catalog.table_exists("db.t")
    with pytest.raises(NoSuchTableError):
        catalog.purge_table("db.t")


def test_a_dropped_table_keeps_its_files_unless_asked(catalog: SqlCatalog, table: Table) -> None:
    before, location = files(table.location()), table.metadata_location
    assert catalog.drop_table("db.t") is None
    assert files(table.location()) == before
    catalog.register_table("db.t", location)
    assert catalog.drop_table("db.t", purge=True) is not None
    assert not files(table.location())


def test_tables_whose_files_are_not_their_own_keep_them_and_their_name(catalog: SqlCatalog, table: Table) -> None:
    table.set_properties({"gc.enabled": "false"})
    before = files(table.location())
    with pytest.raises(InvalidInputError, match=r"gc\.enabled"):
        catalog.purge_table("db.t")
    assert catalog.table_exists("db.t")
    assert files(table.location()) == before


def test_ending_it_early_leaves_files_that_nothing_names(catalog: SqlCatalog, table: Table) -> None:
    faults = Faults()
    handle = TableHandle(identifier=table.name(), store=FaultyStore(table.handle.store, faults), io=FaultyFileIO(table.io, faults))
    faults.order("delete", Fault.INTERRUPT, matching="snap-")
    with pytest.raises(KeyboardInterrupt):
        purge_table(handle)
    assert not catalog.table_exists("db.t")
    assert files(table.location())
    # What leads to what is left is left too.
    assert table.metadata_location in files(table.location())


def test_what_is_lost_already_is_told_and_the_rest_goes(catalog: SqlCatalog, table: Table) -> None:
    lost = table.current_snapshot().manifests(table.io)[0].manifest_path  # type: ignore[union-attr]
    Path(lost).unlink()
    report = catalog.purge_table("db.t")
    assert [problem.where for problem in report.unreadable] == [lost]
    assert "could not be read" in str(report)
    assert all(path.endswith(".parquet") for path in files(table.location()))


def test_a_failing_delete_is_told(table: Table) -> None:
    faults = Faults()
    handle = TableHandle(identifier=table.name(), store=table.handle.store, io=FaultyFileIO(table.io, faults))
    faults.order("delete", Fault.DENIED, matching=".puffin")
    reached = everything(load_metadata(handle).metadata)
    report = purge_table(handle)
    assert [problem.where for problem in report.undeleted] == [path for path in reached if path.endswith(".puffin")]
    assert on_disk(table.location()) == {problem.where for problem in report.undeleted}


def busy(table: Table, times: int | None, meanwhile: Callable[[], object]) -> TableHandle:
    """The table on a store where another writer does something just before the name is dropped."""
    faults = Faults()
    faults.order("drop", times=times, meanwhile=lambda: void(meanwhile()))
    return replace(table.handle, store=FaultyStore(table.handle.store, faults))


def void(_: object) -> None:
    """Nothing."""


@pytest.mark.parametrize("kind", ["sql", "in-memory", "file-system"])
def test_commits_that_land_meanwhile_go_with_all_their_files(tmp_path: Path, kind: str) -> None:
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


def test_a_commit_that_lands_meanwhile_may_forbid_it(catalog: SqlCatalog, table: Table) -> None:
    other = catalog.load_table("db.t")
    handle = busy(table, 1, lambda: other.set_properties({"gc.enabled": "false"}))
    before = files(table.location())
    with pytest.raises(InvalidInputError, match=r"gc\.enabled"):
        purge_table(handle)
    assert catalog.table_exists("db.t")
    assert files(table.location()) >= before


def test_a_table_that_never_rests_is_left_as_it_is(catalog: SqlCatalog, table: Table) -> None:
    other, count = catalog.load_table("db.t"), iter(range(1000))
    handle = busy(table, None, lambda: other.set_properties({"count": str(next(count))}))
    with pytest.raises(CommitConflictError, match="was not dropped"):
        purge_table(handle)
    assert catalog.load_table("db.t").scan().to_arrow().to_pylist() == [{"a": 4}]


def test_a_table_that_another_dropped_meanwhile_is_gone_and_its_files_are_left_to_it(catalog: SqlCatalog, table: Table) -> None:
    before = files(table.location())
    with pytest.raises(NoSuchTableError):
        purge_table(busy(table, 1, lambda: catalog.drop_table("db.t")))
    assert files(table.location()) == before


def test_a_catalog_that_drops_the_folder_too_has_its_files_looked_up_before(tmp_path: Path) -> None:
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


def test_tables_in_folders_whose_files_are_not_their_own_keep_them_too(tmp_path: Path) -> None:
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
