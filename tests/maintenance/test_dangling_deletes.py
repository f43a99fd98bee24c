"""`table.maintenance.remove_dangling_deletes()`: which delete files are removed, and that no row changes."""

import random
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.maintenance.test_rewrite_data_files import content, made, other_writer, small_files
from tests.repetitions import examples
from tests.reports import facts

from icefloe.errors import NoSuchSnapshotError


def test_deletes_of_rewritten_files_are_removed(tmp_path: Path) -> None:
    table = made(tmp_path, spec=("kind",))
    small_files(table, 6)
    table.delete_keys(pa.table({"id": [2, 33]}), ["id"])
    table.maintenance.rewrite_data_files("kind = 'a'")
    assert table.maintenance.remove_dangling_deletes().removed == {}  # files of the other partition need it
    table.maintenance.rewrite_data_files("kind = 'b'")
    table.delete_keys(pa.table({"id": [8]}), ["id"])
    before = content(table)
    planned = table.maintenance.remove_dangling_deletes(dry_run=True)
    assert (planned.removed, planned.snapshot_id, planned.live_delete_files) == ({"equality delete files": 1}, None, 2)
    assert "would be removed" in str(planned)
    result = table.maintenance.remove_dangling_deletes(snapshot_properties={"why": "test"})
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert (result.removed_files, result.snapshot_id, snapshot.operation) == (1, snapshot.snapshot_id, "replace")
    assert (snapshot.summary["why"], snapshot.summary["total-delete-files"]) == ("test", "1")
    assert content(table) == before
    nothing = facts(table.maintenance.remove_dangling_deletes())
    assert (nothing["snapshot"], nothing["considered"]) == ("none: there was nothing to do", "1 delete file")


def test_a_rewrite_removes_them_where_its_option_is_set(tmp_path: Path) -> None:
    table = made(tmp_path)
    small_files(table, 6)
    table.delete_keys(pa.table({"id": [2]}), ["id"])
    result = table.maintenance.rewrite_data_files(options={"remove-dangling-deletes": True})
    assert (result.removed_delete_files, len(result.snapshot_ids), len(table.inspect.delete_files())) == (1, 2, 0)
    assert table.scan().count() == 59


@settings(max_examples=examples(8, least=4), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10_000), version=st.sampled_from([2, 3]), spec=st.sampled_from([(), ("kind",)]))
def test_no_delete_that_applies_is_removed(
    tmp_path_factory: pytest.TempPathFactory, seed: int, version: int, spec: tuple[str, ...]
) -> None:
    numbers = random.Random(seed)
    table = made(tmp_path_factory.mktemp("lake"), version, spec, **{"write.delete.mode": "merge-on-read"})
    for _ in range(8):
        ids = [numbers.randrange(30) for _ in range(10)]
        table.append(pa.table({"id": ids, "kind": [numbers.choice(["a", "b"]) for _ in ids]}))
        match numbers.randrange(4):
            case 0:
                table.delete(f"id < {numbers.randrange(10)}")
            case 1:
                table.delete_keys(pa.table({"id": [numbers.randrange(30)]}), ["id"])
            case 2:
                table.maintenance.rewrite_data_files("kind = 'a'", options={"rewrite-all": True})
    applied = {file.file_path for task in table.scan().plan_files() for file in task.delete_files}
    before = content(table)
    result = table.maintenance.remove_dangling_deletes()
    assert content(table) == before
    live = set(table.inspect.delete_files()["file_path"].to_pylist())
    assert live == applied
    assert result.live_delete_files >= len(live)


def test_a_delete_that_another_writer_adds_meanwhile_stays(tmp_path: Path) -> None:
    table = made(tmp_path)
    small_files(table, 6)
    table.delete_keys(pa.table({"id": [2]}), ["id"])
    table.maintenance.rewrite_data_files()
    other_writer(tmp_path).delete_keys(pa.table({"id": [3]}), ["id"])
    assert table.maintenance.remove_dangling_deletes().removed_files == 1
    assert table.scan().count() == 58


def test_tables_without_deletes_or_snapshots_have_nothing_to_remove(tmp_path: Path) -> None:
    table = made(tmp_path, 1)
    assert table.maintenance.remove_dangling_deletes().live_delete_files == 0
    small_files(table, 2)
    assert table.maintenance.remove_dangling_deletes().live_delete_files == 0
    with pytest.raises(NoSuchSnapshotError):
        table.maintenance.remove_dangling_deletes(branch="other")
