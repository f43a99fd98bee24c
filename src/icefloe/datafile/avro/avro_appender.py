"""`AvroAppender`: writes an Avro file in blocks of records after a header with the schema and field ids; and its factory.

fastavro encodes the records. `avro_rows.py` reads Avro files; `data_file_writer.py` decides which rows are written to which file. Spec: Appendix A, Avro.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any

from icefloe.datafile.avro.avro_file_schema import record_schema, without_logical_types
from icefloe.datafile.avro.avro_values import avro_records
from icefloe.datafile.file_appender import FileAppender, FileAppenderFactory, file_fields, new_output
from icefloe.datafile.file_metrics import FileMetrics, columns_with_modes
from icefloe.datafile.metrics_collector import MetricsCollector
from icefloe.io.storage_errors import storage_error
from icefloe.lazy_imports import lazy_module
from icefloe.spec.avro.avro_codec import codec_name
from icefloe.spec.avro.avro_container import BLOCK_BYTES, SYNC_LENGTH, block_bytes, header_bytes
from icefloe.spec.manifest.data_file import FileFormat
from icefloe.spec.metadata import table_properties
from icefloe.spec.partitioning.sort_order import UNSORTED_SORT_ORDER, SortOrder
from icefloe.spec.ports import FileIO
from icefloe.spec.schema.arrow_schema import schema_to_arrow
from icefloe.spec.schema.schema import Schema
from icefloe.spec.schema.schema_json import schema_to_json

if TYPE_CHECKING:
    import hashlib

    import fastavro
else:  # few tables have Avro data files, so that fastavro is imported late
    fastavro = lazy_module("fastavro")
    hashlib = lazy_module("hashlib")

# Key of the table schema in an Avro file's metadata; Java uses the same.
SCHEMA_KEY = "iceberg.schema"
# The maximum of Arrow memory of one table. Records are Python objects while they are encoded, which take many times as much.
_MAX_ARROW_BYTES = 16 * 1024 * 1024
_ENCODED_ROWS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroAppenderFactory(FileAppenderFactory):
    """A factory of appenders for one table's Avro files, with their schemas and options. fastavro encodes records by `encoder_schema`."""

    extension = "avro"
    schema_text: str
    encoder_schema: Any
    metadata: Mapping[str, str]
    codec: str

    def new_appender(self, io: FileIO, location: str, sample: Any) -> "AvroAppender":  # noqa: ARG002 - for Parquet
        """Create a file. The sample is ignored, because this format has no encodings to choose."""
        return AvroAppender(io, location, self)


def avro_appender_factory(
    schema: Schema, properties: Mapping[str, str], sort_order: SortOrder = UNSORTED_SORT_ORDER
) -> AvroAppenderFactory:
    """Return the factory for a table's Avro files. Raises the errors of `data_file_writer.appender_factory`."""
    fields = file_fields(schema.fields)
    declared = record_schema(fields)
    target = table_properties.TARGET_FILE_SIZE_BYTES.read(properties)
    return AvroAppenderFactory(
        arrow_schema=schema_to_arrow(schema),
        fields=fields,
        schema_text=json.dumps(declared, separators=(",", ":")),
        encoder_schema=fastavro.parse_schema(without_logical_types(declared)),
        metadata={SCHEMA_KEY: json.dumps(schema_to_json(schema), separators=(",", ":"))},
        codec=codec_name(table_properties.AVRO_CODEC.read(properties)),
        columns=columns_with_modes(schema, properties, sort_order),
        row_group_bytes=min(_MAX_ARROW_BYTES, target),
        target_file_bytes=target,
    )


class AvroAppender(FileAppender):
    """A writer of one Avro file, block by block. Its metrics have no split offsets, because readers can split Avro files at any block."""

    _format = FileFormat.AVRO

    def __init__(self, io: FileIO, location: str, factory: AvroAppenderFactory) -> None:
        """Create the file and write its header."""
        super().__init__(location)
        self._factory = factory
        self._collector = MetricsCollector(factory.columns)
        self._block = BytesIO()
        self._records = 0
        # The sync marker must differ between files; the location is unique.
        self._sync = hashlib.blake2b(location.encode(), digest_size=SYNC_LENGTH).digest()
        self._out = new_output(io, location)
        with self._closed_on_failure():
            self._out.write(header_bytes(factory.schema_text, factory.metadata, factory.codec, self._sync))

    def write_row_group(self, table: Any) -> None:
        """Write an Arrow table as blocks of records. See `FileAppender.write_row_group`."""
        self._collector.update(table)
        for batch in table.to_batches(max_chunksize=_ENCODED_ROWS):
            for record in avro_records(batch, self._factory.fields):
                fastavro.schemaless_writer(self._block, self._factory.encoder_schema, record)
                self._records += 1
                if self._block.tell() >= BLOCK_BYTES:
                    self._flush()

    def _flush(self) -> None:
        if not self._records:
            return
        try:
            self._out.write(block_bytes(self._records, self._block.getvalue(), self._factory.codec, self._sync))
        except OSError as error:
            raise storage_error(error, self.location) from error
        self._block, self._records = BytesIO(), 0

    def _write_end(self) -> int:
        self._flush()
        length = self.length
        self._out.close()
        return length

    def _metrics(self) -> FileMetrics:
        return self._collector.metrics(())
