"""The annotations VARIANT, GEOMETRY and GEOGRAPHY in a Parquet footer, which Arrow reads but has no way to write: put in before the footer is stored.

A footer is one Thrift struct; the elements of its schema get one more field each, and everything else stays byte by byte.
Spec: Parquet, parquet.thrift (FileMetaData, SchemaElement, LogicalType); Thrift, Compact Protocol.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from icefloe.kernel.schema.schema import walk
from icefloe.kernel.types import DEFAULT_CRS, EDGE_ALGORITHMS, GeographyType, GeometryType, IcebergType, NestedField, VariantType

MAGIC = b"PAR1"
_LENGTH_BYTES = 4
# Thrift's compact types.
_STOP, _TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(13)
# Numbers of fields in parquet.thrift.
_SCHEMA, _FIELD_ID, _LOGICAL_TYPE = 2, 9, 10
_VARIANT, _GEOMETRY, _GEOGRAPHY = 16, 17, 18
_VARIANT_VERSION = 1


def annotations(fields: tuple[NestedField, ...]) -> dict[int, bytes]:
    """The encoded LogicalType of each field, nested ones too, that needs one; by field id."""
    found = {field.field_id: _logical_type(field.field_type) for _, field in walk(fields)}
    return {field_id: encoded for field_id, encoded in found.items() if encoded}


def _logical_type(kind: IcebergType) -> bytes:
    if isinstance(kind, VariantType):
        return _union(_VARIANT, bytes([1 << 4 | _BYTE, _VARIANT_VERSION]))
    if isinstance(kind, GeometryType):
        return _union(_GEOMETRY, _crs(kind.crs))
    if isinstance(kind, GeographyType):
        crs = _crs(kind.crs)
        algorithm = EDGE_ALGORITHMS.index(kind.algorithm)
        # The field's number is told as the distance from the one before.
        return _union(_GEOGRAPHY, crs + (bytes([(1 if crs else 2) << 4 | _I32, algorithm << 1]) if algorithm else b""))
    return b""


def _crs(name: str) -> bytes:
    data = name.encode()
    return b"" if name.upper() == DEFAULT_CRS else bytes([1 << 4 | _BINARY]) + _varint(len(data)) + data


def _union(number: int, members: bytes) -> bytes:
    """A union of one struct, whose number is beyond what a distance of four bits can tell."""
    return bytes([_STRUCT]) + _varint(number << 1) + members + bytes([_STOP, _STOP])


def annotated_end(end: bytes, wanted: Mapping[int, bytes]) -> bytes:
    """The last bytes of a file, down to its magic, with these annotations in the footer. Raises `ValueError` where they end in no footer."""
    length = int.from_bytes(end[-len(MAGIC) - _LENGTH_BYTES : -len(MAGIC)], "little")
    start = len(end) - len(MAGIC) - _LENGTH_BYTES - length
    if start < 0 or not end.endswith(MAGIC):
        raise ValueError("a Parquet file does not end with its footer")
    footer = _annotated(end[start : start + length], wanted)
    return end[:start] + footer + len(footer).to_bytes(_LENGTH_BYTES, "little") + MAGIC


def _annotated(footer: bytes, wanted: Mapping[int, bytes]) -> bytes:
    for number, kind, position in _members(footer, 0):
        if number == _SCHEMA and kind == _LIST:
            count, _, start = _list_head(footer, position)
            parts, copied = [], 0
            for _ in range(count):
                end, field_id = _element(footer, start)
                if field_id is not None and field_id in wanted:
                    # The logical type is the last field, one after the field id: it goes in before the byte that ends the element.
                    parts += [footer[copied : end - 1], bytes([(_LOGICAL_TYPE - _FIELD_ID) << 4 | _STRUCT]), wanted[field_id]]
                    copied = end - 1
                start = end
            return b"".join([*parts, footer[copied:]])
    raise ValueError("a Parquet footer has no schema")


def _element(data: bytes, position: int) -> tuple[int, int | None]:
    """Where a schema element ends, and its field id; None where its last field is another, as of one that has a logical type."""
    field_id, last, end = None, 0, position
    for number, kind, at in _members(data, position):
        last, end = number, _skip(data, at, kind)
        if number == _FIELD_ID:
            raw, _ = _read_varint(data, at)
            field_id = raw >> 1 ^ -(raw & 1)
    return end + 1, field_id if last == _FIELD_ID else None


def _members(data: bytes, position: int) -> Iterator[tuple[int, int, int]]:
    """The number, type and place of the value of each field of a struct."""
    number = 0
    while data[position] != _STOP:
        head = data[position]
        position += 1
        if head >> 4:
            number += head >> 4
        else:
            raw, position = _read_varint(data, position)
            number = raw >> 1 ^ -(raw & 1)
        yield number, head & 0x0F, position
        position = _skip(data, position, head & 0x0F)


def _skip(data: bytes, position: int, kind: int) -> int:
    """The place after a value."""
    if kind in (_TRUE, _FALSE):
        return position
    if kind == _BYTE:
        return position + 1
    if kind in (_I16, _I32, _I64):
        return _read_varint(data, position)[1]
    if kind == _DOUBLE:
        return position + 8
    if kind == _BINARY:
        size, position = _read_varint(data, position)
        return position + size
    if kind in (_LIST, _SET):
        count, inner, position = _list_head(data, position)
        for _ in range(count):
            # A truth value in a list takes a byte; as a field it is told by its type.
            position = position + 1 if inner in (_TRUE, _FALSE) else _skip(data, position, inner)
        return position
    if kind == _STRUCT:
        for _, inner, at in _members(data, position):
            position = _skip(data, at, inner)
        return position + 1  # after the byte that ends it
    raise ValueError(f"a Parquet footer has a field of the Thrift type {kind}")


def _list_head(data: bytes, position: int) -> tuple[int, int, int]:
    """How many elements, of which type, from where on."""
    head = data[position]
    if head >> 4 < 15:
        return head >> 4, head & 0x0F, position + 1
    count, position = _read_varint(data, position + 1)
    return count, head & 0x0F, position


def _varint(value: int) -> bytes:
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7


class EndHeld:
    """A file being written whose last bytes can be held back and changed before they are stored."""

    def __init__(self, out: Any) -> None:
        self._out = out
        self._held: bytearray | None = None

    def write(self, data: Any) -> int:
        if self._held is None:
            self._out.write(data)
        else:
            self._held += memoryview(data)
        return len(memoryview(data).cast("B"))

    def tell(self) -> int:
        return int(self._out.tell()) + len(self._held or b"")

    def flush(self) -> None:
        """Nothing is held back for longer than the end of the file takes."""

    @property
    def closed(self) -> bool:
        return bool(self._out.closed)

    def close(self) -> None:
        self._out.close()

    def hold(self) -> None:
        """From now on, what is written is kept here."""
        self._held = bytearray()

    def release(self, wanted: Mapping[int, bytes]) -> None:
        """Writes what was held back, with these annotations in the footer that it ends in."""
        held, self._held = bytes(self._held or b""), None
        self._out.write(annotated_end(held, wanted))
