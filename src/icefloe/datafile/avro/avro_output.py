"""One Avro file being written: records made of Arrow rows, in blocks, behind a header with the table's schema and field ids.

Reading is `avro_rows.py`; which rows go into which file is `write.py`. Records are coded by fastavro. Spec: Appendix A, Avro.
"""

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import fastavro

from icefloe.datafile.avro.avro_file_schema import record_schema, without_logical_types
from icefloe.datafile.avro.avro_values import avro_records
from icefloe.datafile.leaves import Leaf, leaves_of
from icefloe.datafile.metrics_collector import MetricsCollector
from icefloe.datafile.metrics_modes import MetricsMode, metrics_modes
from icefloe.datafile.stored_form import stored_fields
from icefloe.kernel.avro.avro_codec import codec_name
from icefloe.kernel.avro.avro_container import BLOCK_BYTES, SYNC_LENGTH, block_bytes, header_bytes
from icefloe.kernel.manifest.data_file import DataFile, FileFormat
from icefloe.kernel.metadata import table_properties
from icefloe.kernel.partitioning.sort_order import UNSORTED_SORT_ORDER, SortOrder
from icefloe.kernel.ports import FileIO
from icefloe.kernel.schema.arrow_schema import schema_to_arrow
from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.schema.schema_json import schema_to_json
from icefloe.kernel.storage_errors import storage_error
from icefloe.kernel.types import NestedField

# The table schema in an Avro file's metadata, under the name Java uses.
SCHEMA_KEY = "iceberg.schema"
# Bytes of Arrow memory. Records are Python objects while they are coded, many times as large.
_MAX_ARROW_BYTES = 16 * 1024 * 1024
_CODED_ROWS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroForm:
    """How the files of one table are written. `rows` is the Arrow schema that rows come in, `coded` the schema that records are coded by."""

    rows: Any
    fields: tuple[NestedField, ...]
    schema_text: str
    coded: Any
    metadata: Mapping[str, str]
    codec: str
    columns: tuple[tuple[Leaf, MetricsMode], ...]
    row_group_bytes: int
    target_file_bytes: int
    extension: str = "avro"

    def open(self, io: FileIO, location: str, sample: Any) -> "AvroOutput":  # noqa: ARG002 - Parquet needs it
        """A new file; the sample is not needed."""
        return AvroOutput(io, location, self)


def avro_form(schema: Schema, properties: Mapping[str, str], sort_order: SortOrder = UNSORTED_SORT_ORDER) -> AvroForm:
    """The form of a table's Avro files, from its schema, sort order and properties. Raises as `written.file_form`."""
    leaves = leaves_of(schema)
    fields = stored_fields(schema.fields)
    declared = record_schema(fields)
    target = table_properties.TARGET_FILE_SIZE_BYTES.read(properties)
    return AvroForm(
        rows=schema_to_arrow(schema),
        fields=fields,
        schema_text=json.dumps(declared, separators=(",", ":")),
        coded=fastavro.parse_schema(without_logical_types(declared)),
        metadata={SCHEMA_KEY: json.dumps(schema_to_json(schema), separators=(",", ":"))},
        codec=codec_name(table_properties.AVRO_CODEC.read(properties)),
        columns=tuple(zip(leaves, metrics_modes(schema, leaves, properties, sort_order), strict=True)),
        row_group_bytes=min(_MAX_ARROW_BYTES, target),
        target_file_bytes=target,
    )


class AvroOutput:
    """A data file between its header and its last block."""

    def __init__(self, io: FileIO, location: str, form: AvroForm) -> None:
        self.location = location
        self._form = form
        self._seen = MetricsCollector(form.columns)
        self._block = BytesIO()
        self._records = 0
        # Any 16 bytes that other files do not have; the location is this file's alone.
        self._sync = hashlib.blake2b(location.encode(), digest_size=SYNC_LENGTH).digest()
        self._out = io.open_output(location)
        try:
            self._out.write(header_bytes(form.schema_text, form.metadata, form.codec, self._sync))
        except BaseException as error:
            with suppress(OSError):
                self._out.close()
            if isinstance(error, OSError):
                raise storage_error(error, location) from error
            raise

    def write_row_group(self, table: Any) -> None:
        """Writes an Arrow table of the form's `rows` schema, in blocks."""
        self._seen.see(table)
        for batch in table.to_batches(max_chunksize=_CODED_ROWS):
            for record in avro_records(batch, self._form.fields):
                fastavro.schemaless_writer(self._block, self._form.coded, record)
                self._records += 1
                if self._block.tell() >= BLOCK_BYTES:
                    self._flush()

    def _flush(self) -> None:
        if not self._records:
            return
        try:
            self._out.write(block_bytes(self._records, self._block.getvalue(), self._form.codec, self._sync))
        except OSError as error:
            raise storage_error(error, self.location) from error
        self._block, self._records = BytesIO(), 0

    @property
    def length(self) -> int:
        """Bytes written so far."""
        return int(self._out.tell())

    def close(self, partition: tuple[Any, ...], *, sort_order_id: int | None, spec_id: int) -> DataFile:
        """Writes the last block and describes the finished file. Readers split Avro at any block, so no offsets are told."""
        self._flush()
        length = self.length
        try:
            self._out.close()
        except OSError as error:
            raise storage_error(error, self.location) from error
        return DataFile(
            file_path=self.location,
            file_format=FileFormat.AVRO,
            partition=partition,
            file_size_in_bytes=length,
            sort_order_id=sort_order_id,
            spec_id=spec_id,
            **self._seen.metrics(()).as_fields(),
        )

    def abandon(self) -> None:
        """Closes what is open, so that the file can be deleted."""
        with suppress(OSError):
            self._out.close()
