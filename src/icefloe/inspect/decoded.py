"""Conversion of values of a table's own types to text: partition values, partition bounds, and column bounds.

`spec/values.py` decodes the bytes; `formatting.py` formats sizes and times. Spec: Appendix D; Manifest Lists; Data File Fields.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from icefloe.errors import FormatError
from icefloe.formatting import within
from icefloe.spec.geo_bounds import geospatial_bound_from_bytes
from icefloe.spec.manifest.data_file import DataFile, FileContent
from icefloe.spec.manifest.file_rules import is_deletion_vector
from icefloe.spec.manifest_list.manifest_file import PartitionFieldSummary
from icefloe.spec.metadata.snapshot_manifests import spec_partition_type
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.partitioning.transforms import Transform
from icefloe.spec.schema.metadata_columns import DELETE_FILE_PATH, DELETE_POS, LINEAGE_COLUMNS
from icefloe.spec.schema.schema import walk
from icefloe.spec.types import GeographyType, GeometryType, IcebergType, NestedField, PrimitiveType, VariantType, children
from icefloe.spec.values import from_bytes, to_human
from icefloe.spec.variant import Scalar, bounds_from_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRange:
    """The range of one partition field over the files of a manifest. The bounds are text; None if the manifest list has none."""

    name: str
    transform: str
    lower: str | None
    upper: str | None
    contains_null: bool
    contains_nan: bool | None

    def __str__(self) -> str:
        span = self.lower or "no values" if self.lower == self.upper else f"{self.lower} … {self.upper}"
        return f"{self.name}: {span}" + (", null" if self.contains_null else "") + (", NaN" if self.contains_nan else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnStatistics:
    """The statistics of one column of one file in its manifest. Sizes are in bytes; a statistic that the writer left out is None."""

    field_id: int
    name: str
    type: str
    size: int | None
    values: int | None
    nulls: int | None
    nans: int | None
    lower: str | None
    upper: str | None


@dataclass(frozen=True, slots=True)
class PartitionColumn:
    """One partition field, with the transform and type that decode its values."""

    field_id: int
    name: str
    transform: Transform
    kind: PrimitiveType

    def text(self, value: Any) -> str:
        """Return a partition value as text, such as `2024-01` for a month."""
        return self.transform.to_human(self.kind, value)

    def bound_text(self, data: bytes | None) -> str | None:
        """Return a bound of a manifest list as text; hexadecimal if it cannot be decoded, None for None."""
        if data is None:
            return None
        try:
            return self.text(from_bytes(self.kind, data))
        except FormatError:
            return _unreadable(data)


def partition_columns(metadata: TableMetadata, spec_id: int) -> tuple[PartitionColumn, ...]:
    """Return the partition fields of a spec, in the order of its partition tuples."""
    fields = metadata.spec_by_id(spec_id).fields
    kinds = [field.field_type for field in spec_partition_type(metadata, spec_id).fields]
    return tuple(
        PartitionColumn(field.field_id, field.name, field.transform, kind)
        for field, kind in zip(fields, kinds, strict=True)
        if isinstance(kind, PrimitiveType)
    )


def partition_texts(columns: Sequence[PartitionColumn], values: Sequence[Any]) -> dict[str, str]:
    """Return the values of a partition tuple as text, by field name."""
    return {column.name: column.text(value) for column, value in zip(columns, values, strict=False)}


def partition_ranges(columns: Sequence[PartitionColumn], summaries: Sequence[PartitionFieldSummary] | None) -> tuple[PartitionRange, ...]:
    """Return the decoded partition summaries of a manifest; empty if the manifest list has none."""
    return tuple(
        PartitionRange(
            name=column.name,
            transform=str(column.transform),
            lower=column.bound_text(summary.lower_bound),
            upper=column.bound_text(summary.upper_bound),
            contains_null=summary.contains_null,
            contains_nan=summary.contains_nan,
        )
        for column, summary in zip(columns, summaries or (), strict=False)
    )


def columns_by_id(metadata: TableMetadata) -> dict[int, tuple[str, NestedField]]:
    """Return every column that the table has or had, by field id, as its dotted name and its field.

    If several schemas have a column, the current schema takes precedence. Reserved columns of the format come last.
    """
    columns: dict[int, tuple[str, NestedField]] = {}
    for schema in (*metadata.schemas, metadata.schema()):
        columns.update({field.field_id: (".".join(path), field) for path, field in walk(schema.fields)})
    reserved = (DELETE_FILE_PATH, DELETE_POS, *LINEAGE_COLUMNS)
    return {**columns, **{field.field_id: (field.name, field) for field in reserved}}


def what_it_deletes(file: DataFile, columns: Mapping[int, tuple[str, NestedField]], location: str) -> str | None:
    """Describe which rows a delete file deletes; None for a data file.

    Args:
        file: The file.
        columns: Dotted names and fields by field id, for the names of equality columns.
        location: The table's folder; paths are shown relative to it.
    """
    if file.content is FileContent.DATA:
        return None
    if file.content is FileContent.EQUALITY_DELETES:
        names = [columns[field_id][0] if field_id in columns else f"column {field_id}" for field_id in file.equality_ids or ()]
        return f"rows with these values of {', '.join(names)}"
    of = f"rows of {within(file.referenced_data_file, location)}" if file.referenced_data_file is not None else "rows by position"
    return f"{of}, by a deletion vector" if is_deletion_vector(file) else of


def column_statistics(file: DataFile, columns: Mapping[int, tuple[str, NestedField]]) -> tuple[ColumnStatistics, ...]:
    """Return the statistics of every column for which the manifest entry has some, in the order of the table's columns."""
    maps = (file.column_sizes, file.value_counts, file.null_value_counts, file.nan_value_counts, file.lower_bounds, file.upper_bounds)
    ids = set().union(*(values or {} for values in maps))
    ordered = [field_id for field_id in columns if field_id in ids] + sorted(ids - columns.keys())
    return tuple(_statistics(file, field_id, columns.get(field_id)) for field_id in ordered)


def bound_text(kind: IcebergType | None, data: bytes | None) -> str | None:
    """Return a column's bound as text; as hexadecimal if the bytes are not a value of the type."""
    if data is None:
        return None
    try:
        if isinstance(kind, GeometryType | GeographyType):
            return str(geospatial_bound_from_bytes(data))
        if isinstance(kind, VariantType):
            return ", ".join(f"{path}: {_scalar_text(bound)}" for path, bound in bounds_from_bytes(data).items())
        if not isinstance(kind, PrimitiveType):
            return _unreadable(data)
        return to_human(kind, from_bytes(kind, data))
    except FormatError:
        return _unreadable(data)


def _scalar_text(bound: Scalar | bool) -> str:
    return str(bound).lower() if isinstance(bound, bool) else to_human(bound.kind, bound.value)


def _statistics(file: DataFile, field_id: int, column: tuple[str, NestedField] | None) -> ColumnStatistics:
    name, kind = (column[0], column[1].field_type) if column else ("?", None)
    return ColumnStatistics(
        field_id=field_id,
        name=name,
        type=_type_text(kind),
        size=(file.column_sizes or {}).get(field_id),
        values=(file.value_counts or {}).get(field_id),
        nulls=(file.null_value_counts or {}).get(field_id),
        nans=(file.nan_value_counts or {}).get(field_id),
        lower=bound_text(kind, (file.lower_bounds or {}).get(field_id)),
        upper=bound_text(kind, (file.upper_bounds or {}).get(field_id)),
    )


def _type_text(kind: IcebergType | None) -> str:
    if kind is None:
        return "?"
    return type(kind).__name__.removesuffix("Type").lower() if children(kind) else str(kind)


def _unreadable(data: bytes) -> str:
    return f"not readable: 0x{data[:16].hex()}{'…' if len(data) > 16 else ''}"
