"""Conversion of a filter's literal to a column's type: to a value of the type, or, if the type does not have the value, to its position among the values.

So a comparison is exact even if an int column is compared with 2.5 or 10^12, or a date column with a time of day.
JAVA: Literal.to, with aboveMax and belowMin.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Context, Decimal, InvalidOperation
from enum import Enum
from typing import Any

import numpy as np

from icefloe.errors import InvalidInputError
from icefloe.spec.dates_and_times import MICROS_PER_DAY, NANOS_PER_MICRO, days_of
from icefloe.spec.literals import INTEGER_RANGES
from icefloe.spec.types import (
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
)
from icefloe.spec.values import to_physical

# For each timestamp type, the type of the other unit. A time that one of the two types cannot represent may be a value of the other.
_OTHER_UNIT: Mapping[type[PrimitiveType], PrimitiveType] = {
    TimestampType: TimestampNanoType(),
    TimestamptzType: TimestamptzNanoType(),
    TimestampNanoType: TimestampType(),
    TimestamptzNanoType: TimestamptzType(),
}
# Enough digits for any value of a decimal(38, s).
_WIDE = Context(prec=200)
# A literal with more digits before the decimal point is beyond all values of every type.
_MAX_DIGITS = 100


class LiteralPosition(Enum):
    """The position of a literal among the values of a type."""

    EXACT = "is a value"
    BETWEEN = "is between two values"
    BELOW_MIN = "is below every value"
    ABOVE_MAX = "is above every value"
    NAN = "is NaN"


@dataclass(frozen=True, slots=True)
class ConvertedLiteral:
    """The result of converting a literal to a type.

    Attributes:
        position: The position of the literal among the values of the type.
        value: The physical value that equals the literal, or the greatest value below a literal between two values; else None.
    """

    position: LiteralPosition
    value: Any = None


def convert_literal(kind: PrimitiveType, literal: Any) -> ConvertedLiteral:
    """Convert a Python value, or its text, to a type.

    Float and double columns are both compared as doubles, as in Spark, so that a literal is never rounded to 32 bits.

    Raises:
        InvalidInputError: The literal cannot be compared with the type.
    """
    value = literal.item() if isinstance(literal, np.generic) and not isinstance(literal, np.datetime64) else literal
    if isinstance(kind, FloatType | DoubleType):
        return _convert_float(value)
    if isinstance(kind, IntegerType | LongType):
        low, high = INTEGER_RANGES[type(kind)]
        return _convert_number(kind, value, low, high, 0)
    if isinstance(kind, DecimalType):
        limit = 10**kind.precision - 1
        return _convert_number(kind, value, -limit, limit, kind.scale)
    if isinstance(kind, DateType) and isinstance(value, str | datetime | np.datetime64):
        return _convert_date(kind, value)
    if type(kind) in _OTHER_UNIT:
        return _convert_timestamp(kind, value)
    return ConvertedLiteral(LiteralPosition.EXACT, to_physical(kind, value))


def convert_set(kind: PrimitiveType, literals: Sequence[Any]) -> set[Any] | None:
    """Convert many literals at once, if all have the same built-in Python class.

    Args:
        kind: The type.
        literals: Python values.

    Returns:
        The physical values, without literals that no value of the type equals; None if each literal must be converted separately.
    """
    classes = set(map(type, literals))
    if classes == {int} and isinstance(kind, IntegerType | LongType):
        low, high = INTEGER_RANGES[type(kind)]
        return {value for value in literals if low <= value <= high}
    if classes == {float} and isinstance(kind, FloatType | DoubleType):
        return None if any(map(math.isnan, literals)) else {value + 0.0 for value in literals}
    if classes == {date} and isinstance(kind, DateType):
        return set(map(days_of, literals))
    if classes == {str} and isinstance(kind, StringType):
        try:
            "".join(literals).encode("utf-8")
        except UnicodeEncodeError:
            return None
        return set(literals)
    return None


def _convert_float(value: Any) -> ConvertedLiteral:
    try:
        number = to_physical(DoubleType(), value)
    except InvalidInputError:
        if isinstance(value, bool) or not isinstance(value, int):
            raise
        # An int above the greatest double is between it and infinity.
        return ConvertedLiteral(LiteralPosition.BETWEEN, float(np.finfo(np.float64).max) if value > 0 else -math.inf)
    # Adding zero turns -0.0 into 0.0, which is the same literal.
    return ConvertedLiteral(LiteralPosition.NAN) if math.isnan(number) else ConvertedLiteral(LiteralPosition.EXACT, number + 0.0)


def _convert_number(kind: PrimitiveType, value: Any, low: int, high: int, scale: int) -> ConvertedLiteral:
    """Convert a number to a type with the values `low` to `high`, in units of 10^-scale; int types have scale 0."""
    number = _decimal(value)
    if number.is_nan():
        return ConvertedLiteral(LiteralPosition.ABOVE_MAX)  # NaN sorts after every number
    if number and (number.is_infinite() or number.adjusted() > _MAX_DIGITS):
        return ConvertedLiteral(LiteralPosition.ABOVE_MAX if number > 0 else LiteralPosition.BELOW_MIN)
    floor, is_whole = _floor(number, scale)
    if floor < low:
        return ConvertedLiteral(LiteralPosition.BELOW_MIN)
    if floor > high or (floor == high and not is_whole):
        return ConvertedLiteral(LiteralPosition.ABOVE_MAX)
    physical = Decimal(floor).scaleb(-scale, context=_WIDE) if isinstance(kind, DecimalType) else floor
    return ConvertedLiteral(LiteralPosition.EXACT if is_whole else LiteralPosition.BETWEEN, physical)


def _floor(number: Decimal, scale: int) -> tuple[int, bool]:
    """Return `number` * 10^scale rounded down to a whole number, and whether it was whole. The computation is exact for any number of digits."""
    if not number or number.adjusted() < -scale:  # zero or a tiny fraction of a unit; its many leading zeros need not be computed
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


def _convert_date(kind: PrimitiveType, value: str | datetime | np.datetime64) -> ConvertedLiteral:
    try:
        return ConvertedLiteral(LiteralPosition.EXACT, to_physical(kind, value))
    except InvalidInputError as not_a_date:
        try:
            timestamp = _convert_timestamp(TimestampType(), value)
        except InvalidInputError:
            raise not_a_date from None
    days, rest = divmod(timestamp.value, MICROS_PER_DAY)
    return ConvertedLiteral(
        LiteralPosition.BETWEEN if rest or timestamp.position is LiteralPosition.BETWEEN else LiteralPosition.EXACT, days
    )


def _convert_timestamp(kind: PrimitiveType, value: Any) -> ConvertedLiteral:
    """Convert a time to the type's unit: microseconds, which cannot represent finer times, or nanoseconds, which cover only the years 1677 to 2262."""
    try:
        return ConvertedLiteral(LiteralPosition.EXACT, to_physical(kind, value))
    except InvalidInputError as error:
        other = _OTHER_UNIT[type(kind)]
        try:
            number = to_physical(other, value)
        except InvalidInputError:
            raise error from None
    if isinstance(other, TimestampNanoType | TimestamptzNanoType):
        return ConvertedLiteral(LiteralPosition.BETWEEN, number // NANOS_PER_MICRO)
    return ConvertedLiteral(LiteralPosition.ABOVE_MAX if number > 0 else LiteralPosition.BELOW_MIN)
