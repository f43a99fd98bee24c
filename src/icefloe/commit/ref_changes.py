"""`RefChange`: the action that creates, moves, renames and removes branches and tags, and sets their retention. JAVA: UpdateSnapshotReferencesOperation.

A change records the refs that it is based on. A retry applies it to the newer base if these refs are unchanged; otherwise it fails with a conflict, whose
message contains the other writer's commit. `table.manage_snapshots()` creates these changes.
Spec: Snapshot References; Snapshot Retention Policy; Commit Conflict Resolution and Retry.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from icefloe.commit.append import Append
from icefloe.commit.attempt import Attempt, CommitContext, Read
from icefloe.errors import CommitConflictError, InvalidInputError, NoSuchSnapshotError, Problem
from icefloe.spec.metadata.metadata_updates import Update
from icefloe.spec.metadata.requirement import AssertRefSnapshotId, AssertTableUUID
from icefloe.spec.metadata.snapshot import Snapshot
from icefloe.spec.metadata.snapshot_ref import MAIN, SnapshotRef
from icefloe.spec.metadata.snapshot_updates import RemoveSnapshotRef, SetSnapshotRef
from icefloe.spec.metadata.table_history import ancestors
from icefloe.spec.metadata.table_metadata import TableMetadata

BRANCH, TAG = "branch", "tag"

_LARGEST_INT, _LARGEST_LONG = 2**31 - 1, 2**63 - 1
# For each retention field: the types of refs that have it, its largest value, and its unit.
_RETENTION = {
    "min_snapshots_to_keep": ((BRANCH,), _LARGEST_INT, "snapshots"),
    "max_snapshot_age_ms": ((BRANCH,), _LARGEST_LONG, "milliseconds"),
    "max_ref_age_ms": ((BRANCH, TAG), _LARGEST_LONG, "milliseconds"),
}


class RefChange:
    """A commit action that changes branches and tags. Its updates are computed again from the current metadata at each attempt."""

    def __init__(
        self, updates: Callable[[TableMetadata], Sequence[SetSnapshotRef | RemoveSnapshotRef]], expected: Mapping[str, SnapshotRef | None]
    ) -> None:
        """Create the action.

        Args:
            updates: returns the updates for a base.
            expected: the refs that must be unchanged, by name; None for a name that must not exist.
        """
        self._updates = updates
        self._expected = dict(expected)

    def new_data_files(self) -> Sequence[str]:
        return ()

    def attempt(self, base: TableMetadata, *, number: int, now_ms: int, read: Read) -> Attempt | None:  # noqa: ARG002
        """Return the attempt on a base, see `Action.attempt`.

        Raises:
            CommitConflictError: another writer created, moved or removed a ref that this change is based on.
            NoSuchSnapshotError, InvalidInputError: the change is not valid for this base.
        """
        for name, expected in self._expected.items():
            check_ref_unchanged(base, name, expected)
        changes = tuple(change for change in self._updates(base) if _changes_anything(change, base))
        if not changes:
            return None
        heads = {name: base.refs.get(name) for name in (*self._expected, *(change.name for change in changes))}
        updates: tuple[Update, ...] = changes
        return Attempt(
            updates=updates,
            requirements=(
                AssertTableUUID(base.table_uuid),
                *(AssertRefSnapshotId(name, None if ref is None else ref.snapshot_id) for name, ref in heads.items()),
            ),
        )


class BranchOfEmptyTable:
    """The action that creates a branch in a table without snapshots: the branch gets an empty snapshot, as in Java.

    If another writer has committed to `main` by the time of the commit, the branch is created at the head of main instead.
    """

    def __init__(self, context: CommitContext) -> None:
        self._name = context.branch
        self._empty = Append([], context)

    def new_data_files(self) -> Sequence[str]:
        return ()

    def attempt(self, base: TableMetadata, *, number: int, now_ms: int, read: Read) -> Attempt | None:
        """Return the attempt on a base, see `Action.attempt`. Raises `CommitConflictError` if another writer created a ref of this name."""
        check_ref_unchanged(base, self._name, None)
        main = base.refs.get(MAIN)
        if main is None:
            return self._empty.attempt(base, number=number, now_ms=now_ms, read=read)
        create = create_ref(base, self._name, SnapshotRef(snapshot_id=main.snapshot_id, type=BRANCH))
        return create.attempt(base, number=number, now_ms=now_ms, read=read)


def check_ref_unchanged(base: TableMetadata, name: str, expected: SnapshotRef | None) -> None:
    """Raise `CommitConflictError` if another writer created, moved or removed a ref; the message contains that writer's snapshot."""
    current = base.refs.get(name)
    if (current and (current.snapshot_id, current.type)) == (expected and (expected.snapshot_id, expected.type)):
        return
    if current is None:
        change = "another writer removed it"
    elif expected is None:
        change = f"another writer created it, at snapshot {_describe_snapshot(base, current.snapshot_id)}"
    else:
        moved = "moved it forward to" if is_ancestor(base, expected.snapshot_id, of=current.snapshot_id) else "set it to"
        change = f"another writer {moved} snapshot {_describe_snapshot(base, current.snapshot_id)}"
    ref_type = (current or expected or SnapshotRef(snapshot_id=0)).type
    raise CommitConflictError(
        f"the {ref_type} {name!r} changed: expected {_describe_ref(expected)}, found {_describe_ref(current)}: {change}",
        snapshot_id=None if current is None else current.snapshot_id,
        problems=(
            Problem(where="expected", what=f"{name}: {_describe_ref(expected)}"),
            Problem(where="found", what=f"{name}: {_describe_ref(current)}; {change}"),
        ),
        next_step="a retry makes sense if the change is still needed: refresh the table, and check what the other writer did first",
    )


def _check_not_expired(base: TableMetadata, name: str, snapshot_id: int) -> None:
    """Raise `CommitConflictError` if another writer expired a snapshot since the change was created."""
    if base.snapshot_by_id(snapshot_id) is None:
        raise CommitConflictError(
            f"{name!r} cannot be set to snapshot {snapshot_id}, which another writer expired",
            snapshot_id=snapshot_id,
            problems=(
                Problem(where="expected", what=f"snapshot {snapshot_id} is in the table"),
                Problem(where="found", what=f"snapshot {snapshot_id} is not: it was expired"),
            ),
            next_step="a retry will fail again: choose another snapshot from table.snapshots()",
        )


def create_ref(base: TableMetadata, name: str, ref: SnapshotRef) -> RefChange:
    """Return the change that creates a branch or tag.

    Raises:
        InvalidInputError: the name is used already, or a retention rule is invalid.
        NoSuchSnapshotError: the table has no such snapshot.
    """
    check_new_name(base, name)
    _check_retention(ref.type, {field: getattr(ref, field) for field in _RETENTION})
    snapshot_named(base, ref.snapshot_id)
    return RefChange(lambda _: (SetSnapshotRef(name, ref),), {name: None})


def remove_ref(base: TableMetadata, name: str, kind: str) -> RefChange:
    """Return the change that removes a branch or tag; its snapshots are kept until they are expired.

    Raises:
        NoSuchSnapshotError: there is no branch or tag of this name.
        InvalidInputError: it is `main`, or of the other type.
    """
    if name == MAIN and kind == BRANCH:
        raise InvalidInputError(
            "the branch main cannot be removed: its head is the current snapshot of the table",
            next_step="set it to another snapshot with set_current_snapshot, or delete the rows",
        )
    return RefChange(lambda _: (RemoveSnapshotRef(name),), {name: ref_named(base, name, kind)})


def rename_branch(base: TableMetadata, name: str, new_name: str) -> RefChange:
    """Return the change that renames a branch.

    Raises:
        NoSuchSnapshotError: there is no branch of this name.
        InvalidInputError: it is `main` or a tag, or the new name is used already.
    """
    if name == MAIN:
        raise InvalidInputError(
            "the branch main cannot be renamed: its head is the current snapshot of the table", next_step="create a branch at its head"
        )
    branch = ref_named(base, name, BRANCH)
    check_new_name(base, new_name)
    return RefChange(
        lambda current: (RemoveSnapshotRef(name), SetSnapshotRef(new_name, ref_named(current, name, BRANCH))),
        {name: branch, new_name: None},
    )


def move_ref(base: TableMetadata, name: str, kind: str, snapshot_id: int, *others: str) -> RefChange:
    """Return the change that moves a branch or tag to another snapshot and keeps its retention. A missing `main` is created.

    Args:
        base: the table.
        name: the name of the ref.
        kind: `BRANCH` or `TAG`.
        snapshot_id: the new snapshot.
        others: names of further refs that must be unchanged.

    Raises:
        NoSuchSnapshotError: there is no such ref or snapshot.
        InvalidInputError: the ref is of the other type.
    """
    is_new_main = name == MAIN and kind == BRANCH and name not in base.refs
    ref = None if is_new_main else ref_named(base, name, kind)
    snapshot_named(base, snapshot_id)

    def updates(current: TableMetadata) -> Sequence[SetSnapshotRef]:
        _check_not_expired(current, name, snapshot_id)
        return (SetSnapshotRef(name, replace(current.refs.get(name, SnapshotRef(snapshot_id=snapshot_id)), snapshot_id=snapshot_id)),)

    return RefChange(updates, {name: ref, **{other: base.refs.get(other) for other in others}})


def replace_branch(base: TableMetadata, name: str, snapshot_id: int, *others: str) -> RefChange:
    """Return the change that moves a branch to any snapshot, regardless of its history. Raises the errors of `move_ref`."""
    return move_ref(base, name, BRANCH, snapshot_id, *others)


def fast_forward(base: TableMetadata, name: str, snapshot_id: int, *others: str) -> RefChange:
    """Return the change that moves a branch to a descendant of its head.

    Raises the errors of `move_ref`, and `InvalidInputError` if the snapshot is not a descendant.
    """
    branch = base.refs.get(name)
    if branch is not None and branch.is_branch and not is_ancestor(base, branch.snapshot_id, of=snapshot_id):
        raise InvalidInputError(
            f"the branch {name!r} cannot be fast-forwarded to snapshot {snapshot_id}: its head {branch.snapshot_id} is not among the ancestors "
            f"of {snapshot_id} ({_describe_history(base, snapshot_id)}), so the changes of the branch since their common ancestor would be lost",
            snapshot_id=snapshot_id,
            next_step="cherry-pick the snapshots that you need, or discard the changes of the branch with replace_branch",
        )
    return move_ref(base, name, BRANCH, snapshot_id, *others)


def rollback(base: TableMetadata, name: str, snapshot_id: int) -> RefChange:
    """Return the change that moves a branch back to an ancestor of its head.

    Raises the errors of `move_ref`, and `InvalidInputError` if the snapshot is not an ancestor.
    """
    head = ref_named(base, name, BRANCH).snapshot_id
    snapshot_named(base, snapshot_id)
    if not is_ancestor(base, snapshot_id, of=head):
        raise InvalidInputError(
            f"the branch {name!r} cannot be rolled back to snapshot {snapshot_id}: it is not among the ancestors of its head {head} "
            f"({_describe_history(base, head)})",
            snapshot_id=snapshot_id,
            next_step="use set_current_snapshot to set the branch to any snapshot of the table",
        )
    return move_ref(base, name, BRANCH, snapshot_id)


def snapshot_before(base: TableMetadata, name: str, timestamp_ms: int) -> Snapshot:
    """Return the newest snapshot in the history of a branch that is older than a time. Raises `NoSuchSnapshotError` if there is none."""
    history = list(ancestors(base, ref_named(base, name, BRANCH).snapshot_id))
    older = [snapshot for snapshot in history if snapshot.timestamp_ms < timestamp_ms]
    if not older:
        oldest = history[-1]
        raise NoSuchSnapshotError(
            f"the branch {name!r} has no snapshot from before {timestamp_ms} ms: its oldest is {oldest.snapshot_id} of {oldest.timestamp_ms} ms",
            snapshot_id=oldest.snapshot_id,
            next_step="choose a later time" if oldest.parent_snapshot_id is None else "choose a later time: older snapshots were expired",
        )
    return max(older, key=lambda snapshot: snapshot.timestamp_ms)


def set_retention(base: TableMetadata, name: str, **rules: int | None) -> RefChange:
    """Return the change that sets the retention of a ref. It does not depend on the snapshot of the ref, so concurrent moves are no conflict.

    Args:
        base: the table.
        name: the name of a branch or tag.
        rules: new values of `min_snapshots_to_keep`, `max_snapshot_age_ms` or `max_ref_age_ms`; None removes the value, so that the table property applies.

    Raises:
        NoSuchSnapshotError: there is no branch or tag of this name.
        InvalidInputError: a rule does not apply to a tag, or a value is below 1.
    """
    _check_retention(ref_named(base, name).type, rules)

    def updates(current: TableMetadata) -> Sequence[SetSnapshotRef]:
        ref = ref_named(current, name)
        _check_retention(ref.type, rules)
        return (SetSnapshotRef(name, replace(ref, **rules)),)  # type: ignore[arg-type]  # the names are those of its fields

    return RefChange(updates, {})


def ref_named(base: TableMetadata, name: str, kind: str | None = None) -> SnapshotRef:
    """Return the branch or tag of a name. Raises `NoSuchSnapshotError` if there is none, `InvalidInputError` if it is of the other type."""
    ref = base.refs.get(name)
    if ref is None:
        names = ", ".join(sorted(other for other, other_ref in base.refs.items() if kind in (None, other_ref.type))) or "none"
        empty = ": nothing was written to it yet" if name == MAIN else ""
        raise NoSuchSnapshotError(f"there is no {kind or 'branch or tag'} {name!r}{empty}", next_step=f"there are: {names}")
    if kind is not None and ref.type != kind:
        raise InvalidInputError(f"{name!r} is a {ref.type}, not a {kind}", next_step=f"use the operation for a {ref.type}")
    return ref


def snapshot_named(base: TableMetadata, snapshot: int | str) -> Snapshot:
    """Return the snapshot with an id, or the one that a branch or tag refers to. Raises `NoSuchSnapshotError`, and `InvalidInputError` for a wrong type."""
    if type(snapshot) not in (int, str):  # a bool is refused too
        raise InvalidInputError(
            f"{snapshot!r} is not a snapshot id, branch or tag", next_step="pass the id as a number, or the name of a branch or tag"
        )
    snapshot_id = ref_named(base, snapshot).snapshot_id if isinstance(snapshot, str) else snapshot
    named = base.snapshot_by_id(snapshot_id)
    if named is None:
        raise NoSuchSnapshotError(
            f"the table has no snapshot {snapshot_id}",
            snapshot_id=snapshot_id,
            next_step="choose one from table.snapshots(); expired snapshots cannot be restored",
        )
    return named


def check_new_name(base: TableMetadata, name: str) -> None:
    """Raise `InvalidInputError` if a new branch or tag cannot have this name, because it is used already, empty, or not a string."""
    if type(name) is not str or not name.strip():
        raise InvalidInputError(f"{name!r} is not a valid name of a branch or tag", next_step="pass a string that is not empty")
    existing = base.refs.get(name)
    if existing is not None:
        raise InvalidInputError(
            f"there is a {existing.type} {name!r} already, at snapshot {existing.snapshot_id}",
            snapshot_id=existing.snapshot_id,
            next_step=f"choose another name, or move it with replace_{existing.type}",
        )


def is_ancestor(base: TableMetadata, snapshot_id: int, *, of: int) -> bool:
    """Return True if a snapshot is the snapshot `of` or one of its ancestors, as far as the table still has them."""
    return any(ancestor.snapshot_id == snapshot_id for ancestor in ancestors(base, of))


def _check_retention(kind: str, rules: Mapping[str, int | None]) -> None:
    for field, value in rules.items():
        kinds, largest, unit = _RETENTION[field]
        name = field.replace("_", "-")
        if value is None:
            continue
        if kind not in kinds:
            raise InvalidInputError(
                f"a tag has no {name}: it refers to one snapshot; only {kinds[0]}es keep older ones", next_step="remove the option"
            )
        if type(value) is not int or not 1 <= value <= largest:  # a bool is refused too
            raise InvalidInputError(f"{name} is {value!r}; it must be a number of {unit}, from 1 to {largest}")


def _changes_anything(change: SetSnapshotRef | RemoveSnapshotRef, base: TableMetadata) -> bool:
    return isinstance(change, RemoveSnapshotRef) or base.refs.get(change.name) != change.ref


def _describe_ref(ref: SnapshotRef | None) -> str:
    return "absent" if ref is None else f"a {ref.type} at snapshot {ref.snapshot_id}"


def _describe_snapshot(base: TableMetadata, snapshot_id: int) -> str:
    """Return the id, operation, engine and time of a snapshot, for a message."""
    snapshot = base.snapshot_by_id(snapshot_id)
    if snapshot is None:
        return str(snapshot_id)
    names = [snapshot.summary.get(key) for key in ("engine-name", "engine-version", "app-id")]
    by = " ".join(name for name in names if name)
    return f"{snapshot_id} ({snapshot.operation or 'unknown operation'}{' by ' + by if by else ''}, {snapshot.timestamp_ms} ms)"


def _describe_history(base: TableMetadata, snapshot_id: int) -> str:
    """Return how far the table has the history of a snapshot, for a message."""
    history = list(ancestors(base, snapshot_id))
    if not history:
        return "none is known"
    expired_id = history[-1].parent_snapshot_id
    return f"{len(history)} known, back to {history[-1].snapshot_id}" + (
        "" if expired_id is None else f", before which {expired_id} was expired"
    )
