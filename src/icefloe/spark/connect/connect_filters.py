"""Spark's filters of a data source as row filters: those that mean the same here for every row; the others stay with Spark.

Spec: Scan Planning.
"""

from collections.abc import Callable, Mapping
from typing import Any

from icefloe.errors import IcefloeError
from icefloe.kernel.expressions.bind import BoundPredicate, bind
from icefloe.kernel.expressions.predicate import (
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
from icefloe.kernel.schema.metadata_columns import is_reserved
from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.types import (
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

# The types whose values compare here as in Spark. A uuid is text in Spark, where upper case differs; a fixed is of any length there.
_ALIKE = (
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
# By the names of Spark's classes (pyspark.sql.datasource), which came in 4.1. `EqualNullSafe` with a value keeps the rows of `EqualTo`; its NOT does not.
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


def as_row_filter(found: Any, schema: Schema) -> BooleanExpression | None:
    """One of Spark's filters as a row filter on the schema's columns; None where Spark must test it itself."""
    negated = type(found).__name__ == "Not"
    test = found.child if negated else found
    kind = type(test).__name__
    if (kind not in _TESTS and kind not in _COMPARISONS) or (negated and kind == "EqualNullSafe"):
        return None
    term = ".".join(test.attribute)
    if kind in _TESTS:
        made = _TESTS[kind](term)
    else:
        values = tuple(test.value) if kind == "In" else (test.value,)
        if any(value is None for value in values):
            return None
        made = _COMPARISONS[kind](term, values if kind == "In" else test.value)
    expression = Not(made) if negated else made
    return expression if _is_alike(expression, test.attribute, schema, is_null_test=kind in _TESTS) else None


def _is_alike(expression: BooleanExpression, path: tuple[str, ...], schema: Schema, *, is_null_test: bool) -> bool:
    try:
        bound = bind(expression, schema)
    except IcefloeError:
        return False
    if not isinstance(bound, BoundPredicate):  # always true or false, as of a literal that no value of the column reaches
        return False
    if tuple(bound.path) != tuple(path) or is_reserved(bound.field.field_id):
        return False
    return is_null_test or isinstance(bound.field.field_type, _ALIKE)
