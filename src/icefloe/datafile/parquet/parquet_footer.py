"""`open_parquet`: Parquet files opened so that no footer can end the process.

Arrow parses a footer's Thrift and checks no more: where a column chunk contradicts the schema, `row_group(i).column(j)`, `.statistics` and `.compression` throw
in C++ where nothing catches it, and the process aborts. So a footer's bytes are read once and parsed by Arrow, what those calls rely on is checked here in
the same bytes, and only then does a caller get the file.

Bytes must mean here what they mean to Arrow. So wherever Arrow's generated parser ignores what the bytes state (the type of a list's elements, bits of a number
beyond its width, a field given twice), any statement but the right one is refused.
Layer: datafile. Spec: Parquet, parquet.thrift (FileMetaData, RowGroup, ColumnChunk, ColumnMetaData); Thrift, Compact Protocol.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from icefloe.datafile.parquet.parquet_annotations import MAGIC
from icefloe.errors import UnsupportedFeatureError
from icefloe.kernel.limits import limits

_TAIL_BYTES = 8  # the footer's length in four bytes, and the magic
_FIRST_READ_BYTES = 64 * 1024  # most footers are shorter; Arrow reads as much
_SMALLEST_FILE_BYTES = 12
_MOST_INT = 2**31 - 1

# Thrift's compact types.
_STOP, _TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(13)
_MOST_NESTING = 32  # of values that are skipped; Parquet's own have less than ten
_VARINT_BYTES = 10
_WIDTHS: Final[Mapping[int, int]] = {_I16: 16, _I32: 32, _I64: 64}

# Places in parquet.thrift's `Type`, and bytes of a value where all have as many.
_PHYSICAL_TYPES = ("BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
_VALUE_BYTES: Final[Mapping[str, int]] = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}
_CODECS = 8  # UNCOMPRESSED to LZ4_RAW


@dataclass(frozen=True, slots=True)
class _Struct:
    """A struct of parquet.thrift: the type of each field that is looked at, the structs and the elements of lists in it.

    A field that is not listed holds no list, and Arrow's parser and this one skip it by its stated type.
    """

    name: str
    types: Mapping[int, int] = field(default_factory=dict)
    structs: Mapping[int, "_Struct"] = field(default_factory=dict)
    lists: Mapping[int, "int | _Struct"] = field(default_factory=dict)
    needed: frozenset[int] = frozenset()


_STATISTICS = _Struct("Statistics", types=dict.fromkeys((1, 2, 5, 6), _BINARY))
_SIZES = _Struct("SizeStatistics", types={1: _I64}, lists={2: _I64, 3: _I64})
_CHUNK_METADATA = _Struct(
    "ColumnMetaData",
    types={1: _I32, 4: _I32},
    structs={12: _STATISTICS, 16: _SIZES, 17: _Struct("GeospatialStatistics", lists={2: _I32})},
    lists={2: _I32, 3: _BINARY, 8: _Struct("KeyValue"), 13: _Struct("PageEncodingStats")},
    needed=frozenset({1, 2, 3, 4}),
)
_CHUNK = _Struct("ColumnChunk", types={8: _STRUCT}, structs={3: _CHUNK_METADATA}, needed=frozenset({3}))
_ROW_GROUP = _Struct("RowGroup", lists={1: _CHUNK, 4: _Struct("SortingColumn")}, needed=frozenset({1}))
_FOOTER = _Struct(
    "FileMetaData",
    lists={2: _Struct("SchemaElement"), 4: _ROW_GROUP, 5: _Struct("KeyValue"), 7: _Struct("ColumnOrder")},
    needed=frozenset({2, 4}),
)
_ENCRYPTION, _METADATA, _COLUMNS, _ROW_GROUPS = 8, 3, 1, 4
_TYPE, _CODEC, _OF_VALUES, _OF_SIZES = 1, 4, 12, 16
_PLAIN_BYTES, _REPETITION_LEVELS, _DEFINITION_LEVELS = 1, 2, 3


def footer_limits() -> dict[str, Any]:
    """Return what Arrow may read of a Parquet footer, whatever its sizes claim, as the arguments of `ParquetFile`."""
    found = limits()
    # Arrow takes 32-bit numbers.
    return {
        "thrift_string_size_limit": min(found.parquet_footer_bytes, _MOST_INT),
        "thrift_container_size_limit": min(found.parquet_footer_items, _MOST_INT),
    }


def open_parquet(source: Any, path: str, **options: Any) -> Any:
    """Open a `pyarrow.parquet.ParquetFile` whose column chunks fit its schema.

    Args:
        source: A file that is open for reading.
        path: Its location, for errors.
        options: More arguments of `ParquetFile`.

    Raises:
        pyarrow.ArrowInvalid: The footer is not whole or contradicts itself.
        UnsupportedFeatureError: A column is encrypted.
        OSError: As the source has it.
    """
    footer = _footer_bytes(source)
    if footer is None:
        pq.ParquetFile(source, **footer_limits())  # its error says what is wrong with the end of the file
        raise pa.ArrowInvalid("the file does not end with a Parquet footer")
    alone = MAGIC + footer + len(footer).to_bytes(4, "little") + MAGIC
    metadata = pq.ParquetFile(pa.BufferReader(alone), **footer_limits()).metadata
    try:
        _check(footer, metadata, path)
    except (ValueError, IndexError) as error:
        raise pa.ArrowInvalid(f"its footer is no sound Parquet footer: {error}") from error
    return pq.ParquetFile(source, metadata=metadata, **options)


def _footer_bytes(source: Any) -> bytes | None:
    """Return the footer's Thrift; None where the file does not end with the length of one and the magic."""
    size = source.seek(0, 2)
    source.seek(max(0, size - _FIRST_READ_BYTES))
    end = bytes(source.read(min(size, _FIRST_READ_BYTES)))
    if size < _SMALLEST_FILE_BYTES or not end.endswith(MAGIC):
        return None
    length = int.from_bytes(end[-_TAIL_BYTES : -len(MAGIC)], "little")
    if length > size - _TAIL_BYTES:
        return None
    if length + _TAIL_BYTES > len(end):
        source.seek(size - _TAIL_BYTES - length)
        end = bytes(source.read(length + _TAIL_BYTES))
    return end[-_TAIL_BYTES - length : -_TAIL_BYTES]


def _check(footer: bytes, metadata: Any, path: str) -> None:
    """Raise `ValueError`, `IndexError` or `UnsupportedFeatureError` where a column chunk does not fit the schema that Arrow found in the footer."""
    leaves = [metadata.schema.column(place) for place in range(len(metadata.schema))]
    columns = [_Leaf(leaf) for leaf in leaves]
    found, _ = _struct(footer, 0, _FOOTER)
    for number, row_group in enumerate(found[_ROW_GROUPS]):
        chunks = row_group[_COLUMNS]
        if len(chunks) != len(columns):
            raise ValueError(f"row group {number} has {len(chunks)} columns, and the schema {len(columns)}")
        for column, chunk in zip(columns, chunks, strict=True):
            if _ENCRYPTION in chunk:
                raise UnsupportedFeatureError(
                    f"{path} has an encrypted column {column.path}, and encrypted data files cannot be read",
                    path=path,
                    next_step="read the file with an engine that has its keys, and write it without encryption",
                )
            column.check(chunk[_METADATA], number)


class _Leaf:
    """A column of the schema, as its chunks are checked against it."""

    def __init__(self, column: Any) -> None:
        self.path = column.path
        self._physical = column.physical_type
        self._type = _PHYSICAL_TYPES.index(self._physical)
        self._is_text = self._physical == "BYTE_ARRAY"
        self._bytes = column.length if self._physical == "FIXED_LEN_BYTE_ARRAY" else _VALUE_BYTES.get(self._physical, 0)
        self._levels = {
            _REPETITION_LEVELS: column.max_repetition_level + 1,
            _DEFINITION_LEVELS: column.max_definition_level + 1,
        }

    def check(self, chunk: Mapping[int, Any], row_group: int) -> None:
        """Raise `ValueError` where this metadata of a chunk is not that of the column."""
        if chunk[_TYPE] != self._type:
            stated = _PHYSICAL_TYPES[chunk[_TYPE]] if 0 <= chunk[_TYPE] < len(_PHYSICAL_TYPES) else chunk[_TYPE]
            raise ValueError(f"column {self.path} is of type {stated} in row group {row_group}, and {self._physical} in the schema")
        if not 0 <= chunk[_CODEC] < _CODECS:
            raise ValueError(f"column {self.path} has a codec {chunk[_CODEC]} in row group {row_group}, which Parquet does not know")
        for raw in chunk.get(_OF_VALUES, {}).values():
            if raw < self._bytes:
                raise ValueError(f"a bound of column {self.path} in row group {row_group} has {raw} bytes, and its values {self._bytes}")
        sizes = chunk.get(_OF_SIZES, {})
        if _PLAIN_BYTES in sizes and not self._is_text:
            raise ValueError(f"column {self.path} states a size of texts in row group {row_group}, and is no text")
        for number, levels in self._levels.items():
            if sizes.get(number) and sizes[number] != levels:
                raise ValueError(f"column {self.path} counts {sizes[number]} levels in row group {row_group}, and has {levels}")


def _struct(data: bytes, position: int, form: _Struct) -> tuple[dict[int, Any], int]:
    """Return the fields of a struct that its form names, and the place after it.

    Numbers are themselves, texts their lengths, lists of numbers and texts how many they have, structs and lists of structs their fields.
    """
    found: dict[int, Any] = {}
    types, structs, lists = form.types, form.structs, form.lists
    number = 0
    while head := data[position]:
        position += 1
        kind = head & 0x0F
        if head >> 4:
            number += head >> 4
        else:
            raw, position = _varint(data, position, 16)
            number = _signed(raw)
        if number > 0x7FFF:
            raise ValueError(f"a field of {form.name} has a number beyond 32767")
        if not (number in types or number in structs or number in lists):
            position = _skip(data, position, kind, 0)
            continue
        value, position = _value(data, position, form, number, kind)
        if number in found:
            raise ValueError(f"field {number} of {form.name} is given twice")
        found[number] = value
    if not form.needed <= found.keys():
        raise ValueError(f"{form.name} lacks a field: {sorted(form.needed - found.keys())}")
    return found, position + 1


def _value(data: bytes, position: int, form: _Struct, number: int, kind: int) -> tuple[Any, int]:
    """Return the value of a field that the form names, and the place after it."""
    if kind != form.types.get(number, _LIST if number in form.lists else _STRUCT):
        raise ValueError(f"field {number} of {form.name} has the Thrift type {kind}")
    if number in form.lists:
        return _list(data, position, form.lists[number])
    if number in form.structs:
        return _struct(data, position, form.structs[number])
    if kind == _BINARY:
        size, position = _varint(data, position, 31)
        return size, position + size
    if kind == _STRUCT:
        return True, _skip(data, position, kind, 0)
    raw, position = _varint(data, position, _WIDTHS[kind])
    return _signed(raw), position


def _list(data: bytes, position: int, wanted: "int | _Struct") -> tuple[Any, int]:
    """Return the structs of a list, or how many other elements it has, and the place after it."""
    count, kind, position = _list_head(data, position)
    if count and kind != (_STRUCT if isinstance(wanted, _Struct) else wanted):
        raise ValueError(f"a list has elements of the Thrift type {kind}")
    if isinstance(wanted, _Struct):
        if not (wanted.types or wanted.structs or wanted.lists):
            for _ in range(count):
                position = _skip(data, position, _STRUCT, 0)
            return count, position
        structs = []
        for _ in range(count):
            one, position = _struct(data, position, wanted)
            structs.append(one)
        return structs, position
    for _ in range(count):
        position = _skip(data, position, wanted, 0)
    return count, position


def _list_head(data: bytes, position: int) -> tuple[int, int, int]:
    """Return how many elements a list has, of which type, and the place of the first."""
    head = data[position]
    if head >> 4 < 15:
        return head >> 4, head & 0x0F, position + 1
    count, position = _varint(data, position + 1, 31)
    return count, head & 0x0F, position


def _skip(data: bytes, position: int, kind: int, depth: int) -> int:
    """Return the place after a value that is not looked at."""
    if kind in _WIDTHS:
        return _varint(data, position, 64)[1]
    if kind == _BINARY:
        size, position = _varint(data, position, 31)
        return position + size
    if kind == _STRUCT:
        return _skip_struct(data, position, depth + 1)
    if kind in (_TRUE, _FALSE):
        return position
    if kind == _BYTE:
        return position + 1
    if kind == _DOUBLE:
        return position + 8
    if kind in (_LIST, _SET):
        count, kind, position = _list_head(data, position)
        for _ in range(count):
            position = _skip_element(data, position, kind, depth + 1)
        return position
    if kind == _MAP:
        count, position = _varint(data, position, 31)
        if count:
            kinds = data[position]
            position += 1
            for _ in range(count):
                position = _skip_element(data, position, kinds >> 4, depth + 1)
                position = _skip_element(data, position, kinds & 0x0F, depth + 1)
        return position
    raise ValueError(f"a field has the Thrift type {kind}")


def _skip_element(data: bytes, position: int, kind: int, depth: int) -> int:
    if position >= len(data):
        raise ValueError("it ends within a list")
    # A truth value in a list takes a byte; as a field it is told by its type.
    return position + 1 if kind in (_TRUE, _FALSE) else _skip(data, position, kind, depth)


def _skip_struct(data: bytes, position: int, depth: int) -> int:
    if depth > _MOST_NESTING:
        raise ValueError(f"it is nested more than {_MOST_NESTING} levels deep")
    while head := data[position]:
        position += 1
        if not head >> 4:
            _, position = _varint(data, position, 16)
        position = _skip(data, position, head & 0x0F, depth)
    return position + 1


def _varint(data: bytes, position: int, bits: int) -> tuple[int, int]:
    """Return a number of so many bits, and the place after it."""
    value = data[position]
    position += 1
    if value >= 0x80:
        value &= 0x7F
        for shift in range(7, 7 * _VARINT_BYTES, 7):
            byte = data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
        else:
            raise ValueError("a number has more than ten bytes")
        if value >> bits:
            raise ValueError(f"a number has more than {bits} bits")
    return value, position


def _signed(raw: int) -> int:
    return raw >> 1 ^ -(raw & 1)
