"""One value of a primitive type in each of its forms: physical, bytes, JSON, text, Python; and Arrow arrays of physical values.

A physical value is what the whole kernel computes with: bool; int for int and long; int days for date; int microseconds for time and both timestamps; float;
`Decimal` with the type's scale; str; `uuid.UUID`; bytes for fixed and binary. None is null. Shortened bounds are `bounds.py`; partition transforms are
`partitioning/`. Floor: kernel, above types. Spec: Appendix D, single-value serialization.
"""

import base64
import struct
import uuid
from collections.abc import Mapping, Sequence
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icefloe.errors import FormatError, InvalidInputError
from icefloe.kernel import dates_and_times as iso
from icefloe.kernel.arrow_values import array_of, mask_array, numbers_array, scalar_of, validity_buffer
from icefloe.kernel.byte_columns import decimal_words, fixed_width_numbers, spans_of
from icefloe.kernel.literals import physical_of_native
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

# How a fixed-width number lies in bytes, in numpy's letters; then the shorter forms left by a promotion. Spec: Appendix D; Schema Evolution.
_LAYOUTS: Mapping[type[PrimitiveType], tuple[str, ...]] = {
    BooleanType: ("u1",),
    IntegerType: ("<i4",),
    DateType: ("<i4",),
    LongType: ("<i8", "<i4"),
    TimeType: ("<i8",),
    TimestampType: ("<i8",),
    TimestamptzType: ("<i8",),
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
    FloatType: pa.float32(),
    DoubleType: pa.float64(),
    StringType: pa.string(),
    UUIDType: pa.binary(),
    FixedType: pa.binary(),
    BinaryType: pa.binary(),
}


# ---- bytes: bounds and partition summaries ----


def unscaled(value: Decimal, scale: int) -> int:
    """The whole number that stands for `value` in a decimal of this scale. Raises `InvalidInputError` where digits would be lost."""
    shifted = value.scaleb(scale, context=_WIDE)
    whole = int(shifted)
    if whole != shifted:
        raise InvalidInputError(f"{value} has more than {scale} digits after the point")
    return whole


def decimal_of(number: int, scale: int) -> Decimal:
    """The decimal of this scale that a whole number stands for."""
    return Decimal(number).scaleb(-scale, context=_WIDE)


def decimal_bytes(number: int) -> bytes:
    """Two's complement, big endian, in as few bytes as hold it: 1420 is 05 8C, 128 is 00 80, -128 is 80. Spec: Appendix D."""
    magnitude = number if number >= 0 else ~number
    return number.to_bytes(magnitude.bit_length() // 8 + 1, "big", signed=True)


def to_bytes(kind: PrimitiveType, value: Any) -> bytes:
    """A physical value as a bound or partition summary holds it.

    Raises:
        InvalidInputError: the value is not a physical value of the type, or null.
    Spec: Appendix D, binary single-value serialization.
    """
    packer = _PACK.get(type(kind))
    try:
        if packer is not None:
            return packer.pack(value)
        if isinstance(kind, StringType):
            return bytes(value.encode("utf-8"))
        if isinstance(kind, DecimalType):
            return decimal_bytes(unscaled(value, kind.scale))
        if isinstance(kind, UUIDType):
            return bytes(value.bytes)
        return bytes(memoryview(value))
    except (struct.error, OverflowError, AttributeError, TypeError, UnicodeError) as error:
        raise InvalidInputError(f"{value!r} is not a value of type {kind}") from error


def from_bytes(kind: PrimitiveType, data: bytes) -> Any:
    """The physical value a bound or partition summary holds; a long of 4 bytes, a double of 4 bytes and a decimal of any width are read too.

    Raises:
        FormatError: the bytes are too few or too many for the type, or not UTF-8.
    Spec: Appendix D, binary single-value serialization.
    """
    unpackers = _UNPACK.get(type(kind))
    if unpackers is not None:
        unpacker = unpackers.get(len(data))
        if unpacker is not None:
            return unpacker.unpack(data)[0]
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
    else:
        return bytes(data)
    raise FormatError(f"{len(data)} bytes ({bytes(data[:32]).hex()}) cannot be a value of type {kind}")


# ---- text for people, and Python's own classes ----


def to_human(kind: PrimitiveType, value: Any) -> str:
    """A physical value as text for messages and partition paths: ISO 8601 for times, base64 for bytes, `null` for None; the same text as Java's."""
    if value is None:
        return "null"
    if isinstance(kind, BooleanType):
        return "true" if value else "false"
    if isinstance(kind, FixedType | BinaryType):
        return base64.b64encode(value).decode("ascii")
    if isinstance(kind, DateType | TimeType | TimestampType | TimestamptzType):
        return _iso_text(kind, value)
    return str(value)


def to_python(kind: PrimitiveType, value: Any) -> Any:
    """A physical value as Python's own class: date, time, datetime (aware in UTC for timestamptz); the others as they are.

    Raises:
        InvalidInputError: a date or time outside the years 1 to 9999, which Python cannot hold.
    """
    if value is None:
        return None
    try:
        if isinstance(kind, DateType):
            return iso.date_of(value)
        if isinstance(kind, TimeType):
            return iso.time_of(value)
        if isinstance(kind, TimestampType | TimestamptzType):
            return iso.datetime_of(value, utc=isinstance(kind, TimestamptzType))
    except (OverflowError, ValueError) as error:
        raise InvalidInputError(f"{kind} {to_human(kind, value)} is outside what Python's {kind} can hold") from error
    return value


def _iso_text(kind: PrimitiveType, value: int) -> str:
    if isinstance(kind, DateType):
        return iso.format_date(value)
    if isinstance(kind, TimeType):
        return iso.format_time(value)
    return iso.format_timestamp(value, utc=isinstance(kind, TimestamptzType))


# ---- JSON ----


def to_json_value(kind: PrimitiveType, value: Any) -> Any:
    """A physical value as JSON holds it; None for null. Spec: Appendix D, JSON single-value serialization."""
    if value is None:
        return None
    if isinstance(kind, DateType | TimeType | TimestampType | TimestamptzType):
        return _iso_text(kind, value)
    if isinstance(kind, DecimalType):
        return format(value, "f")
    if isinstance(kind, UUIDType):
        return str(value)
    if isinstance(kind, FixedType | BinaryType):
        return bytes(value).hex()
    return value


def from_json_value(kind: PrimitiveType, value: Any) -> Any:
    """The physical value of a JSON value; None for null.

    Raises:
        FormatError: the JSON value is not one of the type.
    Spec: Appendix D, JSON single-value serialization.
    """
    if value is None:
        return None
    wanted: tuple[type, ...] = _JSON_CLASSES.get(type(kind), (str,))
    if not isinstance(value, wanted) or (isinstance(value, bool) and not isinstance(kind, BooleanType)):
        raise FormatError(f"{value!r} is not a {kind} in JSON")
    try:
        return to_physical(kind, bytes.fromhex(str(value)) if isinstance(kind, FixedType | BinaryType) else value)
    except ValueError as error:
        raise FormatError(f"{value!r} is not a {kind} in JSON") from error


_JSON_CLASSES: Mapping[type[PrimitiveType], tuple[type, ...]] = {
    BooleanType: (bool,),
    IntegerType: (int,),
    LongType: (int,),
    FloatType: (int, float),
    DoubleType: (int, float),
}


# ---- literals ----


def to_physical(kind: PrimitiveType, value: Any) -> Any:
    """A Python value, or its text, as the physical value of a type.

    Taken are bool, int, float, Decimal, str, bytes, UUID, date, time, datetime and numpy scalars. An int for a date or time counts days or microseconds.
    A date for a timestamp is its midnight; a datetime or text without zone for a timestamptz is UTC. A float is rounded to 32 bits for a float column.

    Raises:
        InvalidInputError: the value cannot be one of the type exactly, is out of its range, or is None.
    """
    try:
        return physical_of_native(kind, value)
    except (ValueError, TypeError, ArithmeticError, AttributeError) as error:
        raise InvalidInputError(f"{value!r} cannot be a value of type {kind}: {error}") from error


# ---- Arrow arrays ----


def physical_arrow_type(kind: PrimitiveType) -> Any:
    """The Arrow type of an array of physical values: int32 for int and date; int64 for long, time and timestamps; binary for fixed, binary and uuid."""
    if isinstance(kind, DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    return _ARROW_TYPES[type(kind)]


def physical_array(kind: PrimitiveType, values: Sequence[Any]) -> Any:
    """Physical values, None for null, as an Arrow array of `physical_arrow_type(kind)`."""
    if isinstance(kind, UUIDType):
        values = [None if value is None else value.bytes for value in values]
    return array_of(values, physical_arrow_type(kind))


def physical_list(kind: PrimitiveType, array: Any) -> list[Any]:
    """The physical values of an Arrow array of `physical_arrow_type(kind)`, None for null."""
    values: list[Any] = array.to_pylist()
    if isinstance(kind, UUIDType):
        return [None if value is None else uuid.UUID(bytes=value) for value in values]
    return values


def bounds_to_array(kind: PrimitiveType, bounds: Any) -> Any:
    """A column of serialized bounds (Arrow binary or large_binary) as an array of `physical_arrow_type(kind)`, without a Python object per bound.

    Null means that nothing is known: no bound was written, its length or UTF-8 is wrong for the type, or it is NaN, which orders nothing.
    Spec: Appendix D, binary single-value serialization; Schema Evolution for lengths from before a promotion.
    """
    arrow_type = physical_arrow_type(kind)
    if pa.types.is_null(bounds.type):
        return pa.nulls(len(bounds), arrow_type)
    column = bounds.combine_chunks() if isinstance(bounds, pa.ChunkedArray) else bounds
    if isinstance(kind, StringType):
        return _strings(column)
    if isinstance(kind, FixedType | BinaryType):
        return column.cast(arrow_type)
    spans = spans_of(column)
    if isinstance(kind, UUIDType):
        return pc.if_else(mask_array(spans.lengths == 16), column.cast(arrow_type), scalar_of(None, arrow_type))
    if isinstance(kind, DecimalType):
        words, known = decimal_words(spans)
        return pa.Array.from_buffers(arrow_type, len(known), [validity_buffer(known), pa.py_buffer(words.tobytes())])
    numbers, known = fixed_width_numbers(spans, _LAYOUTS[type(kind)])
    if isinstance(kind, FloatType | DoubleType):
        known &= ~np.isnan(numbers)
    if isinstance(kind, BooleanType):
        numbers = numbers != 0
    return numbers_array(numbers, arrow_type, known)


def _strings(column: Any) -> Any:
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        return array_of([_text_or_none(value) for value in column.to_pylist()], pa.string())


def _text_or_none(value: bytes | None) -> str | None:
    try:
        return None if value is None else str(value, "utf-8")
    except UnicodeDecodeError:
        return None
