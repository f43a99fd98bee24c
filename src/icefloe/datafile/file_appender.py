"""`FileAppender` and `FileAppenderFactory`: what the writers of data files of every format share; and the Arrow schema of a data file.

`parquet_appender.py`, `orc_appender.py` and `avro_appender.py` implement them, each with its own Arrow types for columns; `data_file_writer.py` decides which
rows are written to which file. Spec: Appendix A; Data File Fields.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import cycle
from typing import Any, ClassVar

import pyarrow as pa

from icefloe.datafile.file_metrics import FileMetrics, Leaf, MetricsMode
from icefloe.datafile.projection import Projector, columns_by_id
from icefloe.errors import UnsupportedTypeError
from icefloe.io.storage_errors import storage_error
from icefloe.spec.manifest.data_file import DataFile, FileFormat
from icefloe.spec.ports import FileIO, unique_output
from icefloe.spec.schema.metadata_columns import LAST_UPDATED_SEQUENCE_NUMBER, MAX_USER_FIELD_ID
from icefloe.spec.types import BooleanType, IcebergType, ListType, MapType, NestedField, StructType, UnknownType

# The column of a file, or the field of a struct, whose columns are all of unknown type. The ids are reserved by the format and have no other use; more structs
# of a file than there are ids share them.
_PLACEHOLDER = "_no_columns"
_PLACEHOLDER_IDS = range(MAX_USER_FIELD_ID + 1, LAST_UPDATED_SEQUENCE_NUMBER.field_id)
# Function from a primitive type to the Arrow type that a format stores.
PrimitiveToArrow = Callable[[IcebergType], Any]
# Function from a field to the metadata of its Arrow field.
FieldMetadata = Callable[[NestedField], dict[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileAppenderFactory(ABC):
    """The schema and writer options of one table's data files. Rows have `arrow_schema`, files have `fields`; sizes are in bytes."""

    extension: ClassVar[str]  # of file names, without the dot
    arrow_schema: Any
    fields: tuple[NestedField, ...]
    columns: tuple[tuple[Leaf, MetricsMode], ...]
    row_group_bytes: int  # of Arrow memory that one row group may have
    target_file_bytes: int  # at which a file is closed and the next one opened

    @abstractmethod
    def new_appender(self, io: FileIO, location: str, sample: Any) -> "FileAppender":
        """Create a file; `sample` is the first table that will be written to it."""

    def small_file_encoder(self, table: Any) -> "SmallFileEncoder | None":  # noqa: ARG002 - for formats with an encoder
        """Return the encoder of small files with rows of a table of `arrow_schema`; None if the format has none."""
        return None


class SmallFileEncoder(ABC):
    """Encodes small files, each with a slice of one table, in memory. Threads may share it."""

    file_format: ClassVar[FileFormat]

    @abstractmethod
    def encode(self, start: int, rows: int) -> tuple[Any, FileMetrics]:
        """Return the content of a file with `rows` rows of the table from row number `start` on, and its metrics."""


class FileAppender(ABC):
    """A data file that is being written. If opening, writing or closing it fails, the caller that opened it deletes it."""

    _format: ClassVar[FileFormat]
    _out: Any  # the output file
    _writer: Any = None  # Arrow's writer, if the format has one

    def __init__(self, location: str) -> None:
        self.location = location

    @property
    def length(self) -> int:
        """Return the bytes written so far; an estimate, if the format buffers rows."""
        return int(self._out.tell())

    @abstractmethod
    def write_row_group(self, table: Any) -> None:
        """Write an Arrow table of the factory's `arrow_schema`: one row group, if the format has them."""

    @abstractmethod
    def _write_end(self) -> int:
        """Write the end of the file, close it, and return its length in bytes."""

    @abstractmethod
    def _metrics(self) -> FileMetrics:
        """Return the metrics of the closed file."""

    def close(self, partition: tuple[Any, ...], *, sort_order_id: int | None, spec_id: int) -> DataFile:
        """Write the end of the file, and return its manifest fields."""
        try:
            length = self._write_end()
        except OSError as error:
            raise storage_error(error, self.location) from error
        return data_file_of(self.location, self._format, length, self._metrics(), partition, sort_order_id=sort_order_id, spec_id=spec_id)

    def abandon(self) -> None:
        """Close the file, so that it can be deleted. Storage errors are ignored, because the caller raises the error that came first."""
        if self._writer is not None:
            with suppress(OSError, RuntimeError, pa.ArrowException):
                self._writer.close()
            # A writer that is not closed would close itself when it is garbage-collected, and warn.
            self._writer.is_open = False
        with suppress(OSError):
            self._out.close()

    @contextmanager
    def _closed_on_failure(self) -> Iterator[None]:
        """Close the output file after a failure or Ctrl-C within the block."""
        try:
            yield
        except BaseException as error:
            with suppress(OSError):
                self._out.close()
            if isinstance(error, OSError):
                raise storage_error(error, self.location) from error
            raise


def data_file_of(
    location: str,
    file_format: FileFormat,
    length: int,
    metrics: FileMetrics,
    partition: tuple[Any, ...],
    *,
    sort_order_id: int | None,
    spec_id: int,
) -> DataFile:
    """Return the manifest fields of a new data file of `length` bytes."""
    return DataFile(
        file_path=location,
        file_format=file_format,
        partition=partition,
        file_size_in_bytes=length,
        sort_order_id=sort_order_id,
        spec_id=spec_id,
        **metrics.as_fields(),
    )


def new_output(io: FileIO, location: str) -> Any:
    """Create the file of an appender, whose name has a UUID of its writer; or its caller has looked whether it is free."""
    return unique_output(io, location)


def file_fields(fields: tuple[NestedField, ...]) -> tuple[NestedField, ...]:
    """Return the fields that a file has: those whose type is not unknown, at every level; where none remains, a placeholder.

    No format keeps the number of rows without a column, and neither Parquet nor Avro a struct without a field. The placeholder is null in every row, and has an
    id that no column of a table may have, so that readers pass over it.

    Raises:
        UnsupportedTypeError: The element of a list or value of a map is of unknown type; no file format can store it.
    """
    return _known_fields(fields, cycle(_PLACEHOLDER_IDS))


def _known_fields(fields: tuple[NestedField, ...], placeholder_ids: Iterator[int]) -> tuple[NestedField, ...]:
    known_fields = tuple(
        replace(field, field_type=_without_unknown(field.field_type, field.name, placeholder_ids))
        for field in fields
        if not isinstance(field.field_type, UnknownType)
    )
    return known_fields or (NestedField(next(placeholder_ids), _PLACEHOLDER, BooleanType(), required=False),)


def _without_unknown(kind: IcebergType, name: str, placeholder_ids: Iterator[int]) -> IcebergType:
    if isinstance(kind, StructType):
        return StructType(*_known_fields(kind.fields, placeholder_ids))
    if isinstance(kind, ListType):
        return replace(kind, element=_check_known(kind.element, name, placeholder_ids))
    if isinstance(kind, MapType):
        key, value = (_check_known(part, name, placeholder_ids) for part in (kind.key_type, kind.value_type))
        return replace(kind, key_type=key, value_type=value)
    return kind


def _check_known(kind: IcebergType, name: str, placeholder_ids: Iterator[int]) -> IcebergType:
    if isinstance(kind, UnknownType):
        raise UnsupportedTypeError(
            f"column {name!r} has elements or values of unknown type, which no data file can store", next_step="give them a type first"
        )
    return _without_unknown(kind, name, placeholder_ids)


def file_arrow_schema(fields: tuple[NestedField, ...], primitive: PrimitiveToArrow, attributes: FieldMetadata) -> Any:
    """Return the Arrow schema of these fields in a format's files."""

    def arrow(field: NestedField) -> Any:
        return pa.field(field.name, type_of(field.field_type), nullable=not field.required, metadata=attributes(field))

    def type_of(kind: IcebergType) -> Any:
        if isinstance(kind, StructType):
            return pa.struct([arrow(inner) for inner in kind.fields])
        if isinstance(kind, ListType):
            return pa.list_(arrow(kind.element_field))
        if isinstance(kind, MapType):
            return pa.map_(arrow(kind.key_field), arrow(kind.value_field))
        return primitive(kind)

    return pa.schema([arrow(field) for field in fields])


def to_file_schema(table: Any, fields: tuple[NestedField, ...], file_schema: Any) -> Any:
    """Return an Arrow table, whose columns have field ids, with the columns and types of `file_schema`."""
    projector = Projector("", {})
    batches = [
        pa.RecordBatch.from_arrays(
            projector.struct(batch.column, columns_by_id(batch.schema), fields, file_schema, batch.num_rows), schema=file_schema
        )
        for batch in table.to_batches()
    ]
    return pa.Table.from_batches(batches, schema=file_schema)
