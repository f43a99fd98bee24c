"""`explain_commit`: the attempts of a stored commit, and the snapshots of the other writers."""

import copy
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from icefloe import SqlCatalog
from icefloe.commit.attempts_in_summary import MOST_BASES, read_retry_record
from icefloe.errors import CommitConflictError, NoSuchSnapshotError
from icefloe.inspect import explain_commit
from icefloe.operations import commit_retries
from icefloe.procedures import call
from icefloe.spec.metadata.snapshot import Snapshot
from icefloe.table import StaticTable, Table

FAST = {"commit.retry.min-wait-ms": "1", "commit.retry.max-wait-ms": "2"}


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    catalog.create_table("db.t", pa.schema([("n", pa.int64())]), properties=FAST)
    return catalog


def rows(*numbers: int) -> pa.Table:
    return pa.table({"n": pa.array(numbers, pa.int64())})


def head(table: Table) -> Snapshot:
    snapshot = table.refresh().current_snapshot()
    assert snapshot is not None
    return snapshot


def test_a_commit_without_a_race_records_nothing_and_has_one_attempt(catalog: SqlCatalog) -> None:
    table = catalog.load_table("db.t")
    table.append(rows(1))
    table.delete("n = 1")
    assert not [key for snapshot in table.snapshots() for key in snapshot.summary if key.startswith("icefloe.")]
    found = explain_commit(table)
    assert (found.attempts, found.lost, found.checked) == (1, (), ())
    assert "No other writer was first" in str(found)


def test_a_retried_commit_names_the_snapshots_that_were_first(catalog: SqlCatalog) -> None:
    this_writer, other_writer = catalog.load_table("db.t"), catalog.load_table("db.t")
    other_writer.append(rows(1))
    other_writer.append(rows(2))
    winners = [snapshot.snapshot_id for snapshot in other_writer.snapshots()]
    result = this_writer.append(rows(3))
    stored = StaticTable.from_metadata(catalog.load_table("db.t").metadata_location)
    found = explain_commit(stored, result.snapshot_id)
    assert found.attempts == result.attempts == 2
    assert found.is_recorded
    assert [attempt.base_snapshot_id for attempt in found.lost] == [None]
    assert [other.snapshot_id for other in found.lost[0].won_by] == winners
    assert found.parent_snapshot_id == winners[-1]
    assert found.retry_ms is not None
    text = str(found)
    assert "attempt 1, built on an empty branch, lost to" in text
    assert str(winners[0]) in text
    assert found.to_dict()["lost"][0]["won_by"][0]["operation"] == "append"
    assert "<table" in found._repr_html_()


def test_a_retry_for_a_change_of_metadata_names_no_snapshot(catalog: SqlCatalog) -> None:
    this_writer, other_writer = catalog.load_table("db.t"), catalog.load_table("db.t")
    with other_writer.transaction() as transaction:
        transaction.set_properties({"owner": "x"})
    this_writer.append(rows(3))
    (attempt,) = explain_commit(this_writer).lost
    assert attempt.won_by == ()
    assert attempt.is_known
    assert "a change of metadata without a snapshot" in str(explain_commit(this_writer))


def test_a_checked_commit_names_the_snapshots_and_what_it_looked_for(catalog: SqlCatalog) -> None:
    table = catalog.load_table("db.t")
    table.append(rows(1, 2))
    read = head(table).snapshot_id
    (task,) = table.scan().plan_files()
    catalog.load_table("db.t").append(rows(9))
    newer = head(table).snapshot_id
    with table.update_snapshot().overwrite() as change:
        change.delete_file(task.file)
        change.validate_from_snapshot(read).conflict_detection_filter("n = 1").validate_no_conflicting_deletes()
    found = explain_commit(table)
    assert found.attempts == 1
    assert "deletes-of-changed-files" in found.checks
    assert found.checked_since == read
    assert [other.snapshot_id for other in found.checked] == [newer]
    assert "rows that others deleted" in str(found)


def test_every_lost_attempt_is_recorded_and_of_many_the_last_ones(catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    with catalog.load_table("db.t").transaction() as transaction:
        transaction.set_properties({"commit.retry.num-retries": "100"})
    table, other_writer = catalog.load_table("db.t"), catalog.load_table("db.t")
    lost, commit = MOST_BASES + 3, type(table.handle.store).commit
    state = {"left": lost}

    def late(store: Any, *arguments: Any, **named: Any) -> Any:
        if state["left"] and not state.get("busy"):
            state["left"] -= 1
            state["busy"] = True
            other_writer.refresh().append(rows(state["left"]))
            state["busy"] = False
        return commit(store, *arguments, **named)

    monkeypatch.setattr(type(table.handle.store), "commit", late)
    # The other writer is in this thread, and would wait for the turn of this one.
    monkeypatch.setattr(commit_retries, "LONGEST_TURN_S", 0.0)
    result = table.append(rows(-1))
    assert result.attempts == lost + 1
    found = explain_commit(table)
    assert found.attempts == lost + 1
    assert len(found.lost) == MOST_BASES
    assert [attempt.number for attempt in found.lost] == list(range(lost - MOST_BASES + 1, lost + 1))
    assert all(len(attempt.won_by) == 1 for attempt in found.lost)


def test_a_commit_that_lost_every_attempt_names_what_they_were_built_on(catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    with catalog.load_table("db.t").transaction() as transaction:
        transaction.set_properties({"commit.retry.num-retries": "1"})
    table, other_writer = catalog.load_table("db.t"), catalog.load_table("db.t")
    commit, state = type(table.handle.store).commit, {"busy": False}

    def late(store: Any, *arguments: Any, **named: Any) -> Any:
        if not state["busy"]:
            state["busy"] = True
            other_writer.refresh().append(rows(1))
            state["busy"] = False
        return commit(store, *arguments, **named)

    monkeypatch.setattr(type(table.handle.store), "commit", late)
    with pytest.raises(CommitConflictError) as raised:
        table.append(rows(2))
    (problem,) = [problem for problem in raised.value.problems if problem.where == "attempts"]
    first = catalog.load_table("db.t").snapshots()[0].snapshot_id
    assert problem.what == f"built on no snapshot, {first}"


def test_attempts_of_java_are_read_from_the_name_of_the_manifest_list(catalog: SqlCatalog, tmp_path: Path) -> None:
    table = catalog.load_table("db.t")
    table.append(rows(1))
    table.append(rows(2))
    first = table.snapshots()[0].snapshot_id
    document = table.metadata_location
    text = Path(document).read_text()
    stored = table.current_snapshot()
    assert stored is not None
    Path(document).write_text(text.replace(f"snap-{stored.snapshot_id}-0-", f"snap-{stored.snapshot_id}-2-"))
    found = explain_commit(StaticTable.from_metadata(document))
    assert (found.attempts, found.is_recorded) == (2, False)
    assert [other.snapshot_id for other in found.before] == [first]
    assert "what they were built on is not recorded" in " ".join(str(found).split())


@pytest.mark.parametrize(
    "summary",
    [
        {"icefloe.commit.attempts": "many", "icefloe.commit.lost-bases": "x,,-3, 5"},
        {"icefloe.commit.attempts": "9" * 5000, "icefloe.commit.lost-bases": ",".join("1" * 10_000)},
    ],
)
def test_a_record_that_another_writer_forged_is_read_as_far_as_it_is_valid(summary: dict[str, str]) -> None:
    record = read_retry_record(copy.copy(summary))
    assert record.attempts is None
    assert len(record.lost_bases) <= MOST_BASES


def test_the_procedure_has_a_row_for_the_commit_each_lost_attempt_and_each_other_writer(catalog: SqlCatalog) -> None:
    this_writer, other_writer = catalog.load_table("db.t"), catalog.load_table("db.t")
    other_writer.append(rows(1))
    other_writer.append(rows(2))
    winners = [snapshot.snapshot_id for snapshot in other_writer.snapshots()]
    result = this_writer.append(rows(3))
    found = call(catalog, "explain_commit", table="db.t", snapshot="main")
    assert [(row["part"], row["attempt"], row["snapshot_id"]) for row in found] == [
        ("commit", 2, result.snapshot_id),
        ("lost attempt", 1, None),
        ("won by", 1, winners[0]),
        ("won by", 1, winners[1]),
    ]
    assert [row["added_rows"] for row in found] == [None, None, 1, 1]
    assert "an empty branch" in found[1]["message"]
    assert found[0]["operation"] == "append"
    assert call(catalog, "explain_commit", table="db.t", snapshot=str(winners[0]))[0]["attempt"] == 1
    with pytest.raises(NoSuchSnapshotError):
        call(catalog, "explain_commit", table="db.t", snapshot="v9")
