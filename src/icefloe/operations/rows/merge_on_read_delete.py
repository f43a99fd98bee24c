"""`MergeOnReadDelete`: deletes the rows that match a filter by writing their positions to delete files.

`datafile/deletes/matching_positions.py` finds the rows, `delete_file_writer.py` writes the delete files; `copy_on_write_delete.py` is the copy-on-write
counterpart. Spec: Row-level Deletes; Position Delete Files; Deletion Vectors.
"""

from collections.abc import Sequence

from icefloe.operations.available_engines import engine_choice
from icefloe.operations.rows.delete_file_writer import DeleteFileWriter, Positions
from icefloe.operations.rows.row_change import Removal, RowChange, TaskKey, task_key
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.spec.metadata.table_metadata import TableMetadata


class MergeOnReadDelete:
    """Finds the rows to delete and writes their delete files, for one operation in all attempts of its commit.

    A retry searches only files that are new or whose deletes have changed. Delete files that are written again include deletes that other writers added.
    """

    def __init__(self, removal: Removal) -> None:
        self._removal = removal
        self._delete_files = DeleteFileWriter(removal.handle)
        self._found: dict[TaskKey, Positions] = {}
        self._found_under: int | None = None  # the id of the schema with which the rows were found
        self.engine_name: str | None = None

    def new_files(self) -> list[str]:
        """Return the distinct locations of the delete files that were written; several deletion vectors can be in one file."""
        return self._delete_files.new_files()

    def change(self, tasks: Sequence[FileScanTask], base: TableMetadata) -> RowChange:
        """Find the rows to delete in the files of the tasks, write delete files, and return the files to add and remove.

        A data file without remaining rows is removed.

        Raises:
            UnsupportedFeatureError: a delete file is needed, and the table's format version is 1, which has no delete files.
            NoSuchFileError, DataFileFormatError, PuffinFormatError: a file, or its deletes, cannot be read.
        """
        return self._delete_files.change(list(zip(tasks, self._positions(tasks, base), strict=True)), base)

    def discard(self) -> None:
        """Delete the delete files that were written so far."""
        self._delete_files.discard()

    def _positions(self, tasks: Sequence[FileScanTask], base: TableMetadata) -> list[Positions]:
        # After a change of the schema, names in the filter may refer to other columns.
        if self._found_under != base.current_schema_id:
            self._found = {}
        self._found_under = base.current_schema_id
        missing = [task for task in tasks if task_key(task) not in self._found]
        if missing:
            engine = engine_choice().for_files(missing)
            self.engine_name = engine.name
            positions_of_tasks = self._removal.positions(engine, missing, base)
            self._found.update((task_key(task), positions) for task, positions in zip(missing, positions_of_tasks, strict=True))
        return [self._found[task_key(task)] for task in tasks]
