"""Expiry of snapshots: its report, its refusals, and the deletion of exactly those files that no kept snapshot needs; with faults in every step."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.reports import facts
from tests.table.reachable import everything, files_of, on_disk

from icefloe import LongType, SqlCatalog
from icefloe.commit.append import Append
from icefloe.commit.metadata_change import MetadataChange
from icefloe.errors import (
    CommitInvalidatedError,
    CommitUnknownError,
    FormatError,
    InvalidInputError,
    NoSuchFileError,
    NoSuchSnapshotError,
    ReadOnlyTableError,
    StorageError,
)
from icefloe.operations.expiry.expire_report import ExpireState
from icefloe.operations.metadata_cache import load_metadata
from icefloe.operations.rows.write_context import commit_context
from icefloe.operations.table_handle import TableHandle
from icefloe.operations.unreachable_files import FileKind
from icefloe.spec.metadata.snapshot_ref import SnapshotRef
from icefloe.spec.metadata.snapshot_updates import SetSnapshotRef
from icefloe.table import StaticTable, Table
from icefloe.testing.fault_injection import Fault, Faults, FaultyFileIO, FaultyStore, SimulatedCrash

FAR = 10**14  # every snapshot is older


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    return catalog


@pytest.fixture
def table(catalog: SqlCatalog) -> Table:
    return catalog.create_table("db.t", pa.schema([("a", pa.int64())]), properties={"commit.manifest-merge.enabled": "false"})


def append(table: Table, *numbers: int, **options: Any) -> int:
    snapshot_id = table.append(pa.table({"a": list(numbers)}), **options).snapshot_id
    assert snapshot_id is not None
    return snapshot_id


def values(table: Table, **options: Any) -> list[int]:
    return sorted(table.scan(**options).to_arrow()["a"].to_pylist())


def set_ref(table: Table, name: str, snapshot_id: int, **options: Any) -> None:
    table.apply(MetadataChange(lambda base: (SetSnapshotRef(name, SnapshotRef(snapshot_id=snapshot_id, **options)),), ()))


def check_files(table: Table, *others: str) -> None:
    """Check that the folder contains exactly the files that the snapshots need, and `others`."""
    assert on_disk(table.location()) == everything(table.metadata) | set(others)


def test_all_snapshots_but_the_last_are_removed_with_the_files_that_only_they_need(table: Table) -> None:
    append(table, 1)
    append(table, 2, 3)
    table.delete("a < 3")
    last = append(table, 4)
    gone = [snapshot.snapshot_id for snapshot in table.snapshots()[:-1]]
    planned = table.expire_snapshots(FAR, dry_run=True)
    check_files(table)
    report = table.expire_snapshots(FAR)

    assert [snapshot.snapshot_id for snapshot in table.snapshots()] == [last]
    assert report.snapshot_ids == tuple(gone)
    assert (planned.state, report.state, planned.snapshot_ids) == (ExpireState.DRY_RUN, ExpireState.DONE, report.snapshot_ids)
    assert planned.files.equals(report.files)
    assert values(table) == [3, 4]
    check_files(table)
    assert report.totals[FileKind.DATA].files == 2
    assert report.totals[FileKind.MANIFEST_LISTS].files == 3
    assert facts(report)["snapshots"] == "3"
    assert facts(report)["data files"].startswith("2, ")


def test_the_report_has_the_sizes_of_the_deleted_files(table: Table) -> None:
    append(table, 1)
    table.overwrite(pa.table({"a": [2]}))
    table.compute_statistics(snapshot_id=table.snapshots()[0].snapshot_id)
    planned = table.expire_snapshots(FAR, dry_run=True)
    assert {path: Path(path).stat().st_size for path in planned.files["path"].to_pylist()} == dict(
        zip(planned.files["path"].to_pylist(), planned.files["size_in_bytes"].to_pylist(), strict=True)
    )
    assert FileKind.STATISTICS in planned.totals
    table.expire_snapshots(FAR)
    assert not table.statistics_files()
    check_files(table)


def test_an_expiry_without_expired_snapshots_commits_nothing(table: Table) -> None:
    append(table, 1)
    append(table, 2)
    before = table.metadata_location
    report = table.expire_snapshots()
    assert (report.snapshot_ids, report.deleted_files, table.metadata_location) == ((), 0, before)
    assert table.expire_snapshots(datetime.now(UTC) - timedelta(days=7)).snapshot_ids == ()


def test_only_the_named_snapshots_are_removed(table: Table) -> None:
    first, second, third = (append(table, number) for number in (1, 2, 3))
    table.set_properties({"history.expire.max-snapshot-age-ms": "0"})
    time.sleep(0.002)
    assert table.expire_snapshots(snapshot_ids=[second]).snapshot_ids == (second,)
    assert values(table, snapshot_id=first) == [1]
    with pytest.raises(InvalidInputError, match="branch main names it"):
        table.expire_snapshots(snapshot_ids=[third])
    with pytest.raises(NoSuchSnapshotError, match=str(second)):
        table.expire_snapshots(snapshot_ids=[second])
    check_files(table)


@pytest.mark.parametrize(
    "wrong", [{"retain_last": 0}, {"retain_last": True}, {"older_than": "yesterday"}, {"older_than": datetime(2024, 1, 1)}]
)
def test_contradictory_or_invalid_arguments_are_refused(table: Table, wrong: dict[str, Any]) -> None:
    append(table, 1)
    with pytest.raises(InvalidInputError):
        table.expire_snapshots(**wrong)


def test_snapshots_of_retain_last_and_of_references_are_kept(table: Table) -> None:
    ids = [append(table, number) for number in range(6)]
    set_ref(table, "tagged", ids[0], type="tag")
    set_ref(table, "short", ids[1], type="tag", max_ref_age_ms=1)
    set_ref(table, "side", ids[3], min_snapshots_to_keep=2)
    time.sleep(0.01)
    report = table.expire_snapshots(FAR, retain_last=1)
    assert report.refs == ("short",)
    assert report.snapshot_ids == (ids[1], ids[4])
    assert [values(table, snapshot_id=kept) for kept in (ids[0], ids[2], ids[3], ids[5])] == [[0], [0, 1, 2], [0, 1, 2, 3], [*range(6)]]
    assert "short" in str(report)
    check_files(table)


def test_no_file_is_deleted_where_gc_is_disabled(table: Table) -> None:
    append(table, 1)
    append(table, 2)
    table.set_properties({"gc.enabled": "false"})
    for dry_run in (True, False):
        with pytest.raises(InvalidInputError, match=r"gc\.enabled"):
            table.expire_snapshots(FAR, dry_run=dry_run)
    files = on_disk(table.location())
    report = table.expire_snapshots(FAR, delete_files=False)
    assert (len(report.snapshot_ids), report.deleted_files, len(table.snapshots())) == (1, 0, 1)
    assert on_disk(table.location()) == files
    assert "delete_files" in str(report)


def test_a_static_table_refuses_an_expiry(table: Table) -> None:
    append(table, 1)
    with pytest.raises(ReadOnlyTableError):
        StaticTable.from_metadata(table.metadata_location).expire_snapshots()


# ---- in a transaction ----


def test_in_a_transaction_files_are_deleted_after_the_commit(table: Table) -> None:
    append(table, 1)
    append(table, 2)
    with table.transaction() as tx:
        tx.append(pa.table({"a": [3]}))
        tx.delete("a = 2")
        staged = tx.expire_snapshots(FAR)
        assert (staged.state, len(staged.snapshot_ids), tx.expire_reports) == (ExpireState.STAGED, 3, ())
        files = on_disk(table.location())
    assert "will be removed from" in str(staged)
    (report,) = tx.expire_reports
    assert (report.state, report.snapshot_ids, len(table.snapshots())) == (ExpireState.DONE, staged.snapshot_ids, 1)
    assert files - on_disk(table.location())
    assert values(table) == [1, 3]
    check_files(table)


def test_a_transaction_that_fails_deletes_nothing(table: Table) -> None:
    append(table, 1)
    append(table, 2)
    files = on_disk(table.location())
    with pytest.raises(InvalidInputError), table.transaction() as tx:  # noqa: PT012
        tx.expire_snapshots(FAR)
        tx.expire_snapshots(retain_last=0)
    assert on_disk(table.location()) == files


# ---- damage ----


def test_nothing_changes_where_a_kept_manifest_cannot_be_read(table: Table) -> None:
    append(table, 1)
    table.overwrite(pa.table({"a": [2]}))
    append(table, 3)
    kept = table.current_snapshot().manifests(table.io)[0].manifest_path  # type: ignore[union-attr]
    content = Path(kept).read_bytes()
    before, location = on_disk(table.location()), table.metadata_location
    for damage, error in ((content[:-1], FormatError), (None, NoSuchFileError)):
        Path(kept).unlink()
        if damage is not None:
            Path(kept).write_bytes(damage)
        with pytest.raises(error, match="no file was deleted") as refused:
            table.expire_snapshots(FAR)
        assert kept in str(refused.value)
        assert table.refresh().metadata_location == location
    Path(kept).write_bytes(content)
    assert on_disk(table.location()) == before
    table.expire_snapshots(FAR)
    check_files(table)


def test_damaged_files_of_expired_snapshots_are_reported_and_the_others_deleted(table: Table) -> None:
    append(table, 1)
    first = table.current_snapshot().manifests(table.io)[0].manifest_path  # type: ignore[union-attr]
    data = [path for path in on_disk(table.location()) if path.endswith(".parquet")]
    table.overwrite(pa.table({"a": [2]}))
    table.overwrite(pa.table({"a": [3]}))
    lists = [snapshot.manifest_list for snapshot in table.snapshots()]
    Path(first).write_bytes(b"Obj\x01 no manifest")
    Path(str(lists[1])).unlink()
    report = table.expire_snapshots(FAR)
    assert {problem.where for problem in report.unreadable} == {first, lists[1]}
    assert "it does not exist" in str(report)
    # Only the damaged manifest names its files, except the manifest that removed its file from the table, which was in the lost manifest list.
    left = on_disk(table.location()) - everything(table.metadata)
    assert left >= {first, *data}
    assert lists[0] not in left


# ---- crashes, races, lost replies ----


def faulty(table: Table) -> tuple[Table, Faults]:
    faults = Faults()
    handle = TableHandle(identifier=table.name(), store=FaultyStore(table.handle.store, faults), io=FaultyFileIO(table.io, faults))
    return Table(handle, load_metadata(table.handle)), faults


def history(table: Table) -> None:
    append(table, 1)
    table.overwrite(pa.table({"a": [2]}))
    table.overwrite(pa.table({"a": [3]}))


def test_a_file_that_cannot_be_deleted_is_reported_and_does_not_fail_the_expiry(table: Table) -> None:
    history(table)
    broken, faults = faulty(table)
    faults.order("delete", Fault.DENIED, matching=".parquet")
    report = broken.expire_snapshots(FAR)
    (problem,) = report.undeleted
    assert problem.where.endswith(".parquet")
    assert report.totals[FileKind.DATA].files == 1
    assert "could not be deleted" in str(report)
    check_files(table.refresh(), problem.where)


@pytest.mark.parametrize("fault", [Fault.CRASH, Fault.CRASH_AFTER, Fault.INTERRUPT])
def test_a_crash_during_the_deletion_leaves_unreferenced_files_and_an_intact_table(table: Table, fault: Fault) -> None:
    history(table)
    broken, faults = faulty(table)
    faults.order("delete", fault, matching="snap-")
    with pytest.raises((SimulatedCrash, KeyboardInterrupt)):
        broken.expire_snapshots(FAR)
    assert on_disk(table.location()) >= everything(table.refresh().metadata)
    assert (len(table.snapshots()), values(table)) == (1, [3])


def test_files_that_remain_after_a_crash_are_deleted_with_the_snapshot_that_removed_them(table: Table) -> None:
    history(table)
    broken, faults = faulty(table)
    faults.order("delete", Fault.CRASH, matching=".parquet")
    with pytest.raises(SimulatedCrash):
        broken.expire_snapshots(FAR)
    left = {path for path in on_disk(table.location()) - everything(table.refresh().metadata) if path.endswith(".parquet")}
    assert left
    table.overwrite(pa.table({"a": [4]}))
    report = table.expire_snapshots(FAR)
    assert left & set(report.files["path"].to_pylist())


@pytest.mark.parametrize("fault", [Fault.UNKNOWN, Fault.LATE])
def test_an_unknown_commit_state_deletes_nothing(table: Table, fault: Fault) -> None:
    history(table)
    table.set_properties({"commit.status-check.num-retries": "0", "commit.status-check.min-wait-ms": "1"})
    before = on_disk(table.location())
    broken, faults = faulty(table)
    faults.order("commit", fault)
    faults.order("load", Fault.UNAVAILABLE, times=100)  # the metadata location cannot be read either
    with pytest.raises(CommitUnknownError):
        broken.expire_snapshots(FAR)
    assert on_disk(table.location()) >= before


def meanwhile(table: Table, do: Callable[[Table], object]) -> Callable[[], None]:
    def step() -> None:
        do(Table(table.handle, load_metadata(table.handle)))

    return step


def test_a_branch_that_moves_concurrently_changes_the_expired_snapshots(table: Table) -> None:
    history(table)
    head = table.metadata.current_snapshot_id
    broken, faults = faulty(table)
    faults.order("commit", meanwhile=meanwhile(table, lambda other: append(other, 4)))
    report = broken.expire_snapshots(FAR)
    assert head in report.snapshot_ids
    assert len(report.snapshot_ids) == 3
    assert values(table.refresh()) == [3, 4]
    check_files(table)


def test_a_tag_that_is_created_concurrently_keeps_its_snapshot(table: Table) -> None:
    history(table)
    first = table.snapshots()[0].snapshot_id
    broken, faults = faulty(table)
    faults.order("commit", meanwhile=meanwhile(table, lambda other: set_ref(other, "kept", first, type="tag")))
    report = broken.expire_snapshots(FAR)
    assert first not in report.snapshot_ids
    assert values(table.refresh(), snapshot_id=first) == [1]
    check_files(table)
    broken, faults = faulty(table)
    append(table, 5)
    second = table.snapshots()[-2].snapshot_id
    broken, faults = faulty(table)
    faults.order("commit", meanwhile=meanwhile(table, lambda other: set_ref(other, "held", second, type="tag")))
    with pytest.raises(CommitInvalidatedError, match="tag held"):
        broken.expire_snapshots(snapshot_ids=[second])
    check_files(table.refresh())


def test_files_of_a_commit_between_the_expiry_and_its_deletions_are_kept(table: Table) -> None:
    history(table)
    expired = table.snapshots()[0]
    entry = expired.manifests(table.io)[0].fetch_manifest_entry(table.io)[0]
    broken, faults = faulty(table)

    def bring_back(other: Table) -> None:
        other.apply(Append([entry.data_file], commit_context(other.handle, other.metadata, {})))

    # The first read of the metadata location precedes the deletions: a file of an expired snapshot is added again just before it.
    faults.order("load", meanwhile=meanwhile(table, bring_back))
    broken.expire_snapshots(FAR)
    assert values(table.refresh()) == [1, 3]
    check_files(table)


def test_two_concurrent_expiries_leave_no_unreferenced_file(table: Table) -> None:
    history(table)
    append(table, 4)
    broken, faults = faulty(table)
    faults.order("commit", meanwhile=meanwhile(table, lambda other: other.expire_snapshots(FAR, retain_last=2)))
    report = broken.expire_snapshots(FAR)
    assert len(report.snapshot_ids) == 1
    assert values(table.refresh()) == [3, 4]
    check_files(table)


def test_files_shared_with_a_snapshot_that_another_expiry_removes_are_deleted(table: Table) -> None:
    """Plan an expiry while a branch needs the shared files; before its commit another expiry removes that snapshot, and leaves the files to this one."""
    first = append(table, 1)
    set_ref(table, "b", first, type="branch")
    held = append(table, 2, branch="b")
    table.overwrite(pa.table({"a": [3]}))
    broken, faults = faulty(table)

    def drop(other: Table) -> None:
        other.manage_snapshots().remove_branch("b").commit()
        assert other.expire_snapshots(snapshot_ids=[held]).snapshot_ids == (held,)

    faults.order("commit", meanwhile=meanwhile(table, drop))
    report = broken.expire_snapshots(snapshot_ids=[first])
    assert report.snapshot_ids == (first,)
    assert report.totals[FileKind.DATA].files == 1
    assert values(table.refresh()) == [3]
    check_files(table)


def test_files_of_a_commit_in_flight_are_kept(table: Table) -> None:
    history(table)
    broken, faults = faulty(table)
    in_flight: list[set[str]] = []

    def expire(other: Table) -> None:
        before = on_disk(table.location())
        in_flight.append(before - everything(other.metadata))
        other.expire_snapshots(FAR)
        assert in_flight[0] <= on_disk(table.location())

    # Data file, manifest, manifest list and metadata file are written; the compare-and-swap is next.
    faults.order("commit", meanwhile=meanwhile(table, expire))
    append(broken, 7)
    assert len(in_flight[0]) == 3
    assert values(table.refresh()) == [3, 7]
    assert on_disk(table.location()) >= everything(table.metadata)


def test_an_expiry_whose_reply_is_lost_but_that_is_committed_deletes_its_files(table: Table) -> None:
    history(table)
    broken, faults = faulty(table)
    faults.order("commit", Fault.OVERTAKEN, meanwhile=meanwhile(table, lambda other: append(other, 9)))
    report = broken.expire_snapshots(FAR)
    assert len(report.snapshot_ids) == 2
    assert values(table.refresh()) == [3, 9]
    check_files(table)


def test_files_with_two_spellings_of_their_path_are_kept(table: Table, tmp_path: Path) -> None:
    """Expire a table whose newer metadata has `file:///x` for the path `/x` of older metadata."""
    history(table)
    append(table, 5)
    needed = files_of(table.metadata, [table.metadata.current_snapshot_id or 0])
    list_path = str(table.metadata.current_snapshot().manifest_list)  # type: ignore[union-attr]
    renamed = Path(table.metadata_location).read_text().replace(list_path, f"file://{list_path}", 1)
    location = str(Path(table.metadata_location).with_name("00099-x.metadata.json"))
    Path(location).write_text(renamed)
    catalog = SqlCatalog("other", uri=f"sqlite:///{tmp_path}/other.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    other = catalog.register_table("db.t", location)
    other.expire_snapshots(FAR)
    assert needed <= on_disk(table.location())


def test_unavailable_storage_before_the_commit_changes_nothing(table: Table) -> None:
    history(table)
    append(table, 4)
    location = table.metadata_location
    broken, faults = faulty(table)
    faults.order("read", Fault.UNAVAILABLE, matching=str(table.metadata.current_snapshot().manifest_list))  # type: ignore[union-attr]
    with pytest.raises(StorageError, match="no file was deleted"):
        broken.expire_snapshots(FAR)
    assert table.refresh().metadata_location == location


def test_the_methods_of_pyiceberg_have_the_same_effect(table: Table) -> None:
    ids = [append(table, number) for number in range(5)]
    assert table.maintenance.expire_snapshots().by_id(ids[0]).by_ids([ids[2]]).commit().snapshot_ids == (ids[0], ids[2])
    with table.maintenance.expire_snapshots() as expiry:
        expiry.older_than(datetime.now(UTC) + timedelta(days=1))
    assert [snapshot.snapshot_id for snapshot in table.snapshots()] == ids[4:]
    assert table.maintenance.expire_snapshots().commit().snapshot_ids == ()
    check_files(table)


def test_unused_specs_and_schemas_are_removed_and_those_that_files_need_are_kept(table: Table) -> None:
    append(table, 1)
    with table.update_spec() as update:
        update.add_field("a", "bucket[4]")
    with table.update_schema() as update:
        update.add_column("b", LongType())
    table.append(pa.table({"a": [2], "b": [5]}))
    with table.update_spec() as update:
        update.remove_field("a_bucket_4").add_field("b", "bucket[2]")
    table.append(pa.table({"a": [3], "b": [6]}))
    with table.update_spec() as update:
        update.remove_field("b_bucket_2")
    with table.update_schema() as update:
        update.delete_column("b").add_column("c", LongType())
    table.overwrite(pa.table({"a": [4], "c": [0]}), "a = 2")
    report = table.expire_snapshots(FAR, clean_expired_metadata=True)
    assert report.spec_ids == ()  # the manifest with a deleted file has the second spec, and was written by the last snapshot
    assert report.schema_ids == (0,)
    # The column of the third spec is not in the current schema: the schema with its type is kept, which Java removes.
    assert table.specs().keys() >= {2}
    assert any(schema.find_id("b") for schema in table.schemas().values())
    assert values(table) == [1, 3, 4]
    table.overwrite(pa.table({"a": [5], "c": [0]}))
    table.overwrite(pa.table({"a": [6], "c": [0]}))
    report = table.expire_snapshots(FAR, clean_expired_metadata=True)
    assert (report.spec_ids, report.schema_ids) == ((1, 2), (1,))
    assert (facts(report)["partition specs"], facts(report)["schemas"]) == ("1, 2", "1")
    assert values(table) == [6]
