"""Safe opening of Parquet files, whose footers cannot crash the process: `open_parquet`, `open_parquet_for_rows`, `open_footer` and `CheckedFooter`.

Arrow parses a footer's Thrift without further checks. If a column chunk contradicts the schema, `row_group(i).column(j)`, `.statistics` and `.compression`
throw C++ exceptions that nothing catches, and the process aborts. So the footer's bytes are read once and parsed by Arrow, and before the metadata of a column
chunk is returned, this module checks in the same bytes all that these calls rely on. Reading rows does not need the check, because there Arrow catches its
exceptions.

This module must interpret the bytes exactly as Arrow does. Arrow's generated parser ignores some of them (the type of a list's elements, bits of a number
beyond its width, a repeated field); there this module refuses every value except the correct one.

Checking a column chunk takes about 13 microseconds, and skipping it about 8; a file of 1,000 columns and 10 row groups has 10,000 chunks. So a scan checks only
the chunks that it uses (`CheckedFooter.column`), and none if it reads a whole file without a filter. Thousands of files of one writer have chunks with the same
fields. These are recognized, in 1 microsecond each, by a regular expression that is built from the first file (`_Pattern`).
Spec: Parquet, parquet.thrift (FileMetaData, RowGroup, ColumnChunk, ColumnMetaData); Thrift, Compact Protocol.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from icefloe.datafile.parquet.parquet_annotations import MAGIC
from icefloe.errors import UnsupportedFeatureError
from icefloe.spec.limits import limits

_TAIL_BYTES = 8  # the footer's length in four bytes, and the magic
_FIRST_READ_BYTES = 64 * 1024  # most footers are shorter; Arrow reads this many bytes too
_MIN_FILE_BYTES = 12
_MAX_INT = 2**31 - 1

# Thrift's compact types.
_STOP, _TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(13)
_MAX_NESTING = 32  # the maximum nesting of skipped values; Parquet's own structs nest less than ten levels deep
_VARINT_BYTES = 10
_WIDTHS: Final[Mapping[int, int]] = {_I16: 16, _I32: 32, _I64: 64}
_NUMBER_IS_SURELY_SMALL = 0x7FFF - 15  # up to this field number, a delta of four bits cannot exceed 16 bits
# Patterns of a number with at most nine bytes (less than 64 bits), and of a text with at most 64 bytes. They are possessive, so that there is no backtracking.
_ANY_NUMBER = rb"[\x80-\xff]{0,8}+[\x00-\x7f]"
_ANY_TEXT = b"(?>%b)" % b"|".join(re.escape(bytes([size])) + b".{%d}" % size for size in range(65))

# Physical types by number in parquet.thrift's `Type`, and the size of a value if all values have the same size.
_PHYSICAL_TYPES = ("BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
_VALUE_BYTES: Final[Mapping[str, int]] = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}
_CODECS = 8  # UNCOMPRESSED to LZ4_RAW


@dataclass(frozen=True, slots=True)
class _Struct:
    """A struct of parquet.thrift: the types of the parsed fields, and the definitions of nested structs and list elements.

    Fields that are not listed contain no lists; both Arrow's parser and this one skip them by the type in their header. For a list of `lazy` structs, only
    their start positions are returned. If a struct in a list matches the pattern for its position, it is valid, and None is returned for it.
    """

    name: str
    types: Mapping[int, int] = field(default_factory=dict)
    structs: Mapping[int, "_Struct"] = field(default_factory=dict)
    lists: Mapping[int, "int | _Struct"] = field(default_factory=dict)
    required: frozenset[int] = frozenset()
    lazy: bool = False
    patterns: "tuple[re.Pattern[bytes], ...]" = ()
    kinds: Mapping[int, int] = field(init=False)  # the Thrift type of each of these fields

    def __post_init__(self) -> None:
        object.__setattr__(self, "kinds", {**dict.fromkeys(self.structs, _STRUCT), **dict.fromkeys(self.lists, _LIST), **self.types})


_STATISTICS = _Struct("Statistics", types=dict.fromkeys((1, 2, 5, 6), _BINARY))
_SIZES = _Struct("SizeStatistics", types={1: _I64}, lists={2: _I64, 3: _I64})
_CHUNK_METADATA = _Struct(
    "ColumnMetaData",
    types={1: _I32, 4: _I32},
    structs={12: _STATISTICS, 16: _SIZES, 17: _Struct("GeospatialStatistics", lists={2: _I32})},
    lists={2: _I32, 3: _BINARY, 8: _Struct("KeyValue"), 13: _Struct("PageEncodingStats")},
    required=frozenset({1, 2, 3, 4}),
)
_CRYPTO_METADATA = _Struct("ColumnCryptoMetaData", structs={2: _Struct("EncryptionWithColumnKey", lists={1: _BINARY})})
_CHUNK = _Struct("ColumnChunk", structs={3: _CHUNK_METADATA, 8: _CRYPTO_METADATA}, required=frozenset({3}))
_ROW_GROUP = _Struct("RowGroup", lists={1: _CHUNK, 4: _Struct("SortingColumn")}, required=frozenset({1}))
_SCHEMA_ELEMENT = _Struct("SchemaElement")
_ANY_STRUCT = _Struct("a struct")
_FOOTER = _Struct(
    "FileMetaData",
    lists={2: _SCHEMA_ELEMENT, 4: _ROW_GROUP, 5: _Struct("KeyValue"), 7: _Struct("ColumnOrder")},
    required=frozenset({2, 4}),
)


def _footer(schema_element: _Struct, chunk: _Struct) -> _Struct:
    """Return the definition of a footer, with the given definitions of its most frequent structs."""
    return replace(_FOOTER, lists={**_FOOTER.lists, 2: schema_element, 4: replace(_ROW_GROUP, lists={**_ROW_GROUP.lists, 1: chunk})})


_FOOTER_OF_STARTS = _footer(_SCHEMA_ELEMENT, replace(_CHUNK, lazy=True))
_FOOTER_OF_ALL_STARTS = _footer(replace(_SCHEMA_ELEMENT, lazy=True), replace(_CHUNK, lazy=True))
_ENCRYPTION, _METADATA, _COLUMNS, _ROW_GROUPS, _SCHEMA = 8, 3, 1, 4, 2
_TYPE, _CODEC, _STATISTICS_FIELD, _SIZES_FIELD = 1, 4, 12, 16
_PLAIN_BYTES, _REPETITION_LEVELS, _DEFINITION_LEVELS = 1, 2, 3


def footer_limits() -> dict[str, Any]:
    """Return the limits for a Parquet footer as keyword arguments of `ParquetFile`."""
    current = limits()
    # The arguments are 32-bit numbers.
    return {
        "thrift_string_size_limit": min(current.parquet_footer_bytes, _MAX_INT),
        "thrift_container_size_limit": min(current.parquet_footer_items, _MAX_INT),
    }


def open_parquet(source: Any, path: str) -> Any:
    """Open a `pyarrow.parquet.ParquetFile`, and check every column chunk against the schema.

    Args:
        source: A file that is open for reading.
        path: Its location, for errors.

    Raises:
        pyarrow.ArrowInvalid: The footer is incomplete or contradicts itself.
        UnsupportedFeatureError: A column is encrypted.
        OSError: The source cannot be read.
    """
    file, footer = open_parquet_for_rows(source, path)
    footer.check_all()
    return file


def open_parquet_for_rows(source: Any, path: str, **options: Any) -> "tuple[Any, CheckedFooter]":
    """Open a `pyarrow.parquet.ParquetFile` to read rows. Return it with its footer, which checks column chunks when they are accessed.

    The caller must not access column chunks through the file's own metadata.

    Args:
        source: A file that is open for reading.
        path: Its location, for errors.
        options: Additional arguments of `ParquetFile`.

    Raises:
        pyarrow.ArrowInvalid: The footer is incomplete.
        OSError: The source cannot be read.
    """
    footer = open_footer(source, path)
    return pq.ParquetFile(source, metadata=footer.metadata, **options), footer


def open_footer(source: Any, path: str) -> "CheckedFooter":
    """Read the footer of a Parquet file. Arguments and errors are those of `open_parquet_for_rows`."""
    footer = _footer_bytes(source)
    if footer is None:
        pq.ParquetFile(source, **footer_limits())  # Arrow's error describes the problem at the end of the file.
        raise pa.ArrowInvalid("the file does not end with a Parquet footer")
    alone = MAGIC + footer + len(footer).to_bytes(4, "little") + MAGIC
    return CheckedFooter(footer, pq.ParquetFile(pa.BufferReader(alone), **footer_limits()).metadata, path)


def _footer_bytes(source: Any) -> bytes | None:
    """Return the Thrift bytes of the footer; None if the file does not end with a footer's length and the magic."""
    size = source.seek(0, 2)
    source.seek(max(0, size - _FIRST_READ_BYTES))
    end = bytes(source.read(min(size, _FIRST_READ_BYTES)))
    if size < _MIN_FILE_BYTES or not end.endswith(MAGIC):
        return None
    length = int.from_bytes(end[-_TAIL_BYTES : -len(MAGIC)], "little")
    if length > size - _TAIL_BYTES:
        return None
    if length + _TAIL_BYTES > len(end):
        source.seek(size - _TAIL_BYTES - length)
        end = bytes(source.read(length + _TAIL_BYTES))
    return end[-_TAIL_BYTES - length : -_TAIL_BYTES]


class CheckedFooter:
    """A footer whose column chunks are checked against the schema before their metadata is returned. Threads must not share it."""

    def __init__(self, footer: bytes, metadata: Any, path: str) -> None:
        """Keep the footer's Thrift, and the `pyarrow.parquet.FileMetaData` that Arrow made of it."""
        self.metadata = metadata
        self._footer = footer
        self._path = path
        # The start of each row group's column chunks in the footer, determined when the first chunk is accessed.
        self._starts: tuple[list[int], ...] = ()
        self._leaves: dict[int, _Leaf] = {}
        self._checked: set[tuple[int, int]] = set()

    def column(self, row_group: int, leaf: int) -> Any:
        """Return the `pyarrow.parquet.ColumnChunkMetaData` of a leaf column in a row group.

        Raises:
            pyarrow.ArrowInvalid: The chunk contradicts the schema, or the footer is not valid Thrift.
            UnsupportedFeatureError: The column is encrypted.
        """
        if (row_group, leaf) not in self._checked:
            with _unsound_footer():
                self._starts = self._starts or self._row_groups(_FOOTER_OF_STARTS)
                chunk, _ = _struct(self._footer, self._starts[row_group][leaf], _CHUNK)
                self._check(row_group, leaf, chunk)
            self._checked.add((row_group, leaf))
        return self.metadata.row_group(row_group).column(leaf)

    def check_all(self, like: "CheckedFooter | None" = None) -> None:
        """Check every column chunk. Raises the errors of `column`.

        Args:
            like: A footer with an equal schema, whose definition of the columns is reused.
        """
        if like is not None:
            self._leaves = like._leaves
        with _unsound_footer():
            for row_group, chunks in enumerate(self._row_groups(_FOOTER if like is None else like._definition)):
                for leaf, chunk in enumerate(chunks):
                    if chunk is not None:
                        self._check(row_group, leaf, chunk)

    @cached_property
    def _definition(self) -> _Struct:
        """The definition for footers with an equal schema, with patterns of this footer's checked chunks, so that similar chunks can be skipped."""
        fields, _ = _struct(self._footer, 0, _FOOTER_OF_ALL_STARTS)
        elements = (_pattern(self._footer, start, _SCHEMA_ELEMENT) for start in fields[_SCHEMA])
        starts = fields[_ROW_GROUPS][0][_COLUMNS] if fields[_ROW_GROUPS] else ()
        chunks = (
            _pattern(self._footer, start, _CHUNK, is_text=self.metadata.schema.column(leaf).physical_type == "BYTE_ARRAY")
            for leaf, start in enumerate(starts)
        )
        return _footer(replace(_SCHEMA_ELEMENT, patterns=tuple(elements)), replace(_CHUNK, patterns=tuple(chunks)))

    def _check(self, row_group: int, leaf: int, chunk: Mapping[int, Any]) -> None:
        if leaf not in self._leaves:
            self._leaves[leaf] = _Leaf(self.metadata.schema.column(leaf))
        column = self._leaves[leaf]
        if _ENCRYPTION in chunk:
            raise UnsupportedFeatureError(
                f"{self._path} has an encrypted column {column.path}, and encrypted data files cannot be read",
                path=self._path,
                next_step="read the file with an engine that has its keys, and write it without encryption",
            )
        column.check(chunk[_METADATA], row_group)

    def _row_groups(self, definition: _Struct) -> tuple[list[Any], ...]:
        """Return the column chunks of each row group, or their start positions. Raises `ValueError` if a row group does not have one chunk for each column."""
        fields, _ = _struct(self._footer, 0, definition)
        columns = len(self.metadata.schema)
        row_groups = tuple(row_group[_COLUMNS] for row_group in fields[_ROW_GROUPS])
        if len(row_groups) != self.metadata.num_row_groups:
            raise ValueError(f"it lists {len(row_groups)} row groups, and Arrow reads {self.metadata.num_row_groups}")
        for number, chunks in enumerate(row_groups):
            if len(chunks) != columns:
                raise ValueError(f"row group {number} has {len(chunks)} columns, and the schema {columns}")
        return row_groups


@contextmanager
def _unsound_footer() -> Iterator[None]:
    try:
        yield
    except (ValueError, IndexError) as error:
        raise pa.ArrowInvalid(f"its footer is no sound Parquet footer: {error}") from error


class _Leaf:
    """A leaf column of the schema, with which its chunks are compared."""

    def __init__(self, column: Any) -> None:
        self.path = column.path
        self._physical = column.physical_type
        self._type = _PHYSICAL_TYPES.index(self._physical)
        self._is_text = self._physical == "BYTE_ARRAY"
        self._value_bytes = column.length if self._physical == "FIXED_LEN_BYTE_ARRAY" else _VALUE_BYTES.get(self._physical, 0)
        self._levels = {
            _REPETITION_LEVELS: column.max_repetition_level + 1,
            _DEFINITION_LEVELS: column.max_definition_level + 1,
        }

    def check(self, chunk: Mapping[int, Any], row_group: int) -> None:
        """Raise `ValueError` if the metadata of a chunk contradicts the column."""
        if chunk[_TYPE] != self._type:
            stated = _PHYSICAL_TYPES[chunk[_TYPE]] if 0 <= chunk[_TYPE] < len(_PHYSICAL_TYPES) else chunk[_TYPE]
            raise ValueError(f"column {self.path} is of type {stated} in row group {row_group}, and {self._physical} in the schema")
        if not 0 <= chunk[_CODEC] < _CODECS:
            raise ValueError(f"column {self.path} has a codec {chunk[_CODEC]} in row group {row_group}, which Parquet does not define")
        for bound_bytes in chunk.get(_STATISTICS_FIELD, {}).values():
            if bound_bytes < self._value_bytes:
                raise ValueError(
                    f"a bound of column {self.path} in row group {row_group} has {bound_bytes} bytes, and its values {self._value_bytes}"
                )
        sizes = chunk.get(_SIZES_FIELD, {})
        if _PLAIN_BYTES in sizes and not self._is_text:
            raise ValueError(f"column {self.path} states a size of texts in row group {row_group}, and is no text")
        for number, levels in self._levels.items():
            if sizes.get(number) and sizes[number] != levels:
                raise ValueError(f"column {self.path} counts {sizes[number]} levels in row group {row_group}, and has {levels}")


def _struct(data: bytes, position: int, definition: _Struct) -> tuple[dict[int, Any], int]:
    """Parse the listed fields of a struct. Return them by number, and the position after the struct.

    A number is returned unchanged, a text as its length, a list of numbers or texts as its length, a struct as its fields, and a list of structs as a list.
    """
    values: dict[int, Any] = {}
    kinds = definition.kinds
    number = 0
    # Thousands of small footers are parsed one after the other, so that most field headers are parsed without a function call.
    while head := data[position]:
        if head > 0x0F and number < _NUMBER_IS_SURELY_SMALL:
            number += head >> 4
            position += 1
        else:
            number, position = _field_number(data, position, number, definition)
        kind = head & 0x0F
        expected = kinds.get(number)
        if expected is None:
            position = _skip_value(data, position, kind)
            continue
        if kind != expected:
            raise ValueError(f"field {number} of {definition.name} has the Thrift type {kind}")
        value, position = _value(data, position, definition, number, kind)
        if number in values:
            raise ValueError(f"field {number} of {definition.name} is given twice")
        values[number] = value
    if not definition.required <= values.keys():
        raise ValueError(f"{definition.name} lacks a field: {sorted(definition.required - values.keys())}")
    return values, position + 1


def _field_number(data: bytes, position: int, previous: int, definition: _Struct) -> tuple[int, int]:
    """Return the number of the field whose header is at `position`, and the position of its value."""
    delta = data[position] >> 4
    position += 1
    if delta:
        number = previous + delta
    else:
        raw, position = _varint(data, position, 16)
        number = _signed_number(raw)
    if number > 0x7FFF:
        raise ValueError(f"a field of {definition.name} has a number beyond 32767")
    return number, position


def _value(data: bytes, position: int, definition: _Struct, number: int, kind: int) -> tuple[Any, int]:
    """Return the value of a field that the definition lists, and the position after it."""
    if kind == _LIST:
        return _list(data, position, definition.lists[number])
    if kind == _STRUCT:
        return _struct(data, position, definition.structs[number])
    if data[position] <= 0x7F:
        size, position = data[position], position + 1
    else:
        size, position = _varint(data, position, 31 if kind == _BINARY else _WIDTHS[kind])
    return (size, position + size) if kind == _BINARY else (_signed_number(size), position)


def _skip_value(data: bytes, position: int, kind: int) -> int:
    """Return the position after a field that is not parsed."""
    if _I16 <= kind <= _I64:
        end = position + 1
        while data[end - 1] > 0x7F:
            end += 1
        # A longer number may have more than 64 bits.
        return end if end - position < _VARINT_BYTES else _skip(data, position, kind, 0)
    if kind == _BINARY and data[position] <= 0x7F:
        return position + data[position] + 1
    return _skip(data, position, kind, 0)


def _check_type(definition: _Struct, number: int, kind: int) -> None:
    if kind != definition.kinds[number]:
        raise ValueError(f"field {number} of {definition.name} has the Thrift type {kind}")


def _list(data: bytes, position: int, element: "int | _Struct") -> tuple[Any, int]:
    """Return the structs of a list, the start positions of lazy structs, or the number of other elements; and the position after the list."""
    count, kind, position = _list_head(data, position)
    if count and kind != (_STRUCT if isinstance(element, _Struct) else element):
        raise ValueError(f"a list has elements of the Thrift type {kind}")
    if not isinstance(element, _Struct):
        for _ in range(count):
            position = position + 1 if data[position] <= 0x7F and element in _WIDTHS else _skip(data, position, element, 0)
        return count, position
    structs: list[Any] = []
    for place in range(count):
        match = element.patterns[place].match(data, position) if place < len(element.patterns) else None
        if match is not None:
            structs.append(None)
            position = match.end()
        elif element.lazy:
            structs.append(position)
            position = _skip_defined(data, position, element)
        elif element.types or element.structs or element.lists:
            fields, position = _struct(data, position, element)
            structs.append(fields)
        else:
            position = _skip_defined(data, position, element)
    return structs, position


def _pattern(data: bytes, position: int, definition: _Struct, *, is_text: bool = False) -> re.Pattern[bytes]:
    """Return a pattern that matches structs similar to the valid struct at `position`, which are valid too.

    Similar structs have the same fields, types, lengths of lists and texts, and the same numbers where numbers are checked. Other numbers, and the bytes of
    bounds, may differ.

    Args:
        data: The footer.
        position: The start of the struct.
        definition: The parsed fields of the struct.
        is_text: Whether the bounds in its statistics may have any length.
    """
    pieces: list[bytes] = []
    _add_fields(pieces, data, position, definition, is_text=is_text)
    return re.compile(b"".join(pieces), re.DOTALL)


def _add_fields(pieces: list[bytes], data: bytes, position: int, definition: _Struct, *, is_text: bool) -> int:
    """Add the patterns for the fields of a struct. Return the position after the struct."""
    number = 0
    while data[position]:
        begin, kind = position, data[position] & 0x0F
        number, position = _field_number(data, position, number, definition)
        pieces.append(re.escape(data[begin:position]))
        is_read = number in definition.types
        if kind == _STRUCT:
            position = _add_fields(pieces, data, position, definition.structs.get(number, _ANY_STRUCT), is_text=is_text)
        elif kind == _LIST and number in definition.lists:
            position = _add_elements(pieces, data, position, definition.lists[number], is_text=is_text)
        else:
            end = _skip(data, position, kind, 0)
            if kind in _WIDTHS and (kind != _I32 or not is_read):
                pieces.append(_ANY_NUMBER)
            elif kind == _BINARY and is_read:
                size, start = _varint(data, position, 31)
                pieces.append(_ANY_TEXT if is_text else re.escape(data[position:start]) + b".{%d}" % size)
            else:
                pieces.append(re.escape(data[position:end]))
            position = end
    pieces.append(b"\\x00")
    return position + 1


def _add_elements(pieces: list[bytes], data: bytes, position: int, element: "int | _Struct", *, is_text: bool) -> int:
    """Add the patterns for a list of the same length. Return the position after the list."""
    begin = position
    count, _, position = _list_head(data, position)
    pieces.append(re.escape(data[begin:position]))
    for _ in range(count):
        if isinstance(element, _Struct):
            position = _add_fields(pieces, data, position, element, is_text=is_text)
        else:
            end = _skip(data, position, element, 0)
            pieces.append(_ANY_NUMBER if element in _WIDTHS else re.escape(data[position:end]))
            position = end
    return position


def _skip_defined(data: bytes, position: int, definition: _Struct) -> int:
    """Return the position after a struct that is not parsed, except for the element types of its lists.

    Wide files have thousands of column chunks, of about 35 fields each, so numbers and short texts are skipped here without a call.
    """
    structs, lists = definition.structs, definition.lists
    number = 0
    while head := data[position]:
        if head > 0x0F and number < _NUMBER_IS_SURELY_SMALL:
            number += head >> 4
            position += 1
        else:
            number, position = _field_number(data, position, number, definition)
        kind = head & 0x0F
        if number in structs:
            _check_type(definition, number, kind)
            position = _skip_defined(data, position, structs[number])
        elif number in lists:
            _check_type(definition, number, kind)
            _, position = _list(data, position, lists[number])
        elif _I16 <= kind <= _I64:
            # Numbers of more than ten bytes have been refused by Arrow already.
            while data[position] > 0x7F:
                position += 1
            position += 1
        elif kind == _BINARY and data[position] <= 0x7F:
            position += data[position] + 1
        elif kind > _FALSE:
            position = _skip(data, position, kind, 0)
    return position + 1


def _list_head(data: bytes, position: int) -> tuple[int, int, int]:
    """Return the number of a list's elements, their type, and the position of the first element."""
    head = data[position]
    if head >> 4 < 15:
        return head >> 4, head & 0x0F, position + 1
    count, position = _varint(data, position + 1, 31)
    return count, head & 0x0F, position


def _skip(data: bytes, position: int, kind: int, depth: int) -> int:
    """Return the position after a value that is not parsed."""
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
    # In a list a boolean takes one byte; as a field its value is part of the type.
    return position + 1 if kind in (_TRUE, _FALSE) else _skip(data, position, kind, depth)


def _skip_struct(data: bytes, position: int, depth: int) -> int:
    if depth > _MAX_NESTING:
        raise ValueError(f"it is nested more than {_MAX_NESTING} levels deep")
    while head := data[position]:
        position += 1
        if not head >> 4:
            _, position = _varint(data, position, 16)
        position = _skip(data, position, head & 0x0F, depth)
    return position + 1


def _varint(data: bytes, position: int, bits: int) -> tuple[int, int]:
    """Return an unsigned number of at most `bits` bits, and the position after it."""
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


def _signed_number(raw: int) -> int:
    return raw >> 1 ^ -(raw & 1)
