"""Schema to Spark's StructType and back.

Rows and files are not touched here; a struct's fields carry their Iceberg ids in the metadata key by which Spark's Parquet reader finds columns. Shapes are
BINARY, as WKB; `geo_types.py` makes Spark's own types of them, which came in 4.1. Nanoseconds have no type in Spark: rather than cut them, they are refused.
Spec: Primitive Types; Schemas and Data Types.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import count
from typing import Any

from pyspark.sql import Column, SparkSession
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
from icefloe.kernel.schema.schema import Schema, assign_fresh_ids, walk
from icefloe.kernel.types import (
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
)

# The key of Spark's own Parquet reader and writer (ParquetUtils.FIELD_ID_METADATA_KEY).
FIELD_ID_KEY = "parquet.field.id"
COMMENT_KEY = "comment"
# Spark has a time of day since 4.1; its precision counts digits of a second.
SPARK_TIME: Any = getattr(spark_types, "TimeType", None)
MICROSECOND_DIGITS = 6
# Spark has types of shapes since 4.1. A column of Iceberg's has one reference system; Spark's may have one for each row, with this number for all of them.
SPARK_GEOMETRY: Any = getattr(spark_types, "GeometryType", None)
SPARK_GEOGRAPHY: Any = getattr(spark_types, "GeographyType", None)
_MIXED_SRID = -1

# Spark's Parquet reader refuses the uuid annotation, reads a time only where a file calls it local, and knows variants, shapes and nanoseconds of some
# versions alone; columns of unknown type need not be in a file.
NOT_NATIVE = (
    UUIDType,
    TimeType,
    VariantType,
    GeometryType,
    GeographyType,
    TimestampNanoType,
    TimestamptzNanoType,
    UnknownType,
)

# Types of version 3 that have an annotation of their own in Parquet files: the library of Spark 4.0 cannot open a file with one, whatever is read of it.
_ANNOTATED_LATELY = (VariantType, GeometryType, GeographyType)
_FIRST_TO_KNOW_THEM = "4.1"

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
# Exact classes: StringType is also the base of CharType and VarcharType.
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
    """The Spark form of a schema: timestamp is TIMESTAMP_NTZ, timestamptz is TIMESTAMP, uuid is STRING, fixed and shapes (WKB) are BINARY, unknown is VOID.

    With `field_ids`, the fields of every struct carry their ids in their metadata; list elements and map entries have no metadata in Spark.

    Raises:
        UnsupportedTypeError: a column is a timestamp in nanoseconds, or a time and this Spark has no such type; every column is named.
    """
    problems: list[Problem] = []
    struct = _to_struct(schema.as_struct(), field_ids, (), problems)
    if problems:
        raise UnsupportedTypeError(
            "this Spark has no type for some columns",
            problems=problems,
            next_step="select the other columns alone, or read with to_arrow(); times of day need Spark 4.1 or later",
        )
    return struct


def spark_type(kind: PrimitiveType) -> DataType | None:
    """The Spark type of a primitive; None where Spark has none, as for nanoseconds, and for a time before Spark 4.1."""
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
    found = spark_type(kind) if isinstance(kind, PrimitiveType) else None
    if found is None:
        problems.append(Problem(where=".".join(path), what=f"type {kind}"))
        return spark_types.NullType()
    return found


def is_shape(kind: DataType) -> bool:
    """Return whether it is Spark's GEOMETRY or GEOGRAPHY."""
    return SPARK_GEOMETRY is not None and isinstance(kind, (SPARK_GEOMETRY, SPARK_GEOGRAPHY))


def _shape_from(kind: Any, path: tuple[str, ...], problems: list[Problem]) -> IcebergType:
    is_geometry = isinstance(kind, SPARK_GEOMETRY)
    if kind.srid == _MIXED_SRID:
        name = "GEOMETRY" if is_geometry else "GEOGRAPHY"
        what = f"type {kind.simpleString()}, whose values have reference systems of their own; a column of Iceberg's has one: {name}(4326)"
        problems.append(Problem(where=".".join(path), what=what))
        return StringType()
    crs = str(kind.jsonValue()).partition("(")[2].removesuffix(")").split(",")[0].strip()
    return GeometryType(crs) if is_geometry else GeographyType(crs)


def why_not_opened(spark: SparkSession, schemas: Iterable[Schema]) -> str:
    """Why Spark's own reader cannot open files of these schemas, or reads them wrong, whatever is read of them; empty where it can."""
    schemas = list(schemas)
    if taken := sorted({name for schema in schemas for name in schema.ambiguous_names}):
        return f"its filters on files take columns of one name for each other: {', '.join(taken)}"
    if spark.version >= _FIRST_TO_KNOW_THEM:
        return ""
    fields = (found for schema in schemas for found in walk(schema.fields))
    names = dict.fromkeys(
        f"{'.'.join(path)} ({field.field_type})" for path, field in fields if isinstance(field.field_type, _ANNOTATED_LATELY)
    )
    return f"the Parquet library of Spark {spark.version} cannot open files with columns such as {', '.join(names)}" if names else ""


def struct_to_schema(struct: spark_types.StructType) -> Schema:
    """A schema with fresh ids from 1: BYTE and SHORT become int, CHAR and VARCHAR string, VOID unknown; a column that is not nullable is required.

    Raises:
        UnsupportedTypeError: a type has no counterpart in Iceberg, such as an interval; every column is named.
    """
    numbers = count(1)
    problems: list[Problem] = []
    fields = _fields_from(struct, lambda: next(numbers), (), problems)
    if problems:
        raise UnsupportedTypeError(
            "some columns have types that Iceberg has no counterpart for", problems=problems, next_step="cast or drop them"
        )
    return assign_fresh_ids(Schema(*fields))


def _fields_from(
    struct: spark_types.StructType, fresh: Callable[[], int], path: tuple[str, ...], problems: list[Problem]
) -> tuple[NestedField, ...]:
    return tuple(
        NestedField(
            fresh(),
            field.name,
            from_spark(field.dataType, fresh, (*path, field.name), problems),
            not field.nullable,
            field.metadata.get(COMMENT_KEY),
        )
        for field in struct.fields
    )


def from_spark(kind: DataType, fresh: Callable[[], int], path: tuple[str, ...], problems: list[Problem]) -> IcebergType:
    """The Iceberg type of a Spark type; what has none is added to `problems` and answered with a string type."""
    if isinstance(kind, spark_types.StructType):
        return StructType(*_fields_from(kind, fresh, path, problems))
    if isinstance(kind, ArrayType):
        element_id = fresh()
        element = from_spark(kind.elementType, fresh, (*path, "element"), problems)
        return ListType(element_id=element_id, element=element, element_required=not kind.containsNull)
    if isinstance(kind, spark_types.MapType):
        key_id, value_id = fresh(), fresh()
        key = from_spark(kind.keyType, fresh, (*path, "key"), problems)
        value = from_spark(kind.valueType, fresh, (*path, "value"), problems)
        return MapType(key_id=key_id, key_type=key, value_id=value_id, value_type=value, value_required=not kind.valueContainsNull)
    if isinstance(kind, spark_types.DecimalType):
        return DecimalType(kind.precision, kind.scale)
    if SPARK_TIME is not None and isinstance(kind, SPARK_TIME) and kind.precision <= MICROSECOND_DIGITS:
        return TimeType()
    if is_shape(kind):
        return _shape_from(kind, path, problems)
    found = _FROM_SPARK.get(type(kind))
    if found is None:
        problems.append(Problem(where=".".join(path), what=f"type {kind.simpleString()}"))
        return StringType()
    return found


def column_named(name: str) -> Column:
    """The top-level column of exactly this name, whatever signs it holds."""
    return F.col(quoted(name))


def quoted(name: str) -> str:
    """The name as a DataFrame takes it for the top-level column of exactly this name. To choose many, names take fewer calls to the JVM than columns."""
    return "`" + name.replace("`", "``") + "`"
