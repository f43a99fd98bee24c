"""Hashes of whole columns, compared with the hashes of single serialized values."""

import struct
from decimal import Decimal
from typing import Any
from uuid import UUID

import mmh3
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.repetitions import examples

from icefloe.spec.distinct_values import column_hashes
from icefloe.spec.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    GeometryType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
)
from icefloe.spec.values import to_bytes, unscaled_value

I32, I64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
# The type, its Arrow type, physical values, and the conversion of a physical value for Arrow.
CASES: list[tuple[PrimitiveType, Any, st.SearchStrategy[Any], Any]] = [
    (BooleanType(), pa.bool_(), st.booleans(), None),
    (IntegerType(), pa.int32(), I32, None),
    (LongType(), pa.int64(), I64, None),
    (DateType(), pa.date32(), I32, None),
    (TimeType(), pa.time64("us"), st.integers(0, 86_399_999_999), None),
    (TimestampType(), pa.timestamp("us"), I64, None),
    (TimestamptzType(), pa.timestamp("us", "UTC"), I64, None),
    (TimestampNanoType(), pa.timestamp("ns"), I64, None),
    (TimestamptzNanoType(), pa.timestamp("ns", "UTC"), I64, None),
    (FloatType(), pa.float32(), st.floats(width=32, allow_nan=False), None),
    (DoubleType(), pa.float64(), st.floats(allow_nan=False), None),
    (DecimalType(9, 2), pa.decimal128(9, 2), st.integers(-(10**9) + 1, 10**9 - 1).map(lambda n: Decimal(n).scaleb(-2)), None),
    (DecimalType(38, 0), pa.decimal128(38, 0), st.sampled_from([-1, 0, 127, 128, -128, -129, 32767, 32768, 10**38 - 1]).map(Decimal), None),
    (StringType(), pa.string(), st.text(max_size=30), None),
    (BinaryType(), pa.binary(), st.binary(max_size=40), None),
    (GeometryType(), pa.binary(), st.binary(min_size=21, max_size=21), None),
    (FixedType(5), pa.binary(5), st.binary(min_size=5, max_size=5), None),
    (UUIDType(), pa.binary(16), st.uuids(), lambda value: value.bytes),
]


def expected(kind: PrimitiveType, values: list[Any]) -> set[int]:
    hashes = {to_bytes(kind, value) for value in values if value is not None}
    return {mmh3.hash64(data, 9001, signed=False)[0] >> 1 for data in hashes if data}


@pytest.mark.parametrize(("kind", "arrow", "values", "given_to_arrow"), CASES, ids=[str(case[0]) for case in CASES])
def test_a_column_has_the_hashes_of_its_values(
    kind: PrimitiveType, arrow: Any, values: st.SearchStrategy[Any], given_to_arrow: Any
) -> None:
    @settings(max_examples=examples(40))
    @given(st.lists(st.none() | values, max_size=30), st.booleans())
    def check(column: list[Any], sliced: bool) -> None:
        stored = [None if value is None else given_to_arrow(value) if given_to_arrow else value for value in column]
        array = pa.array(stored, arrow)
        if sliced and len(array) > 1:
            array, column = array[1:], column[1:]
        assert set(column_hashes(kind, array).tolist()) == expected(kind, column)
        assert set(column_hashes(kind, pa.chunked_array([array, array], arrow)).tolist()) == expected(kind, column)

    check()


def test_floats_are_distinct_by_their_bits() -> None:
    column = pa.array([0.0, -0.0, float("nan"), struct.unpack("<d", b"\x01\0\0\0\0\0\xf8\x7f")[0], None])
    assert len(set(column_hashes(DoubleType(), column).tolist())) == 4


def test_a_value_without_bytes_has_no_hash() -> None:
    assert not len(column_hashes(StringType(), pa.array(["", None])))
    assert not len(column_hashes(BinaryType(), pa.array([b""])))
    assert not len(column_hashes(UnknownType(), pa.nulls(3)))


def test_uuids_of_the_arrow_extension_type_are_hashed_by_their_bytes() -> None:
    value = UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")
    column = pa.array([value.bytes], pa.uuid())
    assert column_hashes(UUIDType(), column).tolist() == list(expected(UUIDType(), [value]))


def test_decimals_are_hashed_in_the_fewest_bytes() -> None:
    numbers = [
        n
        for width in range(1, 16)
        for n in (2 ** (8 * width - 1) - 1, 2 ** (8 * width - 1), -(2 ** (8 * width - 1)), -(2 ** (8 * width - 1)) - 1)
    ]
    values = [Decimal(n) for n in numbers if abs(n) < 10**38]
    assert unscaled_value(values[0], 0) == 127
    hashes = column_hashes(DecimalType(38, 0), pa.array(values, pa.decimal128(38, 0)))
    assert set(hashes.tolist()) == expected(DecimalType(38, 0), values)
    assert hashes.dtype == np.uint64
