"""`RowChange`: the effect of a deletion of rows on a table's files; and `Removal`, the rows to delete and the requests that find them.

The two ways to delete rows are `copy_on_write_delete.py` and `merge_on_read_delete.py`. Spec: Row-level Deletes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from icefloe.commit.file_changes import DeleteKey, delete_key
from icefloe.datafile.deletes.delete_loader import is_scoped_to
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.spec.expressions.bind import bind
from icefloe.spec.expressions.predicate import BooleanExpression
from icefloe.spec.manifest.data_file import DataFile, FileFormat
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.metadata.table_properties import NAME_MAPPING
from icefloe.spec.partitioning.partition_spec import PartitionSpec
from icefloe.table.engine import PositionsRequest, RewriteRequest
from icefloe.table.rows.write_context import write_target
from icefloe.table.table_handle import TableHandle

# Identifies the state of a data file: its path, its first row id and its deletes. A change of the file is valid as long as this key is the same.
TaskKey = tuple[str, int | None, frozenset[DeleteKey]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChange:
    """The files that a deletion of rows adds and removes.

    `rewritten_files` of the removed files were copied, with `copied_rows` rows together; `deleted_rows` were live before.
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
    """The rows to delete: those of a table for which `row_filter` is true."""

    handle: TableHandle
    row_filter: BooleanExpression
    case_sensitive: bool

    def rewrite_request(self, tasks: Sequence[FileScanTask], base: TableMetadata) -> RewriteRequest:
        """Return the request to copy these files without the rows."""
        schema = base.schema()
        return RewriteRequest(
            tasks=tasks,
            delete_filter=bind(self.row_filter, schema, case_sensitive=self.case_sensitive),
            schema=schema,
            specs=specs_of(base),
            target=write_target(self.handle, base),
            schemas=tuple(base.schemas),
        )

    def positions_request(self, tasks: Sequence[FileScanTask], base: TableMetadata) -> PositionsRequest:
        """Return the request to find the rows in these files."""
        schema = base.schema()
        return PositionsRequest(
            table_name=self.handle.table_name,
            tasks=tasks,
            delete_filter=bind(self.row_filter, schema, case_sensitive=self.case_sensitive),
            schema=schema,
            specs=specs_of(base),
            io=self.handle.io,
            schemas=tuple(base.schemas),
            name_mapping=NAME_MAPPING.read(base.properties),
        )


def specs_of(base: TableMetadata) -> dict[int, PartitionSpec]:
    """Return every partition spec by its id."""
    return {spec.spec_id: spec for spec in base.partition_specs}


def task_key(task: FileScanTask) -> TaskKey:
    """Return the key of a task's file and deletes, see `TaskKey`."""
    return (task.file.file_path, task.file.first_row_id, frozenset(map(delete_key, task.delete_files)))


def deletes_about_alone(task: FileScanTask) -> tuple[DataFile, ...]:
    """Return the task's delete files that refer only to its data file: they are removed from the table with it. Spec: Deletion Vectors."""
    return tuple(file for file in task.delete_files if is_scoped_to(file, task.file.file_path))


def records_left(task: FileScanTask) -> int | None:
    """Return how many rows of the file are not deleted; None if it has deletes other than vectors, which do not record how many rows they delete."""
    if any(file.file_format is not FileFormat.PUFFIN for file in task.delete_files):
        return None
    return task.file.record_count - sum(file.record_count for file in task.delete_files)
