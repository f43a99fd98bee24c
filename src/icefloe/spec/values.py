"""Conversion of values of primitive types between their forms: physical, bytes, JSON, text and Python; and Arrow arrays of physical values.

`spec`, `scan` and `commit` compute with physical values: bool; int for int and long; int days for date; int microseconds for time, timestamp and timestamptz;
int nanoseconds for timestamp_ns and timestamptz_ns; float; `Decimal` with the type's scale; str; `uuid.UUID`; bytes for fixed and binary; WKB bytes for
geometry and geography. None is null, the only value of an unknown column. `nested_values.py` has values of nested types, `bounds.py` truncated bounds,
`geo_bounds.py` bounds of shapes, and `partitioning/` partition transforms.
Spec: Appendix D, single-value serialization; Appendix D, Binary single-value serialization.
"""

import base64
import math
import struct
import uuid
from collections.abc import Mapping, Sequence
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icefloe.errors import FormatError, InvalidInputError
from icefloe.spec import dates_and_times as iso
from icefloe.spec.arrow_values import array_of, array_of_chunks, mask_array, numbers_array, scalar_of, validity_buffer
from icefloe.spec.byte_columns import days_in_units, decimal_words, fixed_width_numbers, spans_of, strings_of
from icefloe.spec.literals import INTEGER_RANGES, JSON_FORMS, NANO_TYPES, ZONED_TYPES, native_to_physical
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
from icefloe.spec.wkb import text_of_wkb

# Enough digits for every decimal(38, s). Python's default of 28 digits would round silently.
_WIDE = Context(prec=100)

# The byte layouts of fixed-width numbers as numpy types, and below the shorter layouts from before a promotion. Spec: Appendix D; Schema Evolution.
_LAYOUTS: Mapping[type[PrimitiveType], tuple[str, ...]] = {
    BooleanType: ("u1",),
    IntegerType: ("<i4",),
    DateType: ("<i4",),
    LongType: ("<i8", "<i4"),
    TimeType: ("<i8",),
    TimestampType: ("<i8",),
    TimestamptzType: ("<i8",),
    TimestampNanoType: ("<i8",),
    TimestamptzNanoType: ("<i8",),
    FloatType: ("<f4",),
    DoubleType: ("<f8", "<f4"),
}
_STRUCT_LETTERS = {"u1": "?", "<i4": "<i", "<i8": "<q", "<f4": "<f", "<f8": "<d"}
_PACK = {kind: struct.Struct(_STRUCT_LETTERS[layouts[0]]) for kind, layouts in _LAYOUTS.items()}
_UNPACK = {
    kind: {np.dtype(layout).itemsize: struct.Struct(_STRUCT_LETTERS[layout]) for layout in layouts} for kind, layouts in _LAYOUTS.items()
}

_ARROW_TYPES: Mapping[type[PrimitiveType], Any] = {
    BooleanType: pa.bool_(),
    IntegerType: pa.int32(),
    DateType: pa.int32(),
    LongType: pa.int64(),
    TimeType: pa.int64(),
    TimestampType: pa.int64(),
    TimestamptzType: pa.int64(),
    TimestampNanoType: pa.int64(),
    TimestamptzNanoType: pa.int64(),
    FloatType: pa.float32(),
    DoubleType: pa.float64(),
    StringType: pa.string(),
    UUIDType: pa.binary(),
    FixedType: pa.binary(),
    BinaryType: pa.binary(),
    GeometryType: pa.binary(),
    GeographyType: pa.binary(),
    UnknownType: pa.null(),
}
# Units per day of the timestamp types that dates can be promoted to. Spec: Schema Evolution, lengths of bounds.
_UNITS_PER_DAY = {TimestampType: iso.MICROS_PER_DAY, TimestampNanoType: iso.NANOS_PER_DAY}
_DAY_WIDTH = 4
_TIMES = (DateType, TimeType, TimestampType, TimestamptzType, TimestampNanoType, TimestamptzNanoType)
_SHAPES = (GeometryType, GeographyType)


# ---- bytes: bounds and partition summaries ----


def unscaled_value(value: Decimal, scale: int) -> int:
    """Return the unscaled integer of a decimal with this scale.

    Raises:
        InvalidInputError: Digits would be lost.
    """
    shifted = value.scaleb(scale, context=_WIDE)
    whole = int(shifted)
    if whole != shifted:
        raise InvalidInputError(f"{value} has more than {scale} digits after the point")
    return whole


def decimal_of(number: int, scale: int) -> Decimal:
    """Return the decimal with this unscaled integer and scale."""
    return Decimal(number).scaleb(-scale, context=_WIDE)


def decimal_bytes(number: int) -> bytes:
    """Encode an unscaled integer in two's complement, big endian, in as few bytes as possible: 1420 is 05 8C, 128 is 00 80, -128 is 80.

    Spec: Appendix D.
    """
    magnitude = number if number >= 0 else ~number
    return number.to_bytes(magnitude.bit_length() // 8 + 1, "big", signed=True)


def to_bytes(kind: PrimitiveType, value: Any) -> bytes:
    """Encode a physical value for a bound or a partition summary.

    Raises:
        InvalidInputError: The value is null or is not a physical value of the type, or the type is unknown.
    Spec: Appendix D, binary single-value serialization.
    """
    if isinstance(kind, UnknownType):
        raise InvalidInputError("an unknown column contains only nulls, so there is no value to write")
    packer = _PACK.get(type(kind))
    try:
        if packer is not None:
            return packer.pack(value)
        if isinstance(kind, StringType):
            return bytes(value.encode("utf-8"))
        if isinstance(kind, DecimalType):
            return decimal_bytes(unscaled_value(value, kind.scale))
        if isinstance(kind, UUIDType):
            return bytes(value.bytes)
        return bytes(memoryview(value))
    except (struct.error, OverflowError, AttributeError, TypeError, UnicodeError) as error:
        raise InvalidInputError(f"{value!r} is not a value of type {kind}") from error


def from_bytes(kind: PrimitiveType, data: bytes) -> Any:
    """Decode the physical value in a bound or a partition summary.

    Values from before a type promotion are also accepted: a long or double of 4 bytes, a timestamp of 4 bytes (which is a date), and a decimal of any width.

    Raises:
        FormatError: The number of bytes is wrong for the type, the bytes are not UTF-8, or a date is outside of the range of the timestamp type.
    Spec: Appendix D, binary single-value serialization.
    """
    unpackers = _UNPACK.get(type(kind))
    if unpackers is not None:
        unpacker = unpackers.get(len(data))
        if unpacker is not None:
            return unpacker.unpack(data)[0]
        if type(kind) in _UNITS_PER_DAY and len(data) == _DAY_WIDTH:
            return _of_days(kind, int.from_bytes(data, "little", signed=True))
    elif isinstance(kind, StringType):
        try:
            return str(data, "utf-8")
        except UnicodeDecodeError as error:
            raise FormatError(f"{data!r} is not a string in UTF-8") from error
    elif isinstance(kind, DecimalType):
        if data:
            return decimal_of(int.from_bytes(data, "big", signed=True), kind.scale)
    elif isinstance(kind, UUIDType):
        if len(data) == 16:
            return uuid.UUID(bytes=bytes(data))
    elif not isinstance(kind, UnknownType):
        return bytes(data)
    raise FormatError(f"{len(data)} bytes ({bytes(data[:32]).hex()}) cannot be a value of type {kind}")


def _of_days(kind: PrimitiveType, days: int) -> int:
    """Convert a date to the timestamp type that its column was promoted to."""
    low, high = INTEGER_RANGES[type(kind)]
    units = days * _UNITS_PER_DAY[type(kind)]
    if not low <= units <= high:
        raise FormatError(f"the date {iso.format_date(days)} is outside of the range of {kind}")
    return units


# ---- text for people, and Python's own classes ----


def to_human(kind: PrimitiveType, value: Any) -> str:
    """Return a physical value as text for messages and partition paths: ISO 8601 for times, base64 for bytes, and `null` for None, as in Java."""
    if value is None:
        return "null"
    if isinstance(kind, BooleanType):
        return "true" if value else "false"
    if isinstance(kind, FixedType | BinaryType):
        return base64.b64encode(value).decode("ascii")
    if isinstance(kind, _TIMES):
        return iso.format_date(value) if isinstance(kind, DateType) else _iso_text(kind, value)
    if isinstance(kind, _SHAPES):
        try:
            return text_of_wkb(value)
        except ValueError:
            return base64.b64encode(value).decode("ascii")
    return str(value)


def to_python(kind: PrimitiveType, value: Any) -> Any:
    """Convert a physical value to Python's date, time or datetime (in UTC for types with time zone). Other values are returned unchanged.

    Raises:
        InvalidInputError: A date or timestamp is outside of the years 1 to 9999, or a timestamp is not a whole number of microseconds. Python cannot represent
            these.
    """
    if value is None:
        return None
    try:
        if isinstance(kind, DateType):
            return iso.date_of(value)
        if isinstance(kind, TimeType):
            return iso.time_of(value)
        if isinstance(kind, TimestampType | TimestamptzType):
            return iso.datetime_of(value, utc=isinstance(kind, ZONED_TYPES))
        if isinstance(kind, NANO_TYPES):
            micros, finer = divmod(value, iso.NANOS_PER_MICRO)
            if finer:
                raise ValueError("Python's finest unit is the microsecond")
            return iso.datetime_of(micros, utc=isinstance(kind, ZONED_TYPES))
    except (OverflowError, ValueError) as error:
        raise InvalidInputError(f"{kind} {to_human(kind, value)} is outside of the range of Python's classes") from error
    return value


def _iso_text(kind: PrimitiveType, value: int) -> str:
    if isinstance(kind, DateType):
        return iso.format_iso_date(value)
    if isinstance(kind, TimeType):
        return iso.format_time(value)
    return iso.format_timestamp(value, utc=isinstance(kind, ZONED_TYPES), nanos=isinstance(kind, NANO_TYPES))


# ---- JSON ----


def to_json_value(kind: PrimitiveType, value: Any) -> Any:
    """Return a physical value as JSON; None for null.

    Raises:
        InvalidInputError: The value cannot be represented in JSON: a float is NaN or infinite, or the bytes of a shape are not WKB.
    Spec: Appendix D, JSON single-value serialization.
    """
    if value is None:
        return None
    if isinstance(kind, _TIMES):
        return _iso_text(kind, value)
    if isinstance(kind, FloatType | DoubleType):
        if not math.isfinite(value):
            raise InvalidInputError(f"{value} has no form in JSON, so it cannot be a default")
        # The shortest text that identifies a 32-bit float, as in Java.
        return float(str(np.float32(value))) if isinstance(kind, FloatType) else float(value)
    if isinstance(kind, DecimalType):
        return format(
            decimal_of(unscaled_value(value, kind.scale), kind.scale), "f"
        )  # Java refuses text whose number of digits after the point differs from the scale
    if isinstance(kind, UUIDType):
        return str(value)
    if isinstance(kind, _SHAPES):
        try:
            return text_of_wkb(value)
        except ValueError as error:
            raise InvalidInputError(f"{bytes(value[:32]).hex()} is not a {kind}: {error}") from error
    if isinstance(kind, FixedType | BinaryType):
        return bytes(value).hex()
    return value


def from_json_value(kind: PrimitiveType, value: Any) -> Any:
    """Return the physical value of a JSON value; None for null.

    Raises:
        FormatError: The JSON value is not a value of the type.
    Spec: Appendix D, JSON single-value serialization.
    """
    if value is None:
        return None
    json_classes: tuple[type, ...] = _JSON_CLASSES.get(type(kind), (str,))
    form = JSON_FORMS.get(type(kind))
    has_other_class = not isinstance(value, json_classes) or (isinstance(value, bool) and not isinstance(kind, BooleanType))
    if has_other_class or (form is not None and not form.fullmatch(value)):
        raise FormatError(f"{_short(value)} is not a {kind} in JSON")
    try:
        physical = to_physical(kind, bytes.fromhex(str(value)) if isinstance(kind, FixedType | BinaryType) else value)
    except ValueError as error:
        reason = error.message.rpartition(": ")[2] if isinstance(error, InvalidInputError) else str(error)
        raise FormatError(f"{_short(value)} is not a {kind} in JSON: {reason}") from error
    if isinstance(physical, float) and not math.isfinite(physical):
        raise FormatError(f"{_short(value)} is outside of the range of {kind}")
    return physical


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."


_JSON_CLASSES: Mapping[type[PrimitiveType], tuple[type, ...]] = {
    BooleanType: (bool,),
    IntegerType: (int,),
    LongType: (int,),
    FloatType: (int, float),
    DoubleType: (int, float),
}


# ---- literals ----


def to_physical(kind: PrimitiveType, value: Any) -> Any:
    """Convert a Python value, or its text, to a physical value of a type.

    The value may be a bool, int, float, Decimal, str, bytes, UUID, date, time, datetime or numpy scalar. For dates, an int is a number of days; for times and
    timestamps, it is a number of microseconds, or of nanoseconds for the `_ns` types. A shape is passed as WKB or WKT. For timestamps, a date is its midnight.
    For timestamps with time zone, a datetime or text without time zone is in UTC. For float columns, a float is rounded to 32 bits.

    Raises:
        InvalidInputError: The value cannot be represented exactly in the type, is out of its range, or is None.
    """
    try:
        return native_to_physical(kind, value)
    except (ValueError, TypeError, ArithmeticError, AttributeError) as error:
        raise InvalidInputError(f"{_short(value)} cannot be a value of type {kind}: {error}") from error


# ---- Arrow arrays ----


def physical_arrow_type(kind: PrimitiveType) -> Any:
    """Return the Arrow type of an array of physical values.

    It is int32 for int and date; int64 for long, time and timestamps; binary for fixed, binary, uuid and shapes; null for unknown.
    """
    if isinstance(kind, DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    return _ARROW_TYPES[type(kind)]


def physical_array(kind: PrimitiveType, values: Sequence[Any]) -> Any:
    """Convert physical values, with None for null, to an Arrow array of `physical_arrow_type(kind)`."""
    if isinstance(kind, UUIDType):
        values = [None if value is None else value.bytes for value in values]
    if isinstance(kind, UnknownType):
        return pa.nulls(len(values))
    return array_of(values, physical_arrow_type(kind))


def physical_list(kind: PrimitiveType, array: Any) -> list[Any]:
    """Return the physical values of an Arrow array of `physical_arrow_type(kind)`, with None for null."""
    values: list[Any] = array.to_pylist()
    if isinstance(kind, UUIDType):
        return [None if value is None else uuid.UUID(bytes=value) for value in values]
    return values


def bound_number_type(kind: PrimitiveType) -> str | None:
    """Return the numpy type that reads the serialized bounds of a type whose bounds are numbers of fixed width; None for other types. Spec: Appendix D.

    Bounds from before a type promotion are ignored: they may have a different width.
    """
    return None if isinstance(kind, BooleanType) else _LAYOUTS.get(type(kind), (None,))[0]


def bounds_to_array(kind: PrimitiveType, bounds: Any) -> Any:
    """Convert a column of serialized bounds to an array of `physical_arrow_type(kind)`, without a Python object for each bound.

    Null means that the bound is unknown: it was not written, its length or UTF-8 is invalid for the type, or it is NaN, which has no order. The bounds of
    shapes, which are the corners of a box, are always null here: see `geo_bounds.py`.

    Args:
        kind: The type of the column.
        bounds: Arrow array of binary or large_binary.
    Spec: Appendix D, binary single-value serialization; Schema Evolution (lengths of bounds from before a promotion).
    """
    arrow_type = physical_arrow_type(kind)
    if pa.types.is_null(bounds.type) or isinstance(kind, (*_SHAPES, UnknownType)):
        return pa.nulls(len(bounds), arrow_type)
    column = array_of_chunks(bounds)
    if isinstance(kind, StringType):
        return strings_of(column)
    if isinstance(kind, FixedType | BinaryType):
        return column.cast(arrow_type)
    spans = spans_of(column)
    if isinstance(kind, UUIDType):
        return pc.if_else(mask_array(spans.lengths == 16), column.cast(arrow_type), scalar_of(None, arrow_type))
    if isinstance(kind, DecimalType):
        words, validity = decimal_words(spans)
        return pa.Array.from_buffers(arrow_type, len(validity), [validity_buffer(validity), pa.py_buffer(words.tobytes())])
    numbers, validity = fixed_width_numbers(spans, _LAYOUTS[type(kind)])
    if type(kind) in _UNITS_PER_DAY:
        units, fits = days_in_units(spans, _UNITS_PER_DAY[type(kind)], INTEGER_RANGES[type(kind)])
        numbers, validity = np.where(fits, units, numbers), validity | fits
    if isinstance(kind, FloatType | DoubleType):
        validity &= ~np.isnan(numbers)
    if isinstance(kind, BooleanType):
        numbers = numbers != 0
    return numbers_array(numbers, arrow_type, validity)
