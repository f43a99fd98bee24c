"""A table as a tree: catalog, metadata file, snapshots, manifest list, manifests, data files, with counts and sizes.

Spec: Overview.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from icefloe.display.report import Facts, Outline, Report, outline
from icefloe.display.reportable import MOST_LINES, Reportable
from icefloe.formatting import count_text, size_text, time_text, within
from icefloe.inspect.decoded import PartitionColumn, PartitionRange, columns_by_id, partition_columns, partition_texts, what_it_deletes
from icefloe.inspect.lookup import snapshot_of
from icefloe.inspect.manifest_contents import manifest_overview
from icefloe.operations.loaded_table import LoadedTable, TableReader
from icefloe.operations.metadata_cache import stored_size
from icefloe.operations.pyiceberg_compat import TableManifest
from icefloe.scan.file_objects import file_objects, partition_tuples
from icefloe.spec.manifest.entry import ManifestEntryStatus
from icefloe.spec.manifest.manifest_columns import partition_column
from icefloe.spec.manifest.manifest_reader import read_columns
from icefloe.spec.values import physical_list


@dataclass(frozen=True, slots=True, kw_only=True)
class FileNode:
    """A live file. `file_size` is in bytes; for a deletion vector it is the size of its blob, not of its Puffin file.

    `record_count` of a delete file is the number of its positions or keys. `deletes` describes the rows that it deletes; None for a data file.
    """

    file_path: str
    file_size: int
    record_count: int
    content: str  # "data", "position_deletes" or "equality_deletes"
    referenced_data_file: str | None
    first_row_id: int | None
    deletes: str | None
    status: str  # "added" or "existing"
    partition: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestNode:
    """A manifest with its live files. `deleted_files` counts entries of status DELETED. `file_size` is in bytes."""

    manifest_path: str
    file_size: int
    content: str
    deleted_files: int
    partitions: tuple[PartitionRange, ...]
    files: tuple[FileNode, ...]

    @property
    def data_size(self) -> int:
        """Bytes of the live files."""
        return sum(file.file_size for file in self.files)

    @property
    def record_count(self) -> int:
        """Records of the live files."""
        return sum(file.record_count for file in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotNode:
    """The snapshot of a table tree whose manifests are opened.

    `manifest_list_size` is in bytes; None if the snapshot names its manifests itself, or the manifest list does not exist.
    """

    snapshot_id: int
    timestamp_ms: int
    operation: str | None
    is_current: bool
    manifest_list: str | None
    manifest_list_size: int | None
    manifests: tuple[ManifestNode, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherSnapshot:
    """A snapshot of a table tree whose manifests are not opened."""

    snapshot_id: int
    timestamp_ms: int
    operation: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeTotals:
    """Counts and bytes of the opened snapshot: of its data, and of the metadata that leads to the data. Records are counted before deletes."""

    manifests: int
    data_files: int
    records: int
    data_size: int
    delete_files: int
    delete_size: int
    metadata_size: int


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TableTree(Reportable):
    """A table from its catalog to its data files, with one snapshot opened. `catalog` is None if the table was opened by its metadata file."""

    catalog: str | None
    table: str
    location: str
    metadata_location: str
    metadata_size: int | None
    earlier_metadata_files: int
    snapshot: SnapshotNode | None
    other_snapshots: tuple[OtherSnapshot, ...]
    totals: TreeTotals

    def report(self, most: int | None = MOST_LINES) -> Report:
        """Return the report.

        Args:
            most: The greatest number of lines of a list; of each manifest at most half as many files are shown. None for all.
        """
        few = None if most is None else max(1, most // 2)
        closed = [
            Outline(f"snapshot {other.snapshot_id}", f"{other.operation or 'unknown'}, {time_text(other.timestamp_ms)}")
            for other in self.other_snapshots
        ]
        opened = [self._snapshot(self.snapshot, most, few)] if self.snapshot else []
        earlier = f", {count_text(self.earlier_metadata_files, 'earlier file')}" if self.earlier_metadata_files else ""
        file = outline(
            f"metadata {within(self.metadata_location, self.location)}",
            f"{size_text(self.metadata_size)}{earlier}",
            [*closed[-few if few else 0 :], *opened] if closed else opened,
            None,
        )
        table = Outline(f"table {self.table}", self.location, (file,))
        top = Outline(f"catalog {self.catalog}", "", (table,)) if self.catalog else table
        totals = self.totals
        deletes = (("delete files", f"{totals.delete_files:,}, {size_text(totals.delete_size)}"),) if totals.delete_files else ()
        facts = Facts(
            (
                ("rows", count_text(totals.records) + (", before deletes" if totals.delete_files else "")),
                ("data files", f"{totals.data_files:,}, {size_text(totals.data_size)}"),
                *deletes,
                ("metadata", f"{count_text(totals.manifests, 'manifest')}, {size_text(totals.metadata_size)} with list and metadata file"),
            ),
            "in the opened snapshot",
        )
        return Report("", (top, facts))

    def _snapshot(self, snapshot: SnapshotNode, most: int | None, few: int | None) -> Outline:
        manifests = [self._manifest(number, manifest, few) for number, manifest in enumerate(snapshot.manifests, start=1)]
        listed = outline(
            f"manifest list {within(snapshot.manifest_list, self.location)}" if snapshot.manifest_list else "manifests in the snapshot",
            f"{size_text(snapshot.manifest_list_size)}, {count_text(len(manifests), 'manifest')}",
            manifests,
            most,
        )
        current = "current, " if snapshot.is_current else ""
        return Outline(
            f"snapshot {snapshot.snapshot_id}", f"{current}{snapshot.operation or 'unknown'}, {time_text(snapshot.timestamp_ms)}", (listed,)
        )

    def _manifest(self, number: int, manifest: ManifestNode, few: int | None) -> Outline:
        files = [Outline(within(file.file_path, self.location), self._file(file)) for file in manifest.files]
        noun, counted = ("file", "row") if manifest.content == "data" else ("delete file", "delete")
        gone = f", {count_text(manifest.deleted_files, 'file')} marked deleted" if manifest.deleted_files else ""
        bounds = "".join(f"; {bound}" for bound in manifest.partitions)
        return outline(
            f"{number}. manifest {within(manifest.manifest_path, self.location)}",
            f"{size_text(manifest.file_size)}, {count_text(len(files), noun)}, {count_text(manifest.record_count, counted)}, "
            f"{size_text(manifest.data_size)}{gone}{bounds}",
            files,
            few,
        )

    def _file(self, file: FileNode) -> str:
        taken = ", taken over" if file.status == "existing" else ""
        if file.deletes is None:
            return f"{count_text(file.record_count, 'row')}, {size_text(file.file_size)}{taken}"
        counted = "key" if file.content == "equality_deletes" else "position"
        return f"{count_text(file.record_count, counted)}, {size_text(file.file_size)}{taken}; deletes {file.deletes}"


def tree(reader: TableReader, snapshot_id: int | None = None) -> TableTree:
    """Return a table's tree with one snapshot opened.

    Args:
        reader: The table.
        snapshot_id: The snapshot; None for the current one.

    Returns:
        The catalog, metadata file, snapshots, manifests and live files, with counts and sizes.

    Raises:
        NoSuchSnapshotError: The snapshot does not exist.
        NoSuchFileError: A file that the metadata names does not exist.
        AvroFormatError: A manifest or manifest list is damaged.
        ManifestFormatError: A manifest or manifest list violates the format.
    """
    metadata = reader.metadata
    chosen = snapshot_of(reader, snapshot_id)
    manifests: tuple[ManifestNode, ...] = ()
    opened = None
    if chosen is not None:
        manifests = tuple(manifest_node(reader, manifest) for manifest in chosen.manifests(reader.io))
        opened = SnapshotNode(
            snapshot_id=chosen.snapshot_id,
            timestamp_ms=chosen.timestamp_ms,
            operation=chosen.operation,
            is_current=chosen.snapshot_id == metadata.current_snapshot_id,
            manifest_list=chosen.manifest_list,
            manifest_list_size=stored_size(reader.io, chosen.manifest_list) if chosen.manifest_list else None,
            manifests=manifests,
        )
    metadata_size = stored_size(reader.io, reader.metadata_location)
    data, deletes = ([manifest for manifest in manifests if manifest.content == content] for content in ("data", "deletes"))
    return TableTree(
        catalog=reader.handle.store.name if isinstance(reader, LoadedTable) else None,
        table=reader.full_name,
        location=metadata.location,
        metadata_location=reader.metadata_location,
        metadata_size=metadata_size,
        earlier_metadata_files=len(metadata.metadata_log),
        snapshot=opened,
        other_snapshots=tuple(
            OtherSnapshot(snapshot_id=other.snapshot_id, timestamp_ms=other.timestamp_ms, operation=other.operation)
            for other in metadata.snapshots
            if chosen is None or other.snapshot_id != chosen.snapshot_id
        ),
        totals=TreeTotals(
            manifests=len(manifests),
            data_files=sum(len(manifest.files) for manifest in data),
            records=sum(manifest.record_count for manifest in data),
            data_size=sum(manifest.data_size for manifest in data),
            delete_files=sum(len(manifest.files) for manifest in deletes),
            delete_size=sum(manifest.data_size for manifest in deletes),
            metadata_size=(metadata_size or 0)
            + ((opened.manifest_list_size or 0) if opened else 0)
            + sum(manifest.file_size for manifest in manifests),
        ),
    )


def manifest_node(reader: TableReader, manifest: TableManifest) -> ManifestNode:
    """Return the node of a manifest. Column statistics, which are most of the bytes of a manifest, are not decoded.

    Raises:
        NoSuchFileError: The manifest does not exist.
        AvroFormatError: The manifest is damaged.
        ManifestFormatError: The manifest violates the format.
    """
    columns = partition_columns(reader.metadata, manifest.partition_spec_id)
    overview = manifest_overview(manifest, reader.metadata, {manifest.partition_spec_id: columns})
    files, deleted = _files(reader, manifest, columns)
    return ManifestNode(
        manifest_path=manifest.manifest_path,
        file_size=manifest.manifest_length,
        content=overview.content,
        deleted_files=deleted,
        partitions=overview.partitions,
        files=files,
    )


def _files(reader: TableReader, manifest: TableManifest, columns: tuple[PartitionColumn, ...]) -> tuple[tuple[FileNode, ...], int]:
    """Return the live files of a manifest, and the number of its deleted entries."""
    entries = read_columns(reader.io.read(manifest.manifest_path), manifest, manifest.partition_type).entries
    statuses = entries.column("status").to_pylist()
    texts = [partition_texts(columns, values) for values in _partitions(entries, columns)]
    names = columns_by_id(reader.metadata)
    nodes = []
    for status, partition, file in zip(
        statuses, texts, file_objects(entries, manifest.partition_spec_id, partition_tuples(entries, manifest.partition_type)), strict=True
    ):
        if status != ManifestEntryStatus.DELETED:
            nodes.append(
                FileNode(
                    file_path=file.file_path,
                    file_size=file.file_size_in_bytes if file.content_size_in_bytes is None else file.content_size_in_bytes,
                    record_count=file.record_count,
                    content=file.content.name.lower(),
                    referenced_data_file=file.referenced_data_file,
                    first_row_id=file.first_row_id,
                    deletes=what_it_deletes(file, names, reader.location()),
                    status=ManifestEntryStatus(status).name.lower(),
                    partition=partition,
                )
            )
    return tuple(nodes), len(statuses) - len(nodes)


def _partitions(entries: Any, columns: tuple[PartitionColumn, ...]) -> Iterator[tuple[Any, ...]]:
    """Yield the partition tuple of each entry."""
    if not columns:
        yield from (() for _ in range(entries.num_rows))
        return
    values = [physical_list(column.kind, entries.column(partition_column(column.field_id))) for column in columns]
    yield from zip(*values, strict=True)
