"""A table at a glance: location, columns, partitioning, sort order, and the totals of its current snapshot.

Spec: Table Metadata Fields.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from icefloe.display.report import Column, Facts, Part, Report, grid
from icefloe.display.reportable import MOST_LINES, Reportable
from icefloe.formatting import count_text, size_text, time_text
from icefloe.operations.loaded_table import TableReader, partition_text, sort_texts, source_name
from icefloe.spec.metadata.snapshot import count_of
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.schema.schema import walk
from icefloe.spec.types import children


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnOverview:
    """One column, possibly nested, under its dotted name."""

    field_id: int
    name: str
    type: str
    required: bool
    doc: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFieldOverview:
    """One field of the partition spec."""

    field_id: int
    name: str
    transform: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TableOverview(Reportable):
    """A table at a glance. Totals come from the current snapshot's summary; None if the summary has none. Sizes are in bytes.

    Records are counted before deletes; the size includes data files and delete files.
    """

    name: str
    format_version: int
    table_uuid: str | None
    location: str
    metadata_location: str
    last_updated_ms: int
    current_snapshot_id: int | None
    snapshots: int
    schemas: int
    partition_specs: int
    total_records: int | None
    total_data_files: int | None
    total_files_size: int | None
    total_delete_files: int | None  # each deletion vector counts as a file
    total_position_deletes: int | None  # includes positions in data files that were removed since
    total_equality_deletes: int | None  # the number of keys in equality delete files
    columns: tuple[ColumnOverview, ...]
    partition_fields: tuple[PartitionFieldOverview, ...]
    sort_order: tuple[str, ...]
    properties: Mapping[str, str]

    @property
    def partitioning(self) -> str:
        """The partition fields as `create_table` takes them, such as `month(time), type`; `nothing` for an unpartitioned table."""
        return ", ".join(partition_text(field.transform, field.source) for field in self.partition_fields) or "nothing"

    def _deletes(self) -> Iterator[tuple[str, str]]:
        """Yield facts about the delete files, which the totals of rows do not consider."""
        if self.total_delete_files:
            positions, keys = self.total_position_deletes, self.total_equality_deletes
            counts = [f"{count_text(positions, 'row')} by position"] if positions else []
            counts += [f"rows of {count_text(keys, 'key')}"] if keys else []
            yield (
                "deletes",
                f"{' and '.join(counts) or 'rows'}, in {count_text(self.total_delete_files, 'delete file')}: still counted above",
            )

    def report(self, most: int | None = MOST_LINES) -> Report:
        with_deletes = " with delete files" if self.total_delete_files else ""
        facts = Facts(
            (
                ("format version", str(self.format_version)),
                ("uuid", self.table_uuid or "none"),
                ("location", self.location),
                ("metadata", self.metadata_location or "not named"),
                ("last updated", time_text(self.last_updated_ms)),
                ("current snapshot", str(self.current_snapshot_id or "none yet")),
                ("snapshots", count_text(self.snapshots)),
                ("rows", count_text(self.total_records)),
                ("data files", f"{count_text(self.total_data_files)}, {size_text(self.total_files_size)}{with_deletes}"),
                *self._deletes(),
                ("partitioned by", self.partitioning),
                ("sorted by", ", ".join(self.sort_order) or "nothing"),
            )
        )
        columns = [
            (str(column.field_id), column.name, column.type, "yes" if column.required else "no", column.doc or "")
            for column in self.columns
        ]
        parts: list[Part] = [
            facts,
            grid(
                "columns",
                (
                    Column("id", is_number=True),
                    Column("name", whole=True),
                    Column("type"),
                    Column("required", rank=2),
                    Column("doc", rank=1),
                ),
                columns,
                most,
            ),
        ]
        if self.properties:
            parts.append(Facts(tuple(sorted(self.properties.items())), "properties"))
        return Report(f"table {self.name}", tuple(parts))


def table(reader: TableReader) -> TableOverview:
    """Return a table at a glance, from its metadata alone.

    Args:
        reader: The table.

    Returns:
        The location, columns, partitioning, sort order, properties and totals of the table.
    """
    metadata = reader.metadata
    current = metadata.current_snapshot()
    summary = current.summary if current else {"total-records": "0", "total-data-files": "0", "total-files-size": "0"}
    return TableOverview(
        name=reader.full_name,
        format_version=metadata.format_version,
        table_uuid=metadata.table_uuid,
        location=metadata.location,
        metadata_location=reader.metadata_location,
        last_updated_ms=metadata.last_updated_ms,
        current_snapshot_id=metadata.current_snapshot_id,
        snapshots=len(metadata.snapshots),
        schemas=len(metadata.schemas),
        partition_specs=len(metadata.partition_specs),
        total_records=summary_number(summary, "total-records"),
        total_data_files=summary_number(summary, "total-data-files"),
        total_files_size=summary_number(summary, "total-files-size"),
        total_delete_files=summary_number(summary, "total-delete-files"),
        total_position_deletes=summary_number(summary, "total-position-deletes"),
        total_equality_deletes=summary_number(summary, "total-equality-deletes"),
        columns=_columns(metadata),
        partition_fields=_partition_fields(metadata),
        sort_order=sort_texts(metadata),
        properties=dict(metadata.properties),
    )


def summary_number(summary: Mapping[str, str], key: str) -> int | None:
    """Return a count of a snapshot's summary; None if it is missing or is not a number. Spec: Snapshots, optional summary fields."""
    return count_of(summary.get(key))


def _columns(metadata: TableMetadata) -> tuple[ColumnOverview, ...]:
    return tuple(
        ColumnOverview(
            field_id=field.field_id,
            name=".".join(path),
            type=type(field.field_type).__name__.removesuffix("Type").lower() if children(field.field_type) else str(field.field_type),
            required=field.required,
            doc=field.doc,
        )
        for path, field in walk(metadata.schema().fields)
    )


def _partition_fields(metadata: TableMetadata) -> tuple[PartitionFieldOverview, ...]:
    return tuple(
        PartitionFieldOverview(
            field_id=field.field_id,
            name=field.name,
            transform=str(field.transform),
            source=source_name(metadata, field.source_id),
        )
        for field in metadata.spec().fields
    )
