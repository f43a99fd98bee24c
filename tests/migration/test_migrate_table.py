"""`migrate`: a folder, or a table of another catalog, becomes a table in place; whatever fails, the source is as it was, and nothing deletes a file of it."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.maintenance.test_rewrite_table_path import files_below
from tests.migration.test_snapshot_table import write

from icefloe import SqlCatalog
from icefloe.catalog import catalog as catalog_module
from icefloe.catalog.catalog import Catalog
from icefloe.errors import (
    CommitConflictError,
    CommitUnknownError,
    DataFileFormatError,
    EngineError,
    IcefloeError,
    InvalidInputError,
    LocationNotAllowedError,
    NoSuchTableError,
    SchemaMismatchError,
    StorageUnavailableError,
    TableAlreadyExistsError,
)
from icefloe.migration import existing_files
from icefloe.migration.existing_files import SourceFolders, SourceTable
from icefloe.migration.migrate_table import migrate_table
from icefloe.migration.snapshot_table import snapshot_table
from icefloe.procedures import call
from icefloe.spec.schema.arrow_schema import schema_from_arrow
from icefloe.testing.fault_injection import Fault, Faults, FaultyFileIO, FaultyStore


@pytest.fixture
def lake(tmp_path: Path) -> SqlCatalog:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"))
    catalog.create_namespace("db")
    return catalog


class RecordedTable(SourceTable):
    """A table of another catalog, of which only the steps are recorded."""

    def __init__(self, folder: Path, name: tuple[str, ...] = ("db", "t"), fails: str = "", meanwhile: Callable[[], None] = lambda: None):
        self.name, self.location = name, f"{folder}/"
        self.steps: list[str] = []
        self._fails, self._meanwhile = fails, meanwhile

    def make_backup(self, backup_name: str) -> None:
        self._step(f"rename to {backup_name}")
        self._meanwhile()

    def restore(self, *, is_external: bool = False) -> None:
        self._step("restore, external" if is_external else "restore")

    def drop_backup(self) -> None:
        self._step("drop")

    def _step(self, step: str) -> None:
        self.steps.append(step)
        if self._fails and step.startswith(self._fails):
            raise EngineError(f"cannot {step}")


def source_of(table: RecordedTable) -> SourceFolders:
    schema = schema_from_arrow(pa.schema([("id", pa.int64()), ("note", pa.string())]), keep_ids=False)
    return SourceFolders([table.location], schema, (), {"owner": "x", "numRows": "7", "external.table.purge": "TRUE"}, table)


def test_a_folder_becomes_a_table_in_its_place_and_its_files_belong_to_the_table(lake: SqlCatalog, tmp_path: Path) -> None:
    source = tmp_path / "source"
    for day, ids in (("2024-01-31", [1, 2]), ("2024-02-01", [3])):
        write(source / f"day={day}", ids)
    before = files_below(source)
    planned = migrate_table(lake, str(source), "db.t", dry_run=True)
    assert (planned.dry_run, planned.migrated_files, planned.migrated_records, planned.outside_files) == (True, 2, 3, 0)
    assert planned.partition_columns == ("day",)
    assert files_below(source) == before
    assert lake.list_tables("db") == []
    arguments = {"table": f"parquet.`{source}`", "new_table": "db.t", "properties": {"a": "b"}}
    assert call(lake, "migrate", **arguments) == [{"migrated_files_count": 2}]
    table = lake.load_table("db.t")
    assert table.location() == str(source)
    assert {path: content for path, content in files_below(source).items() if path in before} == before
    assert {key: table.properties[key] for key in ("migrated", "a")} == {"migrated": "true", "a": "b"}
    assert "gc.enabled" not in table.properties
    orphans = table.maintenance.remove_orphan_files(10**14, force=True, dry_run=True)
    assert orphans.orphan_files == 0
    table.append(pa.table({"id": [4], "note": ["n4"], "day": [None]}, schema=table.schema().as_arrow()))
    table.delete("id = 1")
    table.maintenance.rewrite_data_files(options={"rewrite-all": True})
    expired = table.expire_snapshots(10**14, retain_last=1)
    assert expired.deleted_files > 0
    assert not any(Path(path).exists() for path in before)
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [2, 3, 4]


def test_a_table_keeps_its_name_and_its_source_gets_another(lake: SqlCatalog, tmp_path: Path) -> None:
    write(tmp_path / "source", [1, 2])
    source = RecordedTable(tmp_path / "source", ("new", "t"))
    planned = migrate_table(lake, source_of(source), dry_run=True)
    assert (planned.table, planned.backup, source.steps) == ("new.t", "new.t_BACKUP_", [])
    assert lake.list_namespaces() == [("db",)]
    result = migrate_table(lake, source_of(source))
    assert (result.table, result.backup, source.steps) == ("new.t", "new.t_BACKUP_", ["rename to t_BACKUP_"])
    assert "new.t_BACKUP_" in str(result)
    properties = lake.load_table("new.t").properties
    assert properties["owner"] == "x"
    assert not {"numRows", "external.table.purge"} & set(properties)
    assert lake.load_table("new.t").scan().count() == 2


@pytest.mark.parametrize("fails", ["", "drop"])
def test_a_backup_is_dropped_on_request_and_a_failure_there_leaves_the_table(lake: SqlCatalog, tmp_path: Path, fails: str) -> None:
    write(tmp_path / "source", [1, 2])
    source = RecordedTable(tmp_path / "source", fails=fails)
    result = migrate_table(lake, source_of(source), backup_table_name="old", drop_backup=True)
    assert source.steps == ["rename to old", "drop"]
    assert result.backup == ("db.old" if fails else "")
    assert lake.load_table("db.t").scan().count() == 2


def test_files_that_come_while_footers_are_read_end_the_migration(lake: SqlCatalog, tmp_path: Path) -> None:
    folder = tmp_path / "source"
    write(folder, [1, 2])
    source = RecordedTable(folder, meanwhile=lambda: void(write(folder, [3], "late.parquet")))
    with pytest.raises(CommitConflictError, match=r"late\.parquet was added"):
        migrate_table(lake, source_of(source))
    assert source.steps == ["rename to t_BACKUP_", "restore"]
    assert {Path(path).name for path in files_below(folder)} == {"x.parquet", "late.parquet"}
    assert lake.list_tables("db") == []
    assert migrate_table(lake, source_of(RecordedTable(folder))).migrated_records == 3


def void(_: object) -> None:
    """Return None."""


def test_a_failed_rename_is_undone_and_one_that_cannot_be_names_the_statement(lake: SqlCatalog, tmp_path: Path) -> None:
    write(tmp_path / "source", [1])
    source = RecordedTable(tmp_path / "source", ("new", "t"), fails="rename")
    with pytest.raises(EngineError, match="cannot rename"):
        migrate_table(lake, source_of(source))
    assert source.steps == ["rename to t_BACKUP_", "restore"]
    assert lake.list_namespaces() == [("db",)]
    source = RecordedTable(tmp_path / "source", fails="restore", meanwhile=lambda: void(write(tmp_path / "source", [2], "y.parquet")))
    with pytest.raises(CommitConflictError) as raised:
        migrate_table(lake, source_of(source))
    assert "ALTER TABLE db.t_BACKUP_ RENAME TO db.t" in "".join(raised.value.__notes__)


SWAP_FAULTS = [Fault.LOST_REPLY, Fault.UNKNOWN, Fault.INTERRUPT, Fault.INTERRUPT_AFTER, Fault.UNAVAILABLE, Fault.DENIED]


@pytest.mark.parametrize("fault", SWAP_FAULTS)
def test_whatever_becomes_of_the_commit_one_table_has_the_name(lake: SqlCatalog, tmp_path: Path, fault: Fault) -> None:
    folder = tmp_path / "source"
    write(folder, [1, 2])
    before, faults, source = files_below(folder), Faults(), RecordedTable(folder)
    faulty = Catalog(lake.name, FaultyStore(lake.store, faults), {**lake.properties, "commit.status-check.total-timeout-ms": "1"})
    faults.order("commit", fault)
    if fault is Fault.UNKNOWN:
        faults.order("load", Fault.UNAVAILABLE, after=3, times=None)
    problem: BaseException | None = None
    try:
        migrate_table(faulty, source_of(source), properties={"commit.status-check.num-retries": "0", "commit.retry.num-retries": "0"})
    except (IcefloeError, KeyboardInterrupt) as error:
        problem = error
    exists = lake.list_tables("db") == [("db", "t")]
    is_renamed = not any(step.startswith("restore") for step in source.steps)
    assert exists == (fault in {Fault.LOST_REPLY, Fault.INTERRUPT_AFTER})
    assert is_renamed == (exists or isinstance(problem, CommitUnknownError))
    if isinstance(problem, CommitUnknownError):
        assert "ALTER TABLE db.t_BACKUP_ RENAME TO db.t" in str(problem.next_step)
    if fault is Fault.INTERRUPT:
        # The catalog may still carry out the commit: the source stays a table whose files nothing deletes.
        assert source.steps[-1] == "restore, external"
    assert {path: content for path, content in files_below(folder).items() if path in before} == before
    if exists:
        assert lake.load_table("db.t").scan().count() == 2
    elif problem is not None and not isinstance(problem, CommitUnknownError | KeyboardInterrupt):
        assert files_below(folder) == before


def test_a_table_that_another_writer_creates_meanwhile_stays(lake: SqlCatalog, tmp_path: Path) -> None:
    folder = tmp_path / "source"
    write(folder, [1, 2])
    before, faults, source = files_below(folder), Faults(), RecordedTable(folder)
    schema = pa.schema([("other", pa.int64())])
    faults.order("commit", meanwhile=lambda: void(lake.create_table("db.t", schema)))
    with pytest.raises(TableAlreadyExistsError):
        migrate_table(Catalog(lake.name, FaultyStore(lake.store, faults), lake.properties), source_of(source))
    assert source.steps == ["rename to t_BACKUP_", "restore"]
    assert lake.load_table("db.t").schema().names == ["other"]
    assert files_below(folder) == before


@pytest.mark.parametrize("fault", [Fault.UNAVAILABLE, Fault.INTERRUPT])
def test_a_failure_of_any_read_or_write_leaves_the_source_as_it_was(
    lake: SqlCatalog, tmp_path: Path, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "source"
    for number in range(3):
        write(folder / f"day={number}", [number])
    before, faults = files_below(folder), Faults()
    load, files_of = catalog_module.load_file_io, existing_files.files_of
    for module in (catalog_module, existing_files):
        monkeypatch.setattr(module, "load_file_io", lambda *arguments, **named: FaultyFileIO(load(*arguments, **named), faults))
    monkeypatch.setattr(existing_files, "files_of", lambda io, folder: files_of(load(lake.properties), folder))
    failed = 0
    for operation in ("read", "write", "open_input", "size", "exists"):
        for after in range(12):
            faults.clear_orders()
            faults.order(operation, fault, after=after)
            source = RecordedTable(folder)
            try:
                migrate_table(lake, with_days(source))
            except (StorageUnavailableError, DataFileFormatError, KeyboardInterrupt):
                failed += 1
                assert source.steps in ([], ["rename to t_BACKUP_", "restore"], ["rename to t_BACKUP_", "restore, external"])
                assert lake.list_tables("db") == []
                left = set(files_below(folder)) - set(before)
                assert len(left) <= (0 if fault is Fault.UNAVAILABLE else 3)
                for path in left:
                    Path(path).unlink()
            else:
                lake.drop_table("db.t")
                for path in set(files_below(folder)) - set(before):
                    Path(path).unlink()
            assert files_below(folder) == before
    assert failed >= 8


def with_days(table: RecordedTable) -> SourceFolders:
    schema = schema_from_arrow(pa.schema([("id", pa.int64()), ("note", pa.string()), ("day", pa.int32())]), keep_ids=False)
    return SourceFolders([table.location], schema, ("day",), {}, table)


def test_folders_that_cannot_be_the_tables_alone_are_refused(lake: SqlCatalog, tmp_path: Path) -> None:
    write(tmp_path / "warehouse/other", [1])
    write(tmp_path / "t/inner", [1])
    lake.create_table("db.inner", pa.schema([("id", pa.int64())]), location=str(tmp_path / "t/inner/deep"))
    before = files_below(tmp_path)
    for folder, message in (
        (tmp_path / "warehouse", "has the warehouse in it"),
        (tmp_path / "t/inner", "overlaps with the folder of db.inner"),
    ):
        with pytest.raises(LocationNotAllowedError, match=message):
            migrate_table(lake, str(folder), "db.t")
    assert files_below(tmp_path) == before


def test_a_folder_with_metadata_of_a_table_is_refused_and_manifests_of_a_killed_run_are_left_out(lake: SqlCatalog, tmp_path: Path) -> None:
    write(tmp_path / "source", [1])
    migrate_table(lake, str(tmp_path / "source"), "db.t")
    lake.drop_table("db.t")
    with pytest.raises(InvalidInputError, match="has the metadata of an Iceberg table"):
        migrate_table(lake, str(tmp_path / "source"), "db.t")
    for path in (tmp_path / "source/metadata").glob("*.metadata.json"):
        path.unlink()
    assert list((tmp_path / "source/metadata").iterdir())
    assert migrate_table(lake, str(tmp_path / "source"), "db.t").migrated_records == 1
    found = lake.load_table("db.t").maintenance.remove_orphan_files(10**14, force=True, dry_run=True)
    assert {Path(path).suffix for path in found.files["path"].to_pylist()} == {".avro"}


def test_wrong_arguments_are_refused(lake: SqlCatalog, tmp_path: Path) -> None:
    folder = tmp_path / "source"
    write(folder, [1])
    with pytest.raises(InvalidInputError, match="no name for the new table"):
        call(lake, "migrate", table=str(folder))
    with pytest.raises(InvalidInputError, match="no backup"):
        call(lake, "migrate", table=str(folder), new_table="db.t", drop_backup=True)
    with pytest.raises(InvalidInputError, match="no argument"):
        call(lake, "migrate", table=str(folder), location="x")
    with pytest.raises(InvalidInputError, match="parallelism"):
        call(lake, "migrate", table=str(folder), new_table="db.t", parallelism=0)
    snapshot_table(lake, str(folder), "db.taken")
    with pytest.raises(TableAlreadyExistsError):
        migrate_table(lake, str(folder), "db.taken")
    with pytest.raises(InvalidInputError, match="Iceberg table already"):
        call(lake, "migrate", table="db.taken")
    pq.write_table(pa.table({"_col0": [1]}), folder / "y.parquet")
    with pytest.raises(SchemaMismatchError, match="does not have any of the table's columns"):
        migrate_table(lake, source_of(RecordedTable(folder)))
    with pytest.raises(NoSuchTableError):
        lake.load_table("db.t")


def test_files_outside_of_the_folder_are_read_and_never_deleted(lake: SqlCatalog, tmp_path: Path) -> None:
    source = RecordedTable(tmp_path / "source")
    (inside, outside) = write(tmp_path / "source/day=1", [1]), write(tmp_path / "elsewhere/day=2", [2])
    folders = with_days(source)
    folders[:] = [f"{inside.parent}/", f"{outside.parent}/"]
    result = migrate_table(lake, folders)
    assert (result.migrated_files, result.outside_files) == (2, 1)
    table = lake.load_table("db.t")
    table.delete("id > 0")
    table.append(pa.table({"id": [3], "note": ["x"], "day": pa.array([1], pa.int32())}))
    table.expire_snapshots(10**14, retain_last=1)
    assert (inside.exists(), outside.exists()) == (False, True)
