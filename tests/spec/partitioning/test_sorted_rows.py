"""Rows in a sort order, compared with Python's stable sort."""

import functools
import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.repetitions import examples

from icefloe.spec.partitioning.sort_order import UNSORTED_SORT_ORDER, NullOrder, SortDirection, SortField, SortOrder, sorted_rows
from icefloe.spec.partitioning.transforms import BucketTransform, IdentityTransform, TruncateTransform, UnknownTransform
from icefloe.spec.schema.arrow_schema import schema_to_arrow
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import DecimalType, DoubleType, FixedType, FloatType, LongType, NestedField, StringType, StructType

SCHEMA = Schema(
    NestedField(1, "n", LongType()),
    NestedField(2, "s", StringType()),
    NestedField(3, "x", DoubleType()),
    NestedField(4, "f", FloatType()),
    NestedField(5, "d", DecimalType(4, 1)),
    NestedField(6, "p", StructType(NestedField(7, "b", FixedType(1)))),
)
FLOATS = st.sampled_from([0.0, -0.0, 1.5, -1.5, float("inf"), float("-inf"), float("nan"), struct.unpack("<d", b"\0\0\0\0\0\0\xf8\xff")[0]])
ROW = st.fixed_dictionaries(
    {
        "n": st.none() | st.integers(-3, 3),
        "s": st.none() | st.sampled_from(["", "a", "ab", "\ud7ff", "\U0010ffff"]),
        "x": st.none() | FLOATS,
        "f": st.none() | FLOATS,
        "d": st.none() | st.sampled_from([Decimal("-1.5"), Decimal("0.0"), Decimal("12.5")]),
        "p": st.none() | st.fixed_dictionaries({"b": st.none() | st.sampled_from([b"\x00", b"\x7f", b"\xff"])}),
    }
)
KEY = st.builds(
    SortField,
    source_id=st.sampled_from([1, 2, 3, 4, 5, 7]),
    direction=st.sampled_from(SortDirection),
    null_order=st.sampled_from(NullOrder),
)
PATHS = {1: ("n",), 2: ("s",), 3: ("x",), 4: ("f",), 5: ("d",), 7: ("p", "b")}


def bits(value: float) -> int:
    """Return the rank of a float in the format's order: by sign, then by magnitude, NaN outermost."""
    number = struct.unpack("<q", struct.pack("<d", value))[0]
    return int(number if number >= 0 else number ^ (2**63 - 1))


def value_of(row: dict[str, Any], key: SortField) -> Any:
    value: Any = row
    for name in PATHS[key.source_id]:
        value = None if value is None else value[name]
    return bits(value) if isinstance(value, float) else value


def before(keys: list[SortField], left: dict[str, Any], right: dict[str, Any]) -> int:
    for key in keys:
        a, b = value_of(left, key), value_of(right, key)
        if (a is None) != (b is None):
            return -1 if (a is None) == (key.null_order is NullOrder.NULLS_FIRST) else 1
        if a is not None and a != b:
            return -1 if (a < b) == (key.direction is SortDirection.ASC) else 1
    return 0


@settings(max_examples=examples(150))
@given(st.lists(ROW, max_size=30), st.lists(KEY, min_size=1, max_size=3))
def test_rows_are_in_the_order_of_python_s_sort(rows: list[dict[str, Any]], keys: list[SortField]) -> None:
    numbered = Schema(*SCHEMA.fields, NestedField(9, "place", LongType()))
    table = pa.Table.from_pylist([row | {"place": place} for place, row in enumerate(rows)], schema=schema_to_arrow(numbered))
    expected = sorted(range(len(rows)), key=functools.cmp_to_key(lambda a, b: before(keys, rows[a], rows[b])))
    ordered = sorted_rows(table, SortOrder(*keys), numbered)
    assert ordered["place"].to_pylist() == expected


def test_a_transform_sorts_by_its_results() -> None:
    table = pa.table({"n": pa.array([19, 3, 12, 1], pa.int64())})
    schema = SCHEMA.select("n")
    assert sorted_rows(table, SortOrder(SortField(1, TruncateTransform(10))), schema)["n"].to_pylist() == [3, 1, 19, 12]
    buckets = BucketTransform(4).apply_array(LongType(), table["n"]).to_pylist()
    by_bucket = [value for _, value in sorted(zip(buckets, table["n"].to_pylist(), strict=True), key=lambda pair: pair[0])]
    assert sorted_rows(table, SortOrder(SortField(1, BucketTransform(4))), schema)["n"].to_pylist() == by_bucket


def test_rows_in_an_order_that_cannot_be_computed_are_not_sorted() -> None:
    table, schema = pa.table({"n": pa.array([2, 1], pa.int64())}), SCHEMA.select("n")
    assert sorted_rows(table, UNSORTED_SORT_ORDER, schema) is None
    assert sorted_rows(table, SortOrder(SortField(99, IdentityTransform())), schema) is None
    assert sorted_rows(table, SortOrder(SortField(1, UnknownTransform("zorder"))), schema) is None
