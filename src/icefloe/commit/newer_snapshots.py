"""`NewerSnapshots`: the snapshots that were added to a branch since the one that a commit was planned on, and the entries that each of them changed.

`conflicts.py` defines which changes are conflicts. JAVA: MergingSnapshotProducer.validationHistory.
Spec: Commit Conflict Resolution and Retry; Snapshots; Manifests.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icefloe.commit.attempt import Read
from icefloe.commit.snapshot_attempt import parent_snapshot
from icefloe.errors import CommitInvalidatedError, Problem
from icefloe.spec.arrow_values import scalar_of
from icefloe.spec.manifest.entry import ManifestEntryStatus
from icefloe.spec.manifest.manifest_columns import Statistic
from icefloe.spec.manifest.manifest_reader import read_columns
from icefloe.spec.manifest_list.manifest_file import ManifestContent, ManifestFile
from icefloe.spec.metadata.snapshot import Snapshot
from icefloe.spec.metadata.snapshot_manifests import read_manifests, spec_partition_type
from icefloe.spec.metadata.table_history import ancestors
from icefloe.spec.metadata.table_metadata import TableMetadata

PLAN_AGAIN = "a retry will fail again: refresh the table, and plan the change on its newest snapshot"
# The operations whose snapshots can make each kind of change. A snapshot without a known operation can make any change. JAVA: MergingSnapshotProducer.
ADDS_DATA = frozenset({"append", "overwrite"})
REMOVES_DATA = frozenset({"overwrite", "replace", "delete"})
REPLACES_DATA = frozenset({"overwrite", "replace"})
ADDS_DELETES = frozenset({"overwrite", "delete"})
ADDS_VECTORS = frozenset({"overwrite", "delete", "replace"})
# How many snapshots are searched for the one that removed a file. The search only makes an error message clearer.
_SEARCHED_SNAPSHOTS = 100
_KNOWN_OPERATIONS = frozenset({"append", "overwrite", "replace", "delete"})


# Identifies a snapshot and its content. The id alone is not enough: a retry of a transaction makes its snapshots again, with the same ids.
SnapshotKey = tuple[int, str | None, tuple[str, ...] | None]


def key_of(snapshot: Snapshot) -> SnapshotKey:
    """Return the key that identifies a snapshot and its content."""
    paths = snapshot.manifest_paths
    return snapshot.snapshot_id, snapshot.manifest_list, None if paths is None else tuple(paths)


@dataclass(frozen=True, slots=True)
class ChangedEntries:
    """The entries (a table of `ManifestColumns`) that one snapshot added or removed in one manifest."""

    snapshot: Snapshot
    manifest: ManifestFile
    entries: Any


class NewerSnapshots:
    """The newer snapshots of a branch, newest first. Manifest lists and manifests are read on demand, each manifest list once."""

    def __init__(self, base: TableMetadata, snapshots: Sequence[Snapshot], read: Read) -> None:
        self._base = base
        self._read = read
        self._manifests: dict[int, list[ManifestFile]] = {}
        self.snapshots = tuple(snapshots)

    def without(self, checked: Collection[SnapshotKey]) -> "NewerSnapshots":
        """Return the snapshots except those whose keys are in `checked`."""
        return NewerSnapshots(self._base, [snapshot for snapshot in self.snapshots if key_of(snapshot) not in checked], self._read)

    def changed_entries(
        self,
        content: ManifestContent,
        status: ManifestEntryStatus,
        operations: Collection[str],
        *,
        select: Callable[[Sequence[ManifestFile]], Sequence[ManifestFile]] = lambda manifests: manifests,
        statistics: Callable[[int], Collection[Statistic]] = lambda _: (),
    ) -> Iterator[ChangedEntries]:
        """Yield the entries that the snapshots added or removed.

        Args:
            content: read data manifests, or delete manifests.
            status: ADDED or DELETED.
            operations: operations of the snapshots to read. Snapshots with an unknown operation are read too.
            select: receives the manifests that a snapshot wrote, and returns those to read.
            statistics: returns the statistics columns to read, for the id of a partition spec.

        Raises:
            AvroFormatError, ManifestFormatError: a manifest is damaged.
        """
        for snapshot in self.snapshots:
            if snapshot.operation in _KNOWN_OPERATIONS - set(operations):
                continue
            written = self._written_manifests(snapshot)
            for manifest in select([manifest for manifest in written if manifest.content is content and _may_have(manifest, status)]):
                spec_id = manifest.partition_spec_id
                partition_type = spec_partition_type(self._base, spec_id)
                content_bytes = self._read(manifest.manifest_path)
                all_entries = read_columns(content_bytes, manifest, partition_type, statistics=statistics(spec_id)).entries
                is_changed = pc.and_kleene(
                    pc.equal(all_entries["snapshot_id"], scalar_of(snapshot.snapshot_id, pa.int64())),
                    pc.equal(all_entries["status"], scalar_of(int(status), pa.int32())),
                )
                entries = all_entries.filter(is_changed).combine_chunks()
                if entries.num_rows:
                    yield ChangedEntries(snapshot, manifest, entries)

    def _written_manifests(self, snapshot: Snapshot) -> list[ManifestFile]:
        """Return the manifests that the snapshot wrote."""
        if snapshot.snapshot_id not in self._manifests:
            manifests = read_manifests(snapshot, self._read)
            self._manifests[snapshot.snapshot_id] = [
                manifest for manifest in manifests if manifest.added_snapshot_id == snapshot.snapshot_id
            ]
        return self._manifests[snapshot.snapshot_id]


def _may_have(manifest: ManifestFile, status: ManifestEntryStatus) -> bool:
    """Return False if the manifest list counts no entries of this status. A missing count, which version 1 allows, means True."""
    count = manifest.added_files_count if status == ManifestEntryStatus.ADDED else manifest.deleted_files_count
    return count != 0


def newer_snapshots(base: TableMetadata, branch: str, since: int | None, first_base: TableMetadata, read: Read) -> NewerSnapshots:
    """Return the snapshots of a branch after the snapshot `since`, up to its head.

    In a transaction, `since` and some snapshots before it can be the transaction's own. When these are made again after a conflict, their parents differ from
    those in `first_base`: the snapshots of other writers are now among their ancestors, and count as newer too.

    Args:
        base: the current metadata of the table.
        branch: the branch that the commit changes.
        since: the snapshot that the commit was planned on; None returns all snapshots of the branch.
        first_base: the base of the first attempt of the commit.
        read: returns the bytes of a metadata file.

    Raises:
        CommitInvalidatedError: `since` is not in the history of the branch, or the history does not reach back to it.
    """
    head = parent_snapshot(base, branch)
    newer: list[Snapshot] = []
    expected, oldest = since, None
    for oldest in ancestors(base, head.snapshot_id if head else None):
        if oldest.snapshot_id != expected:
            newer.append(oldest)
            continue
        planned = first_base.snapshot_by_id(oldest.snapshot_id)
        if planned is None or planned.parent_snapshot_id == oldest.parent_snapshot_id:
            return NewerSnapshots(base, newer, read)
        expected = planned.parent_snapshot_id
    # If `since` itself has expired, the history is still complete as long as the child of `since` exists.
    if (oldest.parent_snapshot_id if oldest is not None else None) == expected:
        return NewerSnapshots(base, newer, read)
    raise _incomplete_history(base, branch, expected, oldest, head)


def _incomplete_history(
    base: TableMetadata, branch: str, since: int | None, oldest: Snapshot | None, head: Snapshot | None
) -> CommitInvalidatedError:
    at = "which has no snapshot" if head is None else f"whose head is snapshot {head.snapshot_id}"
    if since is None:
        last = None if oldest is None else oldest.snapshot_id
        message = f"what happened on {branch} since its first snapshot cannot be known: snapshots before {last} are expired"
        next_step = (
            "a retry will fail again: name the snapshot that was read (validate_from_snapshot), so that only later ones are looked at"
        )
        problems = (
            Problem(where="expected", what=f"every snapshot of {branch} since its first one, {at}"),
            Problem(where="found", what=f"snapshots from {last} on"),
        )
        return CommitInvalidatedError(message, snapshot_id=last, problems=problems, next_step=next_step)
    if base.snapshot_by_id(since) is None:
        message, cause = (
            f"snapshot {since}, which this commit was planned on, is no longer in the table",
            "it was expired, or never existed",
        )
    else:
        message = f"snapshot {since}, which this commit was planned on, is not in the history of {branch}"
        cause = "the branch was rolled back or replaced, or the snapshot is another branch's"
    expected = Problem(where="expected", what=f"snapshot {since} among the ancestors of {branch}, {at}")
    return CommitInvalidatedError(message, snapshot_id=since, problems=(expected, Problem(where="found", what=cause)), next_step=PLAN_AGAIN)


def no_longer_live(base: TableMetadata, branch: str, path: str, what: str, content: ManifestContent, read: Read) -> CommitInvalidatedError:
    """Return the error that a file which a commit needs is no longer live. It names the snapshot that removed the file, if that is one of the newest."""
    head = parent_snapshot(base, branch)
    newest = list(islice(ancestors(base, head.snapshot_id if head else None), _SEARCHED_SNAPSHOTS))
    removals = NewerSnapshots(base, newest, read).changed_entries(content, ManifestEntryStatus.DELETED, REMOVES_DATA)
    by = next((removal.snapshot for removal in removals if path in removal.entries["file_path"].to_pylist()), None)
    actual = "it is not among the live files of its partition" if by is None else f"removed by snapshot {by.snapshot_id} ({by.operation})"
    return CommitInvalidatedError(
        f"{what} is no longer in the table, or not in the partition that was named" if by is None else f"{what} is no longer in the table",
        path=path,
        snapshot_id=None if by is None else by.snapshot_id,
        problems=(Problem(where="expected", what=f"{path} is live on {branch}"), Problem(where="found", what=actual)),
        next_step=PLAN_AGAIN,
    )
