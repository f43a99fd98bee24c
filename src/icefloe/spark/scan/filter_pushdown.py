"""Spark's pushed predicates as Iceberg expressions: exactly the same rows, or none at all.

A predicate of SQL is true, false or unknown; what is said here is where it is true. Functions of dates are `period_pushdown.py`'s, `truncate` is
`truncate_pushdown.py`'s; `bucket_pushdown.py` has what is no expression. Spec: Scan Planning.
"""

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from icefloe.errors import InvalidFilterError, InvalidSchemaError
from icefloe.kernel.expressions.bind import bind
from icefloe.kernel.expressions.predicate import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNull,
    LessThan,
    LessThanOrEqual,
    NotEqualTo,
    NotIn,
    NotNull,
    NotStartsWith,
    Or,
    StartsWith,
    all_of,
    any_of,
)
from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.types import IcebergType, UUIDType
from icefloe.spark.functions.spark_functions import call_of
from icefloe.spark.scan.local_days import LocalDays
from icefloe.spark.scan.period_pushdown import NotAPeriod, check_date_like, period_of
from icefloe.spark.scan.period_pushdown import test_of as test_of_period
from icefloe.spark.scan.truncate_pushdown import NotATruncation, truncation_of
from icefloe.spark.scan.truncate_pushdown import test_of as test_of_truncation

Plain = Mapping[str, Any]

# Tests of a column and a value: where each is true, and where it is false. A null is neither. That NaN is the greatest number and equals itself, and -0.0
# equals 0.0, is what expressions mean too.
_TESTS: Mapping[str, tuple[Callable[[str, Any], BooleanExpression], Callable[[str, Any], BooleanExpression]]] = {
    "=": (EqualTo, NotEqualTo),
    "<>": (NotEqualTo, EqualTo),
    "<": (LessThan, GreaterThanOrEqual),
    "<=": (LessThanOrEqual, GreaterThan),
    ">": (GreaterThan, LessThanOrEqual),
    ">=": (GreaterThanOrEqual, LessThan),
    "STARTS_WITH": (StartsWith, NotStartsWith),
}
# The operators that are false where these are true, for tests of periods.
_OPPOSITE = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">", "<=>": "not <=>"}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "<>": "<>", "<=>": "<=>"}


class _NotThe(Exception):  # noqa: N818 never leaves this file
    """There is no expression with the same meaning."""


@dataclass(frozen=True, slots=True)
class _Columns:
    """What predicates are about: the columns, and the days of timestamps where the session's time zone is known."""

    schema: Schema
    days: LocalDays | None


def expressions_of(predicates: Sequence[Plain], schema: Schema, days: LocalDays | None = None) -> list[BooleanExpression | None]:
    """For each predicate the expression that is true for exactly the rows for which it is; None where there is none. `days` are those of the session."""
    return [_expression_of(one, _Columns(schema, days)) for one in predicates]


def pruning_filter(predicates: Sequence[Plain], schema: Schema, days: LocalDays | None = None) -> BooleanExpression:
    """What every row of interest fulfils: the predicates that can be said, together."""
    return all_of([found for found in expressions_of(predicates, schema, days) if found is not None])


def _expression_of(predicate: Plain, columns: _Columns) -> BooleanExpression | None:
    try:
        found = _rows_where(predicate, columns, outcome=True)
        bind(found, columns.schema)
    except (_NotThe, NotAPeriod, NotATruncation, InvalidFilterError, InvalidSchemaError):
        return None
    return found


def _rows_where(node: Plain, columns: _Columns, *, outcome: bool) -> BooleanExpression:
    """What holds for exactly the rows for which a predicate is true, or is false. It may be neither: NOT changes one for the other and keeps the third."""
    if node["is"] == "reference":
        return EqualTo(_column(node, columns.schema)[0], outcome)
    if node["is"] == "literal" and json.loads(node["type"]) == "boolean":
        return _constant(node["value"] == str(outcome).lower())
    if node["is"] not in ("call", "Predicate", "And", "Or", "Not", "AlwaysTrue", "AlwaysFalse"):
        raise _NotThe
    name, children = node["name"], node["children"]
    if name in ("AND", "OR"):
        sides = [_rows_where(child, columns, outcome=outcome) for child in children]
        return And(*sides) if (name == "AND") == outcome else Or(*sides)
    if name == "NOT":
        return _rows_where(children[0], columns, outcome=not outcome)
    if name in ("ALWAYS_TRUE", "ALWAYS_FALSE"):
        return _constant((name == "ALWAYS_TRUE") == outcome)
    if name == "BOOLEAN_EXPRESSION":
        return _rows_where(children[0], columns, outcome=outcome)
    return _test(name, children, columns, outcome=outcome)


def _test(name: str, children: Sequence[Plain], columns: _Columns, *, outcome: bool) -> BooleanExpression:
    if not children:  # Spark's own test of whole partitions, which says nothing of itself
        raise _NotThe
    if name in _MIRRORED and children[0]["is"] == "literal":
        name, children = _MIRRORED[name], children[::-1]
    if children[0]["is"] != "reference":
        return _test_of_function(name, children[0], children[1:], columns, outcome=outcome)
    column, kind = _column(children[0], columns.schema)
    if name in ("IS_NULL", "IS_NOT_NULL"):
        return IsNull(column) if (name == "IS_NULL") == outcome else NotNull(column)
    values = [_value(child) for child in children[1:]]
    if isinstance(kind, UUIDType) and not all(value is None or _is_uuid(value) for value in values):
        raise _NotThe
    if name == "IN":
        return _one_of(column, values, outcome=outcome)
    if len(values) != 1:
        raise _NotThe
    value = values[0]
    if name == "<=>":
        if value is None:
            return IsNull(column) if outcome else NotNull(column)
        return EqualTo(column, value) if outcome else Or(IsNull(column), NotEqualTo(column, value))
    if name not in _TESTS:
        raise _NotThe
    if value is None:  # then the test is neither true nor false, whatever the row
        return AlwaysFalse()
    return _TESTS[name][0 if outcome else 1](column, value)


def _test_of_function(name: str, function: Plain, others: Sequence[Plain], columns: _Columns, *, outcome: bool) -> BooleanExpression:
    """As `_test`, of a function of a column; the function is null where the column is."""
    column, test = _function(function, others, columns)
    if name in ("IS_NULL", "IS_NOT_NULL"):
        return IsNull(column) if (name == "IS_NULL") == outcome else NotNull(column)
    values = [_value(child) for child in others]
    known = [value for value in values if value is not None]
    if name == "IN":
        if not values or (not outcome and len(known) < len(values)):
            return _one_of(column, values, outcome=outcome)
        tests = [test("=" if outcome else "<>", value) for value in known]
        return any_of(tests) if outcome else all_of(tests)
    if len(values) != 1 or name not in _OPPOSITE:
        raise _NotThe
    if not known:
        return (IsNull(column) if outcome else NotNull(column)) if name == "<=>" else AlwaysFalse()
    return test({"<=>": "="}.get(name, name) if outcome else _OPPOSITE[name], known[0])


def _function(node: Plain, others: Sequence[Plain], columns: _Columns) -> tuple[str, Callable[[str, Any], BooleanExpression]]:
    """The column that a function is of, and where a test of what the function makes of it is true, by operator and value."""
    truncation = truncation_of(node)
    if truncation is not None:
        column, kind = _column(truncation.column, columns.schema)
        return column, lambda operator, value: test_of_truncation(truncation, operator, value, column, kind)
    bucket = call_of(node, "bucket")
    if bucket is not None:
        return _column(bucket.column, columns.schema)[0], _unsaid
    period = period_of(node)
    column, kind = _column(period.column, columns.schema)
    check_date_like(kind)
    if any(child["is"] != "literal" or json.loads(child["type"]) not in period.takes for child in others):
        raise _NotThe
    return column, lambda operator, value: test_of_period(period, operator, value, column, kind, columns.days)


def _unsaid(_: str, __: Any) -> BooleanExpression:
    raise _NotThe


def _one_of(column: str, values: Sequence[Any], *, outcome: bool) -> BooleanExpression:
    """With a null among the values, a row is one of them or it is not known whether it is."""
    known = tuple(value for value in values if value is not None)
    if outcome:
        return In(column, known) if known else AlwaysFalse()
    if not known and len(values) == 0:
        raise _NotThe  # Spark's settings say what it means
    return NotIn(column, known) if len(known) == len(values) else AlwaysFalse()


def _constant(is_true: bool) -> BooleanExpression:
    return AlwaysTrue() if is_true else AlwaysFalse()


def _is_uuid(text: Any) -> bool:
    """Whether it is a uuid's text as Spark has it. Spark compares uuids as their texts, which in that form are in the order of the bytes."""
    try:
        return isinstance(text, str) and str(uuid.UUID(text)) == text
    except ValueError:
        return False


def _column(node: Plain, schema: Schema) -> tuple[str, IcebergType]:
    """The dotted name of the column, where that name means no other one."""
    if node["is"] != "reference":
        raise _NotThe
    name, fields = ".".join(node["parts"]), schema.fields
    found = None
    for part in node["parts"]:
        found = next((field for field in fields if field.name == part), None)
        if found is None:
            raise _NotThe
        fields = getattr(found.field_type, "fields", ())
    if found is None or name in schema.ambiguous_names or schema.find_field(name).field_id != found.field_id:
        raise _NotThe
    return name, found.field_type


def literal_value(node: Plain) -> Any:
    """A literal's value as expressions and column defaults take it; None for null and for what is no single value."""
    try:
        return _value(node)
    except _NotThe:
        return None


def _value(node: Plain) -> Any:
    """A literal's value as expressions take it; dates, and timestamps and times, as numbers of days and of microseconds."""
    if node["is"] != "literal":
        raise _NotThe
    kind, text = json.loads(node["type"]), node["value"]
    if text is None:
        return None
    if kind == "string":
        return text
    if kind == "boolean":
        return text == "true"
    if kind in ("byte", "short", "integer", "long"):
        return int(text)
    if kind in ("float", "double"):
        number = float(text.replace("Infinity", "inf"))
        # The shortest text of a float is that of another double.
        return float(np.float32(number)) if kind == "float" else number
    if isinstance(kind, str) and kind.startswith("decimal"):
        return Decimal(text)
    if kind == "binary":
        return bytes.fromhex(text)
    if kind in ("date", "timestamp", "timestamp_ntz"):
        return int(text)
    if isinstance(kind, str) and kind.startswith("time("):
        micros, rest = divmod(int(text), 1000)  # Spark's own number is of nanoseconds
        if not rest:
            return micros
    raise _NotThe
