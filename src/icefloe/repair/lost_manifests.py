"""`LostManifests`: the entries of manifests that cannot be read, as far as other manifests or data files show them.

A manifest list states for each manifest the snapshot that added it, and how many entries and rows of each status it has. Entries of another source are taken
only if they have exactly these counts. Other manifests are a certain source: a new manifest has the entries of the manifests of the parent that it replaced,
and no others. Data files are not certain, because a failed commit leaves files of the same form. Spec: Manifest Lists; Manifests.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import cached_property

from icefloe.datafile.files_to_add import FilesToAdd
from icefloe.datafile.foreign_files import FooterRequest
from icefloe.errors import FormatError, IcefloeError, NoSuchFileError, StorageUnavailableError, UnsupportedError
from icefloe.io.file_tree import HiddenNames, files_below
from icefloe.io.locations import place_of_folder
from icefloe.operations.own_location import own_location
from icefloe.operations.parallel_requests import in_threads
from icefloe.operations.table_handle import TableHandle, data_folder
from icefloe.repair.head_snapshot import HeadSnapshot, readable_manifests
from icefloe.repair.repaired_snapshot import RebuiltManifest, entries_of
from icefloe.spec.manifest.data_file import DataFile
from icefloe.spec.manifest.entry import ManifestEntry, ManifestEntryStatus
from icefloe.spec.manifest.partition_summary import summarise
from icefloe.spec.manifest_list.manifest_file import ManifestContent, ManifestFile, PartitionFieldSummary
from icefloe.spec.metadata.snapshot_manifests import spec_partition_type
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.metadata.table_properties import NAME_MAPPING
from icefloe.spec.schema.name_mapping import NameMapping

# If a table's folder has more unreferenced files than this, none is read: so many cannot be the files of one lost manifest.
MOST_CANDIDATES = 100_000
_Key = tuple[str, int | None]


def key_of(file: DataFile) -> _Key:
    """Return what identifies a file: its path, and for a deletion vector its offset in the Puffin file."""
    return file.file_path, file.content_offset


class LostManifests:
    """Finds the entries of the lost manifests of one snapshot."""

    def __init__(self, handle: TableHandle, metadata: TableMetadata, head: HeadSnapshot, lost: Collection[str]) -> None:
        """Prepare to search.

        Args:
            handle: The table.
            metadata: The metadata of the table.
            head: The snapshot that has the lost manifests.
            lost: The paths of the manifests that cannot be read.
        """
        self._handle = handle
        self._metadata = metadata
        self._head = head
        self._lost = frozenset(lost)
        self._entries: dict[str, list[ManifestEntry] | None] = {}

    def from_snapshots(self, manifest: ManifestFile) -> tuple[RebuiltManifest | None, str]:
        """Rebuild a lost manifest from manifests of other snapshots.

        Returns:
            The rebuilt manifest and an empty text; or None and the reason, if the other manifests do not have all of its entries.
        """
        if self._has_lost_sibling(manifest):
            return None, "its snapshot has lost several manifests, and which entry was in which is not known"
        existing, why = self._existing(manifest)
        if existing is None:
            return None, why
        added, why = self._entries_still_in_use(manifest)
        return (None, why) if added is None else (_rebuilt(manifest, [*existing, *added]), "")

    def from_files(self, manifest: ManifestFile) -> tuple[RebuiltManifest | None, str]:
        """Rebuild a lost manifest, taking its added entries from unreferenced data files.

        Returns:
            The rebuilt manifest and an empty text; or None and the reason, if the files do not have the counts that the manifest list states.
        """
        if manifest.content is not ManifestContent.DATA:
            return None, "of a manifest of deletes the sequence numbers and equality fields are in no file"
        if self._has_lost_sibling(manifest):
            return None, "its snapshot has lost several manifests, and which file was in which is not known"
        existing, why = self._existing(manifest)
        if existing is None:
            return None, why
        files, why = self._unreferenced_files(manifest)
        if files is None:
            return None, why
        count, rows = manifest.added_files_count or 0, manifest.added_rows_count or 0
        if (len(files), sum(file.record_count for file in files)) != (count, rows):
            summary = f"{len(files)} unreferenced data files with {sum(file.record_count for file in files)} rows"
            return None, f"the manifest added {count} files with {rows} rows, and the folder of the table has {summary}"
        partition_type = spec_partition_type(self._metadata, manifest.partition_spec_id)
        partitions = [entry.data_file.partition for entry in existing] + [file.partition for file in files]
        if manifest.partitions is not None and not _same_bounds(summarise(partition_type, partitions), manifest.partitions):
            return None, "the unreferenced data files have other partitions than the manifest list states"
        is_only = count == 1 and not existing
        added = [
            ManifestEntry(
                ManifestEntryStatus.EXISTING,
                manifest.added_snapshot_id,
                manifest.sequence_number,
                manifest.sequence_number,
                # If the manifest had several files, their order is lost, and with it the first row id of each.
                replace(file, first_row_id=manifest.first_row_id if is_only else None),
            )
            for file in files
        ]
        return _rebuilt(manifest, [*existing, *added]), ""

    def _has_lost_sibling(self, manifest: ManifestFile) -> bool:
        lost = [self._head.manifests[path] for path in self._lost]
        added_by = manifest.added_snapshot_id
        return any(other is not manifest and _same_kind(other, manifest) and other.added_snapshot_id == added_by for other in lost)

    def _existing(self, manifest: ManifestFile) -> tuple[list[ManifestEntry] | None, str]:
        """Return the entries of status EXISTING, which the replaced manifests of the parent snapshot had; or None and the reason."""
        count = manifest.existing_files_count
        if count == 0:
            return [], ""
        if count is None or manifest.deleted_files_count is None:
            return None, "the manifest list has no counts of the manifest"
        if manifest.deleted_files_count:
            return None, "which of the parent's entries the manifest deleted is not known"
        snapshot = self._metadata.snapshot_by_id(manifest.added_snapshot_id)
        parent = None if snapshot is None else self._metadata.snapshot_by_id(snapshot.parent_snapshot_id or 0)
        if snapshot is None or parent is None:
            return None, "the snapshot that added the manifest, or its parent, has expired"
        own, before = readable_manifests(self._handle.io, snapshot), readable_manifests(self._handle.io, parent)
        if own is None or before is None:
            return None, "a manifest list that would show its entries cannot be read"
        listed = {other.manifest_path for other in own}
        replaced = [other for other in before if other.manifest_path not in listed and _same_kind(other, manifest)]
        others = [
            other
            for other in own
            if other.added_snapshot_id == snapshot.snapshot_id
            and other.manifest_path != manifest.manifest_path
            and _same_kind(other, manifest)
        ]
        if any(self._entries_of(other) is None for other in (*replaced, *others)):
            return None, "another manifest that would show its entries cannot be read"
        elsewhere = {key_of(entry.data_file) for other in others for entry in self._entries_of(other) or ()}
        entries = {key_of(entry.data_file): entry for other in replaced for entry in self._entries_of(other) or () if entry.is_live}
        chosen = [entry for key, entry in entries.items() if key not in elsewhere]
        if (len(chosen), _rows(chosen)) != (count, manifest.existing_rows_count):
            return None, "the manifests that it replaced have other entries than the manifest list counts"
        return chosen, ""

    def _entries_still_in_use(self, manifest: ManifestFile) -> tuple[list[ManifestEntry] | None, str]:
        """Return the entries of status ADDED, which later snapshots or other branches still have; or None and the reason."""
        count = manifest.added_files_count
        if count == 0:
            return [], ""
        if count is None:
            return None, "the manifest list has no counts of the manifest"
        entries: dict[_Key, ManifestEntry] = {}
        elsewhere: set[_Key] = set()
        for other in self._all_manifests.values():
            if not _same_kind(other, manifest):
                continue
            for entry in self._entries_of(other) or ():
                if entry.is_live and entry.snapshot_id == manifest.added_snapshot_id:
                    entries[key_of(entry.data_file)] = entry
                    if other.added_snapshot_id == manifest.added_snapshot_id:
                        elsewhere.add(key_of(entry.data_file))
        chosen = [entry for key, entry in entries.items() if key not in elsewhere]
        if (len(chosen), _rows(chosen)) != (count, manifest.added_rows_count):
            return None, "no other snapshot has the entries that the manifest added"
        return chosen, ""

    def _unreferenced_files(self, manifest: ManifestFile) -> tuple[list[DataFile] | None, str]:
        """Return the data files in the table's folder that no readable manifest names, with their partitions; or None and the reason."""
        metadata, handle = self._metadata, self._handle
        own = own_location(handle, metadata.location, handle.store.load(handle.identifier).metadata_location)
        folder = place_of_folder(data_folder(metadata))
        if own is None or folder is None or not (folder == own or folder.is_below(own)):
            return None, "the folder of the data files is not known to be the table's own"
        known = {entry.data_file.file_path for other in self._all_manifests.values() for entry in self._entries_of(other) or ()}
        names = HiddenNames.of_fields(field.name for spec in metadata.partition_specs for field in spec.fields)
        paths: list[str] = []
        try:
            for listed in files_below(handle.io, data_folder(metadata), names):
                paths += [path for path in (f"{listed.folder}/{name}" for name in listed.names) if path not in known]
                if len(paths) > MOST_CANDIDATES:
                    return None, f"more than {MOST_CANDIDATES:,} files in the folder of the table are in no manifest"
        except (NoSuchFileError, UnsupportedError):
            return None, "the folder of the data files cannot be listed"
        reader = FilesToAdd(
            FooterRequest(
                schema=metadata.schema(),
                properties=metadata.properties,
                name_mapping=NAME_MAPPING.read(metadata.properties) or NameMapping(()),
                io=handle.io,
                table_name=handle.table_name,
                sort_order=metadata.sort_order(),
            ),
            metadata.spec_by_id(manifest.partition_spec_id),
        )

        def read_data_file(path: str) -> DataFile | None:
            try:
                return reader.file_to_add(path).file
            except StorageUnavailableError:
                raise
            except IcefloeError:
                return None  # the file is a delete file, has another format, or its partition is not certain

        return [file for file in in_threads(read_data_file, sorted(paths)) if file is not None], ""

    @cached_property
    def _all_manifests(self) -> dict[str, ManifestFile]:
        """The manifests of all snapshots by path, without the lost manifests."""
        manifests = dict(self._head.manifests)
        for snapshot in self._metadata.snapshots:
            manifests.update({manifest.manifest_path: manifest for manifest in readable_manifests(self._handle.io, snapshot) or ()})
        return {path: manifest for path, manifest in manifests.items() if path not in self._lost}

    def _entries_of(self, manifest: ManifestFile) -> list[ManifestEntry] | None:
        path = manifest.manifest_path
        if path not in self._entries:
            try:
                self._entries[path] = None if path in self._lost else entries_of(manifest, self._metadata, self._handle.io.read)
            except (FormatError, UnsupportedError, NoSuchFileError):
                self._entries[path] = None
        return self._entries[path]


def _same_bounds(some: Sequence[PartitionFieldSummary], others: Sequence[PartitionFieldSummary]) -> bool:
    """Return whether partition summaries are equal apart from NaN, which not every writer records."""
    return [(summary.contains_null, summary.lower_bound, summary.upper_bound) for summary in some] == [
        (summary.contains_null, summary.lower_bound, summary.upper_bound) for summary in others
    ]


def _same_kind(manifest: ManifestFile, other: ManifestFile) -> bool:
    return manifest.content is other.content and manifest.partition_spec_id == other.partition_spec_id


def _rows(entries: Sequence[ManifestEntry]) -> int:
    return sum(entry.data_file.record_count for entry in entries)


def _rebuilt(manifest: ManifestFile, entries: Sequence[ManifestEntry]) -> RebuiltManifest:
    return RebuiltManifest(lost=manifest, entries=tuple(_existing(entries)))


def _existing(entries: Sequence[ManifestEntry]) -> Iterator[ManifestEntry]:
    for entry in entries:
        yield replace(entry, status=ManifestEntryStatus.EXISTING)
