"""`ParquetAppender`: writes a Parquet file; and its factory, with the writer's options from table properties, and the Arrow schema of the file.

Table properties select the columns with bloom filters; a sample of the first rows decides which columns have dictionaries. `data_file_writer.py` decides which
rows are written to which file. Spec: Appendix A, Parquet.
"""

import json
import logging
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icefloe.datafile.file_appender import (
    FileAppender,
    FileAppenderFactory,
    SmallFileEncoder,
    file_arrow_schema,
    file_fields,
    new_output,
    to_file_schema,
)
from icefloe.datafile.file_metrics import FileMetrics, Leaf, ParquetMetrics, RowObservations, columns_with_modes
from icefloe.datafile.parquet.parquet_annotations import DeferredFooterFile, annotations
from icefloe.datafile.variant_columns import infer_typed_value, shredded_type, stored_paths
from icefloe.datafile.variant_shredder import shred_variants
from icefloe.errors import InvalidPropertyError, UnsupportedTypeError, in_one_line
from icefloe.io.storage_errors import storage_error
from icefloe.lazy_imports import lazy_module
from icefloe.spec.arrow_values import positions_array
from icefloe.spec.manifest.data_file import FileFormat
from icefloe.spec.metadata import table_properties
from icefloe.spec.partitioning.sort_order import UNSORTED_SORT_ORDER, SortOrder
from icefloe.spec.ports import FileIO
from icefloe.spec.schema.arrow_extensions import VARIANT_STORAGE
from icefloe.spec.schema.arrow_schema import schema_to_arrow
from icefloe.spec.schema.arrow_types import FIELD_ID_KEY, type_to_arrow
from icefloe.spec.schema.schema import Schema
from icefloe.spec.schema.schema_json import schema_to_json
from icefloe.spec.types import BooleanType, IcebergType, NestedField, UUIDType, VariantType

if TYPE_CHECKING:
    from pyarrow import parquet as pq
else:  # imported at the first data file: it takes 9 MB of memory, with the file systems of Arrow
    pq = lazy_module("pyarrow.parquet")

# Key of the table schema in a Parquet file's key-value metadata, as in Java.
SCHEMA_KEY = "iceberg.schema"
# Options of `pyarrow.parquet.ParquetWriter`. Older releases do not have them: they limit pages only by bytes, so that pages have more rows, and do not write
# bloom filters, about which a warning is logged once.
_PAGE_ROWS, BLOOM_FILTERS = "max_rows_per_page", "bloom_filter_options"

# The minimum of rows for dictionaries. With fewer, the dictionary page and its header take more bytes than the compressed repeated values, and a third of the
# time.
_MIN_DICTIONARY_ROWS = 16
# The minimum of rows for sampling. With fewer, sampling columns takes longer than it saves.
_MIN_SAMPLED_ROWS = 10_000
_MAX_SAMPLE_ROWS = 32_768
# If values are drawn evenly from 320,000 distinct ones, which is more than fit a dictionary page, this share of a sample of 32,768 rows is distinct.
# A smaller sample has an eighth of the rows, of which this share is distinct if a dictionary would hold most values. Sampling half the rows took five times as
# long
# in files of 20,000 rows of 16 columns, and made files of TPC-H's lineitem 8 % larger.
_TOO_DISTINCT = 0.95
# The smaller sample has every eighth row of the sample.
_SMALL_SAMPLE_STEP = 16

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class BloomFilters:
    """Bloom filters by Parquet column name: the probability of a false positive, and the expected distinct values (None: the rows of the first row group)."""

    columns: Mapping[str, tuple[float, int | None]]
    max_bytes: int

    def options(self, rows: int) -> dict[str, Any]:
        """Return the keyword arguments of `pyarrow.parquet.ParquetWriter` for a file whose first row group has `rows` rows."""
        if not self.columns:
            return {}
        return {
            BLOOM_FILTERS: {
                path: {"fpp": fpp, "ndv": max(1, min(distinct or rows, max_distinct(self.max_bytes, fpp)))}
                for path, (fpp, distinct) in self.columns.items()
            }
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetAppenderFactory(FileAppenderFactory):
    """A factory of appenders for one table's Parquet files, with their schemas and options. Rows are converted to `file_schema`."""

    extension = "parquet"
    file_schema: Any
    schema_text: str
    options: dict[str, Any]
    # Logical types that Arrow cannot write to the footer, by field id.
    annotations: Mapping[int, bytes]
    blooms: BloomFilters
    metrics: ParquetMetrics
    # The number of rows from which the columns of shredded variants are chosen for each file; 0 if variants are written whole.
    inference_rows: int
    # The type of the column `typed_value` of each variant that is shredded in a file, by the position of the column.
    typed_values: Mapping[int, Any] = field(default_factory=dict)

    def new_appender(self, io: FileIO, location: str, sample: Any) -> "ParquetAppender":
        """Create a file. `sample` is its first row group, from which encodings are chosen."""
        return ParquetAppender(io, location, self._with_shredding(sample), sample)

    def small_file_encoder(self, table: Any) -> "SmallParquetFiles | None":
        return None if self.inference_rows else SmallParquetFiles(self, table)  # the columns of shredded variants differ between files

    def _with_shredding(self, sample: Any) -> "ParquetAppenderFactory":
        """Return the factory of a file whose variants are shredded into columns that fit the first rows of `sample`. JAVA: VariantShreddingAnalyzer."""
        if not self.inference_rows:
            return self
        rows = self.in_file_schema(sample.slice(0, self.inference_rows))
        inferred = {
            position: infer_typed_value(rows.column(position))
            for position, column in enumerate(self.fields)
            if isinstance(column.field_type, VariantType)
        }
        typed_values = {position: typed for position, typed in inferred.items() if typed is not None}
        file_schema, added = self.file_schema, dict[int, int]()
        for position, typed in typed_values.items():
            stored = file_schema.field(position).with_type(shredded_type(typed))
            file_schema = file_schema.set(position, stored)
            added[position] = len(stored_paths(stored.type, stored.name)) - len(
                stored_paths(self.file_schema.field(position).type, stored.name)
            )
        columns = tuple(
            (replace(leaf, place=leaf.place + sum(count for position, count in added.items() if position < leaf.steps[0])), mode)
            for leaf, mode in self.columns
        )
        return replace(self, file_schema=file_schema, columns=columns, metrics=ParquetMetrics(columns), typed_values=typed_values)

    def new_output(self, out: Any, sample: Any) -> "ParquetOutput":
        """Begin a Parquet file in an open output file. `sample` is its first row group, from which encodings are chosen.

        Raises:
            UnsupportedTypeError: Parquet cannot store a column of the schema.
        """
        sink = DeferredFooterFile(out) if self.annotations else out
        footers: list[Any] = []
        try:
            writer = pq.ParquetWriter(
                sink,
                self.file_schema,
                metadata_collector=footers,
                use_dictionary=[*dictionary_columns(sample, (leaf for leaf, _ in self.columns)), *self._shredded_columns()],
                **self.options,
                **self.blooms.options(sample.num_rows),
            )
        except pa.ArrowNotImplementedError as error:
            raise UnsupportedTypeError(
                f"Parquet cannot store a column of this schema: {error}",
                next_step="change the type of the column, or write another format",
            ) from error
        return ParquetOutput(sink, writer, footers)

    def in_file_schema(self, table: Any) -> Any:
        """Return a table with the types of the file."""
        if not self.typed_values:
            return table if self.file_schema.equals(table.schema) else to_file_schema(table, self.fields, self.file_schema)
        whole = self.file_schema
        for position in self.typed_values:
            whole = whole.set(position, whole.field(position).with_type(VARIANT_STORAGE))
        rows = to_file_schema(table, self.fields, whole)
        for position, typed in self.typed_values.items():
            rows = rows.set_column(position, self.file_schema.field(position), shred_variants(rows.column(position), typed))
        return rows

    def _shredded_columns(self) -> list[str]:
        """Return the Parquet paths of the columns of shredded variants."""
        stored = (self.file_schema.field(position) for position in self.typed_values)
        return [path for variant in stored for path in stored_paths(variant.type, variant.name)]

    def finish(self, output: "ParquetOutput") -> int:
        """Write the footer, and return the length of the file. The file is not closed."""
        # Arrow drops the metadata of a schema that it does not store, so that the table schema is added separately.
        output.writer.add_key_value_metadata({SCHEMA_KEY: self.schema_text})
        if isinstance(output.sink, DeferredFooterFile):
            output.sink.hold_back()
        output.writer.close()
        if isinstance(output.sink, DeferredFooterFile):
            output.sink.write_annotated(self.annotations)
        return int(output.sink.tell())


@dataclass(frozen=True, slots=True)
class ParquetOutput:
    """Arrow's writer of a Parquet file, its output file, and a list that receives the footer when the writer is closed."""

    sink: Any
    writer: Any
    footers: list[Any]


def parquet_appender_factory(
    schema: Schema, properties: Mapping[str, str], sort_order: SortOrder = UNSORTED_SORT_ORDER
) -> ParquetAppenderFactory:
    """Return the factory of a table's Parquet files.

    Raises:
        InvalidPropertyError: A writer property has an invalid value.
        UnsupportedTypeError: Parquet cannot store a column of the schema.
    """
    columns = columns_with_modes(schema, properties, sort_order)
    fields = file_fields(schema.fields)
    return ParquetAppenderFactory(
        arrow_schema=schema_to_arrow(schema),
        file_schema=file_arrow_schema(fields, _stored_type, _attributes),
        fields=fields,
        schema_text=json.dumps(schema_to_json(schema), separators=(",", ":")),
        options=writer_options(properties),
        annotations=annotations(fields),
        blooms=bloom_filters((leaf for leaf, _ in columns), properties),
        columns=columns,
        metrics=ParquetMetrics(columns),
        inference_rows=_inference_rows(fields, properties),
        row_group_bytes=table_properties.PARQUET_ROW_GROUP_SIZE_BYTES.read(properties),
        target_file_bytes=table_properties.TARGET_FILE_SIZE_BYTES.read(properties),
    )


def _inference_rows(fields: Iterable[NestedField], properties: Mapping[str, str]) -> int:
    if not table_properties.PARQUET_SHRED_VARIANTS.read(properties) or not any(
        isinstance(field.field_type, VariantType) for field in fields
    ):
        return 0
    return table_properties.PARQUET_VARIANT_INFERENCE_ROWS.read(properties)


_PAGE_VERSIONS = {"v1": "1.0", "v2": "2.0"}


@cache
def writer_accepts(option: str) -> bool:
    """Return whether this release of `pyarrow.parquet.ParquetWriter` has an option."""
    return option in signature(pq.ParquetWriter.__init__).parameters


def writer_options(properties: Mapping[str, str]) -> dict[str, Any]:
    """Return the keyword arguments of `pyarrow.parquet.ParquetWriter` for the `write.parquet.*` properties."""
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
        # Arrow's schema is not stored, because the file has the table schema.
        "store_schema": False,
        "write_page_index": True,
    }
    if writer_accepts(_PAGE_ROWS):
        options[_PAGE_ROWS] = table_properties.PARQUET_PAGE_ROW_LIMIT.read(properties)
    if level is not None and options["compression_level"] is not None:
        _check_level(codec, level)
    return options


def _check_level(codec: str, level: int) -> None:
    low, high = pa.Codec.minimum_compression_level(codec), pa.Codec.maximum_compression_level(codec)
    if not low <= level <= high:
        name = table_properties.PARQUET_COMPRESSION_LEVEL.name
        raise InvalidPropertyError(f"{name} is {level}, but {codec} has levels {low} to {high}", next_step=f"set {name} to one of these")


def bloom_filters(leaves: Iterable[Leaf], properties: Mapping[str, str]) -> BloomFilters:
    """Return the bloom filters that table properties configure. Raises `InvalidPropertyError`."""
    configured = table_properties.bloom_filter_columns(properties)
    by_name = {".".join(leaf.path): leaf for leaf in leaves}
    columns = {}
    for name, (fpp, distinct) in configured.items():
        leaf = by_name.get(name)
        if leaf is None:
            _warn_once(f"no bloom filter is written for {name}: the table has no primitive column of that name")
        elif isinstance(leaf.kind, BooleanType):
            _warn_once(f"no bloom filter is written for {name}: Parquet has none for booleans")
        else:
            columns[leaf.stored_path] = (fpp, distinct)
    if columns and not writer_accepts(BLOOM_FILTERS):
        _warn_once(
            f"no bloom filters are written for {', '.join(configured)}: this release of pyarrow cannot write them; install a newer one"
        )
        columns = {}
    return BloomFilters(columns=columns, max_bytes=table_properties.PARQUET_BLOOM_MAX_BYTES.read(properties))


def max_distinct(max_bytes: int, fpp: float) -> int:
    """Return the number of distinct values for which a bloom filter of at most `max_bytes` has the false positive probability `fpp`.

    The sizes of filters are powers of two; each value sets one bit in each of 8 words.
    """
    bits = 8 * 2 ** int(math.log2(max_bytes))
    return int(-bits / 8 * math.log(1 - fpp ** (1 / 8)))


@cache
def _warn_once(message: str) -> None:
    LOG.warning("%s", in_one_line(message))


def dictionary_columns(table: Any, leaves: Iterable[Leaf]) -> list[str]:
    """Return the Parquet paths of the columns to write with a dictionary, decided by the rows of a file's first row group.

    Arrow builds a dictionary until it exceeds the page size, and writes the remaining values plain. For a column of distinct values this work is wasted, and
    the file is larger. Measured on 5 million rows of ids, times, numbers and names: a fifth less time and a file 4 % smaller.
    """
    if table.num_rows < _MIN_DICTIONARY_ROWS:
        return []
    if table.num_rows < _MIN_SAMPLED_ROWS:
        return [leaf.stored_path for leaf in leaves]
    # The sample is spread over the whole row group, because adjacent rows are similar in many tables.
    rows = np.linspace(0, table.num_rows - 1, min(_MAX_SAMPLE_ROWS, table.num_rows // 8), dtype=np.int64)
    # A larger sample has a smaller share of distinct values, so that a column that seems distinct in a small sample is checked in a larger one.
    samples = positions_array(rows[::_SMALL_SAMPLE_STEP]), positions_array(rows)
    return [leaf.stored_path for leaf in leaves if not _is_distinct(table, leaf, samples)]


def _is_distinct(table: Any, leaf: Leaf, samples: Iterable[Any]) -> bool:
    """Return True if nearly all values of a column are distinct in each sample; a sample is an array of row positions."""
    if leaf.repeated:
        return False
    if isinstance(leaf.kind, BooleanType):
        return True  # Parquet does not write dictionaries for booleans
    column = leaf.column_of(table)
    return all(_are_distinct(column.take(rows)) for rows in samples)


def _are_distinct(sample: Any) -> bool:
    values: int = len(sample) - sample.null_count
    distinct: int = pc.count_distinct(sample, mode="only_valid").as_py()
    return values > 0 and distinct > values * _TOO_DISTINCT


def _stored_type(kind: IcebergType) -> Any:
    """Return the Arrow type that stores a primitive. A UUID needs Arrow's extension type, because only for this type Arrow writes Parquet's UUID annotation."""
    return pa.uuid() if isinstance(kind, UUIDType) else type_to_arrow(kind)


def _attributes(field: NestedField) -> dict[str, str]:
    return {FIELD_ID_KEY.decode(): str(field.field_id)}


class ParquetAppender(FileAppender):
    """A writer of one Parquet file, row group by row group."""

    _format = FileFormat.PARQUET

    def __init__(self, io: FileIO, location: str, factory: ParquetAppenderFactory, sample: Any) -> None:
        """Create the file; `sample` is its first row group, from which encodings are chosen."""
        super().__init__(location)
        self._factory = factory
        self._observations = RowObservations()
        self._out = new_output(io, location)
        with self._closed_on_failure():
            self._output = factory.new_output(self._out, sample)
        self._out, self._writer = self._output.sink, self._output.writer

    def write_row_group(self, table: Any) -> None:
        self._factory.metrics.observe(table, self._observations)
        rows = self._factory.in_file_schema(table)
        try:
            self._writer.write_table(rows, row_group_size=max(1, rows.num_rows))
        except OSError as error:
            raise storage_error(error, self.location) from error

    def _write_end(self) -> int:
        length = self._factory.finish(self._output)
        self._out.close()
        return length

    def _metrics(self) -> FileMetrics:
        return self._factory.metrics.of(self._output.footers[0], self._observations)


class SmallParquetFiles(SmallFileEncoder):
    """An encoder of small Parquet files, of one row group each, in memory. Arrow writes a file in many small writes, which would each call Python.

    Common work is done once for the whole table: rows are converted to the types of the file, and searched for the facts that footers lack.
    """

    file_format = FileFormat.PARQUET

    def __init__(self, factory: ParquetAppenderFactory, table: Any) -> None:
        """Prepare the rows of a table."""
        self._factory = factory
        self._table = table
        self._stored = factory.in_file_schema(table)
        self._is_plain = factory.metrics.has_plain_values(table)

    def encode(self, start: int, rows: int) -> tuple[Any, FileMetrics]:
        sample = self._table.slice(start, rows)
        metrics = self._factory.metrics
        if self._is_plain:
            observations = metrics.plain_observations()
        else:
            metrics.observe(sample, observations := RowObservations())
        out = pa.BufferOutputStream()
        output = self._factory.new_output(out, sample)
        try:
            stored = sample if self._stored is self._table else self._stored.slice(start, rows)
            output.writer.write_table(stored, row_group_size=rows)
            self._factory.finish(output)
        finally:
            # An unclosed writer would close itself when it is garbage-collected, and warn.
            output.writer.is_open = False
        return out.getvalue(), metrics.of(output.footers[0], observations)
