"""Values of every primitive type in bytes, JSON, Arrow and Python, and the literals of users."""

import json
import math
import re
import struct
import uuid
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.repetitions import examples

from icefloe.errors import FormatError, InvalidInputError
from icefloe.spec.literals import INTEGER_RANGES
from icefloe.spec.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    GeographyType,
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
from icefloe.spec.values import (
    bounds_to_array,
    decimal_bytes,
    from_bytes,
    from_json_value,
    physical_array,
    physical_arrow_type,
    physical_list,
    to_bytes,
    to_human,
    to_json_value,
    to_physical,
    to_python,
)

NOON = datetime(2017, 11, 16, 22, 31, 8, 123456)
NOON_MICROS = 1510871468123456
POINT = struct.pack("<BIdd", 1, 1, 30, 10)
SOME_UUID = uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")

few = settings(max_examples=examples(60))


def physical_values(kind: PrimitiveType) -> st.SearchStrategy[object]:
    """Generate values of every primitive type, including the limits of its range."""
    if type(kind) in INTEGER_RANGES:
        if isinstance(kind, TimestampType | TimestamptzType):
            return st.integers(-62135596800000000, 253402300799999999)  # the years 1 to 9999, which text and Python can hold
        if isinstance(kind, DateType):
            return st.integers(-719162, 2932896)
        return st.integers(*INTEGER_RANGES[type(kind)])
    if isinstance(kind, DecimalType):
        return st.integers(-(10**kind.precision) + 1, 10**kind.precision - 1).map(lambda n: decimal(n, kind.scale))
    return {
        BooleanType: st.booleans(),
        FloatType: st.floats(width=32, allow_nan=False),
        DoubleType: st.floats(allow_nan=False),
        StringType: st.text(),
        UUIDType: st.uuids(),
        FixedType: st.binary(min_size=3, max_size=3),
        BinaryType: st.binary(),
    }[type(kind)]


def decimal(number: int, scale: int) -> Decimal:
    return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale))


KINDS = [
    BooleanType(),
    IntegerType(),
    LongType(),
    FloatType(),
    DoubleType(),
    DateType(),
    TimeType(),
    TimestampType(),
    TimestamptzType(),
    TimestampNanoType(),
    TimestamptzNanoType(),
    StringType(),
    UUIDType(),
    FixedType(3),
    BinaryType(),
    DecimalType(4, 2),
    DecimalType(18, 0),
    DecimalType(38, 10),
]
every_kind = pytest.mark.parametrize("kind", KINDS, ids=str)


# ---- bytes ----


@pytest.mark.parametrize(
    ("kind", "value", "data"),
    [
        (BooleanType(), False, "00"),
        (BooleanType(), True, "01"),
        (IntegerType(), 34, "22000000"),
        (IntegerType(), -1, "ffffffff"),
        (LongType(), 34, "2200000000000000"),
        (DateType(), -1, "ffffffff"),
        (TimeType(), 1, "0100000000000000"),
        (TimestampNanoType(), 1, "0100000000000000"),
        (TimestamptzNanoType(), -2, "feffffffffffffff"),
        (GeometryType(), POINT, "01010000000000000000003e400000000000002440"),
        (TimestampType(), -1, "ffffffffffffffff"),
        (FloatType(), 1.0, "0000803f"),
        (DoubleType(), 1.0, "000000000000f03f"),
        (DoubleType(), -0.0, "0000000000000080"),
        (DecimalType(4, 2), Decimal("14.20"), "058c"),
        (DecimalType(4, 2), Decimal("-0.01"), "ff"),
        (DecimalType(4, 2), Decimal("-1.28"), "80"),
        (DecimalType(4, 2), Decimal("1.28"), "0080"),
        (DecimalType(4, 2), Decimal("0.00"), "00"),
        (StringType(), "é", "c3a9"),
        (StringType(), "", ""),
        (UUIDType(), SOME_UUID, "f79c3e09677c4bbda4793f349cb785e7"),
        (FixedType(2), b"\x00\xff", "00ff"),
        (BinaryType(), b"", ""),
    ],
)
def test_bytes_are_those_of_the_spec(kind: PrimitiveType, value: object, data: str) -> None:
    assert to_bytes(kind, value).hex() == data
    assert from_bytes(kind, bytes.fromhex(data)) == value
    assert type(from_bytes(kind, bytes.fromhex(data))) is type(value)


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_a_float_without_a_form_in_json_is_not_written(value: float) -> None:
    with pytest.raises(InvalidInputError, match="no form in JSON"):
        to_json_value(DoubleType(), value)


@every_kind
def test_a_value_survives_bytes_json_and_arrow(kind: PrimitiveType) -> None:
    @few
    @given(st.lists(physical_values(kind), min_size=1, max_size=5))
    def check(values: list[object]) -> None:
        for value in values:
            assert_same(from_bytes(kind, to_bytes(kind, value)), value)
            if not isinstance(value, float) or math.isfinite(value):
                assert_same(from_json_value(kind, json.loads(json.dumps(to_json_value(kind, value)))), value)
            if not (isinstance(kind, TimestampNanoType | TimestamptzNanoType) and value % 1000):  # Python has no nanoseconds
                assert_same(to_physical(kind, to_python(kind, value)), value)
        with_null = [None, *values]
        array = physical_array(kind, with_null)
        assert array.type == physical_arrow_type(kind)
        assert_same(physical_list(kind, array), with_null)

    check()


def assert_same(actual: object, expected: object) -> None:
    assert actual == expected
    assert repr(actual) == repr(expected)  # distinguishes -0.0 from 0.0, and 1.0 from 1.00


def test_a_value_from_before_a_promotion_is_read() -> None:
    assert from_bytes(LongType(), struct.pack("<i", -5)) == -5
    assert from_bytes(DoubleType(), struct.pack("<f", 1.5)) == 1.5
    assert from_bytes(TimestampType(), struct.pack("<i", -5)) == -5 * 86_400 * 10**6
    assert from_bytes(TimestampNanoType(), struct.pack("<i", 17486)) == 17486 * 86_400 * 10**9
    assert from_bytes(DecimalType(20, 2), b"\xff") == Decimal("-0.01")
    assert from_bytes(DecimalType(4, 2), b"\x00" * 9 + b"\x01") == Decimal("0.01")


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (IntegerType(), b""),
        (IntegerType(), b"\0" * 8),
        (LongType(), b"\0" * 5),
        (FloatType(), b"\0" * 8),
        (BooleanType(), b""),
        (DecimalType(4, 2), b""),
        (UUIDType(), b"\0" * 15),
        (StringType(), b"\xff"),
        (TimestamptzType(), b"\0" * 4),  # no promotion leads to it
        (TimestampType(), struct.pack("<i", 2**31 - 1)),
        (TimestampNanoType(), struct.pack("<i", 110_000)),
        (UnknownType(), b""),
    ],
)
def test_bytes_of_a_wrong_length_are_refused(kind: PrimitiveType, data: bytes) -> None:
    with pytest.raises(FormatError):
        from_bytes(kind, data)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (IntegerType(), 2**31),
        (IntegerType(), None),
        (LongType(), "1"),
        (FloatType(), 1e39),
        (StringType(), 1),
        (StringType(), "\ud800"),
        (UUIDType(), "x"),
        (DecimalType(4, 2), Decimal("0.001")),
        (BinaryType(), 3.0),
        (UnknownType(), None),
    ],
)
def test_a_value_of_another_type_has_no_bytes(kind: PrimitiveType, value: object) -> None:
    with pytest.raises(InvalidInputError):
        to_bytes(kind, value)


@few
@given(st.integers(-(2**130), 2**130))
def test_decimal_bytes_are_the_fewest_that_hold_the_number(number: int) -> None:
    data = decimal_bytes(number)
    assert int.from_bytes(data, "big", signed=True) == number
    assert len(data) == 1 or int.from_bytes(data[1:], "big", signed=True) != number


# ---- JSON and text ----


@pytest.mark.parametrize(
    ("kind", "value", "in_json"),
    [
        (BooleanType(), True, True),
        (LongType(), -1, -1),
        (DoubleType(), 1.5, 1.5),
        (DecimalType(4, 2), Decimal("14.20"), "14.20"),
        (DecimalType(20, 10), Decimal("0E-10"), "0.0000000000"),
        (DateType(), 17486, "2017-11-16"),
        (TimeType(), 81068123456, "22:31:08.123456"),
        (TimestampType(), NOON_MICROS, "2017-11-16T22:31:08.123456"),
        (TimestamptzType(), NOON_MICROS, "2017-11-16T22:31:08.123456+00:00"),
        (TimestampType(), -1, "1969-12-31T23:59:59.999999"),
        (TimestampNanoType(), NOON_MICROS * 1000 + 789, "2017-11-16T22:31:08.123456789"),
        (TimestamptzNanoType(), NOON_MICROS * 1000 + 789, "2017-11-16T22:31:08.123456789+00:00"),
        (TimestampNanoType(), -1, "1969-12-31T23:59:59.999999999"),
        (TimestampNanoType(), 10**9, "1970-01-01T00:00:01"),
        (DateType(), 3700000, "+12100-04-04"),
        (DateType(), -719529, "-0001-12-31"),
        (GeometryType(), POINT, "POINT (30 10)"),
        (GeographyType(), POINT, "POINT (30 10)"),
        (UnknownType(), None, None),
        (StringType(), "a", "a"),
        (UUIDType(), SOME_UUID, str(SOME_UUID)),
        (FixedType(4), b"\x00\x01\x02\xff", "000102ff"),
        (BinaryType(), None, None),
    ],
)
def test_json_is_that_of_the_spec(kind: PrimitiveType, value: object, in_json: object) -> None:
    assert to_json_value(kind, value) == in_json
    assert from_json_value(kind, in_json) == value


@pytest.mark.parametrize(
    ("kind", "in_json"),
    [
        (LongType(), True),
        (LongType(), "1"),
        (LongType(), 1.0),
        (IntegerType(), 2**31),
        (BooleanType(), 1),
        (DateType(), 17486),
        (DateType(), "16.11.2017"),
        (DateType(), "2017-02-30"),
        (TimestampType(), "2017-11-16T22:31:08+00:00"),
        (FixedType(2), "00"),
        (BinaryType(), "0g"),
        (DecimalType(4, 2), 14.2),
        (DecimalType(4, 2), " 1.00 "),
        (TimestamptzType(), "2017-11-16T22:31:08"),
        (TimestamptzType(), "2017-11-16T22:31:08+01:00"),
        (TimestampType(), "2017-11-16 22:31:08"),
        (TimestampType(), "2017-11-16"),
        (TimestampType(), "2017-11-16T22:31:08.123456789"),
        (TimestampNanoType(), "1600-01-01T00:00:00"),
        (DoubleType(), 10**400),
        (DoubleType(), float("inf")),
        (UUIDType(), "{f79c3e09-677c-4bbd-a479-3f349cb785e7}"),
        (FixedType(2), "00 0"),
        (BinaryType(), "00 01"),
        (GeometryType(), "POINT (1)"),
        (GeometryType(), "0101"),
        (UnknownType(), "a"),
        (UnknownType(), 1),
    ],
)
def test_json_of_another_type_is_refused(kind: PrimitiveType, in_json: object) -> None:
    with pytest.raises(FormatError):
        from_json_value(kind, in_json)


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (LongType(), None, "null"),
        (BooleanType(), False, "false"),
        (DateType(), -1, "1969-12-31"),
        (TimestampType(), 0, "1970-01-01T00:00:00"),
        (TimestampType(), 500000, "1970-01-01T00:00:00.5"),
        (TimestamptzType(), 0, "1970-01-01T00:00:00+00:00"),
        (TimeType(), 0, "00:00:00"),
        (BinaryType(), b"\x00\x01\x02\x03", "AAECAw=="),
        (DecimalType(4, 2), Decimal("0.10"), "0.10"),
        (TimestampType(), 253402300800000000, "+10000-01-01T00:00:00"),  # the plus is Java's
    ],
)
def test_text_for_people_is_iso(kind: PrimitiveType, value: object, text: str) -> None:
    assert to_human(kind, value) == text


def test_python_values_are_of_pythons_classes() -> None:
    assert to_python(DateType(), -1) == date(1969, 12, 31)
    assert to_python(TimeType(), 81068123456) == time(22, 31, 8, 123456)
    assert to_python(TimestampType(), NOON_MICROS) == NOON
    assert to_python(TimestamptzType(), NOON_MICROS) == NOON.replace(tzinfo=UTC)
    assert to_python(TimestamptzType(), 0).tzinfo is UTC
    assert to_python(TimestampType(), None) is None


def test_a_time_that_python_cannot_represent_is_named_in_the_error() -> None:
    with pytest.raises(InvalidInputError, match="10000-01-01"):
        to_python(TimestampType(), 253402300800000000)


# ---- literals ----


@pytest.mark.parametrize(
    ("kind", "literal", "physical"),
    [
        (BooleanType(), "TRUE", True),
        (BooleanType(), np.bool_(False), False),
        (IntegerType(), "-12", -12),
        (IntegerType(), 3.0, 3),
        (LongType(), np.int16(7), 7),
        (LongType(), Decimal("5"), 5),
        (LongType(), 2**63 - 1, 2**63 - 1),
        (FloatType(), 0.1, struct.unpack("<f", struct.pack("<f", 0.1))[0]),
        (DoubleType(), "1e3", 1000.0),
        (DoubleType(), 5, 5.0),
        (DecimalType(4, 2), 14, Decimal("14.00")),
        (DecimalType(4, 2), 0.1, Decimal("0.10")),
        (DecimalType(4, 2), "1.500", Decimal("1.50")),
        (DecimalType(38, 0), "9" * 38, Decimal("9" * 38)),
        (DecimalType(4, 2), "-0", Decimal("0.00")),
        (DateType(), "2017-11-16", 17486),
        (DateType(), date(1969, 12, 31), -1),
        (DateType(), datetime(2017, 11, 16), 17486),
        (DateType(), np.datetime64("2017-11-16"), 17486),
        (TimeType(), "22:31", 81060000000),
        (TimeType(), time(0, 0, 0, 1), 1),
        (TimestampType(), "2017-11-16", 17486 * 86400 * 10**6),
        (TimestampType(), "2017-11-16 22:31:08.123456", NOON_MICROS),
        (TimestampType(), "2017-11-16T22:31:08.123456000", NOON_MICROS),
        (TimestampType(), NOON, NOON_MICROS),
        (TimestampType(), np.datetime64("2017-11-16T22:31:08.123456000"), NOON_MICROS),
        (TimestampType(), date(1970, 1, 2), 86400 * 10**6),
        (TimestampType(), datetime(1, 1, 1), -62135596800000000),
        (TimestampType(), 5, 5),
        (TimestamptzType(), "2017-11-16T22:31:08.123456", NOON_MICROS),
        (TimestamptzType(), "2017-11-16T23:31:08.123456+01:00", NOON_MICROS),
        (TimestamptzType(), "2017-11-16T17:01:08.123456-0530", NOON_MICROS),
        (TimestamptzType(), "2017-11-16T22:31:08.123456Z", NOON_MICROS),
        (TimestamptzType(), NOON, NOON_MICROS),
        (TimestamptzType(), (NOON + timedelta(hours=2)).replace(tzinfo=timezone(timedelta(hours=2))), NOON_MICROS),
        (StringType(), "x", "x"),
        (UUIDType(), str(SOME_UUID), SOME_UUID),
        (UUIDType(), SOME_UUID.bytes, SOME_UUID),
        (FixedType(2), bytearray(b"ab"), b"ab"),
        (BinaryType(), memoryview(b"ab"), b"ab"),
    ],
)
def test_a_literal_becomes_the_physical_value(kind: PrimitiveType, literal: object, physical: object) -> None:
    assert_same(to_physical(kind, literal), physical)


@pytest.mark.parametrize(
    ("kind", "literal"),
    [
        (LongType(), None),
        (LongType(), True),
        (LongType(), 1.5),
        (LongType(), float("nan")),
        (LongType(), float("inf")),
        (LongType(), "1.0"),
        (LongType(), "٣"),
        (LongType(), 2**63),
        (IntegerType(), -(2**31) - 1),
        (BooleanType(), 1),
        (BooleanType(), "yes"),
        (FloatType(), 1e39),
        (DoubleType(), "x"),
        (DecimalType(4, 2), "0.001"),
        (DecimalType(4, 2), 100),
        (DecimalType(4, 2), "1e1000"),
        (DecimalType(4, 2), float("nan")),
        (DateType(), "2017-11-16T00:00:00"),
        (DateType(), "20171116"),
        (DateType(), datetime(2017, 11, 16, 1)),
        (DateType(), 1.0),
        (TimeType(), "24:00"),
        (TimeType(), time(1, tzinfo=UTC)),
        (TimestampType(), "2017-11-16T22:31:08Z"),
        (TimestampType(), NOON.replace(tzinfo=UTC)),
        (TimestampType(), "2017-11-16T22:31:08.0000001"),
        (TimestampType(), np.datetime64("2017-11-16T22:31:08.000000001")),
        (TimestampType(), np.datetime64("NaT")),
        (TimestampType(), True),
        (TimestamptzType(), "2017-11-16T22:31:08+99:00"),
        (StringType(), 5),
        (StringType(), "\ud800"),
        (UUIDType(), "abc"),
        (UUIDType(), b"abc"),
        (FixedType(2), b"abc"),
        (BinaryType(), "abc"),
    ],
)
def test_a_literal_that_does_not_fit_is_refused_by_type(kind: PrimitiveType, literal: object) -> None:
    with pytest.raises(InvalidInputError, match=re.escape(str(kind))):
        to_physical(kind, literal)


# ---- bounds as arrays ----


@every_kind
def test_a_column_of_bounds_reads_like_its_single_bounds(kind: PrimitiveType) -> None:
    @few
    @given(st.lists(st.none() | physical_values(kind), max_size=8), st.booleans(), st.integers(0, 2))
    def check(values: list[object], large: bool, skipped: int) -> None:
        encoded = [None if value is None else to_bytes(kind, value) for value in values]
        column = pa.array(encoded, pa.large_binary() if large else pa.binary()).slice(skipped)
        bounds = bounds_to_array(kind, column)
        assert bounds.type == physical_arrow_type(kind)
        bounds.validate(full=True)
        assert physical_list(kind, bounds) == values[skipped:]

    check()


def test_bounds_from_before_a_promotion_are_read_with_new_ones() -> None:
    longs = bounds_to_array(LongType(), pa.array([struct.pack("<i", -5), struct.pack("<q", 2**40), None]))
    assert longs.to_pylist() == [-5, 2**40, None]
    doubles = bounds_to_array(DoubleType(), pa.array([struct.pack("<f", 1.5), struct.pack("<d", 0.1)]))
    assert doubles.to_pylist() == [1.5, 0.1]
    decimals = bounds_to_array(DecimalType(20, 2), pa.array([b"\xff", b"\x00" * 16, b"\x80\x00", b"\x00\x80"]))
    assert decimals.to_pylist() == [Decimal("-0.01"), Decimal("0.00"), Decimal("-327.68"), Decimal("1.28")]


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (IntegerType(), b"\0" * 8),
        (LongType(), b"\0\0"),
        (BooleanType(), b""),
        (DecimalType(4, 2), b""),
        (DecimalType(38, 2), b"\0" * 17),
        (UUIDType(), b"\0" * 15),
        (StringType(), b"a\xff"),
        (FloatType(), struct.pack("<f", float("nan"))),
        (DoubleType(), struct.pack("<d", float("nan"))),
    ],
)
def test_a_bound_that_cannot_be_read_is_unknown(kind: PrimitiveType, data: bytes) -> None:
    good = to_bytes(kind, {UUIDType: SOME_UUID, StringType: "a", DecimalType: Decimal("0.00")}.get(type(kind), 0))
    bounds = bounds_to_array(kind, pa.array([data, None, good]))
    assert [value.is_valid for value in bounds] == [False, False, True]


def test_bounds_in_chunks_and_columns_without_any_bound_are_read() -> None:
    chunked = pa.chunked_array([[b"\x01\0\0\0"], [], [None, b"\x02\0\0\0"]], pa.binary())
    assert bounds_to_array(IntegerType(), chunked).to_pylist() == [1, None, 2]
    assert bounds_to_array(DecimalType(4, 2), pa.array([], pa.binary())).to_pylist() == []
    assert bounds_to_array(DateType(), pa.nulls(2)).equals(pa.nulls(2, pa.int32()))
    assert bounds_to_array(DateType(), pa.nulls(2, pa.binary())).equals(pa.nulls(2, pa.int32()))
