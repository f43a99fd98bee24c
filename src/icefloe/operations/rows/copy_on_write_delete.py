"""`CopyOnWriteDelete`: deletes rows by copying the files that contain them. The copies have neither these rows nor rows that were deleted before.

`datafile/copy_data_file.py` and `datafile/copy_file_group.py` copy files; `copy_on_write_groups.py` selects files that are merged into one;
`merge_on_read_delete.py` is the merge-on-read counterpart. Spec: Row-level Deletes; Row Lineage.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from icefloe.datafile.copy_data_file import RewrittenFile
from icefloe.datafile.copy_file_group import RewrittenGroup, rewrite_group
from icefloe.datafile.write_target import WriteTarget
from icefloe.operations.available_engines import engine_choice
from icefloe.operations.commit_loop import delete_quietly
from icefloe.operations.engine import Engine
from icefloe.operations.rows.copy_on_write_groups import groups_of
from icefloe.operations.rows.row_change import Removal, RowChange, TaskKey, deletes_about_alone, rows_of_files, task_key
from icefloe.operations.table_handle import TableHandle
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.spec.manifest.data_file import DataFile
from icefloe.spec.metadata.table_metadata import TableMetadata


class CopyOnWriteDelete:
    """Makes the copies of files for one deletion of rows, in all attempts of its commit. A retry uses an earlier copy if its source did not change."""

    def __init__(self, removal: Removal) -> None:
        self._removal = removal
        self._copies: dict[TaskKey, RewrittenFile] = {}
        self._copied_under: int | None = None  # the schema id that the copies were made with
        self.engine_name: str | None = None

    def new_files(self) -> list[str]:
        """Return the locations of all copies that were made and not deleted."""
        return [file.file_path for copy in self._copies.values() for file in copy.added]

    def change(self, tasks: Sequence[FileScanTask], base: TableMetadata) -> RowChange:
        """Copy the files of the tasks that have no copy yet, and return the files that the deletion adds and removes. Raises the errors of `rewrite_task`."""
        self._keep({task_key(task) for task in tasks} if self._copied_under == base.current_schema_id else set())
        self._copied_under = base.current_schema_id
        missing = [task for task in tasks if task_key(task) not in self._copies]
        if missing:
            engine = engine_choice().for_files(missing)
            self.engine_name = engine.name
            copies = self._removal.copies(engine, missing, base)
            self._copies.update((task_key(task), copy) for task, copy in zip(missing, copies, strict=True))
        touched = [copy for copy in self._copies.values() if not copy.is_unchanged]
        return RowChange(
            added=tuple(file for copy in touched for file in copy.added),
            removed=tuple(copy.source for copy in touched),
            removed_deletes=tuple(file for copy in touched for file in copy.dangling_deletes),
            rewritten_files=len(touched),
            deleted_rows=sum(copy.deleted_rows for copy in touched),
        )

    def discard(self) -> None:
        """Delete every copy."""
        self._keep(set())

    def _keep(self, keys: set[TaskKey]) -> None:
        """Keep the copies of the files with these keys, and delete the other copies.

        After a change of the schema the caller passes no keys, because the filter may refer to other columns.
        """
        stale = [self._copies.pop(key) for key in list(self._copies) if key not in keys]
        delete_quietly(self._removal.handle, [file.file_path for copy in stale for file in copy.added])


def copies_without(
    handle: TableHandle,
    engine: Engine,
    base: TableMetadata,
    rows_to_delete: Sequence[tuple[FileScanTask, Any]],
    new_files: Sequence[DataFile],
    target: WriteTarget,
) -> tuple[RowChange, list[DataFile]]:
    """Copy files without some rows, and write new rows of the same partitions into the copies, so that the number of files does not grow.

    Args:
        handle: the table.
        engine: the engine that copies the files.
        base: the table metadata that the operation was planned on.
        rows_to_delete: a pair for each file: its task, and the ascending positions of the rows to delete.
        new_files: files with new rows, which are not committed yet. A new file whose rows are written into a copy is deleted.
        target: the target of the write that created the new files.

    Returns:
        The files to add and remove, and the new files that were not deleted, which must be added too.

    Raises:
        NoSuchFileError, DataFileFormatError, StorageError: see `rewrite_group`. After an error no new file has been deleted.
    """
    if not rows_to_delete:
        return RowChange(), list(new_files)
    target = replace(target, operation_uuid=handle.ids.uuid())  # so that the copies do not get names that the operation has used already
    groups = groups_of(rows_to_delete, new_files, target, keeps_row_ids=base.format_version > 2)
    copied = {task.file.file_path for group in groups for task, _ in group.sources}
    emptied = [task for task, _ in rows_to_delete if task.file.file_path not in copied]
    function = partial(rewrite_group, rows_of_files(base, target))
    rewritten: list[RewrittenGroup] = list(engine.map(function, groups, f"rewrite {handle.table_name}", target=target))
    replaced = {file.file_path for group in rewritten for file in group.replaced}
    delete_quietly(handle, replaced)
    change = RowChange(
        added=tuple(file for group in rewritten for file in group.added),
        removed=(*(file for group in rewritten for file in group.sources), *(task.file for task in emptied)),
        removed_deletes=(
            *(file for group in rewritten for file in group.dangling_deletes),
            *(file for task in emptied for file in deletes_about_alone(task)),
        ),
        rewritten_files=sum(group.rewritten_files for group in rewritten),
        deleted_rows=sum(len(positions) for _, positions in rows_to_delete),
        copied_rows=sum(group.kept_rows for group in rewritten),
    )
    return change, [file for file in new_files if file.file_path not in replaced]
