"""Tests of the hour, day, week, month, quarter or year that a column lies in, as tests of the column: `CAST(ts AS DATE) = d`, `year(ts) >= 2024`,
`lake.system.hours(ts) < 5`.

Each function keeps the order of what it is given, so that what it makes of a value lies between two values of the column. Spec: Scan Planning.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from icefloe.kernel.expressions.predicate import AlwaysFalse, And, BooleanExpression, GreaterThanOrEqual, IsNull, LessThan, NotNull, Or
from icefloe.kernel.types import DateType, IcebergType, TimestampType, TimestamptzType
from icefloe.spark.functions.spark_functions import CANONICAL
from icefloe.spark.scan.local_days import DAY_S, MICROS, LocalDays

Plain = Mapping[str, Any]

_EXTRACT = re.compile(r"EXTRACT\((\w+) FROM ")
# How many months `trunc` joins, by the names that Spark has for it; a week begins on Monday.
_MONTHS = {"YEAR": 12, "YYYY": 12, "YY": 12, "QUARTER": 3, "MONTH": 1, "MON": 1, "MM": 1}
_WEEK = "WEEK"
_FIRST_MONDAY = -3  # 1969-12-29
_WHOLE = ("byte", "short", "integer", "long")
# Beyond these Spark has dates too, and microseconds may not.
_FIRST_YEAR, _LAST_YEAR = -9999, 9999


class NotAPeriod(Exception):  # noqa: N818 says what the caller does next
    """It is no function of these, or no value of one."""


@dataclass(frozen=True, slots=True)
class Period:
    """What a function makes of a column: values that step up where `start` says. `takes` are the types of literals it is compared with."""

    column: Plain
    start: Callable[[int], int]  # the first day of which the function makes this value or a later one; or hour, where there are 24 a day
    takes: tuple[str, ...]
    a_day: int = 1
    in_utc: bool = False  # whether days are those of UTC, whatever the session's time zone


def period_of(node: Plain) -> Period:
    """The function that a node is. Raises `NotAPeriod`."""
    if node["is"] == "cast" and json.loads(node["type"]) == "date":
        return Period(node["children"][0], lambda day: day, ("date",))
    if node["is"] == "Extract":
        found = _EXTRACT.match(node["text"])
        if found is not None and found[1] == "YEAR":
            return Period(_date(node["children"][0]), lambda year: _first_of_month((year - 1970) * 12), _WHOLE)
    if node["is"] == "function" and node["name"].startswith(CANONICAL):
        name = node["name"].removeprefix(CANONICAL).partition("(")[0]
        if name in _FUNCTIONS:
            return replace(_FUNCTIONS[name], column=node["children"][0])
    if node["is"] == "call" and node["name"] == "TRUNC" and node["children"][1]["is"] == "literal":
        word = str(node["children"][1]["value"]).upper()
        if word == _WEEK:
            return Period(_date(node["children"][0]), _week_from, ("date",))
        if word in _MONTHS:
            return Period(_date(node["children"][0]), lambda day: _months_from(day, _MONTHS[word]), ("date",))
    raise NotAPeriod


def check_date_like(kind: IcebergType) -> None:
    """Raises `NotAPeriod` where values of the type are no dates and no times on dates: a text may be none, and its date null."""
    if not isinstance(kind, DateType | TimestampType | TimestamptzType):
        raise NotAPeriod


def test_of(period: Period, operator: str, value: int, column: str, kind: IcebergType, days: LocalDays | None) -> BooleanExpression:
    """Where `function(column) operator value` is true; `<>`, `<` and the others. Raises `NotAPeriod`."""
    at, after = (_boundary(period, one, kind, days) for one in (value, value + 1))
    below, above = LessThan(column, at), GreaterThanOrEqual(column, after)
    if operator == "=":
        return AlwaysFalse() if at == after else And(GreaterThanOrEqual(column, at), LessThan(column, after))
    if operator == "<>":
        return NotNull(column) if at == after else Or(below, above)
    if operator == "not <=>":
        return Or(IsNull(column), test_of(period, "<>", value, column, kind, days))
    found = {"<": below, "<=": LessThan(column, after), ">": above, ">=": GreaterThanOrEqual(column, at)}.get(operator)
    if found is None:
        raise NotAPeriod
    return found


def _boundary(period: Period, value: int, kind: IcebergType, days: LocalDays | None) -> int:
    """The first value of the column's type of which the function makes this one or a later one."""
    start = period.start(value)
    day = start // period.a_day
    if not _first_of_month((_FIRST_YEAR - 1970) * 12) <= day <= _first_of_month((_LAST_YEAR - 1970) * 12):
        raise NotAPeriod
    if isinstance(kind, DateType):
        return day
    if isinstance(kind, TimestampType) or period.in_utc:
        return start * (DAY_S // period.a_day) * MICROS
    found = days.start(day) if isinstance(kind, TimestamptzType) and days is not None else None
    if found is None:
        raise NotAPeriod
    return found


def _date(node: Plain) -> Plain:
    """What a date is made of, or itself."""
    return node["children"][0] if node["is"] == "cast" and json.loads(node["type"]) == "date" else node


def _first_of_month(month: int) -> int:
    """The day on which a month begins; both are counted from January 1970."""
    return int(np.datetime64(month, "M").astype("datetime64[D]").astype(np.int64))


def _months_from(day: int, months: int) -> int:
    """The first day of which a truncation to so many months makes this day or a later one."""
    month = int(np.datetime64(day, "D").astype("datetime64[M]").astype(np.int64))
    first = month // months * months
    return _first_of_month(first) if _first_of_month(first) == day else _first_of_month(first + months)


def _week_from(day: int) -> int:
    """As `_months_from`, of weeks."""
    return _FIRST_MONDAY - (_FIRST_MONDAY - day) // 7 * 7


# Functions of a catalog, whose column is still to be said; a date has no hours.
_FUNCTIONS = {
    "years": Period({}, lambda years: _first_of_month(years * 12), _WHOLE, in_utc=True),
    "months": Period({}, _first_of_month, _WHOLE, in_utc=True),
    "days": Period({}, lambda day: day, ("date",), in_utc=True),
    "hours": Period({}, lambda hour: hour, _WHOLE, a_day=24, in_utc=True),
}
