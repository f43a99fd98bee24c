"""Cells of values: in the order of the values for every type, with nulls first and NaN last."""

import datetime as dt
import decimal
import math
import uuid
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.repetitions import examples

from icefloe.errors import InvalidInputError
from icefloe.spec.partitioning.curve_cells import CurveOrder, cell_scale, cells_of, check_curve, in_curve_order
from icefloe.spec.partitioning.space_filling_curve import CurveName
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import DoubleType, GeometryType, IntegerType, ListType, LongType, NestedField, StringType, StructType

BITS = 31


def of_float(value: float) -> tuple[bool, float]:
    return (math.isnan(value), 0.0 if math.isnan(value) else value)


def of_text(value: str) -> bytes:
    return value.encode()


TYPES: dict[str, tuple[Any, Any, Callable[[Any], Any]]] = {
    "boolean": (pa.bool_(), st.booleans(), int),
    "int": (pa.int32(), st.integers(-(2**31), 2**31 - 1), int),
    "long": (pa.int64(), st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3), int),
    "float": (pa.float32(), st.floats(width=32), of_float),
    "double": (pa.float64(), st.floats() | st.sampled_from([0.0, -0.0, math.inf, -math.inf, math.nan]), of_float),
    "decimal": (pa.decimal128(38, 3), st.decimals(-(10**30), 10**30, places=3), decimal.Decimal),
    "date": (pa.date32(), st.dates(), lambda value: value),
    "time": (pa.time64("us"), st.times(), lambda value: value),
    "timestamp": (pa.timestamp("us"), st.datetimes(), lambda value: value),
    "timestamptz": (pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(dt.UTC)), lambda value: value),
    "string": (pa.string(), st.text() | st.text("ab").map("https://www.".__add__), of_text),
    "binary": (pa.binary(), st.binary(), bytes),
    "fixed": (pa.binary(3), st.binary(min_size=3, max_size=3), bytes),
    "uuid": (pa.uuid(), st.uuids(), lambda value: value.bytes),
}


@pytest.mark.parametrize("name", TYPES)
@settings(max_examples=examples(60))
@given(data=st.data())
def test_cells_have_the_order_of_their_values(name: str, data: st.DataObject) -> None:
    kind, values, key = TYPES[name]
    rows = data.draw(st.lists(values | st.none(), min_size=1, max_size=60))
    sample = data.draw(st.lists(st.sampled_from(rows), max_size=30))
    bits = data.draw(st.sampled_from([1, 2, 5, BITS]))
    scale = cell_scale(pa.array(sample, kind), bits, text_bytes=8)
    cells = cells_of(pa.array(rows, kind), scale, text_bytes=8).tolist()
    assert all(0 <= cell < 2**bits for cell in cells)
    known = sorted(((key(row), cell) for row, cell in zip(rows, cells, strict=True) if row is not None), key=lambda pair: pair[0])
    assert [cell for _, cell in known] == sorted(cell for _, cell in known)
    assert {cell for row, cell in zip(rows, cells, strict=True) if row is None} <= {0}


def test_the_least_floats_have_cells_in_their_order() -> None:
    values = pa.array([0.0, 5e-324, 2.225073858507e-311, 1e-309])
    scale = cell_scale(values, BITS, 8)
    assert all(math.isfinite(factor) for factor in scale.factors)
    cells = cells_of(values, scale, 8).tolist()
    assert cells == sorted(cells)


def test_values_far_off_and_common_beginnings_leave_the_other_values_apart() -> None:
    days = pa.array([*range(18_000, 18_365), 2_932_896], pa.int32()).cast(pa.date32())  # a year, and 9999-12-31
    links = pa.array([f"https://www.example.org/{number:06}" for number in range(0, 100_000, 997)])
    for column in (days, links):
        cells = cells_of(column, cell_scale(column, BITS, 8), 8)
        middle = cells[len(cells) // 2]
        assert 0.4 < middle / 2**BITS < 0.6
        assert len(set(cells.tolist())) == len(column)


def test_texts_that_lack_the_common_beginning_of_the_sample_are_before_or_after_it() -> None:
    scale = cell_scale(pa.array(["pre1", "pre9"]), BITS, 8)
    cells = cells_of(pa.array(["", "a", "pr", "pre5", "prf", "z"]), scale, 8).tolist()
    assert cells == sorted(cells)
    assert cells[2] < cells[3] < cells[4]


def test_fewer_bytes_of_a_text_count_if_an_order_has_fewer() -> None:
    texts = pa.array(["aa", "ab", "ba", "bb"])
    assert len(set(cells_of(texts, cell_scale(texts, BITS, 1), 1).tolist())) == 2


def test_a_table_is_ordered_along_the_curve_and_stays_whole() -> None:
    inner = StructType(NestedField(3, "y", DoubleType()))
    schema = Schema(NestedField(1, "x", LongType()), NestedField(2, "in", inner))
    numbers = np.random.default_rng(1)
    rows = [{"x": int(x), "in": {"y": float(y)}} for x, y in numbers.random((4096, 2)) * 1_000_000]
    table = pa.Table.from_pylist(rows, schema=pa.schema([("x", pa.int64()), ("in", pa.struct([("y", pa.float64())]))]))
    for name in CurveName:
        ordered = in_curve_order(table, CurveOrder(name, (1, 3)), schema).to_pylist()
        assert sorted(map(str, ordered)) == sorted(map(str, rows))
        quarter = ordered[:1024]
        assert max(row["x"] for row in quarter) < 600_000
        assert max(row["in"]["y"] for row in quarter) < 600_000
    assert in_curve_order(table.slice(0, 0), CurveOrder(CurveName.ZORDER, (1, 3)), schema).num_rows == 0


@pytest.mark.parametrize(
    ("ids", "reason"),
    [
        ((1,), "it takes 2 to 6"),
        ((1, 1), "twice"),
        ((1, 4), "has the type list"),
        ((1, 3), "has the type geometry"),
        (range(1, 8), "takes 2 to 6"),
    ],
)
def test_a_curve_refuses_columns_without_a_place_on_it(ids: tuple[int, ...], reason: str) -> None:
    kinds = [
        LongType(),
        StringType(),
        GeometryType(),
        ListType(element_id=20, element=IntegerType(), element_required=True),
        *[LongType()] * 3,
    ]
    schema = Schema(*(NestedField(number, f"c{number}", kind) for number, kind in enumerate(kinds, 1)))
    with pytest.raises(InvalidInputError, match=reason):
        check_curve(CurveOrder(CurveName.HILBERT, tuple(ids)), schema)


def test_uuids_are_ordered_by_their_bytes() -> None:
    ids = pa.array([uuid.UUID(int=number << 120) for number in (1, 127, 128, 255)], pa.uuid())
    assert len(set(cells_of(ids, cell_scale(ids, BITS, 8), 8).tolist())) == 4
