"""`RecentChanges`: the partitions that young commits changed. Maintenance leaves them to their writers.

Spec: Manifests (inheritance of snapshot ids); Snapshots (operation).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.maintenance.convert_equality_deletes import CHANGES_NO_ROW
from icefloe.maintenance.health_measures import FilesOfBranch
from icefloe.operations.parallel_requests import in_threads
from icefloe.scan.file_objects import partition_tuples
from icefloe.scan.scan_plan import PlannedFiles
from icefloe.spec.arrow_values import array_of_chunks, fill_nulls, mask_array, numpy_of
from icefloe.spec.manifest.data_file import FileContent
from icefloe.spec.manifest.entry import ManifestEntryStatus
from icefloe.spec.manifest.manifest_reader import read_columns
from icefloe.spec.manifest_list.manifest_file import ManifestFile
from icefloe.spec.metadata.snapshot import Operation, Snapshot
from icefloe.spec.metadata.snapshot_manifests import read_manifests, spec_partition_type
from icefloe.spec.metadata.table_history import ancestors
from icefloe.spec.ports import Read

# A partition: the id of its spec, and the text of its values, because NaN is not equal to itself.
Partition = tuple[int, str]


@dataclass(frozen=True, slots=True)
class PartitionChange:
    """The newest young commit of a partition, and what the young commits changed.

    Attributes:
        timestamp_ms: The time of that commit.
        changed_rows: Whether a young commit did more than add rows. Then its writer may conflict with a rewrite of the same files.
    """

    timestamp_ms: int
    changed_rows: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentChanges:
    """The partitions that other writers have changed since a time. Commits that keep all rows, such as compaction, do not count.

    Attributes:
        snapshot_ids: The snapshots of the young commits.
        timestamps: The time of every snapshot of the table, by snapshot id.
        partitions: The changed partitions, with the change of each.
    """

    snapshot_ids: frozenset[int]
    timestamps: Mapping[int, int]
    partitions: Mapping[Partition, PartitionChange]

    def of(self, part: PlannedFiles) -> Iterator[PartitionChange]:
        """Yield the changes of the partitions of planned files."""
        if self.partitions:
            for values in set(map(repr, part.partitions(part.entries))):
                change = self.partitions.get((part.spec_id, values))
                if change is not None:
                    yield change

    def is_old(self, part: PlannedFiles) -> NDArray[np.bool_]:
        """Return a mask of the files that no young commit added."""
        ids = numpy_of(fill_nulls(array_of_chunks(part.entries["snapshot_id"]), -1))
        return ~np.isin(ids, np.array(sorted(self.snapshot_ids), dtype=np.int64))

    def oldest_ms(self, parts: Iterable[PlannedFiles]) -> int:
        """Return the time of the commit that added the oldest of these files; 0 if that snapshot has expired."""
        ids = {snapshot_id for part in parts for snapshot_id in pc.unique(part.entries["snapshot_id"]).to_pylist()}
        return min((self.timestamps.get(snapshot_id, 0) for snapshot_id in ids), default=0)


def recent_changes(files: FilesOfBranch, since_ms: int, read: Read) -> RecentChanges:
    """Find the partitions of a branch that commits after a time have changed, by reading the manifests of these commits.

    The manifests of the branch's head are not enough, because a manifest in which all entries are deleted is dropped by the next commit.

    Args:
        files: The files of the branch.
        since_ms: The time, in milliseconds since 1970-01-01 UTC.
        read: Returns the content of a file.

    Raises:
        NoSuchFileError, AvroFormatError, ManifestFormatError: A manifest is missing or damaged.
    """
    metadata = files.metadata
    head = None if files.snapshot is None else files.snapshot.snapshot_id
    young = {
        snapshot.snapshot_id: snapshot
        for snapshot in ancestors(metadata, head)
        if snapshot.timestamp_ms > since_ms
        and snapshot.summary.operation != Operation.REPLACE
        and snapshot.summary.get(CHANGES_NO_ROW) != "true"
    }
    changes: dict[Partition, PartitionChange] = {}
    if young:
        ids = np.array(sorted(young), dtype=np.int64)

        def manifests_of(snapshot: Snapshot) -> list[ManifestFile]:
            manifests = files.manifests if snapshot.snapshot_id == head else read_manifests(snapshot, read)
            return [manifest for manifest in manifests if manifest.added_snapshot_id == snapshot.snapshot_id]

        manifests = [manifest for own in in_threads(manifests_of, young.values()) for manifest in own]

        def changed_partitions(manifest: Any) -> list[tuple[Partition, PartitionChange]]:
            kind = spec_partition_type(metadata, manifest.partition_spec_id)
            entries = read_columns(read(manifest.manifest_path), manifest, kind).entries
            is_young = np.isin(numpy_of(fill_nulls(array_of_chunks(entries["snapshot_id"]), -1)), ids)
            return list(_changes(entries.filter(mask_array(is_young)), manifest.partition_spec_id, kind, young))

        for pairs in in_threads(changed_partitions, manifests):
            for partition, change in pairs:
                known = changes.get(partition, change)
                changes[partition] = PartitionChange(
                    max(known.timestamp_ms, change.timestamp_ms), known.changed_rows or change.changed_rows
                )
    return RecentChanges(
        snapshot_ids=frozenset(young),
        timestamps={snapshot.snapshot_id: snapshot.timestamp_ms for snapshot in metadata.snapshots},
        partitions=changes,
    )


def _changes(entries: Any, spec_id: int, kind: Any, young: Mapping[int, Snapshot]) -> Iterator[tuple[Partition, PartitionChange]]:
    rows = zip(
        entries["snapshot_id"].to_pylist(),
        entries["status"].to_pylist(),
        entries["content"].to_pylist(),
        partition_tuples(entries, kind),
        strict=True,
    )
    for snapshot_id, status, content, values in rows:
        summary = young[snapshot_id].summary
        removed_files = status == ManifestEntryStatus.DELETED or summary.get("deleted-data-files", "0") != "0"
        # Streams that write equality deletes also write position deletes, but only of rows from the same commit.
        deleted_rows = content == FileContent.POSITION_DELETES and "added-equality-delete-files" not in summary
        yield (spec_id, repr(values)), PartitionChange(young[snapshot_id].timestamp_ms, removed_files or deleted_rows)
