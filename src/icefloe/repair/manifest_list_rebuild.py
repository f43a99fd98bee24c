"""`ManifestListRebuild`: rebuilds manifest lists that cannot be read from the manifests, and from the manifest lists of other snapshots.

A snapshot lists the manifests that it created, and those manifests of its parent whose live files do not occur in the new ones as EXISTING or DELETED. If a
child snapshot has a readable list, the manifests in it that the child did not create belong to the snapshot too. A rebuilt list is accepted only if its
manifests have the totals of the snapshot's summary. Rows of snapshots do not change: the metadata file names the new list. Spec: Manifest Lists; Snapshots.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from icefloe.checks.manifest_check import total_of
from icefloe.commit.attempt import NewFile
from icefloe.errors import FormatError, IcefloeError, NoSuchFileError, StorageUnavailableError, UnsupportedError
from icefloe.io.file_tree import HiddenNames, files_below
from icefloe.operations.table_handle import TableHandle, metadata_folder
from icefloe.repair.head_snapshot import readable_manifests
from icefloe.repair.lost_manifests import key_of
from icefloe.repair.repaired_snapshot import entries_of, totals_in_summary, totals_of_files
from icefloe.spec.avro.avro_container import open_container
from icefloe.spec.manifest.entry import ManifestEntry, ManifestEntryStatus
from icefloe.spec.manifest.manifest_reader import fill_counts
from icefloe.spec.manifest.partition_summary import summarise
from icefloe.spec.manifest_list.manifest_file import ManifestContent, ManifestFile
from icefloe.spec.manifest_list.manifest_list_writer import write_manifest_list
from icefloe.spec.metadata import table_properties
from icefloe.spec.metadata.naming import manifest_list_name
from icefloe.spec.metadata.snapshot import Snapshot, count_of
from icefloe.spec.metadata.snapshot_manifests import spec_partition_type
from icefloe.spec.metadata.table_metadata import TableMetadata

_LIST_NAME = re.compile(r"snap-\d+-\d+-(?P<commit>[0-9a-fA-F-]{36})\.avro")
# The totals that a summary must have, so that a rebuilt list can be checked for completeness.
_NEEDED = ("total-data-files", "total-records", "total-delete-files")
# The most manifests of one commit in the metadata folder that are read; a commit writes a few.
MOST_MANIFESTS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuiltList:
    """A manifest list that was rebuilt, but is not written yet."""

    snapshot: Snapshot
    manifests: tuple[ManifestFile, ...]
    file: NewFile


class ManifestListRebuild:
    """Rebuilds the lost manifest lists of one table."""

    def __init__(self, handle: TableHandle, metadata: TableMetadata, lost: Sequence[int]) -> None:
        """Prepare to rebuild.

        Args:
            handle: The table.
            metadata: The metadata of the table.
            lost: The ids of the snapshots whose manifest list cannot be read.
        """
        self._handle = handle
        self._metadata = metadata
        self._lost = dict.fromkeys(lost)
        self._lists: dict[int, tuple[ManifestFile, ...]] = {}
        self._entries: dict[str, list[ManifestEntry] | None] = {}
        self.why: dict[int, str] = {}

    def rebuilt(self) -> list[RebuiltList]:
        """Return the manifest lists that could be rebuilt with certainty, in the order in which they were found.

        `why` has, by snapshot id, the reason for each lost list that could not be rebuilt.

        Raises:
            StorageUnavailableError: The storage does not respond.
        """
        for snapshot in self._metadata.snapshots:
            manifests = None if snapshot.snapshot_id in self._lost else readable_manifests(self._handle.io, snapshot)
            if manifests is not None:
                self._lists[snapshot.snapshot_id] = manifests
        lists: list[RebuiltList] = []
        # A rebuilt list can be the parent or child from which another lost list is rebuilt.
        while True:
            step = [rebuilt for rebuilt in map(self._one, [i for i in self._lost if i not in self._lists]) if rebuilt is not None]
            for rebuilt in step:
                self._lists[rebuilt.snapshot.snapshot_id] = rebuilt.manifests
                self.why.pop(rebuilt.snapshot.snapshot_id, None)
            lists += step
            if not step:
                return lists

    def _one(self, snapshot_id: int) -> RebuiltList | None:
        snapshot = self._metadata.snapshot_by_id(snapshot_id)
        if snapshot is None or snapshot.manifest_list is None:
            return None
        if any(count_of(snapshot.summary.get(key)) is None for key in _NEEDED):
            self.why[snapshot_id] = "the summary of the snapshot has no totals by which a list could be checked"
            return None
        # A list whose totals differ from the summary may have been cut. The manifests that it still names belong to the snapshot.
        named = {manifest.manifest_path for manifest in readable_manifests(self._handle.io, snapshot) or ()}
        for manifests in self._candidates(snapshot):
            if named <= {manifest.manifest_path for manifest in manifests} and self._has_totals(snapshot, manifests):
                assigned = self._with_row_ids(snapshot, manifests)
                if assigned is not None:
                    return self._write(snapshot, assigned)
                self.why[snapshot_id] = "the row ids of its manifests are not known"
                return None
        self.why.setdefault(snapshot_id, "no manifests of other lists and of the metadata folder have the totals of its summary")
        return None

    def _candidates(self, snapshot: Snapshot) -> Iterator[tuple[ManifestFile, ...]]:
        for child in self._metadata.snapshots:
            listed = self._lists.get(child.snapshot_id)
            if child.parent_snapshot_id == snapshot.snapshot_id and listed is not None:
                yield tuple(manifest for manifest in listed if manifest.added_snapshot_id != child.snapshot_id)
        created = self._manifests_of(snapshot)
        parent = self._lists.get(snapshot.parent_snapshot_id or 0)
        if created is None or (parent is None and snapshot.parent_snapshot_id is not None):
            return
        yield (*created, *self._not_replaced(parent or (), created))

    def _not_replaced(self, parent: Sequence[ManifestFile], created: Sequence[ManifestFile]) -> Iterator[ManifestFile]:
        taken = {
            key_of(entry.data_file)
            for manifest in created
            for entry in self._entries_of(manifest) or ()
            if entry.status is not ManifestEntryStatus.ADDED
        }
        for manifest in parent:
            live = [key_of(entry.data_file) for entry in self._entries_of(manifest) or () if entry.is_live]
            if live and taken.isdisjoint(live):
                yield manifest

    def _manifests_of(self, snapshot: Snapshot) -> list[ManifestFile] | None:
        """Return the manifests that a snapshot created. They are in manifest lists of other snapshots, or in the metadata folder under the name of the commit.

        Returns:
            The manifests; None if one in the folder cannot be read or was created by another snapshot, or if the folder has too many.
        """
        created = {
            manifest.manifest_path: manifest
            for listed in self._lists.values()
            for manifest in listed
            if manifest.added_snapshot_id == snapshot.snapshot_id
        }
        match = _LIST_NAME.fullmatch((snapshot.manifest_list or "").rpartition("/")[2])
        names = (
            [] if match is None else [name for name in self._names if name.startswith(f"{match['commit']}-m") and name.endswith(".avro")]
        )
        if len(names) > MOST_MANIFESTS:
            return None
        for name in names:
            path = f"{metadata_folder(self._metadata)}/{name}"
            if path not in created:
                described = self._describe(path, snapshot)
                if described is None:
                    return None
                created[path] = described
        return list(created.values())

    @cached_property
    def _names(self) -> list[str]:
        """The names of the files in the metadata folder; an empty list if it cannot be listed."""
        folder = metadata_folder(self._metadata)
        try:
            return sorted(
                name for listed in files_below(self._handle.io, folder, HiddenNames()) if listed.folder == folder for name in listed.names
            )
        except StorageUnavailableError:
            raise
        except IcefloeError:
            return []

    def _describe(self, path: str, snapshot: Snapshot) -> ManifestFile | None:
        """Return the manifest list entry of a manifest in the metadata folder, as the snapshot that created the manifest had it.

        Args:
            path: The location of the manifest.
            snapshot: The snapshot.

        Returns:
            The entry; None if the manifest cannot be read, or another snapshot created it.
        """
        try:
            content = self._handle.io.read(path)
            header = open_container(content, path).metadata
            spec_id = int(header.get("partition-spec-id", b"0"))
            manifest = ManifestFile(
                manifest_path=path,
                manifest_length=len(content),
                partition_spec_id=spec_id,
                content=ManifestContent.DELETES if header.get("content") == b"deletes" else ManifestContent.DATA,
                sequence_number=snapshot.sequence_number,
                added_snapshot_id=snapshot.snapshot_id,
            )
            manifest = fill_counts(content, manifest)
            partition_type = spec_partition_type(self._metadata, spec_id)
        except (FormatError, UnsupportedError, NoSuchFileError, ValueError):
            return None
        entries = self._entries_of(manifest)
        if entries is None or any(
            entry.status is ManifestEntryStatus.ADDED and entry.snapshot_id != snapshot.snapshot_id for entry in entries
        ):
            return None
        numbers = [entry.sequence_number for entry in entries if entry.is_live and entry.sequence_number is not None]
        return replace(
            manifest,
            min_sequence_number=min(numbers, default=snapshot.sequence_number),
            partitions=summarise(partition_type, [entry.data_file.partition for entry in entries]),
        )

    def _has_totals(self, snapshot: Snapshot, manifests: Sequence[ManifestFile]) -> bool:
        entries = [self._entries_of(manifest) for manifest in manifests]
        if None in entries:
            self.why[snapshot.snapshot_id] = "a manifest that it may have cannot be read"
            return False
        totals = total_of(
            totals_of_files(entry.data_file for entry in entries_of_manifest if entry.is_live)
            for entries_of_manifest in entries
            if entries_of_manifest is not None
        )
        expected: Mapping[str, str] = totals_in_summary(totals)
        stated = {key: count_of(snapshot.summary.get(key)) for key in expected}
        return all(number is None or number == int(expected[key]) for key, number in stated.items())

    def _with_row_ids(self, snapshot: Snapshot, manifests: Sequence[ManifestFile]) -> tuple[ManifestFile, ...] | None:
        """Return the manifests with their first row ids; None if several new manifests need one, because the order in which they got theirs is lost."""
        if self._metadata.format_version < 3 or snapshot.first_row_id is None:
            return tuple(manifests)
        without = [manifest for manifest in manifests if manifest.content is ManifestContent.DATA and manifest.first_row_id is None]
        if len(without) > 1:
            return None
        return tuple(replace(manifest, first_row_id=snapshot.first_row_id) if manifest in without else manifest for manifest in manifests)

    def _write(self, snapshot: Snapshot, manifests: tuple[ManifestFile, ...]) -> RebuiltList:
        metadata = self._metadata
        content = write_manifest_list(
            manifests,
            format_version=metadata.format_version,
            snapshot_id=snapshot.snapshot_id,
            parent_snapshot_id=snapshot.parent_snapshot_id,
            sequence_number=snapshot.sequence_number,
            first_row_id=snapshot.first_row_id,
            codec=table_properties.AVRO_CODEC.read(metadata.properties),
        )
        name = manifest_list_name(snapshot.snapshot_id, 0, self._handle.ids.uuid())
        return RebuiltList(
            snapshot=snapshot,
            manifests=manifests,
            file=NewFile(location=f"{metadata_folder(metadata)}/{name}", content=content),
        )

    def _entries_of(self, manifest: ManifestFile) -> list[ManifestEntry] | None:
        path = manifest.manifest_path
        if path not in self._entries:
            try:
                self._entries[path] = entries_of(manifest, self._metadata, self._handle.io.read)
            except (FormatError, UnsupportedError, NoSuchFileError):
                self._entries[path] = None
        return self._entries[path]
