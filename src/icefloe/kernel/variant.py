"""Variants: values of any shape in their binary encoding, version 1, unshredded, both ways; and the bounds of a variant column, which are variants themselves.

Which Arrow type a variant has is `schema/arrow_extensions.py`. A value is None, True or False, a `Scalar`, a list, or a dict by name; to encode, Python's
own values will do. Floor: kernel, above values. Spec: Semi-structured Types; Bounds for Variant; Parquet's VariantEncoding.
"""

import struct
import uuid
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from itertools import pairwise
from typing import Any, NamedTuple

from icefloe.errors import FormatError, InvalidInputError
from icefloe.kernel.types import (
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
from icefloe.kernel.values import decimal_of, to_physical, unscaled

VERSION = 1
_SORTED = 0x10
_PRIMITIVE, _SHORT_STRING, _OBJECT, _ARRAY = range(4)
_NULL, _TRUE, _FALSE = range(3)
_SHORTEST_LONG_STRING = 64
# Deeper than this no one nests values, and Python's stack ends soon after.
_DEEPEST = 200

# The numbers of the primitives of one width: their type here, and how they lie in bytes. Parquet's VariantEncoding, Encoding types.
_FIXED_WIDTH: Mapping[int, tuple[PrimitiveType, struct.Struct]] = {
    3: (IntegerType(), struct.Struct("<b")),
    4: (IntegerType(), struct.Struct("<h")),
    5: (IntegerType(), struct.Struct("<i")),
    6: (LongType(), struct.Struct("<q")),
    7: (DoubleType(), struct.Struct("<d")),
    11: (DateType(), struct.Struct("<i")),
    12: (TimestamptzType(), struct.Struct("<q")),
    13: (TimestampType(), struct.Struct("<q")),
    14: (FloatType(), struct.Struct("<f")),
    17: (TimeType(), struct.Struct("<q")),
    18: (TimestamptzNanoType(), struct.Struct("<q")),
    19: (TimestampNanoType(), struct.Struct("<q")),
}
_NUMBER_OF: Mapping[PrimitiveType, int] = {kind: number for number, (kind, _) in _FIXED_WIDTH.items() if number not in (3, 4)}
# Width in bytes and digits of the decimals.
_DECIMALS = {8: (4, 9), 9: (8, 18), 10: (16, 38)}
_BINARY, _STRING, _UUID = 15, 16, 20


class Scalar(NamedTuple):
    """A primitive value that is neither null nor a truth value: its type, and its physical value as `values.py` has it."""

    kind: PrimitiveType
    value: Any


class Encoded(NamedTuple):
    """The two parts of a variant, as its storage keeps them."""

    metadata: bytes
    value: bytes


# ---- reading ----


def decode(metadata: bytes, value: bytes) -> Any:
    """The value of a variant's two parts.

    Raises:
        FormatError: the bytes are no variant of version 1.
    """
    try:
        names, _ = _read_names(metadata)
        return _Reader(names, value).read(0, 0)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise FormatError(f"the bytes end within the variant, or are none: {error}") from error


def bounds_from_bytes(data: bytes) -> dict[str, Scalar | bool]:
    """The lower or upper bound of a variant column: by the JSON path of each field that has one, such as `$['a']['b']`.

    Raises:
        FormatError: the bytes are no variant, or none of an object of primitive values.
    Spec: Bounds for Variant; Appendix D, Bound serialization.
    """
    try:
        _, end = _read_names(data)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise FormatError(f"the bytes end within the variant, or are none: {error}") from error
    found = decode(data[:end], data[end:])
    if not isinstance(found, dict) or not all(isinstance(bound, Scalar | bool) for bound in found.values()):
        raise FormatError("the bound of a variant is an object of primitive values by their path, and this is another")
    return found


def _read_names(metadata: bytes) -> tuple[list[str], int]:
    """The field names that values refer to by number, and where the metadata ends."""
    head = metadata[0]
    if head & 0x0F != VERSION:
        raise FormatError(f"a variant of encoding version {head & 0x0F} cannot be read; {VERSION} can")
    width = (head >> 6) + 1
    count = _unsigned(metadata, 1, width)
    first = 1 + width * (count + 2)
    if first > len(metadata):
        raise FormatError("the bytes end within the names of the variant")
    offsets = [_unsigned(metadata, 1 + width * (place + 1), width) for place in range(count + 1)]
    end = first + offsets[-1]
    if end > len(metadata) or any(low > high for low, high in pairwise(offsets)):
        raise FormatError("the bytes end within the names of the variant")
    return [str(metadata[first + low : first + high], "utf-8") for low, high in pairwise(offsets)], end


def _unsigned(data: bytes, at: int, width: int) -> int:
    if at + width > len(data):
        raise IndexError(f"{width} bytes expected at {at} of {len(data)}")
    return int.from_bytes(data[at : at + width], "little")


class _Reader:
    """Reads one value. Every value takes a byte of its own at least, so as many values as bytes are read, and no damaged offsets make more of them."""

    def __init__(self, names: Sequence[str], data: bytes) -> None:
        self._names = names
        self._data = data
        self._left = len(data)

    def read(self, at: int, depth: int) -> Any:
        self._left -= 1
        if self._left < 0 or depth > _DEEPEST:
            raise FormatError("the values of the variant stand in each other, or more than once")
        head = self._data[at]
        basic, header = head & 0x03, head >> 2
        if basic == _PRIMITIVE:
            return self._primitive(header, at + 1)
        if basic == _SHORT_STRING:
            return Scalar(StringType(), str(self._bytes(at + 1, header), "utf-8"))
        offset_width = (header & 0x03) + 1
        if basic == _ARRAY:
            count, at = self._count(at, bool(header & 0x04))
            return [self.read(place, depth + 1) for place in self._places(at, count, offset_width)]
        id_width = (header >> 2 & 0x03) + 1
        count, at = self._count(at, bool(header & 0x10))
        self._bytes(at, count * id_width)
        ids = [_unsigned(self._data, at + place * id_width, id_width) for place in range(count)]
        places = self._places(at + count * id_width, count, offset_width)
        return {self._names[number]: self.read(place, depth + 1) for number, place in zip(ids, places, strict=True)}

    def _count(self, at: int, is_large: bool) -> tuple[int, int]:
        width = 4 if is_large else 1
        return _unsigned(self._data, at + 1, width), at + 1 + width

    def _places(self, at: int, count: int, width: int) -> list[int]:
        """Where each value of an object or array begins."""
        self._bytes(at, (count + 1) * width)
        first = at + (count + 1) * width
        return [first + _unsigned(self._data, at + place * width, width) for place in range(count)]

    def _primitive(self, number: int, at: int) -> Any:
        if number in (_NULL, _TRUE, _FALSE):
            return None if number == _NULL else number == _TRUE
        if number in _FIXED_WIDTH:
            kind, layout = _FIXED_WIDTH[number]
            return Scalar(kind, layout.unpack_from(self._data, at)[0])
        if number in _DECIMALS:
            width, digits = _DECIMALS[number]
            scale = self._data[at]
            if scale > 38:
                raise FormatError(f"a decimal of scale {scale} is no variant")
            whole = int.from_bytes(self._bytes(at + 1, width), "little", signed=True)
            return Scalar(DecimalType(max(digits, scale), scale), decimal_of(whole, scale))
        if number == _UUID:
            return Scalar(UUIDType(), uuid.UUID(bytes=self._bytes(at, 16)))
        if number not in (_BINARY, _STRING):
            raise FormatError(f"{number} is no primitive of variants")
        data = self._bytes(at + 4, _unsigned(self._data, at, 4))
        return Scalar(BinaryType(), data) if number == _BINARY else Scalar(StringType(), str(data, "utf-8"))

    def _bytes(self, at: int, length: int) -> bytes:
        if at + length > len(self._data):
            raise IndexError(f"{length} bytes expected at {at} of {len(self._data)}")
        return bytes(self._data[at : at + length])


# ---- writing ----


def encode(value: Any) -> Encoded:
    """A value as a variant: None, bool, int, float, str, bytes, Decimal, UUID, date, time, datetime, `Scalar`, and lists, tuples and dicts of such.

    Whole numbers take the fewest bytes; names stand in order in the metadata.

    Raises:
        InvalidInputError: a variant cannot hold the value, or a dict has a key that is no text.
    """
    names = sorted(_names_in(value, 0))  # by code points, which is the order of their UTF-8 too
    numbers = {name: number for number, name in enumerate(names)}
    try:
        texts = [name.encode() for name in names]
        total = sum(map(len, texts))
        width = _width_of(max(total, len(names)))
        offsets = [0]
        for text in texts:
            offsets.append(offsets[-1] + len(text))
        head = bytes((VERSION | _SORTED | (width - 1) << 6,))
        metadata = head + b"".join(number.to_bytes(width, "little") for number in (len(names), *offsets)) + b"".join(texts)
        return Encoded(metadata, _encoded(value, numbers))
    except (OverflowError, UnicodeError) as error:
        raise InvalidInputError(f"a variant cannot hold {type(value).__name__} {str(value)[:80]!r}: {error}") from error


def bounds_to_bytes(bounds: Mapping[str, Scalar | bool]) -> bytes:
    """The bound of a variant column, by path; see `bounds_from_bytes`."""
    return b"".join(encode(dict(bounds)))


def normalized_path(names: Sequence[str]) -> str:
    """The path of a field within a variant, as its bounds name it: `$['location']['latitude']`. Spec: Bounds for Variant; RFC 9535, Normalized Paths."""
    return "$" + "".join(f"['{''.join(map(_escaped, name))}']" for name in names)


_ESCAPES = {"'": r"\'", "\\": r"\\", "\b": r"\b", "\t": r"\t", "\n": r"\n", "\f": r"\f", "\r": r"\r"}


def _escaped(letter: str) -> str:
    return _ESCAPES.get(letter) or (f"\\u{ord(letter):04x}" if ord(letter) < 0x20 else letter)


def _names_in(value: Any, depth: int) -> set[str]:
    if depth > _DEEPEST:
        raise InvalidInputError(f"a variant may hold values in values {_DEEPEST} times, and these go deeper")
    if isinstance(value, Mapping):
        wrong = [key for key in value if not isinstance(key, str)]
        if wrong:
            raise InvalidInputError(f"the names in a variant are text, and {wrong[0]!r} is none")
        return set(value).union(*(_names_in(inner, depth + 1) for inner in value.values()))
    if isinstance(value, list | tuple) and not isinstance(value, Scalar):
        return set().union(*(_names_in(inner, depth + 1) for inner in value))
    return set()


def _encoded(value: Any, numbers: Mapping[str, int]) -> bytes:
    if isinstance(value, Mapping):
        keys = sorted(value, key=numbers.__getitem__)
        ids = [numbers[key] for key in keys]
        id_width = _width_of(max(ids, default=0))
        parts = [_encoded(value[key], numbers) for key in keys]
        width, offsets = _offsets(parts)
        large = len(parts) > 0xFF
        head = _OBJECT | ((width - 1) | (id_width - 1) << 2 | large << 4) << 2
        listed = b"".join(number.to_bytes(id_width, "little") for number in ids)
        return bytes((head,)) + len(parts).to_bytes(4 if large else 1, "little") + listed + offsets + b"".join(parts)
    if isinstance(value, list | tuple) and not isinstance(value, Scalar):
        parts = [_encoded(inner, numbers) for inner in value]
        width, offsets = _offsets(parts)
        large = len(parts) > 0xFF
        return (
            bytes((_ARRAY | ((width - 1) | large << 2) << 2,))
            + len(parts).to_bytes(4 if large else 1, "little")
            + offsets
            + b"".join(parts)
        )
    if value is None or isinstance(value, bool):
        return bytes(((_NULL if value is None else _TRUE if value else _FALSE) << 2,))
    return _encoded_scalar(value if isinstance(value, Scalar) else _scalar(value))


def _offsets(parts: Sequence[bytes]) -> tuple[int, bytes]:
    """How wide the offsets of values are, and the offsets, the end of the last included."""
    ends = [0]
    for part in parts:
        ends.append(ends[-1] + len(part))
    width = _width_of(ends[-1])
    return width, b"".join(end.to_bytes(width, "little") for end in ends)


def _width_of(number: int) -> int:
    return max(1, (number.bit_length() + 7) // 8)


def _scalar(value: Any) -> Scalar:
    """A Python value with the type it has in a variant."""
    for classes, kind in _PYTHON_TYPES:
        if isinstance(value, classes):
            zoned = isinstance(value, datetime) and value.tzinfo is not None
            found = TimestamptzType() if zoned else kind
            return Scalar(found, to_physical(found, value))
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
    kind: PrimitiveType = scalar.kind
    value = scalar.value
    if isinstance(kind, BooleanType):
        return bytes(((_TRUE if value else _FALSE) << 2,))
    if isinstance(kind, IntegerType | LongType):
        # The fewest bytes, as whole numbers have one meaning whatever their width.
        number = next(number for number in (3, 4, 5, 6) if -(1 << _bits(number) - 1) <= value < 1 << _bits(number) - 1 or number == 6)
        return bytes((number << 2,)) + (int(value).to_bytes(_bits(number) // 8, "little", signed=True))
    if isinstance(kind, DecimalType):
        whole: int = unscaled(value, kind.scale)
        number, width = next((number, width) for number, (width, digits) in _DECIMALS.items() if abs(whole) < 10**digits or number == 10)
        return bytes((number << 2, kind.scale)) + whole.to_bytes(width, "little", signed=True)
    if isinstance(kind, StringType):
        text: bytes = value.encode()
        if len(text) < _SHORTEST_LONG_STRING:
            return bytes((_SHORT_STRING | len(text) << 2,)) + text
        return bytes((_STRING << 2,)) + len(text).to_bytes(4, "little") + text
    if isinstance(kind, UUIDType):
        return bytes((_UUID << 2,)) + bytes(value.bytes)
    if isinstance(kind, BinaryType):
        return bytes((_BINARY << 2,)) + len(value).to_bytes(4, "little") + bytes(value)
    if kind not in _NUMBER_OF:
        raise InvalidInputError(f"a variant cannot hold a value of type {kind}")
    number = _NUMBER_OF[kind]
    return bytes((number << 2,)) + _FIXED_WIDTH[number][1].pack(value)


def _bits(number: int) -> int:
    return _FIXED_WIDTH[number][1].size * 8
