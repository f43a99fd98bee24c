"""`merge_deletes`: the deletes of data files are written again: equality deletes become positions, or position deletes are merged alone.

The data files are only read, and of them only the columns that equality deletes compare. `icefloe/maintenance` decides which deletes are merged, and removes
the old ones.
Spec: Row-level Deletes; Equality Delete Files; Position Delete Files; Deletion Vectors.
"""

from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import closing
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64, FrozenBitMap64

from icefloe.datafile.data_file_reader import read_task
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
from icefloe.datafile.write_target import WriteTarget
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.spec.arrow_values import numpy_of
from icefloe.spec.expressions.predicate import AlwaysTrue
from icefloe.spec.manifest.data_file import DataFile, FileContent
from icefloe.spec.manifest.file_rules import is_deletion_vector
from icefloe.spec.metadata.table_properties import NAME_MAPPING
from icefloe.spec.partitioning.partition_spec import PartitionSpec
from icefloe.spec.ports import FileIO
from icefloe.spec.puffin.deletion_vector import DeletionVector, deletion_vector_from_positions, merge_deletion_vectors
from icefloe.spec.schema.metadata_columns import DELETED, POS
from icefloe.spec.schema.schema import Schema


@dataclass(frozen=True, kw_only=True)
class DeletesToMerge:
    """Data files whose deletes are written again, in the same new files.

    Attributes:
        tasks: The data files, with the deletes that apply to them.
        as_vectors: Whether the table has deletion vectors, as from format version 3 on.
        file_scoped: Without vectors, whether each new file is about one data file.
        positions_only: Whether position deletes are only written again. The files that they are in are all replaced: those of the tasks may be some of the
            position deletes of a data file that gets no vector. Without vectors the data files are of one partition.
    """

    tasks: tuple[FileScanTask, ...]
    as_vectors: bool
    file_scoped: bool = True
    positions_only: bool = False

    def __len__(self) -> int:
        return len(self.tasks)


def merge_deletes(
    target: WriteTarget,
    work: DeletesToMerge,
    *,
    schema: Schema,
    specs: Mapping[int, PartitionSpec],
    partition_id: int,
    task_id: int,
    deletes: DeleteLoader | None = None,
    is_stopped: Callable[[], bool] = lambda: False,
) -> WrittenDeletes:
    """Write the rows that equality deletes delete as deletion vectors or position delete files.

    Args:
        target: The table and the location of new files.
        work: The data files.
        schema: The table's schema.
        specs: Partition specs of the table, by id.
        partition_id: Number of the engine's partition, part of the new files' names.
        task_id: Number of the task attempt, part of the new files' names.
        deletes: Loader that keeps delete files for other tasks.
        is_stopped: Returns True where the files are not needed any more; it is called for each batch of rows.

    Returns:
        The new files, and the position deletes that they include. A data file without newly deleted rows has no new delete file, except with `positions_only`.

    Raises:
        CancelledError: `is_stopped` returned True.
        NoSuchFileError, DataFileFormatError, UnsupportedFeatureError, PuffinFormatError: As `read_task`.
        StorageError: Storage refuses the write; no file is left.
    """
    loader = deletes or DeleteLoader(target.io, schemas=(schema, *target.older_schemas), name_mapping=NAME_MAPPING.read(target.properties))
    if work.positions_only:
        deleted = _deleted_positions(target.io, work, loader, is_stopped)
        if work.as_vectors:
            return rewrite_vectors(target, deleted, partition_id=partition_id, task_id=task_id)
        return rewrite_positions(target, deleted, specs=specs, partition_id=partition_id, task_id=task_id, file_scoped=work.file_scoped)
    merged: list[RowsToDelete] = []
    for task in work.tasks:
        if is_stopped():
            raise CancelledError
        old = loader.positions_of(task)
        vector = _deleted_by_key(target, task, schema, specs, loader, is_stopped)
        positions = (vector if old is None else DeletionVector(vector.bitmap - old.bitmap)).positions().astype(np.int64)
        if len(positions):
            merged.append(RowsToDelete(file=task.file, positions=positions, delete_files=task.delete_files))
    if work.as_vectors:
        return write_vectors(target, merged, deletes=loader, partition_id=partition_id, task_id=task_id)
    return write_position_deletes(
        target, merged, specs=specs, partition_id=partition_id, task_id=task_id, deletes=loader, file_scoped=work.file_scoped
    )


def _deleted_positions(
    io: FileIO, work: DeletesToMerge, loader: DeleteLoader, is_stopped: Callable[[], bool]
) -> Iterator[tuple[DataFile, DeletionVector]]:
    """Yield the data files that have position deletes, with the positions.

    Position delete files of a partition name many data files: each is read once, and memory holds the positions of all data files of the work, compressed.
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


def _deleted_by_key(
    target: WriteTarget,
    task: FileScanTask,
    schema: Schema,
    specs: Mapping[int, PartitionSpec],
    loader: DeleteLoader,
    is_stopped: Callable[[], bool],
) -> DeletionVector:
    """Return the positions of the rows of a task's file that its equality deletes delete."""
    by_key = tuple(file for file in task.delete_files if file.content is FileContent.EQUALITY_DELETES)
    vectors: list[DeletionVector] = []
    batches = read_task(
        target.io,
        replace(task, delete_files=by_key),
        schema=schema,
        projection=Schema(POS, DELETED),
        specs=specs,
        row_filter=AlwaysTrue(),
        name_mapping=NAME_MAPPING.read(target.properties),
        deletes=loader,
    )
    with closing(cast(Generator[pa.RecordBatch], batches)):
        for batch in batches:
            if is_stopped():
                raise CancelledError
            found = numpy_of(batch.column(0).filter(batch.column(1)))
            if len(found):
                vectors.append(deletion_vector_from_positions(found))
    return merge_deletion_vectors(vectors)
