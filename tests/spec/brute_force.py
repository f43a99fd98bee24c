"""Filters over plain Python rows, one row at a time: the model for the vectorized evaluators and for pruning.

Rows are dicts of physical values by column. The semantics are written down here a second time on purpose: three-valued logic, NaN after everything.
"""

import math
import uuid
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from icefloe.spec.expressions import predicate as p
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
    NestedField,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimeType,
    UUIDType,
)
from icefloe.spec.values import physical_array

Row = Mapping[str, Any]

SCHEMA = Schema(
    NestedField(1, "i", IntegerType()),
    NestedField(2, "l", LongType()),
    NestedField(3, "s", StringType()),
    NestedField(4, "f", DoubleType()),
    NestedField(5, "g", FloatType()),
    NestedField(6, "d", DateType()),
    NestedField(7, "t", TimestampType()),
    NestedField(8, "m", DecimalType(9, 2)),
    NestedField(9, "u", UUIDType()),
    NestedField(10, "y", BinaryType()),
    NestedField(11, "b", BooleanType()),
    NestedField(12, "n", TimestampNanoType()),
    NestedField(13, "z", TimestamptzNanoType()),
    NestedField(14, "c", TimeType()),
)
ARROW_TYPES = {
    "d": pa.date32(),
    "t": pa.timestamp("us"),
    "n": pa.timestamp("ns"),
    "z": pa.timestamp("ns", "UTC"),
    "u": pa.binary(16),
    "c": pa.time64("us"),
}
HOUR = 3_600_000_000

# Few values, so that filters often match them, including the limits of each type.
_INTS = [-(2**31), -(2**31) + 1, -11, -10, -1, 0, 1, 2, 5, 9, 10, 11, 2**31 - 2, 2**31 - 1]
_FLOATS = [-math.inf, -1.5, -0.0, 0.0, 0.5, 1.0, 3.0, math.inf, math.nan]
_TEXTS = ["", "a", "aa", "aab", "ab", "abc", "abd", "b", "ba", "é", "ééé", "a\ud7ff", "a\ue000", "\U0010ffff", "\U0010ffff\U0010ffff", "ÿ"]
_UUIDS = [uuid.UUID(int=number) for number in (0, 1, 2**64, 2**127 - 1, 2**127, 2**128 - 1)]
_BYTES = [b"", b"\x00", b"a", b"ab", b"abc", b"\xff", b"\xff\xff", b"\xfe\xff"]
VALUES: dict[str, list[Any]] = {
    "i": _INTS,
    "l": [*_INTS, -(2**63), 2**63 - 1, 2**40],
    "s": _TEXTS,
    "f": _FLOATS,
    "g": [*_FLOATS, 0.10000000149011612],
    "d": [-800, -366, -365, -32, -31, -1, 0, 1, 30, 31, 365, 16000],
    "t": [-400 * 24 * HOUR, -HOUR - 1, -HOUR, -1, 0, 1, HOUR - 1, HOUR, 24 * HOUR, 40 * 24 * HOUR, 400 * 24 * HOUR],
    "m": [Decimal(text) for text in ("-9999999.99", "-0.51", "-0.50", "0.00", "0.01", "0.49", "0.50", "1.00", "9999999.99")],
    "u": _UUIDS,
    "y": _BYTES,
    "b": [False, True],
    "n": [-400 * 24 * HOUR * 1000, -HOUR * 1000 - 1, -1000, -999, -1, 0, 1, 999, 1000, HOUR * 1000, 24 * HOUR * 1000, 2**63 - 1, -(2**63)],
    "z": [-1, 0, 1, 31 * 24 * HOUR * 1000],
    "c": [0, 1, HOUR - 1, HOUR, 12 * HOUR, 24 * HOUR - 1],
}
# Literals between or beyond a column's values.
_ODD_LITERALS: dict[str, list[Any]] = {
    "i": [2.5, -10.5, 2**31, -(2**31) - 1, 10**30, Decimal("1.5"), math.inf, math.nan, "5"],
    "l": [2.5, 2**63, -(2**63) - 1, Decimal("0.1")],
    "f": [0.1, 2, Decimal("0.5"), 10**400],
    "g": [0.1, 2, Decimal("0.5")],
    # Times between two microseconds, and times beyond the range of nanoseconds.
    "t": [np.datetime64(1, "ns"), np.datetime64(-1, "ns"), np.datetime64(HOUR * 1000 + 1, "ns")],
    "d": [np.datetime64(1, "ns"), np.datetime64(-1, "s")],
    "n": [np.datetime64("2500-01-01"), np.datetime64("1500-01-01"), np.datetime64(1, "us")],
    "m": [0.005, Decimal("0.015"), 10**8, -(10**8), 1, "0.5"],
}
_LITERAL_KINDS = [p.EqualTo, p.NotEqualTo, p.LessThan, p.LessThanOrEqual, p.GreaterThan, p.GreaterThanOrEqual]


def rows(columns: tuple[str, ...] = tuple(VALUES), max_size: int = 12) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Generate rows of these columns, in which every value may be null; the other columns are null."""
    cells = st.tuples(*(st.sampled_from([None, *VALUES[name]]) for name in columns))
    return st.lists(cells.map(lambda drawn: {**dict.fromkeys(VALUES), **dict(zip(columns, drawn, strict=True))}), max_size=max_size)


def some_columns() -> st.SearchStrategy[tuple[str, ...]]:
    """Generate one or two columns: few, so that filters and partitions use the columns of the rows."""
    return st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=2, unique=True).map(tuple)


@st.composite
def leaves(draw: st.DrawFn, columns: tuple[str, ...] = tuple(VALUES)) -> p.BooleanExpression:
    """Generate one predicate on one of the columns."""
    column = draw(st.sampled_from(columns))
    literals = st.sampled_from([*VALUES[column], *_ODD_LITERALS.get(column, [])])
    forms = (
        ["compare", "compare", "compare", "set", "null"] + (["nan"] if column in "fg" else []) + (["prefix"] * 3 if column == "s" else [])
    )
    match draw(st.sampled_from(forms)):
        case "null":
            return draw(st.sampled_from([p.IsNull, p.NotNull]))(column)
        case "nan":
            return draw(st.sampled_from([p.IsNaN, p.NotNaN]))(column)
        case "prefix":
            return draw(st.sampled_from([p.StartsWith, p.NotStartsWith]))(column, draw(literals))
        case "set":
            return draw(st.sampled_from([p.In, p.NotIn]))(column, draw(st.lists(literals, min_size=1, max_size=4)))
        case _:
            return draw(st.sampled_from(_LITERAL_KINDS))(column, draw(literals))


def filters(columns: tuple[str, ...] = tuple(VALUES)) -> st.SearchStrategy[p.BooleanExpression]:
    """Generate predicates, and trees of AND, OR and NOT over them."""
    return st.recursive(
        leaves(columns),
        lambda inner: st.one_of(st.builds(p.And, inner, inner), st.builds(p.Or, inner, inner), st.builds(p.Not, inner)),
        max_leaves=4,
    )


def truth(expression: p.BooleanExpression, row: Row) -> bool | None:
    """Evaluate to TRUE, FALSE or null (None), as in SQL."""
    match expression:
        case p.AlwaysTrue():
            return True
        case p.AlwaysFalse():
            return False
        case p.Not(child):
            inner = truth(child, row)
            return None if inner is None else not inner
        case p.And(terms):
            truths = [truth(term, row) for term in terms]
            return False if False in truths else None if None in truths else True
        case p.Or(terms):
            truths = [truth(term, row) for term in terms]
            return True if True in truths else None if None in truths else False
        case p.UnaryPredicate(column):
            return _unary(expression, row[column])
        case p.SetPredicate(column, literals):
            if row[column] is None:
                return None
            inside = any(_order(row[column], literal, column) == 0 for literal in literals)
            return inside if isinstance(expression, p.In) else not inside
        case p.LiteralPredicate(column, literal):
            return None if row[column] is None else _compare(expression, row[column], literal)
    raise AssertionError(expression)


def _unary(expression: p.UnaryPredicate, value: Any) -> bool:
    is_nan = isinstance(value, float) and math.isnan(value)
    return {p.IsNull: value is None, p.NotNull: value is not None, p.IsNaN: is_nan, p.NotNaN: not is_nan}[type(expression)]


def _compare(expression: p.LiteralPredicate, value: Any, literal: Any) -> bool:
    if isinstance(expression, p.StartsWith | p.NotStartsWith):
        return value.startswith(literal) == isinstance(expression, p.StartsWith)
    order = _order(value, literal, expression.term)
    return {
        p.EqualTo: order == 0,
        p.NotEqualTo: order != 0,
        p.LessThan: order < 0,
        p.LessThanOrEqual: order <= 0,
        p.GreaterThan: order > 0,
        p.GreaterThanOrEqual: order >= 0,
    }[type(expression)]


# Nanoseconds in the unit of each column of times.
_NANOS = {"d": 24 * HOUR * 1000, "t": 1000, "n": 1, "z": 1}


def _moment(literal: np.datetime64) -> Fraction:
    """Return nanoseconds since 1970 in unbounded integers."""
    unit, step = np.datetime_data(literal.dtype)
    scale = {"D": 24 * HOUR * 1000, "s": 10**9, "us": 1000, "ns": 1}[unit]
    return Fraction(int(literal.astype(np.int64)) * step * scale)


def _order(value: Any, literal: Any, column: str = "") -> int:
    """Compare and return -1, 0 or 1."""
    if isinstance(literal, np.datetime64):
        literal = _moment(literal) / Fraction(_NANOS[column])
    if isinstance(literal, str) and not isinstance(value, str):
        literal = Decimal(literal)
    if isinstance(value, float) and isinstance(literal, Decimal):
        literal = float(literal)
    if isinstance(value, Decimal) and isinstance(literal, float) and math.isfinite(literal):
        literal = Decimal(repr(literal))
    left, right = (isinstance(one, float) and math.isnan(one) for one in (value, literal))
    if left or right:
        return int(left) - int(right)
    return (value > literal) - (value < literal)


def arrow_table(rows_to_convert: list[dict[str, Any]]) -> Any:
    """Return the rows as an Arrow table in the schema's Arrow types."""
    columns = {}
    for field in SCHEMA.fields:
        array = physical_array(field.field_type, [row[field.name] for row in rows_to_convert])
        columns[field.name] = array.cast(ARROW_TYPES.get(field.name, array.type))
    return pa.table(columns)
