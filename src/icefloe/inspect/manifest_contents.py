"""Contents of manifest lists and manifests: every field, with decoded partition values and column bounds.

Spec: Manifest Lists; Manifests; Data File Fields.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from icefloe.display.report import Column, Facts, Grid, Part, Report, grid
from icefloe.display.reportable import MOST_LINES, Reportable
from icefloe.formatting import count_text, size_text, within
from icefloe.inspect.decoded import (
    ColumnStatistics,
    PartitionColumn,
    PartitionRange,
    column_statistics,
    columns_by_id,
    partition_columns,
    partition_ranges,
    partition_texts,
    what_it_deletes,
)
from icefloe.inspect.lookup import chosen_manifest, existing_snapshot_of
from icefloe.operations.loaded_table import TableReader
from icefloe.operations.metadata_cache import stored_size
from icefloe.spec.manifest.entry import ManifestEntry
from icefloe.spec.manifest_list.manifest_file import ManifestFile
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.types import NestedField


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestOverview:
    """One entry of a manifest list. Lengths are in bytes; counts are None if the entry has none."""

    manifest_path: str
    manifest_length: int
    partition_spec_id: int
    content: str  # "data" or "deletes"
    sequence_number: int
    min_sequence_number: int
    added_snapshot_id: int | None
    added_files_count: int | None
    existing_files_count: int | None
    deleted_files_count: int | None
    added_rows_count: int | None
    existing_rows_count: int | None
    deleted_rows_count: int | None
    partitions: tuple[PartitionRange, ...]
    key_metadata: bytes | None
    first_row_id: int | None  # only for data manifests from format version 3 on


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ManifestList(Reportable):
    """The manifest list of one snapshot. `path` is None for old snapshots of version 1, which name their manifests themselves."""

    table: str
    location: str
    snapshot_id: int
    path: str | None
    file_size: int | None
    manifests: tuple[ManifestOverview, ...]

    def report(self, most: int | None = MOST_LINES) -> Report:
        facts = Facts(
            (
                ("snapshot", str(self.snapshot_id)),
                ("file", self.path or "none: the snapshot itself names its manifests"),
                ("size", size_text(self.file_size) if self.path else "-"),
            )
        )
        numbered = any(manifest.first_row_id is not None for manifest in self.manifests)
        rows = [self._row(number, manifest, numbered) for number, manifest in enumerate(self.manifests, start=1)]
        columns = (
            Column("no.", is_number=True),
            Column("manifest", whole=True),
            Column("size", is_number=True, rank=3),
            Column("content", rank=2),
            Column("spec", is_number=True, rank=6),
            Column("seq", is_number=True, rank=5),
            Column("files + = -", is_number=True, rank=1),
            Column("rows + = -", is_number=True, rank=2),
            *([Column("first row id", is_number=True, rank=7)] if numbered else []),
            Column("partition bounds", rank=4),
        )
        legend = "+ added by this manifest's snapshot, = taken over from before, - deleted"
        return Report(
            f"manifest list of {self.table}", (facts, grid(f"{count_text(len(rows), 'manifest')}  ({legend})", columns, rows, most))
        )

    def _row(self, number: int, manifest: ManifestOverview, numbered: bool) -> tuple[str, ...]:
        return (
            str(number),
            within(manifest.manifest_path, self.location),
            size_text(manifest.manifest_length),
            manifest.content,
            str(manifest.partition_spec_id),
            str(manifest.sequence_number),
            _counts(manifest.added_files_count, manifest.existing_files_count, manifest.deleted_files_count),
            _counts(manifest.added_rows_count, manifest.existing_rows_count, manifest.deleted_rows_count),
            *([_count_text(manifest.first_row_id)] if numbered else []),
            "\n".join(map(str, manifest.partitions)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryOverview:
    """One entry of a manifest: a file, its status and its statistics. Sizes and offsets are in bytes."""

    status: str  # "added", "existing" or "deleted"
    snapshot_id: int | None
    sequence_number: int | None
    file_sequence_number: int | None
    content: str  # "data", "position_deletes" or "equality_deletes"
    file_path: str
    file_format: str
    partition: Mapping[str, str]
    record_count: int
    file_size_in_bytes: int
    split_offsets: tuple[int, ...] | None
    sort_order_id: int | None
    equality_ids: tuple[int, ...] | None
    key_metadata: bytes | None
    first_row_id: int | None  # the row id of the file's first row; only for data files from format version 3 on
    referenced_data_file: str | None  # the only data file that a delete file applies to
    content_offset: int | None  # offset of a deletion vector in its Puffin file
    content_size_in_bytes: int | None
    deletes: str | None  # a description of the rows that a delete file deletes; None for a data file
    columns: tuple[ColumnStatistics, ...]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Manifest(Reportable):
    """One manifest with all its entries, in which inherited values are filled in. `file_size` is the actual size of the manifest in bytes."""

    table: str
    location: str
    snapshot_id: int
    file_size: int | None
    overview: ManifestOverview
    entries: tuple[EntryOverview, ...]

    def report(self, most: int | None = MOST_LINES) -> Report:
        """Return the report.

        Args:
            most: The greatest number of entries, of which only the first few are shown with column statistics; None for all.
        """
        overview = self.overview
        facts = Facts(
            (
                ("file", overview.manifest_path),
                ("size", self._size()),
                ("content", overview.content),
                ("partition spec", str(overview.partition_spec_id)),
                ("sequence number", f"{overview.sequence_number} (lowest of a file: {overview.min_sequence_number})"),
                ("added by snapshot", str(overview.added_snapshot_id or "unknown")),
                ("partition bounds", "\n".join(map(str, overview.partitions)) or "none"),
            )
        )
        parts: list[Part] = [facts, self._entries(most)]
        detailed = self.entries if most is None else self.entries[: max(1, most // MOST_LINES)]
        parts += [
            statistics_grid(f"columns of {within(entry.file_path, self.location)}", entry.columns) for entry in detailed if entry.columns
        ]
        return Report(f"manifest of {self.table}", tuple(parts))

    def _size(self) -> str:
        """Return the size of the manifest as text, with the size that the manifest list states if it differs."""
        stated = self.overview.manifest_length
        return size_text(self.file_size) + ("" if self.file_size == stated else f" (the manifest list states {stated} bytes)")

    def _entries(self, most: int | None) -> Grid:
        """Return the entries as rows. Columns for delete files and for row ids are left out if no entry has such values."""
        deletes = any(entry.deletes is not None for entry in self.entries)
        numbered = any(entry.first_row_id is not None for entry in self.entries)
        columns = [
            Column("status", rank=3),
            Column("seq", is_number=True, rank=4),
            Column("file", whole=True),
            Column("rows", is_number=True, rank=1),
            Column("size", is_number=True, rank=2),
        ]
        columns += [Column("first row id", is_number=True, rank=5)] if numbered else []
        columns += [Column("deletes", rank=3)] if deletes else []
        rows = []
        for entry in self.entries:
            row = [
                entry.status,
                str(entry.sequence_number),
                within(entry.file_path, self.location),
                count_text(entry.record_count),
                size_text(entry.file_size_in_bytes if entry.content_size_in_bytes is None else entry.content_size_in_bytes),
            ]
            row += [_count_text(entry.first_row_id)] if numbered else []
            row += [entry.deletes or ""] if deletes else []
            rows.append(tuple(row))
        return grid(count_text(len(rows), "entry", "entries"), tuple(columns), rows, most)


def manifest_list(reader: TableReader, snapshot_id: int | None = None) -> ManifestList:
    """Return the manifest list of a snapshot with decoded partition bounds.

    Args:
        reader: The table.
        snapshot_id: The snapshot; None for the current one.

    Returns:
        The manifest list with its entries in the order of the file.

    Raises:
        NoSuchSnapshotError: The snapshot does not exist.
        NoSuchFileError: A file that the metadata names does not exist.
        AvroFormatError: A manifest or manifest list is damaged.
        ManifestFormatError: A manifest or manifest list violates the format.
    """
    snapshot = existing_snapshot_of(reader, snapshot_id)
    specs: dict[int, tuple[PartitionColumn, ...]] = {}
    manifests = snapshot.manifests(reader.io)
    return ManifestList(
        table=reader.full_name,
        location=reader.location(),
        snapshot_id=snapshot.snapshot_id,
        path=snapshot.manifest_list,
        file_size=stored_size(reader.io, snapshot.manifest_list) if snapshot.manifest_list else None,
        manifests=tuple(manifest_overview(manifest, reader.metadata, specs) for manifest in manifests),
    )


def manifest(reader: TableReader, which: str | int = 1, snapshot_id: int | None = None) -> Manifest:
    """Return one manifest of a snapshot with every entry, deleted ones included.

    Args:
        reader: The table.
        which: The manifest: its number in the manifest list, from 1; its path; or a part of its path.
        snapshot_id: The snapshot; None for the current one.

    Returns:
        The manifest with its entries in the order of the file.

    Raises:
        NoSuchSnapshotError: The snapshot does not exist.
        NoSuchFileError: No manifest matches, or a file that the metadata names does not exist.
        InvalidInputError: Several manifests match.
        AvroFormatError: A manifest or manifest list is damaged.
        ManifestFormatError: A manifest or manifest list violates the format.
    """
    chosen = chosen_manifest(reader, which, snapshot_id)
    columns = columns_by_id(reader.metadata)
    partition = partition_columns(reader.metadata, chosen.partition_spec_id)
    return Manifest(
        table=reader.full_name,
        location=reader.location(),
        snapshot_id=existing_snapshot_of(reader, snapshot_id).snapshot_id,
        file_size=stored_size(reader.io, chosen.manifest_path),
        overview=manifest_overview(chosen, reader.metadata, {}),
        entries=tuple(
            entry_overview(entry, partition, columns, reader.location())
            for entry in chosen.fetch_manifest_entry(reader.io, discard_deleted=False)
        ),
    )


def manifest_overview(manifest: ManifestFile, metadata: TableMetadata, specs: dict[int, tuple[PartitionColumn, ...]]) -> ManifestOverview:
    """Describe a manifest by its entry in the manifest list. `specs` caches the partition columns of each spec between calls."""
    if manifest.partition_spec_id not in specs:
        specs[manifest.partition_spec_id] = partition_columns(metadata, manifest.partition_spec_id)
    return ManifestOverview(
        manifest_path=manifest.manifest_path,
        manifest_length=manifest.manifest_length,
        partition_spec_id=manifest.partition_spec_id,
        content=manifest.content.name.lower(),
        sequence_number=manifest.sequence_number,
        min_sequence_number=manifest.min_sequence_number,
        added_snapshot_id=manifest.added_snapshot_id,
        added_files_count=manifest.added_files_count,
        existing_files_count=manifest.existing_files_count,
        deleted_files_count=manifest.deleted_files_count,
        added_rows_count=manifest.added_rows_count,
        existing_rows_count=manifest.existing_rows_count,
        deleted_rows_count=manifest.deleted_rows_count,
        partitions=partition_ranges(specs[manifest.partition_spec_id], manifest.partitions),
        key_metadata=manifest.key_metadata,
        first_row_id=manifest.first_row_id,
    )


def entry_overview(
    entry: ManifestEntry, partition: Sequence[PartitionColumn], columns: Mapping[int, tuple[str, NestedField]], location: str
) -> EntryOverview:
    """Describe a manifest entry, with its partition and bounds as text.

    Args:
        entry: The entry.
        partition: The partition fields of its spec.
        columns: Dotted names and fields by field id.
        location: The table's folder, to which paths are relative.
    """
    file = entry.data_file
    return EntryOverview(
        status=entry.status.name.lower(),
        snapshot_id=entry.snapshot_id,
        sequence_number=entry.sequence_number,
        file_sequence_number=entry.file_sequence_number,
        content=file.content.name.lower(),
        file_path=file.file_path,
        file_format=str(file.file_format),
        partition=partition_texts(partition, file.partition),
        record_count=file.record_count,
        file_size_in_bytes=file.file_size_in_bytes,
        split_offsets=file.split_offsets,
        sort_order_id=file.sort_order_id,
        equality_ids=file.equality_ids,
        key_metadata=file.key_metadata,
        first_row_id=file.first_row_id,
        referenced_data_file=file.referenced_data_file,
        content_offset=file.content_offset,
        content_size_in_bytes=file.content_size_in_bytes,
        deletes=what_it_deletes(file, columns, location),
        columns=column_statistics(file, columns),
    )


def statistics_grid(title: str, columns: Sequence[ColumnStatistics]) -> Grid:
    """Return the statistics of a file's columns as rows."""
    rows = [
        (
            str(column.field_id),
            column.name,
            column.type,
            _count_text(column.size),
            _count_text(column.values),
            _count_text(column.nulls),
            _count_text(column.nans),
            "-" if column.lower is None else column.lower,
            "-" if column.upper is None else column.upper,
        )
        for column in columns
    ]
    head = (
        Column("id", is_number=True, rank=6),
        Column("column", whole=True),
        Column("type", rank=3),
        Column("bytes", is_number=True, rank=5),
        Column("values", is_number=True, rank=4),
        Column("nulls", is_number=True, rank=2),
        Column("NaNs", is_number=True, rank=7),
        Column("lower bound"),
        Column("upper bound"),
    )
    return Grid(title, head, tuple(rows))


def _count_text(count: int | None) -> str:
    return "-" if count is None else f"{count:,}"


def _counts(*counts: int | None) -> str:
    return " ".join("?" if count is None else f"{count:,}" for count in counts)
