"""Offsets and row counts of an ORC file's stripes, parsed from the footer, because Arrow does not return them.

Spec: ORC v1, File Tail (FileTail, Footer and StripeInformation, in Protocol Buffers).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

# Numbers of the fields that are parsed, and wire types of Protocol Buffers. Spec: ORC v1, File Tail.
_TAIL_FOOTER = 2
_FOOTER_STRIPES = 3
_STRIPE_OFFSET, _STRIPE_INDEX, _STRIPE_DATA, _STRIPE_FOOTER, _STRIPE_ROWS = range(1, 6)
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


@dataclass(frozen=True, slots=True)
class Stripe:
    """A stripe: the offset of its first byte, its number of rows, and the position of its footer."""

    offset: int
    rows: int
    footer_offset: int
    footer_length: int


def stripes_of(file: Any) -> tuple[Stripe, ...]:
    """Return the stripes of a `pyarrow.orc.ORCFile`, in order. Raises `ValueError` or `IndexError` if its footer is damaged."""
    tail = bytes(file.reader.serialized_file_tail())
    stripes = []
    for number, footer in fields_of_message(tail):
        if number != _TAIL_FOOTER or not isinstance(footer, bytes):
            continue
        for inner, stripe in fields_of_message(footer):
            if inner == _FOOTER_STRIPES and isinstance(stripe, bytes):
                numbers = dict(fields_of_message(stripe))
                names = (_STRIPE_OFFSET, _STRIPE_ROWS, _STRIPE_INDEX, _STRIPE_DATA, _STRIPE_FOOTER)
                offset, rows, index, data, length = (int(numbers.get(name, 0)) for name in names)
                stripes.append(Stripe(offset, rows, offset + index + data, length))
    return tuple(stripes)


def fields_of_message(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the number and the value of each field of a Protocol Buffers message; a value is an integer or bytes."""
    position = 0
    while position < len(data):
        key, position = _varint(data, position)
        wire = key & 7
        if wire == _VARINT:
            value, position = _varint(data, position)
            yield key >> 3, value
            continue
        if wire == _BYTES:
            size, position = _varint(data, position)
        elif wire in (_FIXED64, _FIXED32):
            size = 8 if wire == _FIXED64 else 4
        else:
            raise ValueError(f"a field of wire type {wire}")
        if position + size > len(data):
            raise ValueError("a field reaches beyond its message")
        yield key >> 3, data[position : position + size]
        position += size


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        value |= (byte & 0x7F) << shift
        position += 1
        if byte < 0x80:
            return value, position
        shift += 7
