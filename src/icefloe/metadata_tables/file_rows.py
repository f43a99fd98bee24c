"""`rows_of_manifest`: converts the bytes of one manifest to Arrow rows of the metadata tables of files and entries. Any process can run it.

`file_tables.py` selects the manifests and reads them in parallel.
Spec: Manifests; Data File Fields; Manifest Entry Fields; Sequence Number Inheritance; First Row ID Inheritance.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icefloe.errors import ManifestFormatError
from icefloe.metadata_tables.readable_metrics import METRICS_MAPS, READABLE_METRICS, readable_metrics
from icefloe.metadata_tables.schemas import DATA_FILE, PARTITION
from icefloe.spec.arrow_values import array_of_chunks
from icefloe.spec.expressions.predicate import AlwaysTrue, BooleanExpression
from icefloe.spec.expressions.row_evaluator import arrow_mask
from icefloe.spec.manifest.data_file import FileContent
from icefloe.spec.manifest.entry import ManifestEntryStatus
from icefloe.spec.manifest.manifest_columns import WHOLE_NAMES, partition_column
from icefloe.spec.manifest.manifest_reader import read_columns
from icefloe.spec.manifest_list.manifest_file import ManifestFile
from icefloe.spec.schema.arrow_schema import schema_to_arrow
from icefloe.spec.schema.arrow_types import field_to_arrow, type_to_arrow
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import NestedField, StructType, children


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRowSelection:
    """The rows and columns of a metadata table that are made from manifests. It can be pickled for other processes.

    Attributes:
        schema: The columns of the metadata table to return.
        table_schema: The schema of the table's data.
        with_deleted: Whether entries with status DELETED become rows.
        contents: The kinds of files to return; all by default.
        row_filter: The filter, bound to the metadata table; rows that do not match are left out.
        filtered: The columns of the metadata table that the filter tests.
    """

    schema: Schema
    table_schema: Schema
    with_deleted: bool
    contents: Collection[FileContent] = tuple(FileContent)
    row_filter: BooleanExpression = field(default_factory=AlwaysTrue)
    filtered: Schema = field(default_factory=Schema)


def rows_of_manifest(content: bytes, manifest: ManifestFile, partition_type: StructType, selection: FileRowSelection) -> Any:
    """Return the rows of a manifest in file order.

    Args:
        content: The bytes of the manifest.
        manifest: Its entry in the manifest list.
        partition_type: The partition type of its spec.
        selection: The rows and columns to return. Of the manifest's maps, such as `lower_bounds`, only the needed ones are decoded.

    Returns:
        A `pyarrow.Table` of `selection.schema`.

    Raises:
        AvroFormatError: The manifest is damaged.
        ManifestFormatError: The manifest violates the format.
    """
    return rows_of_entries(selected_entries(content, manifest, partition_type, selection), manifest.partition_spec_id, selection)


def selected_entries(content: bytes, manifest: ManifestFile, partition_type: StructType, selection: FileRowSelection) -> Any:
    """Return the manifest entries that become rows, as an Arrow table as from `read_columns`, with only the needed maps. Raises as `rows_of_manifest`."""
    maps = _maps_of(selection.schema) | _maps_of(selection.filtered)
    columns = read_columns(content, manifest, partition_type, whole=True, only=maps)
    return _filter(columns.entries, selection)


def rows_of_entries(entries: Any, spec_id: int, selection: FileRowSelection) -> Any:
    """Convert manifest entries to rows of the metadata table. `entries` is the result of `selected_entries`, or several concatenated results of one spec.

    Building the columns takes some milliseconds regardless of the number of entries, so callers combine the entries of small manifests.
    """
    if selection.filtered.fields:  # so that most columns are built only for the matching entries
        entries = entries.filter(arrow_mask(selection.row_filter, _columns(entries, spec_id, selection.filtered, selection.table_schema)))
    return _columns(entries, spec_id, selection.schema, selection.table_schema)


def _columns(entries: Any, spec_id: int, schema: Schema, table_schema: Schema) -> Any:
    builder = _ColumnBuilder(entries, spec_id, table_schema)
    return pa.Table.from_arrays([builder.column(column) for column in schema.fields], schema=schema_to_arrow(schema))


def _maps_of(schema: Schema) -> frozenset[str]:
    """Return the names of the manifest's maps that the columns of the schema are computed from."""
    inner = {field.name for top in schema.fields if top.name == DATA_FILE for field in children(top.field_type)}
    named = frozenset(schema.names) | inner
    return (named & WHOLE_NAMES) | (METRICS_MAPS if READABLE_METRICS in named else frozenset())


def _filter(entries: Any, selection: FileRowSelection) -> Any:
    if not selection.with_deleted:
        entries = entries.filter(pc.not_equal(entries["status"], int(ManifestEntryStatus.DELETED)))
    if len(selection.contents) < len(FileContent):
        kinds = pa.array([int(content) for content in selection.contents], pa.int32())
        entries = entries.filter(pc.is_in(entries["content"], value_set=kinds))
    return entries


@dataclass(frozen=True, slots=True)
class _ColumnBuilder:
    """Builder of the metadata table's columns from entries of one partition spec."""

    entries: Any
    spec_id: int
    table_schema: Schema

    def column(self, field: NestedField) -> Any:
        """Return a column of the metadata table."""
        kind = field.field_type
        if field.name == READABLE_METRICS:
            return readable_metrics(self.entries, self.table_schema, field)
        if field.name == DATA_FILE and isinstance(kind, StructType):
            return self._struct(kind, [self.column(member) for member in kind.fields])
        if field.name == PARTITION and isinstance(kind, StructType):
            return self._struct(kind, [self._partition_value(member) for member in kind.fields])
        arrow_type = type_to_arrow(kind)
        if field.name == "spec_id":
            return pa.repeat(pa.scalar(self.spec_id, arrow_type), len(self.entries))
        column = array_of_chunks(self.entries[field.name])
        return self._split_offsets(column).cast(arrow_type) if field.name == "split_offsets" else column.cast(arrow_type)

    def _struct(self, kind: StructType, arrays: list[Any]) -> Any:
        return pa.StructArray.from_arrays(arrays, fields=[field_to_arrow(member) for member in kind.fields])

    def _split_offsets(self, column: Any) -> Any:
        """Return the split offsets of each file; null if the last offset is beyond the end of the file, because such offsets are damaged.

        JAVA: BaseFile.splitOffsets.
        """
        lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
        last = (
            column.flatten().take(pa.array(np.maximum(np.cumsum(lengths) - 1, 0))) if lengths.sum() else pa.nulls(len(column), pa.int64())
        )
        is_sound = pc.fill_null(pc.less(last, array_of_chunks(self.entries["file_size_in_bytes"])), False)
        return pc.if_else(pc.and_(is_sound, pa.array(lengths > 0)), column, pa.scalar(None, column.type))

    def _partition_value(self, field: NestedField) -> Any:
        """Return a partition field's values; null if the manifest's spec has no such field."""
        arrow_type = type_to_arrow(field.field_type)
        name = partition_column(field.field_id)
        if name not in self.entries.column_names:
            return pa.nulls(len(self.entries), arrow_type)
        column = array_of_chunks(self.entries[name])
        if column.null_count == len(column):
            return pa.nulls(len(column), arrow_type)
        try:
            return column.cast(arrow_type)
        except pa.ArrowException as error:
            raise ManifestFormatError(
                f"partition values of field {field.field_id} are of type {column.type}, but the table has {field.field_type}: {error}",
                next_step="two partition specs of the table use one field id for different fields; create a new table from its rows",
            ) from error
