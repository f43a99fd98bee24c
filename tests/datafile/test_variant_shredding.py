"""Shredded variants, reassembled."""

import datetime as dt
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest

from icefloe.datafile.variant_shredding import unshred
from icefloe.errors import FormatError, UnsupportedFeatureError
from icefloe.spec.variant import variant_from_python, variant_to_python

_MISSING = {"value": None, "typed_value": None}


def _shredded(rows: list[Any], typed: Any, names: tuple[str, ...] = ()) -> list[Any]:
    """Return the variants of rows of (encoded value, typed value), None for a null row. The metadata has these names in their order."""
    metadata, _ = variant_from_python(dict.fromkeys(names, 0))
    kind = pa.struct([pa.field("metadata", pa.binary(), nullable=False), ("value", pa.binary()), ("typed_value", typed)])
    stored = [None if row is None else {"metadata": metadata, "value": row[0], "typed_value": row[1]} for row in rows]
    found = unshred(pa.array(stored, kind)).to_pylist()
    return [None if row is None else variant_to_python(row["metadata"], row["value"]) for row in found]


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
def test_a_typed_value_is_a_variant_of_its_type(kind: Any, value: Any, expected: Any) -> None:
    other = variant_from_python("other")[1]
    found = _shredded([(None, value), (other, None), (None, None), None], kind)
    assert found == [expected, "other", None, None]
    assert type(found[0]) is type(expected)


def test_shredded_fields_of_an_object_are_merged_with_those_in_its_value() -> None:
    part = pa.struct([("value", pa.binary()), ("typed_value", pa.int64())])
    typed = pa.struct([pa.field("a", part, nullable=False), pa.field("b", part, nullable=False)])
    only_c = bytes([2, 1, 2, 0, 2, 0x0C, 5])  # an object of the field with id 2, an int8
    rows = [
        (None, {"a": {"value": None, "typed_value": 1}, "b": _MISSING}),
        (None, {"a": _MISSING, "b": {"value": b"\x00", "typed_value": None}}),
        (None, {"a": _MISSING, "b": _MISSING}),
        (only_c, {"a": {"value": None, "typed_value": 1}, "b": _MISSING}),
        (variant_from_python([1])[1], None),
        None,
    ]
    assert _shredded(rows, typed, ("a", "b", "c")) == [{"a": 1}, {"b": None}, {}, {"a": 1, "c": 5}, [1], None]


def test_elements_of_an_array_may_be_shredded_or_not() -> None:
    element = pa.struct([("value", pa.binary()), ("typed_value", pa.string())])
    mixed = [{"value": None, "typed_value": "x"}, {"value": b"\x0c\x05", "typed_value": None}, {"value": b"\x00", "typed_value": None}]
    rows = [(None, mixed), (None, []), (variant_from_python("text")[1], None), None]
    assert _shredded(rows, pa.list_(element)) == [["x", 5, None], [], "text", None]


_ONE = variant_from_python(1)[1]
_ONLY_VALUE = pa.struct([("value", pa.binary())])


@pytest.mark.parametrize(
    ("row", "typed", "problem"),
    [
        ((_ONE, 2), pa.int64(), "both a value and a typed value"),
        ((_ONE, []), pa.list_(_ONLY_VALUE), "both a value and a typed value"),
        ((_ONE, {"a": {"value": None}}), pa.struct([("a", _ONLY_VALUE)]), "not an object"),
        ((None, {"a": {"value": b"\x00"}}), pa.struct([("a", _ONLY_VALUE)]), "not in its metadata"),
    ],
)
def test_contradictory_parts_of_a_variant_are_refused(row: Any, typed: Any, problem: str) -> None:
    with pytest.raises(FormatError, match=problem):
        _shredded([row], typed)


@pytest.mark.parametrize("kind", [pa.uint32(), pa.binary(4), pa.time32("ms"), pa.timestamp("ms")])
def test_a_type_that_variants_do_not_have_is_refused(kind: Any) -> None:
    with pytest.raises(UnsupportedFeatureError, match="shredded variant"):
        _shredded([(_ONE, None)], kind)
