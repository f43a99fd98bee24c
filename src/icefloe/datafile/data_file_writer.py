"""`write_batches`: write a stream of rows to data files, which are rolled at the target size; each partition gets at least one file.

An appender of the table's format writes one file (`file_appender.py`); `partition_splitter.py` splits rows by partition.
Spec: Writing Data Files; Partitioning.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property, partial
from itertools import chain, count, islice
from typing import Any

import pyarrow as pa

from icefloe.datafile.avro.avro_appender import avro_appender_factory
from icefloe.datafile.file_appender import FileAppender, FileAppenderFactory, SmallFileEncoder, data_file_of
from icefloe.datafile.orc.orc_appender import orc_appender_factory
from icefloe.datafile.parquet.parquet_appender import parquet_appender_factory
from icefloe.datafile.partition_splitter import Part, PartitionSplitter, SortedParts
from icefloe.datafile.write_target import WriteTarget
from icefloe.errors import FileAlreadyExistsError, StorageError
from icefloe.io.storage_errors import storage_error
from icefloe.spec.manifest.data_file import DataFile
from icefloe.spec.metadata.data_location import new_data_location
from icefloe.spec.metadata.table_properties import DEFAULT_FILE_FORMAT
from icefloe.spec.partitioning.curve_cells import in_curve_order
from icefloe.spec.partitioning.partition_spec import partition_kinds, partition_path_of
from icefloe.spec.partitioning.sort_order import UNSORTED_ORDER_ID, UNSORTED_SORT_ORDER, SortOrder, sorted_rows
from icefloe.spec.ports import write_unique
from icefloe.spec.schema.schema import Schema
from icefloe.spec.schema.schema_cast import cast_to_schema
from icefloe.spec.types import IcebergType

# The maximum of rows in a row group, as in Arrow's own writer: large enough to compress well, small enough to read in parallel.
MAX_ROW_GROUP_ROWS = 1_048_576
# The number of rows that are split by partition at once: few enough that their columns fit into a processor's cache, where gathering rows is a third faster.
SPLIT_ROWS = 131_072
# The number of rows in a partition for which it pays to gather them. With more partitions, more rows are split at once.
_ROWS_OF_A_PART = 1024
# The Arrow memory that is split at once. It is held three times meanwhile: as batches, as one table and as its parts.
SPLIT_BYTES = 32 * 1024 * 1024
# The Arrow memory that all partitions of a task may buffer before the fullest is written, so that many partitions cannot exhaust a worker.
MAX_BUFFERED_BYTES = 256 * 1024 * 1024
# The maximum of rows in an in-memory table that are sorted by partition, which takes 24 bytes for each row.
MAX_SORTED_ROWS = 4_194_304
# The maximum of open files of a task: far below the usual limit of 1,024 for a process.
MAX_OPEN_FILES = 100
# The maximum Arrow memory of a file that is encoded in memory, in parallel with others.
SMALL_FILE_BYTES = 1024 * 1024
# The number of threads that write small files, and of files that a thread writes before it takes the next. A task has few processors, but slow stores
# accept several requests at once.
SMALL_FILE_THREADS = 4
SMALL_FILES_OF_A_STEP = 8
_FACTORIES: Mapping[str, Callable[[Schema, Mapping[str, str], SortOrder], FileAppenderFactory]] = {
    "parquet": parquet_appender_factory,
    "orc": orc_appender_factory,
    "avro": avro_appender_factory,
}


def write_batches(target: WriteTarget, batches: Iterable[pa.RecordBatch], *, partition_id: int, task_id: int) -> list[DataFile]:
    """Write rows to new files in the table's format, and return the files; without rows there is no file.

    Memory is bounded by the row group size; for many partitions by `MAX_BUFFERED_BYTES` and three times `SPLIT_BYTES`. File names are `<partition
    path>/<partition id %05d>-<task id>-<operation uuid>-<count %05d>.<format>` under the target's data location.

    Args:
        target: The table's schema, spec, sort order and location for new files.
        batches: Rows with the columns of the target's schema, in any order of partitions.
        partition_id: Number of the engine's partition, part of the file names.
        task_id: Number of the task attempt, part of the file names.

    Raises:
        SchemaMismatchError: Rows do not fit the table's schema.
        StorageError: Storage refuses the write, or is full. After any failure or Ctrl-C, the files of this call are deleted.

    Spec: Writing Data Files.
    """
    splitter = None if target.spec.is_unpartitioned() else PartitionSplitter(target.spec, target.schema)
    # An unpartitioned spec may still have fields, namely void transforms of dropped partition fields.
    void_partition = (None,) * len(target.spec.fields)
    with _all_or_nothing(FanoutWriter(target, partition_id=partition_id, task_id=task_id)) as writer:
        if splitter is None:
            for table in _tables(batches, target, writer.row_group_bytes, _rows_of_a_group):
                writer.add(Part((), void_partition, table))
            return writer.finish()
        tables = _tables(batches, target, min(writer.row_group_bytes, SPLIT_BYTES), writer.rows_to_split)
        first = list(islice(tables, 2))
        if len(first) == 1:
            # The table has all rows of each partition, so that no partition has to wait for more rows.
            writer.add_whole_partitions(splitter.sort(first[0], SPLIT_BYTES))
        else:
            for table in chain(first, tables):
                for part in splitter.split(table):
                    writer.add(part)
        return writer.finish()


def write_sorted(target: WriteTarget, table: Any, *, partition_id: int, task_id: int) -> list[DataFile]:
    """Sort an Arrow table by the target's sort order, and write it to new files as `write_batches` does.

    If the target has a space-filling curve, rows are sorted along the curve instead. If `sorted_rows` cannot sort by the sort order, the rows are written
    unsorted, and the files have the id of the unsorted order. If the target has `sorted_parts`, the sorted rows are cut into that number of equal parts, which
    are written to separate files; the partition ids in file names count from `partition_id` on.
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
            files += _write_rows(target, in_order.slice(start, step), partition_id=number, task_id=task_id)
    except BaseException:
        for file in files:
            with suppress(StorageError):
                target.io.delete(file.file_path)
        raise
    return files


def _write_rows(target: WriteTarget, table: Any, *, partition_id: int, task_id: int) -> list[DataFile]:
    """Write an Arrow table as `write_batches` does. Rows of very many partitions are sorted by partition first, so that one file is written at a time."""
    splitter = None if target.spec.is_unpartitioned() else PartitionSplitter(target.spec, target.schema)
    if splitter is None or table.num_rows > MAX_SORTED_ROWS or table.nbytes > MAX_BUFFERED_BYTES or not _has_many(splitter, table):
        return write_batches(target, table.to_batches(), partition_id=partition_id, task_id=task_id)
    with _all_or_nothing(FanoutWriter(target, partition_id=partition_id, task_id=task_id)) as writer:
        writer.add_whole_partitions(splitter.sort(cast_to_schema(table, target.schema), SPLIT_BYTES))
        return writer.finish()


def _has_many(splitter: PartitionSplitter, table: Any) -> bool:
    """Return True if a table has more than `SPLIT_ROWS` rows, but so few in each partition that splitting `SPLIT_ROWS` at a time would be slow."""
    return table.num_rows > SPLIT_ROWS and splitter.count(table.slice(0, SPLIT_ROWS)) * _ROWS_OF_A_PART > SPLIT_ROWS


def write_partition(
    target: WriteTarget, batches: Iterable[pa.RecordBatch], partition: tuple[Any, ...], *, partition_id: int, task_id: int
) -> list[DataFile]:
    """Write rows of a single partition of the target's spec, as `write_batches` does."""
    with _all_or_nothing(FanoutWriter(target, partition_id=partition_id, task_id=task_id)) as writer:
        for table in _tables(batches, target, writer.row_group_bytes, _rows_of_a_group):
            writer.add(Part((), partition, table))
        return writer.finish()


@contextmanager
def _all_or_nothing(writer: "FanoutWriter") -> Iterator["FanoutWriter"]:
    """Yield the writer to the block, and delete the writer's files if the block fails or is interrupted."""
    try:
        yield writer
    except BaseException:
        writer.abandon()
        raise


def _rows_of_a_group() -> int:
    return MAX_ROW_GROUP_ROWS


def _tables(batches: Iterable[pa.RecordBatch], target: WriteTarget, limit: int, most_rows: Callable[[], int]) -> Iterator[Any]:
    """Yield the rows as tables of at most one row group: about `limit` bytes of Arrow memory, or `most_rows` rows."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        waiting.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= most_rows() or size >= limit:
            yield from _cut_table(_table(waiting, target), limit)
            waiting, rows, size = [], 0, 0
    if rows:
        yield from _cut_table(_table(waiting, target), limit)


def _table(batches: list[pa.RecordBatch], target: WriteTarget) -> Any:
    # Rows that have the table's types already are not copied; required columns are checked for nulls.
    return cast_to_schema(pa.Table.from_batches(batches), target.schema)


def _cut_table(table: Any, limit: int) -> Iterator[Any]:
    by_size = max(1, table.num_rows * limit // max(1, table.nbytes))
    # A table that is only slightly above the limit is not divided, because the second part would be a tiny row group.
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
    """A partition that is being written: its buffered rows for the next row group, and its open file."""

    def __init__(self, values: tuple[Any, ...]) -> None:
        self.values = values
        self.waiting: list[Any] = []
        self.rows = 0
        self.size = 0
        self.file: FileAppender | None = None
        self.last_write = 0


class FanoutWriter:
    """A writer of rows of several partitions, with an open file for each partition. It must not be used after `finish` or `abandon`."""

    def __init__(self, target: WriteTarget, *, partition_id: int, task_id: int) -> None:
        """Prepare to write files of the target. A file is opened when its first row group is written."""
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
        """Return how many rows the caller should split by partition at a time; more if there are more partitions so far."""
        return min(MAX_ROW_GROUP_ROWS, max(SPLIT_ROWS, _ROWS_OF_A_PART * len(self._partitions)))

    def add(self, part: Part) -> None:
        """Buffer rows of one partition, and write buffers that are full. The rows have the factory's `arrow_schema`."""
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

    def add_whole_partitions(self, tables: Iterable[SortedParts]) -> None:
        """Write tables that have all rows of the partitions in them. Partitions that are small enough for one small file are written by threads."""
        self._write_small(self._without_large(table) for table in tables)

    def _without_large(self, table: SortedParts) -> "_SmallFiles":
        """Write the large partitions of a table, and return the table with the list of its small partitions."""
        small: list[_SmallPart] = []
        for key, values, start, rows in table.parts:
            # Most tables are small themselves, so that their parts need not be measured.
            if table.rows.nbytes <= SMALL_FILE_BYTES or table.rows.slice(start, rows).nbytes <= SMALL_FILE_BYTES:
                small.append((values, start, rows))
                continue
            for part in _cut_table(table.rows.slice(start, rows), self.row_group_bytes):
                self.add(Part(key, values, part))
            self._end(self._partitions.pop(key))
        return table.rows, small

    def finish(self) -> list[DataFile]:
        """Write the buffered rows, close every file, and return all files of this writer. Small buffers of partitions without an open file are written last."""
        small: list[_PartitionFile] = []
        for partition in self._partitions.values():
            if partition.file is None and partition.waiting and partition.size <= SMALL_FILE_BYTES:
                small.append(partition)
            else:
                self._end(partition)
        self._write_small(_join_partitions(small))
        return self._finished

    def _end(self, partition: "_PartitionFile") -> None:
        if partition.waiting:
            self._write_out(partition)
        self._close(partition)

    def _write_small(self, tables: Iterable["_SmallFiles"]) -> None:
        """Write small files. If there are more than a few, threads share the work, most of which is done by Arrow and the file system."""
        steps = self._steps(tables)
        first = list(islice(steps, 2))
        if len(first) < 2:
            for step in first:
                self._finished += step()
            return
        pool = ThreadPoolExecutor(SMALL_FILE_THREADS, thread_name_prefix="icefloe-write")
        # Few steps wait at a time, so that few tables are in memory.
        waiting: deque[Future[list[DataFile]]] = deque()
        try:
            for step in chain(first, steps):
                waiting.append(pool.submit(step))
                if len(waiting) > 2 * SMALL_FILE_THREADS:
                    self._finished += waiting.popleft().result()
            for files in waiting:
                self._finished += files.result()
        finally:
            # After a failure, no thread may still write while the files are deleted.
            pool.shutdown(cancel_futures=True)

    def _steps(self, tables: Iterable["_SmallFiles"]) -> Iterator[Callable[[], list[DataFile]]]:
        """Yield functions that write the files. A function writes up to `SMALL_FILES_OF_A_STEP` files and returns them."""
        for rows, parts in tables:
            encoder = self.factory.small_file_encoder(rows) if parts else None
            for first in range(0, len(parts), SMALL_FILES_OF_A_STEP):
                yield partial(self._small_files, rows, encoder, parts[first : first + SMALL_FILES_OF_A_STEP])

    def _small_files(self, rows: Any, encoder: SmallFileEncoder | None, parts: Sequence["_SmallPart"]) -> list[DataFile]:
        return [
            self._write_file(rows.slice(start, count), values) if encoder is None else self._encode_file(encoder, start, count, values)
            for values, start, count in parts
        ]

    def _encode_file(self, encoder: SmallFileEncoder, start: int, rows: int, values: tuple[Any, ...]) -> DataFile:
        target = self._target
        content, metrics = encoder.encode(start, rows)
        with self._new_location(values) as location:
            try:
                write_unique(target.io, location, content)
            except OSError as error:
                raise storage_error(error, location) from error
        order_id, spec_id = target.sort_order_id, target.spec.spec_id
        return data_file_of(location, encoder.file_format, content.size, metrics, values, sort_order_id=order_id, spec_id=spec_id)

    def _write_file(self, rows: Any, values: tuple[Any, ...]) -> DataFile:
        with self._new_location(values) as location:
            file = self.factory.new_appender(self._target.io, location, rows)
            try:
                file.write_row_group(rows)
                return self._close_file(file, values)
            except BaseException:
                file.abandon()
                raise

    def abandon(self) -> None:
        """Delete every file that was written so far. Storage errors are ignored, because the caller raises the original error."""
        for partition in list(self._open):
            if partition.file is not None:
                partition.file.abandon()
        for location in self._locations:
            with suppress(StorageError):
                self._target.io.delete(location)

    def _write_out(self, partition: _PartitionFile) -> None:
        """Write the buffered rows of a partition as a row group, and close its file if it has reached the target size."""
        table = pa.concat_tables(partition.waiting)
        self._buffered -= partition.size
        partition.waiting, partition.rows, partition.size = [], 0, 0
        file = partition.file or self._open_file(partition, table)
        before = file.length
        file.write_row_group(table)
        partition.last_write = next(self._writes)
        # The file is closed if one more row group of this size would make its size differ more from the target than it does now.
        if file.length + (file.length - before) // 2 >= self.factory.target_file_bytes:
            self._close(partition)

    def _open_file(self, partition: _PartitionFile, sample: Any) -> FileAppender:
        if len(self._open) >= MAX_OPEN_FILES:
            self._close(min(self._open, key=lambda opened: opened.last_write))
        with self._new_location(partition.values) as location:
            partition.file = self.factory.new_appender(self._target.io, location, sample)
        self._open.add(partition)
        return partition.file

    @contextmanager
    def _new_location(self, values: tuple[Any, ...]) -> Iterator[str]:
        """Choose the location of a new file, which must not exist, and record it before the file is opened, so that a partly opened file is deleted too."""
        target = self._target
        name = f"{self._prefix}-{next(self._file_numbers):05d}.{self.factory.extension}"
        folder = "" if target.spec.is_unpartitioned() else self._partition_folder(values)
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
            self._finished.append(self._close_file(partition.file, partition.values))
            partition.file = None
            self._open.discard(partition)

    def _close_file(self, file: FileAppender, values: tuple[Any, ...]) -> DataFile:
        return file.close(values, sort_order_id=self._target.sort_order_id, spec_id=self._target.spec.spec_id)


# A partition's values, the number of its first row in a table, and the number of its rows.
_SmallPart = tuple[tuple[Any, ...], int, int]
# An Arrow table, and those of its partitions whose files are small.
_SmallFiles = tuple[Any, Sequence[_SmallPart]]


def _join_partitions(partitions: Iterable[_PartitionFile]) -> Iterator[_SmallFiles]:
    """Join the buffered rows of several partitions to tables of about `SPLIT_BYTES` and yield these. The buffers are cleared."""
    waiting: list[Any] = []
    parts: list[_SmallPart] = []
    rows = size = 0
    for partition in partitions:
        parts.append((partition.values, rows, partition.rows))
        waiting += partition.waiting
        rows, size, partition.waiting = rows + partition.rows, size + partition.size, []
        if size >= SPLIT_BYTES:
            yield pa.concat_tables(waiting).combine_chunks(), parts
            waiting, parts, rows, size = [], [], 0, 0
    if parts:
        yield pa.concat_tables(waiting).combine_chunks(), parts
