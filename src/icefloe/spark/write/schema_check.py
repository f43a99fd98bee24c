"""The check of a DataFrame's columns against a table's schema, before any row is computed.

Tasks check the values, for example nulls in a required column (`spec/schema/schema_cast.py`). Spec: Schema Evolution (promotions).
"""

from collections.abc import Iterator, Sequence
from itertools import count

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import ArrayType, DataType, NullType, StructField
from pyspark.sql.types import DecimalType as SparkDecimal
from pyspark.sql.types import MapType as SparkMap
from pyspark.sql.types import StringType as SparkString
from pyspark.sql.types import StructType as SparkStruct

from icefloe.errors import Problem, SchemaMismatchError
from icefloe.spark.bridge.catalyst import unscaled_value
from icefloe.spark.bridge.gateway import has_jvm
from icefloe.spark.types.spark_types import column_named, geo_type, is_geo_type, quote_name, spark_type, to_iceberg_type
from icefloe.spec.schema.default_values import missing_column_problems
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import (
    BinaryType,
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
    UUIDType,
    VariantType,
)

# The maximum digits of decimals that Spark stores as longs.
MAX_LONG_DIGITS = 18
# Additional types to which a Spark type may be written: promotions that change no value; and text and bytes for types that Spark lacks, whose values
# are checked individually.
_WRITABLE_AS = frozenset(
    {
        (IntegerType, LongType),
        (FloatType, DoubleType),
        (StringType, UUIDType),
        (BinaryType, UUIDType),
        (BinaryType, FixedType),
        (BinaryType, GeometryType),
        (BinaryType, GeographyType),
        (TimestampType, TimestampNanoType),
        (TimestamptzType, TimestamptzNanoType),
    }
)


def check_fits(rows: SparkStruct, schema: Schema) -> None:
    """Check that rows with these columns can be written to a table: names must be equal, also in case, and types must fit.

    Raises:
        SchemaMismatchError: required columns are missing, columns are not in the table, or types do not fit. The error lists all of them.
    """
    problems = list(_struct_problems(rows.fields, schema.fields, ()))
    if problems:
        raise SchemaMismatchError(
            "the DataFrame does not fit the table",
            problems=problems,
            next_step="rename, cast, add or drop these columns, or change the table's schema",
        )


def widened_decimals(rows: DataFrame, schema: Schema) -> DataFrame:
    """Cast top-level decimals in rows to the table's precision and scale. All other types are cast by the tasks."""
    field_types = {field.name: field.field_type for field in schema.fields}
    casts = {}
    for field in rows.schema.fields:
        field_type = field_types.get(field.name)
        target = spark_type(field_type) if isinstance(field_type, DecimalType) else None
        if target is not None and field.dataType != target:
            casts[field.name] = column_named(field.name).cast(target)
    if not casts:
        return rows
    return rows.select(*(casts[name].alias(name) if name in casts else quote_name(name) for name in rows.columns))


def unscaled_decimals(rows: DataFrame) -> dict[str, Column]:
    """Return columns with the unscaled values of top-level decimals with at most 18 digits, by name; empty in a session of Spark Connect.

    Sending them to tasks is faster: Spark stores such decimals as longs, but creates two big integers for each decimal that it writes to Arrow.
    """
    kinds = {field.name: field.dataType for field in rows.schema.fields}
    names = [name for name, kind in kinds.items() if isinstance(kind, SparkDecimal) and kind.precision <= MAX_LONG_DIGITS]
    spark = rows.sparkSession
    return {name: unscaled_value(spark, column_named(name)) for name in names} if names and has_jvm(spark) else {}


def _struct_problems(row_fields: Sequence[StructField], table_fields: Sequence[NestedField], path: tuple[str, ...]) -> Iterator[Problem]:
    by_name = {field.name: field for field in row_fields}
    for name in by_name:
        if sum(field.name == name for field in row_fields) > 1:
            yield Problem(where=".".join((*path, name)), what="is twice in the DataFrame")
    for target in table_fields:
        where = (*path, target.name)
        if target.name in by_name:
            yield from _type_problems(by_name[target.name].dataType, target.field_type, where)
        else:
            for problem in missing_column_problems(target, where):  # a column with a write-default may be left out
                yield Problem(where=problem.where, what=f"{problem.what}{_near(target.name, by_name)}")
    names = {field.name: field for field in table_fields}
    for name in by_name:
        if name not in names:
            yield Problem(where=".".join((*path, name)), what=f"is not a column of the table{_near(name, names)}")


def _near(name: str, others: dict[str, StructField] | dict[str, NestedField]) -> str:
    close = next((other for other in others if other != name and other.lower() == name.lower()), None)
    return "" if close is None else f"; there is {close!r}, and letter case counts"


def _type_problems(row_type: DataType, table_type: IcebergType, path: tuple[str, ...]) -> Iterator[Problem]:
    if isinstance(row_type, NullType):
        return  # the tasks refuse a null in a required column
    if isinstance(table_type, StructType) and isinstance(row_type, SparkStruct):
        yield from _struct_problems(row_type.fields, table_type.fields, path)
    elif isinstance(table_type, ListType) and isinstance(row_type, ArrayType):
        yield from _type_problems(row_type.elementType, table_type.element, (*path, "element"))
    elif isinstance(table_type, MapType) and isinstance(row_type, SparkMap):
        yield from _type_problems(row_type.keyType, table_type.key_type, (*path, "key"))
        yield from _type_problems(row_type.valueType, table_type.value_type, (*path, "value"))
    elif not isinstance(table_type, PrimitiveType | VariantType) or not _fits(row_type, table_type, top_level=len(path) == 1):
        hint = _hint(row_type, table_type)
        yield Problem(
            where=".".join(path), what=f"is {row_type.simpleString()} in the DataFrame, which does not fit {table_type} in the table{hint}"
        )


def _fits(row_type: DataType, table_type: PrimitiveType | VariantType, *, top_level: bool) -> bool:
    if is_geo_type(row_type):
        return geo_type(table_type) == row_type
    if isinstance(row_type, SparkString):  # the collation only belongs to the rows
        row_type = SparkString()
    problems: list[Problem] = []
    ids = count(1)
    written = to_iceberg_type(row_type, lambda: next(ids), (), problems)
    if problems:
        return False
    if isinstance(written, DecimalType) and isinstance(table_type, DecimalType):
        if written.scale == table_type.scale:
            return written.precision <= table_type.precision
        whole_digits, table_whole_digits = written.precision - written.scale, table_type.precision - table_type.scale
        return top_level and written.scale < table_type.scale and whole_digits <= table_whole_digits
    return written == table_type or (type(written), type(table_type)) in _WRITABLE_AS


def _hint(row_type: DataType, table_type: IcebergType) -> str:
    names = {"timestamp": "timestamp_ntz", "timestamptz": "timestamp"}
    if row_type.simpleString() in names.values() and str(table_type) in names:
        return f"; cast it to {names[str(table_type)]}"
    return ""
