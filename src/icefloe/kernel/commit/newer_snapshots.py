"""`NewerSnapshots`: the snapshots that others added to a branch since the one a commit was planned on, and what each of them changed.

What of it is a conflict is `conflicts.py`. Spec: Commit Conflict Resolution and Retry; Snapshots; Manifests.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icefloe.errors import CommitInvalidatedError, Problem
from icefloe.kernel.arrow_values import scalar_of
from icefloe.kernel.commit.attempt import Read
from icefloe.kernel.commit.snapshot_attempt import parent_snapshot
from icefloe.kernel.manifest.entry import ManifestEntryStatus
from icefloe.kernel.manifest.manifest_columns import Statistic
from icefloe.kernel.manifest.manifest_reader import read_columns
from icefloe.kernel.manifest_list.manifest_file import ManifestContent, ManifestFile
from icefloe.kernel.metadata.manifests import read_manifests, spec_partition_type
from icefloe.kernel.metadata.snapshot import Snapshot
from icefloe.kernel.metadata.table_history import ancestors
from icefloe.kernel.metadata.table_metadata import TableMetadata

PLAN_AGAIN = "a retry will fail again: read the table anew, and plan the change on its newest snapshot"
# Which operations can do what; a snapshot that does not say what it is may have done anything. JAVA: MergingSnapshotProducer.
ADDS_DATA = frozenset({"append", "overwrite"})
REMOVES_DATA = frozenset({"overwrite", "replace", "delete"})
REPLACES_DATA = frozenset({"overwrite", "replace"})
ADDS_DELETES = frozenset({"overwrite", "delete"})
ADDS_VECTORS = frozenset({"overwrite", "delete", "replace"})
# Snapshots that are looked through for the one that removed a file; its name only makes an error clearer.
_SEARCHED = 100
_KNOWN = frozenset({"append", "overwrite", "replace", "delete"})


@dataclass(frozen=True, slots=True)
class Changed:
    """Entries (a table of `ManifestColumns`) that one snapshot added or removed in one manifest."""

    snapshot: Snapshot
    manifest: ManifestFile
    entries: Any


class NewerSnapshots:
    """`snapshots` are newest first. Manifest lists and manifests are read when they are asked for, lists once."""

    def __init__(self, base: TableMetadata, snapshots: Sequence[Snapshot], read: Read) -> None:
        self._base = base
        self._read = read
        self._manifests: dict[int, list[ManifestFile]] = {}
        self.snapshots = tuple(snapshots)

    def changed(
        self,
        content: ManifestContent,
        status: ManifestEntryStatus,
        operations: Collection[str],
        *,
        choose: Callable[[Sequence[ManifestFile]], Sequence[ManifestFile]] = lambda manifests: manifests,
        statistics: Callable[[int], Collection[Statistic]] = lambda _: (),
    ) -> Iterator[Changed]:
        """What the snapshots with one of the operations changed: entries that they made ADDED or DELETED.

        `choose` may leave manifests out; `statistics` says which slot columns the entries of a partition spec (given by its id) need.
        Raises `AvroFormatError`, `ManifestFormatError`.
        """
        for snapshot in self.snapshots:
            if snapshot.operation in _KNOWN - set(operations):
                continue
            for manifest in choose([one for one in self._own(snapshot) if one.content is content and _may_have(one, status)]):
                spec_id = manifest.partition_spec_id
                kind = spec_partition_type(self._base, spec_id)
                found = read_columns(self._read(manifest.manifest_path), manifest, kind, statistics=statistics(spec_id)).entries
                own = pc.and_kleene(
                    pc.equal(found["snapshot_id"], scalar_of(snapshot.snapshot_id, pa.int64())),
                    pc.equal(found["status"], scalar_of(int(status), pa.int32())),
                )
                entries = found.filter(own).combine_chunks()
                if entries.num_rows:
                    yield Changed(snapshot, manifest, entries)

    def _own(self, snapshot: Snapshot) -> list[ManifestFile]:
        """The manifests that the snapshot wrote."""
        if snapshot.snapshot_id not in self._manifests:
            every = read_manifests(snapshot, self._read)
            self._manifests[snapshot.snapshot_id] = [one for one in every if one.added_snapshot_id == snapshot.snapshot_id]
        return self._manifests[snapshot.snapshot_id]


def _may_have(manifest: ManifestFile, status: ManifestEntryStatus) -> bool:
    """Whether the manifest list leaves room for entries of a status; a count that is not there does."""
    count = manifest.added_files_count if status == ManifestEntryStatus.ADDED else manifest.deleted_files_count
    return count != 0


def newer_snapshots(base: TableMetadata, branch: str, since: int | None, first: TableMetadata, read: Read) -> NewerSnapshots:
    """Those after `since` up to the branch's head; all of the branch's where it is None.

    `first` is the base of the commit's first attempt, in which its maker saw `since` and the snapshots before it. In a transaction some of these are the
    transaction's own: after a lost race their parents are others, and the winners stand below them.

    Raises:
        CommitInvalidatedError: `since` is not in the branch's history, or that history does not reach back to it.
    """
    head = parent_snapshot(base, branch)
    found: list[Snapshot] = []
    expected, oldest = since, None
    for oldest in ancestors(base, head.snapshot_id if head else None):
        if oldest.snapshot_id != expected:
            found.append(oldest)
            continue
        known = first.snapshot_by_id(oldest.snapshot_id)
        if known is None or known.parent_snapshot_id == oldest.parent_snapshot_id:
            return NewerSnapshots(base, found, read)
        expected = known.parent_snapshot_id
    # Where `since` itself is expired the history is whole as long as the snapshot after it is there, and names it.
    if (oldest.parent_snapshot_id if oldest is not None else None) == expected:
        return NewerSnapshots(base, found, read)
    raise _no_history(base, branch, expected, oldest, head)


def _no_history(
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
        message, found = (
            f"snapshot {since}, which this commit was planned on, is no longer in the table",
            "it was expired, or never was there",
        )
    else:
        message = f"snapshot {since}, which this commit was planned on, is not in the history of {branch}"
        found = "the branch was rolled back or replaced, or the snapshot is another branch's"
    expected = Problem(where="expected", what=f"snapshot {since} among the ancestors of {branch}, {at}")
    return CommitInvalidatedError(message, snapshot_id=since, problems=(expected, Problem(where="found", what=found)), next_step=PLAN_AGAIN)


def no_longer_live(base: TableMetadata, branch: str, path: str, what: str, content: ManifestContent, read: Read) -> CommitInvalidatedError:
    """The error where a file that a commit names is not live, with the snapshot that removed it where one of the newest did."""
    head = parent_snapshot(base, branch)
    newest = list(islice(ancestors(base, head.snapshot_id if head else None), _SEARCHED))
    changed = NewerSnapshots(base, newest, read).changed(content, ManifestEntryStatus.DELETED, REMOVES_DATA)
    by = next((one.snapshot for one in changed if path in one.entries["file_path"].to_pylist()), None)
    told = "it is not among the live files of its partition" if by is None else f"removed by snapshot {by.snapshot_id} ({by.operation})"
    return CommitInvalidatedError(
        f"{what} is no longer in the table, or not in the partition that was named" if by is None else f"{what} is no longer in the table",
        path=path,
        snapshot_id=None if by is None else by.snapshot_id,
        problems=(Problem(where="expected", what=f"{path} is live on {branch}"), Problem(where="found", what=told)),
        next_step=PLAN_AGAIN,
    )
