"""`RowChange`: the files that a deletion of rows adds to a table and removes from it; and `Removal`: the search for the rows to delete.

`copy_on_write_delete.py` and `merge_on_read_delete.py` are the two ways to delete rows. Spec: Row-level Deletes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from icefloe.commit.file_changes import DeleteKey, delete_key
from icefloe.datafile.copy_data_file import RewrittenFile, rewrite_task
from icefloe.datafile.deletes.delete_loader import DeleteLoader, is_scoped_to
from icefloe.datafile.deletes.matching_positions import MatchingPositions
from icefloe.datafile.live_rows import LiveRows, live_rows
from icefloe.datafile.write_target import WriteTarget
from icefloe.operations.engine import READ_THREADS, Engine, tasks_of_bytes
from icefloe.operations.rows.write_context import write_target
from icefloe.operations.table_handle import TableHandle
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.spec.expressions.bind import bind
from icefloe.spec.expressions.predicate import BooleanExpression
from icefloe.spec.manifest.data_file import DataFile, FileFormat
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.metadata.table_properties import NAME_MAPPING
from icefloe.spec.partitioning.partition_spec import PartitionSpec

# Identifies the state of a data file: its path, its first row id and its deletes. A copy or delete file for the data file is valid as long as this is the same.
TaskKey = tuple[str, int | None, frozenset[DeleteKey]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChange:
    """The files that a deletion of rows adds and removes.

    `removed` are data files, `removed_deletes` delete files. `rewritten_files` is how many removed data files were copied, `copied_rows` the number of rows in
    the copies, and `deleted_rows` the number of live rows that were deleted.
    """

    added: tuple[DataFile, ...] = ()
    added_deletes: tuple[DataFile, ...] = ()
    removed: tuple[DataFile, ...] = ()
    removed_deletes: tuple[DataFile, ...] = ()
    rewritten_files: int = 0
    deleted_rows: int = 0
    copied_rows: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether no file is added or removed."""
        return not (self.added or self.added_deletes or self.removed or self.removed_deletes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """A deletion of the rows of a table for which `row_filter` is true: its methods find these rows in files, or copy files without them."""

    handle: TableHandle
    row_filter: BooleanExpression
    case_sensitive: bool

    def copies(self, engine: Engine, tasks: Sequence[FileScanTask], base: TableMetadata) -> list[RewrittenFile]:
        """Copy the files of the tasks without the rows to delete, and return a result for each task, in order. Each copy has the partition of its source.

        Raises the errors of `rewrite_task`. After an error all copies are deleted.
        """
        target = write_target(self.handle, base)
        function = partial(rewrite_task, rows_of_files(base, target), self._bound_filter(base))
        return list(engine.map(function, tasks, f"rewrite {self.handle.table_name}", target=target))

    def positions(self, engine: Engine, tasks: Sequence[FileScanTask], base: TableMetadata) -> list[NDArray[np.int64]]:
        """Return an array for each task, in order: the ascending positions of the live rows to delete in its file. Raises the errors of `read_task`."""
        name_mapping = NAME_MAPPING.read(base.properties)
        search = MatchingPositions(
            io=self.handle.io,
            row_filter=self._bound_filter(base),
            schema=base.schema(),
            specs=specs_of(base),
            name_mapping=name_mapping,
            deletes=DeleteLoader(self.handle.io, schemas=tuple(base.schemas), name_mapping=name_mapping),
        )
        size = sum(task.file.file_size_in_bytes for task in tasks)
        description = f"find rows to delete in {self.handle.table_name}"
        vectors = engine.map(search, tasks, description, tasks=tasks_of_bytes(size), threads=READ_THREADS)
        return [vector.positions().astype(np.int64) for vector in vectors]

    def _bound_filter(self, base: TableMetadata) -> BooleanExpression:
        return bind(self.row_filter, base.schema(), case_sensitive=self.case_sensitive)


def rows_of_files(base: TableMetadata, target: WriteTarget) -> LiveRows:
    """Return a reader of the live rows of the table's files, for rows that are copied to new files of the write `target`."""
    return live_rows(target, base.schema(), specs_of(base), tuple(base.schemas))


def specs_of(base: TableMetadata) -> dict[int, PartitionSpec]:
    """Return all partition specs of a table by their ids."""
    return {spec.spec_id: spec for spec in base.partition_specs}


def task_key(task: FileScanTask) -> TaskKey:
    """Return the `TaskKey` of a task: the state of its data file and deletes."""
    return (task.file.file_path, task.file.first_row_id, frozenset(map(delete_key, task.delete_files)))


def deletes_about_alone(task: FileScanTask) -> tuple[DataFile, ...]:
    """Return the delete files of a task that apply only to its data file: they are removed together with the data file. Spec: Deletion Vectors."""
    return tuple(file for file in task.delete_files if is_scoped_to(file, task.file.file_path))


def records_left(task: FileScanTask) -> int | None:
    """Return the number of live rows of a task's file. Return None if it has delete files, because only deletion vectors record how many rows they delete."""
    if any(file.file_format is not FileFormat.PUFFIN for file in task.delete_files):
        return None
    return task.file.record_count - sum(file.record_count for file in task.delete_files)
