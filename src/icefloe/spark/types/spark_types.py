"""Conversion between Iceberg schemas and Spark's StructType, and references to columns by name in Spark.

The metadata of a struct field contains the field id, under the key that Spark's Parquet reader uses. Nanosecond timestamps are refused rather than truncated:
Spark before 4.3 has no type for them, and PySpark has no class for the type of Spark 4.3.

Geometries and geographies are WKB in files and in most of Icefloe. In SQL they have Spark's types GEOMETRY and GEOGRAPHY (Spark 4.1 and later) if the session
enables these (`spark.sql.geospatial.enabled`) and Spark supports the column's reference system; otherwise they are BINARY.
Spec: Primitive Types; Schemas and Data Types; CRS.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 Spark's users know it by this letter
from pyspark.sql import types as spark_types
from pyspark.sql.types import (
    ArrayType,
    ByteType,
    CharType,
    DataType,
    ShortType,
    StructField,
    TimestampNTZType,
    VarcharType,
)

from icefloe.errors import Problem, UnsupportedTypeError
from icefloe.spark.types.default_literals import CURRENT_DEFAULT, default_literal
from icefloe.spec.schema.schema import Schema, assign_fresh_ids, walk
from icefloe.spec.types import (
    DEFAULT_EDGE_ALGORITHM,
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
    VariantType,
    children,
)

# The key of field ids in Spark's own Parquet reader and writer (ParquetUtils.FIELD_ID_METADATA_KEY).
FIELD_ID_KEY = "parquet.field.id"
COMMENT_KEY = "comment"
# Spark has a type for the time of day since 4.1; its precision is the number of digits of a second.
SPARK_TIME: Any = getattr(spark_types, "TimeType", None)
MICROSECOND_DIGITS = 6
# Spark has geometries since 4.1. An Iceberg column has one reference system; in Spark each row may have its own, and the column then has this number.
SPARK_GEOMETRY: Any = getattr(spark_types, "GeometryType", None)
SPARK_GEOGRAPHY: Any = getattr(spark_types, "GeographyType", None)
_MIXED_SRID = -1
_GEO_ENABLED = "spark.sql.geospatial.enabled"
_SRID_PREFIX = "SRID:"
_DEFAULT_SRID = 4326
_BY_BYTES = "UTF8_BINARY"  # the collation

# Types that Spark's Parquet reader cannot read in all versions: it supports geometries and nanoseconds only in some. Columns of unknown type need not be in a
# file. `why_not_stored_values` has the reason if it cannot read variants and times. It reads a uuid as bytes, of which a classic scan makes texts.
NOT_NATIVE = (
    GeometryType,
    GeographyType,
    TimestampNanoType,
    TimestamptzNanoType,
    UnknownType,
)

# Types of format version 3 that have their own Parquet annotations: Spark 4.0 cannot open a file that contains such a column, even if it is not read.
_TYPES_WITH_NEW_ANNOTATIONS = (VariantType, GeometryType, GeographyType)
_FIRST_VERSION_WITH_THEM = "4.1"
_TIME_ENABLED = "spark.sql.timeType.enabled"
# Settings that change how Spark reads the parts of shredded variants, and bytes in the others, with the values that leave them as they are stored.
_SETTINGS_OF_VARIANTS: Mapping[str, str] = {
    "spark.sql.variant.allowReadingShredded": "true",
    "spark.sql.parquet.binaryAsString": "false",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
    "spark.sql.legacy.parquet.nanosAsLong": "false",
}

_TO_SPARK: Mapping[type[PrimitiveType], DataType] = {
    BooleanType: spark_types.BooleanType(),
    IntegerType: spark_types.IntegerType(),
    LongType: spark_types.LongType(),
    FloatType: spark_types.FloatType(),
    DoubleType: spark_types.DoubleType(),
    DateType: spark_types.DateType(),
    TimestampType: TimestampNTZType(),
    TimestamptzType: spark_types.TimestampType(),
    StringType: spark_types.StringType(),
    UUIDType: spark_types.StringType(),
    FixedType: spark_types.BinaryType(),
    BinaryType: spark_types.BinaryType(),
    GeometryType: spark_types.BinaryType(),
    GeographyType: spark_types.BinaryType(),
    UnknownType: spark_types.NullType(),
}
# Bytes of a value that Spark's optimizer estimates from its type alone; all other types are estimated at `_WIDTH_OF_A_LONG`.
_WIDTHS: Mapping[type[IcebergType], int] = {
    BooleanType: 1,
    IntegerType: 4,
    FloatType: 4,
    DateType: 4,
    StringType: 20,
    UUIDType: 20,
    FixedType: 100,
    BinaryType: 100,
    GeometryType: 100,
    GeographyType: 100,
    VariantType: 2048,
    UnknownType: 1,
}
_WIDTH_OF_A_LONG = 8
_DIGITS_OF_A_LONG = 18
_ROW_OVERHEAD = 8
# Exact classes, because StringType is also the base class of CharType and VarcharType.
_FROM_SPARK: Mapping[type[DataType], IcebergType] = {
    spark_types.BooleanType: BooleanType(),
    ByteType: IntegerType(),
    ShortType: IntegerType(),
    spark_types.IntegerType: IntegerType(),
    spark_types.LongType: LongType(),
    spark_types.FloatType: FloatType(),
    spark_types.DoubleType: DoubleType(),
    spark_types.DateType: DateType(),
    TimestampNTZType: TimestampType(),
    spark_types.TimestampType: TimestamptzType(),
    spark_types.StringType: StringType(),
    CharType: StringType(),
    VarcharType: StringType(),
    spark_types.BinaryType: BinaryType(),
    spark_types.VariantType: VariantType(),
    spark_types.NullType: UnknownType(),
}


def schema_to_struct(schema: Schema, field_ids: bool = True) -> spark_types.StructType:
    """Convert a schema to a Spark struct.

    The types are: TIMESTAMP_NTZ for timestamp, TIMESTAMP for timestamptz, STRING for uuid, BINARY for fixed, geometry and geography (WKB), VOID for unknown.

    Args:
        schema: The Iceberg schema.
        field_ids: Whether the metadata of struct fields contains their ids; list elements and map entries have no metadata in Spark.

    Raises:
        UnsupportedTypeError: Columns are timestamps in nanoseconds, or times in a version of Spark without that type; the error lists all of them.
    """
    problems: list[Problem] = []
    struct = _to_struct(schema.as_struct(), field_ids, (), problems)
    if problems:
        raise UnsupportedTypeError(
            "some columns are of types that Icefloe cannot read by Spark yet",
            problems=problems,
            next_step="read with table.scan().to_arrow(), or other columns with table.scan(selected_fields=...).to_spark(), which createOrReplaceTempView() "
            "opens to SQL; SQL on the table itself needs a type for every column: load files with --cast-nanos for timestamps in microseconds; "
            "times of day need Spark 4.1 or later",
        )
    return struct


def spark_type(kind: PrimitiveType) -> DataType | None:
    """Return the Spark type of a primitive Iceberg type. Return None for timestamps in nanoseconds and, before Spark 4.1, for times: Spark has no such type."""
    if isinstance(kind, DecimalType):
        return spark_types.DecimalType(kind.precision, kind.scale)
    if isinstance(kind, TimeType):
        return None if SPARK_TIME is None else SPARK_TIME(MICROSECOND_DIGITS)
    return _TO_SPARK.get(type(kind))


def _to_struct(struct: StructType, ids: bool, path: tuple[str, ...], problems: list[Problem]) -> spark_types.StructType:
    fields = []
    for field in struct.fields:
        metadata: dict[str, Any] = {FIELD_ID_KEY: field.field_id} if ids else {}
        if field.doc is not None:
            metadata[COMMENT_KEY] = field.doc
        # Defaults of columns are added by the table; defaults inside types are part of the type, which must be the same in the whole plan.
        default = default_literal(field.field_type, field.write_default) if path and field.write_default is not None else None
        if default is not None:
            metadata[CURRENT_DEFAULT] = default
        kind = _to_spark(field.field_type, ids, (*path, field.name), problems)
        fields.append(StructField(field.name, kind, not field.required, metadata))
    return spark_types.StructType(fields)


def _to_spark(kind: IcebergType, ids: bool, path: tuple[str, ...], problems: list[Problem]) -> DataType:
    if isinstance(kind, StructType):
        return _to_struct(kind, ids, path, problems)
    if isinstance(kind, ListType):
        return ArrayType(_to_spark(kind.element, ids, (*path, "element"), problems), not kind.element_required)
    if isinstance(kind, MapType):
        key = _to_spark(kind.key_type, ids, (*path, "key"), problems)
        return spark_types.MapType(key, _to_spark(kind.value_type, ids, (*path, "value"), problems), not kind.value_required)
    if isinstance(kind, VariantType):
        return spark_types.VariantType()
    converted = spark_type(kind) if isinstance(kind, PrimitiveType) else None
    if converted is None:
        problems.append(Problem(where=".".join(path), what=f"type {kind}"))
        return spark_types.NullType()
    return converted


def is_geo_type(kind: DataType) -> bool:
    """Return whether a type is Spark's GEOMETRY or GEOGRAPHY."""
    return SPARK_GEOMETRY is not None and isinstance(kind, (SPARK_GEOMETRY, SPARK_GEOGRAPHY))


def _geo_type_from(kind: Any, path: tuple[str, ...], problems: list[Problem]) -> IcebergType:
    is_geometry = isinstance(kind, SPARK_GEOMETRY)
    if kind.srid == _MIXED_SRID:
        name = "GEOMETRY" if is_geometry else "GEOGRAPHY"
        what = f"type {kind.simpleString()}, whose values have reference systems of their own; an Iceberg column has one: {name}(4326)"
        problems.append(Problem(where=".".join(path), what=what))
        return StringType()
    crs = str(kind.jsonValue()).partition("(")[2].removesuffix(")").split(",")[0].strip()
    return GeometryType(crs) if is_geometry else GeographyType(crs)


def why_not_opened(spark: SparkSession, schemas: Iterable[Schema]) -> str:
    """Return the reason why Spark's own reader fails or reads wrongly on all files of these schemas, whichever columns are read; empty if it can."""
    schemas = list(schemas)
    if ambiguous := sorted({name for schema in schemas for name in schema.ambiguous_names}):
        return f"its filters on files confuse columns of one name: {', '.join(ambiguous)}"
    if spark.version >= _FIRST_VERSION_WITH_THEM:
        return ""
    fields = (path_and_field for schema in schemas for path_and_field in walk(schema.fields))
    names = dict.fromkeys(
        f"{'.'.join(path)} ({field.field_type})" for path, field in fields if isinstance(field.field_type, _TYPES_WITH_NEW_ANNOTATIONS)
    )
    return f"the Parquet library of Spark {spark.version} cannot open files with columns such as {', '.join(names)}" if names else ""


def why_not_stored_values(spark: SparkSession, needed: Schema) -> str:
    """Return the reason why Spark's own reader does not read the variants and times among columns as they are stored; empty if it does, or without these."""
    if TimeType in needed.type_classes and str(spark.conf.get(_TIME_ENABLED, "false")).lower() != "true":
        return f"it does not read times where {_TIME_ENABLED} is not true"
    if VariantType not in needed.type_classes:
        return ""
    for setting, value in _SETTINGS_OF_VARIANTS.items():
        if str(spark.conf.get(setting)).lower() != value:
            return f"it does not read variants as they are stored where {setting} is not {value}"
    return ""


def struct_to_schema(struct: spark_types.StructType) -> Schema:
    """Convert a Spark struct to a schema with new field ids, counted from 1.

    BYTE and SHORT become int, CHAR and VARCHAR become string, VOID becomes unknown; a column that is not nullable becomes required.

    Raises:
        UnsupportedTypeError: Columns have types without an equivalent in Iceberg, such as an interval; the error lists all of them.
    """
    numbers = count(1)
    problems: list[Problem] = []
    fields = _fields_from(struct, lambda: next(numbers), (), problems)
    if problems:
        raise UnsupportedTypeError(
            "Iceberg has no counterpart for the types of some columns", problems=problems, next_step="cast or drop them"
        )
    return assign_fresh_ids(Schema(*fields))


def _fields_from(
    struct: spark_types.StructType, fresh: Callable[[], int], path: tuple[str, ...], problems: list[Problem]
) -> tuple[NestedField, ...]:
    return tuple(
        NestedField(
            fresh(),
            field.name,
            to_iceberg_type(field.dataType, fresh, (*path, field.name), problems),
            not field.nullable,
            field.metadata.get(COMMENT_KEY),
        )
        for field in struct.fields
    )


def to_iceberg_type(kind: DataType, fresh: Callable[[], int], path: tuple[str, ...], problems: list[Problem]) -> IcebergType:
    """Convert a Spark type to an Iceberg type.

    Args:
        kind: The Spark type.
        fresh: A function that returns the next field id.
        path: The names from the top-level column down to this one, for problems.
        problems: A list to which a problem is added for each type without an equivalent; such a type becomes string.
    """
    if isinstance(kind, spark_types.StructType):
        return StructType(*_fields_from(kind, fresh, path, problems))
    if isinstance(kind, ArrayType):
        element_id = fresh()
        element = to_iceberg_type(kind.elementType, fresh, (*path, "element"), problems)
        return ListType(element_id=element_id, element=element, element_required=not kind.containsNull)
    if isinstance(kind, spark_types.MapType):
        key_id, value_id = fresh(), fresh()
        key = to_iceberg_type(kind.keyType, fresh, (*path, "key"), problems)
        value = to_iceberg_type(kind.valueType, fresh, (*path, "value"), problems)
        return MapType(key_id=key_id, key_type=key, value_id=value_id, value_type=value, value_required=not kind.valueContainsNull)
    if isinstance(kind, spark_types.DecimalType):
        return DecimalType(kind.precision, kind.scale)
    if SPARK_TIME is not None and isinstance(kind, SPARK_TIME) and kind.precision <= MICROSECOND_DIGITS:
        return TimeType()
    if is_geo_type(kind):
        return _geo_type_from(kind, path, problems)
    converted = None if _is_collated(kind) else _FROM_SPARK.get(type(kind))
    if converted is None:
        problems.append(Problem(where=".".join(path), what=f"type {kind.simpleString()}"))
        return StringType()
    return converted


def _is_collated(kind: DataType) -> bool:
    """Return whether a type is a string type with a collation that does not compare by bytes; Iceberg has no such type."""
    return isinstance(kind, spark_types.StringType) and getattr(kind, "collation", _BY_BYTES) != _BY_BYTES


def column_named(name: str) -> Column:
    """Return a reference to the top-level column with exactly this name, which may contain any characters, such as dots."""
    return F.col(quote_name(name))


def field_inside(column: Column, path: Sequence[str], kind: DataType | None) -> Column:
    """Return the field of a struct column at a path of exact names.

    In Spark, names that differ only by case are ambiguous. A field with such a name is found by its position instead.

    Args:
        column: The column.
        path: The names from the column down; empty for the column itself.
        kind: The type of the column; None if no names in it differ only by case.
    """
    for name in path:
        if isinstance(kind, spark_types.StructType):
            names = [field.name for field in kind.fields]
            place = names.index(name)
            if sum(other.lower() == name.lower() for other in names) > 1:
                # Structs are cast by the positions of their fields, at no cost if the types are the same.
                numbered = [spark_types.StructField(f"_{n}", field.dataType, field.nullable) for n, field in enumerate(kind.fields)]
                column, name = column.cast(spark_types.StructType(numbered)), f"_{place}"  # noqa: PLW2901
            kind = kind.fields[place].dataType
        column = column.getField(name)
    return column


def differs_by_case(fields: Iterable[NestedField]) -> bool:
    """Return whether a struct inside one of the columns has fields whose names differ only by case."""
    for field in fields:
        inner = children(field.field_type)
        if len({child.name.lower() for child in inner}) < len(inner) or differs_by_case(inner):
            return True
    return False


def quote_name(name: str) -> str:
    """Quote a name as an identifier of Spark SQL. A DataFrame takes the text for the top-level column with exactly this name.

    To select many columns, such texts need fewer calls to the JVM than the objects of `column_named`.
    """
    return "`" + name.replace("`", "``") + "`"


def geo_type(kind: IcebergType) -> DataType | None:
    """Return the Spark type of a geometry or geography.

    Returns:
        The type; None for any other type, and if this Spark has no such type, or does not support the reference system or the edge algorithm.
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


def with_geo_types(spark: SparkSession, struct: spark_types.StructType, schema: Schema) -> spark_types.StructType:
    """Replace BINARY by GEOMETRY and GEOGRAPHY in the struct of a schema, if the session has enabled these types.

    Args:
        spark: The session.
        struct: The struct of the schema, with BINARY.
        schema: The Iceberg schema.
    """
    geo_struct = _struct_with_geo_types(struct, schema.as_struct())
    return geo_struct if geo_struct != struct and has_geo_types(spark, schema) else struct


def has_geo_types(spark: SparkSession, schema: Schema) -> bool:
    """Return whether a schema has geometries or geographies, and the session has enabled Spark's types for them."""
    has_shapes = not schema.type_classes.isdisjoint((GeometryType, GeographyType))
    return has_shapes and str(spark.conf.get(_GEO_ENABLED, "false")).lower() == "true"


def _struct_with_geo_types(struct: spark_types.StructType, kind: StructType) -> spark_types.StructType:
    fields = [
        StructField(field.name, _type_with_geo_types(field.dataType, column.field_type), field.nullable, field.metadata)
        for field, column in zip(struct.fields, kind.fields, strict=True)
    ]
    return spark_types.StructType(fields)


def _type_with_geo_types(spark_type: DataType, kind: IcebergType) -> DataType:
    if isinstance(kind, StructType) and isinstance(spark_type, spark_types.StructType):
        return _struct_with_geo_types(spark_type, kind)
    if isinstance(kind, ListType) and isinstance(spark_type, ArrayType):
        return ArrayType(_type_with_geo_types(spark_type.elementType, kind.element), spark_type.containsNull)
    if isinstance(kind, MapType) and isinstance(spark_type, spark_types.MapType):
        key = _type_with_geo_types(spark_type.keyType, kind.key_type)
        return spark_types.MapType(key, _type_with_geo_types(spark_type.valueType, kind.value_type), spark_type.valueContainsNull)
    return geo_type(kind) or spark_type


def wkb_to_geo(rows: DataFrame, struct: spark_types.StructType) -> DataFrame:
    """Convert WKB in the rows to geometries and geographies, at all depths.

    Args:
        rows: The rows.
        struct: The Spark struct of the result, in which some types are GEOMETRY or GEOGRAPHY instead of BINARY.
    """
    return _convert_leaves(rows, struct, _geo_from_wkb)


def geo_to_wkb(rows: DataFrame) -> DataFrame:
    """Convert all geometries and geographies in the rows to WKB, at all depths."""
    return _convert_leaves(rows, rows.schema, lambda column, _: F.call_function("st_asbinary", column))


def row_width(fields: Iterable[NestedField]) -> int:
    """Return the size of a row in bytes, as Spark's optimizer estimates it from the types of the columns."""
    return _ROW_OVERHEAD + sum(_width(field.field_type) for field in fields)


def _width(kind: IcebergType) -> int:
    if isinstance(kind, StructType):
        return sum(_width(field.field_type) for field in kind.fields)
    if isinstance(kind, ListType):
        return _width(kind.element)
    if isinstance(kind, MapType):
        return _width(kind.key_type) + _width(kind.value_type)
    if isinstance(kind, DecimalType):
        return _WIDTH_OF_A_LONG if kind.precision <= _DIGITS_OF_A_LONG else 2 * _WIDTH_OF_A_LONG
    return _WIDTHS.get(type(kind), _WIDTH_OF_A_LONG)


LeafConversion = Callable[[Column, DataType], Column]


def _geo_from_wkb(wkb: Column, struct: DataType) -> Column:
    if SPARK_GEOGRAPHY is not None and isinstance(struct, SPARK_GEOGRAPHY):
        return F.call_function("st_geogfromwkb", wkb)
    return F.call_function("st_setsrid", F.call_function("st_geomfromwkb", wkb), F.lit(struct.srid))  # type: ignore[attr-defined]


def _convert_leaves(rows: DataFrame, struct: spark_types.StructType, leaf: LeafConversion) -> DataFrame:
    if not has_geo_type(struct):
        return rows
    return rows.select(*(_convert_column(column_named(field.name), field.dataType, leaf).alias(field.name) for field in struct.fields))


def has_geo_type(kind: DataType) -> bool:
    """Return whether a Spark type is, or contains, a geometry or geography."""
    if isinstance(kind, spark_types.StructType):
        return any(has_geo_type(field.dataType) for field in kind.fields)
    if isinstance(kind, ArrayType):
        return has_geo_type(kind.elementType)
    if isinstance(kind, spark_types.MapType):
        return has_geo_type(kind.keyType) or has_geo_type(kind.valueType)
    return is_geo_type(kind)


def _convert_column(column: Column, kind: DataType, leaf: LeafConversion) -> Column:
    if not has_geo_type(kind):
        return column
    if isinstance(kind, spark_types.StructType):
        inner = ((field, field_inside(column, (field.name,), kind)) for field in kind.fields)
        fields = (_convert_column(part, field.dataType, leaf).alias(field.name) for field, part in inner)
        return F.when(column.isNotNull(), F.struct(*fields))
    if isinstance(kind, ArrayType):
        return F.transform(column, lambda item: _convert_column(item, kind.elementType, leaf))
    if isinstance(kind, spark_types.MapType):
        keys = F.transform(F.map_keys(column), lambda key: _convert_column(key, kind.keyType, leaf))
        values = F.transform(F.map_values(column), lambda value: _convert_column(value, kind.valueType, leaf))
        return F.map_from_arrays(keys, values)
    return leaf(column, kind)
