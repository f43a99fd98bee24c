"""`merge_deletes`: rewrite the deletes of data files: convert equality deletes to positions, or only merge position deletes.

Data files are only read, and only the columns that equality deletes compare. `icefloe/maintenance` decides which deletes are merged, and removes the old delete
files.
Spec: Row-level Deletes; Equality Delete Files; Position Delete Files; Deletion Vectors.
"""

from collections.abc import Callable, Generator, Iterator
from concurrent.futures import CancelledError
from contextlib import closing
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64, FrozenBitMap64

from icefloe.datafile.deletes.delete_file_output import (
    RowsToDelete,
    WrittenDeletes,
    rewrite_positions,
    rewrite_vectors,
    write_position_deletes,
    write_vectors,
)
from icefloe.datafile.deletes.delete_file_reader import add_position_deletes, plain_location
from icefloe.datafile.deletes.delete_loader import DeleteLoader
from icefloe.datafile.live_rows import LiveRows
from icefloe.datafile.write_target import WritingTask
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.spec.arrow_values import numpy_of
from icefloe.spec.manifest.data_file import DataFile, FileContent
from icefloe.spec.manifest.file_rules import is_deletion_vector
from icefloe.spec.ports import FileIO
from icefloe.spec.puffin.deletion_vector import DeletionVector, deletion_vector_from_positions, merge_deletion_vectors
from icefloe.spec.schema.metadata_columns import DELETED, POS
from icefloe.spec.schema.schema import Schema


@dataclass(frozen=True, kw_only=True)
class DeletesToMerge:
    """Data files whose deletes are rewritten to the same new files.

    Attributes:
        tasks: The data files, with the deletes that apply to them.
        as_vectors: Whether to write deletion vectors, as in format version 3 and later.
        file_scoped: Whether each new position delete file has the deletes of a single data file. Without effect on deletion vectors.
        positions_only: Whether position deletes are rewritten, instead of converting equality deletes. The new files replace all delete files of the tasks.
            Without `as_vectors`, all data files must be in one partition, and the tasks need not have every position delete file of a data file.
    """

    tasks: tuple[FileScanTask, ...]
    as_vectors: bool
    file_scoped: bool = True
    positions_only: bool = False

    def __len__(self) -> int:
        return len(self.tasks)


def merge_deletes(reader: LiveRows, work: DeletesToMerge, task: WritingTask) -> WrittenDeletes:
    """Convert the equality deletes of data files to position deletes, or with `positions_only` rewrite their position deletes to fewer files.

    Args:
        reader: The reader, with the table, the location of new files, and the loader of delete files.
        work: The data files, with their deletes.
        task: The number and attempt of the writing task, and its stop signal.

    Returns:
        The new files, and the older delete files that they include. A data file without newly deleted rows gets no new delete file, except with
        `positions_only`.

    Raises:
        CancelledError: The task was stopped.
        NoSuchFileError, DataFileFormatError, UnsupportedFeatureError, PuffinFormatError: Errors of `read_task`.
        StorageError: Storage refuses the write; no file is left.
    """
    target, loader, ids = reader.target, reader.deletes, {"partition_id": task.partition_id, "task_id": task.task_id}
    if work.positions_only:
        deleted = _deleted_positions(target.io, work, loader, task.is_stopped)
        if work.as_vectors:
            return rewrite_vectors(target, deleted, **ids)
        return rewrite_positions(target, deleted, specs=reader.specs, file_scoped=work.file_scoped, **ids)
    merged: list[RowsToDelete] = []
    for source in work.tasks:
        if task.is_stopped():
            raise CancelledError
        old = loader.positions_of(source)
        vector = _deleted_by_key(reader, source, task.is_stopped)
        positions = (vector if old is None else DeletionVector(vector.bitmap - old.bitmap)).positions().astype(np.int64)
        if len(positions):
            merged.append(RowsToDelete(file=source.file, positions=positions, delete_files=source.delete_files))
    if work.as_vectors:
        return write_vectors(target, merged, deletes=loader, **ids)
    return write_position_deletes(target, merged, specs=reader.specs, deletes=loader, file_scoped=work.file_scoped, **ids)


def _deleted_positions(
    io: FileIO, work: DeletesToMerge, loader: DeleteLoader, is_stopped: Callable[[], bool]
) -> Iterator[tuple[DataFile, DeletionVector]]:
    """Yield the data files that have position deletes, with their deleted positions.

    A position delete file of a partition has rows for many data files. Each delete file is read once, and the positions of all data files are in memory as
    compressed bitmaps.
    """
    deleted: dict[str, BitMap64] = {}
    in_file: dict[str, tuple[DataFile, dict[str, BitMap64]]] = {}
    for task in work.tasks:
        location = plain_location(task.file.file_path)
        for file in (file for file in task.delete_files if not is_deletion_vector(file)):
            in_file.setdefault(file.file_path, (file, {}))[1][location] = deleted.setdefault(location, BitMap64())
    for file, of_file in in_file.values():
        if is_stopped():
            raise CancelledError
        add_position_deletes(io, file, of_file)
    in_file.clear()
    for task in work.tasks:
        if is_stopped():
            raise CancelledError
        bitmap = deleted.pop(plain_location(task.file.file_path), None)
        vector = loader.positions_of(task) if bitmap is None else DeletionVector(FrozenBitMap64(bitmap))
        if vector is not None and vector.cardinality:
            yield task.file, vector


def _deleted_by_key(reader: LiveRows, task: FileScanTask, is_stopped: Callable[[], bool]) -> DeletionVector:
    """Return the positions of the rows that the equality deletes of a task delete in its data file."""
    by_key = tuple(file for file in task.delete_files if file.content is FileContent.EQUALITY_DELETES)
    vectors: list[DeletionVector] = []
    batches = reader.of(replace(task, delete_files=by_key), Schema(POS, DELETED))
    with closing(cast(Generator[pa.RecordBatch], batches)):
        for batch in batches:
            if is_stopped():
                raise CancelledError
            deleted = numpy_of(batch.column(0).filter(batch.column(1)))
            if len(deleted):
                vectors.append(deletion_vector_from_positions(deleted))
    return merge_deletion_vectors(vectors)
