"""The live data files of a snapshot with their delete files, and the rows of a file that are live in one snapshot and not in another.

Spec: Scan Planning; Row-level Deletes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.datafile.data_file_reader import read_task
from icefloe.datafile.deletes.delete_loader import DeleteLoader
from icefloe.operations.loaded_table import TableReader
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.scan.scan_plan import PlannedFiles, ScanPlan
from icefloe.spec.arrow_values import mask_array, numpy_of
from icefloe.spec.metadata.table_properties import NAME_MAPPING
from icefloe.spec.schema.arrow_schema import schema_to_arrow
from icefloe.spec.schema.metadata_columns import POS
from icefloe.spec.schema.schema import Schema

# The task of a file, and the task of the same file in the other snapshot, whose live rows are left out; None if all live rows are read.
FilePair = tuple[FileScanTask, FileScanTask | None]


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A live data file of a snapshot, compared with the same file in another snapshot to find changed rows.

    Attributes:
        part: The planned files that contain it.
        row: Its row number in `part`.
        deletes: The path of each delete file that applies to it, with the offset of the deletion vector in that file, or None.
        added_by: The id of the snapshot that added it.
    """

    part: PlannedFiles
    row: int
    deletes: tuple[tuple[str, int | None], ...]
    added_by: int | None

    def task(self) -> FileScanTask:
        """Return the scan task of the file."""
        return next(self.part.take(np.array([self.row])).tasks())


def live_files(plan: ScanPlan) -> Iterator[tuple[str, LiveFile]]:
    """Yield pairs of the path of a planned data file and the file as a `LiveFile`."""
    for part in plan.parts:
        paths, added_by = part.entries["file_path"].to_pylist(), part.entries["snapshot_id"].to_pylist()
        names = [(file.file_path, file.content_offset) for file in part.delete_files]
        for row, path in enumerate(paths):
            yield path, LiveFile(part, row, _delete_names(part, row, names), added_by[row])


def _delete_names(part: PlannedFiles, row: int, names: Sequence[tuple[str, int | None]]) -> tuple[tuple[str, int | None], ...]:
    if part.delete_offsets is None or part.delete_indices is None:
        return ()
    indices = part.delete_indices[part.delete_offsets[row] : part.delete_offsets[row + 1]]
    return tuple(sorted((names[index] for index in indices.tolist()), key=str))


class FileRows:
    """A reader of the live rows of a table's files, one file at a time."""

    def __init__(self, table: TableReader, schema: Schema, projection: Schema) -> None:
        """Create a reader.

        Args:
            table: The table.
            schema: The schema that the files are read with.
            projection: The columns to return.
        """
        self._table = table
        self._schema = schema
        self._projection = projection
        self._deletes = DeleteLoader(table.io, schemas=table.metadata.schemas)

    def rows(self, task: FileScanTask, other: FileScanTask | None) -> Any:
        """Return the live rows of a file, without those that are also live in `other`, a task of the same file in another snapshot.

        Raises:
            NoSuchFileError: The file, or a delete file, does not exist.
            FormatError: A file is damaged, or violates the format.
        """
        if other is None:
            return self._read(task, self._projection)
        with_positions = self._projection if POS.field_id in self._projection else Schema(*self._projection.fields, POS)
        rows = self._read(task, with_positions)
        remaining: NDArray[np.bool_] = ~np.isin(numpy_of(rows[POS.name]), numpy_of(self._read(other, Schema(POS))[POS.name]))
        return rows.select(self._projection.names).filter(mask_array(remaining))

    def _read(self, task: FileScanTask, projection: Schema) -> Any:
        metadata = self._table.metadata
        batches = read_task(
            self._table.io,
            task,
            schema=self._schema,
            projection=projection,
            specs={spec.spec_id: spec for spec in metadata.partition_specs},
            name_mapping=NAME_MAPPING.read(metadata.properties),
            deletes=self._deletes,
        )
        return pa.Table.from_batches(batches, schema_to_arrow(projection))
