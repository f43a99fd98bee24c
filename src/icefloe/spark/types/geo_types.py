"""Geometries and geographies between Spark's GEOMETRY and GEOGRAPHY types (Spark 4.1 and later) and WKB, the form of files and of the rest of Icefloe.

Tables in SQL have Spark's types where the session enables them (`spark.sql.geospatial.enabled`) and Spark supports the column's reference system; all other
such columns are BINARY. Spec: Primitive Types (`geometry`, `geography`); CRS.
"""

from collections.abc import Callable

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 Spark's users know it by this letter
from pyspark.sql.types import ArrayType, DataType, StructField
from pyspark.sql.types import MapType as SparkMap
from pyspark.sql.types import StructType as SparkStruct

from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.types import DEFAULT_EDGE_ALGORITHM, GeographyType, GeometryType, IcebergType, ListType, MapType, StructType
from icefloe.spark.types.spark_types import SPARK_GEOGRAPHY, SPARK_GEOMETRY, column_named, is_geo_type

_ENABLED = "spark.sql.geospatial.enabled"
_SRID_PREFIX = "SRID:"
_DEFAULT_SRID = 4326


def geo_type(kind: IcebergType) -> DataType | None:
    """Return Spark's type of a geometry or geography.

    Returns:
        None where this Spark has no such type, or does not support the reference system or the edge algorithm.
    """
    if SPARK_GEOMETRY is None or not isinstance(kind, GeometryType | GeographyType):
        return None
    if isinstance(kind, GeographyType) and kind.algorithm != DEFAULT_EDGE_ALGORITHM:
        return None
    srid = _srid(kind.crs.upper())
    if srid is None:
        return None
    try:
        spark_type: DataType = (SPARK_GEOMETRY if isinstance(kind, GeometryType) else SPARK_GEOGRAPHY)(srid)
    except PySparkException:  # Spark does not support the reference system, or not for geographies
        return None
    return spark_type


def _srid(crs: str) -> int | None:
    number = crs.removeprefix(_SRID_PREFIX)
    if number != crs:
        return int(number) if number.isascii() and number.isdigit() else None
    known = {"OGC:CRS84": _DEFAULT_SRID, "EPSG:3857": 3857}
    return known.get(crs)


def with_geo_types(spark: SparkSession, struct: SparkStruct, schema: Schema) -> SparkStruct:
    """Return the struct of a schema with GEOMETRY and GEOGRAPHY instead of BINARY, where the session has these types.

    Args:
        spark: The session.
        struct: The struct of the schema, with BINARY.
        schema: The schema.
    """
    geo_struct = _struct_with_geo_types(struct, schema.as_struct())
    if geo_struct == struct or str(spark.conf.get(_ENABLED)).lower() != "true":
        return struct
    return geo_struct


def _struct_with_geo_types(struct: SparkStruct, kind: StructType) -> SparkStruct:
    fields = [
        StructField(field.name, _type_with_geo_types(field.dataType, column.field_type), field.nullable, field.metadata)
        for field, column in zip(struct.fields, kind.fields, strict=True)
    ]
    return SparkStruct(fields)


def _type_with_geo_types(spark_type: DataType, kind: IcebergType) -> DataType:
    if isinstance(kind, StructType) and isinstance(spark_type, SparkStruct):
        return _struct_with_geo_types(spark_type, kind)
    if isinstance(kind, ListType) and isinstance(spark_type, ArrayType):
        return ArrayType(_type_with_geo_types(spark_type.elementType, kind.element), spark_type.containsNull)
    if isinstance(kind, MapType) and isinstance(spark_type, SparkMap):
        key = _type_with_geo_types(spark_type.keyType, kind.key_type)
        return SparkMap(key, _type_with_geo_types(spark_type.valueType, kind.value_type), spark_type.valueContainsNull)
    return geo_type(kind) or spark_type


def wkb_to_geo(rows: DataFrame, struct: SparkStruct) -> DataFrame:
    """Convert WKB columns to geometries and geographies.

    Args:
        rows: The rows.
        struct: A struct of the same columns, with the types to convert to.
    """
    return _convert_leaves(rows, struct, _geo_from_wkb)


def geo_to_wkb(rows: DataFrame) -> DataFrame:
    """Convert every geometry and geography in the rows to WKB."""
    return _convert_leaves(rows, rows.schema, lambda column, _: F.call_function("st_asbinary", column))


LeafConversion = Callable[[Column, DataType], Column]


def _geo_from_wkb(wkb: Column, struct: DataType) -> Column:
    if SPARK_GEOGRAPHY is not None and isinstance(struct, SPARK_GEOGRAPHY):
        return F.call_function("st_geogfromwkb", wkb)
    return F.call_function("st_setsrid", F.call_function("st_geomfromwkb", wkb), F.lit(struct.srid))  # type: ignore[attr-defined]


def _convert_leaves(rows: DataFrame, struct: SparkStruct, leaf: LeafConversion) -> DataFrame:
    if not any(_has_geo_type(field.dataType) for field in struct.fields):
        return rows
    return rows.select(*(_convert_column(column_named(field.name), field.dataType, leaf).alias(field.name) for field in struct.fields))


def _has_geo_type(kind: DataType) -> bool:
    if isinstance(kind, SparkStruct):
        return any(_has_geo_type(field.dataType) for field in kind.fields)
    if isinstance(kind, ArrayType):
        return _has_geo_type(kind.elementType)
    if isinstance(kind, SparkMap):
        return _has_geo_type(kind.keyType) or _has_geo_type(kind.valueType)
    return is_geo_type(kind)


def _convert_column(column: Column, kind: DataType, leaf: LeafConversion) -> Column:
    if not _has_geo_type(kind):
        return column
    if isinstance(kind, SparkStruct):
        fields = (_convert_column(column.getField(field.name), field.dataType, leaf).alias(field.name) for field in kind.fields)
        return F.when(column.isNotNull(), F.struct(*fields))
    if isinstance(kind, ArrayType):
        return F.transform(column, lambda item: _convert_column(item, kind.elementType, leaf))
    if isinstance(kind, SparkMap):
        keys = F.transform(F.map_keys(column), lambda key: _convert_column(key, kind.keyType, leaf))
        values = F.transform(F.map_values(column), lambda value: _convert_column(value, kind.valueType, leaf))
        return F.map_from_arrays(keys, values)
    return leaf(column, kind)
