"""One Parquet file being written: the writer's options from table properties, the Arrow schema of its columns, and the file from first row to footer.

Which rows go into which file is `write.py`. Spec: Appendix A, Parquet.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from inspect import signature
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from icefloe.datafile.dictionary_encoding import dictionary_columns
from icefloe.datafile.file_metrics import Observations, file_metrics
from icefloe.datafile.leaves import Leaf, leaves_of
from icefloe.datafile.metrics_modes import MetricsMode, metrics_modes
from icefloe.datafile.parquet.bloom_filters import BloomFilters, bloom_filters
from icefloe.datafile.parquet.parquet_annotations import EndHeld, annotations
from icefloe.datafile.stored_form import stored_fields, stored_schema, to_stored
from icefloe.errors import InvalidPropertyError, UnsupportedTypeError
from icefloe.kernel.manifest.data_file import DataFile, FileFormat
from icefloe.kernel.metadata import table_properties
from icefloe.kernel.partitioning.sort_order import UNSORTED_SORT_ORDER, SortOrder
from icefloe.kernel.ports import FileIO
from icefloe.kernel.schema.arrow_schema import FIELD_ID_KEY, schema_to_arrow, type_to_arrow
from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.schema.schema_json import schema_to_json
from icefloe.kernel.storage_errors import storage_error
from icefloe.kernel.types import IcebergType, NestedField, UUIDType

# The table schema in a Parquet file's key-value metadata, under the name Java uses.
SCHEMA_KEY = "iceberg.schema"
# Older releases of pyarrow limit pages by bytes alone; their pages are then wider, and nothing else differs.
_LIMITS_PAGE_ROWS = "max_rows_per_page" in signature(pq.ParquetWriter.__init__).parameters


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetForm:
    """How the files of one table are written. `rows` is the Arrow schema that rows come in, `stored` the one they are written in."""

    rows: Any
    stored: Any
    fields: tuple[NestedField, ...]
    schema_text: str
    options: dict[str, Any]
    columns: tuple[tuple[Leaf, MetricsMode], ...]
    # What Arrow cannot say in the footer itself, by field id.
    annotations: Mapping[int, bytes]
    blooms: BloomFilters
    row_group_bytes: int
    target_file_bytes: int
    extension: str = "parquet"

    def open(self, io: FileIO, location: str, sample: Any) -> "OpenFile":
        """A new file; `sample` is the first row group to come, from which encodings are chosen."""
        return OpenFile(io, location, self, sample)


def parquet_form(schema: Schema, properties: Mapping[str, str], sort_order: SortOrder = UNSORTED_SORT_ORDER) -> ParquetForm:
    """The form of a table's Parquet files, from its schema, sort order and properties.

    Raises:
        InvalidPropertyError: a property of the writer has a value it cannot have.
        UnsupportedTypeError: Parquet cannot hold a column of the schema.
    """
    leaves = leaves_of(schema)
    fields = stored_fields(schema.fields)
    return ParquetForm(
        rows=schema_to_arrow(schema),
        stored=stored_schema(fields, _stored_type, _attributes),
        fields=fields,
        schema_text=json.dumps(schema_to_json(schema), separators=(",", ":")),
        options=writer_options(properties),
        annotations=annotations(fields),
        blooms=bloom_filters(leaves, properties),
        columns=tuple(zip(leaves, metrics_modes(schema, leaves, properties, sort_order), strict=True)),
        row_group_bytes=table_properties.PARQUET_ROW_GROUP_SIZE_BYTES.read(properties),
        target_file_bytes=table_properties.TARGET_FILE_SIZE_BYTES.read(properties),
    )


_PAGE_VERSIONS = {"v1": "1.0", "v2": "2.0"}


def writer_options(properties: Mapping[str, str]) -> dict[str, Any]:
    """The keyword arguments of `pyarrow.parquet.ParquetWriter` for the `write.parquet.*` properties."""
    codec = table_properties.PARQUET_CODEC.read(properties)
    level = table_properties.PARQUET_COMPRESSION_LEVEL.read(properties)
    options: dict[str, Any] = {
        "compression": "none" if codec == "uncompressed" else codec,
        "compression_level": level if codec in ("zstd", "gzip", "brotli") else None,
        "data_page_version": _PAGE_VERSIONS[table_properties.PARQUET_PAGE_VERSION.read(properties)],
        "data_page_size": table_properties.PARQUET_PAGE_SIZE_BYTES.read(properties),
        "dictionary_pagesize_limit": table_properties.PARQUET_DICT_SIZE_BYTES.read(properties),
        # Decimals of up to 18 digits are int32 and int64. Spec: Appendix A, Parquet.
        "store_decimal_as_integer": True,
        # Arrow's own schema is left out: the table schema says more.
        "store_schema": False,
        "write_page_index": True,
    }
    if _LIMITS_PAGE_ROWS:
        options["max_rows_per_page"] = table_properties.PARQUET_PAGE_ROW_LIMIT.read(properties)
    if level is not None and options["compression_level"] is not None:
        _check_level(codec, level)
    return options


def _check_level(codec: str, level: int) -> None:
    low, high = pa.Codec.minimum_compression_level(codec), pa.Codec.maximum_compression_level(codec)
    if not low <= level <= high:
        name = table_properties.PARQUET_COMPRESSION_LEVEL.name
        raise InvalidPropertyError(f"{name} is {level}, but {codec} has levels {low} to {high}", next_step=f"set {name} to one of these")


def _stored_type(kind: IcebergType) -> Any:
    """UUIDs carry Parquet's UUID annotation, which Arrow writes for its extension type alone."""
    return pa.uuid() if isinstance(kind, UUIDType) else type_to_arrow(kind)


def _attributes(field: NestedField) -> dict[str, str]:
    return {FIELD_ID_KEY.decode(): str(field.field_id)}


class OpenFile:
    """A data file between its first row group and its footer. Whoever opens it deletes it where that, or anything after it, fails."""

    def __init__(self, io: FileIO, location: str, form: ParquetForm, sample: Any) -> None:
        """`sample` is the first row group to come, from which encodings are chosen."""
        self.location = location
        self._form = form
        self._observed = Observations(form.columns)
        self._footers: list[Any] = []
        dictionaries = dictionary_columns(sample, (leaf for leaf, _ in form.columns))
        self._out = EndHeld(io.open_output(location)) if form.annotations else io.open_output(location)
        try:
            self._writer = pq.ParquetWriter(
                self._out,
                form.stored,
                metadata_collector=self._footers,
                use_dictionary=dictionaries,
                **form.options,
                **form.blooms.options(sample.num_rows),
            )
        except BaseException as error:
            with suppress(OSError):
                self._out.close()
            if isinstance(error, pa.ArrowNotImplementedError):
                raise UnsupportedTypeError(f"Parquet cannot hold a column of this schema: {error}") from error
            if isinstance(error, OSError):
                raise storage_error(error, location) from error
            raise

    def write_row_group(self, table: Any) -> None:
        """Writes an Arrow table of the form's `rows` schema as one row group."""
        self._observed.see(table)
        stored = table if self._form.stored.equals(table.schema) else to_stored(table, self._form.fields, self._form.stored)
        try:
            self._writer.write_table(stored, row_group_size=max(1, stored.num_rows))
        except OSError as error:
            raise storage_error(error, self.location) from error

    @property
    def length(self) -> int:
        """Bytes written so far."""
        return int(self._out.tell())

    def close(self, partition: tuple[Any, ...], *, sort_order_id: int | None, spec_id: int) -> DataFile:
        """Writes the footer and describes the finished file."""
        try:
            # Given here, as Arrow leaves a schema's own metadata out where it does not store the schema.
            self._writer.add_key_value_metadata({SCHEMA_KEY: self._form.schema_text})
            if isinstance(self._out, EndHeld):
                self._out.hold()
            self._writer.close()
            if isinstance(self._out, EndHeld):
                self._out.release(self._form.annotations)
            length = self.length
            self._out.close()
        except OSError as error:
            raise storage_error(error, self.location) from error
        return DataFile(
            file_path=self.location,
            file_format=FileFormat.PARQUET,
            partition=partition,
            file_size_in_bytes=length,
            sort_order_id=sort_order_id,
            spec_id=spec_id,
            **file_metrics(self._footers[0], self._observed).as_fields(),
        )

    def abandon(self) -> None:
        """Closes what is open, so that the file can be deleted; storage that fails now has failed before, and that error is the one to raise."""
        with suppress(OSError, RuntimeError, pa.ArrowException):
            self._writer.close()
        # A writer that could not be closed would try again when it is collected, and warn.
        self._writer.is_open = False
        with suppress(OSError):
            self._out.close()
