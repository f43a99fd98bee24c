"""`HeadSnapshot`: the manifests of the snapshot that is repaired, with their counts and the places of chosen files. Each manifest is read once.

Reading is as lenient as in validation: a manifest that cannot be read has no counts. Spec: Manifest Lists; Manifests.
"""

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icefloe.checks.manifest_check import UNREADABLE, FileTotals, read_plain, totals_of
from icefloe.checks.manifest_entries import NO_NUMBER, read_manifest_entries
from icefloe.checks.manifest_list_rules import LIST_DAMAGED, LIST_MISSING, path_text
from icefloe.checks.manifest_row import ManifestRow, read_rows
from icefloe.errors import FormatError, NoSuchFileError
from icefloe.operations.parallel_requests import in_threads
from icefloe.spec.arrow_values import numpy_of
from icefloe.spec.avro.avro_container import open_container
from icefloe.spec.manifest_list.manifest_file import ManifestFile
from icefloe.spec.metadata.snapshot import Snapshot
from icefloe.spec.metadata.snapshot_manifests import spec_partition_type
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.ports import FileIO


@dataclass(frozen=True, slots=True, kw_only=True)
class LivePlace:
    """The place of a live file in a snapshot.

    Attributes:
        manifest: The path of its manifest.
        position: The position of its entry in the manifest.
        sequence_number: Its data sequence number.
        offset: The offset of a deletion vector in its Puffin file; -1 for any other file.
    """

    manifest: str
    position: int
    sequence_number: int
    offset: int = -1


@dataclass(slots=True)
class HeadSnapshot:
    """The snapshot that a repair corrects: its manifests, their counts, and the places of chosen files.

    Attributes:
        snapshot: The snapshot.
        manifests: The manifests by path, each once, in the order of the manifest list.
        repeated: The paths of manifests that the manifest list has more than once.
        totals: The counts of live files by the path of the manifest; None for a manifest that cannot be read.
        places: The places of the chosen files, by path.
        is_whole: Whether the whole manifest list could be read.
    """

    snapshot: Snapshot
    manifests: dict[str, ManifestFile] = field(default_factory=dict)
    repeated: set[str] = field(default_factory=set)
    totals: dict[str, FileTotals | None] = field(default_factory=dict)
    places: dict[str, list[LivePlace]] = field(default_factory=dict)
    is_whole: bool = True


def rows_of_list(io: FileIO, snapshot: Snapshot) -> tuple[list[ManifestRow], bool]:
    """Return the entries of a snapshot's manifest list, and whether the whole list could be read."""
    location = snapshot.manifest_list
    if location is None:
        paths = snapshot.manifest_paths or ()
        return [ManifestRow(path.encode("utf-8", "replace"), added_snapshot_id=snapshot.snapshot_id) for path in paths], True
    rows: list[ManifestRow] = []
    try:
        rows.extend(read_rows(read_plain(io, location), location))
    except UNREADABLE:
        return rows, False
    return rows, True


def readable_manifests(io: FileIO, snapshot: Snapshot) -> tuple[ManifestFile, ...] | None:
    """Return the manifests of a snapshot; None if a part of its manifest list cannot be read, or an entry has no valid path or content."""
    rows, is_whole = rows_of_list(io, snapshot)
    manifests = []
    for row in rows:
        path = path_text(row)
        if path is None or row.content not in (None, 0, 1):
            return None
        manifests.append(row.manifest_file(path, row.partition_spec_id or 0))
    return tuple(manifests) if is_whole else None


def manifests_by_path(io: FileIO, snapshot: Snapshot) -> dict[str, ManifestFile]:
    """Return the manifests of a snapshot by path, as far as its manifest list can be read."""
    rows, _ = rows_of_list(io, snapshot)
    named = ((path_text(row), row) for row in rows if row.content in (None, 0, 1))
    return {path: row.manifest_file(path, row.partition_spec_id or 0) for path, row in named if path is not None}


def lost_lists(io: FileIO, metadata: TableMetadata) -> dict[int, str]:
    """Return the ids of the snapshots whose manifest list is missing or damaged, each with the id of the violated rule."""
    listed = [snapshot for snapshot in metadata.snapshots if snapshot.manifest_list is not None]
    rules = in_threads(lambda snapshot: _rule_of_list(io, snapshot), listed)
    return {snapshot.snapshot_id: rule for snapshot, rule in zip(listed, rules, strict=True) if rule is not None}


def _rule_of_list(io: FileIO, snapshot: Snapshot) -> str | None:
    location = snapshot.manifest_list or ""
    try:
        deque(read_rows(read_plain(io, location), location), maxlen=0)
    except NoSuchFileError:
        return LIST_MISSING.id
    except FormatError:
        return LIST_DAMAGED.id
    except UNREADABLE:
        return None  # the list is encrypted, or access is denied
    return None


def read_head(io: FileIO, metadata: TableMetadata, snapshot: Snapshot, paths: Collection[str]) -> HeadSnapshot:
    """Read the manifests of a snapshot.

    Args:
        io: The storage.
        metadata: The metadata of the table.
        snapshot: The snapshot.
        paths: The paths of the files whose places are needed.

    Raises:
        StorageUnavailableError: The storage does not respond.
    """
    head = HeadSnapshot(snapshot)
    rows, head.is_whole = rows_of_list(io, snapshot)
    for row in rows:
        path = path_text(row)
        if path is None or row.content not in (None, 0, 1):
            head.is_whole = False
        elif path in head.manifests:
            head.repeated.add(path)
        else:
            head.manifests[path] = row.manifest_file(path, row.partition_spec_id or 0)
    chosen_paths = pa.array(sorted(paths), pa.string())
    for path, manifest in head.manifests.items():
        head.totals[path] = _read(io, metadata, manifest, chosen_paths, head.places)
    return head


def _read(
    io: FileIO, metadata: TableMetadata, manifest: ManifestFile, chosen_paths: pa.Array, places: dict[str, list[LivePlace]]
) -> FileTotals | None:
    path = manifest.manifest_path
    try:
        container = open_container(read_plain(io, path), path)
        partition_type = spec_partition_type(metadata, manifest.partition_spec_id)
        entries = read_manifest_entries(container, partition_type, manifest.sequence_number, manifest.added_snapshot_id)
    except UNREADABLE:
        return None
    if entries.problems or not (entries.is_live | entries.is_deleted).all():
        return None
    if len(chosen_paths):
        named = numpy_of(pc.is_in(entries.columns["file_path"], value_set=chosen_paths))
        offsets, numbers = entries.numbers("content_offset"), entries.data_sequence_numbers
        for position in np.flatnonzero(named & entries.is_live).tolist():
            offset = int(offsets[position])
            place = LivePlace(
                manifest=path,
                position=position,
                sequence_number=int(numbers[position]),
                offset=-1 if offset == NO_NUMBER else offset,
            )
            places.setdefault(entries.path(position) or "", []).append(place)
    return totals_of(entries, entries.is_live)
