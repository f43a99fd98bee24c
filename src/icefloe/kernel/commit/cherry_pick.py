"""`CherryPick`: the action that makes the change of one snapshot again on the head of a branch, such as of a staged one to publish it.

Where the snapshot was made on that very head, the branch moves on to it. Else an append's files are appended anew, and an overwrite of whole partitions is
made again where nobody added to those partitions since. Anything else cannot be picked. JAVA: CherryPickOperation has the same rules, but looks at the history
alone for what was picked before: once a pick is expired it takes the same files again, as it does a pick of a pick.
Spec: Snapshots; Appendix F, Other Fields (`source-snapshot-id`, `published-wap-id`); First Row ID Inheritance.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from icefloe.errors import CommitInvalidatedError, InvalidInputError, NoSuchSnapshotError, Problem
from icefloe.kernel.commit.append import Append
from icefloe.kernel.commit.attempt import Action, Attempt, CommitContext, Read
from icefloe.kernel.commit.file_changes import Partition
from icefloe.kernel.commit.live_entries import is_among, live_entries, may_hold
from icefloe.kernel.commit.new_manifest import ManifestNumbers
from icefloe.kernel.commit.overwrite import Overwrite
from icefloe.kernel.commit.snapshot_attempt import parent_snapshot, path_of_partition
from icefloe.kernel.commit.staged_snapshot import PUBLISHED_WAP_ID, WAP_ID, published_as
from icefloe.kernel.manifest.data_file import DataFile
from icefloe.kernel.manifest.entry import ManifestEntry, ManifestEntryStatus
from icefloe.kernel.manifest.manifest_reader import read_entries
from icefloe.kernel.manifest_list.manifest_file import ManifestContent
from icefloe.kernel.metadata.manifests import read_manifests, spec_partition_type
from icefloe.kernel.metadata.requirement import AssertRefSnapshotId, AssertTableUUID
from icefloe.kernel.metadata.snapshot import SOURCE_SNAPSHOT_ID, Snapshot
from icefloe.kernel.metadata.snapshot_ref import SnapshotRef
from icefloe.kernel.metadata.snapshot_updates import SetSnapshotRef
from icefloe.kernel.metadata.table_history import ancestors
from icefloe.kernel.metadata.table_metadata import TableMetadata

_REPLACES_PARTITIONS = "replace-partitions"
_THERE = "nothing is to be done: its rows are there"


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
        self._added: Mapping[str, Partition] = {}  # its files, by path
        self._older: frozenset[str] = frozenset()  # manifests that were there before it

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
                path=error.path,
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
        if head is not None:
            self._check_not_live(base, picked, head, read)
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
                _THERE,
            )
        change = _origins(base, picked)
        for ancestor in ancestors(base, head):
            if ancestor.snapshot_id == picked.snapshot_id:
                raise self._refused(picked, "it is in the history of the branch already", _THERE)
            if str(ancestor.snapshot_id) in change:
                raise self._refused(
                    picked, f"it is a pick of snapshot {ancestor.snapshot_id}, which is in the history of the branch already", _THERE
                )
            if not change.isdisjoint(_origins(base, ancestor)):
                raise self._refused(picked, f"snapshot {ancestor.snapshot_id} of the branch picked it already", _THERE)

    def _check_not_live(self, base: TableMetadata, picked: Snapshot, head: Snapshot, read: Read) -> None:
        """None of its files may be live on the branch: the snapshot that brought them may be expired, and then the history does not tell of it.

        Only manifests that the picked snapshot did not find there can hold one, and of those only the ones with room for its partitions.
        """
        for manifest in read_manifests(head, read):
            if manifest.content != ManifestContent.DATA or not manifest.has_live_files or manifest.manifest_path in self._older:
                continue
            if may_hold(base, manifest, self._added.values()):
                paths = live_entries(base, manifest, read)["file_path"]
                there = paths.filter(is_among(paths, self._added)).to_pylist()
                if there:
                    raise self._refused(
                        picked,
                        f"its file {there[0]} is live on the branch already, and its rows would be there twice: it came there by a pick that is "
                        "expired, or by itself",
                        "nothing is to be done where its rows are there; make what the branch lacks of the change again on it",
                        path=there[0],
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
        self._added = {file.file_path: _partition(file) for file in added}
        self._older = frozenset(one.manifest_path for one in read_manifests(picked, read) if one.added_snapshot_id != picked.snapshot_id)
        source = {SOURCE_SNAPSHOT_ID: str(picked.snapshot_id)}
        wap_id = picked.summary.get(WAP_ID)
        published = {PUBLISHED_WAP_ID: wap_id} if wap_id else {}
        context = replace(self._context, snapshot_properties={**self._context.snapshot_properties, **source, **published})
        if picked.operation == "append":
            return Append(added, context)
        return Overwrite(removed=[file.file_path for file in removed], added=added, context=context, numbers=ManifestNumbers(context))

    def _check_partitions(self, base: TableMetadata, picked: Snapshot, head: int | None, read: Read) -> None:
        """Nobody may have added to the partitions that the snapshot replaced: it would take away what its writer never saw."""
        replaced, since = frozenset(self._added.values()), list[Snapshot]()
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
            if since and since[-1].parent_snapshot_id is not None:
                raise self._refused(
                    picked,
                    "it replaced partitions of the empty table, and what was added to them since cannot be known: snapshots before "
                    f"{since[-1].snapshot_id} are expired",
                    "make the change again on the branch",
                )
        for snapshot in since:
            for entry in _changed_files(base, snapshot, read):
                partition = _partition(entry.data_file)
                if entry.status is ManifestEntryStatus.ADDED and partition in replaced:
                    path = path_of_partition(base)(*partition) or "the whole table"
                    raise self._refused(
                        picked,
                        f"it replaced the partition {path}, to which snapshot {snapshot.snapshot_id} ({snapshot.operation}) added "
                        f"{entry.data_file.file_path} since",
                        "make the change again on the branch; a retry of the pick does not help",
                    )

    def _refused(self, picked: Snapshot, why: str, next_step: str, path: str | None = None) -> InvalidInputError:
        return InvalidInputError(
            f"snapshot {picked.snapshot_id} cannot be picked for the branch {self._context.branch!r}: {why}",
            path=path,
            snapshot_id=picked.snapshot_id,
            next_step=next_step,
        )


def _can_be_made_again(picked: Snapshot) -> bool:
    if picked.operation == "overwrite":
        return picked.summary.get(_REPLACES_PARTITIONS, "").lower() == "true"
    return picked.operation == "append"


def _origins(base: TableMetadata, snapshot: Snapshot) -> frozenset[str]:
    """The ids of snapshots that are one change: this one, the one it picked, the one that this picked, and so on, as far as they are still in the table."""
    found = {str(snapshot.snapshot_id)}
    source = snapshot.summary.get(SOURCE_SNAPSHOT_ID)
    while source is not None and source not in found:
        found.add(source)
        picked = base.snapshot_by_id(int(source)) if source.isdecimal() else None
        source = picked.summary.get(SOURCE_SNAPSHOT_ID) if picked is not None else None
    return frozenset(found)


def _changed_files(base: TableMetadata, snapshot: Snapshot, read: Read) -> Iterator[ManifestEntry]:
    """The entries of data files that a snapshot added and removed."""
    for manifest in read_manifests(snapshot, read):
        if manifest.content == ManifestContent.DATA and manifest.added_snapshot_id == snapshot.snapshot_id:
            kind = spec_partition_type(base, manifest.partition_spec_id)
            for entry in read_entries(read(manifest.manifest_path), manifest, kind):
                if entry.status is not ManifestEntryStatus.EXISTING:
                    yield entry


def _partition(file: DataFile) -> Partition:
    return (file.spec_id, file.partition)
