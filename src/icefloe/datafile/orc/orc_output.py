"""One ORC file being written: the writer's options from table properties, the types and attributes of its columns, and the file from first row to footer.

Reading is `orc_rows.py`; which rows go into which file is `write.py`. Spec: Appendix A, ORC.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyarrow import orc

from icefloe.datafile.leaves import Leaf, leaves_of
from icefloe.datafile.metrics_collector import MetricsCollector
from icefloe.datafile.metrics_modes import MetricsMode, metrics_modes
from icefloe.datafile.orc.orc_tail import stripes_of
from icefloe.datafile.stored_form import stored_fields, stored_schema, to_stored, with_nulls_below
from icefloe.errors import DataFileFormatError, SchemaMismatchError, UnsupportedTypeError
from icefloe.kernel.manifest.data_file import DataFile, FileFormat
from icefloe.kernel.metadata import table_properties
from icefloe.kernel.partitioning.sort_order import UNSORTED_SORT_ORDER, SortOrder
from icefloe.kernel.ports import FileIO
from icefloe.kernel.schema.arrow_schema import schema_to_arrow, type_to_arrow
from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.storage_errors import storage_error
from icefloe.kernel.types import (
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

ID_ATTRIBUTE = "iceberg.id"
REQUIRED_ATTRIBUTE = "iceberg.required"
# What an ORC type alone does not say about the Iceberg type it stands for. Spec: Appendix A, ORC.
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
_LENGTH_ATTRIBUTE = "iceberg.length"
# How many bytes of a file a byte of Arrow becomes, until the first stripe shows it: about what ORC and zlib make of numbers and short text.
_FIRST_RATIO = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class OrcForm:
    """How the files of one table are written. `rows` is the Arrow schema that rows come in, `stored` the one they are written in."""

    rows: Any
    stored: Any
    fields: tuple[NestedField, ...]
    options: dict[str, Any]
    columns: tuple[tuple[Leaf, MetricsMode], ...]
    row_group_bytes: int
    target_file_bytes: int
    extension: str = "orc"

    def open(self, io: FileIO, location: str, sample: Any) -> "OrcOutput":  # noqa: ARG002 - Parquet needs it
        """A new file; the sample is not needed."""
        return OrcOutput(io, location, self)


def orc_form(schema: Schema, properties: Mapping[str, str], sort_order: SortOrder = UNSORTED_SORT_ORDER) -> OrcForm:
    """The form of a table's ORC files, from its schema, sort order and properties. Raises as `written.file_form`."""
    leaves = leaves_of(schema)
    fields = stored_fields(schema.fields)
    target = table_properties.TARGET_FILE_SIZE_BYTES.read(properties)
    stripe = min(table_properties.ORC_STRIPE_SIZE_BYTES.read(properties), target)
    return OrcForm(
        rows=schema_to_arrow(schema),
        stored=stored_schema(fields, _stored_type, _attributes),
        fields=fields,
        options={
            "compression": "uncompressed" if (codec := table_properties.ORC_CODEC.read(properties)) == "none" else codec,
            "compression_strategy": table_properties.ORC_COMPRESSION_STRATEGY.read(properties),
            "stripe_size": stripe,
            "bloom_filter_columns": sorted(_bloom_columns(schema, fields, table_properties.ORC_BLOOM_FILTER_COLUMNS.read(properties))),
            "bloom_filter_fpp": table_properties.ORC_BLOOM_FILTER_FPP.read(properties),
        },
        columns=tuple(zip(leaves, metrics_modes(schema, leaves, properties, sort_order), strict=True)),
        row_group_bytes=stripe,
        target_file_bytes=target,
    )


def _stored_type(kind: IcebergType) -> Any:
    if isinstance(kind, TimeType):
        return pa.int64()
    if isinstance(kind, VariantType):
        return pa.struct([pa.field("metadata", pa.binary(), nullable=False), pa.field("value", pa.binary(), nullable=False)])
    if isinstance(kind, TimestampType | TimestamptzType):
        # Arrow reads ORC's timestamps as nanoseconds only: what those cannot hold is refused here, as it could not be read again.
        return pa.timestamp("ns", "UTC" if isinstance(kind, TimestamptzType) else None)
    return pa.binary() if isinstance(kind, UUIDType | FixedType) else type_to_arrow(kind)


def _attributes(field: NestedField) -> dict[str, str]:
    found = {ID_ATTRIBUTE: str(field.field_id), REQUIRED_ATTRIBUTE: "true" if field.required else "false"}
    extra = _ATTRIBUTES.get(type(field.field_type))
    if extra is not None:
        found[extra[0]] = extra[1]
    if isinstance(field.field_type, FixedType):
        found[_LENGTH_ATTRIBUTE] = str(field.field_type.length)
    return found


def _bloom_columns(schema: Schema, fields: tuple[NestedField, ...], names: str) -> set[int]:
    """The ORC column numbers of the named columns: every type of the tree counts, parents first, the root being 0."""
    wanted = {schema.find_id(name.strip()) for name in names.split(",") if name.strip()} - {None}
    numbers: dict[int, int] = {}

    def count(inner: tuple[NestedField, ...]) -> None:
        for field in inner:
            numbers[field.field_id] = len(numbers) + 1
            count(children(field.field_type))

    count(fields)
    return {numbers[number] for number in wanted if number in numbers}


class OrcOutput:
    """A data file between its first rows and its footer."""

    def __init__(self, io: FileIO, location: str, form: OrcForm) -> None:
        self.location = location
        self._io = io
        self._form = form
        self._seen = MetricsCollector(form.columns)
        self._given = self._flushed_given = 0
        self._out = io.open_output(location)
        try:
            self._writer = orc.ORCWriter(self._out, **form.options)
        except BaseException as error:
            with suppress(OSError):
                self._out.close()
            if isinstance(error, OSError):
                raise storage_error(error, location) from error
            raise

    def write_row_group(self, table: Any) -> None:
        """Writes an Arrow table of the form's `rows` schema; ORC makes its stripes itself."""
        self._seen.see(table)
        try:
            stored = to_stored(table, self._form.fields, self._form.stored)
        except DataFileFormatError as error:
            raise SchemaMismatchError(
                f"the rows have a timestamp before 1677 or after 2262, which cannot be kept in ORC: {error.message}",
                next_step="set write.format.default to parquet or avro",
            ) from error
        before = int(self._out.tell())
        try:
            self._writer.write(_ready(stored))
        except OSError as error:
            raise storage_error(error, self.location) from error
        except pa.ArrowNotImplementedError as error:
            raise UnsupportedTypeError(f"ORC cannot hold a column of this schema: {error}") from error
        if int(self._out.tell()) > before:
            self._flushed_given = self._given
        self._given += table.nbytes

    @property
    def length(self) -> int:
        """Bytes written so far, with a guess of those that wait in memory for their stripe to be full."""
        written = int(self._out.tell())
        ratio = written / self._flushed_given if self._flushed_given else _FIRST_RATIO
        return written + int((self._given - self._flushed_given) * min(ratio, 1.0))

    def close(self, partition: tuple[Any, ...], *, sort_order_id: int | None, spec_id: int) -> DataFile:
        """Writes the footer and describes the finished file."""
        try:
            self._writer.close()
            length = int(self._out.tell())
            self._out.close()
            # Arrow does not say where stripes went, but for the footer.
            with self._io.open_input(self.location) as file:
                offsets = tuple(stripe.offset for stripe in stripes_of(orc.ORCFile(file)))
        except OSError as error:
            raise storage_error(error, self.location) from error
        return DataFile(
            file_path=self.location,
            file_format=FileFormat.ORC,
            partition=partition,
            file_size_in_bytes=length,
            sort_order_id=sort_order_id,
            spec_id=spec_id,
            **self._seen.metrics(offsets).as_fields(),
        )

    def abandon(self) -> None:
        """Closes what is open, so that the file can be deleted; storage that fails now has failed before, and that error is the one to raise."""
        with suppress(OSError, RuntimeError, pa.ArrowException):
            self._writer.close()
        self._writer.is_open = False
        with suppress(OSError):
            self._out.close()


def _ready(table: Any) -> Any:
    columns = [pa.chunked_array([with_nulls_below(chunk) for chunk in column.chunks], column.type) for column in table.columns]
    return pa.Table.from_arrays(columns, schema=table.schema)
