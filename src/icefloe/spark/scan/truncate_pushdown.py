"""Tests of what `lake.system.truncate(n, column)` makes of a column, as tests of the column: a number between two others, a text that begins with another.

Spec: Partition Transforms (truncate).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from icefloe.kernel.expressions.predicate import (
    AlwaysFalse,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThanOrEqual,
    IsNull,
    LessThan,
    NotEqualTo,
    NotNull,
    NotStartsWith,
    Or,
    StartsWith,
    all_of,
    any_of,
)
from icefloe.kernel.literals import INTEGER_RANGES
from icefloe.kernel.partitioning.transforms import TruncateTransform
from icefloe.kernel.types import DecimalType, IcebergType, IntegerType, LongType, StringType
from icefloe.kernel.values import decimal_of, unscaled
from icefloe.spark.functions.spark_functions import call_of

Plain = Mapping[str, Any]


class NotATruncation(Exception):  # noqa: N818 says what the caller does next
    """It is no such function, or no test of it that can be said."""


@dataclass(frozen=True, slots=True)
class Truncation:
    """`truncate(width, column)`."""

    column: Plain
    width: int


def truncation_of(node: Plain) -> Truncation | None:
    """The function that a node is; None where it is another."""
    found = call_of(node, "truncate")
    return None if found is None else Truncation(found.column, found.number)


def test_of(truncation: Truncation, operator: str, value: Any, column: str, kind: IcebergType) -> BooleanExpression:
    """Where `truncate(width, column) operator value` is true, for `=`, `<>` and `not <=>`. Raises `NotATruncation`."""
    if operator == "not <=>":
        return Or(IsNull(column), test_of(truncation, "<>", value, column, kind))
    if operator not in ("=", "<>"):
        raise NotATruncation
    of = _of_text if isinstance(kind, StringType) else _of_number
    return of(truncation.width, value, column, kind, is_equal=operator == "=")


def _of_text(width: int, value: Any, column: str, _: IcebergType, *, is_equal: bool) -> BooleanExpression:
    if not isinstance(value, str):
        raise NotATruncation
    if len(value) > width:
        return AlwaysFalse() if is_equal else NotNull(column)
    if len(value) == width:
        return StartsWith(column, value) if is_equal else NotStartsWith(column, value)
    return EqualTo(column, value) if is_equal else NotEqualTo(column, value)


def _of_number(width: int, value: Any, column: str, kind: IcebergType, *, is_equal: bool) -> BooleanExpression:
    sources: list[tuple[Any, Any]] = []  # from, below
    if isinstance(kind, IntegerType | LongType) and isinstance(value, int):
        if value % width == 0:
            sources.append((value, value + width))
        if value == TruncateTransform(width).wrapped_result(kind):
            least, _ = INTEGER_RANGES[type(kind)]
            sources.append((least, least - least % -width))
    elif isinstance(kind, DecimalType) and isinstance(value, Decimal) and value == round(value, kind.scale):
        number = unscaled(value, kind.scale)
        if number % width == 0:
            sources.append((value, decimal_of(number + width, kind.scale)))
    else:
        raise NotATruncation
    if is_equal:
        return any_of([And(GreaterThanOrEqual(column, start), LessThan(column, end)) for start, end in sources])
    return all_of([NotNull(column), *(Or(LessThan(column, start), GreaterThanOrEqual(column, end)) for start, end in sources)])
