"""Push-down of Spark's filters to the Python data source: a filter with an equivalent row filter is translated; Spark evaluates all other filters.

`spark/scan/filter_pushdown.py` is the push-down in SQL and in classic sessions. Spec: Scan Planning.
"""

from collections.abc import Callable, Mapping
from typing import Any

from icefloe.errors import IcefloeError
from icefloe.spec.expressions.bind import BoundPredicate, bind
from icefloe.spec.expressions.predicate import (
    BooleanExpression,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    NotNull,
    StartsWith,
)
from icefloe.spec.schema.metadata_columns import is_reserved
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
)

# The types whose values Spark compares as Iceberg does. In Spark a uuid is a text, for which case matters, and a fixed may have any length.
_COMPARABLE = (
    BooleanType,
    IntegerType,
    LongType,
    FloatType,
    DoubleType,
    DecimalType,
    DateType,
    TimestampType,
    TimestamptzType,
    StringType,
    BinaryType,
)
# By the names of Spark's classes (pyspark.sql.datasource, Spark 4.1). `EqualNullSafe` with a value matches the same rows as `EqualTo`, but its NOT does not.
_COMPARISONS: Mapping[str, Callable[[str, Any], BooleanExpression]] = {
    "EqualTo": EqualTo,
    "EqualNullSafe": EqualTo,
    "GreaterThan": GreaterThan,
    "GreaterThanOrEqual": GreaterThanOrEqual,
    "LessThan": LessThan,
    "LessThanOrEqual": LessThanOrEqual,
    "In": In,
    "StringStartsWith": StartsWith,
}
_TESTS: Mapping[str, Callable[[str], BooleanExpression]] = {"IsNull": IsNull, "IsNotNull": NotNull}


def as_row_filter(spark_filter: Any, schema: Schema) -> BooleanExpression | None:
    """Translate a filter of Spark to a row filter.

    Args:
        spark_filter: A filter of `pyspark.sql.datasource`.
        schema: The schema with the columns of the filter.

    Returns:
        The row filter; None if Spark must evaluate the filter.
    """
    negated = type(spark_filter).__name__ == "Not"
    test = spark_filter.child if negated else spark_filter
    kind = type(test).__name__
    if (kind not in _TESTS and kind not in _COMPARISONS) or (negated and kind == "EqualNullSafe"):
        return None
    term = ".".join(test.attribute)
    if kind in _TESTS:
        expression_of_test = _TESTS[kind](term)
    else:
        values = tuple(test.value) if kind == "In" else (test.value,)
        if any(value is None for value in values):
            return None
        expression_of_test = _COMPARISONS[kind](term, values if kind == "In" else test.value)
    expression = Not(expression_of_test) if negated else expression_of_test
    return expression if _has_same_meaning(expression, test.attribute, schema, is_null_test=kind in _TESTS) else None


def _has_same_meaning(expression: BooleanExpression, path: tuple[str, ...], schema: Schema, *, is_null_test: bool) -> bool:
    try:
        bound = bind(expression, schema)
    except IcefloeError:
        return False
    if not isinstance(bound, BoundPredicate):  # always true or always false, for example if the literal is beyond all values of the column
        return False
    if tuple(bound.path) != tuple(path) or is_reserved(bound.field.field_id):
        return False
    return is_null_test or isinstance(bound.field.field_type, _COMPARABLE)
