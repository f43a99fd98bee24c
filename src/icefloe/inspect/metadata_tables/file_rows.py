"""`rows_of_manifest`: the entries of one manifest as rows of the tables about files and entries. Pure: bytes in, Arrow out, so that any process can run it.

Which manifests are read, and side by side, is `file_tables.py`.
Spec: Manifests; Data File Fields; Manifest Entry Fields; Sequence Number Inheritance; First Row ID Inheritance.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icefloe.errors import ManifestFormatError
from icefloe.inspect.metadata_tables.readable_metrics import METRICS_MAPS, READABLE_METRICS, readable_metrics
from icefloe.inspect.metadata_tables.schemas import DATA_FILE, PARTITION
from icefloe.kernel.arrow_values import array_of_chunks
from icefloe.kernel.manifest.data_file import FileContent
from icefloe.kernel.manifest.entry import ManifestEntryStatus
from icefloe.kernel.manifest.manifest_columns import WHOLE_NAMES, partition_column
from icefloe.kernel.manifest.manifest_reader import read_columns
from icefloe.kernel.manifest_list.manifest_file import ManifestFile
from icefloe.kernel.schema.arrow_schema import field_to_arrow, schema_to_arrow, type_to_arrow
from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.types import NestedField, StructType, children


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRows:
    """What rows are made of: `schema` has the columns to fill, `table_schema` those of the data. It can be pickled.

    Without `with_deleted`, DELETED entries are left out. `contents` are the kinds of files that are wanted, all of them by default.
    """

    schema: Schema
    table_schema: Schema
    with_deleted: bool
    contents: Collection[FileContent] = tuple(FileContent)


def rows_of_manifest(content: bytes, manifest: ManifestFile, partition_type: StructType, wanted: FileRows) -> Any:
    """The rows of a manifest as a `pyarrow.Table` of `wanted.schema`, in file order. `content` is the file, `partition_type` that of its own spec.

    Of the manifest's maps only those are decoded that are wanted.

    Raises:
        AvroFormatError, ManifestFormatError: the manifest is damaged, or breaks a rule of the format.
    """
    return rows_of_entries(wanted_entries(content, manifest, partition_type, wanted), manifest.partition_spec_id, wanted)


def wanted_entries(content: bytes, manifest: ManifestFile, partition_type: StructType, wanted: FileRows) -> Any:
    """The entries that become rows, as `read_columns` gives them, with no more of the manifest's maps than it takes. Raises as `rows_of_manifest`."""
    columns = read_columns(content, manifest, partition_type, whole=True, only=_maps_of(wanted.schema))
    return _chosen(columns.entries, wanted)


def rows_of_entries(entries: Any, spec_id: int, wanted: FileRows) -> Any:
    """The rows of `wanted_entries`, of one manifest or of several of one partition spec.

    Making the columns costs some milliseconds, however few entries there are, so that those of small manifests are made together.
    """
    maker = _Maker(entries, spec_id, wanted.table_schema)
    return pa.Table.from_arrays([maker.column(field) for field in wanted.schema.fields], schema=schema_to_arrow(wanted.schema))


def _maps_of(schema: Schema) -> frozenset[str]:
    """Which of the manifest's maps the columns are made of."""
    inner = {field.name for top in schema.fields if top.name == DATA_FILE for field in children(top.field_type)}
    named = frozenset(schema.names) | inner
    return (named & WHOLE_NAMES) | (METRICS_MAPS if READABLE_METRICS in named else frozenset())


def _chosen(entries: Any, wanted: FileRows) -> Any:
    if not wanted.with_deleted:
        entries = entries.filter(pc.not_equal(entries["status"], int(ManifestEntryStatus.DELETED)))
    if len(wanted.contents) < len(FileContent):
        kinds = pa.array([int(content) for content in wanted.contents], pa.int32())
        entries = entries.filter(pc.is_in(entries["content"], value_set=kinds))
    return entries


@dataclass(frozen=True, slots=True)
class _Maker:
    """Columns of the entries of one partition spec, each in the form that the metadata table gives it."""

    entries: Any
    spec_id: int
    table_schema: Schema

    def column(self, field: NestedField) -> Any:
        kind = field.field_type
        if field.name == READABLE_METRICS:
            return readable_metrics(self.entries, self.table_schema, field)
        if field.name == DATA_FILE and isinstance(kind, StructType):
            return self._struct(kind, [self.column(member) for member in kind.fields])
        if field.name == PARTITION and isinstance(kind, StructType):
            return self._struct(kind, [self._partition_value(member) for member in kind.fields])
        wanted = type_to_arrow(kind)
        if field.name == "spec_id":
            return pa.repeat(pa.scalar(self.spec_id, wanted), len(self.entries))
        column = array_of_chunks(self.entries[field.name])
        return self._split_offsets(column).cast(wanted) if field.name == "split_offsets" else column.cast(wanted)

    def _struct(self, kind: StructType, arrays: list[Any]) -> Any:
        return pa.StructArray.from_arrays(arrays, fields=[field_to_arrow(member) for member in kind.fields])

    def _split_offsets(self, column: Any) -> Any:
        """Offsets of which the last lies beyond the file are damaged, and are left out. JAVA: BaseFile.splitOffsets."""
        lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
        last = (
            column.flatten().take(pa.array(np.maximum(np.cumsum(lengths) - 1, 0))) if lengths.sum() else pa.nulls(len(column), pa.int64())
        )
        sound = pc.fill_null(pc.less(last, array_of_chunks(self.entries["file_size_in_bytes"])), False)
        return pc.if_else(pc.and_(sound, pa.array(lengths > 0)), column, pa.scalar(None, column.type))

    def _partition_value(self, field: NestedField) -> Any:
        """A partition field's values; nulls where the manifest's spec has no such field."""
        wanted = type_to_arrow(field.field_type)
        name = partition_column(field.field_id)
        if name not in self.entries.column_names:
            return pa.nulls(len(self.entries), wanted)
        column = array_of_chunks(self.entries[name])
        if column.null_count == len(column):
            return pa.nulls(len(column), wanted)
        try:
            return column.cast(wanted)
        except pa.ArrowException as error:
            raise ManifestFormatError(
                f"partition values of field {field.field_id} are of type {column.type}, and the table's are of {field.field_type}: {error}",
                next_step="the specs of the table give one field id to two things; make the table anew from its rows",
            ) from error
