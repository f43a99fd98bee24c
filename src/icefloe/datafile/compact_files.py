"""`compact_files`: the rows of several data files, without deleted rows, are written to fewer or larger files.

Rows pass through as a stream, so that memory is bounded as in `write_batches`, whatever the number of files. `icefloe/maintenance` decides which files are
compacted together.
Spec: Row-level Deletes; Row Lineage; Partition Evolution.
"""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError
from dataclasses import dataclass, replace

import pyarrow as pa

from icefloe.datafile.data_file_writer import write_batches, write_partition
from icefloe.datafile.deletes.delete_loader import DeleteLoader
from icefloe.datafile.live_rows import live_rows
from icefloe.datafile.write_target import WriteTarget
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.spec.manifest.data_file import DataFile
from icefloe.spec.partitioning.partition_spec import PartitionSpec
from icefloe.spec.partitioning.sort_order import UNSORTED_ORDER_ID
from icefloe.spec.schema.schema import Schema, schema_with_lineage


@dataclass(frozen=True, kw_only=True)
class FilesToCompact:
    """Data files, or byte ranges of them, whose rows are written to the same new files.

    Attributes:
        tasks: The files with the deletes that apply to them.
        keeps_row_ids: Whether rows have row ids, as in format version 3.
    """

    tasks: tuple[FileScanTask, ...]
    keeps_row_ids: bool = False


@dataclass(frozen=True, kw_only=True)
class CompactedFiles:
    """The new files."""

    added: tuple[DataFile, ...]


def compact_files(
    target: WriteTarget,
    work: FilesToCompact,
    *,
    schema: Schema,
    specs: Mapping[int, PartitionSpec],
    partition_id: int,
    task_id: int,
    deletes: DeleteLoader | None = None,
    is_stopped: Callable[[], bool] = lambda: False,
) -> CompactedFiles:
    """Write the live rows of files, in their order, as new files of the target's partition spec. Rows keep their row ids.

    Args:
        target: The table, the partition spec and the location of new files.
        work: The files to compact.
        schema: The table's schema.
        specs: Partition specs of the table, by id.
        partition_id: Number of the engine's partition, part of the new files' names.
        task_id: Number of the task attempt, part of the new files' names.
        deletes: Loader that keeps delete files for other tasks.
        is_stopped: Returns True where the files are not needed any more; it is called for each batch of rows.

    Returns:
        The new files, none if every row is deleted.

    Raises:
        CancelledError: `is_stopped` returned True.
        NoSuchFileError, DataFileFormatError, UnsupportedFeatureError: As `read_task`.
        StorageError: As `write_batches`, which leaves no files after a failure.
    """
    reader = live_rows(target, schema, specs, deletes)
    copy_schema = schema_with_lineage(schema) if work.keeps_row_ids else schema

    def rows() -> Iterator[pa.RecordBatch]:
        for task in work.tasks:
            for batch in reader.of(task, copy_schema):
                if is_stopped():
                    raise CancelledError
                yield batch

    first = work.tasks[0]
    is_one_file = len({task.file.file_path for task in work.tasks}) == 1
    order_id = first.file.sort_order_id if is_one_file else UNSORTED_ORDER_ID
    copy_target = replace(target, schema=copy_schema, sort_order_id=order_id)
    if all(task.spec_id == target.spec.spec_id for task in work.tasks):
        added = write_partition(copy_target, rows(), first.file.partition, partition_id=partition_id, task_id=task_id)
    else:
        added = write_batches(copy_target, rows(), partition_id=partition_id, task_id=task_id)
    return CompactedFiles(added=tuple(added))
