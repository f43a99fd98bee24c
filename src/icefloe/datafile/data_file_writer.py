"""`write_batches`: a stream of rows becomes data files, rolled at the target size, one set per partition.

One file being written is `written.py`; telling rows apart is `partition_splitter.py`. Spec: Writing Data Files; Partitioning.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import count
from typing import Any

import pyarrow as pa

from icefloe.datafile.output_file import FileForm, OpenOutput, file_form
from icefloe.datafile.partition_splitter import Part, PartitionSplitter
from icefloe.datafile.write_target import WriteTarget
from icefloe.errors import FileAlreadyExistsError, StorageError
from icefloe.kernel.manifest.data_file import DataFile
from icefloe.kernel.partitioning.partition_spec import partition_path
from icefloe.kernel.schema.schema_cast import cast_to_schema

# Rows. The usual bound of Arrow's own writer on a row group: wide enough to compress well, small enough to read in parallel.
MAX_ROW_GROUP_ROWS = 1_048_576
# Bytes of Arrow memory. What all partitions of one task may hold back before the fullest is written out, so that many partitions cannot exhaust a worker.
MAX_BUFFERED_BYTES = 256 * 1024 * 1024
# Files. Far below the usual limit of 1,024 open files of a process.
MAX_OPEN_FILES = 100


def write_batches(target: WriteTarget, batches: Iterable[pa.RecordBatch], *, partition_id: int, task_id: int) -> list[DataFile]:
    """Writes the rows as files of the table's format and returns them; no rows, no files.

    Memory is bounded by the row-group size, for many partitions by `MAX_BUFFERED_BYTES`. File names are
    `<partition path>/<partition id %05d>-<task id>-<operation uuid>-<count %05d>.<format>` under the target's data location.

    Raises:
        SchemaMismatchError: rows that do not fit the table's schema.
        StorageError: storage refused, or is full. After this, as after any failure or Ctrl-C, the files this call made are deleted.
    """
    writer = FanOutWriter(target, partition_id=partition_id, task_id=task_id)
    splitter = None if target.spec.is_unpartitioned else PartitionSplitter(target.spec, target.schema)
    # An unpartitioned spec may still have fields: void ones, left by dropped partition fields.
    whole = (None,) * len(target.spec.fields)
    try:
        for table in _row_groups(batches, writer.form, target):
            for part in splitter.split(table) if splitter else (Part((), whole, table),):
                writer.add(part)
        return writer.finish()
    except BaseException:
        writer.abandon()
        raise


def write_partition(
    target: WriteTarget, batches: Iterable[pa.RecordBatch], partition: tuple[Any, ...], *, partition_id: int, task_id: int
) -> list[DataFile]:
    """Like `write_batches`, for rows known to be of one partition of the target's spec."""
    writer = FanOutWriter(target, partition_id=partition_id, task_id=task_id)
    try:
        for table in _row_groups(batches, writer.form, target):
            writer.add(Part((), partition, table))
        return writer.finish()
    except BaseException:
        writer.abandon()
        raise


def _row_groups(batches: Iterable[pa.RecordBatch], form: FileForm, target: WriteTarget) -> Iterator[Any]:
    """The rows gathered into, and cut to, tables of at most a row group."""
    limit = min(form.row_group_bytes, form.target_file_bytes)
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        waiting.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= MAX_ROW_GROUP_ROWS or size >= limit:
            yield from _cut(_table(waiting, target), limit)
            waiting, rows, size = [], 0, 0
    if rows:
        yield from _cut(_table(waiting, target), limit)


def _table(batches: list[pa.RecordBatch], target: WriteTarget) -> Any:
    # Rows that fit already are not copied, only looked through for nulls where none may be.
    return cast_to_schema(pa.Table.from_batches(batches), target.schema)


def _cut(table: Any, limit: int) -> Iterator[Any]:
    by_size = max(1, table.num_rows * limit // max(1, table.nbytes))
    # A little over the limit is not worth a tiny row group.
    step = min(MAX_ROW_GROUP_ROWS, by_size if table.nbytes > limit + limit // 8 else table.num_rows)
    for start in range(0, table.num_rows, max(1, step)):
        yield table.slice(start, step)


class _Shelf:
    """One partition: rows held back for the next row group, and the file they go to."""

    def __init__(self, values: tuple[Any, ...]) -> None:
        self.values = values
        self.waiting: list[Any] = []
        self.rows = 0
        self.size = 0
        self.file: OpenOutput | None = None
        self.last_write = 0


class FanOutWriter:
    """Every partition's files at once. Not for use after `finish` or `abandon`."""

    def __init__(self, target: WriteTarget, *, partition_id: int, task_id: int) -> None:
        self.form = file_form(target.schema, target.properties, target.sort_order)
        self._target = target
        self._prefix = f"{partition_id:05d}-{task_id}-{target.operation_uuid}"
        self._file_numbers = count(1)
        self._writes = count(1)
        self._limit = min(self.form.row_group_bytes, self.form.target_file_bytes)
        self._shelves: dict[tuple[Any, ...], _Shelf] = {}
        self._open: set[_Shelf] = set()
        self._buffered = 0
        self._locations: list[str] = []
        self._finished: list[DataFile] = []

    def add(self, part: Part) -> None:
        """Takes rows of one partition, an Arrow table of the form's `rows` schema."""
        shelf = self._shelves.get(part.key)
        if shelf is None:
            shelf = self._shelves[part.key] = _Shelf(part.values)
        size = part.rows.nbytes
        if shelf.waiting and shelf.size + size > self._limit:
            self._write_out(shelf)
        shelf.waiting.append(part.rows)
        shelf.rows, shelf.size, self._buffered = shelf.rows + part.rows.num_rows, shelf.size + size, self._buffered + size
        if shelf.rows >= MAX_ROW_GROUP_ROWS or shelf.size >= self._limit:
            self._write_out(shelf)
        while self._buffered > MAX_BUFFERED_BYTES:
            self._write_out(max(self._shelves.values(), key=lambda held: held.size))

    def finish(self) -> list[DataFile]:
        """Writes what is held back, closes every file and returns them in the order in which they were finished."""
        for shelf in self._shelves.values():
            if shelf.waiting:
                self._write_out(shelf)
            self._close(shelf)
        return self._finished

    def abandon(self) -> None:
        """Deletes every file made so far. Storage errors are passed over here: the failure that led here is the one to report."""
        for shelf in list(self._open):
            if shelf.file is not None:
                shelf.file.abandon()
        for location in self._locations:
            with suppress(StorageError):
                self._target.io.delete(location)

    def _write_out(self, shelf: _Shelf) -> None:
        table = pa.concat_tables(shelf.waiting)
        self._buffered -= shelf.size
        shelf.waiting, shelf.rows, shelf.size = [], 0, 0
        file = shelf.file or self._open_file(shelf, table)
        before = file.length
        file.write_row_group(table)
        shelf.last_write = next(self._writes)
        # Rolled where another row group like this one would end farther from the target than this one does.
        if file.length + (file.length - before) // 2 >= self.form.target_file_bytes:
            self._close(shelf)

    def _open_file(self, shelf: _Shelf, sample: Any) -> OpenOutput:
        if len(self._open) >= MAX_OPEN_FILES:
            self._close(min(self._open, key=lambda held: held.last_write))
        target = self._target
        name = f"{self._prefix}-{next(self._file_numbers):05d}.{self.form.extension}"
        folder = "" if target.spec.is_unpartitioned else self._partition_folder(shelf.values)
        location = f"{target.data_location.rstrip('/')}/{folder}{name}"
        # Noted before it is opened, so that a file that comes to be half-way is deleted too; but one that was there before is someone else's.
        self._locations.append(location)
        try:
            shelf.file = self.form.open(target.io, location, sample)
        except FileAlreadyExistsError:
            self._locations.remove(location)
            raise
        self._open.add(shelf)
        return shelf.file

    def _partition_folder(self, values: tuple[Any, ...]) -> str:
        return partition_path(self._target.spec, self._target.schema, values, self._target.older_schemas) + "/"

    def _close(self, shelf: _Shelf) -> None:
        if shelf.file is not None:
            self._finished.append(
                shelf.file.close(shelf.values, sort_order_id=self._target.sort_order_id, spec_id=self._target.spec.spec_id)
            )
            shelf.file = None
            self._open.discard(shelf)
