"""The rows of one Parquet file as they are stored: the row groups of a task, the leaves that are wanted.

Behind the door `stored_file.py`; writing is `parquet_output.py`. Spec: Appendix A, Parquet; Scan Planning (splits).
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import pyarrow.parquet as pq

from icefloe.datafile.field_ids import has_ids, mapped_ids, with_ids
from icefloe.datafile.parquet.parquet_footer import open_parquet
from icefloe.datafile.parquet.row_groups import row_groups_between, row_groups_that_may_match
from icefloe.datafile.projection import file_columns, wanted_leaves
from icefloe.datafile.stored_batch import BATCH_ROWS, StoredBatch, batches_without_columns, reading
from icefloe.kernel.expressions.predicate import BooleanExpression
from icefloe.kernel.scan.file_scan_task import FileScanTask
from icefloe.kernel.schema.name_mapping import NameMapping
from icefloe.kernel.types import NestedField

# A text that is not in a dictionary is written with its length before it. Origin: Parquet's PLAIN encoding.
_PLAIN_LENGTH_BYTES = 4


class ParquetRows:
    """An open Parquet file."""

    # Parquet says the unit of every timestamp itself, and one that does not fit the column is an error.
    floors_nanoseconds = False

    def __init__(self, file: Any, task: FileScanTask, name_mapping: NameMapping | None) -> None:
        """Raises `DataFileFormatError` where the footer cannot be read."""
        self._task = task
        self._path = task.file.file_path
        self._bytes = file
        with reading(self._path):
            # Int96 in nanoseconds overflows outside 1677 to 2262; Iceberg's timestamps are microseconds in any case.
            self._file = open_parquet(file, self._path, coerce_int96_timestamp_unit="us")
            stored = self._file.schema_arrow
        self._mapped = None if name_mapping is None or has_ids(stored) else mapped_ids(name_mapping)
        self.schema = stored if self._mapped is None else with_ids(stored, self._mapped)
        self._root = file_columns(self.schema)

    def batches(self, fields: tuple[NestedField, ...], row_filter: BooleanExpression) -> Iterator[StoredBatch]:
        """The rows of the task's row groups that may match; see `stored_file.py`."""
        chosen = self._row_groups(row_filter)
        starts = [0]
        for index in range(self._file.metadata.num_row_groups):
            starts.append(starts[-1] + self._file.metadata.row_group(index).num_rows)
        names = [self._file.schema.column(leaf).path for leaf in sorted(wanted_leaves(self._root, fields))]
        file = self._with_dictionaries(chosen, names) if self._task.delete_files else self._file
        for run in _runs(chosen):
            first_row = starts[run[0]]
            if names:
                yield from self._run(file, run, first_row, names)
            elif starts[run[-1] + 1] > first_row:
                yield from batches_without_columns(first_row, starts[run[-1] + 1] - first_row)

    def _row_groups(self, row_filter: BooleanExpression) -> list[int]:
        footer = self._file.metadata
        chosen = list(range(footer.num_row_groups))
        # A whole file is read whole, also where the manifest's size is wrong.
        if self._task.start > 0 or self._task.length < self._task.file.file_size_in_bytes:
            chosen = row_groups_between(footer, self._task.start, self._task.start + self._task.length)
        with reading(self._path):
            return row_groups_that_may_match(footer, chosen, row_filter, self._root)

    def _with_dictionaries(self, row_groups: list[int], names: list[str]) -> Any:
        """The file opened so that texts which are stored as dictionaries come as such: rows can be left out before their texts are copied."""
        columns = {self._file.schema.column(leaf).path: leaf for leaf in range(len(self._file.schema))}
        texts = [name for name in names if self._file.schema.column(columns[name]).logical_type.type == "STRING" and "." not in name]
        groups = [self._file.metadata.row_group(index) for index in row_groups]
        chosen = [name for name in texts if all(_is_all_dictionary(group.column(columns[name])) for group in groups)]
        if not chosen:
            return self._file
        with reading(self._path):
            return pq.ParquetFile(self._bytes, metadata=self._file.metadata, coerce_int96_timestamp_unit="us", read_dictionary=chosen)

    def _run(self, file: Any, row_groups: list[int], first_row: int, names: list[str]) -> Iterator[StoredBatch]:
        batches = file.iter_batches(batch_size=BATCH_ROWS, row_groups=row_groups, columns=names)
        schema = None
        while True:
            with reading(self._path):
                batch = next(batches, None)
            if batch is None:
                return
            count = batch.num_rows
            if self._mapped is not None:
                schema = schema or with_ids(batch.schema, self._mapped)
                batch = type(batch).from_arrays(batch.columns, schema=schema)
            if count:
                yield StoredBatch(first_row, batch)
            first_row += count


def _is_all_dictionary(chunk: Any) -> bool:
    """Whether a chunk of texts is all dictionary: one that was begun so and went on with plain texts has at least four bytes, a length, for each."""
    return bool(chunk.has_dictionary_page and chunk.total_uncompressed_size < _PLAIN_LENGTH_BYTES * chunk.num_values)


def _runs(indexes: Sequence[int]) -> Iterator[list[int]]:
    """Ascending numbers in runs without a gap, so that the rows of a run stand side by side."""
    if not indexes:
        return
    run = [indexes[0]]
    for before, index in pairwise(indexes):
        if index != before + 1:
            yield run
            run = []
        run.append(index)
    yield run
