"""Shapes as WKB and WKT: the forms of the standard, round trips of any shape, and damaged bytes and texts."""

import math
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.repetitions import examples

from icefloe.spec.wkb import Shape, check_wkb, shape_of_text, shape_of_wkb, text_of_wkb, wkb_of_text

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def shapes(draw: st.DrawFn, depth: int = 2, kind: int | None = None, dimensions: str | None = None) -> Shape:
    dims = draw(st.sampled_from(["", "Z", "M", "ZM"])) if dimensions is None else dimensions
    one = draw(st.integers(1, 7 if depth else 6)) if kind is None else kind
    point = st.tuples(*[NUMBERS] * (2 + len(dims)))
    points = st.lists(point, max_size=4).map(tuple)
    parts: Any
    if one == 1:
        parts = draw(st.lists(point, max_size=1).map(tuple))
    elif one == 2:
        parts = draw(points)
    elif one == 3:
        parts = draw(st.lists(points, max_size=3).map(tuple))
    else:
        inner = shapes(depth - 1, {4: 1, 5: 2, 6: 3, 7: None}[one], dims)
        parts = draw(st.lists(inner, max_size=3).map(tuple))
    return Shape(one, dims, parts)


@settings(max_examples=examples(200))
@given(shapes())
def test_any_shape_survives_text_and_bytes(shape: Shape) -> None:
    data = wkb_of_text(text_of_shape(shape))
    assert shape_of_wkb(data) == shape
    assert shape_of_text(text_of_wkb(data)) == shape
    assert shape_of_wkb(big_endian(shape)) == shape


def text_of_shape(shape: Shape) -> str:
    """Write WKT independently of the code under test: every number in full, every word in small letters."""
    names = ["", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geometrycollection"]

    def body(shape: Shape) -> str:
        if not shape.parts:
            return "empty"
        if shape.kind <= 2:
            return points(shape.parts)
        if shape.kind == 3:
            return f"( {' , '.join(points(ring) for ring in shape.parts)} )"
        return f"({','.join(text_of_shape(one) if shape.kind == 7 else body(one) for one in shape.parts)})"

    def points(found: Any) -> str:
        return f"({','.join(' '.join(f'{number:.17e}' for number in point) for point in found)})" if found else "EMPTY"

    return f"{names[shape.kind]}{shape.dimensions.lower()}  {body(shape)}"


def big_endian(shape: Shape) -> bytes:
    head = struct.pack(">BI", 0, shape.kind + {"": 0, "Z": 1000, "M": 2000, "ZM": 3000}[shape.dimensions])
    if shape.kind == 1:
        numbers = shape.parts[0] if shape.parts else (math.nan,) * (2 + len(shape.dimensions))
        return head + struct.pack(f">{len(numbers)}d", *numbers)
    head += struct.pack(">I", len(shape.parts))
    if shape.kind == 2:
        return head + b"".join(struct.pack(f">{len(point)}d", *point) for point in shape.parts)
    if shape.kind == 3:
        rings = (struct.pack(">I", len(ring)) + b"".join(struct.pack(f">{len(point)}d", *point) for point in ring) for ring in shape.parts)
        return head + b"".join(rings)
    return head + b"".join(map(big_endian, shape.parts))


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("POINT (30 10)", "01010000000000000000003e400000000000002440"),
        ("POINT Z (1 2 3)", "01e9030000000000000000f03f00000000000000400000000000000840"),
        ("POINT M (1 2 3)", "01d1070000000000000000f03f00000000000000400000000000000840"),
        ("POINT EMPTY", "0101000000000000000000f87f000000000000f87f"),
        ("LINESTRING (30 10, 10 30.5)", "0102000000020000000000000000003e40000000000000244000000000000024400000000000803e40"),
        (
            "MULTIPOINT ((1 2), EMPTY)",
            "0104000000020000000101000000000000000000f03f00000000000000400101000000000000000000f87f000000000000f87f",
        ),
        ("GEOMETRYCOLLECTION EMPTY", "010700000000000000"),
    ],
)
def test_bytes_and_texts_are_those_of_the_standard(text: str, data: str) -> None:
    assert wkb_of_text(text).hex() == data
    assert text_of_wkb(bytes.fromhex(data)) == text


def test_the_old_form_of_many_points_is_read() -> None:
    assert text_of_wkb(wkb_of_text("multipoint (10 40, 40 30)")) == "MULTIPOINT ((10 40), (40 30))"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "POINT",
        "POINT (1)",
        "POINT (1 2 3)",
        "POINT Z (1 2)",
        "POINT (1 2, 3 4)",
        "POINT (1 2) x",
        "CIRCLE (1 2)",
        "POINT (a b)",
        "POINT (1 2",
        "POLYGON (1 2, 3 4)",
        "GEOMETRYCOLLECTION (POINT Z (1 2 3))",
        "POINT (1 2); DROP TABLE",
        "GEOMETRYCOLLECTION (" * 2000,
    ],
)
def test_a_text_that_is_not_a_shape_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        shape_of_text(text)


@pytest.mark.parametrize(
    "data",
    [
        "",
        "02",
        "0101000000",
        "01010000000000000000003e40000000000000244000",  # a byte too many
        "0102000000ffffffff",  # more points than bytes
        "0101000020e61000000000000000003e400000000000002440",  # EWKB, with its SRID
        "0108000000",  # a circular string
        "010400000001000000010200000000000000",  # a line among points
        "0107000000010000" * 3,
        "010700000001000000" * 5000,
    ],
)
def test_bytes_that_are_not_a_shape_are_refused(data: str) -> None:
    with pytest.raises(ValueError):
        check_wkb(bytes.fromhex(data))


@settings(max_examples=examples(300))
@given(st.binary(max_size=60), shapes(), st.integers(0, 500), st.integers(0, 255))
def test_damaged_bytes_raise_only_value_error(data: bytes, shape: Shape, place: int, byte: int) -> None:
    damaged = bytearray(big_endian(shape))
    damaged[place % len(damaged)] = byte
    for found in (data, b"\x01\x07\x00\x00\x00" + data, bytes(damaged)):
        try:
            text_of_wkb(found)
        except ValueError:
            continue
