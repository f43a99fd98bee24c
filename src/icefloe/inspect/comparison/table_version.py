"""`TableVersion`: a table at one snapshot, with the settings at that time if the metadata log still has them."""

from collections.abc import Sequence
from dataclasses import dataclass

from icefloe.errors import FormatError, IcefloeError, NoSuchSnapshotError, NotFoundError, StorageError
from icefloe.io.locations import place_of_file, place_of_folder
from icefloe.operations.loaded_table import TableReader
from icefloe.operations.metadata_cache import read_metadata_at
from icefloe.spec.manifest_list.manifest_file import ManifestFile
from icefloe.spec.metadata.snapshot import Snapshot
from icefloe.spec.metadata.snapshot_manifests import read_manifests
from icefloe.spec.metadata.table_history import ancestors
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.schema.schema import Schema

# The most snapshots that an error lists.
_SHOWN_CHOICES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class TableVersion:
    """A table at one snapshot.

    Attributes:
        reader: The table.
        name: The version as the user named it: a snapshot id, a branch or a tag; empty for the current snapshot.
        snapshot: The snapshot; None for a table without snapshots.
        settings: The metadata of the table at the time of the snapshot; None if its metadata file is gone.
    """

    reader: TableReader
    name: str
    snapshot: Snapshot | None
    settings: TableMetadata | None

    @property
    def label(self) -> str:
        """The name of the table and of the version, as a user would write them."""
        return f"{self.reader.full_name}@{self.name}" if self.name else self.reader.full_name

    @property
    def snapshot_id(self) -> int | None:
        """The id of the snapshot; None for a table without snapshots."""
        return None if self.snapshot is None else self.snapshot.snapshot_id

    @property
    def schema(self) -> Schema:
        """The schema with which the snapshot is read."""
        metadata = self.reader.metadata
        snapshot = self.snapshot
        if snapshot is None or snapshot.schema_id is None or snapshot.snapshot_id == metadata.current_snapshot_id:
            return metadata.schema()
        return metadata.schema_by_id(snapshot.schema_id)

    def manifests(self) -> Sequence[ManifestFile]:
        """Return the manifests of the snapshot.

        Raises:
            NoSuchFileError: The manifest list does not exist.
            FormatError: The manifest list is damaged, or violates the format.
        """
        return [] if self.snapshot is None else read_manifests(self.snapshot, self.reader.io.read)

    def history(self) -> list[Snapshot]:
        """Return the snapshot and its ancestors, newest first."""
        return list(ancestors(self.reader.metadata, self.snapshot_id))


def table_version(reader: TableReader, name: int | str | None) -> TableVersion:
    """Return a version of a table.

    Args:
        reader: The table.
        name: A snapshot id, a branch or a tag; None for the current snapshot.

    Raises:
        NoSuchSnapshotError: The table has no such snapshot, branch or tag.
    """
    metadata, text = reader.metadata, "" if name is None else str(name)
    snapshot = metadata.current_snapshot()
    if text in metadata.refs:
        snapshot = metadata.snapshot_by_id(metadata.refs[text].snapshot_id)
    elif text:
        is_number = text.isascii() and text.isdecimal() and len(text) < 20
        snapshot = metadata.snapshot_by_id(int(text)) if is_number else None
    if snapshot is None and text:
        newest = ", ".join(str(snapshot.snapshot_id) for snapshot in metadata.snapshots[-_SHOWN_CHOICES:]) or "none"
        raise NoSuchSnapshotError(
            f"{reader.full_name} has no snapshot, branch or tag {text!r}",
            table=reader.full_name,
            next_step=f"the newest snapshots are {newest}; branches and tags: {', '.join(sorted(metadata.refs)) or 'none'}",
        )
    return TableVersion(reader=reader, name=text, snapshot=snapshot, settings=_settings_of(reader, snapshot))


def is_own_metadata_file(reader: TableReader, location: str) -> bool:
    """Return whether a file of the metadata log is in the table's folder or beside its metadata file. A log could name any file of the machine."""
    place = place_of_file(location)
    folders = (place_of_folder(reader.metadata.location), place_of_folder(reader.metadata_location.rpartition("/")[0]))
    return place is not None and any(folder is not None and not folder.is_root and place.is_below(folder) for folder in folders)


def _settings_of(reader: TableReader, snapshot: Snapshot | None) -> TableMetadata | None:
    """Return the metadata that the commit of a snapshot made; for the current snapshot the current metadata. None if the metadata file is gone."""
    metadata = reader.metadata
    if snapshot is None or snapshot.snapshot_id == metadata.current_snapshot_id:
        return metadata
    later = [entry for entry in metadata.metadata_log if entry.timestamp_ms >= snapshot.timestamp_ms]
    if not later:
        return metadata  # the current metadata file is the one that the commit made, on another branch or for a staged snapshot
    location = min(later, key=lambda entry: entry.timestamp_ms).metadata_file
    if not is_own_metadata_file(reader, location):
        return None
    try:
        loaded = read_metadata_at(reader.io, location).metadata
    except (NotFoundError, FormatError, StorageError, IcefloeError):
        return None
    is_same = loaded.table_uuid == metadata.table_uuid and loaded.snapshot_by_id(snapshot.snapshot_id) is not None
    return loaded if is_same else None
