"""The commit loop under scheduled faults: lost races, lost replies, unknown outcomes, and writers that build on a commit thought lost."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from icefloe import SqlCatalog
from icefloe.catalog_store.sql_store import SqlCatalogStore
from icefloe.errors import (
    CommitConflictError,
    CommitInvalidatedError,
    CommitUnknownError,
    InvalidInputError,
    NoSuchTableError,
    StoragePermissionError,
)
from icefloe.kernel.commit.outcome import Refused
from icefloe.table import Table
from icefloe.table.table_handle import TableHandle, load_metadata
from icefloe.testing.fault_injection import Fault, Faults, FaultyFileIO, FaultyStore
from icefloe.testing.reference_reader import ReferenceReader

SCHEMA = pa.schema([("n", pa.int64())])


def one(number: int) -> pa.Table:
    return pa.table({"n": pa.array([number], pa.int64())})


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    made = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    made.create_namespace("db")
    made.create_table(
        "db.t",
        SCHEMA,
        properties={
            "commit.retry.min-wait-ms": "1",
            "commit.retry.max-wait-ms": "2",
            "commit.retry.num-retries": "3",
            "commit.status-check.min-wait-ms": "1",
        },
    )
    return made


def faulty(table: Table, faults: Faults) -> Table:
    """The same table, on a store and a storage that fail as they are told to."""
    store, io = FaultyStore(table.handle.store, faults), FaultyFileIO(table.handle.io, faults)
    handle = TableHandle(identifier=table.handle.identifier, store=store, io=io)
    return Table(handle, load_metadata(handle))


def numbers(table: Table) -> list[int]:
    return sorted(table.refresh().scan().to_arrow()["n"].to_pylist())


def files(folder: Path, pattern: str) -> set[str]:
    return {path.name for path in folder.rglob(pattern)}


def test_a_lost_race_is_tried_again_with_only_a_new_manifest_list(catalog: SqlCatalog, tmp_path: Path) -> None:
    ours, theirs = catalog.load_table("db.t"), catalog.load_table("db.t")
    theirs.append(one(1))
    result = ours.append(one(2))
    assert result.attempts == 2
    assert numbers(ours) == [1, 2]
    snapshot = ours.current_snapshot()
    assert snapshot is not None
    assert snapshot.sequence_number == 2
    assert f"snap-{snapshot.snapshot_id}-1-" in str(snapshot.manifest_list)
    # One manifest each, one list each, and no file of the lost attempt.
    assert len(files(tmp_path, "*-m0.avro")) == 2
    assert len(files(tmp_path, "*-m*.avro")) == 2
    assert len(files(tmp_path, "snap-*.avro")) == 2
    assert len(files(tmp_path, "*.metadata.json")) == 3


def test_a_delete_that_lost_its_race_sees_the_winners_rows(catalog: SqlCatalog) -> None:
    ours, theirs = catalog.load_table("db.t"), catalog.load_table("db.t")
    ours.append(one(1))
    theirs.refresh()
    ours.refresh()
    theirs.append(one(5))
    theirs.append(one(6))
    result = ours.delete("n < 6")
    assert result.deleted_records == 2
    assert numbers(ours) == [6]


def test_an_overwrite_that_lost_its_race_replaces_the_winners_rows(catalog: SqlCatalog, tmp_path: Path) -> None:
    ours, theirs = catalog.load_table("db.t"), catalog.load_table("db.t")
    theirs.append(pa.table({"n": pa.array([1, 2, 3], pa.int64())}))
    ours.overwrite(one(9), "n >= 2")
    assert numbers(ours) == [1, 9]
    live = {Path(task.file.file_path).name for task in ours.scan().plan_files()}
    assert live < files(tmp_path, "*.parquet")


def test_losing_every_race_leaves_no_file_and_says_what_to_do(catalog: SqlCatalog, tmp_path: Path) -> None:
    faults = Faults()
    table = faulty(catalog.load_table("db.t"), faults)
    before = {path for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".db"}
    faults.order("swap", Fault.CONFLICT, times=None)
    with pytest.raises(CommitConflictError, match="4 attempts") as lost:
        table.append(one(1))
    assert "commit.retry.num-retries" in str(lost.value)
    assert [problem.where for problem in lost.value.problems] == ["expected", "found"]
    assert {path for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".db"} == before


def test_an_unknown_outcome_deletes_nothing(catalog: SqlCatalog) -> None:
    faults = Faults()
    table = faulty(catalog.load_table("db.t"), faults)
    faults.order("swap", Fault.LOST_REPLY)
    faults.order("load", Fault.UNAVAILABLE, times=None)  # and nobody can look where the pointer is
    with pytest.raises(CommitUnknownError, match="may or may not") as unknown:
        table.append(one(1))
    faults.clear_orders()
    assert "history" in str(unknown.value)
    assert [event for event in faults.log if event.operation == "delete"] == []
    assert numbers(table) == [1]


def test_a_lost_reply_is_asked_for_again(catalog: SqlCatalog) -> None:
    faults = Faults()
    table = faulty(catalog.load_table("db.t"), faults)
    faults.order("swap", Fault.LOST_REPLY)
    faults.order("load", Fault.UNAVAILABLE, times=2)  # the database comes back while the loop still looks
    result = table.append(one(1))
    assert (result.attempts, numbers(table)) == (1, [1])


def test_a_swap_that_did_not_happen_and_no_longer_can_is_made_again(catalog: SqlCatalog, tmp_path: Path) -> None:
    faults = Faults()
    table = faulty(catalog.load_table("db.t"), faults)
    faults.order("swap", Fault.UNKNOWN)
    result = table.append(one(1))
    assert (result.attempts, numbers(table)) == (2, [1])
    assert len(files(tmp_path, "snap-*.avro")) == 1


@pytest.mark.parametrize(("fault", "attempts"), [(Fault.UNAVAILABLE_AFTER, 1), (Fault.UNAVAILABLE, 2)])
def test_a_store_that_raises_from_a_swap_has_not_said_how_it_ended(
    catalog: SqlCatalog, tmp_path: Path, fault: Fault, attempts: int
) -> None:
    faults = Faults()
    table = faulty(catalog.load_table("db.t"), faults)
    faults.order("swap", fault)
    result = table.append(one(1))
    assert (result.attempts, numbers(table)) == (attempts, [1])
    assert len(files(tmp_path, "snap-*.avro")) == 1
    faults.order("swap", fault)
    faults.order("load", Fault.UNAVAILABLE, times=None)
    with pytest.raises(CommitUnknownError, match="may or may not"):
        table.append(one(2))
    faults.clear_orders()
    assert len(files(tmp_path, "snap-*.avro")) == 2, "nothing is deleted"


def test_a_swap_that_lands_late_is_waited_for_and_made_once(catalog: SqlCatalog) -> None:
    faults = Faults()
    table = faulty(catalog.load_table("db.t"), faults)
    faults.order("swap", Fault.LATE, loads=2)
    result = table.append(one(1))
    assert (result.attempts, numbers(table)) == (1, [1])


def test_an_unknown_outcome_says_what_to_look_for_and_with_which_command(catalog: SqlCatalog) -> None:
    table = catalog.load_table("db.t")
    table.set_properties({"commit.status-check.num-retries": "0"})
    faults = Faults()
    table = faulty(table, faults)
    faults.order("swap", Fault.LATE, loads=5)
    with pytest.raises(CommitUnknownError) as unknown:
        table.append(one(1))
    assert f"`icefloe show snapshots db.t --catalog lake`: where snapshot {unknown.value.snapshot_id} is" in str(unknown.value)
    assert unknown.value.path in str(unknown.value)
    table.handle.store.land_late()  # type: ignore[attr-defined]
    assert numbers(table) == [1], "the late swap found all its files"
    assert table.current_snapshot().snapshot_id == unknown.value.snapshot_id


def test_an_unheard_swap_is_found_in_the_log_of_those_who_built_on_it(catalog: SqlCatalog) -> None:
    """A change of metadata has no snapshot: only the metadata log can tell."""

    def others(count: int) -> None:
        other = catalog.load_table("db.t")
        for number in range(count):
            other.set_properties({f"p{number}": str(count)})

    faults = Faults()
    table = faulty(catalog.load_table("db.t"), faults)
    faults.order("swap", Fault.OVERTAKEN, meanwhile=lambda: others(3))
    table.set_properties({"ours": "1"})
    assert table.properties["ours"] == "1"
    assert table.properties["p2"] == "3"
    catalog.load_table("db.t").set_properties({"write.metadata.previous-versions-max": "2"})
    table.refresh()
    faults.order("swap", Fault.OVERTAKEN, meanwhile=lambda: others(4))
    with pytest.raises(CommitUnknownError, match="its log no longer shows it"):
        table.set_properties({"ours": "2"})
    assert catalog.load_table("db.t").properties["ours"] == "2", "it had happened"


def test_a_refused_swap_leaves_no_file_and_is_not_tried_again(catalog: SqlCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = catalog.load_table("db.t")
    before = {path for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".db"}
    denied = StoragePermissionError("permission denied for table iceberg_tables")
    monkeypatch.setattr(SqlCatalogStore, "swap", lambda self, identifier, *, expected, new: Refused(error=denied))
    with pytest.raises(StoragePermissionError):
        table.append(one(1))
    assert {path for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".db"} == before


def test_a_commit_thought_lost_is_recognised_in_the_winners_history(catalog: SqlCatalog) -> None:
    faults = Faults()
    table = faulty(catalog.load_table("db.t"), faults)
    faults.order("swap", Fault.OVERTAKEN, meanwhile=lambda: catalog.load_table("db.t").append(one(2)))
    result = table.append(one(1))
    assert numbers(table) == [1, 2], "the append must be there once, not twice"
    assert result.snapshot_id in {snapshot.snapshot_id for snapshot in table.snapshots()}


def test_an_interrupt_during_the_swap_deletes_nothing(catalog: SqlCatalog) -> None:
    faults = Faults()
    table = faulty(catalog.load_table("db.t"), faults)
    faults.order("swap", Fault.INTERRUPT_AFTER)
    with pytest.raises(KeyboardInterrupt):
        table.append(one(1))
    assert numbers(table) == [1]


def test_a_table_dropped_meanwhile_is_named(catalog: SqlCatalog) -> None:
    table = catalog.load_table("db.t")
    catalog.rename_table("db.t", "db.u")
    with pytest.raises(NoSuchTableError, match=r"'db\.t' does not exist .* any longer: it was dropped or renamed since") as refused:
        table.append(one(1))
    assert refused.value.next_step == "a retry makes no sense: load it by the name that it has now; the namespace holds db.u"
    assert numbers(catalog.load_table("db.u")) == []
    catalog.drop_table("db.u")
    with pytest.raises(NoSuchTableError, match="any longer"):
        table.refresh()


def test_a_table_made_anew_under_the_name_is_another_table(catalog: SqlCatalog) -> None:
    table = catalog.load_table("db.t")
    before = table.append(one(1))
    catalog.drop_table("db.t")
    other = catalog.create_table("db.t", table.schema())
    with pytest.raises(NoSuchTableError, match=r"db\.t is another table now"):
        table.append(one(2))
    with pytest.raises(NoSuchTableError, match=str(other.metadata.table_uuid)):
        table.refresh()
    assert catalog.load_table("db.t").scan().to_arrow().num_rows == 0
    assert table.current_snapshot().snapshot_id == before.snapshot_id


def test_ctrl_c_on_a_retry_keeps_a_commit_that_was_thought_lost(catalog: SqlCatalog) -> None:
    faults = Faults()
    table = faulty(catalog.load_table("db.t"), faults)
    faults.order("swap", Fault.OVERTAKEN, meanwhile=lambda: catalog.load_table("db.t").append(one(2)))
    faults.order("load", Fault.INTERRUPT)
    with pytest.raises(KeyboardInterrupt):
        table.append(one(1))
    assert numbers(table) == [1, 2]


def test_old_metadata_files_go_where_the_table_asks_for_it(catalog: SqlCatalog, tmp_path: Path) -> None:
    table = catalog.create_table(
        "db.u", SCHEMA, properties={"write.metadata.previous-versions-max": "2", "write.metadata.delete-after-commit.enabled": "true"}
    )
    for number in range(5):
        table.append(one(number))
    assert len(list((tmp_path / "db" / "u").rglob("*.metadata.json"))) == 3
    assert len(table.metadata.metadata_log) == 2
    assert numbers(table) == [0, 1, 2, 3, 4]


def test_deletes_that_find_no_row_any_more_after_a_lost_race_leave_no_file(catalog: SqlCatalog, tmp_path: Path) -> None:
    faults = Faults()
    catalog.load_table("db.t").append(one(1))
    table = faulty(catalog.load_table("db.t"), faults)
    faults.order("swap", meanwhile=lambda: catalog.load_table("db.t").delete())
    table.delete_keys(one(1), ["n"])
    assert files(tmp_path, "*.parquet") == {path.name for path in tmp_path.rglob("*.parquet") if "deletes" not in path.name}
    assert len(table.refresh().snapshots()) == 2


def together(table: Table) -> None:
    with table.refresh().transaction() as tx:
        tx.append(one(5))
        expire_behind(table)
    assert 5 in numbers(table)


def expire_behind(table: Table) -> None:
    """Another writer commits, and leaves nothing of what the table at hand was loaded as."""
    other = Table(table.handle, load_metadata(table.handle))
    other.append(one(4))
    other.expire_snapshots(older_than=4_102_444_800_000, retain_last=1)


@pytest.mark.parametrize(
    ("change", "left"),
    [
        (lambda table: table.append(one(5)), [1, 2, 4, 5]),
        (lambda table: table.delete("n = 1"), [2, 4]),
        (lambda table: table.overwrite(one(5), "n = 2"), [1, 4, 5]),
        (lambda table: table.upsert(one(5), ["n"]), [1, 2, 4, 5]),
        (lambda table: table.delete_keys(one(2), ["n"]), [1, 4]),
        (lambda table: table.rewrite_manifests(), [1, 2, 4]),
        (lambda table: table.update_snapshot().delete_files().delete_from_row_filter("true").commit(), []),
        (together, [1, 2, 4, 4, 5]),
    ],
)
def test_a_writer_commits_on_the_table_there_is_where_its_own_was_expired(
    catalog: SqlCatalog, change: Callable[[Table], Any], left: list[int]
) -> None:
    table = catalog.load_table("db.t")
    table.append(one(1))
    table.append(one(2))
    expire_behind(table)
    change(table)
    assert numbers(catalog.load_table("db.t")) == left
    # As fastavro and pyarrow find it.
    reader = ReferenceReader(table.io)
    document = reader.document(table.metadata_location)
    assert sorted(row.values[1] for row in reader.rows(document, reader.snapshot(document, document["current-snapshot-id"]))) == left


def test_ctrl_c_before_the_first_swap_leaves_no_file_though_the_catalog_cannot_be_asked(catalog: SqlCatalog, tmp_path: Path) -> None:
    table = catalog.load_table("db.t")
    before = files(tmp_path, "*.*")
    faults = Faults()
    writer = faulty(table, faults)
    faults.order("write", Fault.INTERRUPT_AFTER, matching=".metadata.json")
    faults.order("load", Fault.DENIED, times=None)
    with pytest.raises(KeyboardInterrupt):
        writer.append(one(1))
    assert files(tmp_path, "*.*") == before


def test_what_another_writer_made_wrong_is_said_to_be_so(catalog: SqlCatalog, tmp_path: Path) -> None:
    catalog.create_table("db.old", SCHEMA, properties={"format-version": "1"})
    ours, theirs = catalog.load_table("db.old"), catalog.load_table("db.old")
    theirs.upgrade_table_version(3)
    there = files(tmp_path, "*.metadata.json")
    with pytest.raises(CommitInvalidatedError, match="another writer changed the table since this change was first made") as refused:
        ours.upgrade_table_version(2)
    assert "of format version 3 cannot go back to version 2" in refused.value.message
    assert refused.value.table == "lake.db.old"
    assert files(tmp_path, "*.metadata.json") == there
    assert ours.refresh().metadata.format_version == 3
    with pytest.raises(InvalidInputError, match="cannot go back to version 2"):
        ours.upgrade_table_version(2)
