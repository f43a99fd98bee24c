"""Variants as bytes: what other implementations wrote is read, and what is written is read again; shredded ones are put together."""

import datetime as dt
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icefloe.datafile.variant import of_python, to_python
from icefloe.datafile.variant_shredding import unshredded
from icefloe.errors import FormatError, InvalidInputError, UnsupportedFeatureError

# Metadata and value in hex, as Spark wrote them (apache/parquet-testing, folder variant), and what they are.
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
def test_what_spark_wrote_is_read(metadata: str, value: str, expected: Any) -> None:
    assert to_python(bytes.fromhex(metadata), bytes.fromhex(value)) == expected


@given(_VALUES)
def test_a_value_comes_back_as_it_was(value: Any) -> None:
    assert to_python(*of_python(value)) == value


def test_large_objects_and_arrays_come_back_as_they_were() -> None:
    value = {f"name{number}": list(range(number)) for number in range(300)} | {"text": "x" * 70_000}
    assert to_python(*of_python(value)) == value


def test_nanoseconds_come_back_as_they_were() -> None:
    moment = np.datetime64("2024-11-07T12:33:54.123456789", "ns")
    assert to_python(*of_python(moment)) == moment


def test_the_names_of_an_object_stand_in_the_order_of_their_bytes() -> None:
    metadata, value = of_python({"\U00010000": 1, "\uffff": 2, "a": 3})
    assert metadata.endswith("a\uffff\U00010000".encode())
    assert value[2:5] == bytes([0, 1, 2])


@pytest.mark.parametrize("value", [object(), {1: 2}, 2**63, Decimal(10) ** 39])
def test_what_no_variant_can_hold_is_refused(value: Any) -> None:
    with pytest.raises(InvalidInputError):
        of_python(value)


@given(st.binary(max_size=20), st.binary(max_size=40))
def test_damaged_bytes_are_an_error_or_a_value(metadata: bytes, value: bytes) -> None:
    try:
        to_python(metadata, value)
    except (FormatError, InvalidInputError) as error:
        assert "variant" in str(error)  # noqa: PT017 - most bytes are no variant, some are


@given(_VALUES, st.data())
def test_a_damaged_variant_is_an_error_or_a_value(value: Any, data: st.DataObject) -> None:
    metadata, encoded = of_python(value)
    broken = bytearray(encoded)
    broken[data.draw(st.integers(0, len(broken) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        to_python(metadata, bytes(broken))
    except (FormatError, InvalidInputError) as error:
        assert "variant" in str(error)  # noqa: PT017 - not every damage can be seen


# ---- shredded ----

_MISSING = {"value": None, "typed_value": None}


def _shredded(rows: list[Any], typed: Any, names: tuple[str, ...] = ()) -> list[Any]:
    """Variants of rows of (encoded value, typed value); None for a null row. The metadata has these names in their order."""
    metadata, _ = of_python(dict.fromkeys(names, 0))
    kind = pa.struct([pa.field("metadata", pa.binary(), nullable=False), ("value", pa.binary()), ("typed_value", typed)])
    stored = [None if row is None else {"metadata": metadata, "value": row[0], "typed_value": row[1]} for row in rows]
    found = unshredded(pa.array(stored, kind)).to_pylist()
    return [None if row is None else to_python(row["metadata"], row["value"]) for row in found]


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (pa.bool_(), True, True),
        (pa.int8(), -3, -3),
        (pa.int16(), 300, 300),
        (pa.int32(), 5, 5),
        (pa.int64(), 2**40, 2**40),
        (pa.float32(), 0.5, 0.5),
        (pa.float64(), 0.1, 0.1),
        (pa.decimal128(9, 2), Decimal("1.20"), Decimal("1.20")),
        (pa.decimal128(18, 0), Decimal(7), Decimal(7)),
        (pa.decimal128(38, 37), Decimal("1." + "3" * 37), Decimal("1." + "3" * 37)),
        (pa.date32(), dt.date(1969, 1, 1), dt.date(1969, 1, 1)),
        (pa.time64("us"), dt.time(1, 2, 3, 4), dt.time(1, 2, 3, 4)),
        (pa.timestamp("us"), dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1)),
        (pa.timestamp("us", "UTC"), dt.datetime(2020, 1, 1, tzinfo=dt.UTC), dt.datetime(2020, 1, 1, tzinfo=dt.UTC)),
        (pa.timestamp("ns"), 1, np.datetime64(1, "ns")),
        (pa.string(), "x" * 70, "x" * 70),
        (pa.binary(), b"x", b"x"),
        (pa.binary(16), UUID(int=3).bytes, UUID(int=3)),
    ],
)
def test_a_typed_value_is_a_value_of_its_type(kind: Any, value: Any, expected: Any) -> None:
    other = of_python("other")[1]
    found = _shredded([(None, value), (other, None), (None, None), None], kind)
    assert found == [expected, "other", None, None]
    assert type(found[0]) is type(expected)


def test_an_object_s_fields_in_columns_join_those_in_its_value() -> None:
    part = pa.struct([("value", pa.binary()), ("typed_value", pa.int64())])
    typed = pa.struct([pa.field("a", part, nullable=False), pa.field("b", part, nullable=False)])
    only_c = bytes([2, 1, 2, 0, 2, 0x0C, 5])  # an object of the field with id 2, an int8
    rows = [
        (None, {"a": {"value": None, "typed_value": 1}, "b": _MISSING}),
        (None, {"a": _MISSING, "b": {"value": b"\x00", "typed_value": None}}),
        (None, {"a": _MISSING, "b": _MISSING}),
        (only_c, {"a": {"value": None, "typed_value": 1}, "b": _MISSING}),
        (of_python([1])[1], None),
        None,
    ]
    assert _shredded(rows, typed, ("a", "b", "c")) == [{"a": 1}, {"b": None}, {}, {"a": 1, "c": 5}, [1], None]


def test_an_array_s_elements_may_be_typed_or_not() -> None:
    element = pa.struct([("value", pa.binary()), ("typed_value", pa.string())])
    mixed = [{"value": None, "typed_value": "x"}, {"value": b"\x0c\x05", "typed_value": None}, {"value": b"\x00", "typed_value": None}]
    rows = [(None, mixed), (None, []), (of_python("text")[1], None), None]
    assert _shredded(rows, pa.list_(element)) == [["x", 5, None], [], "text", None]


_ONE = of_python(1)[1]
_ONLY_VALUE = pa.struct([("value", pa.binary())])


@pytest.mark.parametrize(
    ("row", "typed", "problem"),
    [
        ((_ONE, 2), pa.int64(), "both a value and a typed value"),
        ((_ONE, []), pa.list_(_ONLY_VALUE), "both a value and a typed value"),
        ((_ONE, {"a": {"value": None}}), pa.struct([("a", _ONLY_VALUE)]), "no object"),
        ((None, {"a": {"value": b"\x00"}}), pa.struct([("a", _ONLY_VALUE)]), "not in its metadata"),
    ],
)
def test_parts_that_contradict_each_other_are_refused(row: Any, typed: Any, problem: str) -> None:
    with pytest.raises(FormatError, match=problem):
        _shredded([row], typed)


@pytest.mark.parametrize("kind", [pa.uint32(), pa.binary(4), pa.time32("ms"), pa.timestamp("ms")])
def test_a_type_that_variants_lack_is_refused(kind: Any) -> None:
    with pytest.raises(UnsupportedFeatureError, match="shredded variant"):
        _shredded([(_ONE, None)], kind)
