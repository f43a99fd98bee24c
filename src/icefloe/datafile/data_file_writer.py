"""`write_batches`: data files of a stream of rows, rolled at the target size, at least one for each partition.

An appender of the table's format writes one file (`file_appender.py`); `partition_splitter.py` splits rows by partition.
Spec: Writing Data Files; Partitioning.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from itertools import count
from typing import Any

import pyarrow as pa

from icefloe.datafile.avro.avro_appender import avro_appender_factory
from icefloe.datafile.file_appender import FileAppender, FileAppenderFactory
from icefloe.datafile.orc.orc_appender import orc_appender_factory
from icefloe.datafile.parquet.parquet_appender import parquet_appender_factory
from icefloe.datafile.partition_splitter import Part, PartitionSplitter
from icefloe.datafile.write_target import WriteTarget
from icefloe.errors import FileAlreadyExistsError, StorageError
from icefloe.kernel.manifest.data_file import DataFile
from icefloe.kernel.metadata.data_location import new_data_location
from icefloe.kernel.metadata.table_properties import DEFAULT_FILE_FORMAT
from icefloe.kernel.partitioning.curve_cells import in_curve_order
from icefloe.kernel.partitioning.partition_spec import partition_kinds, partition_path_of
from icefloe.kernel.partitioning.sort_order import UNSORTED_ORDER_ID, UNSORTED_SORT_ORDER, SortOrder, sorted_rows
from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.schema.schema_cast import cast_to_schema
from icefloe.kernel.types import IcebergType

# Rows. The usual bound of Arrow's own writer on a row group: wide enough to compress well, small enough to read in parallel.
MAX_ROW_GROUP_ROWS = 1_048_576
# Rows that are split by partition at once: few enough that their columns fit into the cache of a processor, out of which rows are gathered a third faster.
SPLIT_ROWS = 131_072
# Rows of a partition that are worth the calls which gather them, so that more rows are split at once where there are more partitions.
_ROWS_OF_A_PART = 1024
# Bytes of Arrow memory that are split at once: they are held three times meanwhile, as batches, as one table and as its parts.
SPLIT_BYTES = 32 * 1024 * 1024
# Bytes of Arrow memory that all partitions of one task may buffer before the fullest is written, so that many partitions cannot exhaust a worker.
MAX_BUFFERED_BYTES = 256 * 1024 * 1024
# Open files of one task: far below the usual limit of 1,024 for a process.
MAX_OPEN_FILES = 100
# Bytes of Arrow memory of a file that is encoded in memory and written beside others.
SMALL_FILE_BYTES = 1024 * 1024
# Threads that write small files, and files that a thread writes before it takes the next ones. Processors of a task are few, and the stores that answer slowly
# take several requests at once.
SMALL_FILE_THREADS = 4
SMALL_FILES_OF_A_STEP = 8
_FACTORIES: Mapping[str, Callable[[Schema, Mapping[str, str], SortOrder], FileAppenderFactory]] = {
    "parquet": parquet_appender_factory,
    "orc": orc_appender_factory,
    "avro": avro_appender_factory,
}


def write_batches(target: WriteTarget, batches: Iterable[pa.RecordBatch], *, partition_id: int, task_id: int) -> list[DataFile]:
    """Write rows to new files of the table's format and return these; without rows there is no file.

    Memory is bounded by the row-group size, for many partitions by `MAX_BUFFERED_BYTES` and three times `SPLIT_BYTES`. File names are
    `<partition path>/<partition id %05d>-<task id>-<operation uuid>-<count %05d>.<format>` under the target's data location.

    Args:
        target: The table's schema, spec, sort order and location for new files.
        batches: Rows with the columns of the target's schema, in any order of partitions.
        partition_id: Number of the engine's partition, part of the file names.
        task_id: Number of the task attempt, part of the file names.

    Raises:
        SchemaMismatchError: Rows do not fit the table's schema.
        StorageError: Storage refuses the write, or is full. After this, as after any failure or Ctrl-C, the files of this call are deleted.

    Spec: Writing Data Files.
    """
    writer = FanoutWriter(target, partition_id=partition_id, task_id=task_id)
    splitter = None if target.spec.is_unpartitioned() else PartitionSplitter(target.spec, target.schema)
    # An unpartitioned spec may still have fields: the void transforms of dropped partition fields.
    void_partition = (None,) * len(target.spec.fields)
    try:
        if splitter is None:
            for table in _tables(batches, target, writer.row_group_bytes, _rows_of_a_group):
                writer.add(Part((), void_partition, table))
        else:
            for table in _tables(batches, target, min(writer.row_group_bytes, SPLIT_BYTES), writer.rows_to_split):
                for part in splitter.split(table):
                    writer.add(part)
        return writer.finish()
    except BaseException:
        writer.abandon()
        raise


def write_sorted(target: WriteTarget, table: Any, *, partition_id: int, task_id: int) -> list[DataFile]:
    """Write an Arrow table of the target's schema in its sort order, as `write_batches` does; not marked as sorted if the order is not known here.

    With a curve the rows are in the order of it. With `sorted_parts` they are divided into as many parts of equal length, whose numbers follow `partition_id`.
    """
    if target.curve is not None:
        in_order = in_curve_order(table, target.curve, target.schema)
    else:
        in_order = sorted_rows(table, target.sort_order, target.schema)
        if in_order is None:
            target, in_order = replace(target, sort_order_id=UNSORTED_ORDER_ID), table
    step = max(1, -(-in_order.num_rows // (target.sorted_parts or 1)))
    files: list[DataFile] = []
    try:
        for number, start in enumerate(range(0, in_order.num_rows, step), partition_id):
            files += write_batches(target, in_order.slice(start, step).to_batches(), partition_id=number, task_id=task_id)
    except BaseException:
        for file in files:
            with suppress(StorageError):
                target.io.delete(file.file_path)
        raise
    return files


def write_partition(
    target: WriteTarget, batches: Iterable[pa.RecordBatch], partition: tuple[Any, ...], *, partition_id: int, task_id: int
) -> list[DataFile]:
    """Write rows of one partition of the target's spec, as `write_batches` does."""
    writer = FanoutWriter(target, partition_id=partition_id, task_id=task_id)
    try:
        for table in _tables(batches, target, writer.row_group_bytes, _rows_of_a_group):
            writer.add(Part((), partition, table))
        return writer.finish()
    except BaseException:
        writer.abandon()
        raise


def _rows_of_a_group() -> int:
    return MAX_ROW_GROUP_ROWS


def _tables(batches: Iterable[pa.RecordBatch], target: WriteTarget, limit: int, most_rows: Callable[[], int]) -> Iterator[Any]:
    """Yield the rows as tables of at most a row group: of about `limit` bytes of Arrow memory, or `most_rows` rows."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        waiting.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= most_rows() or size >= limit:
            yield from _cut(_table(waiting, target), limit)
            waiting, rows, size = [], 0, 0
    if rows:
        yield from _cut(_table(waiting, target), limit)


def _table(batches: list[pa.RecordBatch], target: WriteTarget) -> Any:
    # Rows that have the table's types are not copied; required columns are checked for nulls.
    return cast_to_schema(pa.Table.from_batches(batches), target.schema)


def _cut(table: Any, limit: int) -> Iterator[Any]:
    by_size = max(1, table.num_rows * limit // max(1, table.nbytes))
    # A table slightly above the limit is not cut, because its second part would be a tiny row group.
    step = min(MAX_ROW_GROUP_ROWS, by_size if table.nbytes > limit + limit // 8 else table.num_rows)
    for start in range(0, table.num_rows, max(1, step)):
        yield table.slice(start, step)


def appender_factory(schema: Schema, properties: Mapping[str, str], sort_order: SortOrder = UNSORTED_SORT_ORDER) -> FileAppenderFactory:
    """Return the appender factory of a table for the format in its property `write.format.default`.

    Raises:
        InvalidPropertyError: A writer property has an invalid value.
        UnsupportedTypeError: The format cannot store a column of the schema.
    """
    return _FACTORIES[DEFAULT_FILE_FORMAT.read(properties)](schema, properties, sort_order)


class _PartitionFile:
    """The rows of one partition that are buffered for the next row group, and the open file of the partition."""

    def __init__(self, values: tuple[Any, ...]) -> None:
        self.values = values
        self.waiting: list[Any] = []
        self.rows = 0
        self.size = 0
        self.file: FileAppender | None = None
        self.last_write = 0


class FanoutWriter:
    """Writer with an open file for each of several partitions. It must not be used after `finish` or `abandon`."""

    def __init__(self, target: WriteTarget, *, partition_id: int, task_id: int) -> None:
        """Prepare to write files of the target; no file is opened before the first row group."""
        self.factory = appender_factory(target.schema, target.properties, target.sort_order)
        self._target = target
        self._prefix = f"{partition_id:05d}-{task_id}-{target.operation_uuid}"
        self._file_numbers = count(1)
        self._writes = count(1)
        self.row_group_bytes = min(self.factory.row_group_bytes, self.factory.target_file_bytes)
        self._partitions: dict[tuple[Any, ...], _PartitionFile] = {}
        self._open: set[_PartitionFile] = set()
        self._buffered = 0
        self._locations: list[str] = []
        self._finished: list[DataFile] = []

    def rows_to_split(self) -> int:
        """Return how many rows are split by partition at once, given the number of partitions so far."""
        return min(MAX_ROW_GROUP_ROWS, max(SPLIT_ROWS, _ROWS_OF_A_PART * len(self._partitions)))

    def add(self, part: Part) -> None:
        """Add rows of one partition, an Arrow table of the factory's `arrow_schema`."""
        partition = self._partitions.get(part.key)
        if partition is None:
            partition = self._partitions[part.key] = _PartitionFile(part.values)
        size = part.rows.nbytes
        if partition.waiting and partition.size + size > self.row_group_bytes:
            self._write_out(partition)
        partition.waiting.append(part.rows)
        partition.rows, partition.size, self._buffered = partition.rows + part.rows.num_rows, partition.size + size, self._buffered + size
        if partition.rows >= MAX_ROW_GROUP_ROWS or partition.size >= self.row_group_bytes:
            self._write_out(partition)
        while self._buffered > MAX_BUFFERED_BYTES:
            self._write_out(max(self._partitions.values(), key=lambda buffered: buffered.size))

    def finish(self) -> list[DataFile]:
        """Write the buffered rows, close every file and return the files: small ones, each with all rows of a partition, last."""
        small: list[_PartitionFile] = []
        for partition in self._partitions.values():
            if partition.file is None and partition.waiting and partition.size <= SMALL_FILE_BYTES:
                small.append(partition)
                continue
            if partition.waiting:
                self._write_out(partition)
            self._close(partition)
        self._write_small(small)
        return self._finished

    def _write_small(self, partitions: list[_PartitionFile]) -> None:
        """Write a file for each of these partitions. Threads share the work, most of which is Arrow's and the file system's, unless there are few files."""
        if len(partitions) <= SMALL_FILES_OF_A_STEP:
            self._finished += self._small_files(partitions)
            return
        steps = [partitions[start : start + SMALL_FILES_OF_A_STEP] for start in range(0, len(partitions), SMALL_FILES_OF_A_STEP)]
        pool = ThreadPoolExecutor(SMALL_FILE_THREADS, thread_name_prefix="icefloe-write")
        try:
            for files in pool.map(self._small_files, steps):
                self._finished += files
        finally:
            # After a failure no thread may write while the files are deleted.
            pool.shutdown(cancel_futures=True)

    def _small_files(self, partitions: list[_PartitionFile]) -> list[DataFile]:
        return [self._small_file(partition) for partition in partitions]

    def _small_file(self, partition: _PartitionFile) -> DataFile:
        table = pa.concat_tables(partition.waiting)
        partition.waiting = []
        with self._new_location(partition) as location:
            file = self.factory.new_appender(self._target.io, location, table, is_whole=True)
            try:
                file.write_row_group(table)
                return self._closed(file, partition)
            except BaseException:
                file.abandon()
                raise

    def abandon(self) -> None:
        """Delete every file written so far. Storage errors are ignored here, because the caller raises the failure that came first."""
        for partition in list(self._open):
            if partition.file is not None:
                partition.file.abandon()
        for location in self._locations:
            with suppress(StorageError):
                self._target.io.delete(location)

    def _write_out(self, partition: _PartitionFile) -> None:
        """Write the buffered rows of a partition as a row group, and close its file if that reaches the target size."""
        table = pa.concat_tables(partition.waiting)
        self._buffered -= partition.size
        partition.waiting, partition.rows, partition.size = [], 0, 0
        file = partition.file or self._open_file(partition, table)
        before = file.length
        file.write_row_group(table)
        partition.last_write = next(self._writes)
        # The file is closed if another row group of this size would end farther from the target than this one does.
        if file.length + (file.length - before) // 2 >= self.factory.target_file_bytes:
            self._close(partition)

    def _open_file(self, partition: _PartitionFile, sample: Any) -> FileAppender:
        if len(self._open) >= MAX_OPEN_FILES:
            self._close(min(self._open, key=lambda opened: opened.last_write))
        with self._new_location(partition) as location:
            partition.file = self.factory.new_appender(self._target.io, location, sample)
        self._open.add(partition)
        return partition.file

    @contextmanager
    def _new_location(self, partition: _PartitionFile) -> Iterator[str]:
        """Record the location of a new file before it is opened, so that a half-opened file is deleted too; an existing one is of another writer."""
        target = self._target
        name = f"{self._prefix}-{next(self._file_numbers):05d}.{self.factory.extension}"
        folder = "" if target.spec.is_unpartitioned() else self._partition_folder(partition.values)
        location = new_data_location(target.data_location, folder, name, target.properties, target.location_context)
        self._locations.append(location)
        try:
            yield location
        except FileAlreadyExistsError:
            self._locations.remove(location)
            raise

    @cached_property
    def _partition_kinds(self) -> list[IcebergType]:
        return partition_kinds(self._target.spec, self._target.schema, self._target.older_schemas)

    def _partition_folder(self, values: tuple[Any, ...]) -> str:
        return partition_path_of(self._target.spec, self._partition_kinds, values) + "/"

    def _close(self, partition: _PartitionFile) -> None:
        if partition.file is not None:
            self._finished.append(self._closed(partition.file, partition))
            partition.file = None
            self._open.discard(partition)

    def _closed(self, file: FileAppender, partition: _PartitionFile) -> DataFile:
        return file.close(partition.values, sort_order_id=self._target.sort_order_id, spec_id=self._target.spec.spec_id)
