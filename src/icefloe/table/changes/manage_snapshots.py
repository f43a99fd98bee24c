"""`ManageSnapshots`: changes of branches and tags, and of which snapshot a branch is at: rollback, fast-forward, cherry-pick, publish.

The rules of each are `kernel/commit/ref_changes.py` and `kernel/commit/cherry_pick.py`.
Spec: Snapshot References; Snapshot Retention Policy; Appendix F, Point in Time Reads (Time Travel).
"""

from typing import Any, Self

from icefloe.errors import InvalidInputError
from icefloe.kernel.commit import ref_changes
from icefloe.kernel.commit.attempt import Action
from icefloe.kernel.commit.cherry_pick import CherryPick
from icefloe.kernel.commit.composite_action import CompositeAction, StagedFiles
from icefloe.kernel.commit.ref_changes import BRANCH, TAG
from icefloe.kernel.commit.staged_snapshot import staged_as
from icefloe.kernel.metadata.metadata_updates import apply_updates
from icefloe.kernel.metadata.snapshot_ref import MAIN, SnapshotRef
from icefloe.table.pending_change import Commit, MutationContext, PendingChange
from icefloe.table.rows.write_context import snapshot_context


class ManageSnapshots(PendingChange):
    """Changes that are committed together, as one version of the table: in a `with` statement, or with `commit()`. Each sees those before it.

    A wrong one is refused in its own line. Beside other writers a change is made again where the refs it is about are as they were; else it is a
    `CommitConflictError` that says who changed them. Snapshots are named by id, or by a branch or tag that is at them.
    """

    def __init__(self, start: MutationContext, commit: Commit) -> None:
        self._handle = start.handle
        self._working = start.metadata
        self._read = start.read
        self._commit = commit
        self._actions: list[Action] = []
        self._staged = StagedFiles()

    def create_branch(
        self,
        snapshot_id: int | str | None = None,
        branch_name: str = "",
        max_ref_age_ms: int | None = None,
        max_snapshot_age_ms: int | None = None,
        min_snapshots_to_keep: int | None = None,
    ) -> Self:
        """A branch at a snapshot, at the head of `main` where none is named; in a table without snapshots it gets an empty one, as Java does it.

        Raises:
            InvalidInputError: the name is taken or empty, or a retention value is below 1.
            NoSuchSnapshotError: there is no such snapshot.
        """
        retention: dict[str, Any] = {
            "max_ref_age_ms": max_ref_age_ms,
            "max_snapshot_age_ms": max_snapshot_age_ms,
            "min_snapshots_to_keep": min_snapshots_to_keep,
        }
        if snapshot_id is None and MAIN not in self._working.refs:
            ref_changes.check_new_name(self._working, branch_name)
            context = snapshot_context(self._handle, self._working, {}, branch_name, makes_branch=True)
            self._add(ref_changes.BranchOfEmptyTable(context))
            return self._add(ref_changes.set_retention(self._working, branch_name, **retention))
        made = SnapshotRef(snapshot_id=self._id(snapshot_id), type=BRANCH, **retention)
        return self._add(ref_changes.create_ref(self._working, branch_name, made))

    def create_tag(self, snapshot_id: int | str | None = None, tag_name: str = "", max_ref_age_ms: int | None = None) -> Self:
        """A tag at a snapshot, at the head of `main` where none is named. Raises as `create_branch`."""
        made = SnapshotRef(snapshot_id=self._id(snapshot_id), type=TAG, max_ref_age_ms=max_ref_age_ms)
        return self._add(ref_changes.create_ref(self._working, tag_name, made))

    def remove_branch(self, branch_name: str) -> Self:
        """Without the branch; its snapshots stay until they are expired. Raises `InvalidInputError` for `main` and tags, `NoSuchSnapshotError`."""
        return self._add(ref_changes.remove_ref(self._working, branch_name, BRANCH))

    def remove_tag(self, tag_name: str) -> Self:
        """Without the tag; its snapshot stays until it is expired. Raises `InvalidInputError` for a branch, `NoSuchSnapshotError`."""
        return self._add(ref_changes.remove_ref(self._working, tag_name, TAG))

    def rename_branch(self, branch_name: str, new_name: str) -> Self:
        """The branch under another name. Raises `InvalidInputError` for `main`, for a tag and where the new name is taken, `NoSuchSnapshotError`."""
        return self._add(ref_changes.rename_branch(self._working, branch_name, new_name))

    def replace_branch(self, branch_name: str, source: int | str) -> Self:
        """The branch at another snapshot, whatever was written to it; its retention stays. Made where it is not there and `source` is a branch or tag.

        Raises:
            InvalidInputError: the name is a tag's. NoSuchSnapshotError: there is no such branch, or no such source.
        """
        return self._move(branch_name, source, only_forward=False)

    def replace_tag(self, tag_name: str, snapshot_id: int | str) -> Self:
        """The tag at another snapshot; its retention stays. Raises `InvalidInputError` for a branch, `NoSuchSnapshotError`."""
        return self._add(ref_changes.move_ref(self._working, tag_name, TAG, self._id(snapshot_id), *_names(snapshot_id)))

    def fast_forward(self, branch_name: str, to: int | str) -> Self:
        """The branch at a later snapshot of its own line: its head must be among the ancestors of `to`. Made where it is not there and `to` is a ref.

        Raises:
            InvalidInputError: something that was written to the branch would be lost, or the name is a tag's. NoSuchSnapshotError.
        """
        return self._move(branch_name, to, only_forward=True)

    def set_min_snapshots_to_keep(self, branch_name: str, min_snapshots_to_keep: int | None) -> Self:
        """How many snapshots of the branch stay at least when snapshots are expired; None: what the table's property says. Raises `InvalidInputError`."""
        return self._add(ref_changes.set_retention(self._working, branch_name, min_snapshots_to_keep=min_snapshots_to_keep))

    def set_max_snapshot_age_ms(self, branch_name: str, max_snapshot_age_ms: int | None) -> Self:
        """How old snapshots of the branch get before they may be expired; None: what the table's property says. Raises `InvalidInputError`."""
        return self._add(ref_changes.set_retention(self._working, branch_name, max_snapshot_age_ms=max_snapshot_age_ms))

    def set_max_ref_age_ms(self, name: str, max_ref_age_ms: int | None) -> Self:
        """How old a branch or tag gets before it may be expired itself; None: what the table's property says. Raises `InvalidInputError`."""
        return self._add(ref_changes.set_retention(self._working, name, max_ref_age_ms=max_ref_age_ms))

    def set_current_snapshot(self, snapshot_id: int | str | None = None, ref_name: str | None = None, branch: str = MAIN) -> Self:
        """The branch at any snapshot of the table, by its id or by a branch or tag at it. Raises `InvalidInputError`, `NoSuchSnapshotError`."""
        if (snapshot_id is None) == (ref_name is None):
            raise InvalidInputError(
                f"one snapshot was to be named, and {'none' if snapshot_id is None else 'two'} are",
                next_step="pass snapshot_id or ref_name",
            )
        source = ref_name if snapshot_id is None else snapshot_id
        return self._add(ref_changes.move_ref(self._working, branch, BRANCH, self._id(source), *_names(source)))

    def rollback_to_snapshot(self, snapshot_id: int | str, branch: str = MAIN) -> Self:
        """The branch back at an ancestor of its head. Raises `InvalidInputError` where it is none, `NoSuchSnapshotError`."""
        return self._add(ref_changes.rollback(self._working, branch, self._id(snapshot_id)))

    def rollback_to_timestamp(self, timestamp_ms: int, branch: str = MAIN) -> Self:
        """The branch back at the newest ancestor of its head that is older than the time. Raises `NoSuchSnapshotError` where none is."""
        return self.rollback_to_snapshot(ref_changes.snapshot_before(self._working, branch, timestamp_ms).snapshot_id, branch)

    def cherry_pick(self, snapshot_id: int | str, branch: str = MAIN) -> Self:
        """The change of a snapshot made again on the branch, or the branch moved on to it where it was made on its head.

        Raises:
            InvalidInputError: it was picked before, or cannot be: only appends and overwrites of whole partitions can; the error says why.
            NoSuchSnapshotError: there is no such snapshot, or no such branch.
        """
        context = snapshot_context(self._handle, self._working, {}, branch)
        return self._add(CherryPick(self._id(snapshot_id), context))

    def publish_changes(self, wap_id: str, branch: str = MAIN) -> Self:
        """Picks the snapshot that was staged under a wap id. Raises `NoSuchSnapshotError` where none was, and as `cherry_pick`."""
        return self.cherry_pick(staged_as(self._working, wap_id).snapshot_id, branch)

    def commit(self) -> None:
        """Commits the changes together; nothing where nothing changes.

        Raises:
            CommitConflictError: another writer made, moved or removed a ref that one of the changes is about.
            CommitInvalidatedError: another writer's commit made a cherry-pick wrong.
        """
        actions, self._actions = self._actions, []
        if actions:
            self._commit(CompositeAction(actions, self._staged))

    def _move(self, branch_name: str, source: int | str, *, only_forward: bool) -> Self:
        target = self._id(source)
        if isinstance(source, str) and branch_name not in self._working.refs:
            return self._add(ref_changes.create_ref(self._working, branch_name, SnapshotRef(snapshot_id=target)))
        move = ref_changes.fast_forward if only_forward else ref_changes.replace_branch
        return self._add(move(self._working, branch_name, target, *_names(source)))

    def _id(self, snapshot: int | str | None) -> int:
        return ref_changes.snapshot_named(self._working, MAIN if snapshot is None else snapshot).snapshot_id

    def _add(self, action: Action) -> Self:
        """Makes the change on the working metadata, so that a wrong one is refused here, and keeps it for the commit."""
        now_ms = max(self._handle.clock.now_ms(), self._working.last_updated_ms)
        made = action.attempt(self._working, number=0, now_ms=now_ms, read=self._staged.reading(self._read))
        if made is not None:
            self._working = apply_updates(self._working, made.updates, now_ms)
            self._staged.add(made)
        self._actions.append(action)  # one that changes nothing may on the table as it is by then
        return self


def _names(source: int | str | None) -> tuple[str, ...]:
    """The ref that a change is based on beside the one it moves."""
    return (source,) if isinstance(source, str) else ()
