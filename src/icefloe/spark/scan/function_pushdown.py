"""Push-down of predicates on functions of a column: Icefloe's `truncate` and `years` to `hours`, Spark's `year` and `trunc`, and casts to dates.

These functions preserve the order of the column's values. So a comparison of their result with a literal becomes a range of the column:
`CAST(ts AS DATE) = d`, `year(ts) >= 2024`, `lake.system.hours(ts) < 5`, `lake.system.truncate(10, id) = 20`.

`filter_pushdown.py` translates the predicates that contain these functions; `spark/functions/spark_functions.py` implements Icefloe's functions.
Spec: Partition Transforms (truncate); Scan Planning.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from typing import Any

import numpy as np
from pyspark.sql import SparkSession

from icefloe.spark.bridge.gateway import java_class
from icefloe.spark.functions.spark_functions import CANONICAL, call_of
from icefloe.spec.expressions.predicate import (
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
from icefloe.spec.literals import INTEGER_RANGES
from icefloe.spec.partitioning.transforms import TruncateTransform
from icefloe.spec.types import DateType, DecimalType, IcebergType, IntegerType, LongType, StringType, TimestampType, TimestamptzType
from icefloe.spec.values import decimal_of, unscaled_value

# An expression of Spark in the form of `bridge/java/ConnectorJson.java`: `kind` is its kind; `children`, `parts`, `type` and `value` describe it.
ExpressionJson = Mapping[str, Any]

DAY_S = 24 * 60 * 60
MICROS = 1_000_000
# In seconds: twice the maximum offset of a time zone from UTC, which is 18 hours. An instant that far from a local midnight may have an offset of the other
# sign.
_FARTHEST = 2 * 18 * 60 * 60
_EXTRACT = re.compile(r"EXTRACT\((\w+) FROM ")
# Months in each unit of `trunc`, by Spark's names. Weeks are handled separately; they begin on Monday.
_MONTHS = {"YEAR": 12, "YYYY": 12, "YY": 12, "QUARTER": 3, "MONTH": 1, "MON": 1, "MM": 1}
_WEEK = "WEEK"
_FIRST_MONDAY = -3  # 1969-12-29, in days since 1970-01-01
_WHOLE = ("byte", "short", "integer", "long")
# Spark also has dates outside of these years, but they may not fit in microseconds since 1970.
_FIRST_YEAR, _LAST_YEAR = -9999, 9999


class NotTranslatable(Exception):  # noqa: N818 a result, not a failure
    """Raised for a Spark predicate that has no Iceberg expression with the same meaning, so that only Spark evaluates it."""


@dataclass(frozen=True, slots=True)
class Truncation:
    """A call `truncate(width, column)` in a Spark predicate."""

    column: ExpressionJson
    width: int


def truncation_of(node: ExpressionJson) -> Truncation | None:
    """Parse an expression as a call of `truncate`; return None if it is not such a call."""
    call = call_of(node, "truncate")
    return None if call is None else Truncation(call.column, call.number)


def truncation_filter(truncation: Truncation, operator: str, value: Any, column: str, kind: IcebergType) -> BooleanExpression:
    """Translate `truncate(width, column) operator value` to a filter on the column.

    Args:
        truncation: The call of `truncate`.
        operator: `=`, `<>` or `not <=>`.
        value: The literal, never null.
        column: The dotted name of the column.
        kind: The type of the column.

    Raises:
        NotTranslatable: There is no such filter for the operator or the type of the value.
    """
    if operator == "not <=>":
        return Or(IsNull(column), truncation_filter(truncation, "<>", value, column, kind))
    if operator not in ("=", "<>"):
        raise NotTranslatable
    of_type = _truncated_text_filter if isinstance(kind, StringType) else _truncated_number_filter
    return of_type(truncation.width, value, column, kind, is_equal=operator == "=")


def _truncated_text_filter(width: int, value: Any, column: str, _: IcebergType, *, is_equal: bool) -> BooleanExpression:
    if not isinstance(value, str):
        raise NotTranslatable
    if len(value) > width:
        return AlwaysFalse() if is_equal else NotNull(column)
    if len(value) == width:
        return StartsWith(column, value) if is_equal else NotStartsWith(column, value)
    return EqualTo(column, value) if is_equal else NotEqualTo(column, value)


def _truncated_number_filter(width: int, value: Any, column: str, kind: IcebergType, *, is_equal: bool) -> BooleanExpression:
    ranges: list[tuple[Any, Any]] = []  # the first value, and the first value after the range
    if isinstance(kind, IntegerType | LongType) and isinstance(value, int):
        if value % width == 0:
            ranges.append((value, value + width))
        if value == TruncateTransform(width).wrapped_result(kind):
            least, _ = INTEGER_RANGES[type(kind)]
            ranges.append((least, least - least % -width))
    elif isinstance(kind, DecimalType) and isinstance(value, Decimal) and value == round(value, kind.scale):
        number = unscaled_value(value, kind.scale)
        if number % width == 0:
            ranges.append((value, decimal_of(number + width, kind.scale)))
    else:
        raise NotTranslatable
    if is_equal:
        return any_of([And(GreaterThanOrEqual(column, start), LessThan(column, end)) for start, end in ranges])
    return all_of([NotNull(column), *(Or(LessThan(column, start), GreaterThanOrEqual(column, end)) for start, end in ranges)])


@dataclass(frozen=True, slots=True)
class Period:
    """A function that maps dates or timestamps to the hour, day, week, month, quarter or year that contains them.

    Attributes:
        column: The argument of the function.
        first_step: A function that returns for a value the first step that the SQL function maps to this value or a later one. A step is a day, or with 24
            steps a day an hour, counted from 1970-01-01.
        literal_types: The Spark types of the literals with which results of the SQL function can be compared.
        steps_a_day: 1 or 24.
        in_utc: Whether days are days in UTC, independent of the session's time zone.
    """

    column: ExpressionJson
    first_step: Callable[[int], int]
    literal_types: tuple[str, ...]
    steps_a_day: int = 1
    in_utc: bool = False


def period_of(node: ExpressionJson) -> Period:
    """Return the period function that an expression calls.

    Raises:
        NotTranslatable: The expression does not call a period function.
    """
    if node["kind"] == "cast" and json.loads(node["type"]) == "date":
        return Period(node["children"][0], lambda day: day, ("date",))
    if node["kind"] == "Extract":
        extract = _EXTRACT.match(node["text"])
        if extract is not None and extract[1] == "YEAR":
            return Period(_without_date_cast(node["children"][0]), lambda year: _first_of_month((year - 1970) * 12), _WHOLE)
    if node["kind"] == "function" and node["name"].startswith(CANONICAL):
        name = node["name"].removeprefix(CANONICAL).partition("(")[0]
        if name in _FUNCTIONS:
            return replace(_FUNCTIONS[name], column=node["children"][0])
    if node["kind"] == "call" and node["name"] == "TRUNC" and node["children"][1]["kind"] == "literal":
        unit = str(node["children"][1]["value"]).upper()
        if unit == _WEEK:
            return Period(_without_date_cast(node["children"][0]), _week_from, ("date",))
        if unit in _MONTHS:
            return Period(_without_date_cast(node["children"][0]), lambda day: _months_from(day, _MONTHS[unit]), ("date",))
    raise NotTranslatable


def check_date_like(kind: IcebergType) -> None:
    """Raise `NotTranslatable` if a column is neither a date nor a timestamp: for text that is not a date, the function would return null for a value."""
    if not isinstance(kind, DateType | TimestampType | TimestamptzType):
        raise NotTranslatable


def period_filter(period: Period, operator: str, value: int, column: str, kind: IcebergType, days: "LocalDays | None") -> BooleanExpression:
    """Translate `function(column) operator value` to a range of the column.

    Args:
        period: The period function.
        operator: `=`, `<>`, `<`, `<=`, `>`, `>=` or `not <=>`.
        value: The literal: a whole number, or days since 1970-01-01.
        column: The dotted name of the column.
        kind: The type of the column.
        days: The days of the session's time zone, which determine the dates of timestamps with a zone; None if the zone is unknown.

    Raises:
        NotTranslatable: The operator is not supported, or a boundary has no exact value of the column's type.
    """
    start, end = (_boundary(period, step, kind, days) for step in (value, value + 1))
    below, above = LessThan(column, start), GreaterThanOrEqual(column, end)
    if operator == "=":
        return AlwaysFalse() if start == end else And(GreaterThanOrEqual(column, start), LessThan(column, end))
    if operator == "<>":
        return NotNull(column) if start == end else Or(below, above)
    if operator == "not <=>":
        return Or(IsNull(column), period_filter(period, "<>", value, column, kind, days))
    ranges = {"<": below, "<=": LessThan(column, end), ">": above, ">=": GreaterThanOrEqual(column, start)}
    if operator not in ranges:
        raise NotTranslatable
    return ranges[operator]


def _boundary(period: Period, value: int, kind: IcebergType, days: "LocalDays | None") -> int:
    """Return the least value of the column that the function maps to `value` or a later result. Raises `NotTranslatable` as `period_filter`."""
    step = period.first_step(value)
    day = step // period.steps_a_day
    if not _first_of_month((_FIRST_YEAR - 1970) * 12) <= day <= _first_of_month((_LAST_YEAR - 1970) * 12):
        raise NotTranslatable
    if isinstance(kind, DateType):
        return day
    if isinstance(kind, TimestampType) or period.in_utc:
        return step * (DAY_S // period.steps_a_day) * MICROS
    start = days.start(day) if isinstance(kind, TimestamptzType) and days is not None else None
    if start is None:
        raise NotTranslatable
    return start


def _without_date_cast(node: ExpressionJson) -> ExpressionJson:
    return node["children"][0] if node["kind"] == "cast" and json.loads(node["type"]) == "date" else node


def _first_of_month(month: int) -> int:
    """Return the first day of a month. The month is counted from January 1970, and the day from 1970-01-01."""
    return int(np.datetime64(month, "M").astype("datetime64[D]").astype(np.int64))


def _months_from(day: int, months: int) -> int:
    """Return the first day that `trunc` to units of `months` months maps to `day` or a later day. Days are counted from 1970-01-01."""
    month = int(np.datetime64(day, "D").astype("datetime64[M]").astype(np.int64))
    first = month // months * months
    return _first_of_month(first) if _first_of_month(first) == day else _first_of_month(first + months)


def _week_from(day: int) -> int:
    """Return the first day that `trunc` to weeks maps to `day` or a later day. Days are counted from 1970-01-01."""
    return _FIRST_MONDAY - (_FIRST_MONDAY - day) // 7 * 7


# Functions of a catalog; `period_of` sets their column. For dates there are no hours.
_FUNCTIONS = {
    "years": Period({}, lambda years: _first_of_month(years * 12), _WHOLE, in_utc=True),
    "months": Period({}, _first_of_month, _WHOLE, in_utc=True),
    "days": Period({}, lambda day: day, ("date",), in_utc=True),
    "hours": Period({}, lambda hour: hour, _WHOLE, steps_a_day=24, in_utc=True),
}


class LocalDays:
    """Computes when days begin in a time zone. It uses the time zone rules of the JVM, with which Spark computes dates.

    Python's time zone database may be older or newer than the JVM's, and does not have all zone names that Spark accepts.
    """

    def __init__(self, spark: SparkSession, zone: str) -> None:
        self._spark = spark
        self._zone = zone

    def start(self, day: int) -> int | None:
        """Return the instant at which a day begins.

        Args:
            day: Days since 1970-01-01.

        Returns:
            An instant in microseconds since 1970-01-01 UTC: before it the local date is always an earlier day, and from it on never. None if there is no such
            instant, because clocks were set back over midnight.
        """
        midnight = day * DAY_S
        start = None
        for begin, end, offset in self._stretches(midnight - _FARTHEST, midnight + _FARTHEST):
            first = min(max(midnight - offset, begin), end)  # the first second of the stretch that is not before midnight
            if start is None and first < end:
                start = first
            elif start is not None and first > begin:
                return None
        return None if start is None else start * MICROS

    def _stretches(self, begin: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Divide the time between two instants where the zone's offset changes. Yield the begin, end and offset from UTC of each interval, in seconds."""
        instant = java_class(self._spark, "java.time.Instant")
        offset = self._rules.getOffset(instant.ofEpochSecond(begin)).getTotalSeconds()
        while begin < end:
            change = self._rules.nextTransition(instant.ofEpochSecond(begin))
            until = end if change is None else min(end, change.toEpochSecond())
            yield begin, until, offset
            if change is not None:
                offset = change.getOffsetAfter().getTotalSeconds()
            begin = until

    @cached_property
    def _rules(self) -> Any:
        return java_class(self._spark, "org.apache.spark.sql.catalyst.util.DateTimeUtils").getZoneId(self._zone).getRules()
