"""The box around the shapes of a column: its two corners as the bounds of a data file, both ways.

Shapes themselves are `wkb.py`; bounds of other types `bounds.py` and `values.py`. Spec: Bounds for Geometry and Geography;
Appendix D, Bound serialization.
"""

import math
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from icefloe.errors import FormatError
from icefloe.kernel.byte_columns import ByteSpans, rows_of_width, spans_of
from icefloe.kernel.types import GeographyType, GeometryType, IcebergType
from icefloe.kernel.wkb import LINE, POINT, POLYGON, Shape, is_wkb_head, shape_of_wkb

_MULTIPOINT = 4
# How far x and y of a geography may go, in degrees. Spec: CRS.
_FARTHEST = (180.0, 90.0)


class GeospatialBound(NamedTuple):
    """The least or the greatest coordinates of a box; z and m are None where no shape has them."""

    x: float
    y: float
    z: float | None = None
    m: float | None = None

    def __str__(self) -> str:
        told = [f"{name}={value!r}" for name, value in zip("xyzm", self, strict=True) if value is not None]
        return f"({', '.join(told)})"


def geospatial_bound_to_bytes(corner: GeospatialBound) -> bytes:
    """A corner as a bound holds it: x, y, then z and m where they are known, little endian; an unknown z before an m is NaN."""
    numbers = [corner.x, corner.y]
    if corner.m is not None:
        numbers += [math.nan if corner.z is None else corner.z, corner.m]
    elif corner.z is not None:
        numbers.append(corner.z)
    return struct.pack(f"<{len(numbers)}d", *numbers)


def geospatial_bound_from_bytes(data: bytes) -> GeospatialBound:
    """The corner that a bound of a geometry or geography column holds.

    Raises:
        FormatError: the bytes are not two, three or four doubles, or x or y is no number.
    Spec: Appendix D, Bound serialization.
    """
    if len(data) not in (16, 24, 32):
        raise FormatError(
            f"{len(data)} bytes ({bytes(data[:40]).hex()}) cannot be the bound of a shape: it is x and y, and at times z and m, of 8 bytes each"
        )
    numbers = [None if math.isnan(number) else number for number in struct.unpack(f"<{len(data) // 8}d", data)]
    x, y, z, m = (*numbers, None, None)[:4]
    if x is None or y is None:
        raise FormatError(f"{bytes(data).hex()} cannot be the bound of a shape: x or y is no number")
    return GeospatialBound(x, y, z, m)


def geo_bounds(kind: IcebergType, wkb: Any) -> tuple[GeospatialBound, GeospatialBound] | None:
    """The lower and upper corner of the box around every shape of an Arrow binary array or chunked array; None where no box may be written.

    Null, and NaN coordinates, add nothing; a z or m that no shape has is left out; without an x or a y there is no box. A geography has a box only where
    all its shapes are points: between two others the edge bends, and may run over the date line.

    Raises:
        FormatError: a value is not a shape.
    """
    if not isinstance(kind, GeometryType | GeographyType):
        return None
    spans = spans_of(wkb)
    box = _Box()
    rest = _add_points(box, spans)
    for position in np.flatnonzero(rest).tolist():
        start = int(spans.starts[position])
        data = spans.data[start : start + int(spans.lengths[position])].tobytes()
        try:
            shape = shape_of_wkb(data)
        except ValueError as error:
            raise FormatError(f"a value of a {kind} column is no shape in WKB: {error}") from error
        if isinstance(kind, GeographyType) and shape.kind not in (POINT, _MULTIPOINT) and shape.parts:
            return None
        for dimensions, points in _points(shape):
            box.add(dimensions, points)
    corners = box.corners()
    if corners is not None and isinstance(kind, GeographyType) and not _is_on_the_globe(corners):
        return None
    return corners


class _Box:
    """The least and greatest of each axis so far."""

    def __init__(self) -> None:
        self._low: dict[str, float] = {}
        self._high: dict[str, float] = {}

    def add(self, dimensions: str, points: Any) -> None:
        """Adds points, one a row of coordinates."""
        numbers = np.asarray(points, np.float64)
        for axis, column in zip(f"XY{dimensions}", numbers.T, strict=True):
            known = column[~np.isnan(column)]
            if len(known):
                self._low[axis] = min(self._low.get(axis, math.inf), float(known.min()))
                self._high[axis] = max(self._high.get(axis, -math.inf), float(known.max()))

    def corners(self) -> tuple[GeospatialBound, GeospatialBound] | None:
        if not {"X", "Y"} <= self._low.keys():
            return None
        return _corner(self._low), _corner(self._high)


def _corner(numbers: dict[str, float]) -> GeospatialBound:
    return GeospatialBound(numbers["X"], numbers["Y"], numbers.get("Z"), numbers.get("M"))


def _is_on_the_globe(corners: tuple[GeospatialBound, GeospatialBound]) -> bool:
    return all(-far <= corner[axis] <= far for corner in corners for axis, far in enumerate(_FARTHEST))  # type: ignore[operator]


def _add_points(box: _Box, spans: ByteSpans) -> Any:
    """Adds the points in little endian, all at once, since most columns hold nothing else; gives the mask of the other values."""
    rest = spans.valid.copy()
    for dimensions, number in (("", 1), ("Z", 1001), ("M", 2001), ("ZM", 3001)):
        chosen, rows = rows_of_width(spans, 5 + 8 * (2 + len(dimensions)))
        heads = rows[:, :5]
        is_point = is_wkb_head(heads) & (heads[:, 0] == 1) & (heads[:, 1:].copy().view("<u4").ravel() == number)
        if is_point.any():
            box.add(dimensions, rows[is_point, 5:].copy().view("<f8"))
            positions = np.flatnonzero(chosen)[is_point]
            rest[positions] = False
    return rest


def _points(shape: Shape) -> Iterator[tuple[str, Sequence[tuple[float, ...]]]]:
    """The points of a shape and of those in it, with their dimensions; nothing for empty ones."""
    if shape.kind in (POINT, LINE):
        parts: Iterable[Any] = (shape.parts,)
    elif shape.kind == POLYGON:
        parts = shape.parts
    else:
        for member in shape.parts:
            yield from _points(member)
        return
    for points in parts:
        if points:
            yield shape.dimensions, points
