"""Snapshots and manifests with PyIceberg's methods that read manifests and entries, for code that was written for PyIceberg.

    for manifest in table.current_snapshot().manifests(table.io):
        for entry in manifest.fetch_manifest_entry(table.io): ...

The classes here extend those of `spec`, which cannot read files. Spec: Snapshots; Manifest Lists; Manifests.
"""

from dataclasses import dataclass, field, fields

from icefloe.spec.manifest.entry import ManifestEntry, ManifestEntryStatus
from icefloe.spec.manifest.manifest_reader import read_entries
from icefloe.spec.manifest_list.manifest_file import ManifestFile
from icefloe.spec.metadata.snapshot import Snapshot
from icefloe.spec.metadata.snapshot_manifests import read_manifests, spec_partition_type
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.ports import FileIO
from icefloe.spec.types import StructType

_MANIFEST_FIELDS, _SNAPSHOT_FIELDS = (tuple(each.name for each in fields(kind)) for kind in (ManifestFile, Snapshot))


@dataclass(frozen=True, slots=True, kw_only=True)
class TableManifest(ManifestFile):
    """A manifest file with its partition type, which is needed to read its entries."""

    partition_type: StructType

    def fetch_manifest_entry(self, io: FileIO, discard_deleted: bool = True) -> list[ManifestEntry]:
        """Read the manifest's entries, with inherited sequence numbers.

        Args:
            io: the storage.
            discard_deleted: whether entries with status DELETED are left out.

        Returns:
            The entries, in the order of the file.

        Raises:
            NoSuchFileError, ManifestFormatError: the manifest is missing or damaged.
        """
        entries = read_entries(io.read(self.manifest_path), self, self.partition_type)
        return [entry for entry in entries if not discard_deleted or entry.status is not ManifestEntryStatus.DELETED]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TableSnapshot(Snapshot):
    """A snapshot with its table's metadata, which is needed to read its manifest list."""

    table_metadata: TableMetadata = field(
        compare=False, repr=False
    )  # not compared: the same snapshot has other table metadata in a newer version of the table

    def manifests(self, io: FileIO) -> list[TableManifest]:
        """Read the snapshot's manifest list.

        Args:
            io: the storage.

        Returns:
            The manifests, in the order of the list.

        Raises:
            NoSuchFileError, AvroFormatError, ManifestFormatError: the manifest list is missing or damaged.
        """
        return [
            TableManifest(
                **{name: getattr(manifest, name) for name in _MANIFEST_FIELDS},
                partition_type=spec_partition_type(self.table_metadata, manifest.partition_spec_id),
            )
            for manifest in read_manifests(self, io.read)
        ]


def table_snapshot(snapshot: Snapshot, metadata: TableMetadata) -> TableSnapshot:
    """Return a `TableSnapshot` with the fields of `snapshot` and the metadata of its table."""
    return TableSnapshot(**{name: getattr(snapshot, name) for name in _SNAPSHOT_FIELDS}, table_metadata=metadata)
