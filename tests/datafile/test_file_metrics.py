"""Metrics of data files, compared with a full scan of the rows, and cases that the statistics of a Parquet footer do not cover."""

import datetime as dt
import math
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from tests.datafile.tables import tables, target, write
from tests.repetitions import examples

from icefloe.datafile import file_metrics as metrics_module
from icefloe.datafile.file_metrics import Leaf, leaves_of
from icefloe.errors import InvalidPropertyError
from icefloe.spec.partitioning.sort_order import SortField, SortOrder
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)
from icefloe.spec.values import from_bytes, to_bytes, to_physical


def _values_of(leaf: Leaf, rows: list[dict[str, Any]]) -> Iterator[Any]:
    for row in rows:
        value: Any = row
        for name in leaf.path:
            value = None if value is None else value[name]
        yield value if value is None else to_physical(leaf.kind, value)


def _sort_key(kind: PrimitiveType, value: Any) -> Any:
    if isinstance(kind, FloatType | DoubleType):
        return (value, math.copysign(1, value))
    if isinstance(kind, UUIDType):
        return value.bytes
    return value.encode() if isinstance(value, str) else value


@settings(max_examples=examples(50), suppress_health_check=[HealthCheck.too_slow])
@given(tables(rows=8))
def test_metrics_are_true_of_every_row(drawn: tuple[Schema, pa.Table]) -> None:
    schema, table = drawn
    with tempfile.TemporaryDirectory() as folder:
        (file,) = write(target(folder, schema), table)
    rows = table.to_pylist()
    for leaf in leaves_of(schema):
        assert file.column_sizes[leaf.field_id] > 0
        if leaf.repeated:
            assert leaf.field_id not in file.lower_bounds
            assert leaf.field_id not in file.upper_bounds
            continue
        values = list(_values_of(leaf, rows))
        present = [value for value in values if value is not None]
        nan = [value for value in present if isinstance(value, float) and math.isnan(value)]
        assert file.value_counts[leaf.field_id] == len(values)
        assert file.null_value_counts[leaf.field_id] == len(values) - len(present)
        assert file.nan_value_counts.get(leaf.field_id) == (len(nan) if isinstance(leaf.kind, FloatType | DoubleType) else None)
        ordered = sorted(
            (value for value in present if not (isinstance(value, float) and math.isnan(value))),
            key=lambda value: _sort_key(leaf.kind, value),
        )
        if not ordered:
            assert leaf.field_id not in file.lower_bounds
            continue
        low = _sort_key(leaf.kind, from_bytes(leaf.kind, file.lower_bounds[leaf.field_id]))
        assert low <= _sort_key(leaf.kind, ordered[0])
        if leaf.field_id in file.upper_bounds:
            assert _sort_key(leaf.kind, from_bytes(leaf.kind, file.upper_bounds[leaf.field_id])) >= _sort_key(leaf.kind, ordered[-1])


ONE = Schema(NestedField(1, "c", StringType()))


def _bounds(tmp_path: Any, kind: Any, values: list[Any], **properties: str) -> tuple[bytes | None, bytes | None]:
    schema = Schema(NestedField(1, "c", kind))
    (file,) = write(target(tmp_path, schema, **properties), [{"c": value} for value in values])
    return file.lower_bounds.get(1), file.upper_bounds.get(1)


@pytest.mark.parametrize(
    ("kind", "values", "low", "high"),
    [
        (BooleanType(), [True, False, None], b"\x00", b"\x01"),
        (IntegerType(), [-1, 3], b"\xff\xff\xff\xff", b"\x03\0\0\0"),
        (LongType(), [7], b"\x07" + bytes(7), b"\x07" + bytes(7)),
        (DateType(), [dt.date(1970, 1, 2)], b"\x01\0\0\0", b"\x01\0\0\0"),
        (TimeType(), [dt.time(0, 0, 0, 5)], b"\x05" + bytes(7), b"\x05" + bytes(7)),
        (TimestampType(), [dt.datetime(1969, 12, 31, 23, 59, 59, 999999)], b"\xff" * 8, b"\xff" * 8),
        (TimestamptzType(), [dt.datetime(1970, 1, 1, tzinfo=dt.UTC)], bytes(8), bytes(8)),
        (DecimalType(9, 2), [Decimal("14.20"), Decimal("-0.01")], b"\xff", b"\x05\x8c"),
        (DecimalType(18, 2), [Decimal("-1.28")], b"\x80", b"\x80"),
        (DecimalType(38, 2), [Decimal("1.28"), None], b"\x00\x80", b"\x00\x80"),
        (UUIDType(), [uuid.UUID(int=1).bytes, uuid.UUID(int=2**127).bytes], bytes(15) + b"\x01", b"\x80" + bytes(15)),
        (FixedType(2), [b"ab", b"\xff\x00"], b"ab", b"\xff\x00"),
        (BinaryType(), [b"", b"\xff" * 17], b"", None),
        (StringType(), ["abcdefghijklmnopq"], b"abcdefghijklmnop", b"abcdefghijklmnoq"),
        (StringType(), ["\U0010ffff" * 17], ("\U0010ffff" * 16).encode(), None),
        (DoubleType(), [float("nan")], None, None),
        (DoubleType(), [0.0], bytes(7) + b"\x80", bytes(8)),
        (FloatType(), [-0.0, float("nan"), None], bytes(3) + b"\x80", bytes(4)),
        (DoubleType(), [None, None], None, None),
    ],
)
def test_a_bound_has_the_single_value_serialization(tmp_path, kind: Any, values: list[Any], low: bytes | None, high: bytes | None) -> None:
    assert _bounds(tmp_path, kind, values) == (low, high)


@pytest.mark.parametrize(
    ("mode", "low", "high"),
    [("full", b"abcdefghijklmnopq", b"abcdefghijklmnopq"), ("truncate(3)", b"abc", b"abd"), ("counts", None, None), ("none", None, None)],
)
def test_the_metrics_mode_of_a_column_replaces_the_default(tmp_path, mode: str, low: bytes | None, high: bytes | None) -> None:
    where = target(tmp_path, ONE)
    where.properties["write.metadata.metrics.column.c"] = mode  # type: ignore[index]
    (file,) = write(where, [{"c": "abcdefghijklmnopq"}])
    assert (file.lower_bounds.get(1), file.upper_bounds.get(1)) == (low, high)
    assert file.value_counts == ({} if mode == "none" else {1: 1})
    assert set(file.column_sizes) == set(file.value_counts)


def test_an_unknown_metrics_mode_is_refused(tmp_path) -> None:
    with pytest.raises(InvalidPropertyError, match="metrics"):
        write(target(tmp_path, ONE, write__metadata__metrics__default="some"), [{"c": "a"}])


def test_only_the_first_hundred_columns_have_the_default_metrics_mode(tmp_path) -> None:
    wide = Schema(*(NestedField(i, f"c{i}", LongType()) for i in range(1, 104)))
    row = dict.fromkeys(wide.names, 1)
    (file,) = write(target(tmp_path / "a", wide), [row])
    assert sorted(file.value_counts) == list(range(1, 101))
    (file,) = write(target(tmp_path / "b", wide, write__metadata__metrics__default="counts"), [row])
    assert sorted(file.value_counts) == list(range(1, 104))


def test_in_a_wide_table_direct_fields_of_a_struct_have_metrics_before_nested_ones(tmp_path) -> None:
    inner = StructType(NestedField(10, "x", LongType()), NestedField(11, "y", LongType()))
    wide = Schema(NestedField(1, "s", inner), NestedField(2, "a", LongType()), NestedField(3, "b", LongType()))
    row = {"s": {"x": 1, "y": 1}, "a": 1, "b": 1}

    def counted(limit: int) -> list[int]:
        properties = {"write__metadata__metrics__max_inferred_column_defaults": str(limit)}
        (file,) = write(target(tmp_path / str(limit), wide, **properties), [row])
        return sorted(file.value_counts)

    assert [counted(limit) for limit in (1, 2, 3, 5)] == [[2], [2, 3], [2, 3, 10], [2, 3, 10, 11]]


@pytest.mark.parametrize("form", ["parquet", "orc", "avro"])
def test_sorted_columns_have_bounds_unless_a_metrics_mode_is_set_for_them(tmp_path, form: str) -> None:
    schema = Schema(NestedField(1, "a", LongType()), NestedField(2, "b", LongType()), NestedField(3, "c", LongType()))
    order = SortOrder(SortField(source_id=1), SortField(source_id=2), order_id=1)
    properties = {
        "write__metadata__metrics__default": "counts",
        "write__metadata__metrics__column__b": "none",
        "write__format__default": form,
    }
    # A property for a column that does not exist is ignored.
    properties["write__metadata__metrics__column__gone"] = "full"
    (file,) = write(replace(target(tmp_path, schema, **properties), sort_order=order), [{"a": 1, "b": 1, "c": 1}])
    assert (sorted(file.value_counts), sorted(file.lower_bounds)) == ([1, 3], [1])


@pytest.mark.parametrize("kind", [StringType(), BinaryType()])
def test_values_too_long_for_footer_statistics_have_bounds(tmp_path, kind: Any) -> None:
    texts = ["b" * 5000, "m", "z" * 4097]
    values = texts if isinstance(kind, StringType) else [text.encode() for text in texts]
    assert _bounds(tmp_path, kind, values) == (b"b" * 16, b"z" * 15 + b"{")
    (file,) = (tmp_path / "data").iterdir()
    assert not pq.ParquetFile(file).metadata.row_group(0).column(0).statistics.has_min_max


def test_a_row_group_without_known_extremes_leaves_the_file_without_bounds(tmp_path, monkeypatch) -> None:
    # As if a footer omitted more than expected: the extremes of the other row groups must not become bounds of the file.
    monkeypatch.setattr(metrics_module, "MAX_FOOTER_STATISTIC_BYTES", 10**9)
    values = ["c" * 6000, "d", "b" * 6000]
    assert _bounds(tmp_path, StringType(), values, write__parquet__row_group_size_bytes="1") == (None, None)


def test_bounds_include_long_values_in_one_of_several_row_groups(tmp_path) -> None:
    values = ["c" * 6000] + ["d" * 30] * 2000 + ["b" * 6000]
    low, high = _bounds(tmp_path, StringType(), values, write__parquet__row_group_size_bytes="20000")
    assert (low, high) == (b"b" * 16, b"d" * 15 + b"e")


def test_split_offsets_are_the_starts_of_row_groups(tmp_path) -> None:
    schema = Schema(NestedField(1, "c", LongType()))
    rows = pa.table({"c": pa.array(range(20_000))})
    (file,) = write(target(tmp_path, schema, write__parquet__row_group_size_bytes="40000"), rows)
    assert file.split_offsets[0] == 4
    assert list(file.split_offsets) == sorted(set(file.split_offsets))
    assert len(file.split_offsets) == pq.ParquetFile(file.file_path).num_row_groups


def test_leaves_in_lists_and_maps_have_counts_but_no_bounds(tmp_path) -> None:
    schema = Schema(
        NestedField(1, "l", ListType(element_id=2, element=DoubleType())),
        NestedField(3, "m", MapType(key_id=4, key_type=StringType(), value_id=5, value_type=LongType())),
        NestedField(6, "s", StructType(NestedField(7, "x", DoubleType()))),
    )
    (file,) = write(
        target(tmp_path, schema), [{"l": [1.0, 2.0], "m": [("a", 1)], "s": {"x": float("nan")}}, {"l": [], "m": None, "s": None}]
    )
    assert file.value_counts == {2: 3, 4: 2, 5: 2, 7: 2}
    assert file.null_value_counts[7] == 1
    assert file.nan_value_counts == {7: 1}
    assert file.lower_bounds == {}


@pytest.mark.parametrize("form", ["parquet", "orc", "avro"])
def test_bounds_of_decimals_have_every_digit(tmp_path, form: str) -> None:
    schema = Schema(NestedField(1, "d", DecimalType(38, 2)))
    values = [Decimal("-" + "9" * 36 + ".98"), Decimal("1" * 36 + ".01")]
    (file,) = write(target(tmp_path, schema, write__format__default=form), [{"d": value} for value in values])
    assert file.lower_bounds == {1: to_bytes(DecimalType(38, 2), values[0])}
    assert file.upper_bounds == {1: to_bytes(DecimalType(38, 2), values[1])}
