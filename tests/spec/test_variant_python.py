"""Variants as Python values and as JSON: Spark's variants are decoded, encoded ones are decoded again, and damage is a FormatError."""

import datetime as dt
import json
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icefloe.errors import FormatError, InvalidInputError
from icefloe.spec.types import DoubleType
from icefloe.spec.variant import Scalar, variant_from_python, variant_to_json, variant_to_python

# Metadata and value in hex, as Spark wrote them (apache/parquet-testing, folder variant), and the Python value.
_WRITTEN_BY_SPARK = [
    (
        "010000",
        "954c657373207468616e2036342062797465732028e29da4efb88f2077697468207574663829",
        "Less than 64 bytes (\u2764\ufe0f with utf8)",
    ),
    ("010000", "2002d2040000", Decimal("12.34")),
    ("010000", "0c2a", 42),
    ("010000", "30e05297dde7320600", dt.datetime(2025, 4, 16, 16, 34, 56, 780000, tzinfo=dt.UTC)),
    ("010000", "50f24f9b6481fa49d1b74e8c09a6e31c56", UUID("f24f9b64-81fa-49d1-b74e-8c09a6e31c56")),
    (
        "010a0002090d1722262e333e466964737065636965736e616d65706f70756c6174696f6e6f62736572766174696f6e74696d656c6f636174696f6e76616c7565"
        "74656d706572617475726568756d6964697479",
        "0203000401001902460c0102020203000d10316c617661206d6f6e7374657210851a0203060507090018242131323a33343a353639496e2074686520566f6c63"
        "616e6f020209080200050c7b10c801",
        {
            "id": 1,
            "species": {"name": "lava monster", "population": 6789},
            "observation": {"time": "12:34:56", "location": "In the Volcano", "value": {"temperature": 123, "humidity": 456}},
        },
    ),
]

_PLAIN = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=80)
    | st.binary(max_size=10)
    | st.uuids()
    | st.dates()
    | st.times()
    | st.datetimes()
    | st.datetimes(timezones=st.just(dt.UTC))
    | st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**20), max_value=10**20)
)
_VALUES = st.recursive(
    _PLAIN, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4), max_leaves=20
)


@pytest.mark.parametrize(("metadata", "value", "expected"), _WRITTEN_BY_SPARK)
def test_a_variant_of_spark_is_decoded(metadata: str, value: str, expected: Any) -> None:
    assert variant_to_python(bytes.fromhex(metadata), bytes.fromhex(value)) == expected


@given(_VALUES)
def test_a_value_survives_encoding(value: Any) -> None:
    assert variant_to_python(*variant_from_python(value)) == value


def test_large_objects_and_arrays_survive_encoding() -> None:
    value = {f"name{number}": list(range(number)) for number in range(300)} | {"text": "x" * 70_000}
    assert variant_to_python(*variant_from_python(value)) == value


def test_nanoseconds_survive_encoding() -> None:
    moment = np.datetime64("2024-11-07T12:33:54.123456789", "ns")
    assert variant_to_python(*variant_from_python(moment)) == moment


def test_the_names_of_an_object_are_in_the_order_of_their_bytes() -> None:
    metadata, value = variant_from_python({"\U00010000": 1, "\uffff": 2, "a": 3})
    assert metadata.endswith("a\uffff\U00010000".encode())
    assert value[2:5] == bytes([0, 1, 2])


@pytest.mark.parametrize("value", [Decimal("9" * 38), Decimal("0." + "9" * 38), Decimal("-1E+37")])
def test_decimals_have_up_to_38_digits(value: Decimal) -> None:
    assert variant_to_python(*variant_from_python(value)) == value


@pytest.mark.parametrize("value", [object(), {1: 2}, 2**63, Decimal(10) ** 39, Decimal(10) ** 38])
def test_a_value_that_no_variant_can_hold_is_refused(value: Any) -> None:
    with pytest.raises(InvalidInputError):
        variant_from_python(value)


@given(st.binary(max_size=20), st.binary(max_size=40))
def test_damaged_bytes_are_an_error_or_a_value(metadata: bytes, value: bytes) -> None:
    try:
        variant_to_python(metadata, value)
    except (FormatError, InvalidInputError) as error:
        assert "variant" in str(error)  # noqa: PT017 - most bytes are no variant, some are


@given(_VALUES, st.data())
def test_a_damaged_variant_is_an_error_or_a_value(value: Any, data: st.DataObject) -> None:
    metadata, encoded = variant_from_python(value)
    broken = bytearray(encoded)
    broken[data.draw(st.integers(0, len(broken) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        variant_to_python(metadata, bytes(broken))
    except (FormatError, InvalidInputError) as error:
        assert "variant" in str(error)  # noqa: PT017 - not every damage can be seen


@given(_VALUES)
def test_any_value_has_a_form_in_json(value: Any) -> None:
    document = variant_to_json(*variant_from_python(value))
    assert json.loads(json.dumps(document, allow_nan=False)) == document


def test_numbers_that_json_lacks_are_text() -> None:
    value = {
        "amount": Decimal("14.20"),
        "at": dt.datetime(2025, 4, 16, 16, 34, 56, 780000, tzinfo=dt.UTC),
        "day": dt.date(1969, 12, 31),
        "id": UUID("f24f9b64-81fa-49d1-b74e-8c09a6e31c56"),
        "raw": b"\xff\x00",
        "nanos": np.datetime64("2024-11-07T12:33:54.123456789", "ns"),
        "none": [None, True, 1.5, Scalar(DoubleType(), float("nan")), float("-inf")],
    }
    assert variant_to_json(*variant_from_python(value)) == {
        "amount": "14.20",
        "at": "2025-04-16T16:34:56.78+00:00",
        "day": "1969-12-31",
        "id": "f24f9b64-81fa-49d1-b74e-8c09a6e31c56",
        "raw": "/wA=",
        "nanos": "2024-11-07T12:33:54.123456789",
        "none": [None, True, 1.5, "NaN", "-Infinity"],
    }
