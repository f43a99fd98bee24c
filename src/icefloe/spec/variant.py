"""Variants: encoding and decoding of values of any structure (binary encoding version 1), and the bounds of variant columns, which are themselves variants.

`schema/arrow_extensions.py` has the Arrow type of variants. `variant_bytes.py` encodes and decodes the bytes of names and values. A decoded value is None,
True, False, a `Scalar`, a list, or a dict by name. `variant_from_python` also accepts Python values. `variant_to_python` and `variant_to_json` return plain
values.
Spec: Semi-structured Types; Bounds for Variant; Parquet, VariantEncoding.
"""

import base64
import math
import struct
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np

from icefloe.errors import FormatError, InvalidInputError
from icefloe.spec import values
from icefloe.spec import variant_bytes as form
from icefloe.spec.types import (
    BinaryType,
    BooleanType,
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
    TimeType,
    UUIDType,
)

# Far above the nesting of usual values, and low enough for Python's limit of recursion.
_MAX_NESTING = 200

_TYPES: Mapping[int, PrimitiveType] = {
    form.INT8: IntegerType(),
    form.INT16: IntegerType(),
    form.INT32: IntegerType(),
    form.INT64: LongType(),
    form.DOUBLE: DoubleType(),
    form.FLOAT: FloatType(),
    form.DATE: DateType(),
    form.TIMESTAMPTZ: TimestamptzType(),
    form.TIMESTAMP: TimestampType(),
    form.TIME: TimeType(),
    form.TIMESTAMPTZ_NANOS: TimestamptzNanoType(),
    form.TIMESTAMP_NANOS: TimestampNanoType(),
}
_NUMBERS_OF: Mapping[PrimitiveType, int] = {kind: number for number, kind in _TYPES.items() if not isinstance(kind, IntegerType | LongType)}
_DECIMAL_DIGITS = {form.DECIMAL4: 9, form.DECIMAL8: 18, form.DECIMAL16: 38}
_NANO_TYPES = (TimestampNanoType, TimestamptzNanoType)


class Scalar(NamedTuple):
    """A primitive value, except null and booleans, with its type. The value is physical, see `values.py`."""

    kind: PrimitiveType
    value: Any


class Encoded(NamedTuple):
    """A variant in its stored form: the bytes of its metadata and the bytes of its value."""

    metadata: bytes
    value: bytes


# ---- reading ----


def decode(metadata: bytes, value: bytes) -> Any:
    """Decode the bytes of a variant to None, True, False, a `Scalar`, a list or a dict.

    Raises:
        FormatError: The bytes are not a variant of version 1.
    """
    names = form.read_names(bytes(metadata))
    try:
        return _Reader(names, value).read(0, 0)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise FormatError(f"the value of a variant is damaged: {error}") from error


def variant_to_python(metadata: bytes, value: bytes) -> Any:
    """Convert a variant to a Python value: None, bool, int, float, Decimal, str, bytes, UUID, date, time, datetime, dict or list.

    A datetime has a time zone if the timestamp has one. Timestamps in nanoseconds become `numpy.datetime64`, which has no time zone.

    Raises:
        FormatError: The bytes are not a variant.
        InvalidInputError: A date or timestamp in the variant is outside of the years 1 to 9999, so Python cannot represent it.
    """
    try:
        return _plain(decode(metadata, value), _python_of)
    except InvalidInputError as error:
        raise InvalidInputError(f"a date or time of a variant is outside of the range of Python's classes: {error.message}") from error


def variant_to_json(metadata: bytes, value: bytes) -> Any:
    """Convert a variant to JSON for display. The types of values are lost.

    Dates and times are ISO 8601 text, decimals are text with all digits, bytes are base64 text, and floats that JSON does not have are text ("NaN",
    "Infinity").

    Raises:
        FormatError: The bytes are not a variant.
    """
    return _plain(decode(metadata, value), json_of)


def json_of(scalar: Scalar) -> Any:
    """Convert a primitive value to JSON, as in `variant_to_json`."""
    if isinstance(scalar.kind, BinaryType):
        return base64.b64encode(scalar.value).decode("ascii")
    if isinstance(scalar.kind, FloatType | DoubleType) and not math.isfinite(scalar.value):
        return "NaN" if math.isnan(scalar.value) else "Infinity" if scalar.value > 0 else "-Infinity"
    return values.to_json_value(scalar.kind, scalar.value)


def _python_of(scalar: Scalar) -> Any:
    return np.datetime64(scalar.value, "ns") if isinstance(scalar.kind, _NANO_TYPES) else values.to_python(scalar.kind, scalar.value)


def _plain(value: Any, of_scalar: Callable[[Scalar], Any]) -> Any:
    if isinstance(value, Scalar):
        return of_scalar(value)
    if isinstance(value, dict):
        return {name: _plain(inner, of_scalar) for name, inner in value.items()}
    return [_plain(inner, of_scalar) for inner in value] if isinstance(value, list) else value


def bounds_from_bytes(data: bytes) -> dict[str, Scalar | bool]:
    """Decode the lower or upper bounds of a variant column.

    Returns:
        The bound of each field, by its JSON path, such as `$['a']['b']`.

    Raises:
        FormatError: The bytes are not a variant, or the variant is not an object with primitive values.
    Spec: Bounds for Variant; Appendix D, Bound serialization.
    """
    _, end = form.read_names_prefix(data)
    bounds = decode(data[:end], data[end:])
    if not isinstance(bounds, dict) or not all(isinstance(bound, Scalar | bool) for bound in bounds.values()):
        raise FormatError("the bound of a variant is not an object of primitive values by their path")
    return bounds


class _Reader:
    """The decoder of one value.

    Every value has at least one byte, so at most as many values as bytes are decoded. This prevents that damaged offsets decode the same bytes many times.
    """

    def __init__(self, names: form.VariantNames, data: bytes) -> None:
        self._names = names
        self._data = data
        self._left = len(data)

    def read(self, at: int, depth: int) -> Any:
        self._left -= 1
        if self._left < 0 or depth > _MAX_NESTING:
            raise FormatError("the values of the variant overlap, or are nested too deeply")
        head = self._data[at]
        basic, header = head & 0x03, head >> 2
        if basic == form.PRIMITIVE:
            return self._primitive(header, at + 1)
        if basic == form.SHORT_STRING:
            return Scalar(StringType(), str(form.slice_bytes(self._data, at + 1, at + 1 + header), "utf-8"))
        container = form.container(self._data, at)
        inner = [self.read(start, depth + 1) for start in container.starts]
        return inner if basic == form.ARRAY else dict(zip(self._names.of(container.ids), inner, strict=True))

    def _primitive(self, number: int, at: int) -> Any:
        if number in (form.NULL, form.TRUE, form.FALSE):
            return None if number == form.NULL else number == form.TRUE
        if number in _TYPES:
            return Scalar(_TYPES[number], form.LAYOUTS[number].unpack_from(self._data, at)[0])
        if number in _DECIMAL_DIGITS:
            scale = self._data[at]
            if scale > 38:
                raise FormatError(f"a variant cannot have a decimal of scale {scale}")
            whole = int.from_bytes(form.slice_bytes(self._data, at + 1, at + 1 + form.DECIMAL_WIDTHS[number]), "little", signed=True)
            return Scalar(DecimalType(max(_DECIMAL_DIGITS[number], scale), scale), values.decimal_of(whole, scale))
        if number == form.UUID_KIND:
            return Scalar(UUIDType(), uuid.UUID(bytes=form.slice_bytes(self._data, at, at + 16)))
        if number not in (form.BINARY, form.STRING):
            raise FormatError(f"the value of a variant is of the unknown primitive kind {number}")
        data = form.slice_bytes(self._data, at + 4, at + 4 + form.number_at(self._data, at, 4))
        return Scalar(BinaryType(), data) if number == form.BINARY else Scalar(StringType(), str(data, "utf-8"))


# ---- writing ----


def variant_from_python(value: Any) -> Encoded:
    """Encode a value as a variant.

    Integers are encoded in the fewest bytes, and the names in the metadata are sorted.

    Args:
        value: None, a bool, int, float, str, bytes, Decimal, UUID, date, time, datetime, `numpy.datetime64` (in nanoseconds) or `Scalar`; or a list, tuple or
            dict of these.

    Raises:
        InvalidInputError: The value cannot be represented in a variant, or a key of a dict is not text.
    """
    try:
        metadata = form.write_names(list(_names_in(value, 0)))
        return Encoded(metadata, _encode_value(value, form.read_names(metadata)))
    except (OverflowError, UnicodeError, struct.error) as error:
        raise InvalidInputError(f"a variant cannot hold {type(value).__name__} {str(value)[:80]!r}: {error}") from error


def bounds_to_bytes(bounds: Mapping[str, Scalar | bool]) -> bytes:
    """Encode the lower or upper bounds of a variant column. `bounds` is a dict as `bounds_from_bytes` returns it."""
    return b"".join(variant_from_python(dict(bounds)))


def normalized_path(names: Sequence[str]) -> str:
    """Return the path of a field in a variant, as in the bounds of variant columns: `$['location']['latitude']`.

    Spec: Bounds for Variant; RFC 9535, Normalized Paths.
    """
    return "$" + "".join(f"['{''.join(map(_escape, name))}']" for name in names)


_ESCAPES = {"'": r"\'", "\\": r"\\", "\b": r"\b", "\t": r"\t", "\n": r"\n", "\f": r"\f", "\r": r"\r"}


def _escape(letter: str) -> str:
    return _ESCAPES.get(letter) or (f"\\u{ord(letter):04x}" if ord(letter) < 0x20 else letter)


def _names_in(value: Any, depth: int) -> set[str]:
    if depth > _MAX_NESTING:
        raise InvalidInputError(f"the values of a variant may be nested {_MAX_NESTING} levels deep, and these are deeper")
    if isinstance(value, Mapping):
        wrong = [key for key in value if not isinstance(key, str)]
        if wrong:
            raise InvalidInputError(f"the names in a variant are text, and {wrong[0]!r} is not")
        return set(value).union(*(_names_in(inner, depth + 1) for inner in value.values()))
    if isinstance(value, list | tuple) and not isinstance(value, Scalar):
        return set().union(*(_names_in(inner, depth + 1) for inner in value))
    return set()


def _encode_value(value: Any, names: form.VariantNames) -> bytes:
    if isinstance(value, Mapping):
        return form.object_value(names, {name: _encode_value(inner, names) for name, inner in value.items()})
    if isinstance(value, list | tuple) and not isinstance(value, Scalar):
        return form.array_value([_encode_value(inner, names) for inner in value])
    if value is None:
        return form.VARIANT_NULL
    if isinstance(value, bool):
        return form.bool_value(value)
    return _encoded_scalar(value if isinstance(value, Scalar) else _scalar(value))


def _scalar(value: Any) -> Scalar:
    """Convert a Python value to a `Scalar` with its type in variants."""
    if isinstance(value, np.datetime64):
        return Scalar(TimestampNanoType(), int(value.astype("datetime64[ns]").astype(np.int64)))
    for classes, kind in _PYTHON_TYPES:
        if isinstance(value, classes):
            zoned = isinstance(value, datetime) and value.tzinfo is not None
            scalar_type = TimestamptzType() if zoned else kind
            return Scalar(scalar_type, values.to_physical(scalar_type, value))
    if isinstance(value, Decimal) and value.is_finite():
        digits, exponent = value.as_tuple().digits, int(value.as_tuple().exponent)
        scale = max(0, -exponent)
        precision = max(len(digits) + max(0, exponent), scale, 1)
        if precision <= 38:
            return Scalar(DecimalType(precision, scale), value)
    raise InvalidInputError(f"a variant cannot hold {type(value).__name__} {str(value)[:80]!r}")


_PYTHON_TYPES: tuple[tuple[Any, PrimitiveType], ...] = (
    (int, LongType()),
    (float, DoubleType()),
    (str, StringType()),
    (bytes | bytearray | memoryview, BinaryType()),
    (uuid.UUID, UUIDType()),
    (datetime, TimestampType()),
    (date, DateType()),
    (time, TimeType()),
)


def _encoded_scalar(scalar: Scalar) -> bytes:
    kind, value = scalar
    if isinstance(kind, BooleanType):
        return form.bool_value(value)
    if isinstance(kind, IntegerType | LongType):
        # Integers are encoded in the fewest bytes, because their width has no meaning.
        bits = (value if value >= 0 else ~value).bit_length()
        fitting = (number for number in (form.INT8, form.INT16, form.INT32) if bits < form.LAYOUTS[number].size * 8)
        return form.number_value(next(fitting, form.INT64), value)
    if isinstance(kind, DecimalType):
        whole = values.unscaled_value(value, kind.scale)
        return form.decimal_value(whole, kind.scale, len(str(abs(whole))))
    if isinstance(kind, StringType):
        return form.string_value(value)
    if isinstance(kind, UUIDType):
        return form.uuid_value(value.bytes)
    if isinstance(kind, BinaryType):
        return form.binary_value(bytes(value))
    if kind not in _NUMBERS_OF:
        raise InvalidInputError(f"a variant cannot hold a value of type {kind}")
    return form.number_value(_NUMBERS_OF[kind], value)
