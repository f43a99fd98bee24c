"""Bounds of geometry and geography columns: two corners of the bounding box of all shapes of a column in a data file.

`wkb.py` parses shapes; `bounds.py` and `values.py` have the bounds of other types. Spec: Bounds for Geometry and Geography;
Appendix D, Bound serialization.
"""

import math
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from icefloe.errors import FormatError
from icefloe.spec.byte_columns import ByteSpans, rows_of_width, spans_of
from icefloe.spec.types import GeographyType, GeometryType, IcebergType
from icefloe.spec.wkb import LINE, POINT, POLYGON, Shape, is_wkb_head, shape_of_wkb

_MULTIPOINT = 4
# The greatest x and y of a geography, in degrees. Spec: CRS.
_MAX_DEGREES = (180.0, 90.0)


class GeospatialBound(NamedTuple):
    """The least or the greatest coordinates of a bounding box; z and m are None if no shape has them."""

    x: float
    y: float
    z: float | None = None
    m: float | None = None

    def __str__(self) -> str:
        coordinates = [f"{name}={value!r}" for name, value in zip("xyzm", self, strict=True) if value is not None]
        return f"({', '.join(coordinates)})"


def geospatial_bound_to_bytes(bound: GeospatialBound) -> bytes:
    """Serialize a bound as little-endian doubles: x, y, then z and m if they are known. If only m is known, z is NaN."""
    numbers = [bound.x, bound.y]
    if bound.m is not None:
        numbers += [math.nan if bound.z is None else bound.z, bound.m]
    elif bound.z is not None:
        numbers.append(bound.z)
    return struct.pack(f"<{len(numbers)}d", *numbers)


def geospatial_bound_from_bytes(data: bytes) -> GeospatialBound:
    """Return the bound of a geometry or geography column.

    Raises:
        FormatError: The bytes are not two, three or four doubles, or x or y is NaN.
    Spec: Appendix D, Bound serialization.
    """
    if len(data) not in (16, 24, 32):
        raise FormatError(
            f"{len(data)} bytes ({bytes(data[:40]).hex()}) cannot be the bound of a shape, which is x, y and optionally z and m, of 8 bytes each"
        )
    numbers = [None if math.isnan(number) else number for number in struct.unpack(f"<{len(data) // 8}d", data)]
    x, y, z, m = (*numbers, None, None)[:4]
    if x is None or y is None:
        raise FormatError(f"{bytes(data).hex()} cannot be the bound of a shape: x or y is NaN")
    return GeospatialBound(x, y, z, m)


def geo_bounds(kind: IcebergType, wkb: Any) -> tuple[GeospatialBound, GeospatialBound] | None:
    """Return the lower and the upper bound over all shapes of an Arrow binary array or chunked array.

    Nulls and NaN coordinates are ignored; z and m are left out if no shape has them. A geography has bounds only if all its shapes are points, because an edge
    between two points is curved, and may cross the date line.

    Returns:
        The lower and the upper bound; None if no bounds may be written, for example because there is no x or y.

    Raises:
        FormatError: A value is not a shape.
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
            raise FormatError(f"a value of a {kind} column is not a shape in WKB: {error}") from error
        if isinstance(kind, GeographyType) and shape.kind not in (POINT, _MULTIPOINT) and shape.parts:
            return None
        for dimensions, points in _points(shape):
            box.add(dimensions, points)
    bounds = box.bounds()
    if bounds is not None and isinstance(kind, GeographyType) and not _is_on_the_globe(bounds):
        return None
    return bounds


class _Box:
    """A collector of the least and the greatest value of each axis over the points that are added."""

    def __init__(self) -> None:
        self._low: dict[str, float] = {}
        self._high: dict[str, float] = {}

    def add(self, dimensions: str, points: Any) -> None:
        """Add points. Each row of `points` has the coordinates of one point, in the order of `dimensions`."""
        numbers = np.asarray(points, np.float64)
        for axis, column in zip(f"XY{dimensions}", numbers.T, strict=True):
            coordinates = column[~np.isnan(column)]
            if len(coordinates):
                self._low[axis] = min(self._low.get(axis, math.inf), float(coordinates.min()))
                self._high[axis] = max(self._high.get(axis, -math.inf), float(coordinates.max()))

    def bounds(self) -> tuple[GeospatialBound, GeospatialBound] | None:
        """Return the lower and the upper bound; None if there is no x or no y."""
        if not {"X", "Y"} <= self._low.keys():
            return None
        return _bound_of(self._low), _bound_of(self._high)


def _bound_of(numbers: dict[str, float]) -> GeospatialBound:
    return GeospatialBound(numbers["X"], numbers["Y"], numbers.get("Z"), numbers.get("M"))


def _is_on_the_globe(bounds: tuple[GeospatialBound, GeospatialBound]) -> bool:
    return all(-limit <= bound[axis] <= limit for bound in bounds for axis, limit in enumerate(_MAX_DEGREES))  # type: ignore[operator]


def _add_points(box: _Box, spans: ByteSpans) -> Any:
    """Add all little-endian points at once, since most columns have only these. Return a mask of the other values."""
    rest = spans.valid.copy()
    for dimensions, number in (("", 1), ("Z", 1001), ("M", 2001), ("ZM", 3001)):
        has_width, rows = rows_of_width(spans, 5 + 8 * (2 + len(dimensions)))
        heads = rows[:, :5]
        is_point = is_wkb_head(heads) & (heads[:, 0] == 1) & (heads[:, 1:].copy().view("<u4").ravel() == number)
        if is_point.any():
            box.add(dimensions, rows[is_point, 5:].copy().view("<f8"))
            positions = np.flatnonzero(has_width)[is_point]
            rest[positions] = False
    return rest


def _points(shape: Shape) -> Iterator[tuple[str, Sequence[tuple[float, ...]]]]:
    """Yield the points of a shape, and of the shapes in it, with their dimensions. Empty shapes yield nothing."""
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
