"""Shapes as values of Spark's GEOMETRY and GEOGRAPHY types, which came in 4.1, and as WKB, which files hold and every other part of Icefloe reads and writes.

Tables in SQL have Spark's types where the session has them (`spark.sql.geospatial.enabled`) and Spark knows the column's reference system; all other columns
of shapes are BINARY. Spec: Primitive Types (`geometry`, `geography`); CRS.
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


def shape_type(kind: IcebergType) -> DataType | None:
    """Return Spark's type of a geometry or geography; None where this Spark has none, or does not know the reference system or how edges run."""
    if SPARK_GEOMETRY is None or not isinstance(kind, GeometryType | GeographyType):
        return None
    if isinstance(kind, GeographyType) and kind.algorithm != DEFAULT_EDGE_ALGORITHM:
        return None
    srid = _srid(kind.crs.upper())
    if srid is None:
        return None
    try:
        found: DataType = (SPARK_GEOMETRY if isinstance(kind, GeometryType) else SPARK_GEOGRAPHY)(srid)
    except PySparkException:  # a reference system that it does not know, or not for shapes on the globe
        return None
    return found


def _srid(crs: str) -> int | None:
    number = crs.removeprefix(_SRID_PREFIX)
    if number != crs:
        return int(number) if number.isascii() and number.isdigit() else None
    known = {"OGC:CRS84": _DEFAULT_SRID, "EPSG:3857": 3857}
    return known.get(crs)


def with_shapes(spark: SparkSession, struct: SparkStruct, schema: Schema) -> SparkStruct:
    """Return the struct of a schema with Spark's types of shapes in the place of BINARY, where the session has them."""
    found = _struct_with_shapes(struct, schema.as_struct())
    if found == struct or str(spark.conf.get(_ENABLED)).lower() != "true":
        return struct
    return found


def _struct_with_shapes(struct: SparkStruct, kind: StructType) -> SparkStruct:
    fields = [
        StructField(field.name, _with_shapes(field.dataType, known.field_type), field.nullable, field.metadata)
        for field, known in zip(struct.fields, kind.fields, strict=True)
    ]
    return SparkStruct(fields)


def _with_shapes(found: DataType, kind: IcebergType) -> DataType:
    if isinstance(kind, StructType) and isinstance(found, SparkStruct):
        return _struct_with_shapes(found, kind)
    if isinstance(kind, ListType) and isinstance(found, ArrayType):
        return ArrayType(_with_shapes(found.elementType, kind.element), found.containsNull)
    if isinstance(kind, MapType) and isinstance(found, SparkMap):
        key = _with_shapes(found.keyType, kind.key_type)
        return SparkMap(key, _with_shapes(found.valueType, kind.value_type), found.valueContainsNull)
    return shape_type(kind) or found


def shapes_of_wkb(rows: DataFrame, wanted: SparkStruct) -> DataFrame:
    """Return the rows with WKB as shapes, where the struct, which names the same columns, has shapes."""
    return _each(rows, wanted, _shape)


def wkb_of_shapes(rows: DataFrame) -> DataFrame:
    """Return the rows with every shape as WKB."""
    return _each(rows, rows.schema, lambda column, _: F.call_function("st_asbinary", column))


_Leaf = Callable[[Column, DataType], Column]


def _shape(wkb: Column, wanted: DataType) -> Column:
    if SPARK_GEOGRAPHY is not None and isinstance(wanted, SPARK_GEOGRAPHY):
        return F.call_function("st_geogfromwkb", wkb)
    return F.call_function("st_setsrid", F.call_function("st_geomfromwkb", wkb), F.lit(wanted.srid))  # type: ignore[attr-defined]


def _each(rows: DataFrame, struct: SparkStruct, leaf: _Leaf) -> DataFrame:
    if not any(_holds_shapes(field.dataType) for field in struct.fields):
        return rows
    return rows.select(*(_converted(column_named(field.name), field.dataType, leaf).alias(field.name) for field in struct.fields))


def _holds_shapes(kind: DataType) -> bool:
    if isinstance(kind, SparkStruct):
        return any(_holds_shapes(field.dataType) for field in kind.fields)
    if isinstance(kind, ArrayType):
        return _holds_shapes(kind.elementType)
    if isinstance(kind, SparkMap):
        return _holds_shapes(kind.keyType) or _holds_shapes(kind.valueType)
    return is_geo_type(kind)


def _converted(column: Column, kind: DataType, leaf: _Leaf) -> Column:
    if not _holds_shapes(kind):
        return column
    if isinstance(kind, SparkStruct):
        fields = (_converted(column.getField(field.name), field.dataType, leaf).alias(field.name) for field in kind.fields)
        return F.when(column.isNotNull(), F.struct(*fields))
    if isinstance(kind, ArrayType):
        return F.transform(column, lambda item: _converted(item, kind.elementType, leaf))
    if isinstance(kind, SparkMap):
        keys = F.transform(F.map_keys(column), lambda key: _converted(key, kind.keyType, leaf))
        values = F.transform(F.map_values(column), lambda value: _converted(value, kind.valueType, leaf))
        return F.map_from_arrays(keys, values)
    return leaf(column, kind)
