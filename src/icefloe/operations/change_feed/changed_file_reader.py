"""`ChangedFileReader`: the rows of a data file that were inserted or deleted between two snapshots, read in this process or in a task of a cluster.

If both snapshots have the file, the positions of the changed rows are computed first, from the deletes and the columns that equality deletes compare. Only the
row groups with changed rows are read then. `icefloe.scan.change_planner` plans the files. Spec: Row-level Deletes; Row Lineage.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyroaring import BitMap64, FrozenBitMap64

from icefloe.datafile.data_file_reader import read_task
from icefloe.datafile.deletes.delete_loader import DeleteLoader, FileDeletes
from icefloe.datafile.deletes.equality_key_set import EqualityKeySet
from icefloe.scan.change_planner import ChangedFile
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.spec.arrow_values import numpy_of
from icefloe.spec.expressions.predicate import AlwaysTrue
from icefloe.spec.manifest.data_file import FileContent
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.metadata.table_properties import NAME_MAPPING
from icefloe.spec.partitioning.partition_spec import PartitionSpec
from icefloe.spec.ports import FileIO
from icefloe.spec.puffin.deletion_vector import DeletionVector
from icefloe.spec.schema.metadata_columns import DELETED, POS
from icefloe.spec.schema.name_mapping import NameMapping
from icefloe.spec.schema.schema import Schema

DELETE, INSERT = "DELETE", "INSERT"
NO_POSITIONS: FrozenBitMap64 = FrozenBitMap64()


@dataclass(frozen=True, slots=True)
class AllBut:
    """Skipped rows of a file: all but those at some positions."""

    positions: DeletionVector

    def deleted_rows(self, first: int, count: int) -> NDArray[np.bool_]:
        """Return a mask of the skipped rows among the `count` rows from position `first` on."""
        return ~self.positions.deleted_rows(first, count)

    def deletes_all(self, first: int, count: int) -> bool:
        """Return whether all of the `count` rows from position `first` on are skipped."""
        return not self.positions.bitmap.range_cardinality(first, first + count)


@dataclass(frozen=True, kw_only=True)
class ChangedFileReader:
    """A reader of changed rows. Threads may share it; a pickled copy has an empty cache of deletes.

    Attributes:
        io: Storage of the files.
        schema: The schema that rows are read with.
        projection: The columns to return; metadata columns may be among them, except `_deleted`.
        specs: The table's partition specs, by id.
        name_mapping: Field ids for the columns of files without field ids.
        deletes: The loader of delete files.
    """

    io: FileIO
    schema: Schema
    projection: Schema
    specs: Mapping[int, PartitionSpec]
    name_mapping: NameMapping | None
    deletes: DeleteLoader

    @classmethod
    def of(cls, io: FileIO, metadata: TableMetadata, schema: Schema, projection: Schema) -> "ChangedFileReader":
        """Return a reader of a table's files. `schema` is the schema that rows are read with, and `projection` has the columns to return."""
        return cls(
            io=io,
            schema=schema,
            projection=projection,
            specs=metadata.specs(),
            name_mapping=NAME_MAPPING.read(metadata.properties),
            deletes=DeleteLoader(io, schemas=metadata.schemas),
        )

    def batches(self, file: ChangedFile, kinds: Collection[str] = (DELETE, INSERT)) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yield the changed rows of a file that match the residual filter, as pairs of `DELETE` or `INSERT` and a batch; deleted rows come first.

        Args:
            file: The file.
            kinds: The changes to return: `DELETE`, `INSERT` or both.

        Raises:
            NoSuchFileError: The file, or a delete file, does not exist.
            FormatError: A file is damaged, or violates the format.
            UnsupportedFeatureError: A file is encrypted, or its format cannot be read.
        """
        before, after = file.before, file.after
        if before is None or after is None:
            change = DELETE if after is None else INSERT
            if change in kinds:
                yield from ((change, batch) for batch in self._read(file.task, self.projection))
            return
        equality: tuple[EqualityKeySet, ...] = ()
        by_position = self.changes_by_position(before, after)
        if by_position is None:
            old, new = (self._deleted_positions(task) for task in (before, after))
            by_position = new - old, old - new
        else:
            equality = self.deletes.deletes_of(before, self.schema).equality
        task = _with_row_ids(before, after)
        for change, positions in zip((DELETE, INSERT), by_position, strict=True):
            if positions and change in kinds:
                rows = FileDeletes(AllBut(DeletionVector(positions)), equality)
                yield from ((change, batch) for batch in self._read(task, self.projection, rows))

    def rows_at(self, file: ChangedFile, positions: FrozenBitMap64) -> Iterator[pa.RecordBatch]:
        """Yield some of the rows that `batches` yields, of one kind.

        Args:
            file: The file.
            positions: The positions of changed rows of the file.

        Raises:
            IcefloeError: As for `batches`.
        """
        task = file.task if file.before is None or file.after is None else _with_row_ids(file.before, file.after)
        yield from self._read(task, self.projection, FileDeletes(AllBut(DeletionVector(positions)), ()))

    def changes_by_position(self, before: FileScanTask, after: FileScanTask) -> tuple[FrozenBitMap64, FrozenBitMap64] | None:
        """Return the positions of the changed rows of a file that two snapshots have with different deletes.

        Returns:
            The positions of deleted and of inserted rows, of which those with a key that equality deletes delete are in neither snapshot. None if the snapshots
            have different equality deletes.
        """
        if _equality_files(before) != _equality_files(after):
            return None
        old, new = (self._deleted_by_position(task) for task in (before, after))
        return new - old, old - new

    def _deleted_by_position(self, task: FileScanTask) -> FrozenBitMap64:
        vector = self.deletes.positions_of(task)
        return NO_POSITIONS if vector is None else vector.bitmap

    def _deleted_positions(self, task: FileScanTask) -> FrozenBitMap64:
        """Return the positions of the rows of a file that are deleted by position or by equality. Only the compared columns are read."""
        if not _equality_files(task):
            return self._deleted_by_position(task)
        positions = BitMap64()
        for batch in self._read(replace(task, residual=AlwaysTrue()), Schema(POS, DELETED)):
            positions |= BitMap64(numpy_of(batch.column(0).filter(batch.column(1))).astype(np.uint64))
        return FrozenBitMap64(positions)

    def _read(self, task: FileScanTask, projection: Schema, rows: FileDeletes | None = None) -> Iterator[pa.RecordBatch]:
        return read_task(
            self.io,
            task,
            schema=self.schema,
            projection=projection,
            specs=self.specs,
            name_mapping=self.name_mapping,
            deletes=self.deletes,
            file_deletes=rows,
        )


def _with_row_ids(before: FileScanTask, after: FileScanTask) -> FileScanTask:
    """Return the task that has row ids for a file of both snapshots: in a table that was upgraded, only the second may have them."""
    return after if before.file.first_row_id is None else before


def _equality_files(task: FileScanTask) -> set[str]:
    return {file.file_path for file in task.delete_files if file.content is FileContent.EQUALITY_DELETES}
