"""Evaluation of a bound filter on Arrow rows, with the semantics of Spark SQL.

A row matches if the filter is TRUE for it. Null matches no comparison, NaN equals NaN and sorts after every number, -0.0 equals 0.0, and strings sort by code
point. `metrics_evaluator.py` evaluates filters on the bounds and counts of files.
"""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icefloe.errors import InvalidFilterError
from icefloe.spec.arrow_values import array_of, array_of_chunks
from icefloe.spec.expressions.bind import BoundPredicate, PredicateOperator
from icefloe.spec.expressions.metrics_evaluator import comparison_array, is_float
from icefloe.spec.expressions.predicate import AlwaysFalse, AlwaysTrue, And, BooleanExpression, Or
from icefloe.spec.types import DateType, PrimitiveType, TimestampNanoType, TimestampType, TimestamptzNanoType, TimestamptzType, TimeType
from icefloe.spec.values import physical_arrow_type

# If there are at least this many literals per value, a cached Python set is quicker than Arrow's set, which is built at each call.
FEW_VALUES = 8

_UNITS: Mapping[type[PrimitiveType], str] = {
    TimestampType: "us",
    TimestamptzType: "us",
    TimestampNanoType: "ns",
    TimestamptzNanoType: "ns",
}


def arrow_mask(bound: BooleanExpression, rows: Any) -> Any:
    """Return a mask of the rows that match a bound filter.

    Args:
        bound: The bound filter.
        rows: A `pyarrow.Table` or `RecordBatch`. Columns are found by the names in each predicate's path. Their Arrow types are those of the table's schema, or
            the large, view or dictionary forms of these types.

    Returns:
        A `BooleanArray` as long as the rows, without nulls.

    Raises:
        InvalidFilterError: The filter is not bound, or the rows lack a column that it tests.
    """
    if isinstance(bound, AlwaysTrue | AlwaysFalse):
        return _constant(isinstance(bound, AlwaysTrue), rows.num_rows)
    if isinstance(bound, And | Or):
        combine = pc.and_ if isinstance(bound, And) else pc.or_
        mask = arrow_mask(bound.terms[0], rows)
        for term in bound.terms[1:]:
            mask = combine(mask, arrow_mask(term, rows))
        return mask
    if not isinstance(bound, BoundPredicate):
        raise InvalidFilterError(f"{bound} is not bound to a schema")
    return pc.fill_null(_test(bound, _column(bound, rows)), False)


def _constant(value: bool, length: int) -> Any:
    return pa.repeat(pa.scalar(value), length)


def _column(predicate: BoundPredicate, rows: Any) -> Any:
    if predicate.path[0] not in rows.schema.names:
        raise InvalidFilterError(f"the rows have no column {predicate.path[0]!r}, which the filter tests")
    column = array_of_chunks(rows.column(predicate.path[0]))
    for name in predicate.path[1:]:
        if column.type.get_field_index(name) < 0:
            raise InvalidFilterError(f"the rows have no column {predicate.column!r}, which the filter tests")
        column = pc.struct_field(column, [column.type.get_field_index(name)])
    return column


def _physical(kind: PrimitiveType, column: Any) -> Any:
    """Return the column as physical values: dates and times as numbers, fixed and uuid as binary."""
    if isinstance(kind, TimeType) and column.type != pa.time64("us"):
        column = column.cast(pa.time64("us"))
    elif type(kind) in _UNITS and pa.types.is_timestamp(column.type) and column.type.unit != _UNITS[type(kind)]:
        column = column.cast(pa.timestamp(_UNITS[type(kind)], column.type.tz))
    elif isinstance(kind, DateType) and column.type != pa.date32():
        column = column.cast(pa.date32())
    return comparison_array(kind, column.cast(physical_arrow_type(kind)))


def _test(predicate: BoundPredicate, column: Any) -> Any:
    if predicate.operation is PredicateOperator.IS_NULL:
        return pc.is_null(column)
    if predicate.operation is PredicateOperator.NOT_NULL:
        return pc.is_valid(column)
    if predicate.operation is PredicateOperator.IS_NAN:
        return pc.is_nan(column)
    if predicate.operation is PredicateOperator.NOT_NAN:
        return pc.fill_null(pc.invert(pc.is_nan(column)), True)
    kind = predicate.kind
    return _compare(predicate, _physical(kind, column), predicate.literals, is_float(kind))


def _compare(predicate: BoundPredicate, values: Any, literals: Any, floats: bool) -> Any:
    match predicate.operation:
        case PredicateOperator.EQ:
            return pc.equal(values, literals[0])
        case PredicateOperator.NOT_EQ:
            return pc.not_equal(values, literals[0])
        case PredicateOperator.LT:
            return pc.less(values, literals[0])
        case PredicateOperator.LT_EQ:
            return pc.less_equal(values, literals[0])
        case PredicateOperator.GT:
            return _or_nan(pc.greater(values, literals[0]), values, floats)
        case PredicateOperator.GT_EQ:
            return _or_nan(pc.greater_equal(values, literals[0]), values, floats)
        case PredicateOperator.IN:
            return _is_in(predicate, _plain_zero(values, floats))
        case PredicateOperator.NOT_IN:
            return pc.and_(pc.is_valid(values), pc.invert(_is_in(predicate, _plain_zero(values, floats))))
        case PredicateOperator.STARTS_WITH:
            return pc.starts_with(values, predicate.value)
        case _:
            return pc.invert(pc.starts_with(values, predicate.value))


def _is_in(predicate: BoundPredicate, values: Any) -> Any:
    """Return a mask of the values that are in a predicate's set. For few values Arrow is not used, because it hashes the set at every call."""
    if len(values) * FEW_VALUES < len(predicate.values):
        members = predicate.literal_set
        return array_of([value in members for value in values.to_pylist()], pa.bool_())
    return pc.is_in(values, value_set=predicate.literals)


def _or_nan(mask: Any, values: Any, floats: bool) -> Any:
    return pc.or_(mask, pc.is_nan(values)) if floats else mask


def _plain_zero(values: Any, floats: bool) -> Any:
    """Return the values with 0.0 for -0.0, because Arrow's hashes distinguish the two. Only `floats` are changed."""
    return pc.add(values, 0.0) if floats else values
