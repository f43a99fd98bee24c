"""Variants and shapes in Arrow: names of their extension types here and in other programs, and rows of them."""

import json
from typing import Any

import pyarrow as pa
import pytest

from icefloe.errors import SchemaMismatchError, UnsupportedTypeError
from icefloe.spec.schema.arrow_schema import schema_from_arrow, schema_to_arrow
from icefloe.spec.schema.schema import Schema
from icefloe.spec.schema.schema_cast import cast_to_schema
from icefloe.spec.types import (
    BinaryType,
    DateType,
    GeographyType,
    GeometryType,
    IcebergType,
    LongType,
    NestedField,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    UnknownType,
    VariantType,
)
from icefloe.spec.variant import variant_from_python
from icefloe.spec.wkb import wkb_of_text

STORAGE = pa.struct([("metadata", pa.binary()), ("value", pa.binary())])
POINT = wkb_of_text("POINT (1 2)")


def named(kind: pa.DataType, name: str, parameters: bytes = b"") -> pa.Field:
    return pa.field("a", kind, metadata={"ARROW:extension:name": name, "ARROW:extension:metadata": parameters})


def told(field: pa.Field) -> IcebergType:
    return schema_from_arrow(pa.schema([field]), keep_ids=False).find_type("a")


def one_column(kind: IcebergType, *, required: bool = False) -> Schema:
    return Schema(NestedField(1, "a", kind, required))


@pytest.mark.parametrize(
    ("parameters", "kind"),
    [
        ({}, GeometryType("srid:0")),
        ({"crs": None, "edges": "planar"}, GeometryType("srid:0")),
        ({"crs": "OGC:CRS84", "crs_type": "authority_code"}, GeometryType()),
        ({"crs": "EPSG:3857"}, GeometryType("EPSG:3857")),
        ({"crs": {"id": {"authority": "EPSG", "code": 4326}, "name": "WGS 84"}}, GeometryType("EPSG:4326")),
        ({"crs": json.dumps({"id": {"authority": "OGC", "code": "CRS84"}})}, GeometryType()),
        ({"crs": "OGC:CRS84", "edges": "spherical"}, GeographyType()),
        ({"crs": "srid:4326", "edges": "karney"}, GeographyType("srid:4326", "karney")),
    ],
)
def test_shapes_of_geoarrow_are_read(parameters: dict[str, Any], kind: IcebergType) -> None:
    assert told(named(pa.binary(), "geoarrow.wkb", json.dumps(parameters).encode())) == kind
    assert told(named(pa.large_binary(), "geoarrow.wkb", json.dumps(parameters).encode())) == kind


@pytest.mark.parametrize(
    ("field", "why"),
    [
        (named(pa.string(), "geoarrow.wkb"), "not WKB"),
        (named(pa.binary(), "geoarrow.wkb", b"[]"), "not a JSON object"),
        (named(pa.binary(), "geoarrow.wkb", b"{"), "not a JSON object"),
        (named(pa.binary(), "geoarrow.wkb", b'{"crs": {"name": "mine"}}'), "PROJJSON without an id"),
        (named(pa.binary(), "geoarrow.wkb", b'{"edges": "bent"}'), "not an edge algorithm"),
        (named(pa.binary(), "arrow.parquet.variant"), "struct of the binary fields"),
        (named(pa.struct([*STORAGE, ("typed_value", pa.int64())]), "arrow.parquet.variant"), "shredded"),
    ],
)
def test_an_incomplete_extension_type_is_refused(field: pa.Field, why: str) -> None:
    with pytest.raises(UnsupportedTypeError, match=why):
        told(field)


def test_only_the_extension_type_makes_a_struct_a_variant() -> None:
    for name in ("arrow.parquet.variant", "parquet.variant"):
        assert told(named(STORAGE, name)) == VariantType()
    assert isinstance(told(pa.field("a", STORAGE)), StructType)
    written = schema_to_arrow(one_column(VariantType())).field("a")
    assert written.metadata[b"ARROW:extension:name"] == b"arrow.parquet.variant"
    assert [child.metadata for child in written.type] == [None, None]  # the parts of a variant have no field ids


def test_the_parts_of_variants_are_put_in_order_and_checked() -> None:
    parts = [variant_from_python(value)._asdict() for value in (5, {"a": None})]
    rows = pa.table({"a": pa.array([parts[0], None, parts[1]], STORAGE).cast(STORAGE)})
    assert cast_to_schema(rows, one_column(VariantType())).column("a").to_pylist() == [parts[0], None, parts[1]]
    values, metadata = (
        pa.array([part[name] for part in parts], kind) for name, kind in (("value", pa.large_binary()), ("metadata", pa.binary_view()))
    )
    other = pa.table({"a": pa.StructArray.from_arrays([values, metadata], names=["value", "metadata"])})
    assert cast_to_schema(other, one_column(VariantType(), required=True)).column("a").to_pylist() == parts


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ({"metadata": None, "value": b"\x00"}, "nulls"),
        ({"metadata": b"\x02\x00\x00", "value": b"\x00"}, "not variants of encoding version 1"),
        ({"metadata": b"\x01\x00\x00", "value": b""}, "not variants of encoding version 1"),
        ({"metadata": b"", "value": b"\x00"}, "not variants of encoding version 1"),
    ],
)
def test_bytes_that_are_not_a_variant_are_refused(parts: dict[str, Any], why: str) -> None:
    with pytest.raises(SchemaMismatchError, match=why):
        cast_to_schema(pa.table({"a": pa.array([parts], STORAGE)}), one_column(VariantType()))


def test_text_is_not_accepted_as_a_variant() -> None:
    with pytest.raises(SchemaMismatchError, match="not a variant"):
        cast_to_schema(pa.table({"a": ["{}"]}), one_column(VariantType()))


def test_plain_wkb_and_shapes_of_the_same_type_are_accepted_and_others_refused() -> None:
    def rows(parameters: bytes | None) -> pa.Table:
        field = pa.field("a", pa.binary()) if parameters is None else named(pa.binary(), "geoarrow.wkb", parameters)
        return pa.table([pa.array([POINT, None])], schema=pa.schema([field]))

    for parameters in (None, b'{"crs": "ogc:crs84"}', b"{}"):
        assert cast_to_schema(rows(parameters), one_column(GeometryType())).column("a").to_pylist() == [POINT, None]
    for parameters in (b'{"crs": "EPSG:3857"}', b'{"crs": "OGC:CRS84", "edges": "spherical"}'):
        with pytest.raises(SchemaMismatchError, match="does not fit geometry"):
            cast_to_schema(rows(parameters), one_column(GeometryType()))
    with pytest.raises(SchemaMismatchError, match="does not fit geography"):
        cast_to_schema(rows(b"{}"), one_column(GeographyType()))
    assert cast_to_schema(rows(b"{}"), one_column(BinaryType())).column("a").to_pylist() == [POINT, None]


@pytest.mark.parametrize("data", [b"", b"\x01", b"\x02\x01\x00\x00\x00", b"\x01\x00\x00\x00\x00", b"\x01\x01\x00\x00\x20" + POINT[5:]])
def test_bytes_that_are_not_a_shape_are_refused(data: bytes) -> None:
    with pytest.raises(SchemaMismatchError, match="1 values that are not shapes"):
        cast_to_schema(pa.table({"a": pa.array([POINT, data, None], pa.binary())}), one_column(GeometryType()))


def test_an_unknown_column_accepts_only_nulls_of_any_type() -> None:
    for nulls in (pa.nulls(2), pa.nulls(2, pa.int64()), pa.nulls(2, pa.dictionary(pa.int8(), pa.string()))):
        assert cast_to_schema(pa.table({"a": nulls}), one_column(UnknownType())).column("a").combine_chunks().equals(pa.nulls(2))
    with pytest.raises(SchemaMismatchError, match="has 1 values, and an unknown column contains only nulls"):
        cast_to_schema(pa.table({"a": [None, 5]}), one_column(UnknownType()))


def test_whole_nanoseconds_fit_microseconds_and_microseconds_in_range_fit_nanoseconds() -> None:
    micros, nanos = pa.timestamp("us"), pa.timestamp("ns")
    rows = pa.table({"a": pa.array([1500, 2**62], pa.int64()).cast(nanos)})
    with pytest.raises(SchemaMismatchError, match="do not fit timestamp"):
        cast_to_schema(rows, one_column(TimestampType()))
    assert cast_to_schema(rows, one_column(TimestampNanoType())).column("a").type == nanos
    assert cast_to_schema(pa.table({"a": pa.array([2000], pa.int64()).cast(nanos)}), one_column(TimestampType())).column("a").cast(
        pa.int64()
    ).to_pylist() == [2]
    assert cast_to_schema(pa.table({"a": pa.array([2], pa.int64()).cast(micros)}), one_column(TimestampNanoType())).column("a").cast(
        pa.int64()
    ).to_pylist() == [2000]
    with pytest.raises(SchemaMismatchError, match="do not fit timestamp_ns"):
        cast_to_schema(pa.table({"a": pa.array([2**62], pa.int64()).cast(micros)}), one_column(TimestampNanoType()))
    with pytest.raises(SchemaMismatchError, match="does not fit timestamptz_ns"):
        cast_to_schema(pa.table({"a": pa.array([2], pa.int64()).cast(nanos)}), one_column(TimestamptzNanoType()))


def test_dates_fit_timestamps_at_midnight_in_range() -> None:
    dates = pa.table({"a": pa.array([1, None], pa.date32())})
    assert cast_to_schema(dates, one_column(TimestampType())).column("a").cast(pa.int64()).to_pylist() == [86_400 * 10**6, None]
    assert cast_to_schema(dates, one_column(TimestampNanoType())).column("a").cast(pa.int64()).to_pylist() == [86_400 * 10**9, None]
    with pytest.raises(SchemaMismatchError, match="do not fit timestamp_ns"):
        cast_to_schema(pa.table({"a": pa.array([110_000], pa.int32()).cast(pa.date32())}), one_column(TimestampNanoType()))
    with pytest.raises(SchemaMismatchError):
        cast_to_schema(dates, one_column(LongType()))
    assert cast_to_schema(dates, one_column(DateType())).num_rows == 2
