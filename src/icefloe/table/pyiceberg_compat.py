"""A snapshot and a manifest that can open the level below them, for code written in PyIceberg's way.

    for manifest in table.current_snapshot().manifests(table.io):
        for entry in manifest.fetch_manifest_entry(table.io): ...

The values themselves are the kernel's and hold no storage; these add only the step down. Spec: Snapshots; Manifest Lists; Manifests.
"""

from dataclasses import dataclass, fields
from typing import Any

from icefloe.kernel.manifest.entry import ManifestEntry, ManifestEntryStatus
from icefloe.kernel.manifest.manifest_reader import read_entries
from icefloe.kernel.manifest_list.manifest_file import ManifestFile
from icefloe.kernel.metadata.manifests import read_manifests, spec_partition_type
from icefloe.kernel.metadata.snapshot import Snapshot
from icefloe.kernel.metadata.table_metadata import TableMetadata
from icefloe.kernel.ports import FileIO
from icefloe.kernel.types import StructType


@dataclass(frozen=True, slots=True, kw_only=True)
class TableManifest(ManifestFile):
    """A manifest file that knows its partition type, and so can be opened."""

    partition_type: StructType

    def fetch_manifest_entry(self, io: FileIO, discard_deleted: bool = True) -> list[ManifestEntry]:
        """The manifest's entries with sequence numbers inherited; DELETED ones only with `discard_deleted=False`."""
        entries = read_entries(io.read(self.manifest_path), self, self.partition_type)
        return [entry for entry in entries if not discard_deleted or entry.status is not ManifestEntryStatus.DELETED]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSnapshot(Snapshot):
    """A snapshot that knows its table's metadata, and so can open its manifest list."""

    table_metadata: TableMetadata

    def manifests(self, io: FileIO) -> list[TableManifest]:
        """The snapshot's manifests in the order of its manifest list."""
        return [
            TableManifest(**_fields_of(manifest), partition_type=spec_partition_type(self.table_metadata, manifest.partition_spec_id))
            for manifest in read_manifests(self, io.read)
        ]


def table_snapshot(snapshot: Snapshot, metadata: TableMetadata) -> TableSnapshot:
    """The snapshot with the step down added."""
    return TableSnapshot(**_fields_of(snapshot), table_metadata=metadata)


def _fields_of(value: ManifestFile | Snapshot) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in fields(value)}
