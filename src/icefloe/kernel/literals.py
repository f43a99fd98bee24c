"""Python's own values and texts as physical values: what a user may write in a filter or a partition value.

The door is `values.to_physical`, which turns the plain errors here into Icefloe's. Floor: kernel, beside types. Spec: Primitive Types.
"""

import re
import struct
import uuid
from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from decimal import Context, Decimal
from typing import Any

import numpy as np

from icefloe.kernel import dates_and_times as iso
from icefloe.kernel.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

# Enough digits for any decimal(38, s); Python's default of 28 would round silently.
_WIDE = Context(prec=100)
_INTEGER_TEXT = re.compile(r"[+-]?\d+", re.ASCII)

# The smallest and largest physical value of every type whose physical values are whole numbers.
INTEGER_RANGES: Mapping[type[PrimitiveType], tuple[int, int]] = {
    IntegerType: (-(2**31), 2**31 - 1),
    LongType: (-(2**63), 2**63 - 1),
    DateType: (-(2**31), 2**31 - 1),
    TimeType: (0, iso.MICROS_PER_DAY - 1),
    TimestampType: (-(2**63), 2**63 - 1),
    TimestamptzType: (-(2**63), 2**63 - 1),
}


def physical_of_native(kind: PrimitiveType, value: Any) -> Any:
    """The physical value of a Python value, a numpy scalar or a text.

    Raises:
        ValueError, TypeError, ArithmeticError, AttributeError: the value cannot be one of the type; the text says why.
    """
    native = _native(value)
    if native is None:
        raise ValueError("null is not a literal; ask with IS NULL")
    return _CONVERSIONS[type(kind)](kind, native)


def _native(value: Any) -> Any:
    if isinstance(value, np.datetime64):
        micros = value.astype("datetime64[us]")
        if micros != value:  # not a time at all, or finer than the type holds
            raise ValueError("the finest unit is the microsecond")
        return micros.item()
    return value.item() if isinstance(value, np.generic) else value


def _refuse(value: Any) -> ValueError:
    return ValueError(f"a {type(value).__name__} does not fit")


def _to_boolean(_: PrimitiveType, value: Any) -> bool:
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if isinstance(value, bool):
        return value
    raise _refuse(value)


def _to_integer(kind: PrimitiveType, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        raise _refuse(value)
    if isinstance(value, str) and not _INTEGER_TEXT.fullmatch(value):
        raise ValueError("it is not a whole number")
    number = int(value)
    if not isinstance(value, str) and number != value:
        raise ValueError("it is not a whole number")
    low, high = INTEGER_RANGES[type(kind)]
    if not low <= number <= high:
        raise ValueError(f"the range is {low} to {high}")
    return number


def _to_float(kind: PrimitiveType, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        raise _refuse(value)
    number = float(value)
    if isinstance(kind, FloatType):
        return float(struct.unpack("<f", struct.pack("<f", number))[0])
    return number


def _to_decimal(kind: PrimitiveType, value: Any) -> Decimal:
    if not isinstance(kind, DecimalType) or isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        raise _refuse(value)
    number = Decimal(repr(value) if isinstance(value, float) else value)
    if not number.is_finite():
        raise ValueError("a decimal is a finite number")
    if number and number.adjusted() >= kind.precision - kind.scale:
        raise ValueError(f"it has more than {kind.precision - kind.scale} digits before the point")
    scaled = number.quantize(Decimal(1).scaleb(-kind.scale), context=_WIDE)
    if scaled != number:
        raise ValueError(f"it has more than {kind.scale} digits after the point")
    return _WIDE.add(scaled, Decimal(0))  # a decimal has no negative zero


def _to_date(kind: PrimitiveType, value: Any) -> int:
    if isinstance(value, str):
        return iso.parse_date(value)
    if isinstance(value, datetime):
        if value.time() != time.min:
            raise ValueError("it has a time of day")
        return iso.days_of(value.date())
    return iso.days_of(value) if isinstance(value, date) else _to_count(kind, value)


def _to_time(kind: PrimitiveType, value: Any) -> int:
    if isinstance(value, str):
        return iso.parse_time(value)
    if isinstance(value, time):
        if value.tzinfo is not None:
            raise ValueError("a time of day has no zone")
        return iso.micros_of_time(value)
    return _to_count(kind, value)


def _to_timestamp(kind: PrimitiveType, value: Any) -> int:
    utc = isinstance(kind, TimestamptzType)
    if isinstance(value, str):
        return iso.parse_timestamp(value, utc=utc)
    if isinstance(value, datetime):
        if value.tzinfo is not None and not utc:
            raise ValueError("the column is without time zone; leave the zone out")
        return iso.micros_of(value)
    return iso.days_of(value) * iso.MICROS_PER_DAY if isinstance(value, date) else _to_count(kind, value)


def _to_count(kind: PrimitiveType, value: Any) -> int:
    if isinstance(value, int):
        return _to_integer(kind, value)
    raise _refuse(value)


def _to_string(_: PrimitiveType, value: Any) -> str:
    if isinstance(value, str):
        value.encode("utf-8")
        return value
    raise _refuse(value)


def _to_uuid(_: PrimitiveType, value: Any) -> uuid.UUID:
    if isinstance(value, uuid.UUID):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return uuid.UUID(bytes=bytes(value))
    if isinstance(value, str):
        return uuid.UUID(value)
    raise _refuse(value)


def _to_binary(kind: PrimitiveType, value: Any) -> bytes:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise _refuse(value)
    if isinstance(kind, FixedType) and len(bytes(value)) != kind.length:
        raise ValueError(f"it is {len(bytes(value))} bytes long, not {kind.length}")
    return bytes(value)


_CONVERSIONS: Mapping[type[PrimitiveType], Callable[[PrimitiveType, Any], Any]] = {
    BooleanType: _to_boolean,
    IntegerType: _to_integer,
    LongType: _to_integer,
    FloatType: _to_float,
    DoubleType: _to_float,
    DecimalType: _to_decimal,
    DateType: _to_date,
    TimeType: _to_time,
    TimestampType: _to_timestamp,
    TimestamptzType: _to_timestamp,
    StringType: _to_string,
    UUIDType: _to_uuid,
    FixedType: _to_binary,
    BinaryType: _to_binary,
}
