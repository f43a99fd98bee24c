"""`table.maintenance.maintain()` of tables with equality deletes: which are converted beside which writers, and that no row is lost."""

import random
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.maintenance.test_convert_equality_deletes import any_change, any_table, equality_deletes, every_row, paths_of_data, with_deletes
from tests.maintenance.test_maintain import aged, states
from tests.maintenance.test_rewrite_data_files import content, made, other_writer, small_files
from tests.repetitions import examples

from icefloe.errors import CommitConflictError, StorageError
from icefloe.maintenance.convert_equality_deletes import EqualityDeleteConversion
from icefloe.maintenance.equality_delete_groups import equality_delete_groups
from icefloe.maintenance.health_measures import files_of_branch
from icefloe.maintenance.rewrite_position_deletes import PositionDeleteRewrite
from icefloe.operations.files.file_operations import RowChanges
from icefloe.spec.manifest.data_file import FileContent
from icefloe.table.table import Table

MERGED = {"write.delete.mode": "merge-on-read"}
CONVERT, REWRITE = "convert-equality-deletes", "rewrite-data-files"


@pytest.fixture
def tmp_path(one_folder: Path) -> Path:
    return one_folder


def converted(report: Any) -> str:
    return states(report)[CONVERT]


@pytest.mark.parametrize("version", [2, 3])
def test_equality_deletes_are_converted_in_young_partitions_too(tmp_path: Path, version: int) -> None:
    table = with_deletes(tmp_path, version)
    before, data = content(table), paths_of_data(table)
    planned = table.maintenance.maintain(dry_run=True)
    assert (converted(planned), states(planned)[REWRITE], equality_deletes(table)) == ("planned", "left", 2)
    report = table.maintenance.maintain(snapshot_properties={"why": "test"})
    assert (converted(report), states(report)[REWRITE], report.has_failures) == ("done", "left", False), str(report)
    assert (content(table), paths_of_data(table), equality_deletes(table)) == (before, data, 0)
    snapshots = [one.summary for one in table.snapshots() if one.summary.get("maintenance.action") == CONVERT]
    assert [(one["why"], one.operation) for one in snapshots] == [("test", "delete")]
    again = table.maintenance.maintain()
    assert (again.is_nothing_to_do, converted(again)) == (True, "nothing to do"), str(again)


@pytest.mark.parametrize("version", [2, 3])
def test_partitions_whose_rows_others_delete_by_position_are_left_to_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    table = made(tmp_path, version, ("kind",), **MERGED)
    small_files(table, 4)
    table.delete_keys(pa.table({"id": [2, 5], "kind": ["a", "b"]}), ["id", "kind"])
    assert equality_deletes(table) == 2
    table.delete("id = 12")  # in the partition a
    before = content(table)
    report = table.maintenance.maintain()
    assert (converted(report), equality_deletes(table), content(table)) == ("done", 1, before)
    assert "not by equality deletes alone" in str(report)
    again = table.maintenance.maintain()
    assert (converted(again), again.is_nothing_to_do) == ("left", True)
    aged(table, monkeypatch, 60)
    table.set_properties({"maintenance.skip-actions": REWRITE})
    assert (converted(table.maintenance.maintain()), equality_deletes(table), content(table)) == ("done", 0, before)


def test_a_delete_of_several_partitions_is_left_if_one_of_them_is(tmp_path: Path) -> None:
    table = made(tmp_path, 3, ("kind",), **MERGED)
    small_files(table, 4)
    table.delete_keys(pa.table({"id": [2, 5]}), ["id"])  # of the unpartitioned spec, so that it applies to both partitions
    table.delete("id = 12")
    report = table.maintenance.maintain()
    assert (converted(report), equality_deletes(table)) == ("left", 1)


def test_a_conversion_does_not_make_its_partitions_young(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = with_deletes(tmp_path, 3)
    aged(table, monkeypatch, 60)
    before = content(table)
    table.maintenance.convert_equality_deletes()
    report = table.maintenance.maintain()
    assert states(report)[REWRITE] == "done", str(report)
    assert (content(table), len(table.inspect.data_files())) == (before, 1)


def test_deletes_are_not_converted_where_all_data_files_are_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = with_deletes(tmp_path, 3)
    before = content(table)
    report = table.maintenance.maintain(min_age_minutes=0)
    assert (converted(report), states(report)[REWRITE]) == ("left", "done")
    assert "rewrite-data-files writes all of their data files again" in str(report)
    assert (content(table), len(table.inspect.delete_files())) == (before, 0)
    assert table.maintenance.maintain(min_age_minutes=0).is_nothing_to_do
    table.delete_keys(pa.table({"id": [7]}), ["id"])
    with monkeypatch.context() as patch:
        patch.setattr("icefloe.maintenance.rewrite_actions.EQUALITY_SHARE", 0.0)
        assert converted(table.maintenance.maintain(min_age_minutes=0)) == "done"  # one file of the right size is not written again
    assert (equality_deletes(table), 7 in table.scan().to_arrow()["id"].to_pylist()) == (0, False)


def test_the_policy_and_the_budget_leave_deletes(tmp_path: Path) -> None:
    table = with_deletes(tmp_path, 3)
    before = content(table)
    report = table.maintenance.maintain(max_bytes=10)
    assert (converted(report), equality_deletes(table)) == ("left", 2)
    assert "max-bytes" in str(report)
    assert converted(table.maintenance.maintain(max_minutes=0)) == "left"
    table.set_properties({"maintenance.skip-actions": f"{REWRITE}, {CONVERT}"})
    assert (converted(table.maintenance.maintain(min_age_minutes=0)), equality_deletes(table)) == ("left", 2)
    table.set_properties({"maintenance.skip-actions": REWRITE})
    report = table.maintenance.maintain(min_age_minutes=0, max_bytes=10**6)
    assert (converted(report), equality_deletes(table), content(table)) == ("done", 0, before)


@pytest.mark.parametrize(
    "error", [StorageError("the disk is full"), OSError("no space left"), CommitConflictError("others won every retry")]
)
def test_a_conversion_that_fails_changes_nothing_and_one_that_loses_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    table = with_deletes(tmp_path, 3)
    before = content(table)

    def fails(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(
        *((RowChanges, "commit") if isinstance(error, CommitConflictError) else (EqualityDeleteConversion, "_write")), fails
    )
    report = table.maintenance.maintain()
    is_lost = isinstance(error, CommitConflictError)
    assert (converted(report), report.has_failures) == (("left", False) if is_lost else ("failed", True)), str(report)
    assert str(error) in str(report)
    assert (content(table), equality_deletes(table)) == (before, 2)
    monkeypatch.undo()
    assert (converted(table.maintenance.maintain()), content(table)) == ("done", before)


@pytest.mark.parametrize("version", [2, 3])
def test_deletes_of_others_during_the_conversion_stay_and_data_files_that_are_lost_are_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    table = with_deletes(tmp_path, version, **MERGED)
    write, calls = EqualityDeleteConversion._write, []

    def beside(self: EqualityDeleteConversion, *arguments: Any) -> Any:
        written = write(self, *arguments)
        if not calls:
            calls.append(1)
            other = other_writer(tmp_path)
            other.delete_keys(pa.table({"id": [5]}), ["id"])
            other.append(pa.table({"id": [2], "kind": ["a"]}))
            other.maintenance.rewrite_data_files("id < 20", options={"rewrite-all": True})
        return written

    monkeypatch.setattr(EqualityDeleteConversion, "_write", beside)
    report = table.maintenance.maintain()
    assert not report.has_failures, str(report)
    expected = sorted([2, *(set(range(60)) - {2, 33, 34, 5})])
    assert sorted(table.refresh().scan().to_arrow()["id"].to_pylist()) == expected
    table.maintenance.maintain()
    assert (sorted(table.scan().to_arrow()["id"].to_pylist()), equality_deletes(table)) == (expected, 0)


REWRITE_DELETES = "rewrite-position-delete-files"


def with_positions(folder: Path, version: int, spec: tuple[str, ...] = (), **properties: str) -> Table:
    """Six commits that delete one row of each of six data files, which maintenance may not write again."""
    table = made(folder, version, spec, **MERGED, **{"maintenance.skip-actions": REWRITE, **properties})
    small_files(table, 6)
    for number in range(6):
        table.delete(f"id = {number * 10}")
    return table


@pytest.mark.parametrize("version", [2, 3])
def test_small_position_delete_files_become_few_once_their_partitions_are_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    table = with_positions(tmp_path, version, **{"write.delete.granularity": "partition"})
    before = content(table)
    assert len(set(table.inspect.delete_files()["file_path"].to_pylist())) == 6
    young = table.maintenance.maintain()
    assert (states(young)[REWRITE_DELETES], "maintenance.min-age-minutes" in str(young)) == ("left", True)
    aged(table, monkeypatch, 60)
    planned = table.maintenance.maintain(dry_run=True)
    assert (states(planned)[REWRITE_DELETES], content(table)) == ("planned", before)
    report = table.maintenance.maintain(snapshot_properties={"why": "test"})
    assert (states(report)[REWRITE_DELETES], report.has_failures) == ("done", False), str(report)
    assert "6 delete files, " in str(report)
    assert len(set(table.inspect.delete_files()["file_path"].to_pylist())) == 1
    assert content(table) == before
    assert [one.operation for one in table.snapshots() if one.summary.get("maintenance.action") == REWRITE_DELETES] == ["replace"]
    assert table.maintenance.maintain().is_nothing_to_do


def test_delete_files_of_partitions_that_others_change_are_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(tmp_path, 2, ("kind",), **MERGED, **{"maintenance.skip-actions": REWRITE, "write.delete.granularity": "partition"})
    small_files(table, 1, rows=40)
    for number in range(12):
        table.delete(f"id = {number}")
    aged(table, monkeypatch, 60)
    table.append(pa.table({"id": [900], "kind": ["a"]}))
    table.delete("id = 20")  # in the partition a
    before = content(table)
    report = table.maintenance.maintain()
    assert (states(report)[REWRITE_DELETES], content(table)) == ("done", before)
    kinds = [row["kind"] for row in table.inspect.delete_files()["partition"].to_pylist()]
    assert (kinds.count("a"), kinds.count("b")) == (7, 1)
    assert re.search("7 delete files +a commit", str(report))


def test_puffin_files_with_a_vector_of_a_busy_partition_are_left_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(tmp_path, 3, ("kind",), **MERGED, **{"maintenance.skip-actions": REWRITE})
    for _ in range(8):
        table.append(pa.table({"id": list(range(4)), "kind": ["a", "b", "c", "c"]}))
    table.delete("id < 2 and kind in ('a', 'b')")  # vectors of a and b in one Puffin file
    aged(table, monkeypatch, 60)
    table.append(pa.table({"id": [900, 901], "kind": ["a", "a"]}))
    table.delete("id = 900")
    before, files = content(table), len(table.inspect.delete_files())
    report = table.maintenance.maintain()
    assert (states(report)[REWRITE_DELETES], content(table), len(table.inspect.delete_files())) == ("left", before, files)


def test_position_delete_files_become_vectors_after_an_upgrade(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = with_positions(tmp_path, 2)
    table.upgrade_table_version(3)
    aged(table, monkeypatch, 60)
    before = sorted(table.scan().to_arrow()["id"].to_pylist())  # rows get their ids in the first commit after the upgrade
    report = table.maintenance.maintain()
    assert (states(report)[REWRITE_DELETES], sorted(table.scan().to_arrow()["id"].to_pylist())) == ("done", before), str(report)
    assert set(table.inspect.delete_files()["file_format"].to_pylist()) == {"PUFFIN"}
    assert table.maintenance.maintain().is_nothing_to_do


def test_deletes_that_lose_to_a_writer_are_left_for_the_next_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = with_positions(tmp_path, 3)
    write, calls = PositionDeleteRewrite._write, []

    def beside(self: PositionDeleteRewrite, *arguments: Any) -> Any:
        written = write(self, *arguments)
        if not calls:
            calls.append(1)
            other_writer(tmp_path).delete("id = 11")
        return written

    monkeypatch.setattr(PositionDeleteRewrite, "_write", beside)
    report = table.maintenance.maintain(min_age_minutes=0)
    assert (report.has_failures, "left for the next run" in str(report)) == (False, True), str(report)
    expected = sorted(set(range(60)) - {0, 10, 20, 30, 40, 50, 11})
    assert sorted(table.refresh().scan().to_arrow()["id"].to_pylist()) == expected
    assert states(table.maintenance.maintain(min_age_minutes=0))[REWRITE_DELETES] == "done"
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == expected


@settings(max_examples=examples(8, least=4), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 1_000_000), version=st.sampled_from([2, 3]), spec=st.sampled_from([(), ("kind",), ("bucket(3, id)",)]))
def test_groups_share_no_delete_and_are_as_many_as_partitions_allow(
    tmp_path_factory: pytest.TempPathFactory, seed: int, version: int, spec: tuple[str, ...]
) -> None:
    numbers = random.Random(seed)
    table = any_table(tmp_path_factory.mktemp("lake"), version, spec, "parquet", "file")
    for step in range(6):
        any_change(table, numbers, step)
    plan = files_of_branch(table.metadata, table.current_snapshot(), table.io.read).plan
    groups = [{task.file.file_path for part in group.files for task in part.tasks()} for group in equality_delete_groups(plan)]
    assert sorted(path for group in groups for path in group) == sorted(set().union(*groups))
    assert groups_by_search(plan) == {frozenset(group) for group in groups}
    deletes = [{file.file_path for file in group.equality_deletes} for group in equality_delete_groups(plan)]
    assert sum(map(len, deletes)) == len(set().union(*deletes))
    before = every_row(table)
    for _ in range(2):
        report = table.maintenance.maintain(min_age_minutes=0)
        assert not report.has_failures, str(report)
        assert every_row(table) == before
        assert equality_deletes(table) == 0
    assert report.is_nothing_to_do, str(report)


def groups_by_search(plan: Any) -> set[frozenset[str]]:
    """Return the groups by brute force: files of one partition, and files with a common delete, are joined until nothing changes."""
    tasks = [task for part in plan.parts for task in part.tasks()]
    labels: dict[Any, set[str]] = defaultdict(set)
    for task in tasks:
        deletes = [file for file in task.delete_files if file.content is FileContent.EQUALITY_DELETES]
        for file in deletes:
            labels[file.file_path].add(task.file.file_path)
        if deletes:
            labels[task.spec_id, repr(task.file.partition)].add(task.file.file_path)
    groups: list[set[str]] = []
    for joined in labels.values():
        touched = [group for group in groups if group & joined]
        groups = [group for group in groups if not group & joined] + [joined.union(*touched)]
    return {frozenset(group) for group in groups}
