"""`merge_deletes`: equality deletes of data files become positions, which are merged with the position deletes that the files have already.

The data files are only read, and of them only the columns that equality deletes compare. `icefloe/maintenance` decides which deletes are merged, and removes
the old ones.
Spec: Row-level Deletes; Equality Delete Files; Position Delete Files; Deletion Vectors.
"""

from collections.abc import Callable, Generator, Mapping
from concurrent.futures import CancelledError
from contextlib import closing
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import pyarrow as pa

from icefloe.datafile.data_file_reader import read_task
from icefloe.datafile.deletes.delete_file_output import RowsToDelete, WrittenDeletes, write_position_deletes, write_vectors
from icefloe.datafile.deletes.delete_loader import DeleteLoader
from icefloe.datafile.write_target import WriteTarget
from icefloe.kernel.arrow_values import numpy_of
from icefloe.kernel.expressions.predicate import AlwaysTrue
from icefloe.kernel.manifest.data_file import FileContent
from icefloe.kernel.metadata.table_properties import NAME_MAPPING
from icefloe.kernel.partitioning.partition_spec import PartitionSpec
from icefloe.kernel.puffin.deletion_vector import DeletionVector, deletion_vector_from_positions, merge_deletion_vectors
from icefloe.kernel.scan.file_scan_task import FileScanTask
from icefloe.kernel.schema.metadata_columns import DELETED, POS
from icefloe.kernel.schema.schema import Schema


@dataclass(frozen=True, kw_only=True)
class DeletesToMerge:
    """Data files whose equality deletes become positions, in the same new files.

    Attributes:
        tasks: The data files, with the deletes that apply to them.
        as_vectors: Whether the table has deletion vectors, as from format version 3 on.
        file_scoped: Without vectors, whether each new file is about one data file.
    """

    tasks: tuple[FileScanTask, ...]
    as_vectors: bool
    file_scoped: bool = True


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
        The new files, and the position deletes that they include. A data file without newly deleted rows has no new delete file.

    Raises:
        CancelledError: `is_stopped` returned True.
        NoSuchFileError, DataFileFormatError, UnsupportedFeatureError, PuffinFormatError: As `read_task`.
        StorageError: Storage refuses the write; no file is left.
    """
    loader = deletes or DeleteLoader(target.io, schemas=(schema, *target.older_schemas), name_mapping=NAME_MAPPING.read(target.properties))
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
