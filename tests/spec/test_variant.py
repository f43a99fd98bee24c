"""Variants in their binary encoding, compared with PySpark's reader and writer; damaged bytes raise only FormatError."""

import datetime as dt
import json
import uuid
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.variant_utils import VariantUtils
from tests.repetitions import examples

from icefloe.errors import FormatError, InvalidInputError
from icefloe.spec.types import (
    BinaryType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    TimestampNanoType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)
from icefloe.spec.values import to_python
from icefloe.spec.variant import Scalar, bounds_from_bytes, bounds_to_bytes, decode, normalized_path, variant_from_python

NOON = dt.datetime(2017, 11, 16, 22, 31, 8, 123456)
# Values that PySpark reads too: it supports neither times, UUIDs nor nanoseconds.
SCALARS: st.SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=80)
    | st.binary(max_size=5)
    | st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**20), max_value=10**20, places=7)
    | st.dates()
    | st.datetimes()
    | st.datetimes(timezones=st.just(dt.UTC))
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4), max_leaves=25
)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=80),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=25,
)
few = settings(max_examples=examples(150))


def plain(value: Any) -> Any:
    """Return a decoded value as a Python value."""
    if isinstance(value, Scalar):
        return to_python(value.kind, value.value)
    if isinstance(value, dict):
        return {name: plain(inner) for name, inner in value.items()}
    return [plain(inner) for inner in value] if isinstance(value, list) else value


@few
@given(VALUES)
def test_an_encoded_value_is_decoded_here_and_by_pyspark(value: Any) -> None:
    metadata, encoded = variant_from_python(value)
    assert plain(decode(metadata, encoded)) == value
    assert VariantUtils.to_python(encoded, metadata) == value


@few
@given(JSON_VALUES)
def test_a_value_encoded_by_pyspark_is_decoded(value: Any) -> None:
    encoded, metadata = VariantUtils.parse_json(json.dumps(value))
    assert plain(decode(metadata, encoded)) == value


@pytest.mark.parametrize(
    "scalar",
    [
        Scalar(TimeType(), 81068123456),
        Scalar(UUIDType(), uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")),
        Scalar(TimestampNanoType(), -1),
        Scalar(TimestamptzNanoType(), 1510871468123456789),
        Scalar(FloatType(), 1.5),
        Scalar(DecimalType(38, 38), Decimal("0.1").scaleb(-37)),
    ],
)
def test_types_that_pyspark_does_not_read_survive(scalar: Scalar) -> None:
    decoded = decode(*variant_from_python({"a": [scalar]}))["a"][0]
    assert (decoded.kind, decoded.value) == (scalar.kind, scalar.value)


@pytest.mark.parametrize(
    ("value", "parts"),
    [
        (None, ("110000", "00")),
        (True, ("110000", "04")),
        (34, ("110000", "0c22")),
        (-129, ("110000", "107fff")),
        ("ice", ("110000", "0d696365")),
        (Decimal("14.20"), ("110000", "20028c050000")),
        ({"b": None, "a": False}, ("1102000102" + "6162", "0202" + "0001" + "000102" + "0800")),
        ([1, "a"], ("110000", "0302" + "000204" + "0c01" + "0561")),
    ],
)
def test_bytes_are_those_of_the_encoding(value: Any, parts: tuple[str, str]) -> None:
    metadata, encoded = variant_from_python(value)
    assert (metadata.hex(), encoded.hex()) == parts


def test_large_arrays_objects_and_offsets_are_wider() -> None:
    value = {f"{number:04d}": ["x" * 300] * 3 for number in range(300)}
    metadata, encoded = variant_from_python(value)
    assert plain(decode(metadata, encoded)) == value == VariantUtils.to_python(encoded, metadata)
    assert encoded[0] >> 6 & 1  # is_large of an object


@pytest.mark.parametrize("value", [object(), {1: 2}, 2**63, Decimal("NaN"), Decimal("1e39"), "\ud800", {"\ud800": 1}, [float], {1, 2}])
def test_a_value_that_a_variant_cannot_hold_is_refused(value: Any) -> None:
    with pytest.raises(InvalidInputError):
        variant_from_python(value)


def test_values_nested_too_deeply_are_refused() -> None:
    deep: list[Any] = []
    deep.append(deep)
    with pytest.raises(InvalidInputError, match="deeper"):
        variant_from_python(deep)


@settings(max_examples=examples(400))
@given(st.binary(max_size=20), st.binary(max_size=40), VALUES, st.integers(0, 200), st.integers(0, 255))
def test_damaged_bytes_are_a_format_error_or_a_value(metadata: bytes, encoded: bytes, value: Any, place: int, byte: int) -> None:
    good = variant_from_python(value)
    damaged = bytearray(good.value)
    damaged[place % len(damaged)] = byte
    for parts in ((metadata, encoded), (good.metadata, bytes(damaged)), (good.metadata, good.value[:-1]), (good.metadata[:-1], good.value)):
        try:
            decode(*parts)
        except FormatError:
            continue


def test_overlapping_values_are_refused_before_they_multiply() -> None:
    # An array of two elements, whose offsets both point to the array itself.
    ring = bytes((0x03, 2, 0, 0, 0)) * 40
    with pytest.raises(FormatError):
        decode(b"\x01\x00\x00", ring)


def test_bounds_are_read_by_path() -> None:
    bounds: dict[str, Scalar | bool] = {
        normalized_path(["event_type"]): Scalar(StringType(), "login"),
        normalized_path(["location", "latitude"]): Scalar(DoubleType(), 52.1),
        normalized_path([]): Scalar(LongType(), 2**40),
        normalized_path(["it's\\", "\n\x01"]): Scalar(BinaryType(), b"\x00"),
        normalized_path(["when"]): Scalar(TimestamptzType(), 5),
        "$['flag']": True,
    }
    assert list(bounds)[:4] == ["$['event_type']", "$['location']['latitude']", "$", r"$['it\'s\\']['\n\u0001']"]
    assert bounds_from_bytes(bounds_to_bytes(bounds)) == bounds
    assert bounds_from_bytes(bounds_to_bytes({"$['n']": Scalar(LongType(), 5)})) == {"$['n']": Scalar(IntegerType(), 5)}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x02\x00\x00\x00",
        b"".join(variant_from_python([1])),
        b"".join(variant_from_python({"$": [1]})),
        b"".join(variant_from_python({"$": None})),
    ],
)
def test_bounds_of_another_form_are_a_format_error(data: bytes) -> None:
    with pytest.raises(FormatError):
        bounds_from_bytes(data)
