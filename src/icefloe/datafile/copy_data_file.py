"""Copy-on-write: one data file copied without the rows that a filter tells, and without those that delete files have deleted before.

Rows that have a row id keep it in the copy. Which files are rewritten is the table's decision; reading is `read.py`, writing is `write.py`, and several files
that become fewer are `copy_file_group.py`.
Spec: Row-level Deletes (copy-on-write); Row Lineage.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icefloe.datafile.data_file_reader import read_task
from icefloe.datafile.data_file_writer import write_partition
from icefloe.datafile.deletes.delete_loader import DeleteLoader, is_scoped_to
from icefloe.datafile.projected_fields import filter_field_ids
from icefloe.datafile.sorting import SORTED_BYTES, row_bytes, sorted_batches
from icefloe.datafile.write_target import WriteTarget
from icefloe.kernel.expressions.predicate import AlwaysTrue, BooleanExpression
from icefloe.kernel.expressions.row_evaluator import arrow_mask
from icefloe.kernel.manifest.data_file import DataFile
from icefloe.kernel.metadata.table_properties import NAME_MAPPING
from icefloe.kernel.partitioning.partition_spec import PartitionSpec
from icefloe.kernel.scan.file_scan_task import FileScanTask
from icefloe.kernel.schema.metadata_columns import with_lineage
from icefloe.kernel.schema.schema import Schema


@dataclass(frozen=True, kw_only=True)
class RewrittenFile:
    """What became of one data file.

    `added` is empty where no row was kept, and also where no row was deleted: then the source stays in the table (`unchanged`). Rows that were deleted before
    count neither as kept nor as deleted. `dangling_deletes` are the delete files about the source alone: they leave the table together with it.
    """

    source: DataFile
    added: tuple[DataFile, ...]
    kept_rows: int
    deleted_rows: int
    dangling_deletes: tuple[DataFile, ...] = ()

    @property
    def unchanged(self) -> bool:
        """Whether the filter deleted nothing, so that the source file stays."""
        return self.deleted_rows == 0


def rewrite_task(
    target: WriteTarget,
    task: FileScanTask,
    delete_filter: BooleanExpression,
    *,
    schema: Schema,
    specs: Mapping[int, PartitionSpec],
    partition_id: int,
    task_id: int,
    deletes: DeleteLoader | None = None,
) -> RewrittenFile:
    """Copies the task's file, in its own partition and spec, without the rows for which `delete_filter` is TRUE.

    Only the filter's columns are read first. Where that shows that no row goes, or that none stays, nothing is written. `delete_filter` is bound to `schema`,
    the table's; `partition_id` and `task_id` name the new files, as in `write_batches`. Where the source has a first row id, the copy also has the two columns
    of row lineage: a row that moves stays the same row, last updated when it was before. The copy is brought into the table's sort order where the source is
    not in it and the rows can be sorted in memory, and carries the id of the order that its rows are in.

    Raises:
        NoSuchFileError, DataFileFormatError, UnsupportedFeatureError: as `read_task`.
        StorageError: as `write_batches`, which leaves no files behind on any failure.
    """
    loader = deletes or DeleteLoader(target.io, schemas=(schema, *target.older_schemas), name_mapping=NAME_MAPPING.read(target.properties))
    keep = _kept_rows(target, task, delete_filter, schema, specs, loader)
    kept = keep.true_count
    deleted = len(keep) - kept
    dangling = tuple(file for file in task.delete_files if deleted and is_scoped_to(file, task.file.file_path))
    done = RewrittenFile(source=task.file, added=(), kept_rows=kept, deleted_rows=deleted, dangling_deletes=dangling)
    if not deleted or not kept:
        return done
    # Spec: Row Lineage. Where there is no first row id, rows have no ids to keep.
    form = schema if task.file.first_row_id is None else Schema(*with_lineage(schema.fields), schema_id=schema.schema_id)
    rows = read_task(
        target.io,
        task,
        schema=schema,
        projection=form,
        specs=specs,
        row_filter=AlwaysTrue(),
        name_mapping=NAME_MAPPING.read(target.properties),
        deletes=loader,
    )
    left, order_id = _those(rows, keep), task.file.sort_order_id
    if order_id != target.sort_order_id and not target.sort_order.is_unsorted and kept * row_bytes(form) <= SORTED_BYTES:
        # Rows of an older file may not be in the order that the table has now.
        left, is_sorted = sorted_batches(left, target.sort_order, form)
        order_id = target.sort_order_id if is_sorted else order_id
    own = replace(target, schema=form, spec=specs[task.spec_id], sort_order_id=order_id)
    added = write_partition(own, left, task.file.partition, partition_id=partition_id, task_id=task_id)
    return replace(done, added=tuple(added))


def _kept_rows(
    target: WriteTarget,
    task: FileScanTask,
    delete_filter: BooleanExpression,
    schema: Schema,
    specs: Mapping[int, PartitionSpec],
    deletes: DeleteLoader,
) -> Any:
    """One truth value per row of the file that is not deleted yet, in its order, as an Arrow array: a bit a row."""
    names = [schema.path_of(field_id) for field_id in sorted(filter_field_ids(delete_filter))]
    columns = Schema(*(field for field in schema.fields if any(path and path[0] == field.name for path in names)))
    batches = read_task(
        target.io,
        task,
        schema=schema,
        projection=columns,
        specs=specs,
        row_filter=AlwaysTrue(),
        name_mapping=NAME_MAPPING.read(target.properties),
        deletes=deletes,
    )
    masks = [arrow_mask(delete_filter, batch) for batch in batches]
    return pc.invert(pa.concat_arrays(masks)) if masks else pa.array([], pa.bool_())


def _those(batches: Iterator[pa.RecordBatch], keep: Any) -> Iterator[pa.RecordBatch]:
    start = 0
    for batch in batches:
        kept = batch.filter(keep.slice(start, batch.num_rows))
        start += batch.num_rows
        if kept.num_rows:
            yield kept
