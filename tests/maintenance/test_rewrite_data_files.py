"""`table.maintenance.rewrite_data_files()`: the same rows in other files; beside other writers; with every option."""

import random
from collections.abc import Callable
from concurrent.futures import CancelledError
from dataclasses import replace
from pathlib import Path
from time import sleep
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.repetitions import examples
from tests.reports import facts

from icefloe import SqlCatalog
from icefloe.datafile import data_file_writer, live_rows
from icefloe.datafile.compact_files import FilesToCompact
from icefloe.datafile.live_rows import LiveRows
from icefloe.datafile.write_target import WritingTask
from icefloe.errors import (
    CommitConflictError,
    EngineError,
    FormatWarning,
    IcefloeError,
    InvalidInputError,
    NoSuchSnapshotError,
    StorageError,
    UnsupportedFeatureError,
)
from icefloe.maintenance import group_rewrite, rewrite_data_files
from icefloe.maintenance.rewrite_data_files import DataFileRewrite
from icefloe.maintenance.rewrite_options import rewrite_options
from icefloe.maintenance.rewrite_planner import RewritePlan
from icefloe.operations.available_engines import EngineChoice, InProcessEngine, choosing_engines
from icefloe.operations.files.file_operations import RewriteDataFiles
from icefloe.operations.staging import write_audit_publish
from icefloe.spec.expressions.predicate import AlwaysTrue
from icefloe.spec.manifest.data_file import DataFile, FileContent, FileFormat
from icefloe.spec.partitioning.sort_order import UNSORTED_SORT_ORDER
from icefloe.table.table import Table

SCHEMA = pa.schema([("id", pa.int64()), ("kind", pa.string())])
LINEAGE = ("_row_id", "_last_updated_sequence_number")


def made(folder: Path, version: int = 2, spec: tuple[str, ...] = (), **properties: str) -> Table:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder))
    catalog.create_namespace("db")
    everything = {"format-version": str(version), "commit.retry.min-wait-ms": "1", **properties}
    return catalog.create_table("db.t", SCHEMA, partition_spec=spec, properties=everything)


def small_files(table: Table, count: int, rows: int = 10) -> None:
    for number in range(count):
        start = number * rows
        table.append(pa.table({"id": list(range(start, start + rows)), "kind": ["ab"[id % 2] for id in range(start, start + rows)]}))


def content(table: Table) -> list[str]:
    names = ("id", "kind", *(LINEAGE if table.format_version > 2 else ()))
    return sorted(map(str, table.scan(selected_fields=names).to_arrow().to_pylist()))


def data_files(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("data/**/*") if path.is_file()}


@pytest.mark.parametrize("version", [1, 2, 3])
def test_small_files_become_one_with_the_same_rows(tmp_path: Path, version: int) -> None:
    table = made(tmp_path, version)
    small_files(table, 6)
    before = content(table)
    planned = table.maintenance.rewrite_data_files(dry_run=True)
    assert (planned.rewritten_files, planned.added_files, planned.snapshot_ids) == (6, 1, ())
    result = table.maintenance.rewrite_data_files(snapshot_properties={"why": "test"})
    assert (result.rewritten_files, result.added_files, result.deleted_rows, result.failed) == (6, 1, 0, ())
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert (snapshot.operation, result.snapshot_ids, snapshot.summary["why"]) == ("replace", (snapshot.snapshot_id,), "test")
    assert content(table) == before
    again = table.maintenance.rewrite_data_files()
    assert (again.rewritten_files, again.left_files) == (0, 1)
    assert "nothing to do" in str(again)


@settings(max_examples=examples(8, least=4), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_rewrite_of_any_table_keeps_its_rows(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    version = data.draw(st.sampled_from([1, 2, 3]))
    spec = data.draw(st.sampled_from([(), ("kind",), ("bucket(3, id)",)]))
    file_format = data.draw(st.sampled_from(["parquet", "orc", "avro"]))
    table = made(
        tmp_path_factory.mktemp("lake"), version, spec, **{"write.delete.mode": "merge-on-read", "write.format.default": file_format}
    )
    numbers = random.Random(data.draw(st.integers(0, 1000)))
    for step in range(data.draw(st.integers(2, 8))):
        ids = [numbers.randrange(40) for _ in range(numbers.randrange(1, 30))]
        table.append(pa.table({"id": ids, "kind": [numbers.choice(["a", "b", None]) for _ in ids]}))
        if version > 1 and numbers.random() < 0.4:
            table.delete(f"id = {numbers.randrange(40)}")
        if version > 1 and numbers.random() < 0.3:
            table.delete_keys(pa.table({"id": [numbers.randrange(40)]}), ["id"])
        if step == 2 and numbers.random() < 0.5:
            with table.update_spec() as update:
                update.add_field("id", "truncate[10]")
    before = content(table)
    options = {
        "min-input-files": data.draw(st.integers(1, 5)),
        "target-file-size-bytes": data.draw(st.sampled_from([1_000, 3_000, 1_000_000])),
        "rewrite-all": data.draw(st.booleans()),
        "max-file-group-input-files": data.draw(st.integers(1, 10)),
        "delete-file-threshold": data.draw(st.integers(1, 3)),
        "partial-progress.enabled": data.draw(st.booleans()),
        "rewrite-job-order": data.draw(st.sampled_from(["none", "bytes-desc", "files-asc"])),
    }
    where = data.draw(st.sampled_from([None, "id < 20", "kind = 'a'"]))
    order = data.draw(st.sampled_from([None, "id DESC, kind", "bucket(4, id) NULLS LAST", "zorder(id, kind)", "hilbert(id, kind)"]))
    result = table.maintenance.rewrite_data_files(where, sort_order=order, options=options)
    assert result.failed == ()
    assert content(table) == before
    assert table.scan("id < 20").count() == sum("'id': " in row and int(row.split("'id': ")[1].split(",")[0]) < 20 for row in before)


def test_deletes_of_rows_that_the_filter_does_not_keep_stay_applied(tmp_path: Path) -> None:
    table = made(tmp_path, **{"write.delete.mode": "merge-on-read"})
    small_files(table, 6)
    table.delete_keys(pa.table({"id": [59, 3]}), ["id"])
    before = content(table)
    result = table.maintenance.rewrite_data_files("id < 10", options={"rewrite-all": "true"})
    assert result.rewritten_files == 1
    table.maintenance.rewrite_data_files("id = 52", options={"rewrite-all": "true"}, sort_order="id")
    assert content(table) == before
    assert table.scan().count() == 58


def test_deletes_of_replaced_files_alone_are_removed_with_them(tmp_path: Path) -> None:
    table = made(tmp_path, 3, **{"write.delete.mode": "merge-on-read"})
    small_files(table, 6)
    table.delete("id in (1, 2, 3, 11)")
    result = table.maintenance.rewrite_data_files(options={"min-input-files": 2})
    assert (result.removed_delete_files, result.deleted_rows) == (2, 4)
    assert len(table.inspect.delete_files()) == 0
    assert (facts(result)["removed"], facts(result)["deleted rows"]) == ("2 delete files", "4 are in no file any more")


def test_a_file_with_many_deletes_is_rewritten_alone(tmp_path: Path) -> None:
    table = made(tmp_path, **{"write.delete.mode": "merge-on-read"})
    small_files(table, 2, rows=100)
    size = max(task.file.file_size_in_bytes for task in table.scan().plan_files())
    right = {"target-file-size-bytes": size, "min-file-size-bytes": 1}
    assert table.maintenance.rewrite_data_files(options=right, dry_run=True).rewritten_files == 0
    table.delete_keys(pa.table({"id": list(range(40))}), ["id"])
    result = table.maintenance.rewrite_data_files(options=right, dry_run=True)
    assert (result.rewritten_files, list(result.reasons)) == (1, ["deleted rows"])
    assert table.maintenance.rewrite_data_files(options={**right, "delete-ratio-threshold": "0.5"}, dry_run=True).rewritten_files == 0
    assert (
        table.maintenance.rewrite_data_files(options={**right, "delete-ratio-threshold": 1, "delete-file-threshold": 1}).deleted_rows == 40
    )


def test_keys_that_may_be_in_several_files_are_divided_among_them(tmp_path: Path) -> None:
    table = made(tmp_path)
    for start in range(2):
        table.append(pa.table({"id": list(range(start, 200, 2)), "kind": ["a"] * 100}))
    size = max(task.file.file_size_in_bytes for task in table.scan().plan_files())
    right = {"target-file-size-bytes": size, "min-file-size-bytes": 1}
    table.delete_keys(pa.table({"id": list(range(50, 90))}), ["id"])  # 20 of 100 rows of each file
    assert table.maintenance.rewrite_data_files(options=right, dry_run=True).rewritten_files == 0
    assert table.maintenance.rewrite_data_files(options={**right, "delete-ratio-threshold": 0.2}).deleted_rows == 40


def test_files_of_an_older_spec_land_in_the_partitions_of_the_new_one(tmp_path: Path) -> None:
    table = made(tmp_path)
    small_files(table, 6)
    with table.update_spec() as update:
        update.add_identity("kind")
    before = content(table)
    result = table.maintenance.rewrite_data_files()
    assert result.added_files == 2
    assert {tuple(task.file.partition) for task in table.scan().plan_files()} == {("a",), ("b",)}
    assert content(table) == before
    old = table.maintenance.rewrite_data_files(options={"output-spec-id": 0, "rewrite-all": True})
    assert old.added_files == 1
    assert content(table) == before


def test_large_files_are_divided(tmp_path: Path) -> None:
    table = made(tmp_path, **{"write.parquet.row-group-size-bytes": "20000"})
    ids = list(range(60_000))
    random.Random(1).shuffle(ids)
    table.append(pa.table({"id": ids, "kind": ["a"] * len(ids)}))
    (size,) = (task.file.file_size_in_bytes for task in table.scan().plan_files())
    before = content(table)
    result = table.maintenance.rewrite_data_files(options={"target-file-size-bytes": size // 4})
    assert (result.rewritten_files, list(result.reasons)) == (1, ["too large"])
    assert 3 <= result.added_files <= 5
    assert content(table) == before


def test_a_sort_separates_files_that_overlap_and_has_nothing_to_do_afterwards(tmp_path: Path) -> None:
    table = made(tmp_path)
    numbers = random.Random(3)
    for _ in range(8):
        table.append(pa.table({"id": [numbers.randrange(1_000_000) for _ in range(5_000)], "kind": ["a"] * 5_000}))
    size = max(task.file.file_size_in_bytes for task in table.scan().plan_files())
    right = {"target-file-size-bytes": size, "min-file-size-bytes": size // 2}
    before = content(table)
    assert table.maintenance.rewrite_data_files(options=right, dry_run=True).rewritten_files == 0
    result = table.maintenance.rewrite_data_files(sort_order="id", options=right)
    assert (result.rewritten_files, list(result.reasons)) == (8, ["bounds overlap"])
    assert content(table) == before
    tasks = table.scan("id = 500000").plan_files()
    assert len(tasks) == 1
    assert table.maintenance.rewrite_data_files(sort_order="id", options=right).rewritten_files == 0


def test_sorted_rows_become_as_many_files_as_planned_and_a_failure_leaves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(tmp_path)
    ids = list(range(120_000))
    random.Random(1).shuffle(ids)
    for start in range(0, len(ids), 40_000):
        table.append(pa.table({"id": ids[start : start + 40_000], "kind": ["a"] * 40_000}))
    size = sum(task.file.file_size_in_bytes for task in table.scan().plan_files())
    options = {"target-file-size-bytes": size // 6, "rewrite-all": True}
    before, calls, write = data_files(tmp_path), [], data_file_writer.write_batches

    def write_some(*arguments: Any, **words: Any) -> list[DataFile]:
        calls.append(arguments)
        if len(calls) == 3:
            raise StorageError("the disk is full")
        return write(*arguments, **words)

    with monkeypatch.context() as patch:
        patch.setattr(data_file_writer, "write_batches", write_some)
        with pytest.raises(StorageError):
            table.maintenance.rewrite_data_files(sort_order="id", options=options)
    assert data_files(tmp_path) == before
    planned = table.maintenance.rewrite_data_files(sort_order="id", options=options, dry_run=True)
    result = table.maintenance.rewrite_data_files(sort_order="id", options=options)
    assert result.added_files == planned.added_files == 6
    assert len(table.scan("id = 60000").plan_files()) == 1


def test_the_order_of_the_table_is_recorded_in_sorted_files(tmp_path: Path) -> None:
    table = made(tmp_path)
    small_files(table, 5)
    with pytest.raises(InvalidInputError, match="has no sort order"):
        table.maintenance.rewrite_data_files(strategy="sort")
    with table.update_sort_order() as update:
        update.desc("id", null_order="nulls-last")
    table.maintenance.rewrite_data_files(strategy="sort")
    (task,) = table.scan().plan_files()
    assert task.file.sort_order_id == table.sort_order().order_id
    assert table.scan().to_arrow()["id"].to_pylist() == list(range(49, -1, -1))


class Interrupted(DataFileRewrite):
    """A rewrite during which something else happens, after the new files are written and before they are committed."""

    meanwhile: Callable[[], Any] | None = None

    def _commit(self, plan: RewritePlan, written: Any) -> Any:
        happening, self.meanwhile = self.meanwhile, None
        if happening is not None:
            happening()
        return super()._commit(plan, written)


def interrupted(table: Table, meanwhile: Callable[[], Any], **options: Any) -> Any:
    work = Interrupted(table, AlwaysTrue(), rewrite_options(options, table.metadata, UNSORTED_SORT_ORDER), branch="main")
    work.meanwhile = meanwhile
    return work.run()


def other_writer(folder: Path) -> Table:
    return SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder)).load_table("db.t")


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_rows_that_another_writer_deletes_meanwhile_stay_deleted(tmp_path: Path, mode: str) -> None:
    table = made(tmp_path, spec=("kind",), **{"write.delete.mode": mode})
    small_files(table, 6)
    result = interrupted(table, lambda: other_writer(tmp_path).delete("id = 2"))
    assert result.failed == ()
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [id for id in range(60) if id != 2]
    # The other partition is committed at once, and the one with the delete is planned again.
    assert len(result.snapshot_ids) == 2
    assert sorted(task.file.partition for task in table.scan().plan_files()) == [("a",), ("b",)]


def test_keys_that_another_writer_deletes_meanwhile_do_not_stop_the_rewrite(tmp_path: Path) -> None:
    table = made(tmp_path)
    small_files(table, 6)
    result = interrupted(table, lambda: other_writer(tmp_path).delete_keys(pa.table({"id": [7]}), ["id"]))
    assert len(result.snapshot_ids) == 1
    assert 7 not in table.scan().to_arrow()["id"].to_pylist()
    assert table.scan().count() == 59


def test_rows_that_another_writer_appends_meanwhile_stay(tmp_path: Path) -> None:
    table = made(tmp_path)
    small_files(table, 6)
    result = interrupted(table, lambda: other_writer(tmp_path).append(pa.table({"id": [1_000], "kind": ["a"]})))
    assert len(result.snapshot_ids) == 1
    assert table.scan().count() == 61


def test_a_group_that_loses_every_round_is_reported_and_its_new_files_are_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(tmp_path)
    small_files(table, 6)
    monkeypatch.setattr(group_rewrite, "MAX_ROUNDS", 1)
    result = interrupted(table, lambda: other_writer(tmp_path).delete("id = 2"))
    assert (result.rewritten_files, result.failed_files, result.snapshot_ids) == (0, 6, ())
    assert "no longer in the table" in result.failed[0].reason
    table.refresh()
    named = {Path(task.file.file_path.removeprefix("file://")).name for task in table.scan().plan_files()}
    old = {path.name for path in data_files(tmp_path)} - named
    assert len(old) == 1  # the file that the delete replaced, which an older snapshot has
    assert table.scan().count() == 59


def test_after_a_failure_no_new_file_remains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(tmp_path, spec=("kind",))
    small_files(table, 6)
    before, rows = data_files(tmp_path), content(table)
    damaged = sorted(before)[-1]
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:50])
    with pytest.raises(IcefloeError, match="not a complete, valid Parquet file"):
        table.maintenance.rewrite_data_files()
    assert data_files(tmp_path) == before
    result = table.maintenance.rewrite_data_files(options={"partial-progress.enabled": True})
    assert (result.rewritten_files, result.failed_files) == (6, 6)
    assert result.reasons == {"too small": 6}
    assert damaged.name in result.failed[0].reason
    damaged.write_bytes(whole)
    assert content(table) == rows


def test_an_interrupt_leaves_the_table_and_no_new_file(tmp_path: Path) -> None:
    table = made(tmp_path)
    small_files(table, 6)
    before = data_files(tmp_path)

    def interrupt() -> None:
        raise KeyboardInterrupt

    work = Interrupted(table, AlwaysTrue(), rewrite_options({}, table.metadata, UNSORTED_SORT_ORDER), branch="main")
    work._commit_together = lambda *_: interrupt()  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        work.run()
    assert data_files(tmp_path) == before


@pytest.mark.parametrize("order", [None, "id"])
def test_new_files_without_some_of_the_rows_are_not_committed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: str | None) -> None:
    table = made(tmp_path)
    small_files(table, 6)
    before = data_files(tmp_path)
    read_task, read = live_rows.read_task, InProcessEngine.read
    monkeypatch.setattr(live_rows, "read_task", lambda *task, **words: (batch.slice(1) for batch in read_task(*task, **words)))
    monkeypatch.setattr(InProcessEngine, "read", lambda engine, request: read(engine, request).slice(6))
    with pytest.raises(EngineError, match=r"6 files of .*db.t with 60 rows became new files with 54 rows"):
        table.maintenance.rewrite_data_files(sort_order=order)
    assert data_files(tmp_path) == before
    result = table.maintenance.rewrite_data_files(sort_order=order, options={"partial-progress.enabled": True})
    assert (result.rewritten_files, result.failed_files, result.reasons) == (0, 6, {})
    assert data_files(tmp_path) == before


def test_with_partial_progress_a_commit_that_lost_every_retry_is_reported_beside_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(tmp_path, spec=("kind",))
    small_files(table, 6)
    before, commit, attempts = content(table), RewriteDataFiles.commit, list[Any]()

    def lose_the_second(update: RewriteDataFiles) -> None:
        attempts.append(update)
        if len(attempts) % 2 == 0:
            raise CommitConflictError("other writers committed first")
        commit(update)

    monkeypatch.setattr(RewriteDataFiles, "commit", lose_the_second)
    result = table.maintenance.rewrite_data_files(options={"partial-progress.enabled": True})
    assert (result.rewritten_files, result.failed_files, len(result.snapshot_ids)) == (6, 6, 1)
    assert result.failed[0].reason == "other writers committed first"
    assert len(data_files(tmp_path)) == 12 + 1  # the new files of the other commit are deleted
    assert content(table) == before
    attempts.append(None)  # the next commit is lost too
    with pytest.raises(CommitConflictError):
        table.maintenance.rewrite_data_files()
    assert content(table) == before


def test_a_commit_that_storage_refuses_leaves_no_new_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(tmp_path)
    small_files(table, 6)
    before = data_files(tmp_path)

    def refuse(update: RewriteDataFiles) -> None:
        raise StorageError("the storage takes no manifest")

    monkeypatch.setattr(RewriteDataFiles, "commit", refuse)
    with pytest.raises(StorageError):
        table.maintenance.rewrite_data_files()
    assert data_files(tmp_path) == before


def test_a_group_that_loses_files_to_the_limit_is_rewritten_only_if_it_still_pays(tmp_path: Path) -> None:
    table = made(tmp_path)
    small_files(table, 6)
    planned = table.maintenance.rewrite_data_files(options={"max-files-to-rewrite": 4}, dry_run=True)
    assert (planned.rewritten_files, planned.left_files) == (0, 6)
    assert table.maintenance.rewrite_data_files(options={"max-files-to-rewrite": 5}).rewritten_files == 5


def test_a_failure_is_noticed_while_an_earlier_file_is_still_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(tmp_path, spec=("kind",))
    small_files(table, 6)

    def compacted(_reader: LiveRows, _work: FilesToCompact, task: WritingTask) -> None:
        if task.partition_id == 1:
            raise StorageError("the storage refuses the second file")
        for _ in range(3_000):
            if task.is_stopped():
                raise CancelledError
            sleep(0.01)
        raise AssertionError("the first file was not stopped")

    monkeypatch.setattr(rewrite_data_files, "compact_files", compacted)
    with pytest.raises(StorageError, match="the second file"):
        table.maintenance.rewrite_data_files()


def test_partial_progress_commits_in_parts(tmp_path: Path) -> None:
    table = made(tmp_path, spec=("bucket(8, id)",))
    small_files(table, 6, rows=40)
    options = {"partial-progress.enabled": True, "partial-progress.max-commits": 3}
    result = table.maintenance.rewrite_data_files(options=options)
    assert (len(result.snapshot_ids), result.added_files) == (3, 8)


def test_a_branch_is_rewritten_and_main_stays(tmp_path: Path) -> None:
    table = made(tmp_path)
    small_files(table, 6)
    with table.manage_snapshots() as manage:
        manage.create_branch(table.current_snapshot().snapshot_id, "work")  # type: ignore[union-attr]
    result = table.maintenance.rewrite_data_files(branch="work")
    assert result.snapshot_ids == (table.refs()["work"].snapshot_id,)
    assert len(table.scan().plan_files()) == 6
    assert len(table.scan().use_ref("work").plan_files()) == 1
    with pytest.raises(NoSuchSnapshotError):
        table.maintenance.rewrite_data_files(branch="other")


def test_an_empty_table_has_nothing_to_rewrite(tmp_path: Path) -> None:
    nothing = facts(made(tmp_path).maintenance.rewrite_data_files())
    assert (nothing["snapshot"], nothing["considered"]) == ("none: there was nothing to do", "0 files")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"options": {"min-input-file": 2}}, "has no option min-input-file"),
        ({"options": {"compression-factor": 2}}, "without a sort"),
        ({"options": {"min-input-files": 0}}, "min-input-files is '0', which is not a whole number"),
        ({"options": {"delete-ratio-threshold": "nan"}}, "delete-ratio-threshold is 'nan'"),
        ({"options": {"target-file-size-bytes": 100, "min-file-size-bytes": 100}}, "pass a larger target"),
        ({"options": {"target-file-size-bytes": 100, "max-file-size-bytes": 100}}, "pass a smaller target"),
        ({"options": {"output-spec-id": 7}}, "output-spec-id is 7"),
        ({"strategy": "zorder"}, "there is no strategy 'zorder'"),
        ({"strategy": "binpack", "sort_order": "id"}, "leave one of the two out"),
        ({"sort_order": "id id"}, "syntax error"),
        ({"sort_order": "nothing"}, "nothing"),
        ({"engine": "none"}, "no engine named 'none'"),
    ],
)
def test_wrong_arguments_are_refused(tmp_path: Path, arguments: dict[str, Any], message: str) -> None:
    table = made(tmp_path)
    small_files(table, 5)
    before = data_files(tmp_path)
    with pytest.raises(IcefloeError) as error:
        table.maintenance.rewrite_data_files(**arguments)
    assert message in str(error.value)
    assert data_files(tmp_path) == before


def test_maintenance_is_refused_in_a_transaction(tmp_path: Path) -> None:
    table = made(tmp_path)
    with table.transaction() as transaction, pytest.raises(InvalidInputError, match="no part of a transaction"):
        transaction.maintenance.rewrite_data_files()


def test_a_table_in_memory_cannot_be_rewritten_by_spark(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    catalog = SqlCatalog("lake", uri="sqlite:///:memory:", warehouse="memory://rewritten")
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", SCHEMA)
    small_files(table, 5)
    with pytest.raises(UnsupportedFeatureError, match="cannot reach"):
        table.maintenance.rewrite_data_files(engine="spark")


def test_an_interrupt_after_the_commit_keeps_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(tmp_path)
    small_files(table, 6)
    before, commit = content(table), RewriteDataFiles.commit

    def commit_and_interrupt(update: RewriteDataFiles) -> None:
        commit(update)
        raise KeyboardInterrupt

    monkeypatch.setattr(RewriteDataFiles, "commit", commit_and_interrupt)
    with pytest.raises(KeyboardInterrupt):
        table.maintenance.rewrite_data_files()
    assert content(other_writer(tmp_path)) == before


def test_a_large_file_whose_entry_states_a_smaller_size_keeps_its_rows(tmp_path: Path) -> None:
    table = made(tmp_path, **{"write.parquet.row-group-size-bytes": "20000"})
    ids = list(range(60_000))
    random.Random(1).shuffle(ids)
    table.append(pa.table({"id": ids, "kind": ["a"] * len(ids)}))
    (task,) = table.scan().plan_files()
    table.update_snapshot().delete_files().delete_file(task.file).commit()
    half = replace(task.file, file_size_in_bytes=task.file.file_size_in_bytes // 2)
    table.update_snapshot().fast_append().append_file(half).commit()
    with pytest.warns(FormatWarning, match="manifest entry states"):
        table.maintenance.rewrite_data_files(options={"target-file-size-bytes": half.file_size_in_bytes // 4})
    assert table.scan().count() == len(ids)


def test_deletes_of_an_older_spec_that_another_writer_adds_meanwhile_are_applied(tmp_path: Path) -> None:
    table = made(tmp_path, spec=("kind",))
    small_files(table, 6)
    with table.update_spec() as update:
        update.remove_field("kind")
    path = tmp_path / "keys.parquet"
    field = pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})
    pq.write_table(pa.table({"id": [2]}, schema=pa.schema([field])), path)
    deletes = DataFile(
        content=FileContent.EQUALITY_DELETES,
        file_path=str(path),
        file_format=FileFormat.PARQUET,
        partition=("a",),
        spec_id=0,
        record_count=1,
        file_size_in_bytes=path.stat().st_size,
        equality_ids=(1,),
    )
    result = interrupted(table, lambda: other_writer(tmp_path).update_snapshot().row_delta().add_deletes(deletes).commit())
    assert result.failed == ()
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [id for id in range(60) if id != 2]


def test_a_sort_by_a_transform_has_nothing_to_do_afterwards(tmp_path: Path) -> None:
    table = made(tmp_path)
    for number in range(8):
        table.append(pa.table({"id": list(range(number, 8_000, 8)), "kind": ["a"] * 1_000}))
    size = max(task.file.file_size_in_bytes for task in table.scan().plan_files())
    right = {"target-file-size-bytes": size, "min-file-size-bytes": 1}
    assert table.maintenance.rewrite_data_files(sort_order="bucket(4, id)", options=right, dry_run=True).rewritten_files == 0


def test_one_conflict_costs_few_commits(tmp_path: Path) -> None:
    table = made(tmp_path, spec=("bucket(16, id)",), **{"write.delete.mode": "merge-on-read"})
    small_files(table, 6, rows=100)
    result = interrupted(table, lambda: other_writer(tmp_path).delete("id = 2"))
    assert result.failed == ()
    assert len(result.snapshot_ids) <= 5


def test_maintenance_is_refused_where_writes_are_staged(tmp_path: Path) -> None:
    table = made(tmp_path, **{"write.wap.enabled": "true"})
    small_files(table, 5)
    for words in ({"branch": "audit"}, {"wap_id": "w1"}):
        with write_audit_publish(**words), pytest.raises(InvalidInputError, match="are staged"):  # type: ignore[arg-type]
            table.maintenance.rewrite_data_files()
        with write_audit_publish(**words), pytest.raises(InvalidInputError, match="are staged"):  # type: ignore[arg-type]
            table.maintenance.remove_dangling_deletes()
    assert table.maintenance.rewrite_data_files().rewritten_files == 5


def test_a_large_sort_without_spark_is_refused_unless_memory_is_chosen(tmp_path: Path) -> None:
    table = made(tmp_path)
    small_files(table, 6)
    before, files = content(table), data_files(tmp_path)
    without_spark = EngineChoice(uses_spark=False, bytes_to_start=1000)
    with (
        choosing_engines(without_spark),
        pytest.raises(EngineError, match="Spark, which sorts so many rows on disk, is not available") as refused,
    ):
        table.maintenance.rewrite_data_files(sort_order="id DESC")
    assert "engine='in-process'" in str(refused.value.next_step)
    assert (content(table.refresh()), data_files(tmp_path)) == (before, files)
    with choosing_engines(without_spark):
        result = table.maintenance.rewrite_data_files(sort_order="id DESC", engine="in-process")
    assert (result.rewritten_files, content(table.refresh())) == (6, before)
