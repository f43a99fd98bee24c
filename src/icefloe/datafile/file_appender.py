"""`FileAppender` and `FileAppenderFactory`: the common base of the data file writers for all formats; and the Arrow schema of a data file.

`parquet_appender.py`, `orc_appender.py` and `avro_appender.py` implement them, each with Arrow types for its format; `data_file_writer.py` decides which rows
are written to which file. Spec: Appendix A; Data File Fields.
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

# The placeholder column of a file, or field of a struct, whose columns all have unknown type. The format reserves these ids; if a file has more such structs
# than there are ids, they share ids.
_PLACEHOLDER = "_no_columns"
_PLACEHOLDER_IDS = range(MAX_USER_FIELD_ID + 1, LAST_UPDATED_SEQUENCE_NUMBER.field_id)
# A function from a primitive type to the Arrow type that a format stores.
PrimitiveToArrow = Callable[[IcebergType], Any]
# A function from a field to the metadata of its Arrow field.
FieldMetadata = Callable[[NestedField], dict[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileAppenderFactory(ABC):
    """A factory of appenders for the data files of one table in one format. It has the schemas and the writer options, which all files share.

    `arrow_schema` is the Arrow schema of the rows that are passed to appenders; `fields` are the columns that the files store.
    """

    extension: ClassVar[str]  # the extension of file names, without the dot
    arrow_schema: Any
    fields: tuple[NestedField, ...]
    columns: tuple[tuple[Leaf, MetricsMode], ...]
    row_group_bytes: int  # the maximum Arrow memory of a row group
    target_file_bytes: int  # the size at which a file is closed and the next one opened

    @abstractmethod
    def new_appender(self, io: FileIO, location: str, sample: Any) -> "FileAppender":
        """Create a file. `sample` is the first table that will be written to it."""

    def small_file_encoder(self, table: Any) -> "SmallFileEncoder | None":  # noqa: ARG002 - for formats with an encoder
        """Return an encoder for small files with rows of a table with `arrow_schema`; None if the format has no such encoder."""
        return None


class SmallFileEncoder(ABC):
    """An encoder of many small files, each with a slice of one table, in memory. Threads may share it."""

    file_format: ClassVar[FileFormat]

    @abstractmethod
    def encode(self, start: int, rows: int) -> tuple[Any, FileMetrics]:
        """Return the content of a file with `rows` rows of the table, beginning with row number `start`, and its metrics."""


class FileAppender(ABC):
    """A writer of one data file. If opening, writing or closing fails, the caller that opened the file deletes it."""

    _format: ClassVar[FileFormat]
    _out: Any  # the open output file
    _writer: Any = None  # Arrow's writer, if the format has one

    def __init__(self, location: str) -> None:
        self.location = location

    @property
    def length(self) -> int:
        """Return the number of bytes written so far; an estimate if the format buffers rows."""
        return int(self._out.tell())

    @abstractmethod
    def write_row_group(self, table: Any) -> None:
        """Write an Arrow table with the factory's `arrow_schema`, as one row group if the format has row groups."""

    @abstractmethod
    def _write_end(self) -> int:
        """Write the end of the file, close it, and return its length in bytes."""

    @abstractmethod
    def _metrics(self) -> FileMetrics:
        """Return the metrics of the closed file."""

    def close(self, partition: tuple[Any, ...], *, sort_order_id: int | None, spec_id: int) -> DataFile:
        """Write the end of the file, close it, and return the file as a `DataFile`."""
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
            # An unclosed writer would close itself when it is garbage-collected, and warn.
            self._writer.is_open = False
        with suppress(OSError):
            self._out.close()

    @contextmanager
    def _closed_on_failure(self) -> Iterator[None]:
        """If the block fails or is interrupted, close the output file."""
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
    """Return a new data file of `length` bytes as a `DataFile`."""
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
    """Create the file of an appender. Its name contains a UUID of the writer, or the caller has checked that the name is free."""
    return unique_output(io, location)


def file_fields(fields: tuple[NestedField, ...]) -> tuple[NestedField, ...]:
    """Return the fields that a file stores: at every level without those of unknown type. If no field remains, a placeholder is returned.

    The placeholder is needed because no format stores the number of rows without a column, and Parquet and Avro do not store structs without fields. It is null
    in every row, and has a reserved id, so that readers ignore it.

    Raises:
        UnsupportedTypeError: The element of a list or the value of a map has unknown type, which no file format can store.
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
    """Return the Arrow schema of these fields in the files of a format."""

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
    """Convert an Arrow table, whose columns have field ids, to the columns and types of `file_schema`."""
    projector = Projector("", {})
    batches = [
        pa.RecordBatch.from_arrays(
            projector.struct(batch.column, columns_by_id(batch.schema), fields, file_schema, batch.num_rows), schema=file_schema
        )
        for batch in table.to_batches()
    ]
    return pa.Table.from_batches(batches, schema=file_schema)
