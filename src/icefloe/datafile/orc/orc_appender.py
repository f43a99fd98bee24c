"""`OrcAppender`: writes an ORC file; and its factory, with the writer's options from table properties, and the types and attributes of columns.

`orc_rows.py` reads ORC files; `data_file_writer.py` decides which rows are written to which file. Spec: Appendix A, ORC.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from icefloe.datafile.file_appender import FileAppender, FileAppenderFactory, file_arrow_schema, file_fields, new_output, to_file_schema
from icefloe.datafile.file_metrics import FileMetrics, columns_with_modes
from icefloe.datafile.metrics_collector import MetricsCollector
from icefloe.datafile.orc.orc_tail import stripes_of
from icefloe.errors import DataFileFormatError, Problem, SchemaMismatchError, UnsupportedTypeError
from icefloe.io.storage_errors import storage_error
from icefloe.lazy_imports import lazy_module
from icefloe.spec.arrow_values import numpy_of
from icefloe.spec.dates_and_times import format_timestamp
from icefloe.spec.manifest.data_file import FileFormat
from icefloe.spec.metadata import table_properties
from icefloe.spec.partitioning.sort_order import UNSORTED_SORT_ORDER, SortOrder
from icefloe.spec.ports import FileIO
from icefloe.spec.schema.arrow_schema import schema_to_arrow
from icefloe.spec.schema.arrow_types import type_to_arrow
from icefloe.spec.schema.schema import Schema
from icefloe.spec.temporal_arrays import as_numbers, times_in
from icefloe.spec.types import (
    BinaryType,
    FixedType,
    GeographyType,
    GeometryType,
    IcebergType,
    LongType,
    NestedField,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
    VariantType,
    children,
)

if TYPE_CHECKING:
    from pyarrow import orc
else:  # few tables have ORC data files
    orc = lazy_module("pyarrow.orc")

ID_ATTRIBUTE = "iceberg.id"
REQUIRED_ATTRIBUTE = "iceberg.required"
# Attributes that distinguish Iceberg types with the same ORC type. Spec: Appendix A, ORC.
_ATTRIBUTES: Mapping[type[IcebergType], tuple[str, str]] = {
    LongType: ("iceberg.long-type", "LONG"),
    TimeType: ("iceberg.long-type", "TIME"),
    TimestampType: ("iceberg.timestamp-unit", "MICROS"),
    TimestamptzType: ("iceberg.timestamp-unit", "MICROS"),
    TimestampNanoType: ("iceberg.timestamp-unit", "NANOS"),
    TimestamptzNanoType: ("iceberg.timestamp-unit", "NANOS"),
    UUIDType: ("iceberg.binary-type", "UUID"),
    FixedType: ("iceberg.binary-type", "FIXED"),
    BinaryType: ("iceberg.binary-type", "BINARY"),
    GeometryType: ("iceberg.binary-type", "GEOMETRY"),
    GeographyType: ("iceberg.binary-type", "GEOGRAPHY"),
    VariantType: ("iceberg.struct-type", "VARIANT"),
}
_NANOS_PER_SECOND = 1_000_000_000
_LENGTH_ATTRIBUTE = "iceberg.length"
# The assumed ratio of file bytes to Arrow memory until the first stripe is written: about the compression of numbers and short text by ORC and zlib.
_ASSUMED_COMPRESSION = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class OrcAppenderFactory(FileAppenderFactory):
    """A factory of appenders for one table's ORC files, with their schemas and options. Rows are converted to `file_schema`."""

    extension = "orc"
    file_schema: Any
    options: dict[str, Any]

    def new_appender(self, io: FileIO, location: str, sample: Any) -> "OrcAppender":  # noqa: ARG002 - for Parquet
        """Create a file. The sample is ignored, because this format has no encodings to choose."""
        return OrcAppender(io, location, self)


def orc_appender_factory(schema: Schema, properties: Mapping[str, str], sort_order: SortOrder = UNSORTED_SORT_ORDER) -> OrcAppenderFactory:
    """Return the factory for a table's ORC files. Raises the errors of `data_file_writer.appender_factory`."""
    fields = file_fields(schema.fields)
    target = table_properties.TARGET_FILE_SIZE_BYTES.read(properties)
    stripe = min(table_properties.ORC_STRIPE_SIZE_BYTES.read(properties), target)
    return OrcAppenderFactory(
        arrow_schema=schema_to_arrow(schema),
        file_schema=file_arrow_schema(fields, _stored_type, _attributes),
        fields=fields,
        options={
            "compression": "uncompressed" if (codec := table_properties.ORC_CODEC.read(properties)) == "none" else codec,
            "compression_strategy": table_properties.ORC_COMPRESSION_STRATEGY.read(properties),
            "stripe_size": stripe,
            "bloom_filter_columns": sorted(_bloom_columns(schema, fields, table_properties.ORC_BLOOM_FILTER_COLUMNS.read(properties))),
            "bloom_filter_fpp": table_properties.ORC_BLOOM_FILTER_FPP.read(properties),
        },
        columns=columns_with_modes(schema, properties, sort_order),
        row_group_bytes=stripe,
        target_file_bytes=target,
    )


def _stored_type(kind: IcebergType) -> Any:
    if isinstance(kind, TimeType):
        return pa.int64()
    if isinstance(kind, VariantType):
        return pa.struct([pa.field("metadata", pa.binary(), nullable=False), pa.field("value", pa.binary(), nullable=False)])
    if isinstance(kind, TimestampType | TimestamptzType):
        # Arrow reads ORC timestamps only as nanoseconds, so that timestamps outside of their range are refused here: they could not be read again.
        return pa.timestamp("ns", "UTC" if isinstance(kind, TimestamptzType) else None)
    return pa.binary() if isinstance(kind, UUIDType | FixedType) else type_to_arrow(kind)


def _attributes(field: NestedField) -> dict[str, str]:
    attributes = {ID_ATTRIBUTE: str(field.field_id), REQUIRED_ATTRIBUTE: "true" if field.required else "false"}
    type_attribute = _ATTRIBUTES.get(type(field.field_type))
    if type_attribute is not None:
        attributes[type_attribute[0]] = type_attribute[1]
    if isinstance(field.field_type, FixedType):
        attributes[_LENGTH_ATTRIBUTE] = str(field.field_type.length)
    return attributes


def _bloom_columns(schema: Schema, fields: tuple[NestedField, ...], names: str) -> set[int]:
    """Return the ORC column numbers of the named columns. All types of the tree are numbered, parents first; the root is 0."""
    field_ids = {schema.find_id(name.strip()) for name in names.split(",") if name.strip()} - {None}
    numbers: dict[int, int] = {}

    def count(inner: tuple[NestedField, ...]) -> None:
        for field in inner:
            numbers[field.field_id] = len(numbers) + 1
            count(children(field.field_type))

    count(fields)
    return {numbers[number] for number in field_ids if number in numbers}


class OrcAppender(FileAppender):
    """A writer of one ORC file, stripe by stripe."""

    _format = FileFormat.ORC

    def __init__(self, io: FileIO, location: str, factory: OrcAppenderFactory) -> None:
        """Create the file."""
        super().__init__(location)
        self._io = io
        self._factory = factory
        self._collector = MetricsCollector(factory.columns)
        # Arrow memory of all rows so far, and of the rows in written stripes.
        self._arrow_bytes = self._flushed_arrow_bytes = 0
        self._stripe_offsets: tuple[int, ...] = ()
        self._out = new_output(io, location)
        with self._closed_on_failure():
            self._writer = orc.ORCWriter(self._out, **factory.options)

    def write_row_group(self, table: Any) -> None:
        """Write an Arrow table, which the ORC writer divides into stripes. See `FileAppender.write_row_group`."""
        self._collector.update(table)
        try:
            rows = to_file_schema(table, self._factory.fields, self._factory.file_schema)
        except DataFileFormatError as error:
            raise SchemaMismatchError(
                f"the rows have a timestamp before 1677 or after 2262, which cannot be stored in ORC: {error.message}",
                next_step="set write.format.default to parquet or avro",
            ) from error
        _check_fractions(rows)
        before = int(self._out.tell())
        try:
            self._writer.write(_with_nulls_below_structs(rows))
        except OSError as error:
            raise storage_error(error, self.location) from error
        except pa.ArrowNotImplementedError as error:
            raise UnsupportedTypeError(
                f"ORC cannot store a column of this schema: {error}", next_step="change the type of the column, or write another format"
            ) from error
        if int(self._out.tell()) > before:
            self._flushed_arrow_bytes = self._arrow_bytes
        self._arrow_bytes += table.nbytes

    @property
    def length(self) -> int:
        """Return the bytes written so far, plus an estimate for rows that are still in memory because their stripe is not full."""
        written = int(self._out.tell())
        ratio = written / self._flushed_arrow_bytes if self._flushed_arrow_bytes else _ASSUMED_COMPRESSION
        return written + int((self._arrow_bytes - self._flushed_arrow_bytes) * min(ratio, 1.0))

    def _write_end(self) -> int:
        self._writer.close()
        length = int(self._out.tell())
        self._out.close()
        # The offsets of the stripes are only in the footer.
        with self._io.open_input(self.location) as file:
            self._stripe_offsets = tuple(stripe.offset for stripe in stripes_of(orc.ORCFile(file)))
        return length

    def _metrics(self) -> FileMetrics:
        return self._collector.metrics(self._stripe_offsets)


def _check_fractions(rows: Any) -> None:
    """Refuse fractions of a second before 1970.

    Arrow's writer rounds the seconds of such a time up, and writes negative nanoseconds. Java's readers, which include Spark, read it as a time that is a
    second earlier, or fail. Java's own writer cannot store the last second before 1970 either.

    Raises:
        SchemaMismatchError: A column has such a time.
    """
    problems = []
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        times = [
            numpy_of(as_numbers(leaf.drop_null()))
            for chunk in column.chunks
            for leaf in times_in(chunk)
            if pa.types.is_timestamp(leaf.type)
        ]
        early = next(
            (
                fractions
                for fractions in (numbers[(numbers < 0) & (numbers % _NANOS_PER_SECOND != 0)] for numbers in times)
                if len(fractions)
            ),
            None,
        )
        if early is not None:
            problems.append(Problem(where=name, what=f"has {format_timestamp(int(early[0]), utc=False, nanos=True)}"))
    if problems:
        raise SchemaMismatchError(
            "the rows have times before 1970 with a fraction of a second, which ORC cannot store so that every engine reads them",
            problems=problems,
            next_step="set write.format.default to parquet or avro, or truncate these times to seconds",
        )


def _with_nulls_below_structs(table: Any) -> Any:
    columns = [pa.chunked_array([_with_nulls_below(chunk) for chunk in column.chunks], column.type) for column in table.columns]
    return pa.Table.from_arrays(columns, schema=table.schema)


def _with_nulls_below(array: Any) -> Any:
    """Return the array with every field of a null struct set to null, at every level.

    For a null struct, Arrow's ORC writer writes a value if the field itself has no nulls, which shifts the values after it. For a slice, it also reads the
    validity of a struct's fields at the wrong offset and loses values; therefore slices are copied.
    """
    kind = array.type
    if array.offset:
        array = pa.concat_arrays([array, array.slice(0, 0)])
    if pa.types.is_struct(kind) and kind.num_fields:
        below = [_with_nulls_below(inner) for inner in array.flatten()]
        fields = [field.with_type(inner.type) for field, inner in zip(kind.fields, below, strict=True)]
        return pa.StructArray.from_arrays(below, fields=fields, mask=pc.is_null(array) if array.null_count else None)
    if pa.types.is_list(kind):
        values = _with_nulls_below(array.values)
        return pa.Array.from_buffers(kind, len(array), array.buffers()[:2], offset=array.offset, children=[values])
    if pa.types.is_map(kind):
        entries = pa.StructArray.from_arrays(
            [_with_nulls_below(array.keys), _with_nulls_below(array.items)], fields=[kind.key_field, kind.item_field]
        )
        return pa.Array.from_buffers(kind, len(array), array.buffers()[:2], offset=array.offset, children=[entries])
    return array
