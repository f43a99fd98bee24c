"""The binary form of variants: a dictionary of names (`metadata`) and a `value` of any shape; taken apart, put together, and as Python's own values.

Variants spread over columns are `variant_shredding.py`. Floor: datafile. Spec: Parquet, Variant Binary Encoding (version 1).
"""

import datetime as dt
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import cached_property, lru_cache
from typing import Any
from uuid import UUID

import numpy as np

from icefloe.errors import FormatError, InvalidInputError
from icefloe.kernel.values import decimal_of, unscaled

VERSION = 1
# The two lowest bits of a value's first byte.
PRIMITIVE, SHORT_STRING, OBJECT, ARRAY = range(4)
# A primitive's kind, in the six bits above.
NULL, TRUE, FALSE, INT8, INT16, INT32, INT64, DOUBLE, DECIMAL4, DECIMAL8, DECIMAL16, DATE = range(12)
TIMESTAMPTZ, TIMESTAMP, FLOAT, BINARY, STRING, TIME, TIMESTAMPTZ_NANOS, TIMESTAMP_NANOS, UUID_KIND = range(12, 21)
VARIANT_NULL = b"\x00"
EMPTY_METADATA = b"\x11\x00\x00"
MAX_SHORT_STRING = 63
_MANY_ELEMENTS = 255
_SORTED = 0x10
# How a primitive of a fixed width lies in bytes, in the letters of `struct`; decimals after the byte of their scale.
_NUMBERS = {
    INT8: "<b",
    INT16: "<h",
    INT32: "<i",
    INT64: "<q",
    DOUBLE: "<d",
    FLOAT: "<f",
    DATE: "<i",
    TIMESTAMPTZ: "<q",
    TIMESTAMP: "<q",
    TIME: "<q",
    TIMESTAMPTZ_NANOS: "<q",
    TIMESTAMP_NANOS: "<q",
}
_DECIMAL_WIDTHS = {DECIMAL4: 4, DECIMAL8: 8, DECIMAL16: 16}
# Enough digits for any decimal; Python rounds to 28 by itself.
WIDE = Context(prec=100)
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - for timestamps without zone


@dataclass(frozen=True)
class VariantNames:
    """The dictionary of names that a variant's objects refer to, in the order of its ids."""

    names: tuple[str, ...]

    @cached_property
    def ids(self) -> Mapping[str, int]:
        return {name: number for number, name in enumerate(self.names)}


@lru_cache(maxsize=4096)
def read_names(metadata: bytes) -> VariantNames:
    """The names of a variant's metadata.

    Raises:
        FormatError: it is cut short, its numbers lead nowhere, or it is of another version.
    """
    try:
        header = metadata[0]
        if header & 0x0F != VERSION:
            raise FormatError(f"the metadata of a variant is of version {header & 0x0F}; {VERSION} is known")
        width = (header >> 6) + 1
        count = _number(metadata, 1, width)
        if (count + 2) * width > len(metadata):
            raise FormatError("the metadata of a variant claims more names than it has bytes for")
        offsets = [_number(metadata, 1 + width * (place + 1), width) for place in range(count + 1)]
        start = 1 + width * (count + 2)
        return VariantNames(tuple(str(_cut(metadata, start + low, start + high), "utf-8") for low, high in zip(offsets, offsets[1:])))  # noqa: B905 RUF007
    except (IndexError, UnicodeDecodeError) as error:
        raise FormatError(f"the metadata of a variant is damaged: {error}") from error


def write_names(names: Sequence[str]) -> bytes:
    """Metadata with these names, which are sorted and stand once."""
    texts = [name.encode() for name in sorted(set(names), key=str.encode)]
    width = _width(max(sum(map(len, texts)), len(texts)))
    parts = [bytes([VERSION | _SORTED | (width - 1) << 6]), len(texts).to_bytes(width, "little"), *_offsets(texts, width), *texts]
    return b"".join(parts)


def _number(data: bytes, position: int, width: int) -> int:
    return int.from_bytes(_cut(data, position, position + width), "little")


def _cut(data: bytes, start: int, end: int) -> bytes:
    if not 0 <= start <= end <= len(data):
        raise IndexError("an offset leads out of it")
    return data[start:end]


def _width(largest: int) -> int:
    return max(1, (largest.bit_length() + 7) // 8)


def _offsets(parts: Sequence[bytes], width: int) -> list[bytes]:
    position, found = 0, [bytes(width)]
    for part in parts:
        position += len(part)
        found.append(position.to_bytes(width, "little"))
    return found


# ---- taking apart ----


@dataclass(frozen=True, slots=True)
class _Container:
    """Where the parts of an object or array lie: field ids (objects alone), and the start of each value."""

    ids: tuple[int, ...]
    starts: tuple[int, ...]
    end: int


def basic_type(value: bytes) -> int:
    """`PRIMITIVE`, `SHORT_STRING`, `OBJECT` or `ARRAY`. Raises `FormatError` for no bytes at all."""
    if not value:
        raise FormatError("the value of a variant has no bytes")
    return value[0] & 0x03


def object_fields(names: VariantNames, value: bytes) -> dict[str, bytes]:
    """The fields of an object's value, each the bytes of a value.

    Raises:
        FormatError: it is no object, or is damaged.
    """
    return dict(_guarded(lambda: _fields_at(names, value, 0)))


def _fields_at(names: VariantNames, value: bytes, position: int) -> list[tuple[str, bytes]]:
    if value[position] & 0x03 != OBJECT:
        raise FormatError("the value of a variant is no object")
    found = _container(value, position)
    if any(number >= len(names.names) for number in found.ids):
        raise FormatError("an object of a variant has a field whose name is not in the metadata")
    return [
        (names.names[number], _cut(value, start, start + _size(value, start)))
        for number, start in zip(found.ids, found.starts, strict=True)
    ]


def _container(value: bytes, position: int) -> _Container:
    header = value[position] >> 2
    is_object = value[position] & 0x03 == OBJECT
    offset_width = (header & 0x03) + 1
    id_width = (header >> 2 & 0x03) + 1 if is_object else 0
    is_large = header >> (4 if is_object else 2) & 1
    position += 1
    count = _number(value, position, 4 if is_large else 1)
    position += 4 if is_large else 1
    if position + count * id_width + (count + 1) * offset_width > len(value):
        raise FormatError("an object or array of a variant claims more members than it has bytes for")
    ids = tuple(_number(value, position + place * id_width, id_width) for place in range(count)) if is_object else ()
    position += count * id_width
    offsets = [_number(value, position + place * offset_width, offset_width) for place in range(count + 1)]
    start = position + (count + 1) * offset_width
    return _Container(ids, tuple(start + offset for offset in offsets[:-1]), start + offsets[-1])


def _size(value: bytes, position: int) -> int:
    """How many bytes the value at `position` has."""
    first = value[position]
    basic, kind = first & 0x03, first >> 2
    if basic == SHORT_STRING:
        return 1 + kind
    if basic != PRIMITIVE:
        return _container(value, position).end - position
    if kind in (NULL, TRUE, FALSE):
        return 1
    if kind in _NUMBERS:
        return 1 + struct.calcsize(_NUMBERS[kind])
    if kind in _DECIMAL_WIDTHS:
        return 2 + _DECIMAL_WIDTHS[kind]
    if kind in (BINARY, STRING):
        return 5 + _number(value, position + 1, 4)
    if kind == UUID_KIND:
        return 17
    raise FormatError(f"the value of a variant is of the unknown primitive kind {kind}")


def _guarded(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except (IndexError, struct.error, UnicodeDecodeError, RecursionError) as error:
        raise FormatError(f"the value of a variant is damaged: {error}") from error


def to_python(metadata: bytes, value: bytes) -> Any:
    """A variant as Python's own value: None, bool, int, float, Decimal, str, bytes, UUID, date, time, datetime (aware where with zone), dict, list.

    Timestamps in nanoseconds become `numpy.datetime64`, which has no zone.

    Raises:
        FormatError: the bytes are no variant.
        InvalidInputError: a date or time outside the years 1 to 9999, which Python cannot hold.
    """
    names = read_names(metadata)
    try:
        return _guarded(lambda: _python_at(names, value, 0))
    except OverflowError as error:
        raise InvalidInputError(f"a date or time of a variant is outside what Python can hold: {error}") from error


def _python_at(names: VariantNames, value: bytes, position: int) -> Any:
    first = value[position]
    basic, kind = first & 0x03, first >> 2
    if basic == SHORT_STRING:
        return str(_cut(value, position + 1, position + 1 + kind), "utf-8")
    if basic == PRIMITIVE:
        return _primitive_at(kind, value, position + 1)
    found = _container(value, position)
    if basic == ARRAY:
        return [_python_at(names, value, start) for start in found.starts]
    if any(number >= len(names.names) for number in found.ids):
        raise FormatError("an object of a variant has a field whose name is not in the metadata")
    return {names.names[number]: _python_at(names, value, start) for number, start in zip(found.ids, found.starts, strict=True)}


def _primitive_at(kind: int, value: bytes, position: int) -> Any:
    if kind in (NULL, TRUE, FALSE):
        return {NULL: None, TRUE: True, FALSE: False}[kind]
    if kind in _NUMBERS:
        return _of_number(kind, struct.unpack_from(_NUMBERS[kind], value, position)[0])
    if kind in _DECIMAL_WIDTHS:
        number = int.from_bytes(_cut(value, position + 1, position + 1 + _DECIMAL_WIDTHS[kind]), "little", signed=True)
        return decimal_of(number, value[position])
    if kind == UUID_KIND:
        return UUID(bytes=_cut(value, position, position + 16))
    if kind not in (BINARY, STRING):
        raise FormatError(f"the value of a variant is of the unknown primitive kind {kind}")
    data = _cut(value, position + 4, position + 4 + _number(value, position, 4))
    return data if kind == BINARY else str(data, "utf-8")


def _of_number(kind: int, number: Any) -> Any:
    if kind == DATE:
        return _EPOCH.date() + dt.timedelta(days=number)
    if kind == TIME:
        return (_EPOCH + dt.timedelta(microseconds=number)).time()
    if kind in (TIMESTAMP, TIMESTAMPTZ):
        moment = _EPOCH + dt.timedelta(microseconds=number)
        return moment.replace(tzinfo=dt.UTC) if kind == TIMESTAMPTZ else moment
    return np.datetime64(number, "ns") if kind in (TIMESTAMP_NANOS, TIMESTAMPTZ_NANOS) else number


# ---- putting together ----


def number_value(kind: int, number: Any) -> bytes:
    """A primitive of a fixed width: integers, floats, days, micro- and nanoseconds."""
    return bytes([kind << 2]) + struct.pack(_NUMBERS[kind], number)


def decimal_value(number: int, scale: int, precision: int) -> bytes:
    """A decimal, unscaled, in the width that holds its precision."""
    kind = DECIMAL4 if precision <= 9 else DECIMAL8 if precision <= 18 else DECIMAL16
    return bytes([kind << 2, scale]) + number.to_bytes(_DECIMAL_WIDTHS[kind], "little", signed=True)


def string_value(text: str) -> bytes:
    """A string, short where it can be."""
    data = text.encode()
    return bytes([len(data) << 2 | SHORT_STRING]) + data if len(data) <= MAX_SHORT_STRING else _sized(STRING, data)


def binary_value(data: bytes) -> bytes:
    """Bytes."""
    return _sized(BINARY, data)


def uuid_value(data: bytes) -> bytes:
    """A UUID of 16 bytes, big endian."""
    return bytes([UUID_KIND << 2]) + data


def bool_value(value: bool) -> bytes:
    """True or false."""
    return bytes([(TRUE if value else FALSE) << 2])


def _sized(kind: int, data: bytes) -> bytes:
    return bytes([kind << 2]) + len(data).to_bytes(4, "little") + data


def array_value(elements: Sequence[bytes]) -> bytes:
    """An array of values."""
    width, is_large = _width(sum(map(len, elements))), len(elements) > _MANY_ELEMENTS
    header = ARRAY | (width - 1 | is_large << 2) << 2
    return b"".join([bytes([header]), len(elements).to_bytes(4 if is_large else 1, "little"), *_offsets(elements, width), *elements])


def object_value(names: VariantNames, fields: Mapping[str, bytes]) -> bytes:
    """An object of values. Raises `FormatError` where a field's name is not in the dictionary."""
    ordered = sorted(fields, key=str.encode)
    missing = [name for name in ordered if name not in names.ids]
    if missing:
        raise FormatError(f"the field {missing[0]!r} of a variant is not in its metadata")
    ids = [names.ids[name] for name in ordered]
    values = [fields[name] for name in ordered]
    width, id_width, is_large = _width(sum(map(len, values))), _width(max(ids, default=0)), len(values) > _MANY_ELEMENTS
    header = OBJECT | (width - 1 | id_width - 1 << 2 | is_large << 4) << 2
    numbers = [number.to_bytes(id_width, "little") for number in ids]
    return b"".join([bytes([header]), len(values).to_bytes(4 if is_large else 1, "little"), *numbers, *_offsets(values, width), *values])


def of_python(value: Any) -> tuple[bytes, bytes]:
    """The metadata and the value of a variant made of a Python value of the kinds that `to_python` gives.

    Raises:
        InvalidInputError: a value, or a dict's key, of another kind.
    """
    metadata = write_names(list(_names_in(value)))
    return metadata, _value_of(read_names(metadata), value)


def _names_in(value: Any) -> Sequence[str]:
    if isinstance(value, Mapping):
        strange = [name for name in value if not isinstance(name, str)]
        if strange:
            raise InvalidInputError(f"{strange[0]!r} cannot be the name of a field of a variant")
        return [*value, *(name for inner in value.values() for name in _names_in(inner))]
    return [name for inner in value for name in _names_in(inner)] if isinstance(value, list | tuple) else []


def _value_of(names: VariantNames, value: Any) -> bytes:
    if isinstance(value, Mapping):
        return object_value(names, {name: _value_of(names, inner) for name, inner in value.items()})
    if isinstance(value, list | tuple):
        return array_value([_value_of(names, inner) for inner in value])
    for kind, encode in _ENCODERS:
        if isinstance(value, kind):
            return encode(value)
    raise InvalidInputError(f"{value!r} cannot be the value of a variant")


def _of_int(value: int) -> bytes:
    bits = (value if value >= 0 else ~value).bit_length()
    for kind, width in ((INT8, 7), (INT16, 15), (INT32, 31), (INT64, 63)):
        if bits <= width:
            return number_value(kind, value)
    raise InvalidInputError(f"{value} is too large a whole number for a variant, which has 64 bits for one")


def _of_decimal(value: Decimal) -> bytes:
    exponent = value.as_tuple().exponent
    scale = max(0, -exponent) if isinstance(exponent, int) else -1
    number = unscaled(value, scale) if scale >= 0 else 0
    digits = len(str(abs(number)))
    if not 0 <= scale <= 38 or digits > 38:
        raise InvalidInputError(f"{value} is no decimal of a variant, which has at most 38 digits")
    return decimal_value(number, scale, digits)


def _micros(value: dt.timedelta) -> int:
    return value // dt.timedelta(microseconds=1)


def _of_datetime(value: dt.datetime) -> bytes:
    if value.tzinfo is None:
        return number_value(TIMESTAMP, _micros(value - _EPOCH))
    return number_value(TIMESTAMPTZ, _micros(value - _EPOCH.replace(tzinfo=dt.UTC)))


# Tried in this order: bool is an int, datetime a date.
_ENCODERS: tuple[tuple[type, Callable[[Any], bytes]], ...] = (
    (type(None), lambda _: VARIANT_NULL),
    (bool, bool_value),
    (int, _of_int),
    (float, lambda value: number_value(DOUBLE, value)),
    (Decimal, _of_decimal),
    (str, string_value),
    (bytes, binary_value),
    (UUID, lambda value: uuid_value(value.bytes)),
    (dt.datetime, _of_datetime),
    (dt.date, lambda value: number_value(DATE, (value - _EPOCH.date()).days)),
    (dt.time, lambda value: number_value(TIME, _micros(dt.datetime.combine(_EPOCH, value) - _EPOCH))),
    (np.datetime64, lambda value: number_value(TIMESTAMP_NANOS, int(value.astype("datetime64[ns]").astype(np.int64)))),
)
