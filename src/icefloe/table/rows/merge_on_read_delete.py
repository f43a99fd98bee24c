"""`MergeOnReadDelete`: rows removed by writing down where they are, found by a filter.

How they are found is `datafile/deletes/matching_positions.py`, how they are written down `delete_file_writer.py`; copy-on-write is `copy_on_write_delete.py`.
Spec: Row-level Deletes; Position Delete Files; Deletion Vectors.
"""

from collections.abc import Sequence

from icefloe.kernel.metadata.table_metadata import TableMetadata
from icefloe.kernel.scan.file_scan_task import FileScanTask
from icefloe.table.find_engine import engine_for_files
from icefloe.table.rows.delete_file_writer import DeleteFileWriter, Positions
from icefloe.table.rows.row_change import Removal, RowChange, TaskKey, task_key


class MergeOnReadDelete:
    """The positions and delete files of one operation over all attempts of its commit.

    After a lost race the files whose deletes are others now are looked through again, and their deletes, with those that the winner added, written anew.
    """

    def __init__(self, removal: Removal) -> None:
        self._removal = removal
        self._marks = DeleteFileWriter(removal.handle)
        self._found: dict[TaskKey, Positions] = {}
        self._found_under: int | None = None  # the schema id that the rows were found with
        self.engine_name: str | None = None

    def new_files(self) -> list[str]:
        """Locations of the delete files that are there; vectors share theirs."""
        return self._marks.new_files()

    def change(self, tasks: Sequence[FileScanTask], base: TableMetadata) -> RowChange:
        """Finds the rows, and writes the delete files that are missing. A file of which no row is left goes whole.

        Raises:
            UnsupportedFeatureError: rows of a file are to be marked, and the table's format version is 1.
            NoSuchFileError, DataFileFormatError, PuffinFormatError: a file, or its deletes, cannot be read.
        """
        return self._marks.change(list(zip(tasks, self._positions(tasks, base), strict=True)), base)

    def discard(self) -> None:
        """Deletes the delete files written so far."""
        self._marks.discard()

    def _positions(self, tasks: Sequence[FileScanTask], base: TableMetadata) -> list[Positions]:
        # Under another schema the filter may mean other columns.
        if self._found_under != base.current_schema_id:
            self._found = {}
        self._found_under = base.current_schema_id
        missing = [task for task in tasks if task_key(task) not in self._found]
        if missing:
            engine = engine_for_files(missing)
            self.engine_name = engine.name
            found = engine.positions(self._removal.positions_request(missing, base))
            self._found.update((task_key(task), positions) for task, positions in zip(missing, found, strict=True))
        return [self._found[task_key(task)] for task in tasks]
