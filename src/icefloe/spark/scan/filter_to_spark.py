"""Conversion of Iceberg expressions to Spark columns: `filter_to_column` for bound filters, and literals.

Spark compares values as Iceberg does: null matches no comparison, NaN equals NaN and sorts after every number, and -0.0 equals 0.0.
`icefloe.spec.expressions.row_evaluator` evaluates filters on Arrow rows; `filter_pushdown.py` converts Spark's filters to Iceberg expressions.
"""

from collections.abc import Callable, Mapping
from functools import reduce
from operator import and_, or_
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 Spark's users know it by this letter
from pyspark.sql.types import DataType

from icefloe.errors import InvalidFilterError, UnsupportedTypeError
from icefloe.spark.types.spark_types import SPARK_TIME, column_named, field_inside, spark_type
from icefloe.spec.dates_and_times import format_timestamp
from icefloe.spec.expressions.bind import BoundPredicate, PredicateOperator
from icefloe.spec.expressions.predicate import AlwaysFalse, AlwaysTrue, And, BooleanExpression, Or
from icefloe.spec.types import (
    BinaryType,
    DateType,
    DecimalType,
    FixedType,
    IntegerType,
    LongType,
    PrimitiveType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)
from icefloe.spec.values import to_human


def filter_to_column(
    bound: BooleanExpression, names: Mapping[str, str | Column] | None = None, types: Mapping[str, DataType] | None = None
) -> Column:
    """Return the condition that is true for exactly the rows that match a bound filter.

    Args:
        bound: The filter.
        names: For top-level columns that have a different name in the DataFrame, that name, or an expression that computes the column.
        types: The types, by name in the DataFrame, of columns in which struct fields may differ only by case.

    Raises:
        InvalidFilterError: The filter is not bound.
        UnsupportedTypeError: A literal is a time, but this Spark has no type for times.
    """
    if isinstance(bound, AlwaysTrue | AlwaysFalse):
        return F.lit(isinstance(bound, AlwaysTrue))
    if isinstance(bound, And | Or):
        return reduce(and_ if isinstance(bound, And) else or_, (filter_to_column(term, names, types) for term in bound.terms))
    if not isinstance(bound, BoundPredicate):
        raise InvalidFilterError(f"{bound} is not bound to a schema")
    top = bound.path[0]
    source = (names or {}).get(top, top)
    column = column_named(source) if isinstance(source, str) else source
    column = field_inside(column, bound.path[1:], types.get(source) if types and isinstance(source, str) else None)
    return _TESTS[bound.operation](column, [literal(bound.kind, value) for value in bound.values])


def literal(kind: PrimitiveType, value: Any) -> Column:
    """Return a physical value as a Spark literal of the column's type, with all microseconds and digits, independent of the session's time zone."""
    if isinstance(kind, DateType):
        return F.date_from_unix_date(F.lit(value))
    if isinstance(kind, TimestamptzType):
        return F.timestamp_micros(F.lit(value).cast("bigint"))
    if isinstance(kind, TimestampType):
        return F.expr(f"TIMESTAMP_NTZ '{_ntz_text(value)}'")
    if isinstance(kind, TimeType):
        if SPARK_TIME is None:
            raise UnsupportedTypeError(
                f"this Spark has no type for the time of day {to_human(kind, value)}", next_step="use Spark 4.1 or later"
            )
        return F.expr(f"TIME '{to_human(kind, value)}'")
    if isinstance(kind, UUIDType):
        return F.lit(str(value))
    if isinstance(kind, BinaryType | FixedType):
        return F.lit(bytes(value))
    if isinstance(kind, IntegerType | LongType | DecimalType):
        exact = spark_type(kind)
        # As text, because Py4J would change the scale of a decimal, and would pass an int as 32 bits unless it is large.
        return F.lit(str(value)).cast(exact) if exact is not None else F.lit(value)
    return F.lit(value)


def _ntz_text(micros: int) -> str:
    """Return a timestamp as text for Spark, which requires four digits of a year, and a sign for years outside of 0 to 9999."""
    return format_timestamp(micros, utc=False)


def _prefix(column: Column, values: list[Column]) -> Column:
    return column.startswith(values[0])


_TESTS: Mapping[PredicateOperator, Callable[[Column, list[Column]], Column]] = {
    PredicateOperator.IS_NULL: lambda column, _: column.isNull(),
    PredicateOperator.NOT_NULL: lambda column, _: column.isNotNull(),
    PredicateOperator.IS_NAN: lambda column, _: F.isnan(column),
    PredicateOperator.NOT_NAN: lambda column, _: ~F.isnan(column),
    PredicateOperator.EQ: lambda column, values: column == values[0],
    PredicateOperator.NOT_EQ: lambda column, values: column != values[0],
    PredicateOperator.LT: lambda column, values: column < values[0],
    PredicateOperator.LT_EQ: lambda column, values: column <= values[0],
    PredicateOperator.GT: lambda column, values: column > values[0],
    PredicateOperator.GT_EQ: lambda column, values: column >= values[0],
    PredicateOperator.IN: lambda column, values: column.isin(values),
    PredicateOperator.NOT_IN: lambda column, values: ~column.isin(values),
    PredicateOperator.STARTS_WITH: _prefix,
    PredicateOperator.NOT_STARTS_WITH: lambda column, values: ~_prefix(column, values),
}
