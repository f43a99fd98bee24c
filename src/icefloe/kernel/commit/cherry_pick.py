"""`CherryPick`: the action that makes the change of one snapshot again on the head of a branch, such as of a staged one to publish it.

Where the snapshot was made on that very head, the branch moves on to it. Else an append's files are appended anew, and an overwrite of whole partitions is
made again where nobody added to those partitions since. Anything else cannot be picked. JAVA: CherryPickOperation has the same rules. Floor: kernel.commit.
Spec: Snapshots; Appendix F, Other Fields (`source-snapshot-id`, `published-wap-id`); First Row ID Inheritance.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from icefloe.errors import CommitInvalidatedError, InvalidInputError, NoSuchSnapshotError, Problem
from icefloe.kernel.commit.append import Append
from icefloe.kernel.commit.attempt import Action, Attempt, CommitContext, Read
from icefloe.kernel.commit.new_manifest import ManifestNumbers
from icefloe.kernel.commit.overwrite import Overwrite
from icefloe.kernel.commit.snapshot_attempt import parent_snapshot, path_of_partition
from icefloe.kernel.commit.wap import PUBLISHED_WAP_ID, SOURCE_SNAPSHOT_ID, WAP_ID, published_as
from icefloe.kernel.manifest.data_file import DataFile
from icefloe.kernel.manifest.entry import ManifestEntry, ManifestEntryStatus
from icefloe.kernel.manifest.read import read_entries
from icefloe.kernel.manifest_list.manifest_file import ManifestContent
from icefloe.kernel.metadata.history import ancestors
from icefloe.kernel.metadata.manifests import read_manifests, spec_partition_type
from icefloe.kernel.metadata.requirement import AssertRefSnapshotId, AssertTableUUID
from icefloe.kernel.metadata.snapshot import Snapshot
from icefloe.kernel.metadata.snapshot_ref import SnapshotRef
from icefloe.kernel.metadata.table_metadata import TableMetadata
from icefloe.kernel.metadata.update_snapshots import SetSnapshotRef

_REPLACES_PARTITIONS = "replace-partitions"


class CherryPick:
    """Picks the snapshot `snapshot_id` for the branch of `context`. After a lost race it is picked on the newer head, where that is still right.

    Raises:
        InvalidInputError: it cannot be picked: it is in the branch's history, was picked or published before, or its change cannot be made again.
        CommitInvalidatedError: so, and it is another writer's commit that made it so.
    """

    def __init__(self, snapshot_id: int, context: CommitContext) -> None:
        self._snapshot_id = snapshot_id
        self._context = context
        self._pick: Action | None = None
        self._was_right = False  # on an earlier base
        self._replaced: frozenset[tuple[int, tuple[Any, ...]]] = frozenset()

    def new_data_files(self) -> Sequence[str]:
        """None: the files belong to the snapshot that is picked."""
        return ()

    def attempt(self, base: TableMetadata, *, number: int, now_ms: int, read: Read) -> Attempt | None:
        """See `Action.attempt`."""
        try:
            made = self._attempt(base, number=number, now_ms=now_ms, read=read)
        except InvalidInputError as error:
            if not self._was_right:
                raise
            head = parent_snapshot(base, self._context.branch)
            at = "no snapshot" if head is None else f"snapshot {head.snapshot_id} ({head.operation or 'of an unknown operation'})"
            raise CommitInvalidatedError(
                f"{error.message}; another writer's commit made it so",
                snapshot_id=error.snapshot_id,
                problems=(
                    Problem(
                        where="expected",
                        what=f"snapshot {self._snapshot_id} can be picked onto {self._context.branch}, as when it was begun",
                    ),
                    Problem(where="found", what=f"{self._context.branch} is at {at}, where it cannot"),
                ),
                next_step=f"a retry will fail again: {error.next_step}",
            ) from error
        self._was_right = True
        return made

    def _attempt(self, base: TableMetadata, *, number: int, now_ms: int, read: Read) -> Attempt | None:
        picked = base.snapshot_by_id(self._snapshot_id)
        if picked is None:
            raise NoSuchSnapshotError(
                f"snapshot {self._snapshot_id} cannot be picked: it is not in the table",
                snapshot_id=self._snapshot_id,
                next_step="choose one from table.snapshots(); an expired one is gone",
            )
        head = parent_snapshot(base, self._context.branch)
        head_id = head.snapshot_id if head else None
        self._check_not_there(base, picked, head_id)
        if picked.parent_snapshot_id == head_id:
            return self._fast_forward(base, picked)
        if not _can_be_made_again(picked):
            raise self._refused(
                picked,
                f"its operation is {picked.operation or 'unknown'} and its parent is {picked.parent_snapshot_id}: only an append or an overwrite of whole "
                f"partitions can be made again on another head, and the head is {head_id}",
                "make the change again on the branch",
            )
        if self._pick is None:
            self._pick = self._action(base, picked, read)
        if picked.operation != "append":
            self._check_partitions(base, picked, head_id, read)
        try:
            return self._pick.attempt(base, number=number, now_ms=now_ms, read=read)
        except CommitInvalidatedError as error:
            raise self._refused(
                picked, f"a file that it replaced is no longer live: {error.path}", "make the change again on the branch"
            ) from error

    def _check_not_there(self, base: TableMetadata, picked: Snapshot, head: int | None) -> None:
        """What was published or picked once cannot be again: its rows would be there twice."""
        wap_id = picked.summary.get(WAP_ID)
        published = published_as(base, head, wap_id) if wap_id else None
        if published is not None:
            raise self._refused(
                picked,
                f"its wap id {wap_id!r} was to be published once, and snapshot {published.snapshot_id} of the branch published it",
                "nothing is to be done: its rows are there",
            )
        for ancestor in ancestors(base, head):
            if ancestor.snapshot_id == picked.snapshot_id:
                raise self._refused(picked, "it is in the history of the branch already", "nothing is to be done: its rows are there")
            if ancestor.summary.get(SOURCE_SNAPSHOT_ID) == str(picked.snapshot_id):
                raise self._refused(
                    picked, f"snapshot {ancestor.snapshot_id} of the branch picked it already", "nothing is to be done: its rows are there"
                )

    def _fast_forward(self, base: TableMetadata, picked: Snapshot) -> Attempt:
        # The snapshot is in the table already, so that the attempt names none: whether it stands is told by the metadata file alone.
        branch, ref = self._context.branch, base.refs.get(self._context.branch)
        moved = SnapshotRef(snapshot_id=picked.snapshot_id) if ref is None else replace(ref, snapshot_id=picked.snapshot_id)
        return Attempt(
            updates=(SetSnapshotRef(branch, moved),),
            requirements=(AssertTableUUID(base.table_uuid), AssertRefSnapshotId(branch, ref.snapshot_id if ref else None)),
        )

    def _action(self, base: TableMetadata, picked: Snapshot, read: Read) -> Action:
        """The append or overwrite that makes the change again, with the snapshot's own files; row ids and sequence numbers are new."""
        entries = list(_changed_files(base, picked, read))
        added = [replace(entry.data_file, first_row_id=None) for entry in entries if entry.status is ManifestEntryStatus.ADDED]
        removed = [entry.data_file for entry in entries if entry.status is ManifestEntryStatus.DELETED]
        source = {SOURCE_SNAPSHOT_ID: str(picked.snapshot_id)}
        wap_id = picked.summary.get(WAP_ID)
        published = {PUBLISHED_WAP_ID: wap_id} if wap_id else {}
        context = replace(self._context, snapshot_properties={**self._context.snapshot_properties, **source, **published})
        if picked.operation == "append":
            return Append(added, context)
        self._replaced = frozenset(_partition(file) for file in added)
        return Overwrite(removed=[file.file_path for file in removed], added=added, context=context, numbers=ManifestNumbers(context))

    def _check_partitions(self, base: TableMetadata, picked: Snapshot, head: int | None, read: Read) -> None:
        """Nobody may have added to the partitions that the snapshot replaced: it would take away what its writer never saw."""
        since = []
        for ancestor in ancestors(base, head):
            if ancestor.snapshot_id == picked.parent_snapshot_id:
                break
            since.append(ancestor)
        else:
            if picked.parent_snapshot_id is not None:
                raise self._refused(
                    picked,
                    f"it replaced partitions of snapshot {picked.parent_snapshot_id}, which was to be in the history of the head {head}, and is not",
                    "make the change again on the branch",
                )
        for snapshot in since:
            for entry in _changed_files(base, snapshot, read):
                partition = _partition(entry.data_file)
                if entry.status is ManifestEntryStatus.ADDED and partition in self._replaced:
                    path = path_of_partition(base)(*partition) or "the whole table"
                    raise self._refused(
                        picked,
                        f"it replaced the partition {path}, to which snapshot {snapshot.snapshot_id} ({snapshot.operation}) added "
                        f"{entry.data_file.file_path} since",
                        "make the change again on the branch; a retry of the pick does not help",
                    )

    def _refused(self, picked: Snapshot, why: str, next_step: str) -> InvalidInputError:
        return InvalidInputError(
            f"snapshot {picked.snapshot_id} cannot be picked for the branch {self._context.branch!r}: {why}",
            snapshot_id=picked.snapshot_id,
            next_step=next_step,
        )


def _can_be_made_again(picked: Snapshot) -> bool:
    if picked.operation == "overwrite":
        return picked.summary.get(_REPLACES_PARTITIONS, "").lower() == "true"
    return picked.operation == "append"


def _changed_files(base: TableMetadata, snapshot: Snapshot, read: Read) -> Iterator[ManifestEntry]:
    """The entries of data files that a snapshot added and removed."""
    for manifest in read_manifests(snapshot, read):
        if manifest.content == ManifestContent.DATA and manifest.added_snapshot_id == snapshot.snapshot_id:
            kind = spec_partition_type(base, manifest.partition_spec_id)
            for entry in read_entries(read(manifest.manifest_path), manifest, kind):
                if entry.status is not ManifestEntryStatus.EXISTING:
                    yield entry


def _partition(file: DataFile) -> tuple[int, tuple[Any, ...]]:
    return (file.spec_id, file.partition)
