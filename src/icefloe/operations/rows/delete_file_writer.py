"""`DeleteFileWriter`: writes the positions of deleted rows to position delete files (format version 2) or deletion vectors (version 3 and later).

`merge_on_read_delete.py` and `upsert.py` find the rows to delete; `datafile/deletes/delete_file_output.py` writes one file.
Spec: Row-level Deletes; Position Delete Files; Deletion Vectors.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from icefloe.datafile.deletes.delete_file_output import RowsToDelete, WrittenDeletes, write_position_deletes, write_vectors
from icefloe.datafile.deletes.delete_loader import DeleteLoader
from icefloe.errors import UnsupportedFeatureError
from icefloe.operations.commit_loop import delete_quietly
from icefloe.operations.rows.row_change import RowChange, deletes_about_alone, records_left, specs_of, task_key
from icefloe.operations.rows.write_context import write_target
from icefloe.operations.table_handle import TableHandle
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.metadata.table_properties import DELETE_GRANULARITY, DELETE_MODE, NAME_MAPPING

Positions = NDArray[np.int64]
# The task of a file, and the ascending positions of the rows to delete.
RowsOfFile = tuple[FileScanTask, Positions]


class DeleteFileWriter:
    """Writes the delete files of one operation, in all attempts of its commit.

    A retry writes them again only if a data file, its deletes, the schema or the format version has changed.
    """

    def __init__(self, handle: TableHandle, mode_property: str = DELETE_MODE.name) -> None:
        """Create a writer. `mode_property` is the `write.*.mode` property that chose merge-on-read, for error messages."""
        self._handle = handle
        self._mode_property = mode_property
        self._written = WrittenDeletes(added=())
        self._written_for: Any = None

    def new_files(self) -> list[str]:
        """Return the distinct locations of the delete files that were written; several deletion vectors can be in one file."""
        return list(dict.fromkeys(file.file_path for file in self._written.added))

    def change(self, rows_to_delete: Sequence[RowsOfFile], base: TableMetadata) -> RowChange:
        """Write delete files for rows that must be live, and return the files to add and remove. A data file without remaining rows is removed.

        Raises:
            UnsupportedFeatureError: a delete file is needed, and the table's format version is 1, which has no delete files.
            NoSuchFileError, PuffinFormatError: the existing deletes of a file cannot be read.
        """
        partly_deleted: list[RowsOfFile] = []
        emptied: list[RowsOfFile] = []
        for task, positions in rows_to_delete:
            if len(positions):
                (emptied if records_left(task) == len(positions) else partly_deleted).append((task, positions))
        self._write(partly_deleted, base)
        return RowChange(
            added_deletes=self._written.added,
            removed=tuple(task.file for task, _ in emptied),
            removed_deletes=(*self._written.superseded, *(file for task, _ in emptied for file in deletes_about_alone(task))),
            deleted_rows=sum(len(positions) for _, positions in (*partly_deleted, *emptied)),
        )

    def discard(self) -> None:
        """Delete the delete files that were written so far."""
        delete_quietly(self._handle, self.new_files())
        self._written, self._written_for = WrittenDeletes(added=()), None

    def _write(self, rows_to_delete: Sequence[RowsOfFile], base: TableMetadata) -> None:
        written_for = (base.format_version, base.current_schema_id, [task_key(task) for task, _ in rows_to_delete])
        if written_for == self._written_for:
            return
        self.discard()
        if rows_to_delete:
            rows = [RowsToDelete(file=task.file, positions=positions, delete_files=task.delete_files) for task, positions in rows_to_delete]
            self._written = self._written_deletes(rows, base)
        self._written_for = written_for

    def _written_deletes(self, rows: Sequence[RowsToDelete], base: TableMetadata) -> WrittenDeletes:
        target = write_target(self._handle, base)
        loader = DeleteLoader(target.io, schemas=tuple(base.schemas), name_mapping=NAME_MAPPING.read(base.properties))
        if base.format_version > 2:
            return write_vectors(target, rows, deletes=loader, partition_id=0, task_id=0)
        if base.format_version == 1:
            raise UnsupportedFeatureError(
                f"{target.table_name} is of format version 1, which has no delete files, and {self._mode_property} is merge-on-read",
                table=target.table_name,
                path=rows[0].file.file_path,
                next_step=f"upgrade it with table.upgrade_table_version(2), or set {self._mode_property} to copy-on-write",
            )
        file_scoped = DELETE_GRANULARITY.read(base.properties) == "file"
        return write_position_deletes(
            target, rows, specs=specs_of(base), partition_id=0, task_id=0, deletes=loader, file_scoped=file_scoped
        )
