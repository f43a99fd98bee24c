"""Spark's pushed predicates as Iceberg expressions: exactly the same rows, or none at all.

Spark's comparisons differ from Iceberg's: NaN is the greatest number there, and equal to itself. Floor: spark. Spec: Scan Planning.
"""

import json
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

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
    IsNaN,
    IsNull,
    LessThan,
    LessThanOrEqual,
    NotEqualTo,
    NotNaN,
    NotNull,
    Or,
    StartsWith,
    all_of,
    any_of,
    negation,
)
from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.types import DoubleType, FloatType, IcebergType, UUIDType

Plain = Mapping[str, Any]

_ORDER = {"<": LessThan, "<=": LessThanOrEqual, ">": GreaterThan, ">=": GreaterThanOrEqual}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "<>": "<>", "<=>": "<=>"}


class _NotThe(Exception):  # noqa: N818 never leaves this file
    """There is no expression with the same meaning."""


def expressions_of(predicates: Sequence[Plain], schema: Schema) -> list[BooleanExpression | None]:
    """For each predicate the expression that is true for exactly the rows for which it is; None where there is none."""
    return [_expression_of(one, schema) for one in predicates]


def pruning_filter(predicates: Sequence[Plain], schema: Schema) -> BooleanExpression:
    """What every row of interest fulfils: the predicates that can be said, together."""
    return all_of([found for found in expressions_of(predicates, schema) if found is not None] or [AlwaysTrue()])


def _expression_of(predicate: Plain, schema: Schema) -> BooleanExpression | None:
    try:
        found = _convert(predicate, schema)
        bind(found, schema)
    except (_NotThe, InvalidFilterError, InvalidSchemaError):
        return None
    return found


def _convert(node: Plain, schema: Schema) -> BooleanExpression:
    if node["is"] == "reference":
        return EqualTo(_column(node, schema)[0], True)
    if node["is"] == "literal" and node["value"] in ("true", "false"):
        return AlwaysTrue() if node["value"] == "true" else AlwaysFalse()
    if node["is"] not in ("call", "Predicate", "And", "Or", "Not", "AlwaysTrue", "AlwaysFalse"):
        raise _NotThe
    name, children = node["name"], node["children"]
    if name in ("AND", "OR"):
        sides = [_convert(child, schema) for child in children]
        return And(*sides) if name == "AND" else Or(*sides)
    if name == "NOT":
        return negation(_convert(children[0], schema))
    if name in ("ALWAYS_TRUE", "ALWAYS_FALSE"):
        return AlwaysTrue() if name == "ALWAYS_TRUE" else AlwaysFalse()
    if name == "BOOLEAN_EXPRESSION":
        return _convert(children[0], schema)
    return _test(name, children, schema)


def _test(name: str, children: Sequence[Plain], schema: Schema) -> BooleanExpression:
    if name in _MIRRORED and children[0]["is"] == "literal":
        name, children = _MIRRORED[name], children[::-1]
    column, kind = _column(children[0], schema)
    if name == "IS_NULL":
        return IsNull(column)
    if name == "IS_NOT_NULL":
        return NotNull(column)
    values = [_value(child) for child in children[1:]]
    if name == "IN":
        return any_of([_equal(column, kind, value) for value in values if value is not None] or [AlwaysFalse()])
    value = values[0]
    if name == "<=>":
        return IsNull(column) if value is None else _equal(column, kind, value)
    if value is None:
        raise _NotThe
    if name == "STARTS_WITH":
        return StartsWith(column, value)
    if name == "=":
        return _equal(column, kind, value)
    if name == "<>":
        # Without the rest, a null would be unequal to a value, which in SQL it is not.
        return And(NotNull(column), NotNaN(column) if _is_nan(value) else NotEqualTo(column, value))
    if name in _ORDER:
        return _ordered(name, column, kind, value)
    raise _NotThe


def _equal(column: str, kind: IcebergType, value: Any) -> BooleanExpression:
    if _is_nan(value):
        return IsNaN(column)
    return EqualTo(column, value) if not isinstance(kind, FloatType | DoubleType) or value != 0 else In(column, [0.0, -0.0])


def _ordered(name: str, column: str, kind: IcebergType, value: Any) -> BooleanExpression:
    if not isinstance(kind, FloatType | DoubleType):
        return _ORDER[name](column, value)
    if _is_nan(value):
        every = {"<": NotNaN(column), "<=": NotNull(column), ">": AlwaysFalse(), ">=": IsNaN(column)}[name]
        return And(NotNull(column), every) if name == "<" else every
    found = And(NotNaN(column), _ORDER[name](column, value))
    return Or(found, IsNaN(column)) if name in (">", ">=") else found


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


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
    # Spark compares a uuid as its text, whatever its case.
    if found is None or schema.find_field(name).field_id != found.field_id or isinstance(found.field_type, UUIDType):
        raise _NotThe
    return name, found.field_type


def literal_value(node: Plain) -> Any:
    """A literal's value as expressions and column defaults take it; None for null and for what is no single value."""
    try:
        return _value(node)
    except _NotThe:
        return None


def _value(node: Plain) -> Any:
    """A literal's value as expressions take it; dates and timestamps as numbers of days and microseconds."""
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
        return float(text.replace("Infinity", "inf"))
    if isinstance(kind, str) and kind.startswith("decimal"):
        return Decimal(text)
    if kind == "binary":
        return bytes.fromhex(text)
    if kind in ("date", "timestamp", "timestamp_ntz"):
        return int(text)
    raise _NotThe
