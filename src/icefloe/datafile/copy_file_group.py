"""`rewrite_group`: copy-on-write of several data files: write their remaining rows, and new rows of the same partition, to as few files as possible.

`operations/rows/copy_on_write_delete.py` forms the groups; `copy_data_file.py` copies one file without the rows of a filter.
Spec: Row-level Deletes (copy-on-write); Row Lineage; Sorting.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.datafile.copy_data_file import sorted_batches
from icefloe.datafile.data_file_writer import write_partition
from icefloe.datafile.deletes.delete_loader import is_scoped_to
from icefloe.datafile.live_rows import LiveRows
from icefloe.datafile.projection import Projector, columns_by_id
from icefloe.datafile.stored_batch import decode_dictionaries
from icefloe.datafile.stored_file import opened_stored_file
from icefloe.datafile.write_target import WriteTarget, WritingTask
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.spec.arrow_values import mask_array, numpy_of
from icefloe.spec.expressions.predicate import AlwaysTrue
from icefloe.spec.manifest.data_file import DataFile
from icefloe.spec.partitioning.sort_order import UNSORTED_ORDER_ID
from icefloe.spec.schema.arrow_schema import schema_to_arrow
from icefloe.spec.schema.metadata_columns import POS
from icefloe.spec.schema.schema import Schema, schema_with_lineage

# Positions of rows in their file, counted from 0, ascending.
Positions = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class RewriteGroup:
    """The files of one partition, all of one spec, that are rewritten together.

    Attributes:
        sources: Live data files, each with the ascending positions of the rows to delete.
        new_files: Files with new rows, which are not committed yet.
        sorts: Whether the rows may be sorted in memory by the table's sort order.
        keeps_row_ids: Whether rows have row ids, as in format version 3.
    """

    sources: tuple[tuple[FileScanTask, Positions], ...] = ()
    new_files: tuple[DataFile, ...] = ()
    sorts: bool = False
    keeps_row_ids: bool = False


@dataclass(frozen=True, kw_only=True)
class RewrittenGroup:
    """The result of rewriting a group.

    Attributes:
        sources: The data files of the group, which are removed from the table.
        added: The written files.
        replaced: The new files of the group that `added` replaces; they are never committed.
        dangling_deletes: The delete files that apply only to one source, and are removed with it.
    """

    sources: tuple[DataFile, ...] = ()
    added: tuple[DataFile, ...] = ()
    replaced: tuple[DataFile, ...] = ()
    dangling_deletes: tuple[DataFile, ...] = ()
    rewritten_files: int = 0  # sources with remaining rows
    kept_rows: int = 0
    deleted_rows: int = 0


@dataclass(slots=True)
class _RemainingRows:
    """A source, and for each of its live rows whether it remains, as an Arrow boolean array."""

    task: FileScanTask
    mask: Any = field(repr=False)


def rewrite_group(live: LiveRows, group: RewriteGroup, task: WritingTask) -> RewrittenGroup:
    """Write the remaining rows of the sources, in their order, and then the new rows, as files of the group's partition.

    If no source has remaining rows and there is at most one new file, nothing is written, and the new file is used as it is. Rows keep their row ids. Sorted
    files have the id of the table's sort order.

    Args:
        live: The reader of the live rows. Its target has the table, its sort order and the location of new files.
        group: The files to rewrite.
        task: The number and attempt of the writing task, and its stop signal.

    Raises:
        NoSuchFileError, DataFileFormatError, UnsupportedFeatureError: Errors of `read_task`.
        StorageError: Errors of `write_batches`, which leaves no files after a failure.
    """
    reader, target = _Reader(live), live.target
    sources = [_RemainingRows(source, reader.remaining(source, positions)) for source, positions in group.sources]
    remaining = [source for source in sources if source.mask.true_count]
    result = RewrittenGroup(
        sources=tuple(source.file for source, _ in group.sources),
        dangling_deletes=tuple(
            file for source, _ in group.sources for file in source.delete_files if is_scoped_to(file, source.file.file_path)
        ),
        rewritten_files=len(remaining),
        kept_rows=sum(source.mask.true_count for source in remaining),
        deleted_rows=sum(len(source.mask) - source.mask.true_count for source in sources),
    )
    if not remaining and len(group.new_files) < 2:
        return result
    first = remaining[0].task.file if remaining else group.new_files[0]
    copy_schema = schema_with_lineage(live.schema) if group.keeps_row_ids else live.schema
    rows = reader.rows(remaining, group.new_files, copy_schema)
    order_id = _common_order(remaining, group, target)
    if group.sorts and order_id != target.sort_order_id:
        rows, is_sorted = sorted_batches(rows, target.sort_order, copy_schema)
        order_id = target.sort_order_id if is_sorted else UNSORTED_ORDER_ID
    copy_target = replace(target, schema=copy_schema, spec=live.specs[first.spec_id], sort_order_id=order_id)
    added = write_partition(copy_target, rows, first.partition, partition_id=task.partition_id, task_id=task.task_id)
    return replace(result, added=tuple(added), replaced=group.new_files)


def _common_order(remaining: list[_RemainingRows], group: RewriteGroup, target: WriteTarget) -> int | None:
    """Return the id of the sort order that the rows have without sorting: that of a single source, or of unsorted rows if files are concatenated."""
    if len(remaining) == 1 and not group.new_files:
        return remaining[0].task.file.sort_order_id
    return target.sort_order_id if target.sort_order.is_unsorted else UNSORTED_ORDER_ID


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reader of the files of a group."""

    live: LiveRows

    def remaining(self, task: FileScanTask, positions: Positions) -> Any:
        """Return an Arrow boolean for each live row of the file, in its order: False if the row is at one of these positions."""
        batches = [numpy_of(batch.column(0)) for batch in self.live.of(task, Schema(POS))]
        live_positions = np.concatenate(batches) if batches else np.empty(0, np.int64)
        return mask_array(~np.isin(live_positions, positions, assume_unique=True))

    def rows(self, remaining: list[_RemainingRows], new_files: tuple[DataFile, ...], schema: Schema) -> Iterator[pa.RecordBatch]:
        """Yield the remaining rows of the sources, then the rows of the new files."""
        for source in remaining:
            start = 0
            for batch in self.live.of(source.task, schema):
                live_rows = batch.filter(source.mask.slice(start, batch.num_rows))
                start += batch.num_rows
                if live_rows.num_rows:
                    yield live_rows
        for file in new_files:
            yield from self._new_rows(file, schema)

    def _new_rows(self, file: DataFile, schema: Schema) -> Iterator[pa.RecordBatch]:
        """Yield the stored rows of a new file. Rows without a row id get one when they are committed."""
        task = FileScanTask(file=file, residual=AlwaysTrue(), length=file.file_size_in_bytes)
        arrow = schema_to_arrow(schema)
        with opened_stored_file(self.live.target.io, task) as stored:
            projector = Projector(file.file_path, {}, stored.floors_nanoseconds)
            for batch in map(decode_dictionaries, stored.batches(schema.fields, AlwaysTrue())):
                arrays = projector.struct(batch.rows.column, columns_by_id(batch.rows.schema), schema.fields, arrow, batch.rows.num_rows)
                yield pa.RecordBatch.from_arrays(arrays, schema=arrow)
