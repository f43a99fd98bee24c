"""`rewrite_group`: copy-on-write of several data files at once: their remaining rows, and new rows of the same partition, become as few files as they fit into.

Which files make a group is the decision of `table/rows/copy_on_write_delete.py`; one file without a filter's rows is `rewrite.py`.
Spec: Row-level Deletes (copy-on-write); Row Lineage; Sorting.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.datafile.data_file_reader import read_task
from icefloe.datafile.data_file_writer import write_partition
from icefloe.datafile.deletes.delete_loader import DeleteLoader, is_scoped_to
from icefloe.datafile.projection import Projector, columns_by_id
from icefloe.datafile.sorting import sorted_batches
from icefloe.datafile.stored_batch import with_texts
from icefloe.datafile.stored_file import reader_of
from icefloe.datafile.write_target import WriteTarget
from icefloe.kernel.arrow_values import mask_array, numpy_of
from icefloe.kernel.expressions.predicate import AlwaysTrue
from icefloe.kernel.manifest.data_file import DataFile
from icefloe.kernel.metadata.table_properties import NAME_MAPPING
from icefloe.kernel.partitioning.partition_spec import PartitionSpec
from icefloe.kernel.partitioning.sort_order import UNSORTED_ORDER_ID
from icefloe.kernel.scan.file_scan_task import FileScanTask
from icefloe.kernel.schema.arrow_schema import schema_to_arrow
from icefloe.kernel.schema.metadata_columns import POS, with_lineage
from icefloe.kernel.schema.schema import Schema

# Where rows lie in their file, counted from 0, ascending.
Positions = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class RewriteGroup:
    """Files of one partition and spec.

    `sources` are live data files, each with the positions, ascending, of the rows that go; `new_files` are files of new rows that no commit names. `sorts` says
    that the rows may be gathered in memory, to be brought into the table's sort order; `keeps_row_ids` that rows have row ids, as from format version 3 on.
    """

    sources: tuple[tuple[FileScanTask, Positions], ...] = ()
    new_files: tuple[DataFile, ...] = ()
    sorts: bool = False
    keeps_row_ids: bool = False


@dataclass(frozen=True, kw_only=True)
class RewrittenGroup:
    """What became of a group: the files `added`, and the new files that they replace. The sources leave the table together with `dangling_deletes`."""

    sources: tuple[DataFile, ...] = ()
    added: tuple[DataFile, ...] = ()
    replaced: tuple[DataFile, ...] = ()
    dangling_deletes: tuple[DataFile, ...] = ()
    rewritten_files: int = 0  # sources of which rows remain
    kept_rows: int = 0
    deleted_rows: int = 0


@dataclass(slots=True)
class _Kept:
    """The rows of one source that remain, as a truth value for each row that was live."""

    task: FileScanTask
    mask: Any = field(repr=False)


def rewrite_group(
    target: WriteTarget,
    group: RewriteGroup,
    *,
    schema: Schema,
    specs: Mapping[int, PartitionSpec],
    partition_id: int,
    task_id: int,
    deletes: DeleteLoader | None = None,
) -> RewrittenGroup:
    """Write the remaining rows of the sources, in their order, and then the new rows, as files of the group's partition.

    A new file alone stays as it is. Rows keep their row ids. The files carry the id of the table's sort order where their rows are in it.

    Args:
        target: where the files go; its sort order is the table's.
        schema: the table's.
        partition_id, task_id: part of the names of the new files, as in `write_batches`.

    Raises:
        NoSuchFileError, DataFileFormatError, UnsupportedFeatureError: as `read_task`.
        StorageError: as `write_batches`, which leaves no files behind on any failure.
    """
    loader = deletes or DeleteLoader(target.io, schemas=(schema, *target.older_schemas), name_mapping=NAME_MAPPING.read(target.properties))
    reader = _Reader(target, schema, specs, loader)
    found = [_Kept(task, reader.remaining(task, positions)) for task, positions in group.sources]
    left = [one for one in found if one.mask.true_count]
    done = RewrittenGroup(
        sources=tuple(task.file for task, _ in group.sources),
        dangling_deletes=tuple(file for task, _ in group.sources for file in task.delete_files if is_scoped_to(file, task.file.file_path)),
        rewritten_files=len(left),
        kept_rows=sum(one.mask.true_count for one in left),
        deleted_rows=sum(len(one.mask) - one.mask.true_count for one in found),
    )
    if not left and len(group.new_files) < 2:
        return done
    first = left[0].task.file if left else group.new_files[0]
    form = Schema(*with_lineage(schema.fields), schema_id=schema.schema_id) if group.keeps_row_ids else schema
    rows = reader.rows(left, group.new_files, form)
    order_id = _common_order(left, group, target)
    if group.sorts and order_id != target.sort_order_id:
        rows, is_sorted = sorted_batches(rows, target.sort_order, form)
        order_id = target.sort_order_id if is_sorted else UNSORTED_ORDER_ID
    own = replace(target, schema=form, spec=specs[first.spec_id], sort_order_id=order_id)
    added = write_partition(own, rows, first.partition, partition_id=partition_id, task_id=task_id)
    return replace(done, added=tuple(added), replaced=group.new_files)


def _common_order(left: list[_Kept], group: RewriteGroup, target: WriteTarget) -> int | None:
    """Return the sort order that the rows are in when they are written one source after another."""
    if len(left) == 1 and not group.new_files:
        return left[0].task.file.sort_order_id
    return target.sort_order_id if target.sort_order.is_unsorted else UNSORTED_ORDER_ID


@dataclass(frozen=True, slots=True)
class _Reader:
    target: WriteTarget
    schema: Schema
    specs: Mapping[int, PartitionSpec]
    deletes: DeleteLoader

    def remaining(self, task: FileScanTask, positions: Positions) -> Any:
        """Return one truth value for each live row of the file, in its order, as an Arrow array of bits: whether it is at none of these positions."""
        found = [numpy_of(batch.column(0)) for batch in self._read(task, Schema(POS))]
        there = np.concatenate(found) if found else np.empty(0, np.int64)
        return mask_array(~np.isin(there, positions, assume_unique=True))

    def rows(self, left: list[_Kept], new_files: tuple[DataFile, ...], form: Schema) -> Iterator[pa.RecordBatch]:
        for one in left:
            start = 0
            for batch in self._read(one.task, form):
                kept = batch.filter(one.mask.slice(start, batch.num_rows))
                start += batch.num_rows
                if kept.num_rows:
                    yield kept
        for file in new_files:
            yield from self._new_rows(file, form)

    def _read(self, task: FileScanTask, projection: Schema) -> Iterator[pa.RecordBatch]:
        return read_task(
            self.target.io,
            task,
            schema=self.schema,
            projection=projection,
            specs=self.specs,
            row_filter=AlwaysTrue(),
            name_mapping=NAME_MAPPING.read(self.target.properties),
            deletes=self.deletes,
        )

    def _new_rows(self, file: DataFile, form: Schema) -> Iterator[pa.RecordBatch]:
        """The rows as they stand in the file: a row without an id gets one when it is committed."""
        task = FileScanTask(file=file, residual=AlwaysTrue(), spec_id=file.spec_id, length=file.file_size_in_bytes)
        arrow = schema_to_arrow(form)
        with self.target.io.open_input(file.file_path) as source:
            stored = reader_of(task)(source, task, None)
            projector = Projector(file.file_path, {}, stored.floors_nanoseconds)
            for found in map(with_texts, stored.batches(form.fields, AlwaysTrue())):
                arrays = projector.struct(found.rows.column, columns_by_id(found.rows.schema), form.fields, arrow, found.rows.num_rows)
                yield pa.RecordBatch.from_arrays(arrays, schema=arrow)
