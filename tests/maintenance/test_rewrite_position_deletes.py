"""`table.maintenance.rewrite_position_delete_files()`: the same deletes in fewer files; of every version, beside other writers and after failures."""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.combinations import combinations
from tests.maintenance.restored_tables import written_once
from tests.maintenance.test_convert_equality_deletes import VERSIONS, any_change, any_table, draw_rows, every_row
from tests.maintenance.test_rewrite_data_files import content, data_files, made, other_writer, small_files
from tests.repetitions import examples
from tests.reports import facts

from icefloe.commit.file_changes import delete_key
from icefloe.datafile.deletes import delete_file_output, merge_deletes
from icefloe.datafile.deletes.delete_file_output import RowsToDelete, write_position_deletes
from icefloe.errors import (
    CommitConflictError,
    CommitUnknownError,
    EngineError,
    IcefloeError,
    InvalidFilterError,
    InvalidInputError,
    NoSuchSnapshotError,
    StorageError,
)
from icefloe.maintenance import rewrite_position_deletes
from icefloe.maintenance.rewrite_position_deletes import PositionDeleteRewrite
from icefloe.operations.available_engines import EngineChoice, choosing_engines
from icefloe.operations.files.file_operations import RewriteDataFiles
from icefloe.operations.rows.row_change import Removal, specs_of
from icefloe.operations.rows.write_context import write_target
from icefloe.operations.staging import write_audit_publish
from icefloe.table.table import Table

MERGE_ON_READ = {"write.delete.mode": "merge-on-read"}
PARTITIONS = {**MERGE_ON_READ, "write.delete.granularity": "partition"}
ALL = {"rewrite-all": True}


@pytest.fixture
def tmp_path(one_folder: Path) -> Path:
    return one_folder


@written_once
def with_deletes(folder: Path, version: int = 2, spec: tuple[str, ...] = (), files: int = 6, **properties: str) -> Table:
    """Files of ten rows, and one commit after the other that deletes a row in each of two files."""
    table = made(folder, version, spec, **{**PARTITIONS, **properties})
    small_files(table, files)
    for number in range(files):
        table.delete(f"id in ({number}, {number + 20})")
    return table


def deletes(table: Table) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.inspect.delete_files().to_pylist()
    return rows


def stored(table: Table) -> set[str]:
    return {file["file_path"] for file in deletes(table)}


def delete_by_file(table: Table, positions: dict[int, list[int]], *, file_scoped: bool = False) -> None:
    """Commit one position delete file for rows of several data files, by the place of the file in a scan. In version 2 alone."""
    metadata, tasks = table.metadata, list(table.scan().plan_files())
    rows = [RowsToDelete(file=tasks[place].file, positions=pa.array(numbers).to_numpy()) for place, numbers in positions.items()]
    target = write_target(table.handle, metadata)
    written = write_position_deletes(target, rows, specs=specs_of(metadata), partition_id=0, task_id=0, file_scoped=file_scoped)
    update = table.update_snapshot().row_delta()
    for file in written.added:
        update.add_deletes(file)
    update.commit()


@pytest.mark.parametrize("engine", [None, "in-process"])
def test_small_position_delete_files_of_a_partition_become_one(tmp_path: Path, engine: str | None) -> None:
    table = with_deletes(tmp_path)
    before, data = content(table), set(table.inspect.data_files()["file_path"].to_pylist())
    planned = table.maintenance.rewrite_position_delete_files(dry_run=True, engine=engine)
    assert (planned.rewritten_files, planned.added_files, planned.snapshot_ids) == (6, 1, ())
    assert facts(planned)["would be added"] == "1 delete file"
    result = table.maintenance.rewrite_position_delete_files(engine=engine, snapshot_properties={"why": "test"})
    assert (result.rewritten_files, result.added_files, result.failed, result.left_files) == (6, 1, (), 0)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert (snapshot.operation, result.snapshot_ids, snapshot.summary["why"]) == ("replace", (snapshot.snapshot_id,), "test")
    assert (content(table), set(table.inspect.data_files()["file_path"].to_pylist())) == (before, data)
    (file,) = deletes(table)
    assert (file["record_count"], result.added_bytes) == (12, file["file_size_in_bytes"])
    again = table.maintenance.rewrite_position_delete_files()
    assert again.snapshot_ids == ()
    assert (facts(again)["snapshot"], facts(again)["considered"]) == ("none: there was nothing to do", "1 delete file")


def test_deletes_of_each_data_file_become_one_file_with_file_granularity(tmp_path: Path) -> None:
    table = with_deletes(tmp_path, **{"write.delete.granularity": "partition"})
    table.set_properties({"write.delete.granularity": "file"})
    before = content(table)
    result = table.maintenance.rewrite_position_delete_files()
    assert (result.rewritten_files, result.added_files, content(table)) == (6, 2, before)
    assert all(len(task.delete_files) <= 1 for task in table.scan().plan_files())
    assert not table.maintenance.rewrite_position_delete_files().snapshot_ids


def test_a_lone_delete_file_of_each_data_file_stays_with_file_granularity(tmp_path: Path) -> None:
    table = made(tmp_path, 2, **MERGE_ON_READ)
    small_files(table, 8)
    table.delete("id in (3, 13, 23, 33, 43, 53, 63, 73)")
    assert len(deletes(table)) == 8
    assert not table.maintenance.rewrite_position_delete_files().snapshot_ids
    before = content(table)
    assert table.maintenance.rewrite_position_delete_files(options=ALL).added_files == 8
    table.set_properties({"write.delete.granularity": "partition"})
    assert table.maintenance.rewrite_position_delete_files().added_files == 1
    assert content(table) == before


@pytest.mark.parametrize("granularity", ["file", "partition"])
def test_positions_of_data_files_that_are_gone_are_left_out(tmp_path: Path, granularity: str) -> None:
    table = made(tmp_path, 2, ("kind",), **{**MERGE_ON_READ, "write.delete.granularity": granularity})
    small_files(table, 6)
    for position in range(5):
        delete_by_file(table, {place: [position] for place in (0, 2, 4)} if position % 2 else {place: [position] for place in (0, 2)})
    (gone,) = {task.file.file_path for task in list(table.scan().plan_files())[2:3]}
    update = table.update_snapshot().overwrite()
    update.delete_file(next(task.file for task in table.scan().plan_files() if task.file.file_path == gone))
    update.commit()
    before = content(table)
    result = table.maintenance.rewrite_position_delete_files(options=ALL)
    assert (result.failed, content(table)) == ((), before)
    assert sum(file["record_count"] for file in deletes(table)) == 7
    assert not table.maintenance.rewrite_position_delete_files().snapshot_ids


@pytest.mark.parametrize("version", [2, 3])
def test_delete_files_that_apply_to_no_data_file_are_removed_without_being_read(tmp_path: Path, version: int) -> None:
    table = with_deletes(tmp_path, 2)
    if version == 3:
        table.upgrade_table_version(3)
    for file in stored(table):
        Path(file).write_bytes(b"damaged")
    update = table.update_snapshot().overwrite()
    for task in table.scan().plan_files():
        update.delete_file(task.file)
    update.commit()
    table.append(pa.table({"id": [1], "kind": ["a"]}))
    result = table.maintenance.rewrite_position_delete_files()
    assert (result.rewritten_files, result.dangling_files, result.added_files) == (6, 6, 0)
    assert "6 delete files applied to no data file" in str(result)
    assert (deletes(table), table.scan().count()) == ([], 1)


def test_position_delete_files_become_vectors_in_version_3(tmp_path: Path) -> None:
    table = with_deletes(tmp_path, 2)
    table.upgrade_table_version(3)
    table.delete("id in (7, 45)")  # vectors of two data files, one of which has position deletes too
    before = every_row(table)
    planned = table.maintenance.rewrite_position_delete_files(dry_run=True)
    assert (planned.upgraded_files, planned.snapshot_ids) == (6, ())
    result = table.maintenance.rewrite_position_delete_files()
    assert (result.upgraded_files, result.added_files) == (6, 1)
    assert every_row(table) == before
    assert all(file["file_format"] == "PUFFIN" for file in deletes(table))
    assert set(Counter(file["referenced_data_file"] for file in deletes(table)).values()) == {1}
    assert not table.maintenance.rewrite_position_delete_files().snapshot_ids


def test_a_single_large_position_delete_file_becomes_vectors_too(tmp_path: Path) -> None:
    table = made(tmp_path, 2, **PARTITIONS)
    small_files(table, 2)
    table.delete("id in (3, 13)")
    table.upgrade_table_version(3)
    before = ids(table)
    options = {"target-file-size-bytes": 100, "min-file-size-bytes": 1, "max-file-size-bytes": 10**6}
    result = table.maintenance.rewrite_position_delete_files(options=options)
    assert (result.upgraded_files, result.added_files, ids(table)) == (1, 2, before)


def test_vectors_of_many_small_puffin_files_move_into_one(tmp_path: Path) -> None:
    table = made(tmp_path, 3, ("kind",), **MERGE_ON_READ)
    small_files(table, 6)
    for number in range(6):
        table.delete(f"id in ({number * 10}, {number * 10 + 1})")
    assert (len(stored(table)), len(deletes(table))) == (6, 12)
    before = every_row(table)
    result = table.maintenance.rewrite_position_delete_files()
    assert (result.rewritten_puffin_files, result.added_puffin_files, result.rewritten_files, result.added_files) == (6, 1, 12, 12)
    assert facts(result)["Puffin files"] == "6 to 1"
    assert (every_row(table), len(stored(table)), len(deletes(table))) == (before, 1, 12)
    assert not table.maintenance.rewrite_position_delete_files().snapshot_ids


def test_vectors_are_in_their_file_in_the_order_of_manifests(tmp_path: Path) -> None:
    table = made(tmp_path, 3, ("bucket(4, id)",), **MERGE_ON_READ)
    small_files(table, 3)
    with table.update_spec() as update:
        update.add_field("kind", "identity")
    small_files(table, 3)
    for number in range(6):
        table.delete(f"id in ({number}, {number + 11}, {number + 22})")
    table.maintenance.rewrite_position_delete_files(options=ALL)
    places: dict[str, list[int]] = {}
    for file in deletes(table):
        places.setdefault(file["file_path"], []).append(file["content_offset"])
    assert len(places) == 2  # one of each partition spec
    assert all(offsets == sorted(offsets) for offsets in places.values())
    specs = {(file["file_path"], file["spec_id"]) for file in deletes(table)}
    assert len(specs) == 2


def test_vectors_are_divided_among_files_of_the_target_size(tmp_path: Path) -> None:
    table = made(tmp_path, 3, **MERGE_ON_READ)
    numbers = random.Random(5)
    for start in range(0, 8_000, 1_000):
        table.append(pa.table({"id": range(start, start + 1_000), "kind": ["a"] * 1_000}))
    for start in range(0, 8_000, 1_000):
        ids = ", ".join(str(start + one) for one in numbers.sample(range(1_000), 300))
        table.delete(f"id in ({ids})")
    before = every_row(table)
    sizes = {"target-file-size-bytes": 1300, "min-file-size-bytes": 1200, "max-file-size-bytes": 1400}
    result = table.maintenance.rewrite_position_delete_files(options=sizes)
    assert (result.rewritten_puffin_files, result.failed, every_row(table)) == (8, (), before)
    assert 3 <= result.added_puffin_files <= 5
    assert len(stored(table)) == result.added_puffin_files


def test_position_deletes_are_divided_among_files_of_the_target_size(tmp_path: Path) -> None:
    table = made(tmp_path, 2, **PARTITIONS)
    for start in range(0, 40_000, 10_000):
        table.append(pa.table({"id": range(start, start + 10_000), "kind": ["a"] * 10_000}))
    numbers = random.Random(6)
    for _ in range(6):
        ids = ", ".join(map(str, numbers.sample(range(40_000), 3_000)))
        table.delete(f"id in ({ids})")
    before = content(table)
    total = sum(file["file_size_in_bytes"] for file in deletes(table))
    result = table.maintenance.rewrite_position_delete_files(options={"target-file-size-bytes": total // 3})
    assert (result.failed, content(table)) == ((), before)
    assert 2 <= result.added_files <= 4
    assert len({(file["lower_bounds"], file["upper_bounds"]) for file in map(bounds, deletes(table))}) == result.added_files


def bounds(file: dict[str, Any]) -> dict[str, str]:
    return {name: str(file[name]) for name in ("lower_bounds", "upper_bounds")}


def draw_deletes(table: Table, numbers: random.Random) -> None:
    """Delete rows by position in one of the forms that writers have."""
    if table.format_version == 2 and numbers.random() < 0.5:
        tasks = list(table.scan().plan_files())
        partitions: dict[str, list[int]] = {}
        for place, task in enumerate(tasks):
            partitions.setdefault(repr((task.file.spec_id, task.file.partition)), []).append(place)
        places = numbers.choice(sorted(partitions.values())) if partitions else []
        positions = {
            place: sorted(numbers.sample(range(tasks[place].file.record_count), numbers.randrange(1, 1 + tasks[place].file.record_count)))
            for place in places
            if tasks[place].file.record_count and numbers.random() < 0.7
        }
        if positions:
            delete_by_file(table, positions, file_scoped=numbers.random() < 0.4)
    elif "id" in {field.name for field in table.schema().fields}:
        table.delete(f"id in ({numbers.randrange(12)}, {numbers.randrange(12)})")


@settings(max_examples=examples(12, least=4), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 1_000_000),
    version=st.sampled_from([2, 3]),
    spec=st.sampled_from([(), ("kind",), ("bucket(3, id)",)]),
    data=st.data(),
)
def test_any_rewrite_of_any_table_keeps_its_rows(
    tmp_path_factory: pytest.TempPathFactory, seed: int, version: int, spec: tuple[str, ...], data: st.DataObject
) -> None:
    upgrades = version == 3 and data.draw(st.booleans())
    file_format = data.draw(st.sampled_from(["parquet", "orc", "avro"]))
    granularity = data.draw(st.sampled_from(["file", "partition"]))
    table = any_table(tmp_path_factory.mktemp("lake"), 2 if upgrades else version, spec, file_format, granularity)
    numbers = random.Random(seed)
    for step in range(data.draw(st.integers(2, 7))):
        any_change(table, numbers, step)
        draw_deletes(table, numbers)
        if numbers.random() < 0.2:
            table.maintenance.rewrite_data_files(options={"rewrite-all": True}, where=None)
    if upgrades:
        table.upgrade_table_version(3)
        any_change(table, numbers, 100)
        draw_deletes(table, numbers)
    before, files = every_row(table), sorted(table.inspect.data_files()["file_path"].to_pylist())
    options = {
        "partial-progress.enabled": data.draw(st.booleans()),
        "min-input-files": data.draw(st.sampled_from([1, 2, 5])),
        "rewrite-all": data.draw(st.booleans()),
        "rewrite-job-order": data.draw(st.sampled_from(["none", "bytes-asc", "files-desc"])),
        "max-file-group-size-bytes": data.draw(st.sampled_from([1, 2_000, 1 << 30])),
        "target-file-size-bytes": data.draw(st.sampled_from([200, 3_000, 1 << 26])),
    }
    where = data.draw(st.sampled_from([None, "id < 6", "kind = 'a'"]))
    if where is not None and where.split()[0] in table.schema().names:
        table.maintenance.rewrite_position_delete_files(where, options=options)
        assert every_row(table) == before
    result = table.maintenance.rewrite_position_delete_files(options=options)
    assert result.failed == ()
    assert (every_row(table), sorted(table.inspect.data_files()["file_path"].to_pylist())) == (before, files)
    assert set(Counter(file["referenced_data_file"] for file in deletes(table) if file["file_format"] == "PUFFIN").values()) <= {1}
    if version == 3:
        assert {file["file_format"] for file in deletes(table) if file["content"] == 1} <= {"PUFFIN"}
    default = table.maintenance.rewrite_position_delete_files()
    assert every_row(table) == before
    assert default.failed == ()
    assert table.maintenance.rewrite_position_delete_files().snapshot_ids == ()
    table.append(draw_rows(numbers, 3).select([name for name in ("id", "kind", "number") if name in table.schema().names]))
    grown = every_row(table)
    table.maintenance.rewrite_data_files(options={"rewrite-all": True, "remove-dangling-deletes": True})
    assert every_row(table) == grown


def beside(monkeypatch: pytest.MonkeyPatch, others: Callable[[], Any], times: int = 1) -> None:
    """Run `others` after the new delete files are written, before each of the first commits of a rewrite."""
    original, calls = PositionDeleteRewrite._commit, []

    def commit(rewrite: PositionDeleteRewrite, *arguments: Any) -> Any:
        if len(calls) < times:
            calls.append(1)
            others()
        return original(rewrite, *arguments)

    monkeypatch.setattr(PositionDeleteRewrite, "_commit", commit)


def ids(table: Table) -> list[int]:
    return sorted(table.scan(selected_fields=("id",)).to_arrow()["id"].to_pylist())


@pytest.mark.parametrize(
    ("version", "granularity", "upgraded"),
    [
        (2, "file", False),
        (2, "partition", False),
        (3, "file", False),
        pytest.param(3, "partition", False, marks=pytest.mark.slow),
        pytest.param(3, "file", True, marks=pytest.mark.slow),
        (3, "partition", True),
    ],
)
def test_other_writers_between_plan_and_commit_lose_no_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, granularity: str, upgraded: bool
) -> None:
    table = with_deletes(tmp_path, 2 if upgraded else version, **{"write.delete.granularity": granularity})
    if upgraded:
        table.upgrade_table_version(3)
    others: list[tuple[Callable[[Table], Any], Callable[[set[int]], set[int]]]] = [
        (lambda writer: writer.delete("id in (8, 28, 48)"), lambda held: held - {8, 28, 48}),
        (lambda writer: writer.maintenance.rewrite_data_files("id < 25", options=ALL), lambda held: held),
        (lambda writer: writer.upsert(pa.table({"id": [9, 600], "kind": ["c", "d"]}), join_cols=["id"]), lambda held: held | {9, 600}),
        (lambda writer: writer.delete("id = 29"), lambda held: held - {29}),
        (lambda writer: writer.overwrite(pa.table({"id": [700], "kind": ["a"]}), "id = 47"), lambda held: (held - {47}) | {700}),
    ]
    expected = set(ids(table))
    for writes, effect in others:
        with monkeypatch.context() as patch:
            beside(patch, lambda writes=writes: writes(other_writer(tmp_path)))
            result = table.maintenance.rewrite_position_delete_files(options=ALL)
        assert result.failed == ()
        table.refresh()
        expected = effect(expected)
        assert ids(table) == sorted(expected)
        if version == 3:
            assert set(Counter(file["referenced_data_file"] for file in deletes(table)).values()) <= {1}


@pytest.mark.parametrize(("version", "granularity"), VERSIONS)
def test_a_compaction_that_was_planned_before_restores_no_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, granularity: str
) -> None:
    table = with_deletes(tmp_path, version, **{"write.delete.granularity": granularity})
    before = set(ids(table))
    compacting = other_writer(tmp_path)
    original, calls = RewriteDataFiles.commit, []

    def commit(update: RewriteDataFiles) -> None:
        calls.append(1)
        if len(calls) == 1:
            table.delete("id in (11, 31)")
            assert table.maintenance.rewrite_position_delete_files(options=ALL).rewritten_files
        original(update)

    monkeypatch.setattr(RewriteDataFiles, "commit", commit)
    compacting.maintenance.rewrite_data_files(options=ALL)
    table.refresh()
    assert ids(table) == sorted(before - {11, 31})


@pytest.mark.parametrize(("version", "granularity"), VERSIONS)
def test_a_delete_that_was_planned_before_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, granularity: str
) -> None:
    table = with_deletes(tmp_path, version, **{"write.delete.granularity": granularity})
    before = set(ids(table))
    deleting = other_writer(tmp_path)
    original, calls = Removal.positions, []

    def positions(removal: Removal, *arguments: Any) -> Any:
        found = original(removal, *arguments)
        if not calls:
            calls.append(1)
            assert table.maintenance.rewrite_position_delete_files(options=ALL).rewritten_files
        return found

    monkeypatch.setattr(Removal, "positions", positions)
    deleting.delete("id in (11, 31)")
    assert calls
    table.refresh()
    assert ids(table) == sorted(before - {11, 31})
    if version == 3:
        assert set(Counter(file["referenced_data_file"] for file in deletes(table)).values()) == {1}


@pytest.mark.parametrize("version", [pytest.param(2, marks=pytest.mark.slow), 3])
def test_a_branch_that_is_rolled_back_meanwhile_keeps_its_deletes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int) -> None:
    table = with_deletes(tmp_path, 2)
    if version == 3:
        table.upgrade_table_version(3)
    expected, older = ids(table), table.current_snapshot()
    assert older is not None
    update = table.update_snapshot().overwrite()
    for task in table.scan().plan_files():
        update.delete_file(task.file)
    update.commit()
    beside(monkeypatch, lambda: other_writer(tmp_path).manage_snapshots().rollback_to_snapshot(older.snapshot_id).commit())
    table.maintenance.rewrite_position_delete_files(options=ALL)
    table.refresh()
    assert ids(table) == expected


def test_a_data_file_that_is_added_again_meanwhile_is_not_touched_by_older_deletes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = with_deletes(tmp_path, 2)
    mine = next(task.file for task in table.scan("id = 6").plan_files())

    def again() -> None:
        writer = other_writer(tmp_path)
        writer.update_snapshot().delete_files().delete_file(mine).commit()
        writer.update_snapshot().fast_append().append_data_file(replace(mine, first_row_id=None)).commit()

    beside(monkeypatch, again)
    table.maintenance.rewrite_position_delete_files(options=ALL)
    table.refresh()
    assert set(range(10)) <= set(ids(table))  # the rows that older deletes deleted are there again


@pytest.mark.parametrize("version", [pytest.param(2, marks=pytest.mark.slow), 3])
def test_groups_that_are_lost_every_time_are_reported_and_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int) -> None:
    table = with_deletes(tmp_path, version, **{"write.delete.granularity": "file"})
    before = data_files(tmp_path)
    numbers = iter((7, 8, 9, 17))
    beside(monkeypatch, lambda: other_writer(tmp_path).delete(f"id = {next(numbers)}"), times=3)
    result = table.maintenance.rewrite_position_delete_files(options=ALL)
    assert result.snapshot_ids == ()
    assert result.failed_files == len(deletes(table))
    assert "given up" in str(result)
    assert len(data_files(tmp_path) - before) == 3  # those of the other writer
    table.refresh()
    assert not {7, 8, 9} & set(ids(table))


@pytest.mark.parametrize(("version", "error"), combinations([2, 3], [StorageError("no"), KeyboardInterrupt()]))
def test_after_a_failed_write_no_file_remains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, error: BaseException) -> None:
    table = with_deletes(tmp_path, version, ("kind",))
    before, files = content(table), data_files(tmp_path)
    kind = "rewrite_vectors" if version > 2 else "rewrite_positions"
    original, calls = getattr(merge_deletes, kind), []

    def write(*arguments: Any, **more: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise error
        return original(*arguments, **more)

    monkeypatch.setattr(merge_deletes, kind, write)
    options = {**ALL, "max-concurrent-file-group-rewrites": 1, "max-file-group-size-bytes": 1}
    with pytest.raises(type(error)):
        table.maintenance.rewrite_position_delete_files(options=options)
    assert (content(table), data_files(tmp_path)) == (before, files)


@pytest.mark.parametrize("version", [2, 3])
def test_a_failure_within_a_part_leaves_none_of_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int) -> None:
    table = with_deletes(tmp_path, version, **{"write.delete.granularity": "file"})
    before, files = content(table), data_files(tmp_path)
    kind = "_write_puffin" if version > 2 else "write_partition"
    original, calls = getattr(delete_file_output, kind), []

    def write(*arguments: Any, **more: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise StorageError("the disk is full")
        return original(*arguments, **more)

    monkeypatch.setattr(delete_file_output, kind, write)
    sizes = {"target-file-size-bytes": 1, "min-file-size-bytes": 0, "max-file-size-bytes": 10}
    with pytest.raises(StorageError):
        table.maintenance.rewrite_position_delete_files(options={**ALL, **sizes, "max-concurrent-file-group-rewrites": 1})
    assert len(calls) > 1
    assert (content(table), data_files(tmp_path)) == (before, files)


@pytest.mark.parametrize(("version", "error"), combinations([2, 3], [CommitConflictError("others won"), InvalidInputError("no")]))
def test_after_a_refused_commit_no_file_remains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, error: IcefloeError) -> None:
    table = with_deletes(tmp_path, version)
    before, files = content(table), data_files(tmp_path)

    def refuse(_: RewriteDataFiles) -> None:
        raise error

    monkeypatch.setattr(RewriteDataFiles, "commit", refuse)
    with pytest.raises(type(error)):
        table.maintenance.rewrite_position_delete_files(options=ALL)
    assert (content(table), data_files(tmp_path)) == (before, files)


@pytest.mark.parametrize(("version", "error"), combinations([2, 3], [CommitUnknownError("no reply"), KeyboardInterrupt()]))
def test_after_a_commit_of_unknown_state_the_files_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, error: BaseException
) -> None:
    table = with_deletes(tmp_path, version)
    before = content(table)
    original = RewriteDataFiles.commit

    def commit(update: RewriteDataFiles) -> None:
        original(update)
        raise error

    monkeypatch.setattr(RewriteDataFiles, "commit", commit)
    with pytest.raises(type(error)):
        table.maintenance.rewrite_position_delete_files(options=ALL)
    table.refresh()
    assert (content(table), len(stored(table))) == (before, 1)


@pytest.mark.parametrize("version", [2, 3])
def test_new_files_without_all_positions_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int) -> None:
    table = with_deletes(tmp_path, version)
    before, files = content(table), data_files(tmp_path)
    original, error = rewrite_position_deletes.merge_deletes, 1 if version == 2 else -1

    def wrong(*arguments: Any) -> Any:
        written = original(*arguments)
        return replace(written, added=tuple(replace(file, record_count=file.record_count + error) for file in written.added))

    monkeypatch.setattr(rewrite_position_deletes, "merge_deletes", wrong)
    with pytest.raises(EngineError, match="nothing of them was committed"):
        table.maintenance.rewrite_position_delete_files(options=ALL)
    assert (content(table), data_files(tmp_path)) == (before, files)


def test_a_damaged_delete_file_keeps_only_its_own_partition_from_being_rewritten(tmp_path: Path) -> None:
    table = with_deletes(tmp_path, 2, ("kind",))
    of_a = [file["file_path"] for file in deletes(table) if file["partition"]["kind"] == "a"]
    Path(of_a[0]).write_bytes(Path(of_a[0]).read_bytes()[:-20])
    result = table.maintenance.rewrite_position_delete_files(
        options={**ALL, "partial-progress.enabled": True, "partial-progress.max-commits": 2}
    )
    assert (result.failed_files, len(result.snapshot_ids)) == (len(of_a), 1)
    assert set(of_a) <= stored(table)


def test_a_position_beyond_the_rows_of_a_file_is_refused_and_the_file_kept(tmp_path: Path) -> None:
    table = made(tmp_path, 2, **PARTITIONS)
    small_files(table, 2)
    task = next(iter(table.scan().plan_files()))
    target = write_target(table.handle, table.metadata)
    rows = [RowsToDelete(file=replace(task.file, record_count=100), positions=pa.array([3, 99]).to_numpy())]
    written = write_position_deletes(target, rows, specs=specs_of(table.metadata), partition_id=0, task_id=0)
    update = table.update_snapshot().row_delta()
    update.add_deletes(written.added[0])
    update.commit()
    before = content(table)
    with pytest.raises(InvalidInputError, match="cannot be deleted by these positions"):
        table.maintenance.rewrite_position_delete_files(options=ALL)
    assert (content(table), len(deletes(table))) == (before, 1)


def test_a_filter_rewrites_the_delete_files_of_its_partitions_alone(tmp_path: Path) -> None:
    table = with_deletes(tmp_path, 2, ("kind",), files=8)
    before, of_b = content(table), {file["file_path"] for file in deletes(table) if file["partition"]["kind"] == "b"}
    result = table.maintenance.rewrite_position_delete_files("kind = 'a'", options=ALL)
    assert (result.added_files, content(table)) == (1, before)
    assert of_b <= stored(table)


def test_fewer_files_than_pay_are_left(tmp_path: Path) -> None:
    table = with_deletes(tmp_path, 2, files=4)
    result = table.maintenance.rewrite_position_delete_files()
    assert (result.snapshot_ids, result.left_files, result.considered_files) == ((), 4, 4)
    assert facts(result)["left"].startswith("4 delete files: ")
    assert table.maintenance.rewrite_position_delete_files(options={"min-input-files": 2}).added_files == 1


def test_at_most_so_many_files_are_rewritten(tmp_path: Path) -> None:
    table = with_deletes(tmp_path, 2, ("kind",), files=8)
    assert table.maintenance.rewrite_position_delete_files(options={"max-files-to-rewrite": 5, "min-input-files": 2}).rewritten_files <= 5


def test_a_branch_is_rewritten_alone(tmp_path: Path) -> None:
    table = with_deletes(tmp_path)
    table.manage_snapshots().create_branch(table.current_snapshot().snapshot_id, "audit").commit()  # type: ignore[union-attr]
    assert table.maintenance.rewrite_position_delete_files(branch="audit").added_files == 1
    assert len(deletes(table)) == 6
    assert table.scan().use_ref("audit").count() == table.scan().count()


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    table = with_deletes(tmp_path, 3, **{"write.wap.enabled": "true"})
    with pytest.raises(InvalidInputError, match="rewrite_position_delete_files has no option delete-file-threshold") as error:
        table.maintenance.rewrite_position_delete_files(options={"delete-file-threshold": 2})
    assert "max-file-group-size-bytes" in str(error.value)
    with pytest.raises(InvalidInputError, match="is 'maybe'"):
        table.maintenance.rewrite_position_delete_files(options={"rewrite-all": "maybe"})
    with pytest.raises(InvalidInputError, match="new files would be rewritten again"):
        table.maintenance.rewrite_position_delete_files(options={"target-file-size-bytes": 10, "min-file-size-bytes": 10})
    with pytest.raises(EngineError, match="there is no engine named"):
        table.maintenance.rewrite_position_delete_files(engine="abacus")
    with pytest.raises(NoSuchSnapshotError):
        table.maintenance.rewrite_position_delete_files(branch="other")
    with pytest.raises(InvalidFilterError):
        table.maintenance.rewrite_position_delete_files("nothing = 1")
    with write_audit_publish(wap_id="x"), pytest.raises(InvalidInputError, match="staged"):
        table.maintenance.rewrite_position_delete_files()


@pytest.mark.parametrize("version", [1, 2, 3])
def test_tables_without_position_deletes_have_nothing_to_rewrite(tmp_path: Path, version: int) -> None:
    table = made(tmp_path, version)
    assert table.maintenance.rewrite_position_delete_files().considered_files == 0
    small_files(table, 1)
    assert table.maintenance.rewrite_position_delete_files(options=ALL).snapshot_ids == ()
    if version > 1:
        table.delete_keys(pa.table({"id": [1]}), ["id"])
        assert table.maintenance.rewrite_position_delete_files(options=ALL).snapshot_ids == ()


def test_the_deletes_keep_their_sequence_number(tmp_path: Path) -> None:
    table = with_deletes(tmp_path)
    newest = table.current_snapshot()
    assert newest is not None
    table.append(pa.table({"id": [1], "kind": ["a"]}))
    table.maintenance.rewrite_position_delete_files()
    entries = [entry for entry in table.inspect.entries().to_pylist() if entry["data_file"]["content"] == 1 and entry["status"] == 1]
    assert [entry["sequence_number"] for entry in entries] == [newest.sequence_number]


def test_a_sequence_number_that_would_not_cover_the_deletes_is_refused(tmp_path: Path) -> None:
    table = with_deletes(tmp_path)
    head = table.current_snapshot()
    assert head is not None
    files = {file for task in table.scan().plan_files() for file in task.delete_files}
    for number, problem in ((1, "would not apply"), (head.sequence_number + 1, "is newer than")):
        update = table.update_snapshot().rewrite_files().validate_from_snapshot(head.snapshot_id).delete_sequence_number(number)
        for file in files:
            update.delete_file(file)
        with pytest.raises(InvalidInputError, match=problem):
            update.commit()


@pytest.mark.parametrize("size", [-1, 0, 2**62])
def test_sizes_and_counts_of_a_manifest_are_not_believed(tmp_path: Path, size: int) -> None:
    table = made(tmp_path, 3, **MERGE_ON_READ)
    small_files(table, 4)
    table.delete("id in (1, 11, 21, 31)")
    before = content(table)
    update = table.update_snapshot().row_delta()
    for file in {delete_key(file): file for task in table.scan().plan_files() for file in task.delete_files}.values():
        update.remove_deletes(file)
        update.add_deletes(replace(file, file_path=f"{file.file_path}.copy", content_size_in_bytes=size))
        Path(f"{file.file_path}.copy").write_bytes(Path(file.file_path).read_bytes())
    update.commit()
    assert table.maintenance.rewrite_position_delete_files(dry_run=True).considered_files == 4
    # Four files of the largest size would start Spark.
    with choosing_engines(EngineChoice(uses_spark=False)), pytest.raises(IcefloeError):
        table.maintenance.rewrite_position_delete_files(options=ALL)
    assert len(deletes(table)) == 4
    assert len(before) == 36
