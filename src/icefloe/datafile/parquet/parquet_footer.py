"""Safe opening of Parquet files, whose footers cannot crash the process: `open_parquet`, `open_parquet_for_rows`, `open_footer` and `CheckedFooter`.

Arrow parses a footer's Thrift without further checks. If a column chunk contradicts the schema, `row_group(i).column(j)`, `.statistics` and `.compression`
throw C++ exceptions that nothing catches, and the process aborts. So the footer's bytes are read once and parsed by Arrow, and before the metadata of a column
chunk is returned, this module checks in the same bytes all that these calls rely on. Reading rows does not need the check, because there Arrow catches its
exceptions.

The bytes must be interpreted exactly as Arrow does it (`thrift.py`).

Checking a column chunk takes about 13 microseconds, and skipping it about 8; a file of 1,000 columns and 10 row groups has 10,000 chunks. So a scan checks only
the chunks that it uses (`CheckedFooter.column`), and none if it reads a whole file without a filter. Thousands of files of one writer have chunks with the same
fields. These are recognized, in 1 microsecond each, by a regular expression that is built from the first file (`pattern_of`).
Spec: Parquet, parquet.thrift (FileMetaData, RowGroup, ColumnChunk, ColumnMetaData); Thrift, Compact Protocol.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from icefloe.datafile.parquet.parquet_annotations import MAGIC
from icefloe.datafile.parquet.thrift import BINARY, I32, I64, ThriftStruct, parse_struct, pattern_of
from icefloe.errors import UnsupportedFeatureError
from icefloe.lazy_imports import lazy_module
from icefloe.spec.limits import limits

if TYPE_CHECKING:
    from pyarrow import parquet as pq
else:  # imported at the first data file: it takes 9 MB of memory, with the file systems of Arrow
    pq = lazy_module("pyarrow.parquet")

_TAIL_BYTES = 8  # the footer's length in four bytes, and the magic
_FIRST_READ_BYTES = 64 * 1024  # most footers are shorter; Arrow reads this many bytes too
_MIN_FILE_BYTES = 12
_MAX_INT = 2**31 - 1

# Physical types by number in parquet.thrift's `Type`, and the size of a value if all values have the same size.
_PHYSICAL_TYPES = ("BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
_VALUE_BYTES: Final[Mapping[str, int]] = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}
_CODECS = 8  # UNCOMPRESSED to LZ4_RAW

_STATISTICS = ThriftStruct("Statistics", types=dict.fromkeys((1, 2, 5, 6), BINARY))
_SIZES = ThriftStruct("SizeStatistics", types={1: I64}, lists={2: I64, 3: I64})
_CHUNK_METADATA = ThriftStruct(
    "ColumnMetaData",
    types={1: I32, 4: I32},
    structs={12: _STATISTICS, 16: _SIZES, 17: ThriftStruct("GeospatialStatistics", lists={2: I32})},
    lists={2: I32, 3: BINARY, 8: ThriftStruct("KeyValue"), 13: ThriftStruct("PageEncodingStats")},
    required=frozenset({1, 2, 3, 4}),
)
_CRYPTO_METADATA = ThriftStruct("ColumnCryptoMetaData", structs={2: ThriftStruct("EncryptionWithColumnKey", lists={1: BINARY})})
_CHUNK = ThriftStruct("ColumnChunk", structs={3: _CHUNK_METADATA, 8: _CRYPTO_METADATA}, required=frozenset({3}))
_ROW_GROUP = ThriftStruct("RowGroup", lists={1: _CHUNK, 4: ThriftStruct("SortingColumn")}, required=frozenset({1}))
_SCHEMA_ELEMENT = ThriftStruct("SchemaElement")
_FOOTER = ThriftStruct(
    "FileMetaData",
    lists={2: _SCHEMA_ELEMENT, 4: _ROW_GROUP, 5: ThriftStruct("KeyValue"), 7: ThriftStruct("ColumnOrder")},
    required=frozenset({2, 4}),
)


def _footer(schema_element: ThriftStruct, chunk: ThriftStruct) -> ThriftStruct:
    """Return the definition of a footer that uses these definitions of schema elements and column chunks, its most frequent structs."""
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
        """Create a footer from its Thrift bytes, and from the `pyarrow.parquet.FileMetaData` into which Arrow parsed them."""
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
                chunk, _ = parse_struct(self._footer, self._starts[row_group][leaf], _CHUNK)
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
    def _definition(self) -> ThriftStruct:
        """The definition for parsing other footers of the same schema. It has patterns of this footer's valid chunks, with which similar chunks are skipped."""
        fields, _ = parse_struct(self._footer, 0, _FOOTER_OF_ALL_STARTS)
        elements = (pattern_of(self._footer, start, _SCHEMA_ELEMENT) for start in fields[_SCHEMA])
        starts = fields[_ROW_GROUPS][0][_COLUMNS] if fields[_ROW_GROUPS] else ()
        chunks = (
            pattern_of(self._footer, start, _CHUNK, is_text=self.metadata.schema.column(leaf).physical_type == "BYTE_ARRAY")
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

    def _row_groups(self, definition: ThriftStruct) -> tuple[list[Any], ...]:
        """Return for each row group its column chunks, or the start positions of lazy chunks. Raises `ValueError` if a chunk is missing or too many."""
        fields, _ = parse_struct(self._footer, 0, definition)
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
    """A leaf column of the schema. `check` compares a column chunk with it."""

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
