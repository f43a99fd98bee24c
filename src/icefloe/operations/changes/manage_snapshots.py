"""`ManageSnapshots`: changes of branches and tags, and of the snapshot that a branch is at: rollback, fast-forward, cherry-pick, publish.

`commit/ref_changes.py` and `commit/cherry_pick.py` have the rules of each change.
Spec: Snapshot References; Snapshot Retention Policy; Appendix F, Point in Time Reads (Time Travel).
"""

from typing import Any, Self

from icefloe.commit import ref_changes
from icefloe.commit.attempt import Action
from icefloe.commit.cherry_pick import CherryPick
from icefloe.commit.composite_action import CompositeAction, StagedFiles
from icefloe.commit.ref_changes import BRANCH, TAG
from icefloe.commit.staged_snapshot import staged_as
from icefloe.errors import InvalidInputError
from icefloe.operations.pending_change import Commit, MutationContext, PendingChange
from icefloe.operations.rows.write_context import snapshot_context
from icefloe.spec.metadata.metadata_updates import apply_updates
from icefloe.spec.metadata.snapshot_ref import MAIN, SnapshotRef


class ManageSnapshots(PendingChange):
    """Changes of branches and tags, committed together at the end of a `with` block or by `commit()`. Each change sees the result of the previous changes.

    An invalid change raises its error at once, before the commit. If other writers committed meanwhile, the changes are applied to the newer table, as long as
    the branches and tags that they depend on are unchanged; otherwise `commit` raises a `CommitConflictError` with the commit that changed them. Methods take a
    snapshot as its id, or as the name of a branch or tag.
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
        """Create a branch.

        Args:
            snapshot_id: the snapshot; the head of `main` by default. In a table without snapshots the branch gets an empty snapshot, as in Java.
            branch_name: its name.
            max_ref_age_ms: the age in milliseconds after which the branch itself may be expired.
            max_snapshot_age_ms: the age in milliseconds after which its snapshots may be expired.
            min_snapshots_to_keep: the number of its newest snapshots that expiry keeps regardless of their age.

        Returns:
            These changes.

        Raises:
            InvalidInputError: the name is empty or taken, or a retention value is below 1.
            NoSuchSnapshotError: the snapshot does not exist.
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
        branch = SnapshotRef(snapshot_id=self._id(snapshot_id), type=BRANCH, **retention)
        return self._add(ref_changes.create_ref(self._working, branch_name, branch))

    def create_tag(self, snapshot_id: int | str | None = None, tag_name: str = "", max_ref_age_ms: int | None = None) -> Self:
        """Create a tag.

        Args:
            snapshot_id: the snapshot; the head of `main` by default.
            tag_name: its name.
            max_ref_age_ms: the age in milliseconds after which the tag may be expired.

        Returns:
            These changes.

        Raises:
            InvalidInputError: the name is empty or taken, or a retention value is below 1.
            NoSuchSnapshotError: the snapshot does not exist.
        """
        tag = SnapshotRef(snapshot_id=self._id(snapshot_id), type=TAG, max_ref_age_ms=max_ref_age_ms)
        return self._add(ref_changes.create_ref(self._working, tag_name, tag))

    def remove_branch(self, branch_name: str) -> Self:
        """Remove a branch; its snapshots stay until they are expired.

        Args:
            branch_name: the branch.

        Returns:
            These changes.

        Raises:
            InvalidInputError: the branch is `main`, or the name is a tag's.
            NoSuchSnapshotError: the branch does not exist.
        """
        return self._add(ref_changes.remove_ref(self._working, branch_name, BRANCH))

    def remove_tag(self, tag_name: str) -> Self:
        """Remove a tag; its snapshot stays until it is expired.

        Args:
            tag_name: the tag.

        Returns:
            These changes.

        Raises:
            InvalidInputError: the name is a branch's.
            NoSuchSnapshotError: the tag does not exist.
        """
        return self._add(ref_changes.remove_ref(self._working, tag_name, TAG))

    def rename_branch(self, branch_name: str, new_name: str) -> Self:
        """Rename a branch.

        Args:
            branch_name: the branch.
            new_name: its new name.

        Returns:
            These changes.

        Raises:
            InvalidInputError: the branch is `main`, the name is a tag's, or the new name is taken.
            NoSuchSnapshotError: the branch does not exist.
        """
        return self._add(ref_changes.rename_branch(self._working, branch_name, new_name))

    def replace_branch(self, branch_name: str, source: int | str) -> Self:
        """Move a branch to any snapshot, even if the branch loses snapshots by the move. The branch keeps its retention settings.

        Args:
            branch_name: the branch; it is created if it does not exist and `source` is a branch or tag.
            source: the id of the snapshot, or a branch or tag that refers to it.

        Returns:
            These changes.

        Raises:
            InvalidInputError: the name is a tag's.
            NoSuchSnapshotError: the branch or the source does not exist.
        """
        return self._move(branch_name, source, only_forward=False)

    def replace_tag(self, tag_name: str, snapshot_id: int | str) -> Self:
        """Move a tag to another snapshot. The tag keeps its retention settings.

        Args:
            tag_name: the tag.
            snapshot_id: the snapshot, by id or by a branch or tag.

        Returns:
            These changes.

        Raises:
            InvalidInputError: the name is a branch's.
            NoSuchSnapshotError: the tag or the snapshot does not exist.
        """
        return self._add(ref_changes.move_ref(self._working, tag_name, TAG, self._id(snapshot_id), *_names(snapshot_id)))

    def fast_forward(self, branch_name: str, to: int | str) -> Self:
        """Move a branch forward to a later snapshot: its head must be an ancestor of that snapshot.

        Args:
            branch_name: the branch; it is created if it does not exist and `to` is a branch or tag.
            to: the snapshot, by id or by a branch or tag.

        Returns:
            These changes.

        Raises:
            InvalidInputError: a snapshot of the branch would be lost, or the name is a tag's.
            NoSuchSnapshotError: the branch or the snapshot does not exist.
        """
        return self._move(branch_name, to, only_forward=True)

    def set_min_snapshots_to_keep(self, branch_name: str, min_snapshots_to_keep: int | None) -> Self:
        """Set the number of newest snapshots of a branch that expiry keeps regardless of their age.

        Args:
            branch_name: the branch.
            min_snapshots_to_keep: the number; None uses the table's property.

        Returns:
            These changes.

        Raises:
            InvalidInputError: the number is below 1, or the name is a tag's.
            NoSuchSnapshotError: the branch does not exist.
        """
        return self._add(ref_changes.set_retention(self._working, branch_name, min_snapshots_to_keep=min_snapshots_to_keep))

    def set_max_snapshot_age_ms(self, branch_name: str, max_snapshot_age_ms: int | None) -> Self:
        """Set the age after which snapshots of a branch may be expired.

        Args:
            branch_name: the branch.
            max_snapshot_age_ms: the age in milliseconds; None uses the table's property.

        Returns:
            These changes.

        Raises:
            InvalidInputError: the age is below 1, or the name is a tag's.
            NoSuchSnapshotError: the branch does not exist.
        """
        return self._add(ref_changes.set_retention(self._working, branch_name, max_snapshot_age_ms=max_snapshot_age_ms))

    def set_max_ref_age_ms(self, name: str, max_ref_age_ms: int | None) -> Self:
        """Set the age after which a branch or tag itself may be expired.

        Args:
            name: the branch or tag.
            max_ref_age_ms: the age in milliseconds; None uses the table's property.

        Returns:
            These changes.

        Raises:
            InvalidInputError: the age is below 1.
            NoSuchSnapshotError: the branch or tag does not exist.
        """
        return self._add(ref_changes.set_retention(self._working, name, max_ref_age_ms=max_ref_age_ms))

    def set_current_snapshot(self, snapshot_id: int | str | None = None, ref_name: str | None = None, branch: str = MAIN) -> Self:
        """Move a branch to any snapshot of the table, given by `snapshot_id` or by `ref_name`.

        Args:
            snapshot_id: the id of the snapshot, or a branch or tag that refers to it; None if `ref_name` is given.
            ref_name: a branch or tag that refers to the snapshot; None if `snapshot_id` is given.
            branch: the branch to move.

        Returns:
            These changes.

        Raises:
            InvalidInputError: both or none of `snapshot_id` and `ref_name` are given, or `branch` is a tag.
            NoSuchSnapshotError: the snapshot or the branch does not exist.
        """
        if (snapshot_id is None) == (ref_name is None):
            raise InvalidInputError(
                f"exactly one snapshot is required, and {'none' if snapshot_id is None else 'two'} are given",
                next_step="pass snapshot_id or ref_name",
            )
        source = ref_name if snapshot_id is None else snapshot_id
        return self._add(ref_changes.move_ref(self._working, branch, BRANCH, self._id(source), *_names(source)))

    def rollback_to_snapshot(self, snapshot_id: int | str, branch: str = MAIN) -> Self:
        """Move a branch back to an ancestor of its head.

        Args:
            snapshot_id: the ancestor, by id or by a branch or tag.
            branch: the branch to move.

        Returns:
            These changes.

        Raises:
            InvalidInputError: the snapshot is not an ancestor of the branch's head.
            NoSuchSnapshotError: the snapshot or the branch does not exist.
        """
        return self._add(ref_changes.rollback(self._working, branch, self._id(snapshot_id)))

    def rollback_to_timestamp(self, timestamp_ms: int, branch: str = MAIN) -> Self:
        """Move a branch back to the newest ancestor of its head that is older than a time.

        Args:
            timestamp_ms: the time in milliseconds since 1970-01-01 UTC.
            branch: the branch to move.

        Returns:
            These changes.

        Raises:
            NoSuchSnapshotError: no ancestor is older, or the branch does not exist.
        """
        return self.rollback_to_snapshot(ref_changes.snapshot_before(self._working, branch, timestamp_ms).snapshot_id, branch)

    def cherry_pick(self, snapshot_id: int | str, branch: str = MAIN) -> Self:
        """Apply the change of a snapshot to a branch. If the snapshot's parent is the head of the branch, the branch is moved to the snapshot instead.

        Args:
            snapshot_id: the snapshot, by id or by a branch or tag.
            branch: the branch to change.

        Returns:
            These changes.

        Raises:
            InvalidInputError: the snapshot was picked before, or is neither an append nor an overwrite of whole partitions; the message has the reason.
            NoSuchSnapshotError: the snapshot or the branch does not exist.
        """
        context = snapshot_context(self._handle, self._working, {}, branch)
        return self._add(CherryPick(self._id(snapshot_id), context))

    def publish_changes(self, wap_id: str, branch: str = MAIN) -> Self:
        """Cherry-pick the snapshot that was staged under a write-audit-publish (WAP) id.

        Args:
            wap_id: the id under which the snapshot was staged.
            branch: the branch to change.

        Returns:
            These changes.

        Raises:
            NoSuchSnapshotError: no snapshot was staged under the id, or the branch does not exist.
            InvalidInputError: as for `cherry_pick`.
        """
        return self.cherry_pick(staged_as(self._working, wap_id).snapshot_id, branch)

    def commit(self) -> None:
        """Commit the changes as one version of the table; do nothing if none of them changes it.

        Raises:
            CommitConflictError: another writer created, moved or removed a ref that one of the changes depends on.
            CommitInvalidatedError: a cherry-pick is no longer valid after another writer's commit.
            CommitUnknownError: the catalog's reply was lost; the commit may or may not have happened.
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
        """Add an action to the changes to commit, and apply it to the working metadata, so that an invalid action raises its error at once."""
        now_ms = max(self._handle.clock.now_ms(), self._working.last_updated_ms)
        attempt = action.attempt(self._working, number=0, now_ms=now_ms, read=self._staged.reading(self._read))
        if attempt is not None:
            self._working = apply_updates(self._working, attempt.updates, now_ms)
            self._staged.add(attempt)
        self._actions.append(action)  # an action that changes nothing now may change the table as it is at the commit
        return self


def _names(source: int | str | None) -> tuple[str, ...]:
    """Return the name of the branch or tag that a change depends on, besides the one that it moves, in a tuple; empty if `source` is no name."""
    return (source,) if isinstance(source, str) else ()
