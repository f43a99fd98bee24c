"""Reads the rows of CSV files with a header line: their columns, and their values converted to a table's types.

`csv_records.py` finds the records, Arrow reads their values as text, and `text_types.py` converts the text.
"""

import heapq
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
from numpy.typing import NDArray

from icefloe.errors import InvalidInputError, InvalidSchemaError, Problem, in_one_line
from icefloe.loading.bad_rows import BadRow, BadRowCollector
from icefloe.loading.csv_records import CsvDialect, CsvFault, CsvRecords, read_records
from icefloe.loading.input_files import BLOCK_BYTES, InputFiles, open_bytes
from icefloe.loading.load_progress import ProgressCounter
from icefloe.loading.reader_options import ReaderOptions
from icefloe.loading.text_decoding import utf8_decoder
from icefloe.loading.text_types import NEAR_SHARE, TextTypes, from_text, nearest_type, type_with_article, wrong_texts
from icefloe.operations.upsert_source import Names
from icefloe.spec.schema.arrow_types import field_to_arrow
from icefloe.spec.types import IcebergType, NestedField, PrimitiveType, StringType

# Characters that often separate values in place of commas.
_OTHER_SEPARATORS: Final = ";\t|,"
# For each `_COLUMNS_OF_BLOCK` columns of a file, a block is longer by the usual length of a block, up to `_LARGEST_BLOCK` times the usual length.
_COLUMNS_OF_BLOCK, _LARGEST_BLOCK = 1000, 8

# The number of values of a column from which its likely type is guessed, before all values are checked.
_SAMPLE: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class MixedColumn:
    """A new column that has the type `string` although nearly all of its values have another type, for a warning to the user.

    Attributes:
        name: The name of the column.
        type: The type that nearly all values have, as text.
        values: The number of values that are not null.
        wrong: The number of values that do not have this type.
        file: The path of the file with the first wrong value.
        line: The number of the line of the first wrong value, from 1.
    """

    name: str
    type: str
    values: int
    wrong: int
    file: str
    line: int

    def __str__(self) -> str:
        """Return a sentence that describes the column and what the user can do."""
        return (
            f"{in_one_line(self.name)} is string: {self.wrong:,} of {self.values:,} values are not {self.type}, the first in "
            f"{in_one_line(self.file)} line {self.line}; state its type with --schema"
        )


class CsvInput:
    """Reads the rows of CSV files. A file is read once to infer the types of its columns, unless all types are known, and then once for its rows."""

    def __init__(self, files: InputFiles, options: ReaderOptions, *, merges_columns: bool) -> None:
        """Read the header of every file.

        Args:
            files: The files.
            options: The options of the reader.
            merges_columns: Whether the files may have different columns. If a file does not have a column, the column is null in the rows of the file.

        Raises:
            InvalidSchemaError: A header has a name twice (in any letter case) or a column without a name; or the files have different columns, and
                `merges_columns` is false.
            InvalidInputError: A file is damaged, its separator seems to be a different one, or no file has a header line.
        """
        self._files, self._options = files, options
        self._dialect = CsvDialect(options)
        headers = {path: header for path in files.paths if (header := self._header(path))}
        if not headers:
            raise InvalidInputError(f"{files.described}: there are no rows", next_step="name files that contain rows")
        self._headers = _checked_headers(headers, options.sep)
        self.has_different_headers = len(set(map(tuple, headers.values()))) > 1
        if self.has_different_headers and not merges_columns:
            raise _different(headers)
        self.mixed_columns: list[MixedColumn] = []
        self.names = list(dict.fromkeys(name for header in headers.values() for name in header))

    def names_by_file(self) -> Mapping[str, Names]:
        """Return the column names of each file, by the path of the file."""
        return {path: dict.fromkeys(header) for path, header in self._headers.items()}

    def infer(self, known: Mapping[str, IcebergType], progress: ProgressCounter) -> list[NestedField]:
        """Return the columns of all files.

        The type of a column is its type in `known`. For any other column it is inferred as the narrowest type that all values of the column have; bad rows are
        ignored. The attribute `mixed_columns` is set too.
        """
        types = {name: TextTypes() for name in self.names if name not in known}
        samples: dict[str, Any] = {}
        if types:
            for path, records in self._records(progress):
                texts = self._texts(path, records)[0]
                for place, name in enumerate(texts.column_names):
                    for chunk in texts.column(place).chunks if name in types else ():
                        types[name].observe(chunk)
                        if name not in samples and chunk.null_count < len(chunk):
                            samples[name] = chunk.drop_null()[:_SAMPLE]
        chosen = {name: known[name] if name in known else types[name].narrowest_type() for name in self.names}
        strings = (name for name in types if isinstance(chosen[name], StringType))
        near = {name: kind for name in strings if name in samples and (kind := nearest_type(samples[name])) is not None}
        self.mixed_columns = self._mixed_columns(near) if near else []
        return [NestedField(number, name, kind) for number, (name, kind) in enumerate(chosen.items(), start=1)]

    def _mixed_columns(self, near: Mapping[str, PrimitiveType]) -> list[MixedColumn]:
        """Read the files again to find the columns of strings of which nearly all values have another type.

        Args:
            near: For the name of each column to check, the type that nearly all values of a sample have.
        """
        values: Counter[str] = Counter()
        wrong: Counter[str] = Counter()
        first: dict[str, tuple[str, int]] = {}
        for path, records in self._records(ProgressCounter(None, "columns", self._files.size)):
            texts, kept, _ = self._texts(path, records)
            for place, name in enumerate(texts.column_names):
                if name not in near:
                    continue
                column = texts.column(place).combine_chunks()
                is_wrong = wrong_texts(column, near[name])
                values[name] += len(column) - column.null_count
                wrong[name] += int(is_wrong.sum())
                if name not in first and is_wrong.any():
                    first[name] = (path, int(records.lines[kept[np.flatnonzero(is_wrong)[0]]]))
        return [
            MixedColumn(name=name, type=str(kind), values=values[name], wrong=wrong[name], file=first[name][0], line=first[name][1])
            for name, kind in near.items()
            if 0 < wrong[name] <= (1 - NEAR_SHARE) * values[name]
        ]

    def batches(self, fields: Sequence[NestedField], bad_rows: BadRowCollector, progress: ProgressCounter) -> Iterator[pa.RecordBatch]:
        """Yield the rows of all files, with the columns and types of `fields`. Rows that cannot be read or converted are added to `bad_rows` instead."""
        schema = pa.schema([field_to_arrow(field).with_nullable(True) for field in fields])
        for path, records in self._records(progress):
            texts, kept, faults = self._texts(path, records)
            columns = []
            wrong: NDArray[np.bool_] = np.zeros(texts.num_rows, bool)

            def bad(
                rows: Any, reason: str, name: str, path: str = path, records: CsvRecords = records, kept: Any = kept
            ) -> Iterator[BadRow]:
                return (_bad_row(path, records, int(kept[row]), reason, name) for row in np.flatnonzero(rows))

            # `column_names` builds a new list at each use, which would take minutes for 20,000 columns.
            places = {name: place for place, name in enumerate(texts.column_names)}
            for field in fields:
                place = places.get(field.name)
                text = pa.nulls(texts.num_rows, pa.string()) if place is None else texts.column(place).combine_chunks()
                values, is_wrong = from_text(text, field.field_type)
                columns.append(values)
                if is_wrong is not None:
                    faults.append(bad(is_wrong & ~wrong, f"is not {type_with_article(field.field_type)}", field.name))
                    wrong |= is_wrong
                if field.required and values.null_count:
                    is_null = np.asarray(values.is_null())
                    faults.append(bad(is_null & ~wrong, "has no value, and the column is required", field.name))
                    wrong |= is_null
            # Each iterator of faults is in the order of the lines, and creates its rows when they are needed.
            for fault in heapq.merge(*faults, key=lambda fault: fault.line):
                bad_rows.add(fault)
            batch = pa.RecordBatch.from_arrays(columns, schema=schema)
            yield batch.filter(pa.array(~wrong)) if wrong.any() else batch

    def has_line_breaks(self, progress: ProgressCounter) -> bool:
        """Return whether any value of the files contains a line break, so that a line is not always a row."""
        for _, records in self._records(progress):
            breaks = np.flatnonzero(np.frombuffer(records.data, np.uint8) == ord("\n"))
            if np.any(np.searchsorted(breaks, records.ends) > np.searchsorted(breaks, records.starts)):
                return True
        return False

    def _header(self, path: str) -> list[str]:
        with open_bytes(self._files.io, path, utf8_decoder(self._options.encoding, path)) as source:
            for records in read_records(source, self._dialect):
                if len(records.faults) and (not len(records.starts) or records.faults[0].line < records.lines[0]):
                    raise InvalidInputError(
                        f"the header line {records.faults[0].reason}", path=path, next_step="correct the header, or pass --option quote="
                    )
                if len(records.starts):
                    return self._values_of(records, path)
        return []

    def _values_of(self, records: CsvRecords, path: str) -> list[str]:
        """Return the values of the first record, which is the header, as text."""
        start, end, width = int(records.starts[0]), int(records.ends[0]), int(records.widths[0])
        try:
            row = self._read(records.data[start:end], [str(number) for number in range(width)], can_be_null=False)
        except (pa.ArrowInvalid, UnicodeError) as error:
            raise InvalidInputError(
                f"the header cannot be read: {error}", path=path, next_step="check that the file is CSV in UTF-8, or pass --option encoding"
            ) from error
        return [column[0].as_py() for column in row.columns]

    def _records(self, progress: ProgressCounter) -> Iterator[tuple[str, CsvRecords]]:
        """Yield the path of each file with the records of a block of it, for all blocks of all files. The header is left out."""
        for path, header in self._headers.items():
            # Work for each column of a block takes as long for one row as for a hundred, so that wide files get longer blocks.
            block_bytes = BLOCK_BYTES * min(1 + len(header) // _COLUMNS_OF_BLOCK, _LARGEST_BLOCK)
            with open_bytes(self._files.io, path, utf8_decoder(self._options.encoding, path), block_bytes) as source:
                has_header = False
                for records in read_records(source, self._dialect):
                    if not has_header and len(records.starts):
                        has_header = True
                        for name in ("starts", "ends", "lines", "widths"):
                            setattr(records, name, getattr(records, name)[1:])
                    progress.advance(len(records.starts) + len(records.faults), source.position)
                    yield path, records
            progress.end_file()

    def _texts(self, path: str, records: CsvRecords) -> tuple[pa.Table, NDArray[np.int64], list[Iterator[BadRow]]]:
        """Read the values of records as text.

        Args:
            path: The path of the file.
            records: The records of a block of the file.

        Returns:
            The good records as a table with columns of strings; the indexes of these records in `records`; and iterators of the bad rows, each in the order
            of the lines.
        """
        names = self._headers[path]
        is_kept = records.widths == len(names)
        is_utf8 = _are_utf8(records)
        other_encoding = f"is not {self._options.encoding.upper()}"
        faults: list[Iterator[BadRow]] = [
            (_bad_line(path, fault, names) for fault in records.faults),
            (_bad_row(path, records, int(row), _width_reason(int(records.widths[row]), len(names))) for row in np.flatnonzero(~is_kept)),
            (_bad_row(path, records, int(row), other_encoding) for row in np.flatnonzero(is_kept & ~is_utf8)),
        ]
        is_kept &= is_utf8
        row_numbers = np.flatnonzero(is_kept)
        if not len(row_numbers):
            return pa.table({name: pa.array([], pa.string()) for name in names}), row_numbers, faults
        if is_kept.all() and not self._options.comment and not records.faults:
            data: Any = memoryview(records.data)[int(records.starts[0]) : int(records.ends[-1])]
        else:
            data = b"\n".join(
                records.data[start:end] for start, end in zip(records.starts[row_numbers], records.ends[row_numbers], strict=True)
            )
        texts = self._read(data, names)
        if texts.num_rows != len(row_numbers):
            raise InvalidInputError(
                f"Arrow reads {texts.num_rows} rows where {len(row_numbers)} are",
                path=path,
                next_step="this is a fault of Icefloe: please report it",
            )
        return texts, row_numbers, faults

    def _read(self, data: Any, names: Sequence[str], *, can_be_null: bool = True) -> pa.Table:
        null_value = self._options.null_value
        return pa_csv.read_csv(
            pa.BufferReader(data),
            # A single block, so that no record is cut.
            pa_csv.ReadOptions(column_names=names, block_size=len(data) + 1),
            pa_csv.ParseOptions(
                delimiter=self._options.sep,
                quote_char=self._options.quote or False,
                escape_char=self._options.escape or False,
                newlines_in_values=True,
            ),
            pa_csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                strings_can_be_null=can_be_null,
                quoted_strings_can_be_null=False,
                null_values=["", null_value] if null_value is not None else [""],
            ),
        )


def _are_utf8(records: CsvRecords) -> NDArray[np.bool_]:
    try:
        records.data.decode()
    except UnicodeDecodeError:
        spans = zip(records.starts, records.ends, strict=True)
        return np.array([_is_utf8(records.data[start:end]) for start, end in spans], bool)
    return np.ones(len(records.starts), bool)


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _bad_line(path: str, fault: CsvFault, names: Sequence[str]) -> BadRow:
    column = names[fault.value] if fault.value is not None and fault.value < len(names) else None
    return BadRow(file=path, line=fault.line, column=column, reason=fault.reason, text=fault.text.decode(errors="replace"))


def _width_reason(width: int, expected: int) -> str:
    return f"has {width} value{'' if width == 1 else 's'}, the header has {expected}"


def _bad_row(path: str, records: CsvRecords, row: int, reason: str, column: str | None = None) -> BadRow:
    text = records.data[records.starts[row] : records.ends[row]].decode(errors="replace")
    return BadRow(file=path, line=int(records.lines[row]), column=column, reason=reason, text=text)


def _checked_headers(headers: dict[str, list[str]], sep: str) -> dict[str, list[str]]:
    for path, header in headers.items():
        repeated = [name for name, count in Counter(name.lower() for name in header).items() if count > 1]
        if repeated and repeated != [""]:
            raise InvalidSchemaError(
                f"{path}: the header names {', '.join(map(repr, filter(None, repeated)))} more than once", next_step="rename the columns"
            )
        if "" in header:
            raise InvalidSchemaError(f"{path}: column {header.index('') + 1} has no name in the header", next_step="name the column")
        other = next((mark for mark in _OTHER_SEPARATORS if len(header) == 1 and mark != sep and mark in header[0]), None)
        if other is not None:
            written = "\\t" if other == "\t" else other
            raise InvalidInputError(
                f"{path}: the header has one column, {header[0]!r}, so its separator is not {sep!r}",
                next_step=f"pass --option 'sep={written}'",
            )
    return headers


def _different(headers: Mapping[str, list[str]]) -> InvalidSchemaError:
    """Return the error for files with different columns. It contains the headers of the first file and of the first file with another header."""
    first = next(iter(headers.items()))
    other = next((path, header) for path, header in headers.items() if header != first[1])
    return InvalidSchemaError(
        "the files have different columns",
        problems=[Problem(where=where, what=", ".join(names)) for where, names in (first, other)],
        next_step="pass --add-columns to load all of their columns, or load them one by one",
    )
