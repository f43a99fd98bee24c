"""Whether a DataFrame's columns fit a table, looked at before any row is computed.

Values, such as a null where the table requires one, are looked at in the tasks (`kernel.schema.cast`). Spec: Schema Evolution (promotions).
"""

from collections.abc import Iterator, Sequence
from itertools import count

from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, DataType, NullType, StructField
from pyspark.sql.types import MapType as SparkMap
from pyspark.sql.types import StructType as SparkStruct

from icefloe.errors import Problem, SchemaMismatchError
from icefloe.kernel.schema.default_values import missing_column_problems
from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.types import (
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
from icefloe.spark.types.geo_types import shape_type
from icefloe.spark.types.spark_types import column_named, from_spark, is_shape, quoted, spark_type

# What a Spark type may be written to, beside its own: where no value changes, and text and bytes for what Spark has no type for (checked value by value).
_FITS = frozenset(
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
    """Compares names and types; names with regard to case.

    Raises:
        SchemaMismatchError: columns that are missing and required, not in the table, or of a type that does not fit; every one is listed, and how.
    """
    problems = list(_struct_problems(rows.fields, schema.fields, ()))
    if problems:
        raise SchemaMismatchError(
            "the DataFrame does not fit the table",
            problems=problems,
            next_step="rename, cast, add or drop these columns, or change the table's schema",
        )


def widened_decimals(rows: DataFrame, schema: Schema) -> DataFrame:
    """The DataFrame with top-level decimals in the table's precision and scale; all else is brought to its form in the tasks."""
    wanted = {field.name: field.field_type for field in schema.fields}
    casts = {}
    for field in rows.schema.fields:
        kind = wanted.get(field.name)
        target = spark_type(kind) if isinstance(kind, DecimalType) else None
        if target is not None and field.dataType != target:
            casts[field.name] = column_named(field.name).cast(target)
    if not casts:
        return rows
    return rows.select(*(casts[name].alias(name) if name in casts else quoted(name) for name in rows.columns))


def _struct_problems(found: Sequence[StructField], wanted: Sequence[NestedField], path: tuple[str, ...]) -> Iterator[Problem]:
    by_name = {field.name: field for field in found}
    for name in by_name:
        if sum(field.name == name for field in found) > 1:
            yield Problem(where=".".join((*path, name)), what="stands twice in the DataFrame")
    for target in wanted:
        where = (*path, target.name)
        if target.name in by_name:
            yield from _type_problems(by_name[target.name].dataType, target.field_type, where)
        else:
            for problem in missing_column_problems(target, where):  # a column with a write-default may be left out
                yield Problem(where=problem.where, what=f"{problem.what}{_near(target.name, by_name)}")
    names = {field.name: field for field in wanted}
    for name in by_name:
        if name not in names:
            yield Problem(where=".".join((*path, name)), what=f"is not a column of the table{_near(name, names)}")


def _near(name: str, others: dict[str, StructField] | dict[str, NestedField]) -> str:
    close = next((other for other in others if other != name and other.lower() == name.lower()), None)
    return "" if close is None else f"; there is {close!r}, and letter case counts"


def _type_problems(found: DataType, wanted: IcebergType, path: tuple[str, ...]) -> Iterator[Problem]:
    if isinstance(found, NullType):
        return  # null where required is found among the values
    if isinstance(wanted, StructType) and isinstance(found, SparkStruct):
        yield from _struct_problems(found.fields, wanted.fields, path)
    elif isinstance(wanted, ListType) and isinstance(found, ArrayType):
        yield from _type_problems(found.elementType, wanted.element, (*path, "element"))
    elif isinstance(wanted, MapType) and isinstance(found, SparkMap):
        yield from _type_problems(found.keyType, wanted.key_type, (*path, "key"))
        yield from _type_problems(found.valueType, wanted.value_type, (*path, "value"))
    elif not isinstance(wanted, PrimitiveType | VariantType) or not _fits(found, wanted, top_level=len(path) == 1):
        hint = _hint(found, wanted)
        yield Problem(
            where=".".join(path), what=f"is {found.simpleString()} in the DataFrame, which does not fit {wanted} in the table{hint}"
        )


def _fits(found: DataType, wanted: PrimitiveType | VariantType, *, top_level: bool) -> bool:
    if is_shape(found):
        return shape_type(wanted) == found
    unknown: list[Problem] = []
    numbers = count(1)
    kind = from_spark(found, lambda: next(numbers), (), unknown)
    if unknown:
        return False
    if isinstance(kind, DecimalType) and isinstance(wanted, DecimalType):
        if kind.scale == wanted.scale:
            return kind.precision <= wanted.precision
        return top_level and kind.scale < wanted.scale and kind.precision - kind.scale <= wanted.precision - wanted.scale
    return kind == wanted or (type(kind), type(wanted)) in _FITS


def _hint(found: DataType, wanted: IcebergType) -> str:
    names = {"timestamp": "timestamp_ntz", "timestamptz": "timestamp"}
    if found.simpleString() in names.values() and str(wanted) in names:
        return f"; cast it to {names[str(wanted)]}"
    return ""
