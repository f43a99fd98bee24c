"""`CherryPick`: the action that applies the change of one snapshot to the head of a branch, for example to publish a staged snapshot.

If the parent of the snapshot is the head, the branch is fast-forwarded to the snapshot. Otherwise the files of an append are appended again, and an overwrite
of whole partitions is repeated if no newer snapshot added files to those partitions. No other operation can be picked. JAVA: CherryPickOperation has the same
rules, but finds earlier picks only in the snapshot history. So Java adds the same files again after the earlier pick has expired, and can pick a snapshot that
is itself a pick of the same change.
Spec: Snapshots; Appendix F, Other Fields (`source-snapshot-id`, `published-wap-id`); First Row ID Inheritance.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from icefloe.commit.append import Append
from icefloe.commit.attempt import Action, Attempt, CommitContext, Read
from icefloe.commit.file_changes import Partition
from icefloe.commit.live_entries import is_among, live_entries, may_contain_partitions
from icefloe.commit.new_manifest import ManifestNumbers
from icefloe.commit.overwrite import Overwrite
from icefloe.commit.snapshot_attempt import parent_snapshot, path_of_partition
from icefloe.commit.staged_snapshot import PUBLISHED_WAP_ID, WAP_ID, published_as
from icefloe.commit.stream_epoch import epoch_of
from icefloe.errors import CommitInvalidatedError, InvalidInputError, NoSuchSnapshotError, Problem
from icefloe.formatting import short_text
from icefloe.spec.manifest.data_file import DataFile
from icefloe.spec.manifest.entry import ManifestEntry, ManifestEntryStatus
from icefloe.spec.manifest.manifest_reader import read_entries
from icefloe.spec.manifest_list.manifest_file import ManifestContent
from icefloe.spec.metadata.requirement import AssertRefSnapshotId, AssertTableUUID
from icefloe.spec.metadata.snapshot import SOURCE_SNAPSHOT_ID, Snapshot, count_of
from icefloe.spec.metadata.snapshot_manifests import read_manifests, spec_partition_type
from icefloe.spec.metadata.snapshot_ref import SnapshotRef
from icefloe.spec.metadata.snapshot_updates import SetSnapshotRef
from icefloe.spec.metadata.table_history import ancestors
from icefloe.spec.metadata.table_metadata import TableMetadata

_REPLACES_PARTITIONS = "replace-partitions"
_ALREADY_PICKED = "nothing to do: the branch already contains its rows"
_CHANGE_AGAIN = "make the change again on the branch"


class CherryPick:
    """The commit action that applies the change of the snapshot `snapshot_id` to a branch. A retry checks all rules again on the newer head."""

    def __init__(self, snapshot_id: int, context: CommitContext) -> None:
        self._snapshot_id = snapshot_id
        self._context = context
        self._action: Action | None = None
        self._was_valid = False  # whether the pick was valid on the base of an earlier attempt
        self._added_files: Mapping[str, Partition] = {}  # files of the picked snapshot by path
        self._older_manifests: frozenset[str] = frozenset()  # paths of manifests that the picked snapshot inherited

    def new_data_files(self) -> Sequence[str]:
        """Return no files: the files belong to the picked snapshot."""
        return ()

    def attempt(self, base: TableMetadata, *, number: int, now_ms: int, read: Read) -> Attempt | None:
        """Return the attempt on a base, see `Action.attempt`.

        Raises:
            NoSuchSnapshotError: the table has no such snapshot.
            InvalidInputError: the snapshot cannot be picked: it is in the history of the branch, was picked or published before, or its change cannot be
                applied to the head.
            CommitInvalidatedError: the pick was valid at an earlier attempt; a commit of another writer made it invalid.
        """
        try:
            attempt = self._attempt(base, number=number, now_ms=now_ms, read=read)
        except InvalidInputError as error:
            if not self._was_valid:
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
                        what=f"snapshot {self._snapshot_id} can be picked onto {self._context.branch}, as at the first attempt",
                    ),
                    Problem(where="found", what=f"{self._context.branch} is at {at}, where it cannot"),
                ),
                next_step=f"a retry will fail again: {error.next_step}",
            ) from error
        self._was_valid = True
        return attempt

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
        self._check_not_picked(base, picked, head_id)
        if picked.parent_snapshot_id == head_id:
            return self._fast_forward(base, picked)
        if not _can_be_repeated(picked):
            raise self._refusal(
                picked,
                f"its operation is {picked.operation or 'unknown'} and its parent is {picked.parent_snapshot_id}: only an append or an overwrite of whole "
                f"partitions can be made again on another head, and the head is {head_id}",
                _CHANGE_AGAIN,
            )
        if self._action is None:
            self._action = self._prepare(base, picked, read)
        if head is not None:
            self._check_not_live(base, picked, head, read)
        if picked.operation != "append":
            self._check_partitions(base, picked, head_id, read)
        try:
            return self._action.attempt(base, number=number, now_ms=now_ms, read=read)
        except CommitInvalidatedError as error:
            raise self._refusal(picked, f"a file that it replaced is no longer live: {error.path}", _CHANGE_AGAIN) from error

    def _check_not_picked(self, base: TableMetadata, picked: Snapshot, head: int | None) -> None:
        """Refuse a snapshot that was published or picked before: its rows would be duplicated."""
        wap_id = picked.summary.get(WAP_ID)
        published = published_as(base, head, wap_id) if wap_id else None
        if published is not None:
            raise self._refusal(
                picked,
                f"its wap id {wap_id!r} was to be published once, and snapshot {published.snapshot_id} of the branch published it",
                _ALREADY_PICKED,
            )
        origins = _origins(base, picked)
        epochs = _epochs(base, origins)
        for ancestor in ancestors(base, head):
            if ancestor.snapshot_id == picked.snapshot_id:
                raise self._refusal(picked, "it is in the history of the branch already", _ALREADY_PICKED)
            if str(ancestor.snapshot_id) in origins:
                raise self._refusal(
                    picked,
                    f"it is a pick of snapshot {ancestor.snapshot_id}, which is in the history of the branch already",
                    _ALREADY_PICKED,
                )
            origins_of_ancestor = _origins(base, ancestor)
            if not origins.isdisjoint(origins_of_ancestor):
                raise self._refusal(picked, f"snapshot {ancestor.snapshot_id} of the branch picked it already", _ALREADY_PICKED)
            if epochs and not epochs.isdisjoint(_epochs(base, origins_of_ancestor)):
                query_id, number = min(epochs)
                raise self._refusal(
                    picked,
                    f"snapshot {ancestor.snapshot_id} of the branch has the rows of epoch {short_text(number)} of the stream {short_text(query_id)} already",
                    _ALREADY_PICKED,
                )

    def _check_not_live(self, base: TableMetadata, picked: Snapshot, head: Snapshot, read: Read) -> None:
        """Refuse a snapshot if one of its files is live on the branch already. This finds an earlier pick that is no longer in the history, because it expired.

        Manifests that the picked snapshot inherited, and manifests of other partitions, are not read, because they cannot contain its files.
        """
        for manifest in read_manifests(head, read):
            if manifest.content != ManifestContent.DATA or not manifest.has_live_files or manifest.manifest_path in self._older_manifests:
                continue
            if may_contain_partitions(base, manifest, self._added_files.values()):
                paths = live_entries(base, manifest, read)["file_path"]
                live_paths = paths.filter(is_among(paths, self._added_files)).to_pylist()
                if live_paths:
                    raise self._refusal(
                        picked,
                        f"its file {live_paths[0]} is live on the branch already, so its rows would be duplicated: the file was added by a pick that is "
                        "expired, or by another commit",
                        "nothing to do if the branch contains its rows; otherwise make the missing part of the change again on the branch",
                        path=live_paths[0],
                    )

    def _fast_forward(self, base: TableMetadata, picked: Snapshot) -> Attempt:
        # The attempt has no snapshot id, because the snapshot is in the table already: it would not show whether the commit succeeded.
        branch, ref = self._context.branch, base.refs.get(self._context.branch)
        moved = SnapshotRef(snapshot_id=picked.snapshot_id) if ref is None else replace(ref, snapshot_id=picked.snapshot_id)
        return Attempt(
            updates=(SetSnapshotRef(branch, moved),),
            requirements=(AssertTableUUID(base.table_uuid), AssertRefSnapshotId(branch, ref.snapshot_id if ref else None)),
        )

    def _prepare(self, base: TableMetadata, picked: Snapshot, read: Read) -> Action:
        """Return the append or overwrite that repeats the change with the files of the snapshot; row ids and sequence numbers are new."""
        entries = list(_changed_files(base, picked, read))
        added = [replace(entry.data_file, first_row_id=None) for entry in entries if entry.status is ManifestEntryStatus.ADDED]
        removed = [entry.data_file for entry in entries if entry.status is ManifestEntryStatus.DELETED]
        self._added_files = {file.file_path: _partition(file) for file in added}
        self._older_manifests = frozenset(
            manifest.manifest_path for manifest in read_manifests(picked, read) if manifest.added_snapshot_id != picked.snapshot_id
        )
        source = {SOURCE_SNAPSHOT_ID: str(picked.snapshot_id)}
        wap_id = picked.summary.get(WAP_ID)
        published = {PUBLISHED_WAP_ID: wap_id} if wap_id else {}
        context = replace(self._context, snapshot_properties={**self._context.snapshot_properties, **source, **published})
        if picked.operation == "append":
            return Append(added, context)
        return Overwrite(removed=[file.file_path for file in removed], added=added, context=context, numbers=ManifestNumbers(context))

    def _check_partitions(self, base: TableMetadata, picked: Snapshot, head: int | None, read: Read) -> None:
        """Refuse a pick if a newer snapshot added files to a partition that the pick replaces: it would remove files that its writer never read."""
        replaced_partitions, newer = frozenset(self._added_files.values()), list[Snapshot]()
        for ancestor in ancestors(base, head):
            if ancestor.snapshot_id == picked.parent_snapshot_id:
                break
            newer.append(ancestor)
        else:
            if picked.parent_snapshot_id is not None:
                raise self._refusal(
                    picked,
                    f"it replaced partitions of snapshot {picked.parent_snapshot_id}, which is not in the history of the head {head}",
                    _CHANGE_AGAIN,
                )
            if newer and newer[-1].parent_snapshot_id is not None:
                raise self._refusal(
                    picked,
                    "it replaced partitions of the empty table, and what was added to them since cannot be known: snapshots before "
                    f"{newer[-1].snapshot_id} are expired",
                    _CHANGE_AGAIN,
                )
        for snapshot in newer:
            for entry in _changed_files(base, snapshot, read):
                partition = _partition(entry.data_file)
                if entry.status is ManifestEntryStatus.ADDED and partition in replaced_partitions:
                    path = path_of_partition(base)(*partition) or "the whole table"
                    raise self._refusal(
                        picked,
                        f"it replaced the partition {path}, to which snapshot {snapshot.snapshot_id} ({snapshot.operation}) added "
                        f"{entry.data_file.file_path} since",
                        "make the change again on the branch; a retry of the pick does not help",
                    )

    def _refusal(self, picked: Snapshot, why: str, next_step: str, path: str | None = None) -> InvalidInputError:
        return InvalidInputError(
            f"snapshot {picked.snapshot_id} cannot be picked for the branch {self._context.branch!r}: {why}",
            path=path,
            snapshot_id=picked.snapshot_id,
            next_step=next_step,
        )


def _can_be_repeated(picked: Snapshot) -> bool:
    if picked.operation == "overwrite":
        return picked.summary.get(_REPLACES_PARTITIONS, "").lower() == "true"
    return picked.operation == "append"


def _origins(base: TableMetadata, snapshot: Snapshot) -> frozenset[str]:
    """Return the ids of the snapshot and of all snapshots it was picked from, following `source-snapshot-id` as far as the table has the snapshots."""
    origins = {str(snapshot.snapshot_id)}
    source = snapshot.summary.get(SOURCE_SNAPSHOT_ID)
    while source is not None and source not in origins:
        origins.add(source)
        picked = _snapshot_named(base, source)
        source = picked.summary.get(SOURCE_SNAPSHOT_ID) if picked is not None else None
    return frozenset(origins)


def _epochs(base: TableMetadata, snapshot_ids: Iterable[str]) -> frozenset[tuple[str, str]]:
    """Return the epochs of streams that snapshots were committed for: two drivers of a stream may have staged an epoch each, with the same rows."""
    snapshots = (_snapshot_named(base, snapshot_id) for snapshot_id in snapshot_ids)
    return frozenset(epoch for snapshot in snapshots if snapshot is not None and (epoch := epoch_of(snapshot)) is not None)


def _snapshot_named(base: TableMetadata, text: str) -> Snapshot | None:
    """Return the snapshot whose id a summary contains; None if the table does not have it."""
    snapshot_id = count_of(text)
    return None if snapshot_id is None else base.snapshot_by_id(snapshot_id)


def _changed_files(base: TableMetadata, snapshot: Snapshot, read: Read) -> Iterator[ManifestEntry]:
    """Yield the entries of the data files that a snapshot added and removed."""
    for manifest in read_manifests(snapshot, read):
        if manifest.content == ManifestContent.DATA and manifest.added_snapshot_id == snapshot.snapshot_id:
            partition_type = spec_partition_type(base, manifest.partition_spec_id)
            for entry in read_entries(read(manifest.manifest_path), manifest, partition_type):
                if entry.status is not ManifestEntryStatus.EXISTING:
                    yield entry


def _partition(file: DataFile) -> Partition:
    return (file.spec_id, file.partition)
