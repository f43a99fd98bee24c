"""Append, delete, overwrite and scan in this process, compared with a plain list of rows; and the state after a failed write."""

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.repetitions import examples

from icefloe import LongType, NestedField, Schema, SortField, SortOrder, SqlCatalog, StaticTable
from icefloe.errors import (
    InvalidFilterError,
    InvalidInputError,
    NoSuchSnapshotError,
    ReadOnlyTableError,
    SchemaMismatchError,
    StorageFullError,
)
from icefloe.table import Table

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("type", pa.string()), ("at", pa.timestamp("us")), ("value", pa.float64())])
START = dt.datetime(2024, 1, 1)


def lake(folder: Path) -> SqlCatalog:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder))
    catalog.create_namespace_if_not_exists("db")
    return catalog


def rows(start: int, stop: int) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {"id": n, "type": "abc"[n % 3], "at": START + dt.timedelta(days=n), "value": None if n % 7 == 0 else n / 2}
            for n in range(start, stop)
        ],
        schema=SCHEMA,
    )


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return lake(tmp_path).create_table("db.t", SCHEMA, partition_spec=["month(at)"])


def ids(table: Table | StaticTable, **scan: object) -> list[int]:
    return sorted(table.scan(**scan).to_arrow()["id"].to_pylist())  # type: ignore[arg-type]


def files_under(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file() and path.suffix != ".db"}


def test_an_append_is_one_snapshot_with_every_total(table: Table) -> None:
    result = table.append(rows(0, 40))
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert (result.snapshot_id, result.engine, result.added_records) == (snapshot.snapshot_id, "in-process", 40)
    summary = snapshot.summary
    assert summary["operation"] == "append"
    assert summary["total-records"] == "40"
    assert summary["added-data-files"] == summary["total-data-files"] == "2"
    assert table.scan().count() == 40


def test_rows_are_read_as_they_were_written(table: Table) -> None:
    table.append(rows(0, 40))
    assert table.scan().to_arrow().sort_by("id").to_pylist() == rows(0, 40).to_pylist()


def test_a_delete_removes_whole_files_by_metadata_and_copies_the_others(table: Table) -> None:
    table.append(rows(0, 60))
    result = table.delete("at < '2024-02-10'")
    assert (result.removed_files, result.rewritten_files, result.deleted_records) == (2, 1, 40)
    assert ids(table) == list(range(40, 60))
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary["operation"] == "overwrite"
    assert snapshot.summary["total-records"] == "20"
    again = table.delete("at < '2024-02-20'")
    assert again.deleted_records == 10


def test_a_delete_of_whole_files_rewrites_no_row(table: Table) -> None:
    table.append(rows(0, 60))
    result = table.delete("at < '2024-02-01'")
    assert (result.engine, result.removed_files, result.rewritten_files) == ("metadata", 1, 0)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary["operation"] == "delete"
    assert ids(table) == list(range(31, 60))


def test_a_delete_that_matches_no_row_commits_no_snapshot_and_leaves_no_file(table: Table, tmp_path: Path) -> None:
    table.append(rows(0, 10))
    before = files_under(tmp_path)
    result = table.delete("id = 1000 or type = 'zzz'")
    assert result.snapshot_id is None
    assert len(table.snapshots()) == 1
    assert files_under(tmp_path) == before


def test_a_null_is_not_deleted_by_a_comparison_with_it(table: Table) -> None:
    table.append(rows(0, 20))
    table.delete("value != 3")
    assert ids(table) == [0, 6, 7, 14]


def test_an_overwrite_replaces_the_matching_rows_in_one_snapshot(table: Table) -> None:
    table.append(rows(0, 20))
    table.overwrite(rows(100, 103), "type = 'a'")
    assert ids(table) == sorted([n for n in range(20) if n % 3] + [100, 101, 102])
    assert len(table.snapshots()) == 2
    table.overwrite(rows(5, 6))
    assert ids(table) == [5]


def test_every_earlier_snapshot_remains_readable(table: Table) -> None:
    table.append(rows(0, 10))
    table.append(rows(10, 20))
    table.delete("id < 15")
    first, second, third = table.snapshots()
    assert ids(table, snapshot_id=first.snapshot_id) == list(range(10))
    assert ids(table, snapshot_id=second.snapshot_id) == list(range(20))
    assert ids(table, snapshot_id=third.snapshot_id) == list(range(15, 20))
    assert sorted(table.scan().use_ref("main").to_arrow()["id"].to_pylist()) == list(range(15, 20))
    assert sorted(table.scan().as_of(second.timestamp_ms).to_arrow()["id"].to_pylist())[-1] >= 9
    first_ms = table.metadata.snapshot_log[0].timestamp_ms
    with pytest.raises(NoSuchSnapshotError, match=f"its snapshot log begins at {first_ms} ms"):
        table.scan().as_of(first_ms - 1)
    with pytest.raises(NoSuchSnapshotError, match="expired"):
        table.scan(snapshot_id=1).to_arrow()
    with pytest.raises(NoSuchSnapshotError, match="nobranch"):
        table.scan().use_ref("nobranch")


def test_a_branch_is_read_with_the_table_schema_and_a_snapshot_with_its_schema(table: Table) -> None:
    table.append(rows(0, 3))
    (snapshot,) = table.snapshots()
    with table.update_schema() as update:
        update.delete_column("type")
    kept = [name for name in rows(0, 1).column_names if name != "type"]
    assert table.scan().use_ref("main").to_arrow().column_names == kept
    assert table.scan().as_of(snapshot.timestamp_ms).to_arrow().column_names == rows(0, 1).column_names
    assert table.scan().use_ref("main").as_of(snapshot.timestamp_ms).to_arrow().column_names == rows(0, 1).column_names
    assert table.scan(snapshot_id=snapshot.snapshot_id).to_arrow().column_names == rows(0, 1).column_names


def test_selected_fields_limit_and_count(table: Table) -> None:
    table.append(rows(0, 50))
    scanned = table.scan("id >= 10", selected_fields=("type", "id"), limit=7).to_arrow()
    assert scanned.column_names == ["id", "type"]
    assert scanned.num_rows == 7
    assert min(scanned["id"].to_pylist()) >= 10
    assert table.scan("id >= 10").count() == 40
    assert table.scan("id >= 10", limit=0).to_arrow().num_rows == 0


def test_a_column_that_is_only_in_the_filter_is_not_returned(table: Table) -> None:
    table.append(rows(0, 30))
    scanned = table.scan("type = 'b' and value > 3", selected_fields=("id",)).to_arrow()
    assert scanned.column_names == ["id"]
    assert sorted(scanned["id"].to_pylist()) == [n for n in range(30) if n % 3 == 1 and n % 7 and n / 2 > 3]


def test_the_error_for_rows_that_do_not_fit_lists_every_column_and_nothing_is_written(table: Table, tmp_path: Path) -> None:
    before = files_under(tmp_path)
    wrong = pa.table({"id": ["x"], "extra": [1], "value": [1.5]})
    with pytest.raises(SchemaMismatchError) as refused:
        table.append(wrong)
    text = str(refused.value)
    assert "id" in text
    assert "extra" in text
    assert files_under(tmp_path) == before
    with pytest.raises(SchemaMismatchError, match="id"):
        table.append(pa.table({"type": ["a"]}))


def test_the_error_for_a_filter_names_an_unknown_column_or_a_wrong_value(table: Table) -> None:
    with pytest.raises(InvalidFilterError, match="nosuch"):
        table.scan("nosuch = 1").to_arrow()
    with pytest.raises(InvalidFilterError, match="id"):
        table.delete("id = 'abc'")


def test_a_table_opened_by_its_metadata_file_reads_and_refuses_to_write(table: Table) -> None:
    table.append(rows(0, 10))
    static = StaticTable.from_metadata(table.metadata_location)
    assert ids(static) == list(range(10))
    for refused in (lambda: static.append(rows(0, 1)), static.delete, static.refresh, lambda: static.overwrite(rows(0, 1))):
        with pytest.raises(ReadOnlyTableError):
            refused()


def test_manifests_entries_and_files_of_a_snapshot_can_be_read(table: Table) -> None:
    table.append(rows(0, 40))
    snapshot = table.current_snapshot()
    assert snapshot is not None
    (manifest,) = snapshot.manifests(table.io)
    assert manifest.added_files_count == 2
    assert manifest.manifest_path.endswith("-m0.avro")
    assert manifest.sequence_number == 1
    entries = manifest.fetch_manifest_entry(table.io)
    assert [entry.status.name for entry in entries] == ["ADDED", "ADDED"]
    assert [entry.sequence_number for entry in entries] == [1, 1]
    file = entries[0].data_file
    assert file.value_counts is not None
    assert file.value_counts[1] == file.record_count
    assert file.lower_bounds is not None
    assert file.lower_bounds[1] == (0).to_bytes(8, "little")


def test_a_full_disk_during_a_write_leaves_the_table_unchanged_and_no_file(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.append(rows(0, 10))
    before, location = files_under(tmp_path), table.metadata_location
    original = type(table.io).write

    def full(self: object, where: str, content: bytes, **options: bool) -> None:
        if where.endswith("metadata.json"):
            raise StorageFullError("no space left", path=where)
        original(self, where, content, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(type(table.io), "write", full)
    with pytest.raises(StorageFullError):
        table.append(rows(10, 20))
    with pytest.raises(StorageFullError):
        table.delete("id < 5")
    monkeypatch.undo()
    assert files_under(tmp_path) == before
    assert table.refresh().metadata_location == location
    assert ids(table) == list(range(10))


def test_an_interrupt_before_the_compare_and_swap_leaves_no_file(table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table.append(rows(0, 10))
    before = files_under(tmp_path)
    original = type(table.io).write

    def interrupted(self: object, where: str, content: bytes, **options: bool) -> None:
        original(self, where, content, **options)  # type: ignore[arg-type]
        if "snap-" in where:
            raise KeyboardInterrupt

    monkeypatch.setattr(type(table.io), "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        table.append(rows(10, 20))
    monkeypatch.undo()
    assert files_under(tmp_path) == before
    assert ids(table.refresh()) == list(range(10))


operation = st.one_of(
    st.tuples(st.just("append"), st.integers(0, 40), st.integers(0, 40)),
    st.tuples(st.just("delete"), st.integers(0, 80), st.integers(0, 80)),
    st.tuples(st.just("overwrite"), st.integers(0, 60), st.integers(1, 10)),
)


@settings(max_examples=examples(15), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    operations=st.lists(operation, max_size=6),
    version=st.sampled_from(["1", "2"]),
    spec=st.sampled_from([(), ("month(at)",), ("type", "bucket(3, id)")]),
)
def test_any_sequence_of_operations_has_the_same_result_on_a_list(
    tmp_path_factory: pytest.TempPathFactory, operations: list[tuple[str, int, int]], version: str, spec: tuple[str, ...]
) -> None:
    catalog = lake(tmp_path_factory.mktemp("any"))
    table = catalog.create_table("db.t", SCHEMA, partition_spec=spec, properties={"format-version": version})
    expected: list[int] = []
    for kind, first, second in operations:
        if kind == "append":
            table.append(rows(first, first + second))
            expected += range(first, first + second)
        elif kind == "delete":
            low, high = sorted((first, second))
            table.delete(f"id >= {low} and id < {high}")
            expected = [n for n in expected if not low <= n < high]
        else:
            table.overwrite(rows(first, first + second), f"id > {first}")
            expected = [n for n in expected if not n > first] + list(range(first, first + second))
    loaded = catalog.load_table("db.t")
    assert ids(loaded) == sorted(expected)
    snapshot = loaded.current_snapshot()
    assert int(snapshot.summary["total-records"]) == len(expected) if snapshot else not expected


def test_count_and_limit_are_right_with_a_column_that_is_only_in_the_filter(table: Table) -> None:
    table.append(rows(0, 50))
    assert table.scan("value > 5 and type = 'a'").count() == sum(1 for n in range(50) if n % 7 and n / 2 > 5 and n % 3 == 0)
    with pytest.raises(InvalidInputError, match="limit"):
        table.scan(limit=-1).to_arrow()


def test_rows_are_sorted_by_the_sort_order_except_those_of_a_stream(tmp_path: Path) -> None:
    schema = Schema(NestedField(1, "n", LongType()))
    sorted_table = lake(tmp_path).create_table("db.s", schema, sort_order=SortOrder(SortField(source_id=1)))
    rows = pa.table({"n": pa.array([3, None, 1, 2], pa.int64())})
    sorted_table.append(rows)
    assert [task.file.sort_order_id for task in sorted_table.scan().plan_files()] == [1]
    assert sorted_table.scan().to_arrow()["n"].to_pylist() == [None, 1, 2, 3]
    sorted_table.overwrite(rows.to_reader())
    assert [task.file.sort_order_id for task in sorted_table.scan().plan_files()] == [0]
    assert sorted_table.scan().to_arrow()["n"].to_pylist() == [3, None, 1, 2]
