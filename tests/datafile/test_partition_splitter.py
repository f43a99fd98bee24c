"""Rows split by partition: compared with one transform at a time, and at values where Python's equality is not the format's."""

import datetime as dt
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.datafile.tables import _VALUES, read, same, target, write
from tests.repetitions import examples

from icefloe.datafile import data_file_writer as write_module
from icefloe.datafile.data_file_writer import write_partition
from icefloe.datafile.partition_splitter import PartitionSplitter
from icefloe.spec.partitioning.partition_spec import PartitionField, PartitionSpec, partition_spec_from_text
from icefloe.spec.partitioning.transforms import VoidTransform
from icefloe.spec.schema.arrow_schema import schema_to_arrow
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import DateType, DecimalType, DoubleType, LongType, NestedField, StringType, StructType, TimestampType, UUIDType
from icefloe.spec.values import to_bytes, to_physical

EVENTS = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "type", StringType()),
    NestedField(3, "at", TimestampType()),
    NestedField(4, "day", DateType()),
    NestedField(5, "price", DecimalType(9, 2)),
    NestedField(6, "key", UUIDType()),
    NestedField(7, "place", StructType(NestedField(8, "lat", DoubleType()), NestedField(9, "town", StringType()))),
)
_MOMENTS = st.datetimes(dt.datetime(1969, 12, 30), dt.datetime(1970, 1, 3))
_ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.none() | st.integers(-5, 5),
            "type": st.none() | st.sampled_from(["a", "b/c", "Ünï", ""]),
            "at": st.none() | _MOMENTS,
            "day": st.none() | st.dates(dt.date(1969, 12, 30), dt.date(1970, 1, 3)),
            "price": st.none() | _VALUES[DecimalType(9, 2)],
            "key": st.none() | st.sampled_from([bytes(16), b"\xff" * 16]),
            "place": st.none()
            | st.fixed_dictionaries(
                {"lat": st.sampled_from([None, 0.0, -0.0, float("nan"), 1.5]), "town": st.sampled_from([None, "x", "y"])}
            ),
        }
    ),
    min_size=1,
    max_size=15,
)
_TEXTS = [
    "id",
    "bucket(4, id)",
    "truncate(2, id)",
    "type",
    "truncate(1, type)",
    "month(at)",
    "hour(at)",
    "day(day)",
    "price",
    "key",
    "place.town",
]


def _same_value(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return (math.isnan(left) and math.isnan(right)) or (left == right and math.copysign(1, left) == math.copysign(1, right))
    return bool(left == right)


def _partition_of(row: dict[str, Any], spec: PartitionSpec) -> tuple[Any, ...]:
    found = []
    for field in spec.fields:
        value: Any = row
        for name in EVENTS.path_of(field.source_id) or ():
            value = None if value is None else value[name]
        kind = EVENTS.find_type(field.source_id)
        found.append(field.transform.apply(kind, None if value is None else to_physical(kind, value)))
    return tuple(found)


@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.too_slow])
@given(_ROWS, st.lists(st.sampled_from(_TEXTS), min_size=1, max_size=3, unique=True))
def test_every_row_is_in_the_file_of_its_partition(rows: list[dict[str, Any]], texts: list[str]) -> None:
    # A column can have one partition field of time; which unit it has does not matter here.
    spec = partition_spec_from_text(EVENTS, [text for text in texts if text != "hour(at)" or "month(at)" not in texts])
    with tempfile.TemporaryDirectory() as folder:
        files = write(target(folder, EVENTS, spec), rows)
        found = 0
        for file in files:
            for row in read([file], EVENTS, specs=[spec]).to_pylist():
                found += 1
                assert all(map(_same_value, _partition_of(row, spec), file.partition)), (row, file.partition)
        assert found == len(rows)
        assert len({repr(file.partition) for file in files}) == len(files)


def test_nan_is_one_partition_and_the_two_zeros_are_different_ones(tmp_path) -> None:
    schema = Schema(NestedField(1, "x", DoubleType()), NestedField(2, "n", LongType()))
    spec = partition_spec_from_text(schema, ["x"])
    values = [float("nan"), 0.0, -0.0, float("nan"), None, -float("nan"), 0.0]
    batches = [pa.record_batch({"x": pa.array([value], pa.float64()), "n": pa.array([1])}) for value in values]
    files = write(target(tmp_path, schema, spec), pa.Table.from_batches(batches))
    assert sorted((repr(file.partition[0]), file.record_count) for file in files) == [("-0.0", 1), ("0.0", 2), ("None", 1), ("nan", 3)]


def test_a_partition_s_rows_stay_together_over_many_batches(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(write_module, "MAX_ROW_GROUP_ROWS", 10)
    schema = Schema(NestedField(1, "p", LongType()), NestedField(2, "n", LongType()))
    spec = partition_spec_from_text(schema, ["p"])
    table = pa.table({"p": pa.array([i % 3 for i in range(95)]), "n": pa.array(range(95))})
    files = write(target(tmp_path, schema, spec), table)
    assert len(files) == 3
    for file in files:
        rows = read([file], schema, specs=[spec]).to_pylist()
        assert [row["n"] for row in rows] == [n for n in range(95) if n % 3 == file.partition[0]]


def test_no_rows_are_lost_with_more_partitions_than_open_writers(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(write_module, "MAX_OPEN_FILES", 2)
    monkeypatch.setattr(write_module, "MAX_BUFFERED_BYTES", 100)
    schema = Schema(NestedField(1, "p", LongType()), NestedField(2, "n", LongType()))
    spec = partition_spec_from_text(schema, ["p"])
    table = pa.table({"p": pa.array([i % 7 for i in range(300)]), "n": pa.array(range(300))})
    files = write(target(tmp_path, schema, spec, write__parquet__row_group_size_bytes="400"), table)
    assert len({file.file_path for file in files}) == len(files) > 7
    assert sorted(row["n"] for row in read(files, schema, specs=[spec]).to_pylist()) == list(range(300))
    assert all({row["p"] for row in read([file], schema, specs=[spec]).to_pylist()} == set(file.partition) for file in files)


def test_a_few_rows_of_a_partition_do_not_keep_their_whole_batch_in_memory() -> None:
    table = pa.table({"p": pa.array([0] + [1] * 99_999), "n": pa.array(range(100_000))})
    splitter = write_module.PartitionSplitter(partition_spec_from_text(_PN, ["p"]), _PN)
    small = next(part for part in splitter.split(table) if part.values == (0,))
    assert small.rows.get_total_buffer_size() < 1000


_PN = Schema(NestedField(1, "p", LongType()), NestedField(2, "n", LongType()))


def test_the_folder_is_the_partition_path(tmp_path) -> None:
    spec = partition_spec_from_text(EVENTS, ["month(at)", "type"])
    (file,) = write(target(tmp_path, EVENTS, spec), [{"at": dt.datetime(2013, 1, 5), "type": "a b/c"}])
    assert file.file_path == f"{tmp_path}/data/at_month=2013-01/type=a+b%2Fc/00000-0-op-00001.parquet"
    assert pq.read_metadata(file.file_path).num_rows == 1


@pytest.mark.parametrize("source_id", [2, 99])
def test_a_spec_with_only_void_fields_has_a_null_for_each_field(tmp_path, source_id: int) -> None:
    spec = PartitionSpec(PartitionField(source_id, 1000, VoidTransform(), "gone"), spec_id=3)
    (file,) = write(target(tmp_path, _PN, spec), [{"p": 1, "n": 1}])
    assert (file.partition, file.spec_id) == ((None,), 3)
    assert file.file_path == f"{tmp_path}/data/00000-0-op-00001.parquet"


def test_a_void_field_beside_another_is_null_even_if_its_column_was_dropped(tmp_path) -> None:
    spec = PartitionSpec(PartitionField(99, 1000, VoidTransform(), "gone"), *partition_spec_from_text(_PN, ["p"]).fields, spec_id=3)
    files = write(target(tmp_path, _PN, spec), [{"p": 1, "n": 1}, {"p": 2, "n": 1}])
    assert sorted(file.partition for file in files) == [(None, 1), (None, 2)]


def test_rows_of_a_single_known_partition_are_not_transformed(tmp_path) -> None:
    spec = partition_spec_from_text(_PN, ["p"])
    rows = pa.table({"p": pa.array([5]), "n": pa.array([1])}, schema=schema_to_arrow(_PN))
    (file,) = write_partition(target(tmp_path, _PN, spec), rows.to_batches(), (6,), partition_id=1, task_id=2)
    assert file.partition == (6,)
    assert file.file_path.endswith("/p=6/00001-2-op-00001.parquet")
    assert same(read([file], _PN, specs=[spec]).to_pylist(), rows.to_pylist())


@pytest.mark.parametrize("max_bytes", [1, 200, 10**6])
@settings(max_examples=examples(20), suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(_ROWS, st.lists(st.sampled_from(_TEXTS), min_size=1, max_size=2, unique=True))
def test_sorted_partitions_have_the_rows_of_split_ones(max_bytes: int, rows: list[dict[str, Any]], texts: list[str]) -> None:
    spec = partition_spec_from_text(EVENTS, [text for text in texts if text != "hour(at)" or "month(at)" not in texts])
    splitter = PartitionSplitter(spec, EVENTS)
    table = pa.Table.from_pylist(rows, schema=schema_to_arrow(EVENTS))
    split = [(part.key, part.values, part.rows.to_pylist()) for part in splitter.split(table)]
    tables = list(splitter.sort(table, max_bytes))
    in_order = [(key, values, piece.rows.slice(start, count).to_pylist()) for piece in tables for key, values, start, count in piece.parts]
    assert same(in_order, split)
    assert splitter.count(table) == len(split)
    assert sum(piece.rows.num_rows for piece in tables) == len(rows)
    assert len(tables) == len(split) if max_bytes == 1 else len(tables) <= len(split)


@pytest.mark.parametrize("small_file_bytes", [-1, write_module.SMALL_FILE_BYTES], ids=["large", "small"])
def test_an_append_in_memory_has_one_file_for_each_partition(tmp_path, monkeypatch, small_file_bytes: int) -> None:
    monkeypatch.setattr(write_module, "SPLIT_ROWS", 50)
    monkeypatch.setattr(write_module, "SPLIT_BYTES", 400)
    monkeypatch.setattr(write_module, "SMALL_FILE_BYTES", small_file_bytes)
    rows = pa.table({"p": [number * 7 % 40 for number in range(200)], "n": range(200)}, schema=schema_to_arrow(_PN))
    spec = partition_spec_from_text(_PN, ["p"])
    files = write_module.write_sorted(target(tmp_path, _PN, spec), rows, partition_id=0, task_id=0)
    assert sorted(file.partition for file in files) == [(number,) for number in range(40)]
    for file in files:
        (part,) = file.partition
        numbers = [number for number in range(200) if number * 7 % 40 == part]
        assert read([file], _PN, specs=[spec]).to_pylist() == [{"p": part, "n": number} for number in numbers]
        assert (file.lower_bounds[2], file.upper_bounds[2]) == (to_bytes(LongType(), numbers[0]), to_bytes(LongType(), numbers[-1]))


@pytest.mark.slow
def test_a_task_with_1000_partitions_holds_only_the_buffered_rows_and_those_that_are_split(tmp_path: Path) -> None:
    child = Path(__file__).with_name("many_partitions_child.py")
    run = subprocess.run([sys.executable, str(child), str(tmp_path)], capture_output=True, text=True, check=False, timeout=120)
    assert run.returncode == 0, run.stderr
    measured = json.loads(run.stdout)
    assert (measured["rows"], measured["partitions"]) == (983_040, 1000)
    assert measured["arrow"] < write_module.MAX_BUFFERED_BYTES + 4 * write_module.SPLIT_BYTES
    assert measured["growth"] < 750 * 1024 * 1024  # with what allocators keep; the rows are 490 MB, of which splitting held 380 more before
