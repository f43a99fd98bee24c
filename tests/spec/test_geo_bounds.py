"""Bounds of shapes, compared with every coordinate of every shape and with Parquet's statistics."""

import io
import math
import struct
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.repetitions import examples
from tests.spec.test_wkb import big_endian, shapes

from icefloe.errors import FormatError
from icefloe.spec.geo_bounds import GeospatialBound, geo_bounds, geospatial_bound_from_bytes, geospatial_bound_to_bytes
from icefloe.spec.types import BinaryType, GeographyType, GeometryType
from icefloe.spec.wkb import Shape, wkb_of_text


def points_of(shape: Shape) -> list[dict[str, float]]:
    if shape.kind <= 2:
        return [dict(zip("XY" + shape.dimensions, point, strict=True)) for point in shape.parts]
    if shape.kind == 3:
        return [dict(zip("XY" + shape.dimensions, point, strict=True)) for ring in shape.parts for point in ring]
    return [point for part in shape.parts for point in points_of(part)]


@settings(max_examples=examples(150))
@given(st.lists(st.none() | shapes(), max_size=6))
def test_the_bounds_enclose_every_coordinate_exactly(drawn: list[Shape | None]) -> None:
    array = pa.array([None if shape is None else big_endian(shape) for shape in drawn], pa.binary())
    points = [point for shape in drawn if shape is not None for point in points_of(shape)]
    axes = {axis: [point[axis] for point in points if axis in point] for axis in "XYZM"}
    expected = None
    if points:
        low, high = ({axis: pick(values) for axis, values in axes.items() if values} for pick in (min, max))
        expected = tuple(GeospatialBound(one["X"], one["Y"], one.get("Z"), one.get("M")) for one in (low, high))
    assert geo_bounds(GeometryType(), array) == expected


def wkb(*texts: str | None) -> Any:
    return pa.array([None if text is None else wkb_of_text(text) for text in texts], pa.binary())


def test_points_read_at_once_have_the_same_bounds() -> None:
    points = [f"POINT Z ({x} {-x} {x * 2})" for x in range(-5, 6)]
    expected = (GeospatialBound(-5, -5, -10), GeospatialBound(5, 5, 10))
    array = wkb(*points, None)
    assert geo_bounds(GeometryType(), array) == expected
    assert geo_bounds(GeometryType(), pa.chunked_array([array.slice(0, 3), array.slice(3)])) == expected
    assert geo_bounds(GeometryType(), array.cast(pa.large_binary())) == expected


def test_nan_is_ignored_and_without_x_or_y_there_are_no_bounds() -> None:
    assert geo_bounds(GeometryType(), wkb("POINT (1 nan)")) is None
    assert geo_bounds(GeometryType(), wkb("POINT (1 nan)", "POINT (0 5)")) == (GeospatialBound(0, 5), GeospatialBound(1, 5))
    assert geo_bounds(GeometryType(), wkb("POINT EMPTY", None)) is None
    assert geo_bounds(GeometryType(), wkb("POINT ZM (1 2 nan 4)")) == (GeospatialBound(1, 2, None, 4),) * 2
    assert geo_bounds(BinaryType(), wkb("POINT (1 2)")) is None


def test_a_geography_has_bounds_only_for_points_on_the_globe() -> None:
    kind = GeographyType()
    assert geo_bounds(kind, wkb("POINT (170 10)", "MULTIPOINT ((-170 5))")) == (GeospatialBound(-170, 5), GeospatialBound(170, 10))
    assert geo_bounds(kind, wkb("POINT (1 2)", "LINESTRING (170 10, -170 10)")) is None  # the edge crosses the date line, and bends
    assert geo_bounds(kind, wkb("POINT (181 0)")) is None
    assert geo_bounds(kind, wkb("POLYGON EMPTY", "POINT (1 2)")) == (GeospatialBound(1, 2),) * 2


def test_a_value_that_is_not_a_shape_is_a_format_error() -> None:
    with pytest.raises(FormatError, match="not a shape in WKB"):
        geo_bounds(GeometryType(), pa.array([b"\x01\x02"]))


@pytest.mark.parametrize(
    ("corner", "numbers"),
    [
        (GeospatialBound(1, 2), (1, 2)),
        (GeospatialBound(1, 2, 3), (1, 2, 3)),
        (GeospatialBound(1, 2, None, 4), (1, 2, math.nan, 4)),
        (GeospatialBound(1, 2, 3, 4), (1, 2, 3, 4)),
    ],
)
def test_the_bytes_of_bounds_are_those_of_the_spec(corner: GeospatialBound, numbers: tuple[float, ...]) -> None:
    data = struct.pack(f"<{len(numbers)}d", *numbers)
    assert geospatial_bound_to_bytes(corner) == data
    assert geospatial_bound_from_bytes(data) == corner


@pytest.mark.parametrize("data", [b"", b"\0" * 8, b"\0" * 17, b"\0" * 40, struct.pack("<dd", math.nan, 1)])
def test_bytes_that_are_not_a_bound_are_a_format_error(data: bytes) -> None:
    with pytest.raises(FormatError):
        geospatial_bound_from_bytes(data)


class Wkb(pa.ExtensionType):
    """Return an Arrow array that the Parquet writer stores as a GEOMETRY column."""

    def __init__(self) -> None:
        super().__init__(pa.binary(), "geoarrow.wkb")

    def __arrow_ext_serialize__(self) -> bytes:
        return b"{}"

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: Any, serialized: bytes) -> "Wkb":
        return cls()


def test_the_bounds_are_those_of_parquet_statistics() -> None:
    texts = [
        "LINESTRING Z (1 2 3, 4 5 6)",
        "POLYGON ((0 0, 9 0, 9 -7, 0 0))",
        "POINT M (2 3 8)",
        "GEOMETRYCOLLECTION (POINT (-1 1), POINT EMPTY)",
    ]
    array = wkb(*texts, None)
    pa.register_extension_type(Wkb())
    try:
        buffer = io.BytesIO()
        pq.write_table(pa.table({"g": pa.ExtensionArray.from_storage(Wkb(), array)}), buffer)
        arrow_statistics = pq.read_metadata(buffer).row_group(0).column(0).geo_statistics
    finally:
        pa.unregister_extension_type("geoarrow.wkb")
    expected = (
        GeospatialBound(arrow_statistics.xmin, arrow_statistics.ymin, arrow_statistics.zmin, arrow_statistics.mmin),
        GeospatialBound(arrow_statistics.xmax, arrow_statistics.ymax, arrow_statistics.zmax, arrow_statistics.mmax),
    )
    assert geo_bounds(GeometryType(), array) == expected
