"""Shapes as well-known binary (WKB) and well-known text (WKT), both ways: points, lines, polygons and collections of them, with x, y and at times z and m.

Which boxes bound a column of them is `geo_bounds.py`. Spec: Appendix G, Geospatial Notes (ISO WKB, from Simple
Features 1.2.1).
"""

import math
import re
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

POINT, LINE, POLYGON = 1, 2, 3
# The byte order and the kind.
WKB_HEAD = 5
_NAMES = {
    POINT: "POINT",
    LINE: "LINESTRING",
    POLYGON: "POLYGON",
    4: "MULTIPOINT",
    5: "MULTILINESTRING",
    6: "MULTIPOLYGON",
    7: "GEOMETRYCOLLECTION",
}
_KINDS = {name: kind for kind, name in _NAMES.items()}
_COLLECTION = 7
# What the shapes in a collection are, but for a collection of any shapes.
_MEMBERS = {4: POINT, 5: LINE, 6: POLYGON}
# Collections may hold collections; deeper than this is no shape anyone drew, but an attack on the stack.
_DEEPEST = 32
# What Z and M add to the number of a kind. Spec: Simple Features, part 1, 8.2.3.
_DIMENSIONS = {"": 0, "Z": 1000, "M": 2000, "ZM": 3000}
_BY_THOUSAND = ("", "Z", "M", "ZM")
_TOKEN = re.compile(r"\s*(?:([A-Za-z]+)|([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|([(),]))\s*", re.ASCII)


class Shape(NamedTuple):
    """A shape: `dimensions` is "", "Z", "M" or "ZM".

    `parts` are the points (tuples of coordinates) of a point or line, the rings of a polygon, and the shapes of a collection; a point has one, or none.
    """

    kind: int
    dimensions: str
    parts: tuple[Any, ...]


def check_wkb(data: bytes) -> None:
    """Raises `ValueError` where the bytes are no shape in ISO WKB."""
    shape_of_wkb(data)


def is_wkb_head(heads: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Which rows of `WKB_HEAD` bytes are the byte order and the kind that a shape begins with."""
    little = heads[:, 0] == 1
    kinds = np.where(little, heads[:, 1:].copy().view("<u4").ravel(), heads[:, 1:].copy().view(">u4").ravel())
    return (heads[:, 0] <= 1) & (kinds // 1000 < len(_BY_THOUSAND)) & np.isin(kinds % 1000, list(_NAMES))


def shape_of_wkb(data: bytes) -> Shape:
    """The shape of its WKB. Raises `ValueError` where the bytes are none, or more than one."""
    shape, end = _read(data, 0, 0)
    if end != len(data):
        raise ValueError(f"{len(data) - end} bytes follow the shape")
    return shape


def wkb_of_text(text: str) -> bytes:
    """The WKB, little endian, of a shape's WKT. Raises `ValueError` where the text is no shape."""
    return b"".join(_write(shape_of_text(text)))


def text_of_wkb(data: bytes) -> str:
    """The WKT of a shape's WKB, such as `POINT Z (30 10 5)`. Raises `ValueError` as `shape_of_wkb`."""
    return _text(shape_of_wkb(data))


def shape_of_text(text: str) -> Shape:
    """The shape of its WKT. Raises `ValueError` where the text is none, or more than one."""
    tokens = _Tokens(text)
    shape = _parse(tokens, 0)
    if tokens.peek():
        raise ValueError(f"{tokens.peek()!r} follows the shape")
    return shape


# ---- WKB ----


def _read(data: bytes, at: int, depth: int) -> tuple[Shape, int]:
    if depth > _DEEPEST:
        raise ValueError(f"collections stand in each other more than {_DEEPEST} times")
    if len(data) - at < 5 or data[at] > 1:
        raise ValueError("it is no WKB: a shape begins with its byte order, 0 or 1, and its kind")
    order = "<" if data[at] else ">"
    (number,) = struct.unpack_from(f"{order}I", data, at + 1)
    thousand, kind = divmod(number, 1000)
    if kind not in _NAMES or thousand > 3:
        raise ValueError(f"{number} is no kind of shape in ISO WKB")
    dimensions = _BY_THOUSAND[thousand]
    at += 5
    width = 2 + len(dimensions)
    if kind == POINT:
        points, at = _read_points(data, at, 1, order, width)
        # An empty point has no other form in WKB than coordinates that are no numbers.
        empty = all(map(math.isnan, points[0]))
        return Shape(kind, dimensions, () if empty else points), at
    count, at = _read_count(data, at, order, 16 if kind == LINE else 4 if kind == POLYGON else 5)
    if kind == LINE:
        points, at = _read_points(data, at, count, order, width)
        return Shape(kind, dimensions, points), at
    parts: list[Any] = []
    for _ in range(count):
        if kind == POLYGON:
            length, at = _read_count(data, at, order, 16)
            part, at = _read_points(data, at, length, order, width)
            parts.append(part)
        else:
            shape, at = _read(data, at, depth + 1)
            _check_member(kind, dimensions, shape)
            parts.append(shape)
    return Shape(kind, dimensions, tuple(parts)), at


def _read_count(data: bytes, at: int, order: str, least: int) -> tuple[int, int]:
    """A count of parts of at least `least` bytes each; one that the bytes cannot hold is refused before anything is made of it."""
    if len(data) - at < 4:
        raise ValueError("the bytes end within the shape")
    (count,) = struct.unpack_from(f"{order}I", data, at)
    if count * least > len(data) - at - 4:
        raise ValueError("the bytes end within the shape")
    return count, at + 4


def _read_points(data: bytes, at: int, count: int, order: str, width: int) -> tuple[tuple[tuple[float, ...], ...], int]:
    end = at + 8 * width * count
    if end > len(data):
        raise ValueError("the bytes end within the shape")
    numbers = struct.unpack_from(f"{order}{width * count}d", data, at)
    return tuple(numbers[start : start + width] for start in range(0, len(numbers), width)), end


def _check_member(kind: int, dimensions: str, shape: Shape) -> None:
    wanted = _MEMBERS.get(kind, shape.kind)
    if shape.kind != wanted or shape.dimensions != dimensions:
        raise ValueError(f"a {_title(shape.kind, shape.dimensions)} cannot be part of a {_title(kind, dimensions)}")


def _write(shape: Shape) -> Iterator[bytes]:
    yield struct.pack("<BI", 1, shape.kind + _DIMENSIONS[shape.dimensions])
    if shape.kind == POINT:
        coordinates = shape.parts[0] if shape.parts else (float("nan"),) * (2 + len(shape.dimensions))
        yield struct.pack(f"<{len(coordinates)}d", *coordinates)
        return
    yield struct.pack("<I", len(shape.parts))
    if shape.kind == LINE:
        yield from (struct.pack(f"<{len(point)}d", *point) for point in shape.parts)
    elif shape.kind == POLYGON:
        for ring in shape.parts:
            yield struct.pack("<I", len(ring))
            yield from (struct.pack(f"<{len(point)}d", *point) for point in ring)
    else:
        for member in shape.parts:
            yield from _write(member)


# ---- WKT ----


def _title(kind: int, dimensions: str) -> str:
    return f"{_NAMES[kind]} {dimensions}".rstrip()


def _text(shape: Shape) -> str:
    return f"{_title(shape.kind, shape.dimensions)} {_body(shape)}"


def _body(shape: Shape) -> str:
    if not shape.parts:
        return "EMPTY"
    if shape.kind in (POINT, LINE):
        return _points_text(shape.parts)
    if shape.kind == POLYGON:
        return "(" + ", ".join(map(_points_text, shape.parts)) + ")"
    return "(" + ", ".join(map(_text if shape.kind == _COLLECTION else _body, shape.parts)) + ")"


def _points_text(points: tuple[tuple[float, ...], ...]) -> str:
    if not points:
        return "EMPTY"
    return "(" + ", ".join(" ".join(_number_text(coordinate) for coordinate in point) for point in points) + ")"


def _number_text(number: float) -> str:
    return repr(number).removesuffix(".0")


class _Tokens:
    """The words, numbers and signs of a text, one after the other; "" at its end."""

    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._at = 0

    def peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def next(self) -> str:
        found = self.peek()
        self._at += 1
        return found

    def accept(self, wanted: str) -> bool:
        found = self.peek().upper() == wanted
        self._at += found
        return found

    def expect(self, wanted: str) -> None:
        if not self.accept(wanted):
            raise ValueError(f"expected {wanted!r}, found {self.peek()!r}" if self.peek() else f"expected {wanted!r} at the end")


def _tokens(text: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise ValueError(f"{text[at : at + 20]!r} is no part of a shape in WKT, such as POINT (30 10)")
        yield found[1] or found[2] or found[3]
        at = found.end()


def _parse(tokens: _Tokens, depth: int) -> Shape:
    if depth > _DEEPEST:
        raise ValueError(f"collections stand in each other more than {_DEEPEST} times")
    word = tokens.next().upper()
    dimensions = next((ending for ending in ("ZM", "Z", "M") if word.removesuffix(ending) in _KINDS and word not in _KINDS), "")
    kind = _KINDS.get(word.removesuffix(dimensions))
    if kind is None:
        raise ValueError(f"{word!r} is no kind of shape in WKT; there are {', '.join(_KINDS)}")
    if not dimensions:
        dimensions = next((word for word in ("ZM", "Z", "M") if tokens.accept(word)), "")
    return _parse_body(tokens, kind, dimensions, depth)


def _parse_body(tokens: _Tokens, kind: int, dimensions: str, depth: int) -> Shape:
    if tokens.accept("EMPTY"):
        return Shape(kind, dimensions, ())
    if kind in (POINT, LINE):
        points = _parse_points(tokens, 2 + len(dimensions))
        if kind == POINT and len(points) != 1:
            raise ValueError(f"a point is one point, not {len(points)}")
        return Shape(kind, dimensions, points)
    tokens.expect("(")
    parts: list[Any] = []
    while not parts or tokens.accept(","):
        if kind == POLYGON:
            parts.append(() if tokens.accept("EMPTY") else _parse_points(tokens, 2 + len(dimensions)))
        elif kind == _COLLECTION:
            parts.append(_parse(tokens, depth + 1))
            _check_member(kind, dimensions, parts[-1])
        elif kind == _KINDS["MULTIPOINT"] and tokens.peek() not in ("(", "") and tokens.peek().upper() != "EMPTY":
            parts.append(Shape(POINT, dimensions, (_parse_point(tokens, 2 + len(dimensions)),)))  # the old form without brackets
        else:
            parts.append(_parse_body(tokens, _MEMBERS[kind], dimensions, depth + 1))
    tokens.expect(")")
    return Shape(kind, dimensions, tuple(parts))


def _parse_points(tokens: _Tokens, width: int) -> tuple[tuple[float, ...], ...]:
    tokens.expect("(")
    points = [_parse_point(tokens, width)]
    while tokens.accept(","):
        points.append(_parse_point(tokens, width))
    tokens.expect(")")
    return tuple(points)


def _parse_point(tokens: _Tokens, width: int) -> tuple[float, ...]:
    found = []
    while tokens.peek() not in (",", ")", ""):
        found.append(float(tokens.next()))  # `nan` and `inf` are words that float knows
    if len(found) != width:
        raise ValueError(f"a point has {len(found)} coordinates where {width} are expected")
    return tuple(found)
