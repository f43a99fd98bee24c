"""The stored rows of a Parquet file: the row groups of a scan task, with the leaf columns that it needs.

`stored_file.py` opens files of every format with one interface; this module is its reader of Parquet. The metadata of a column chunk is checked only before it
is used (`parquet_footer.py`), so that a scan of a wide file does not pay for columns that it does not need. `parquet_appender.py` writes Parquet files.
Spec: Appendix A, Parquet; Scan Planning (splits).
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from icefloe.datafile.field_ids import has_ids, mapped_ids, with_ids
from icefloe.datafile.parquet.hybrid_calendar import hybrid_places, refuse_hybrid_values
from icefloe.datafile.parquet.parquet_footer import open_parquet_for_rows
from icefloe.datafile.parquet.row_groups import ordered_bounds, row_group_starts, row_groups_between, row_groups_that_may_match
from icefloe.datafile.projection import file_columns, wanted_leaves
from icefloe.datafile.stored_batch import BATCH_ROWS, RowTest, SkippedRows, StoredBatch, batches_without_columns, reading
from icefloe.lazy_imports import lazy_module
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.spec.expressions.predicate import BooleanExpression
from icefloe.spec.ports import PlannedInput
from icefloe.spec.schema.name_mapping import NameMapping
from icefloe.spec.types import NestedField

if TYPE_CHECKING:
    from pyarrow import parquet as pq
else:  # imported at the first data file: it takes 9 MB of memory, with the file systems of Arrow
    pq = lazy_module("pyarrow.parquet")

# Bytes of the length before a text that is not in a dictionary. Origin: Parquet's PLAIN encoding.
_PLAIN_LENGTH_BYTES = 4
# The uncompressed bytes of a batch: batches of wide rows have fewer rows, because several copies of a batch may be in memory.
_BATCH_BYTES, _LEAST_BATCH_ROWS = 64 * 1024 * 1024, 256
# The columns of a test are read twice if rows pass, so that it pays only if all columns have at least this multiple of their bytes.
_TIMES_TESTED = 2


class ParquetRows:
    """An open Parquet file, with the interface `StoredFile`: it reads the row groups of one scan task."""

    # A Parquet file states the unit of each timestamp column; if it does not fit the table's column, this is an error.
    floors_nanoseconds = False

    def __init__(self, file: Any, task: FileScanTask, name_mapping: NameMapping | None) -> None:
        """Open the file. Raises `DataFileFormatError` if its footer cannot be read."""
        self._task = task
        self._path = task.file.file_path
        self._source = file
        with reading(self._path):
            # Int96 in nanoseconds overflows outside of 1677 to 2262; Iceberg's timestamps are in microseconds anyway.
            self._file, self._footer = open_parquet_for_rows(file, self._path, coerce_int96_timestamp_unit="us")
            file_schema = self._file.schema_arrow
        self._mapped = None if name_mapping is None or has_ids(file_schema) else mapped_ids(name_mapping)
        self.schema = file_schema if self._mapped is None else with_ids(file_schema, self._mapped)
        self._root = file_columns(self.schema)
        self._hybrid = hybrid_places(self._footer.metadata)

    def count_rows(self) -> int:
        """Return the number of rows of all row groups; see `stored_file.py`."""
        metadata = self._footer.metadata
        return sum(metadata.row_group(index).num_rows for index in range(metadata.num_row_groups))

    def row_group_starts(self) -> list[int]:
        """Return the position of the first byte of each row group; none if the file has no columns. A task for a range has the row groups that begin in it."""
        with reading(self._path):
            return row_group_starts(self._footer)

    def row_group_bounds(self, fields: Iterable[NestedField], most: int) -> Mapping[int, Sequence[tuple[Any, Any]]]:
        """Return the bounds of each row group, by field id, for at most so many columns that have them in all row groups."""
        with reading(self._path):
            return ordered_bounds(self._footer, fields, self._root, self._hybrid, most)

    def batches(
        self,
        fields: tuple[NestedField, ...],
        row_filter: BooleanExpression,
        row_test: RowTest | None = None,
        skipped: SkippedRows | None = None,
    ) -> Iterator[StoredBatch]:
        """Yield the rows of the task's row groups that may match and are not skipped as a whole; see `stored_file.py`."""
        row_groups = self._row_groups(row_filter)
        first_rows = [0]
        for index in range(self._footer.metadata.num_row_groups):
            first_rows.append(first_rows[-1] + self._footer.metadata.row_group(index).num_rows)
        if skipped is not None:
            row_groups = [
                index for index in row_groups if not skipped.deletes_all(first_rows[index], first_rows[index + 1] - first_rows[index])
            ]
        leaves = sorted(wanted_leaves(self._root, fields))
        names = [self._file.schema.column(leaf).path for leaf in leaves]
        if isinstance(self._source, PlannedInput):
            self._source.will_read([[self._chunk_range(index, leaf) for leaf in leaves] for index in row_groups])
        file = self._with_dictionaries(row_groups, names) if self._task.delete_files else self._file
        tested = [] if row_test is None else sorted(wanted_leaves(self._root, row_test.fields))
        # Row groups are tested until one has passing rows in most of its batches, because then the test costs more than it saves.
        while row_test is not None and row_groups and self._pays(row_groups[0], tested, leaves):
            group, *row_groups = row_groups
            results = [
                (_rows_of(batch), row_test.mask(batch).true_count) for batch in self._run(self._file, [group], first_rows[group], tested)
            ]
            passing = [rows for rows, count in results if count]
            if 2 * len(passing) > len(results):
                row_test = None
            yield from _overlapping(self._run(file, [group], first_rows[group], leaves), passing)
        for run in _runs(row_groups):
            first_row = first_rows[run[0]]
            if names:
                yield from self._run(file, run, first_row, leaves)
            elif first_rows[run[-1] + 1] > first_row:
                yield from batches_without_columns(first_row, first_rows[run[-1] + 1] - first_row)

    def _pays(self, row_group: int, tested: Sequence[int], leaves: Sequence[int]) -> bool:
        """Return True if reading the tested columns first saves time: the row group has several batches, and these columns are few of the bytes to read."""
        if not tested or self._footer.metadata.row_group(row_group).num_rows <= BATCH_ROWS:
            return False
        with reading(self._path):
            sizes = {leaf: self._footer.column(row_group, leaf).total_uncompressed_size for leaf in {*tested, *leaves}}
        return bool(_TIMES_TESTED * sum(sizes[leaf] for leaf in tested) <= sum(sizes[leaf] for leaf in leaves))

    def _chunk_range(self, row_group: int, leaf: int) -> tuple[int, int]:
        """Return the byte range of a column chunk: its first byte and the byte after its last."""
        with reading(self._path):
            chunk = self._footer.column(row_group, leaf)
        start = chunk.data_page_offset
        if chunk.dictionary_page_offset is not None and 0 < chunk.dictionary_page_offset < start:
            start = chunk.dictionary_page_offset
        return start, start + chunk.total_compressed_size

    def _row_groups(self, row_filter: BooleanExpression) -> list[int]:
        """Return the row groups of the task's split in which a row may match."""
        row_groups = list(range(self._footer.metadata.num_row_groups))
        with reading(self._path):
            # A task for the whole file reads all of it, even if the manifest has a wrong file size.
            if self._task.start > 0 or self._task.length < self._task.file.file_size_in_bytes:
                row_groups = row_groups_between(self._footer, self._task.start, self._task.start + self._task.length)
            return row_groups_that_may_match(self._footer, row_groups, row_filter, self._root, self._hybrid)

    def _with_dictionaries(self, row_groups: list[int], names: list[str]) -> Any:
        """Return the file opened so that dictionary-encoded texts stay encoded in batches. Deleted rows are removed then before texts are copied."""
        leaves = {self._file.schema.column(leaf).path: leaf for leaf in range(len(self._file.schema))}
        texts = [name for name in names if self._file.schema.column(leaves[name]).logical_type.type == "STRING" and "." not in name]
        with reading(self._path):
            dictionaries = [
                name for name in texts if all(_is_all_dictionary(self._footer.column(group, leaves[name])) for group in row_groups)
            ]
            if not dictionaries:
                return self._file
            return pq.ParquetFile(
                self._source, metadata=self._footer.metadata, coerce_int96_timestamp_unit="us", read_dictionary=dictionaries
            )

    def _batch_rows(self, row_group: int, leaves: Sequence[int]) -> int:
        """Return the number of rows in a batch, from the size of a row in one row group."""
        with reading(self._path):
            rows = self._footer.metadata.row_group(row_group).num_rows
            size = sum(self._footer.column(row_group, leaf).total_uncompressed_size for leaf in leaves)
        return BATCH_ROWS if size <= 0 else min(BATCH_ROWS, max(_LEAST_BATCH_ROWS, rows * _BATCH_BYTES // size))

    def _run(self, file: Any, row_groups: list[int], first_row: int, leaves: Sequence[int]) -> Iterator[StoredBatch]:
        """Yield the rows of consecutive row groups, with some leaf columns."""
        names = [self._file.schema.column(leaf).path for leaf in leaves]
        batches = file.iter_batches(batch_size=self._batch_rows(row_groups[0], leaves), row_groups=row_groups, columns=names)
        schema = None
        while True:
            with reading(self._path), self._explain_errors():
                batch = next(batches, None)
            if batch is None:
                return
            count = batch.num_rows
            if not self._hybrid.isdisjoint(leaves):
                refuse_hybrid_values(batch, leaves, self._hybrid, self._path)
            if self._mapped is not None:
                schema = schema or with_ids(batch.schema, self._mapped)
                batch = type(batch).from_arrays(batch.columns, schema=schema)
            if count:
                yield StoredBatch(first_row, batch)
            first_row += count

    @contextmanager
    def _explain_errors(self) -> Iterator[None]:
        """If Arrow fails in the block, check the footer, and raise its error instead if it contradicts itself or a column is encrypted."""
        try:
            yield
        except (pa.ArrowException, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            self._footer.check_all()
            raise


def _is_all_dictionary(chunk: Any) -> bool:
    """Return True if a chunk of texts is entirely dictionary-encoded: it is too small for plain texts, of which each has a length of four bytes."""
    return bool(chunk.has_dictionary_page and chunk.total_uncompressed_size < _PLAIN_LENGTH_BYTES * chunk.num_values)


def _rows_of(batch: StoredBatch) -> range:
    return range(batch.first_row, batch.first_row + batch.rows.num_rows)


def _overlapping(batches: Iterator[StoredBatch], ranges: Sequence[range]) -> Iterator[StoredBatch]:
    """Yield the batches that contain a row of one of these ascending ranges. Nothing is read after the last range."""
    waiting = deque(ranges)
    while waiting and (batch := next(batches, None)) is not None:
        rows = _rows_of(batch)
        if waiting[0].start < rows.stop:
            yield batch
        while waiting and waiting[0].stop <= rows.stop:
            waiting.popleft()


def _runs(indexes: Sequence[int]) -> Iterator[list[int]]:
    """Divide ascending numbers into runs without gaps, so that the rows of a run are adjacent in the file."""
    if not indexes:
        return
    run = [indexes[0]]
    for before, index in pairwise(indexes):
        if index != before + 1:
            yield run
            run = []
        run.append(index)
    yield run
