"""`rewrite_task`: copy-on-write of one data file: a copy without the rows that match a filter, and without rows that are already deleted.

Rows with a row id keep it in the copy. `operations/rows/copy_on_write_delete.py` decides which files are rewritten; `copy_file_group.py` copies several files
into fewer files.
Spec: Row-level Deletes (copy-on-write); Row Lineage.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icefloe.datafile.data_file_writer import write_partition
from icefloe.datafile.deletes.delete_loader import is_scoped_to
from icefloe.datafile.file_metrics import leaves_of
from icefloe.datafile.live_rows import LiveRows
from icefloe.datafile.write_target import WritingTask
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.spec.expressions.bind import filter_field_ids
from icefloe.spec.expressions.predicate import BooleanExpression
from icefloe.spec.expressions.row_evaluator import arrow_mask
from icefloe.spec.manifest.data_file import DataFile
from icefloe.spec.partitioning.sort_order import SortOrder, sorted_rows
from icefloe.spec.schema.schema import Schema, schema_with_lineage

# Copies of files are sorted in memory if their rows take at most this many bytes; and the assumed bytes of a value.
SORTED_BYTES, _VALUE_BYTES = 256 * 1024 * 1024, 24


@dataclass(frozen=True, kw_only=True)
class RewrittenFile:
    """The result of copying one data file without some of its rows.

    Rows that were deleted before are not counted.

    Attributes:
        source: The data file. It stays in the table if `is_unchanged`, otherwise it is removed.
        added: The copy; empty if every row was deleted, or if none was.
        kept_rows: The number of live rows that remain.
        deleted_rows: The number of live rows that match the filter.
        dangling_deletes: The delete files that apply only to the source, and are removed with it.
    """

    source: DataFile
    added: tuple[DataFile, ...]
    kept_rows: int
    deleted_rows: int
    dangling_deletes: tuple[DataFile, ...] = ()

    @property
    def is_unchanged(self) -> bool:
        """Return True if the filter matched no row, so that the source file stays."""
        return self.deleted_rows == 0


def rewrite_task(reader: LiveRows, delete_filter: BooleanExpression, source: FileScanTask, task: WritingTask) -> RewrittenFile:
    """Copy the file of a scan task within its partition and spec, without the rows for which `delete_filter` is TRUE.

    The columns of the filter are read first. If they show that the filter matches all rows or no row, nothing is written. If the source has a first row id, the
    copy has the two columns of row lineage, so that row ids and last-updated sequence numbers are kept. If the source is not sorted by the table's sort order,
    the copy is sorted if its rows fit in memory. The copy's `sort_order_id` is the order of its rows.

    Args:
        reader: The reader of the live rows. Its target has the table and the location of new files.
        delete_filter: A filter bound to the table's schema.
        source: The data file, with its delete files.
        task: The number and attempt of the writing task, and its stop signal.

    Raises:
        NoSuchFileError, DataFileFormatError, UnsupportedFeatureError: Errors of `read_task`.
        StorageError: Errors of `write_batches`, which leaves no files after a failure.
    """
    target = reader.target
    keep = _rows_to_keep(reader, source, delete_filter)
    kept = keep.true_count
    deleted = len(keep) - kept
    dangling = tuple(file for file in source.delete_files if deleted and is_scoped_to(file, source.file.file_path))
    result = RewrittenFile(source=source.file, added=(), kept_rows=kept, deleted_rows=deleted, dangling_deletes=dangling)
    if not deleted or not kept:
        return result
    # Spec: Row Lineage. Without a first row id, rows have no ids to keep.
    copy_schema = reader.schema if source.file.first_row_id is None else schema_with_lineage(reader.schema)
    kept_rows, order_id = _filter_batches(reader.of(source, copy_schema), keep), source.file.sort_order_id
    if order_id != target.sort_order_id and not target.sort_order.is_unsorted and kept * row_bytes(copy_schema) <= SORTED_BYTES:
        # An older file may not be sorted by the table's current sort order.
        kept_rows, is_sorted = sorted_batches(kept_rows, target.sort_order, copy_schema)
        order_id = target.sort_order_id if is_sorted else order_id
    copy_target = replace(target, schema=copy_schema, spec=reader.specs[source.spec_id], sort_order_id=order_id)
    added = write_partition(copy_target, kept_rows, source.file.partition, partition_id=task.partition_id, task_id=task.task_id)
    return replace(result, added=tuple(added))


def _rows_to_keep(reader: LiveRows, task: FileScanTask, delete_filter: BooleanExpression) -> Any:
    """Return an Arrow boolean for each live row of the file, in its order: True if the row is not deleted, which means that the filter is not TRUE for it."""
    names = [reader.schema.path_of(field_id) for field_id in sorted(filter_field_ids(delete_filter))]
    columns = Schema(*(field for field in reader.schema.fields if any(path and path[0] == field.name for path in names)))
    batches = reader.of(task, columns)
    masks = [arrow_mask(delete_filter, batch) for batch in batches]
    return pc.invert(pa.concat_arrays(masks)) if masks else pa.array([], pa.bool_())


def _filter_batches(batches: Iterator[pa.RecordBatch], keep: Any) -> Iterator[pa.RecordBatch]:
    start = 0
    for batch in batches:
        live_rows = batch.filter(keep.slice(start, batch.num_rows))
        start += batch.num_rows
        if live_rows.num_rows:
            yield live_rows


def row_bytes(schema: Schema) -> int:
    """Return an estimate of the memory of one row, in bytes."""
    return _VALUE_BYTES * max(1, len(leaves_of(schema)))


def sorted_batches(batches: Iterable[Any], order: SortOrder, schema: Schema) -> tuple[Iterator[Any], bool]:
    """Sort record batches in memory by a sort order of the table.

    Returns:
        The sorted batches, and True; or the unchanged batches, and False, if the order has no fields or `sorted_rows` cannot sort by it.
    """
    table = pa.Table.from_batches(list(batches))
    sorted_table = sorted_rows(table, order, schema)
    return iter((table if sorted_table is None else sorted_table).to_batches()), sorted_table is not None
