"""Conversion of Python values and texts to physical values: the literals of filters and the values of partitions and defaults.

`values.to_physical` is the entry point; it turns the built-in exceptions of this module into Icefloe's errors. Spec: Primitive Types.
"""

import re
import struct
import uuid
from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from decimal import Context, Decimal
from typing import Any

import numpy as np

from icefloe.spec import dates_and_times as iso
from icefloe.spec.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
)
from icefloe.spec.wkb import check_wkb, wkb_of_text

# A context with enough digits for any decimal(38, s). Python's default of 28 digits would round silently.
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
    TimestampNanoType: (-(2**63), 2**63 - 1),
    TimestamptzNanoType: (-(2**63), 2**63 - 1),
}
NANO_TYPES = (TimestampNanoType, TimestamptzNanoType)
ZONED_TYPES = (TimestamptzType, TimestamptzNanoType)


def native_to_physical(kind: PrimitiveType, value: Any) -> Any:
    """Return the physical value of a Python value, a numpy scalar or a text.

    Raises:
        ValueError, TypeError, ArithmeticError, AttributeError: The value is not a value of the type; the text states why.
    """
    native = _native(kind, value)
    if native is None:
        raise ValueError("null is not a literal; use IS NULL")
    return _CONVERSIONS[type(kind)](kind, native)


def _native(kind: PrimitiveType, value: Any) -> Any:
    if isinstance(value, np.datetime64):
        if np.isnat(value):
            raise ValueError("it is not a time")
        if isinstance(kind, NANO_TYPES):
            return _nanos_of_numpy(value)
        micros = value.astype("datetime64[us]")
        if micros != value:
            raise ValueError("the finest unit is the microsecond")
        return micros.item()
    return value.item() if isinstance(value, np.generic) else value


def _nanos_of_numpy(value: np.datetime64) -> int:
    unit, step = np.datetime_data(value.dtype)
    if unit not in _NANOS_PER_UNIT:  # a calendar unit such as months, or a unit finer than the nanosecond
        days = value.astype("datetime64[D]")
        if days != value:
            raise ValueError("the finest unit is the nanosecond")
        return int(days.astype(np.int64)) * iso.NANOS_PER_DAY
    return int(value.astype(np.int64)) * step * _NANOS_PER_UNIT[unit]


_NANOS_PER_UNIT = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9, "D": iso.NANOS_PER_DAY}


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
    return _WIDE.add(scaled, Decimal(0))  # decimals of the format have no negative zero


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
    utc, nanos = isinstance(kind, ZONED_TYPES), isinstance(kind, NANO_TYPES)
    return _to_integer(kind, _timestamp_count(kind, value, utc=utc, nanos=nanos))


def _timestamp_count(kind: PrimitiveType, value: Any, *, utc: bool, nanos: bool) -> int:
    if isinstance(value, str):
        return iso.parse_timestamp(value, utc=utc, nanos=nanos)
    scale = iso.NANOS_PER_MICRO if nanos else 1
    if isinstance(value, datetime):
        if value.tzinfo is not None and not utc:
            raise ValueError("the column has no time zone; leave the zone out")
        finer = getattr(value, "nanosecond", 0)  # pandas timestamps have three more fraction digits than Python's datetimes
        if finer and not nanos:
            raise ValueError("the finest unit is the microsecond")
        whole: Any = value
        return iso.micros_of(whole.replace(nanosecond=0) if finer else whole) * scale + finer
    return iso.days_of(value) * iso.MICROS_PER_DAY * scale if isinstance(value, date) else _to_count(kind, value)


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


def _to_wkb(_: PrimitiveType, value: Any) -> bytes:
    if isinstance(value, str):
        return wkb_of_text(value)
    if not isinstance(value, bytes | bytearray | memoryview):
        raise _refuse(value)
    check_wkb(bytes(value))
    return bytes(value)


def _to_unknown(_: PrimitiveType, value: Any) -> None:
    raise ValueError(f"an unknown column contains only nulls, not a {type(value).__name__}")


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
    TimestampNanoType: _to_timestamp,
    TimestamptzNanoType: _to_timestamp,
    StringType: _to_string,
    UUIDType: _to_uuid,
    FixedType: _to_binary,
    BinaryType: _to_binary,
    GeometryType: _to_wkb,
    GeographyType: _to_wkb,
    UnknownType: _to_unknown,
}

_DATE = r"(?:\d{4}|[+-]\d{4,9})-\d\d-\d\d"
_CLOCK = r"\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?"
# The forms of texts in JSON, which are stricter than those of users: for example, a timestamptz must have a zone, and it must be UTC. Spec: Appendix D, JSON.
JSON_FORMS: Mapping[type[PrimitiveType], re.Pattern[str]] = {
    kind: re.compile(form, re.ASCII)
    for kind, form in (
        (TimestampType, f"{_DATE}T{_CLOCK}"),
        (TimestampNanoType, f"{_DATE}T{_CLOCK}"),
        (TimestamptzType, rf"{_DATE}T{_CLOCK}(?:Z|\+00:00)"),
        (TimestamptzNanoType, rf"{_DATE}T{_CLOCK}(?:Z|\+00:00)"),
        (DecimalType, r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d{1,3})?"),
        (UUIDType, r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"),
        (FixedType, r"(?:[0-9a-fA-F]{2})*"),
        (BinaryType, r"(?:[0-9a-fA-F]{2})*"),
    )
}
