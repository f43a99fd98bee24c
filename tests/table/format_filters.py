"""Random filters over plain values (`format_values.py`): as a tree of tuples, as the filter that a user writes, and evaluated in SQL's three-valued logic.

A tree is ("compare", column, sign, literal), ("in", column, literals), ("null", column), ("nan", column), ("prefix", column, text), ("not", tree),
("and", tree, tree), ("or", tree, tree). A column is the path of field ids to it, with its dotted name.
"""

import datetime as dt
import math
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st
from tests.table.format_values import DAY, VALUES, Plain

from icefloe import (
    And,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNaN,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    NotEqualTo,
    Or,
    StartsWith,
)
from icefloe.spec.types import (
    DateType,
    DoubleType,
    FloatType,
    IcebergType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

EPOCH = dt.datetime(1970, 1, 1)
COMPARISONS = {
    "=": EqualTo,
    "!=": NotEqualTo,
    "<": LessThan,
    "<=": LessThanOrEqual,
    ">": GreaterThan,
    ">=": GreaterThanOrEqual,
}
ORDERED: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
Tree = tuple[Any, ...]


@dataclass(frozen=True)
class Column:
    path: tuple[int, ...]
    name: str
    kind: IcebergType

    def of(self, row: Plain) -> Plain:
        for number in self.path:
            if row is None:
                return None
            row = row[number]
        return row


def columns(fields: tuple[NestedField, ...], path: tuple[int, ...] = (), prefix: str = "") -> Iterator[Column]:
    """Yield every column that a filter can name: those of the table and the fields of structs."""
    for field in fields:
        yield Column((*path, field.field_id), prefix + field.name, field.field_type)
        if isinstance(field.field_type, StructType):
            yield from columns(field.field_type.fields, (*path, field.field_id), f"{prefix}{field.name}.")


def trees(fields: tuple[NestedField, ...]) -> st.SearchStrategy[Tree]:
    leaf = st.sampled_from(list(columns(fields))).flatmap(leaves)
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.tuples(st.just("not"), inner), st.tuples(st.just("and"), inner, inner), st.tuples(st.just("or"), inner, inner)
        ),
        max_leaves=3,
    )


def leaves(column: Column) -> st.SearchStrategy[Tree]:
    found: list[st.SearchStrategy[Tree]] = [st.just(("null", column))]
    kind = column.kind
    if comparable(kind):
        literal = st.sampled_from(VALUES[kind])
        found += [st.tuples(st.just("compare"), st.just(column), st.sampled_from(list(COMPARISONS)), literal)] * 3
        found.append(st.tuples(st.just("in"), st.just(column), st.lists(literal, min_size=1, max_size=3)))
    if isinstance(kind, FloatType | DoubleType):
        found.append(st.just(("nan", column)))
    if isinstance(kind, StringType):
        found.append(st.tuples(st.just("prefix"), st.just(column), st.sampled_from(["", "k", "ki", "größe/", "\U0001f42c" * 17, "k" * 17])))
    return st.one_of(*found)


def comparable(kind: IcebergType) -> bool:
    return kind in VALUES and kind.is_primitive and not str(kind).startswith("geo")


def native(kind: IcebergType, value: Plain) -> Any:
    """Return a plain value as the Python value of its type."""
    if isinstance(kind, DateType):
        return (EPOCH + dt.timedelta(days=value // DAY)).date()
    if isinstance(kind, TimeType):
        return (EPOCH + dt.timedelta(microseconds=value)).time()
    if isinstance(kind, TimestampType | TimestamptzType):
        moment = EPOCH + dt.timedelta(microseconds=value // 1000)
        return moment.replace(tzinfo=dt.UTC) if isinstance(kind, TimestamptzType) else moment
    if isinstance(kind, TimestampNanoType | TimestamptzNanoType):
        text = str(np.datetime64(value, "ns"))
        return text + "+00:00" if isinstance(kind, TimestamptzNanoType) else text
    return uuid.UUID(bytes=value) if isinstance(kind, UUIDType) else value


def as_filter(tree: Tree) -> Any:
    """Return the tree as a user's filter."""
    match tree:
        case ("compare", column, sign, literal):
            return COMPARISONS[sign](column.name, native(column.kind, literal))
        case ("in", column, literals):
            return In(column.name, [native(column.kind, literal) for literal in literals])
        case ("null", column):
            return IsNull(column.name)
        case ("nan", column):
            return IsNaN(column.name)
        case ("prefix", column, text):
            return StartsWith(column.name, text)
        case ("not", inner):
            return Not(as_filter(inner))
        case ("and", left, right):
            return And(as_filter(left), as_filter(right))
        case ("or", left, right):
            return Or(as_filter(left), as_filter(right))
    raise AssertionError(tree)


def ordered(value: Plain) -> Any:
    """Return a form of the value that can be compared: NaN equals itself and is after all numbers, and the zeros are equal."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value + 0.0)
    return value


def evaluate(tree: Tree, row: Plain) -> bool | None:
    """Evaluate the tree on a row: True, False, or None for unknown."""
    match tree:
        case ("null", column):
            return column.of(row) is None
        case ("nan", column):
            value = column.of(row)
            return value is not None and math.isnan(value)
        case ("compare", column, sign, literal):
            value = column.of(row)
            return None if value is None else ORDERED[sign](ordered(value), ordered(literal))
        case ("in", column, literals):
            value = column.of(row)
            return None if value is None else ordered(value) in [ordered(literal) for literal in literals]
        case ("prefix", column, text):
            value = column.of(row)
            return None if value is None else value.startswith(text)
        case ("not", inner):
            outcome = evaluate(inner, row)
            return None if outcome is None else not outcome
        case ("and", left, right):
            both = (evaluate(left, row), evaluate(right, row))
            return False if False in both else None if None in both else True
        case ("or", left, right):
            both = (evaluate(left, row), evaluate(right, row))
            return True if True in both else None if None in both else False
    raise AssertionError(tree)
