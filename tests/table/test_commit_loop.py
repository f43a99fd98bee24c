"""The commit loop under injected faults: conflicts, lost replies, unknown commit states, and commits that follow one whose reply is lost."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.reference_reader import ReferenceReader

from icefloe import SqlCatalog
from icefloe.commit.outcome import Refused
from icefloe.errors import (
    CommitConflictError,
    CommitInvalidatedError,
    CommitUnknownError,
    InvalidInputError,
    NoSuchTableError,
    StoragePermissionError,
)
from icefloe.operations.metadata_cache import load_metadata
from icefloe.operations.table_handle import TableHandle
from icefloe.stores.sql_store import SqlCatalogStore
from icefloe.table import Table
from icefloe.testing.fault_injection import Fault, Faults, FaultyFileIO, FaultyStore

SCHEMA = pa.schema([("n", pa.int64())])


def row_of(number: int) -> pa.Table:
    return pa.table({"n": pa.array([number], pa.int64())})


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    catalog.create_table(
        "db.t",
        SCHEMA,
        properties={
            "commit.retry.min-wait-ms": "1",
            "commit.retry.max-wait-ms": "2",
            "commit.retry.num-retries": "3",
            "commit.status-check.min-wait-ms": "1",
        },
    )
    return catalog


def faulty(table: Table, faults: Faults) -> Table:
    """Return the same table on a store and a storage that raise the ordered faults."""
    store, io = FaultyStore(table.handle.store, faults), FaultyFileIO(table.handle.io, faults)
    handle = TableHandle(identifier=table.handle.identifier, store=store, io=io)
    return Table(handle, load_metadata(handle))


def numbers(table: Table) -> list[int]:
    return sorted(table.refresh().scan().to_arrow()["n"].to_pylist())


def files(folder: Path, pattern: str) -> set[str]:
    return {path.name for path in folder.rglob(pattern)}


def test_a_conflict_is_retried_with_only_a_new_manifest_list(catalog: SqlCatalog, tmp_path: Path) -> None:
    this_writer, other_writer = catalog.load_table("db.t"), catalog.load_table("db.t")
    other_writer.append(row_of(1))
    result = this_writer.append(row_of(2))
    assert result.attempts == 2
    assert numbers(this_writer) == [1, 2]
    snapshot = this_writer.current_snapshot()
    assert snapshot is not None
    assert snapshot.sequence_number == 2
    assert f"snap-{snapshot.snapshot_id}-1-" in str(snapshot.manifest_list)
    # Each commit has one manifest and one manifest list, and the failed attempt left no file.
    assert len(files(tmp_path, "*-m0.avro")) == 2
    assert len(files(tmp_path, "*-m*.avro")) == 2
    assert len(files(tmp_path, "snap-*.avro")) == 2
    assert len(files(tmp_path, "*.metadata.json")) == 3


def test_a_retried_delete_deletes_rows_of_the_concurrent_commit(catalog: SqlCatalog) -> None:
    this_writer, other_writer = catalog.load_table("db.t"), catalog.load_table("db.t")
    this_writer.append(row_of(1))
    other_writer.refresh()
    this_writer.refresh()
    other_writer.append(row_of(5))
    other_writer.append(row_of(6))
    result = this_writer.delete("n < 6")
    assert result.deleted_records == 2
    assert numbers(this_writer) == [6]


def test_a_retried_overwrite_replaces_rows_of_the_concurrent_commit(catalog: SqlCatalog, tmp_path: Path) -> None:
    this_writer, other_writer = catalog.load_table("db.t"), catalog.load_table("db.t")
    other_writer.append(pa.table({"n": pa.array([1, 2, 3], pa.int64())}))
    this_writer.overwrite(row_of(9), "n >= 2")
    assert numbers(this_writer) == [1, 9]
    live = {Path(task.file.file_path).name for task in this_writer.scan().plan_files()}
    assert live < files(tmp_path, "*.parquet")


def test_a_commit_that_always_conflicts_leaves_no_file_and_its_error_has_a_next_step(catalog: SqlCatalog, tmp_path: Path) -> None:
    faults = Faults()
    table = faulty(catalog.load_table("db.t"), faults)
    before = {path for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".db"}
    faults.order("commit", Fault.CONFLICT, times=None)
    with pytest.raises(CommitConflictError, match="4 attempts") as lost:
        table.append(row_of(1))
    assert "commit.retry.num-retries" in str(lost.value)
    assert [problem.where for problem in lost.value.problems] == ["expected", "found", "attempts"]
    assert {path for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".db"} == before


def test_an_unknown_commit_state_deletes_nothing(catalog: SqlCatalog) -> None:
    faults = Faults()
    table = faulty(catalog.load_table("db.t"), faults)
    faults.order("commit", Fault.LOST_REPLY)
    faults.order("load", Fault.UNAVAILABLE, times=None)  # and the metadata location cannot be read
    with pytest.raises(CommitUnknownError, match="may or may not") as unknown:
        table.append(row_of(1))
    faults.clear_orders()
    assert "history" in str(unknown.value)
    assert [event for event in faults.log if event.operation == "delete"] == []
    assert numbers(table) == [1]


def test_the_commit_status_check_is_retried_after_a_lost_reply(catalog: SqlCatalog) -> None:
    faults = Faults()
    table = faulty(catalog.load_table("db.t"), faults)
    faults.order("commit", Fault.LOST_REPLY)
    faults.order("load", Fault.UNAVAILABLE, times=2)  # the database is available again before the status checks end
    result = table.append(row_of(1))
    assert (result.attempts, numbers(table)) == (1, [1])


def test_a_swap_that_was_not_applied_and_no_longer_can_be_is_retried(catalog: SqlCatalog, tmp_path: Path) -> None:
    faults = Faults()
    table = faulty(catalog.load_table("db.t"), faults)
    faults.order("commit", Fault.UNKNOWN)
    result = table.append(row_of(1))
    assert (result.attempts, numbers(table)) == (2, [1])
    assert len(files(tmp_path, "snap-*.avro")) == 1


@pytest.mark.parametrize(("fault", "attempts"), [(Fault.UNAVAILABLE_AFTER, 1), (Fault.UNAVAILABLE, 2)])
def test_an_exception_of_a_store_during_a_swap_is_an_unknown_commit_state(
    catalog: SqlCatalog, tmp_path: Path, fault: Fault, attempts: int
) -> None:
    faults = Faults()
    table = faulty(catalog.load_table("db.t"), faults)
    faults.order("commit", fault)
    result = table.append(row_of(1))
    assert (result.attempts, numbers(table)) == (attempts, [1])
    assert len(files(tmp_path, "snap-*.avro")) == 1
    faults.order("commit", fault)
    faults.order("load", Fault.UNAVAILABLE, times=None)
    with pytest.raises(CommitUnknownError, match="may or may not"):
        table.append(row_of(2))
    faults.clear_orders()
    assert len(files(tmp_path, "snap-*.avro")) == 2, "nothing is deleted"


def test_a_swap_that_is_applied_late_is_awaited_and_committed_once(catalog: SqlCatalog) -> None:
    faults = Faults()
    table = faulty(catalog.load_table("db.t"), faults)
    faults.order("commit", Fault.LATE, loads=2)
    result = table.append(row_of(1))
    assert (result.attempts, numbers(table)) == (1, [1])


def test_the_error_for_an_unknown_commit_state_has_the_command_to_check_it(catalog: SqlCatalog) -> None:
    table = catalog.load_table("db.t")
    table.set_properties({"commit.status-check.num-retries": "0"})
    faults = Faults()
    table = faulty(table, faults)
    faults.order("commit", Fault.LATE, loads=5)
    with pytest.raises(CommitUnknownError) as unknown:
        table.append(row_of(1))
    assert f"`icefloe show snapshots db.t --catalog lake`: where snapshot {unknown.value.snapshot_id} is" in str(unknown.value)
    assert unknown.value.path in str(unknown.value)
    table.handle.store.land_late()  # type: ignore[attr-defined]
    assert numbers(table) == [1], "the late swap found all its files"
    assert table.current_snapshot().snapshot_id == unknown.value.snapshot_id


def test_a_metadata_change_whose_reply_is_lost_is_found_in_the_metadata_log(catalog: SqlCatalog) -> None:
    """Check a metadata change after later commits: it has no snapshot, so only the metadata log shows it."""

    def others(count: int) -> None:
        other = catalog.load_table("db.t")
        for number in range(count):
            other.set_properties({f"p{number}": str(count)})

    faults = Faults()
    table = faulty(catalog.load_table("db.t"), faults)
    faults.order("commit", Fault.OVERTAKEN, meanwhile=lambda: others(3))
    table.set_properties({"ours": "1"})
    assert table.properties["ours"] == "1"
    assert table.properties["p2"] == "3"
    catalog.load_table("db.t").set_properties({"write.metadata.previous-versions-max": "2"})
    table.refresh()
    faults.order("commit", Fault.OVERTAKEN, meanwhile=lambda: others(4))
    with pytest.raises(CommitUnknownError, match="its log no longer shows it"):
        table.set_properties({"ours": "2"})
    assert catalog.load_table("db.t").properties["ours"] == "2", "it had happened"


def test_a_refused_swap_leaves_no_file_and_is_not_retried(catalog: SqlCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = catalog.load_table("db.t")
    before = {path for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".db"}
    denied = StoragePermissionError("permission denied for table iceberg_tables")
    monkeypatch.setattr(SqlCatalogStore, "commit", lambda self, requests: Refused(error=denied))
    with pytest.raises(StoragePermissionError):
        table.append(row_of(1))
    assert {path for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".db"} == before


def test_an_overtaken_commit_is_found_in_the_history_of_the_current_metadata(catalog: SqlCatalog) -> None:
    faults = Faults()
    table = faulty(catalog.load_table("db.t"), faults)
    faults.order("commit", Fault.OVERTAKEN, meanwhile=lambda: catalog.load_table("db.t").append(row_of(2)))
    result = table.append(row_of(1))
    assert numbers(table) == [1, 2], "the append must be there once, not twice"
    assert result.snapshot_id in {snapshot.snapshot_id for snapshot in table.snapshots()}


def test_an_interrupt_during_the_compare_and_swap_deletes_nothing(catalog: SqlCatalog) -> None:
    faults = Faults()
    table = faulty(catalog.load_table("db.t"), faults)
    faults.order("commit", Fault.INTERRUPT_AFTER)
    with pytest.raises(KeyboardInterrupt):
        table.append(row_of(1))
    assert numbers(table) == [1]


def test_the_error_names_a_table_that_was_dropped_concurrently(catalog: SqlCatalog) -> None:
    table = catalog.load_table("db.t")
    catalog.rename_table("db.t", "db.u")
    with pytest.raises(NoSuchTableError, match=r"'db\.t' does not exist .* any longer: it was dropped or renamed since") as refused:
        table.append(row_of(1))
    assert refused.value.next_step == "a retry makes no sense: load it by the name that it has now; the namespace holds db.u"
    assert numbers(catalog.load_table("db.u")) == []
    catalog.drop_table("db.u")
    with pytest.raises(NoSuchTableError, match="any longer"):
        table.refresh()


def test_a_recreated_table_of_the_same_name_is_another_table(catalog: SqlCatalog) -> None:
    table = catalog.load_table("db.t")
    before = table.append(row_of(1))
    catalog.drop_table("db.t")
    other = catalog.create_table("db.t", table.schema())
    with pytest.raises(NoSuchTableError, match=r"db\.t is another table now"):
        table.append(row_of(2))
    with pytest.raises(NoSuchTableError, match=str(other.metadata.table_uuid)):
        table.refresh()
    assert catalog.load_table("db.t").scan().to_arrow().num_rows == 0
    assert table.current_snapshot().snapshot_id == before.snapshot_id


def test_an_interrupt_during_a_retry_keeps_an_overtaken_commit(catalog: SqlCatalog) -> None:
    faults = Faults()
    table = faulty(catalog.load_table("db.t"), faults)
    faults.order("commit", Fault.OVERTAKEN, meanwhile=lambda: catalog.load_table("db.t").append(row_of(2)))
    faults.order("load", Fault.INTERRUPT)
    with pytest.raises(KeyboardInterrupt):
        table.append(row_of(1))
    assert numbers(table) == [1, 2]


def test_old_metadata_files_are_deleted_if_the_table_property_enables_it(catalog: SqlCatalog, tmp_path: Path) -> None:
    table = catalog.create_table(
        "db.u", SCHEMA, properties={"write.metadata.previous-versions-max": "2", "write.metadata.delete-after-commit.enabled": "true"}
    )
    for number in range(5):
        table.append(row_of(number))
    assert len(list((tmp_path / "db" / "u").rglob("*.metadata.json"))) == 3
    assert len(table.metadata.metadata_log) == 2
    assert numbers(table) == [0, 1, 2, 3, 4]


def test_a_retried_delete_that_matches_no_row_leaves_no_file(catalog: SqlCatalog, tmp_path: Path) -> None:
    faults = Faults()
    catalog.load_table("db.t").append(row_of(1))
    table = faulty(catalog.load_table("db.t"), faults)
    faults.order("commit", meanwhile=lambda: catalog.load_table("db.t").delete())
    table.delete_keys(row_of(1), ["n"])
    assert files(tmp_path, "*.parquet") == {path.name for path in tmp_path.rglob("*.parquet") if "deletes" not in path.name}
    assert len(table.refresh().snapshots()) == 2


def together(table: Table) -> None:
    with table.refresh().transaction() as tx:
        tx.append(row_of(5))
        commit_and_expire(table)
    assert 5 in numbers(table)


def commit_and_expire(table: Table) -> None:
    """Commit as another writer, and expire every snapshot that the stale table was loaded with."""
    other = Table(table.handle, load_metadata(table.handle))
    other.append(row_of(4))
    other.expire_snapshots(older_than=4_102_444_800_000, retain_last=1)


@pytest.mark.parametrize(
    ("change", "left"),
    [
        (lambda table: table.append(row_of(5)), [1, 2, 4, 5]),
        (lambda table: table.delete("n = 1"), [2, 4]),
        (lambda table: table.overwrite(row_of(5), "n = 2"), [1, 4, 5]),
        (lambda table: table.upsert(row_of(5), ["n"]), [1, 2, 4, 5]),
        (lambda table: table.delete_keys(row_of(2), ["n"]), [1, 4]),
        (lambda table: table.rewrite_manifests(), [1, 2, 4]),
        (lambda table: table.update_snapshot().delete_files().delete_from_row_filter("true").commit(), []),
        (together, [1, 2, 4, 4, 5]),
    ],
)
def test_a_writer_whose_loaded_snapshots_were_expired_commits_to_the_current_table(
    catalog: SqlCatalog, change: Callable[[Table], Any], left: list[int]
) -> None:
    table = catalog.load_table("db.t")
    table.append(row_of(1))
    table.append(row_of(2))
    commit_and_expire(table)
    change(table)
    assert numbers(catalog.load_table("db.t")) == left
    # The rows as fastavro and PyArrow read them.
    reader = ReferenceReader(table.io)
    document = reader.document(table.metadata_location)
    assert sorted(row.values[1] for row in reader.rows(document, reader.snapshot(document, document["current-snapshot-id"]))) == left


def test_an_interrupt_before_the_first_swap_leaves_no_file_even_if_the_catalog_is_unavailable(catalog: SqlCatalog, tmp_path: Path) -> None:
    table = catalog.load_table("db.t")
    before = files(tmp_path, "*.*")
    faults = Faults()
    writer = faulty(table, faults)
    faults.order("write", Fault.INTERRUPT_AFTER, matching=".metadata.json")
    faults.order("load", Fault.DENIED, times=None)
    with pytest.raises(KeyboardInterrupt):
        writer.append(row_of(1))
    assert files(tmp_path, "*.*") == before


def test_the_error_for_a_change_that_a_concurrent_commit_made_invalid_names_that_cause(catalog: SqlCatalog, tmp_path: Path) -> None:
    catalog.create_table("db.old", SCHEMA, properties={"format-version": "1"})
    this_writer, other_writer = catalog.load_table("db.old"), catalog.load_table("db.old")
    other_writer.upgrade_table_version(3)
    there = files(tmp_path, "*.metadata.json")
    with pytest.raises(CommitInvalidatedError, match="another writer changed the table since this change was first made") as refused:
        this_writer.upgrade_table_version(2)
    assert "of format version 3 cannot go back to version 2" in refused.value.message
    assert refused.value.table == "lake.db.old"
    assert files(tmp_path, "*.metadata.json") == there
    assert this_writer.refresh().metadata.format_version == 3
    with pytest.raises(InvalidInputError, match="cannot go back to version 2"):
        this_writer.upgrade_table_version(2)
