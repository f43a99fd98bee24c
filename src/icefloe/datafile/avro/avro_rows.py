"""The stored rows of an Avro file: the blocks of a scan task, decoded by fastavro and converted to Arrow.

`stored_file.py` opens files of every format with one interface; this module is its reader of Avro. `avro_appender.py` writes Avro files.
Spec: Appendix A, Avro; Apache Avro, Object Container Files.
"""

import json
from collections.abc import Iterator
from io import BytesIO
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from icefloe.datafile.avro.avro_file_schema import without_logical_types
from icefloe.datafile.avro.avro_values import avro_columns
from icefloe.datafile.field_ids import has_ids, mapped_ids, with_ids
from icefloe.datafile.stored_batch import RESTORE, RowTest, SkippedRows, StoredBatch, without_columns
from icefloe.errors import DataFileFormatError
from icefloe.lazy_imports import lazy_module
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.spec.avro.avro_container import RawBlock, count_records, open_container, raw_blocks, read_block
from icefloe.spec.avro.avro_errors import SchemaSizeError
from icefloe.spec.avro.avro_schema import has_arrays_of_nothing, kind_of, parse_schema
from icefloe.spec.expressions.predicate import BooleanExpression
from icefloe.spec.limits import raise_limit
from icefloe.spec.schema.name_mapping import NameMapping
from icefloe.spec.types import NestedField

if TYPE_CHECKING:
    import fastavro
else:  # few tables have Avro data files, so that fastavro is imported late
    fastavro = lazy_module("fastavro")

# The number of rows in a batch. Blocks are joined up to this number, which is small because records are Python objects before they become Arrow.
_BATCH_ROWS = 16_384


class AvroRows:
    """An open Avro file, with the interface `StoredFile`. The whole file is read, because the position of a block is known only after the block before."""

    floors_nanoseconds = False

    def __init__(self, file: Any, task: FileScanTask, name_mapping: NameMapping | None) -> None:
        """Read the file. Raises `DataFileFormatError` if its header or schema cannot be read."""
        self._task = task
        self._path = task.file.file_path
        self._container = open_container(file.read(), self._path)
        try:
            record = parse_schema(self._container.schema_text)
            if kind_of(record) != "record":
                raise ValueError(f"avro.schema declares {kind_of(record)}, not a record")
            if has_arrays_of_nothing(record):
                raise ValueError("it has an array of items that take no bytes, so a file may claim any number of them")
            self._columns = avro_columns(record)
            self._names = [field["name"] for field in record["fields"]]
            self._decoder_schema = fastavro.parse_schema(without_logical_types(json.loads(self._container.schema_text)))
        except (
            ValueError,
            TypeError,
            KeyError,
            OverflowError,
            RecursionError,
            pa.ArrowException,
            fastavro.schema.SchemaParseException,
        ) as error:
            raise DataFileFormatError(
                f"the schema of {self._path} is not one of a table: {error}",
                path=self._path,
                next_step=raise_limit(error.limit) if isinstance(error, SchemaSizeError) else None,
            ) from error
        self.schema = pa.schema([column.arrow for column in self._columns])
        if name_mapping is not None and not has_ids(self.schema):
            self.schema = with_ids(self.schema, mapped_ids(name_mapping))

    def count_rows(self) -> int:
        """Return the number of rows according to the counts in the blocks; see `stored_file.py`."""
        return count_records(self._container)

    def batches(
        self,
        fields: tuple[NestedField, ...],  # noqa: ARG002 - Parquet needs it
        row_filter: BooleanExpression,  # noqa: ARG002 - the same
        row_test: RowTest | None = None,  # noqa: ARG002 - the same
        skipped: SkippedRows | None = None,  # noqa: ARG002 - the same
    ) -> Iterator[StoredBatch]:
        """Yield the rows of the blocks that start in the task's split; see `stored_file.py`."""
        task = self._task
        is_whole = task.start == 0 and task.length >= task.file.file_size_in_bytes
        end = task.start + task.length
        waiting: list[dict[str, Any]] = []
        first_row = rows_before = 0
        for block in raw_blocks(self._container):
            if is_whole or task.start <= block.offset < end:
                if not waiting:
                    first_row = rows_before
                waiting += self._records(block)
                if len(waiting) >= _BATCH_ROWS:
                    yield self._batch(first_row, waiting)
                    waiting = []
            rows_before += block.count
        if waiting:
            yield self._batch(first_row, waiting)

    def _records(self, block: RawBlock) -> list[dict[str, Any]]:
        data = BytesIO(read_block(self._container, block))
        try:
            # Parsed only once, because the schema is the same for all calls.
            return [fastavro.schemaless_reader(data, self._decoder_schema, None) for _ in range(block.count)]  # type: ignore[misc]
        except (EOFError, ValueError, IndexError, TypeError, KeyError, OverflowError, MemoryError) as error:
            raise DataFileFormatError(
                f"the block of {self._path} at byte {block.offset} does not contain the records that it claims: {type(error).__name__} {error}",
                path=self._path,
                next_step=RESTORE,
            ) from error

    def _batch(self, first_row: int, records: list[dict[str, Any]]) -> StoredBatch:
        if not self._columns:
            return StoredBatch(first_row, without_columns(len(records)))
        try:
            arrays = [column.build([record[name] for record in records]) for column, name in zip(self._columns, self._names, strict=True)]
        except (ValueError, TypeError, OverflowError, pa.ArrowException) as error:
            raise DataFileFormatError(
                f"{self._path} contains a value that is not of its column's type: {error}",
                path=self._path,
                next_step=RESTORE,
            ) from error
        return StoredBatch(first_row, pa.RecordBatch.from_arrays(arrays, schema=self.schema))
