"""The logical types VARIANT, GEOMETRY and GEOGRAPHY in a Parquet footer. Arrow reads but cannot write them, so that they are inserted into the footer.

A footer is a Thrift struct. The schema elements of these columns get one more field; all other bytes are unchanged.
Spec: Parquet, parquet.thrift (FileMetaData, SchemaElement, LogicalType); Thrift, Compact Protocol.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from icefloe.spec.schema.schema import walk
from icefloe.spec.types import DEFAULT_CRS, EDGE_ALGORITHMS, GeographyType, GeometryType, IcebergType, NestedField, VariantType

MAGIC = b"PAR1"
_LENGTH_BYTES = 4
# Thrift's compact types.
_STOP, _TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(13)
# Field numbers in parquet.thrift.
_SCHEMA, _FIELD_ID, _LOGICAL_TYPE = 2, 9, 10
_VARIANT, _GEOMETRY, _GEOGRAPHY = 16, 17, 18
_VARIANT_VERSION = 1


def annotations(fields: tuple[NestedField, ...]) -> dict[int, bytes]:
    """Return the encoded LogicalType, by field id, of each field at any level that needs one."""
    encoded = {field.field_id: _logical_type(field.field_type) for _, field in walk(fields)}
    return {field_id: logical_type for field_id, logical_type in encoded.items() if logical_type}


def _logical_type(kind: IcebergType) -> bytes:
    if isinstance(kind, VariantType):
        return _union(_VARIANT, bytes([1 << 4 | _BYTE, _VARIANT_VERSION]))
    if isinstance(kind, GeometryType):
        return _union(_GEOMETRY, _crs(kind.crs))
    if isinstance(kind, GeographyType):
        crs = _crs(kind.crs)
        algorithm = EDGE_ALGORITHMS.index(kind.algorithm)
        # A field's number is encoded as the difference from the number of the field before.
        return _union(_GEOGRAPHY, crs + (bytes([(1 if crs else 2) << 4 | _I32, algorithm << 1]) if algorithm else b""))
    return b""


def _crs(name: str) -> bytes:
    data = name.encode()
    return b"" if name.upper() == DEFAULT_CRS else bytes([1 << 4 | _BINARY]) + _varint(len(data)) + data


def _union(number: int, members: bytes) -> bytes:
    """Return a Thrift union of one struct, whose number does not fit into the four bits of a short field header."""
    return bytes([_STRUCT]) + _varint(number << 1) + members + bytes([_STOP, _STOP])


def annotated_end(end: bytes, logical_types: Mapping[int, bytes]) -> bytes:
    """Return the last bytes of a file, from the footer on, with logical types inserted. Raises `ValueError` if the bytes do not end with a footer."""
    length = int.from_bytes(end[-len(MAGIC) - _LENGTH_BYTES : -len(MAGIC)], "little")
    start = len(end) - len(MAGIC) - _LENGTH_BYTES - length
    if start < 0 or not end.endswith(MAGIC):
        raise ValueError("a Parquet file does not end with its footer")
    footer = _annotate(end[start : start + length], logical_types)
    return end[:start] + footer + len(footer).to_bytes(_LENGTH_BYTES, "little") + MAGIC


def _annotate(footer: bytes, logical_types: Mapping[int, bytes]) -> bytes:
    for number, kind, position in _members(footer, 0):
        if number == _SCHEMA and kind == _LIST:
            count, _, start = _list_head(footer, position)
            parts, copied = [], 0
            for _ in range(count):
                end, field_id = _element(footer, start)
                if field_id is not None and field_id in logical_types:
                    # The logical type comes directly after the field id, as the last field, so that it is inserted before the byte that ends the element.
                    parts += [footer[copied : end - 1], bytes([(_LOGICAL_TYPE - _FIELD_ID) << 4 | _STRUCT]), logical_types[field_id]]
                    copied = end - 1
                start = end
            return b"".join([*parts, footer[copied:]])
    raise ValueError("a Parquet footer has no schema")


def _element(data: bytes, position: int) -> tuple[int, int | None]:
    """Return the end of a schema element, and its field id; None if the field id is not the last field, for example because there is a logical type already."""
    field_id, last, end = None, 0, position
    for number, kind, value_position in _members(data, position):
        last, end = number, _skip(data, value_position, kind)
        if number == _FIELD_ID:
            raw, _ = _read_varint(data, value_position)
            field_id = raw >> 1 ^ -(raw & 1)
    return end + 1, field_id if last == _FIELD_ID else None


def _members(data: bytes, position: int) -> Iterator[tuple[int, int, int]]:
    """Yield the number, the type and the position of the value of each field of a struct."""
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
    """Return the position after a value."""
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
            # In a list a boolean takes one byte; as a field its value is part of the type.
            position = position + 1 if inner in (_TRUE, _FALSE) else _skip(data, position, inner)
        return position
    if kind == _STRUCT:
        for _, inner, value_position in _members(data, position):
            position = _skip(data, value_position, inner)
        return position + 1  # after the byte that ends the struct
    raise ValueError(f"a Parquet footer has a field of the Thrift type {kind}")


def _list_head(data: bytes, position: int) -> tuple[int, int, int]:
    """Return the number of elements, their type, and the position of the first."""
    head = data[position]
    if head >> 4 < 15:
        return head >> 4, head & 0x0F, position + 1
    count, position = _read_varint(data, position + 1)
    return count, head & 0x0F, position


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7


class DeferredFooterFile:
    """An output file whose last bytes, the footer, can be held back and changed before they are written."""

    def __init__(self, out: Any) -> None:
        """Wrap an open output file."""
        self._out = out
        self._held: bytearray | None = None

    def write(self, data: Any) -> int:
        """Write bytes, or after `hold_back` keep them in memory, and return their number."""
        if self._held is None:
            self._out.write(data)
        else:
            self._held += memoryview(data)
        return len(memoryview(data).cast("B"))

    def tell(self) -> int:
        """Return the number of bytes so far, including those that are held back."""
        return int(self._out.tell()) + len(self._held or b"")

    def flush(self) -> None:
        """Do nothing: only the footer is held back, and only until `write_annotated`."""

    @property
    def closed(self) -> bool:
        """Return True if the output file is closed."""
        return bool(self._out.closed)

    def close(self) -> None:
        """Close the output file."""
        self._out.close()

    def hold_back(self) -> None:
        """Keep all bytes that are written from now on in memory."""
        self._held = bytearray()

    def write_annotated(self, logical_types: Mapping[int, bytes]) -> None:
        """Write the bytes that were held back, with these logical types in the footer at their end."""
        pending, self._held = bytes(self._held or b""), None
        self._out.write(annotated_end(pending, logical_types))
