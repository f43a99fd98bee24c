"""Conversion of shapes between well-known binary (WKB) and well-known text (WKT): points, lines, polygons and collections, with x, y and optionally z and m.

`geo_bounds.py` computes the bounds of a column of shapes. Spec: Appendix G, Geospatial Notes (ISO WKB, from Simple
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
# The number of bytes of the byte order and the kind.
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
# The kind of the shapes in a collection. A GEOMETRYCOLLECTION may contain shapes of any kind.
_MEMBERS = {4: POINT, 5: LINE, 6: POLYGON}
# The limit of collections inside collections. Shapes with deeper nesting are refused, because they could overflow the stack.
_MAX_NESTING = 32
# The number that is added to a kind for its dimensions. Spec: Simple Features, part 1, 8.2.3.
_DIMENSIONS = {"": 0, "Z": 1000, "M": 2000, "ZM": 3000}
_BY_THOUSAND = ("", "Z", "M", "ZM")
_TOKEN = re.compile(r"\s*(?:([A-Za-z]+)|([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|([(),]))\s*", re.ASCII)


class Shape(NamedTuple):
    """A shape. `dimensions` is "", "Z", "M" or "ZM".

    `parts` are the points (tuples of coordinates) of a point or line, the rings of a polygon, or the shapes of a collection. A point has one part, and an empty
    point has no parts.
    """

    kind: int
    dimensions: str
    parts: tuple[Any, ...]


def check_wkb(data: bytes) -> None:
    """Raise `ValueError` if the bytes are not a shape in ISO WKB."""
    shape_of_wkb(data)


def is_wkb_head(heads: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Return a mask of the rows that are a valid start of a shape. Each row has `WKB_HEAD` bytes, for the byte order and the kind."""
    little = heads[:, 0] == 1
    kinds = np.where(little, heads[:, 1:].copy().view("<u4").ravel(), heads[:, 1:].copy().view(">u4").ravel())
    return (heads[:, 0] <= 1) & (kinds // 1000 < len(_BY_THOUSAND)) & np.isin(kinds % 1000, list(_NAMES))


def shape_of_wkb(data: bytes) -> Shape:
    """Parse the WKB of a shape.

    Raises:
        ValueError: The bytes are not exactly one shape.
    """
    shape, end = _read(data, 0, 0)
    if end != len(data):
        raise ValueError(f"{len(data) - end} bytes follow the shape")
    return shape


def wkb_of_text(text: str) -> bytes:
    """Convert the WKT of a shape to WKB in little endian.

    Raises:
        ValueError: The text is not a shape.
    """
    return b"".join(_write(shape_of_text(text)))


def text_of_wkb(data: bytes) -> str:
    """Convert the WKB of a shape to WKT, such as `POINT Z (30 10 5)`.

    Raises:
        ValueError: As in `shape_of_wkb`.
    """
    return _text(shape_of_wkb(data))


def shape_of_text(text: str) -> Shape:
    """Parse the WKT of a shape.

    Raises:
        ValueError: The text is not exactly one shape.
    """
    tokens = _Tokens(text)
    shape = _parse(tokens, 0)
    if tokens.peek():
        raise ValueError(f"{tokens.peek()!r} follows the shape")
    return shape


# ---- WKB ----


def _read(data: bytes, at: int, depth: int) -> tuple[Shape, int]:
    if depth > _MAX_NESTING:
        raise ValueError(f"collections are nested more than {_MAX_NESTING} levels deep")
    if len(data) - at < 5 or data[at] > 1:
        raise ValueError("it is not WKB: a shape begins with its byte order, 0 or 1, and its kind")
    order = "<" if data[at] else ">"
    (number,) = struct.unpack_from(f"{order}I", data, at + 1)
    thousand, kind = divmod(number, 1000)
    if kind not in _NAMES or thousand > 3:
        raise ValueError(f"{number} is not a kind of shape in ISO WKB")
    dimensions = _BY_THOUSAND[thousand]
    at += 5
    width = 2 + len(dimensions)
    if kind == POINT:
        points, at = _read_points(data, at, 1, order, width)
        # In WKB, the coordinates of an empty point are NaN.
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
    """Read the number of parts, each of at least `least` bytes. A number that is too high for the remaining bytes is refused, before memory is allocated."""
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
    member_kind = _MEMBERS.get(kind, shape.kind)
    if shape.kind != member_kind or shape.dimensions != dimensions:
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
    """A cursor over the words, numbers and punctuation of a text. At the end of the text, the next token is ""."""

    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._at = 0

    def peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def next(self) -> str:
        token = self.peek()
        self._at += 1
        return token

    def accept(self, token: str) -> bool:
        is_next = self.peek().upper() == token
        self._at += is_next
        return is_next

    def expect(self, token: str) -> None:
        if not self.accept(token):
            raise ValueError(f"expected {token!r}, found {self.peek()!r}" if self.peek() else f"expected {token!r} at the end")


def _tokens(text: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ValueError(f"{text[at : at + 20]!r} is not part of a shape in WKT, such as POINT (30 10)")
        yield match[1] or match[2] or match[3]
        at = match.end()


def _parse(tokens: _Tokens, depth: int) -> Shape:
    if depth > _MAX_NESTING:
        raise ValueError(f"collections are nested more than {_MAX_NESTING} levels deep")
    word = tokens.next().upper()
    dimensions = next((ending for ending in ("ZM", "Z", "M") if word.removesuffix(ending) in _KINDS and word not in _KINDS), "")
    kind = _KINDS.get(word.removesuffix(dimensions))
    if kind is None:
        raise ValueError(f"{word!r} is not a kind of shape in WKT; use one of {', '.join(_KINDS)}")
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
            parts.append(Shape(POINT, dimensions, (_parse_point(tokens, 2 + len(dimensions)),)))  # the older form without parentheses
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
    coordinates = []
    while tokens.peek() not in (",", ")", ""):
        coordinates.append(float(tokens.next()))  # `float` also accepts the words `nan` and `inf`
    if len(coordinates) != width:
        raise ValueError(f"a point has {len(coordinates)} coordinates where {width} are expected")
    return tuple(coordinates)
