"""Where a literal stands among the values of a column's type: on one, between two, beyond them all, or NaN.

A filter may compare an int column with 2.5 or 10^12, or a date column with a time of day; the comparison is still exact.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Context, Decimal, InvalidOperation
from enum import Enum
from typing import Any

import numpy as np

from icefloe.errors import InvalidInputError
from icefloe.kernel.dates_and_times import MICROS_PER_DAY, NANOS_PER_MICRO
from icefloe.kernel.literals import INTEGER_RANGES
from icefloe.kernel.types import (
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    PrimitiveType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
)
from icefloe.kernel.values import to_physical

# A time that the one type has no value for may be one of the other.
_OTHER_UNIT: Mapping[type[PrimitiveType], PrimitiveType] = {
    TimestampType: TimestampNanoType(),
    TimestamptzType: TimestamptzNanoType(),
    TimestampNanoType: TimestampType(),
    TimestamptzNanoType: TimestamptzType(),
}
# Enough digits for any value of a decimal(38, s).
_WIDE = Context(prec=200)
# A literal with more digits before its point lies beyond every value.
_MOST_DIGITS = 100


class LiteralPosition(Enum):
    """How a literal relates to a type's values."""

    EXACT = "is a value"
    BETWEEN = "lies just above a value"
    BELOW_MIN = "lies below every value"
    ABOVE_MAX = "lies above every value"
    NAN = "is NaN"


@dataclass(frozen=True, slots=True)
class ConvertedLiteral:
    """A literal's standing; `value` is the physical value it is, or the nearest below it."""

    standing: LiteralPosition
    value: Any = None


def convert_literal(kind: PrimitiveType, literal: Any) -> ConvertedLiteral:
    """Where a Python value, or its text, stands among the values of `kind`.

    Both float types are compared as doubles, as Spark does, so that a literal is not rounded to 32 bits.

    Raises:
        InvalidInputError: the literal cannot be compared with the type.
    """
    value = literal.item() if isinstance(literal, np.generic) and not isinstance(literal, np.datetime64) else literal
    if isinstance(kind, FloatType | DoubleType):
        return _place_float(value)
    if isinstance(kind, IntegerType | LongType):
        low, high = INTEGER_RANGES[type(kind)]
        return _place_whole(kind, value, low, high, 0)
    if isinstance(kind, DecimalType):
        limit = 10**kind.precision - 1
        return _place_whole(kind, value, -limit, limit, kind.scale)
    if isinstance(kind, DateType) and isinstance(value, str | datetime | np.datetime64):
        return _place_date(kind, value)
    if type(kind) in _OTHER_UNIT:
        return _place_timestamp(kind, value)
    return ConvertedLiteral(LiteralPosition.EXACT, to_physical(kind, value))


def _place_float(value: Any) -> ConvertedLiteral:
    try:
        number = to_physical(DoubleType(), value)
    except InvalidInputError:
        if isinstance(value, bool) or not isinstance(value, int):
            raise
        # An int beyond the doubles lies between the last of them and infinity.
        return ConvertedLiteral(LiteralPosition.BETWEEN, float(np.finfo(np.float64).max) if value > 0 else -math.inf)
    # Adding zero turns -0.0 into 0.0, which it equals.
    return ConvertedLiteral(LiteralPosition.NAN) if math.isnan(number) else ConvertedLiteral(LiteralPosition.EXACT, number + 0.0)


def _place_whole(kind: PrimitiveType, value: Any, low: int, high: int, scale: int) -> ConvertedLiteral:
    """Among the multiples of 10^-scale from `low` to `high` of them; int types are scale 0."""
    number = _decimal(value)
    if number.is_nan():
        return ConvertedLiteral(LiteralPosition.ABOVE_MAX)  # NaN sorts after every number
    if number and (number.is_infinite() or number.adjusted() > _MOST_DIGITS):
        return ConvertedLiteral(LiteralPosition.ABOVE_MAX if number > 0 else LiteralPosition.BELOW_MIN)
    floor, is_whole = _floor(number, scale)
    if floor < low:
        return ConvertedLiteral(LiteralPosition.BELOW_MIN)
    if floor > high or (floor == high and not is_whole):
        return ConvertedLiteral(LiteralPosition.ABOVE_MAX)
    physical = Decimal(floor).scaleb(-scale, context=_WIDE) if isinstance(kind, DecimalType) else floor
    return ConvertedLiteral(LiteralPosition.EXACT if is_whole else LiteralPosition.BETWEEN, physical)


def _floor(number: Decimal, scale: int) -> tuple[int, bool]:
    """Return the greatest whole number up to `number` times 10^scale, and whether it is that number. No digit is rounded, however many there are."""
    if not number or number.adjusted() < -scale:  # nothing, or a fraction of one, whose zeros need not be written out
        return (-1 if number < 0 else 0), not number
    sign, digits, exponent = number.as_tuple()
    shifted = Decimal((sign, digits, int(exponent) + scale))
    floor = math.floor(shifted)
    return floor, floor == shifted


def _decimal(value: Any) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        raise InvalidInputError(f"{value!r} is not a number")
    try:
        return Decimal(repr(value) if isinstance(value, float) else value)
    except InvalidOperation as error:
        raise InvalidInputError(f"{value!r} is not a number") from error


def _place_date(kind: PrimitiveType, value: str | datetime | np.datetime64) -> ConvertedLiteral:
    try:
        return ConvertedLiteral(LiteralPosition.EXACT, to_physical(kind, value))
    except InvalidInputError as not_a_date:
        try:
            placed = _place_timestamp(TimestampType(), value)
        except InvalidInputError:
            raise not_a_date from None
    days, rest = divmod(placed.value, MICROS_PER_DAY)
    return ConvertedLiteral(LiteralPosition.BETWEEN if rest or placed.standing is LiteralPosition.BETWEEN else LiteralPosition.EXACT, days)


def _place_timestamp(kind: PrimitiveType, value: Any) -> ConvertedLiteral:
    """Among microseconds, which leave out finer times, or nanoseconds, which end in the years 1677 and 2262."""
    try:
        return ConvertedLiteral(LiteralPosition.EXACT, to_physical(kind, value))
    except InvalidInputError as unfit:
        other = _OTHER_UNIT[type(kind)]
        try:
            number = to_physical(other, value)
        except InvalidInputError:
            raise unfit from None
    if isinstance(other, TimestampNanoType | TimestamptzNanoType):
        return ConvertedLiteral(LiteralPosition.BETWEEN, number // NANOS_PER_MICRO)
    return ConvertedLiteral(LiteralPosition.ABOVE_MAX if number > 0 else LiteralPosition.BELOW_MIN)
