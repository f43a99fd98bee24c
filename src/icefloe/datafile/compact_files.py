"""`compact_files`: write the live rows of several data files to fewer or larger files.

Rows are streamed, so that memory is bounded as in `write_batches`, for any number of files. `icefloe/maintenance` decides which files are compacted together.
Spec: Row-level Deletes; Row Lineage; Partition Evolution.
"""

from collections.abc import Iterator
from concurrent.futures import CancelledError
from dataclasses import dataclass, replace

import pyarrow as pa

from icefloe.datafile.data_file_writer import write_batches, write_partition
from icefloe.datafile.live_rows import LiveRows
from icefloe.datafile.write_target import WritingTask
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.spec.manifest.data_file import DataFile
from icefloe.spec.partitioning.sort_order import UNSORTED_ORDER_ID
from icefloe.spec.schema.schema import schema_with_lineage


@dataclass(frozen=True, kw_only=True)
class FilesToCompact:
    """Data files, or byte ranges of data files, whose rows are written to the same new files.

    Attributes:
        tasks: The files with the deletes that apply to them.
        keeps_row_ids: Whether rows have row ids, as in format version 3.
    """

    tasks: tuple[FileScanTask, ...]
    keeps_row_ids: bool = False


@dataclass(frozen=True, kw_only=True)
class CompactedFiles:
    """The new files of a compaction."""

    added: tuple[DataFile, ...]


def compact_files(reader: LiveRows, work: FilesToCompact, task: WritingTask) -> CompactedFiles:
    """Write the live rows of data files, in the order of the files, to new files in the target's partition spec. Rows keep their row ids.

    Args:
        reader: The reader of the live rows. Its target has the table, the partition spec and the location of new files.
        work: The files to compact.
        task: The number and attempt of the writing task, and its stop signal.

    Returns:
        The new files; empty if every row is deleted.

    Raises:
        CancelledError: The task was stopped.
        NoSuchFileError, DataFileFormatError, UnsupportedFeatureError: Errors of `read_task`.
        StorageError: Errors of `write_batches`, which leaves no files after a failure.
    """
    target = reader.target
    copy_schema = schema_with_lineage(reader.schema) if work.keeps_row_ids else reader.schema

    def rows() -> Iterator[pa.RecordBatch]:
        for source in work.tasks:
            for batch in reader.of(source, copy_schema):
                if task.is_stopped():
                    raise CancelledError
                yield batch

    first = work.tasks[0]
    is_one_file = len({source.file.file_path for source in work.tasks}) == 1
    order_id = first.file.sort_order_id if is_one_file else UNSORTED_ORDER_ID
    copy_target = replace(target, schema=copy_schema, sort_order_id=order_id)
    if all(source.spec_id == target.spec.spec_id for source in work.tasks):
        added = write_partition(copy_target, rows(), first.file.partition, partition_id=task.partition_id, task_id=task.task_id)
    else:
        added = write_batches(copy_target, rows(), partition_id=task.partition_id, task_id=task.task_id)
    return CompactedFiles(added=tuple(added))
