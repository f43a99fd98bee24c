"""The binary encoding of variants: a dictionary of names (`metadata`) and values with ids of these names. Each function processes one level of nesting.

`variant.py` converts values to Python. `datafile/variant_shredding.py` processes variants whose fields are stored in separate columns.
Spec: Parquet, Variant Binary Encoding (version 1).
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any

from icefloe.errors import FormatError

VERSION = 1
# The basic type: the two lowest bits of a value's first byte.
PRIMITIVE, SHORT_STRING, OBJECT, ARRAY = range(4)
# The kind of a primitive value: the six highest bits of its first byte.
NULL, TRUE, FALSE, INT8, INT16, INT32, INT64, DOUBLE, DECIMAL4, DECIMAL8, DECIMAL16, DATE = range(12)
TIMESTAMPTZ, TIMESTAMP, FLOAT, BINARY, STRING, TIME, TIMESTAMPTZ_NANOS, TIMESTAMP_NANOS, UUID_KIND = range(12, 21)
VARIANT_NULL = b"\x00"
_MAX_SHORT_STRING = 63
_MANY_ELEMENTS = 255
_SORTED = 0x10
# The byte layouts of primitives with a fixed width. The bytes of a decimal are after the byte of its scale.
LAYOUTS = {
    INT8: struct.Struct("<b"),
    INT16: struct.Struct("<h"),
    INT32: struct.Struct("<i"),
    INT64: struct.Struct("<q"),
    DOUBLE: struct.Struct("<d"),
    FLOAT: struct.Struct("<f"),
    DATE: struct.Struct("<i"),
    TIMESTAMPTZ: struct.Struct("<q"),
    TIMESTAMP: struct.Struct("<q"),
    TIME: struct.Struct("<q"),
    TIMESTAMPTZ_NANOS: struct.Struct("<q"),
    TIMESTAMP_NANOS: struct.Struct("<q"),
}
DECIMAL_WIDTHS = {DECIMAL4: 4, DECIMAL8: 8, DECIMAL16: 16}


@dataclass(frozen=True)
class VariantNames:
    """The dictionary of the field names in a variant. The id of a name is its position."""

    names: tuple[str, ...]

    @cached_property
    def ids(self) -> Mapping[str, int]:
        """The id of each name."""
        return {name: number for number, name in enumerate(self.names)}

    def of(self, ids: Sequence[int]) -> list[str]:
        """Return the names with these ids.

        Raises:
            FormatError: An id has no name.
        """
        if any(number >= len(self.names) for number in ids):
            raise FormatError("an object of a variant has a field whose name is not in the metadata")
        return [self.names[number] for number in ids]


@lru_cache(maxsize=4096)
def read_names(metadata: bytes) -> VariantNames:
    """Read the names of a variant's metadata.

    Raises:
        FormatError: The metadata is truncated, its offsets are invalid, or its version is not supported.
    """
    return read_names_prefix(metadata)[0]


def read_names_prefix(data: bytes) -> tuple[VariantNames, int]:
    """Read the names of the metadata at the start of `data`. Return them with the end of the metadata.

    Raises:
        FormatError: As in `read_names`.
    """
    try:
        header = data[0]
        if header & 0x0F != VERSION:
            raise FormatError(f"the metadata of a variant has version {header & 0x0F}; only version {VERSION} is supported")
        width = (header >> 6) + 1
        count = number_at(data, 1, width)
        start = 1 + width * (count + 2)
        if start > len(data):
            raise FormatError("the metadata of a variant claims more names than it has bytes for")
        offsets = [number_at(data, 1 + width * (place + 1), width) for place in range(count + 1)]
        names = tuple(str(slice_bytes(data, start + low, start + high), "utf-8") for low, high in pairwise(offsets))
        slice_bytes(data, start, start + offsets[-1])
        return VariantNames(names), start + offsets[-1]
    except (IndexError, UnicodeDecodeError) as error:
        raise FormatError(f"the metadata of a variant is damaged: {error}") from error


def write_names(names: Sequence[str]) -> bytes:
    """Encode metadata with these names. They are sorted, and duplicates are removed."""
    texts = [name.encode() for name in sorted(set(names), key=str.encode)]
    width = _width(max(sum(map(len, texts)), len(texts)))
    parts = [bytes([VERSION | _SORTED | (width - 1) << 6]), len(texts).to_bytes(width, "little"), *_offsets(texts, width), *texts]
    return b"".join(parts)


def number_at(data: bytes, position: int, width: int) -> int:
    """Read an unsigned little-endian number.

    Raises:
        IndexError: The bytes end before the end of the number.
    """
    return int.from_bytes(slice_bytes(data, position, position + width), "little")


def slice_bytes(data: bytes, start: int, end: int) -> bytes:
    """Return the bytes from `start` to before `end`.

    Raises:
        IndexError: The range is not within `data`.
    """
    if not 0 <= start <= end <= len(data):
        raise IndexError("an offset is outside of it")
    return bytes(data[start:end])


def _width(largest: int) -> int:
    return max(1, (largest.bit_length() + 7) // 8)


def _offsets(parts: Sequence[bytes], width: int) -> list[bytes]:
    position, offsets = 0, [bytes(width)]
    for part in parts:
        position += len(part)
        offsets.append(position.to_bytes(width, "little"))
    return offsets


# ---- splitting ----


@dataclass(frozen=True, slots=True)
class VariantContainer:
    """The header of an encoded object or array: the ids of the names of an object's fields, and the position at which each value starts."""

    ids: tuple[int, ...]
    starts: tuple[int, ...]
    end: int


def basic_type(value: bytes) -> int:
    """Return the basic type of a value: `PRIMITIVE`, `SHORT_STRING`, `OBJECT` or `ARRAY`.

    Raises:
        FormatError: The value is empty.
    """
    if not value:
        raise FormatError("the value of a variant has no bytes")
    return value[0] & 0x03


def object_fields(names: VariantNames, value: bytes) -> dict[str, bytes]:
    """Return the fields of an object, each with the bytes of its value.

    Raises:
        FormatError: The value is not an object, or is damaged.
    """
    if basic_type(value) != OBJECT:
        raise FormatError("the value of a variant is not an object")
    ids, members = _members(value)
    return dict(zip(names.of(ids), members, strict=True))


def array_elements(value: bytes) -> list[bytes]:
    """Return the bytes of each element of an array.

    Raises:
        FormatError: The value is not an array, or is damaged.
    """
    if basic_type(value) != ARRAY:
        raise FormatError("the value of a variant is not an array")
    return _members(value)[1]


def _members(value: bytes) -> tuple[Sequence[int], list[bytes]]:
    """Return the ids of the names in an object (none in an array), and the bytes of each member."""
    try:
        parts = container(value, 0)
        sizes = [_size(value, start) for start in parts.starts]
        if sum(sizes) > len(value):
            raise FormatError("the values of a variant overlap")
        return parts.ids, [slice_bytes(value, start, start + size) for start, size in zip(parts.starts, sizes, strict=True)]
    except IndexError as error:
        raise FormatError(f"the value of a variant is damaged: {error}") from error


def container(value: bytes, position: int) -> VariantContainer:
    """Return the header of the object or array at `position`.

    Raises:
        FormatError, IndexError: A number or offset is outside of the bytes.
    """
    header = value[position] >> 2
    is_object = value[position] & 0x03 == OBJECT
    offset_width = (header & 0x03) + 1
    id_width = (header >> 2 & 0x03) + 1 if is_object else 0
    is_large = header >> (4 if is_object else 2) & 1
    position += 1
    count = number_at(value, position, 4 if is_large else 1)
    position += 4 if is_large else 1
    if position + count * id_width + (count + 1) * offset_width > len(value):
        raise FormatError("an object or array of a variant claims more members than it has bytes for")
    ids = tuple(number_at(value, position + place * id_width, id_width) for place in range(count)) if is_object else ()
    position += count * id_width
    offsets = [number_at(value, position + place * offset_width, offset_width) for place in range(count + 1)]
    start = position + (count + 1) * offset_width
    return VariantContainer(ids, tuple(start + offset for offset in offsets[:-1]), start + offsets[-1])


def _size(value: bytes, position: int) -> int:
    """Return the size in bytes of the value at `position`."""
    first = value[position]
    basic, kind = first & 0x03, first >> 2
    if basic == SHORT_STRING:
        return 1 + kind
    if basic != PRIMITIVE:
        return container(value, position).end - position
    return 5 + number_at(value, position + 1, 4) if kind in (BINARY, STRING) else primitive_size(kind)


def primitive_size(kind: int) -> int:
    """Return the size in bytes of a primitive value of a kind with a fixed size. Raises `FormatError` if there is no such kind."""
    if kind in (NULL, TRUE, FALSE):
        return 1
    if kind in LAYOUTS:
        return 1 + LAYOUTS[kind].size
    if kind in DECIMAL_WIDTHS:
        return 2 + DECIMAL_WIDTHS[kind]
    if kind == UUID_KIND:
        return 17
    raise FormatError(f"the value of a variant is of the unknown primitive kind {kind}")


# ---- assembling ----


def number_value(kind: int, number: Any) -> bytes:
    """Encode a number with a fixed width: an integer, a float, or a number of days, microseconds or nanoseconds."""
    return bytes([kind << 2]) + LAYOUTS[kind].pack(number)


def decimal_value(number: int, scale: int, precision: int) -> bytes:
    """Encode the unscaled integer of a decimal, in the smallest width for its precision."""
    kind = DECIMAL4 if precision <= 9 else DECIMAL8 if precision <= 18 else DECIMAL16
    return bytes([kind << 2, scale]) + number.to_bytes(DECIMAL_WIDTHS[kind], "little", signed=True)


def string_value(text: str) -> bytes:
    """Encode a string, as a short string if possible."""
    data = text.encode()
    return bytes([len(data) << 2 | SHORT_STRING]) + data if len(data) <= _MAX_SHORT_STRING else _with_size(STRING, data)


def binary_value(data: bytes) -> bytes:
    """Encode bytes."""
    return _with_size(BINARY, data)


def uuid_value(data: bytes) -> bytes:
    """Encode a UUID of 16 bytes, big endian."""
    return bytes([UUID_KIND << 2]) + data


def bool_value(value: bool) -> bytes:
    """Encode true or false."""
    return bytes([(TRUE if value else FALSE) << 2])


def _with_size(kind: int, data: bytes) -> bytes:
    return bytes([kind << 2]) + len(data).to_bytes(4, "little") + data


def array_value(elements: Sequence[bytes]) -> bytes:
    """Encode an array of encoded values."""
    width, is_large = _width(sum(map(len, elements))), len(elements) > _MANY_ELEMENTS
    header = ARRAY | (width - 1 | is_large << 2) << 2
    return b"".join([bytes([header]), len(elements).to_bytes(4 if is_large else 1, "little"), *_offsets(elements, width), *elements])


def object_value(names: VariantNames, fields: Mapping[str, bytes]) -> bytes:
    """Encode an object of encoded values.

    Raises:
        FormatError: The name of a field is not in `names`.
    """
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
