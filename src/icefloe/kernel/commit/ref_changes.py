"""`RefChange`: the action that makes, moves, renames and removes branches and tags, and says how long what they name is kept.

Each change remembers what the refs it is about were when it was made. After a lost race it is made again where they are so still; else it is a conflict that
says who changed them. Users meet this as `table.manage_snapshots()`.
Spec: Snapshot References; Snapshot Retention Policy; Commit Conflict Resolution and Retry.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from icefloe.errors import CommitConflictError, InvalidInputError, NoSuchSnapshotError, Problem
from icefloe.kernel.commit.append import Append
from icefloe.kernel.commit.attempt import Attempt, CommitContext, Read
from icefloe.kernel.metadata.metadata_updates import Update
from icefloe.kernel.metadata.requirement import AssertRefSnapshotId, AssertTableUUID
from icefloe.kernel.metadata.snapshot import Snapshot
from icefloe.kernel.metadata.snapshot_ref import MAIN, SnapshotRef
from icefloe.kernel.metadata.snapshot_updates import RemoveSnapshotRef, SetSnapshotRef
from icefloe.kernel.metadata.table_history import ancestors
from icefloe.kernel.metadata.table_metadata import TableMetadata

BRANCH, TAG = "branch", "tag"

_LARGEST_INT, _LARGEST_LONG = 2**31 - 1, 2**63 - 1
# The retention rules by field: which refs have them, the largest value, what they count.
_RETENTION = {
    "min_snapshots_to_keep": ((BRANCH,), _LARGEST_INT, "snapshots"),
    "max_snapshot_age_ms": ((BRANCH,), _LARGEST_LONG, "milliseconds"),
    "max_ref_age_ms": ((BRANCH, TAG), _LARGEST_LONG, "milliseconds"),
}


class RefChange:
    """`updates(base)` gives the updates on a base where every ref of `expected` is as it says (None: not there)."""

    def __init__(
        self, updates: Callable[[TableMetadata], Sequence[SetSnapshotRef | RemoveSnapshotRef]], expected: Mapping[str, SnapshotRef | None]
    ) -> None:
        self._updates = updates
        self._expected = dict(expected)

    def new_data_files(self) -> Sequence[str]:
        return ()

    def attempt(self, base: TableMetadata, *, number: int, now_ms: int, read: Read) -> Attempt | None:  # noqa: ARG002
        """See `Action.attempt`.

        Raises:
            CommitConflictError: another writer made, moved or removed a ref that this change is about.
            NoSuchSnapshotError, InvalidInputError: the change cannot be made on this base.
        """
        for name, was in self._expected.items():
            check_ref_is_as_it_was(base, name, was)
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
    """A new branch, the context's, where `main` has no snapshot yet: it gets an empty one, as Java makes it.

    Where another writer has written to `main` by the time of the commit, the branch is made at that head, as if it had been asked for then.
    """

    def __init__(self, context: CommitContext) -> None:
        self._name = context.branch
        self._empty = Append([], context)

    def new_data_files(self) -> Sequence[str]:
        return ()

    def attempt(self, base: TableMetadata, *, number: int, now_ms: int, read: Read) -> Attempt | None:
        """See `Action.attempt`. Raises `CommitConflictError` where another writer took the name."""
        check_ref_is_as_it_was(base, self._name, None)
        main = base.refs.get(MAIN)
        if main is None:
            return self._empty.attempt(base, number=number, now_ms=now_ms, read=read)
        made = create_ref(base, self._name, SnapshotRef(snapshot_id=main.snapshot_id, type=BRANCH))
        return made.attempt(base, number=number, now_ms=now_ms, read=read)


def check_ref_is_as_it_was(base: TableMetadata, name: str, was: SnapshotRef | None) -> None:
    """Raises `CommitConflictError` where another writer made, moved or removed the ref since; the error says who and whether to try again."""
    found = base.refs.get(name)
    if (found and (found.snapshot_id, found.type)) == (was and (was.snapshot_id, was.type)):
        return
    if found is None:
        happened = "another writer removed it"
    elif was is None:
        happened = f"another writer made it, at snapshot {_told(base, found.snapshot_id)}"
    else:
        way = "moved it on to" if is_ancestor(base, was.snapshot_id, of=found.snapshot_id) else "set it to"
        happened = f"another writer {way} snapshot {_told(base, found.snapshot_id)}"
    kind = (found or was or SnapshotRef(snapshot_id=0)).type
    raise CommitConflictError(
        f"the {kind} {name!r} was to be {_at(was)}, and is {_at(found)}: {happened}",
        snapshot_id=None if found is None else found.snapshot_id,
        problems=(
            Problem(where="expected", what=f"{name}: {_at(was)}"),
            Problem(where="found", what=f"{name}: {_at(found)}; {happened}"),
        ),
        next_step="a retry makes sense where it is still wanted: refresh the table, and look at what that writer did first",
    )


def _check_not_expired(now: TableMetadata, name: str, snapshot_id: int) -> None:
    """Raises `CommitConflictError` where a snapshot that was there when the change was made is not any longer."""
    if now.snapshot_by_id(snapshot_id) is None:
        raise CommitConflictError(
            f"{name!r} was to be set to snapshot {snapshot_id}, which another writer expired",
            snapshot_id=snapshot_id,
            problems=(
                Problem(where="expected", what=f"snapshot {snapshot_id} is in the table"),
                Problem(where="found", what=f"snapshot {snapshot_id} is not: it was expired"),
            ),
            next_step="a retry will fail again: choose another snapshot from table.snapshots()",
        )


def create_ref(base: TableMetadata, name: str, ref: SnapshotRef) -> RefChange:
    """A new branch or tag. Raises `InvalidInputError` where the name is taken, `NoSuchSnapshotError` where the snapshot is not in the table."""
    check_new_name(base, name)
    _check_retention(ref.type, {field: getattr(ref, field) for field in _RETENTION})
    snapshot_named(base, ref.snapshot_id)
    return RefChange(lambda _: (SetSnapshotRef(name, ref),), {name: None})


def remove_ref(base: TableMetadata, name: str, kind: str) -> RefChange:
    """Without the branch or tag; its snapshots stay until they are expired. Raises `InvalidInputError` for `main` and where it is of the other kind."""
    if name == MAIN and kind == BRANCH:
        raise InvalidInputError(
            "the branch main cannot be removed: its head is what the table is",
            next_step="set it to another snapshot with set_current_snapshot, or delete the rows",
        )
    return RefChange(lambda _: (RemoveSnapshotRef(name),), {name: ref_named(base, name, kind)})


def rename_branch(base: TableMetadata, name: str, new_name: str) -> RefChange:
    """The branch under another name, with all else as it is. Raises `InvalidInputError` for `main` and where the new name is taken."""
    if name == MAIN:
        raise InvalidInputError("the branch main cannot be renamed: its head is what the table is", next_step="make a branch at its head")
    branch = ref_named(base, name, BRANCH)
    check_new_name(base, new_name)
    return RefChange(
        lambda now: (RemoveSnapshotRef(name), SetSnapshotRef(new_name, ref_named(now, name, BRANCH))), {name: branch, new_name: None}
    )


def move_ref(base: TableMetadata, name: str, kind: str, snapshot_id: int, *others: str) -> RefChange:
    """The branch or tag at another snapshot, with its retention and whatever else it says; `main` is made where it is not there.

    `others` are refs that must be as they are as well. Raises `NoSuchSnapshotError`, and `InvalidInputError` where it is of the other kind.
    """
    is_new_main = name == MAIN and kind == BRANCH and name not in base.refs
    ref = None if is_new_main else ref_named(base, name, kind)
    snapshot_named(base, snapshot_id)

    def updates(now: TableMetadata) -> Sequence[SetSnapshotRef]:
        _check_not_expired(now, name, snapshot_id)
        return (SetSnapshotRef(name, replace(now.refs.get(name, SnapshotRef(snapshot_id=snapshot_id)), snapshot_id=snapshot_id)),)

    return RefChange(updates, {name: ref, **{other: base.refs.get(other) for other in others}})


def replace_branch(base: TableMetadata, name: str, snapshot_id: int, *others: str) -> RefChange:
    """The branch at any snapshot, whatever was written to it. Raises as `move_ref`."""
    return move_ref(base, name, BRANCH, snapshot_id, *others)


def fast_forward(base: TableMetadata, name: str, snapshot_id: int, *others: str) -> RefChange:
    """The branch at a later snapshot, of whose history its head is a part. Raises `InvalidInputError` where it is not: something would be lost."""
    branch = base.refs.get(name)
    if branch is not None and branch.is_branch and not is_ancestor(base, branch.snapshot_id, of=snapshot_id):
        raise InvalidInputError(
            f"the branch {name!r} cannot be fast-forwarded to snapshot {snapshot_id}: its head {branch.snapshot_id} is not among the ancestors "
            f"of {snapshot_id} ({_line_of(base, snapshot_id)}), so what was written to it since they parted would be lost",
            snapshot_id=snapshot_id,
            next_step="cherry-pick the snapshots that are wanted, or lose what is there on purpose with replace_branch",
        )
    return move_ref(base, name, BRANCH, snapshot_id, *others)


def rollback(base: TableMetadata, name: str, snapshot_id: int) -> RefChange:
    """The branch at an earlier snapshot of its own history. Raises `InvalidInputError` where the snapshot is not in it."""
    head = ref_named(base, name, BRANCH).snapshot_id
    snapshot_named(base, snapshot_id)
    if not is_ancestor(base, snapshot_id, of=head):
        raise InvalidInputError(
            f"the branch {name!r} cannot be rolled back to snapshot {snapshot_id}: it is not among the ancestors of its head {head} "
            f"({_line_of(base, head)})",
            snapshot_id=snapshot_id,
            next_step="use set_current_snapshot to go to any snapshot of the table",
        )
    return move_ref(base, name, BRANCH, snapshot_id)


def snapshot_before(base: TableMetadata, name: str, timestamp_ms: int) -> Snapshot:
    """The newest ancestor of a branch's head that is older than a time. Raises `NoSuchSnapshotError` where there is none."""
    line = list(ancestors(base, ref_named(base, name, BRANCH).snapshot_id))
    older = [snapshot for snapshot in line if snapshot.timestamp_ms < timestamp_ms]
    if not older:
        raise NoSuchSnapshotError(
            f"the branch {name!r} has no snapshot from before {timestamp_ms} ms: its oldest is {line[-1].snapshot_id} of {line[-1].timestamp_ms} ms",
            snapshot_id=line[-1].snapshot_id,
            next_step="choose a later time" if line[-1].parent_snapshot_id is None else "choose a later time: those before it were expired",
        )
    return max(older, key=lambda snapshot: snapshot.timestamp_ms)


def set_retention(base: TableMetadata, name: str, **rules: int | None) -> RefChange:
    """How long the branch's snapshots, or the ref itself, are kept; None takes a rule away, so that the table's property holds.

    It is about no snapshot, and so holds wherever other writers move the ref. Raises `InvalidInputError` for a rule that a tag has not, and a value below 1.
    """
    _check_retention(ref_named(base, name).type, rules)

    def updates(now: TableMetadata) -> Sequence[SetSnapshotRef]:
        ref = ref_named(now, name)
        _check_retention(ref.type, rules)
        return (SetSnapshotRef(name, replace(ref, **rules)),)  # type: ignore[arg-type]  # the names are those of its fields

    return RefChange(updates, {})


def ref_named(base: TableMetadata, name: str, kind: str | None = None) -> SnapshotRef:
    """The branch or tag of that name. Raises `NoSuchSnapshotError` where there is none, `InvalidInputError` where it is of the other kind."""
    ref = base.refs.get(name)
    if ref is None:
        known = ", ".join(sorted(other for other, found in base.refs.items() if kind in (None, found.type))) or "none"
        empty = ": nothing was written to it yet" if name == MAIN else ""
        raise NoSuchSnapshotError(f"there is no {kind or 'branch or tag'} {name!r}{empty}", next_step=f"there are: {known}")
    if kind is not None and ref.type != kind:
        raise InvalidInputError(f"{name!r} was to be a {kind}, and is a {ref.type}", next_step=f"use the operation for a {ref.type}")
    return ref


def snapshot_named(base: TableMetadata, snapshot: int | str) -> Snapshot:
    """The snapshot of an id, or at the head of a branch or tag. Raises `NoSuchSnapshotError`, and `InvalidInputError` for anything else."""
    if type(snapshot) not in (int, str):  # no bool either
        raise InvalidInputError(
            f"{snapshot!r} is no snapshot id and no name", next_step="pass the id as a number, or a branch or tag by its name"
        )
    snapshot_id = ref_named(base, snapshot).snapshot_id if isinstance(snapshot, str) else snapshot
    found = base.snapshot_by_id(snapshot_id)
    if found is None:
        raise NoSuchSnapshotError(
            f"the table has no snapshot {snapshot_id}",
            snapshot_id=snapshot_id,
            next_step="choose one from table.snapshots(); an expired one is gone",
        )
    return found


def check_new_name(base: TableMetadata, name: str) -> None:
    """Raises `InvalidInputError` where a branch or tag cannot have this name: it is taken, or no text."""
    if type(name) is not str or not name.strip():
        raise InvalidInputError(f"{name!r} is no name of a branch or tag", next_step="pass a text that is not empty")
    taken = base.refs.get(name)
    if taken is not None:
        raise InvalidInputError(
            f"there is a {taken.type} {name!r} already, at snapshot {taken.snapshot_id}",
            snapshot_id=taken.snapshot_id,
            next_step=f"choose another name, or move it with replace_{taken.type}",
        )


def is_ancestor(base: TableMetadata, snapshot_id: int, *, of: int) -> bool:
    """Whether the snapshot is the other one, or in its history as far as the table still has it."""
    return any(found.snapshot_id == snapshot_id for found in ancestors(base, of))


def _check_retention(kind: str, rules: Mapping[str, int | None]) -> None:
    for field, value in rules.items():
        kinds, largest, unit = _RETENTION[field]
        name = field.replace("_", "-")
        if value is None:
            continue
        if kind not in kinds:
            raise InvalidInputError(
                f"a tag has no {name}: it names one snapshot, and only {kinds[0]}es keep those before", next_step="leave it out"
            )
        if type(value) is not int or not 1 <= value <= largest:  # no bool either
            raise InvalidInputError(f"{name} is {value!r}; it counts {unit}, so it is a whole number from 1 to {largest}")


def _changes_anything(change: SetSnapshotRef | RemoveSnapshotRef, base: TableMetadata) -> bool:
    return isinstance(change, RemoveSnapshotRef) or base.refs.get(change.name) != change.ref


def _at(ref: SnapshotRef | None) -> str:
    return "absent" if ref is None else f"a {ref.type} at snapshot {ref.snapshot_id}"


def _told(base: TableMetadata, snapshot_id: int) -> str:
    """A snapshot as a message says it: its id, what made it, by whom and when."""
    snapshot = base.snapshot_by_id(snapshot_id)
    if snapshot is None:
        return str(snapshot_id)
    names = [snapshot.summary.get(key) for key in ("engine-name", "engine-version", "app-id")]
    by = " ".join(name for name in names if name)
    return f"{snapshot_id} ({snapshot.operation or 'unknown operation'}{' by ' + by if by else ''}, {snapshot.timestamp_ms} ms)"


def _line_of(base: TableMetadata, snapshot_id: int) -> str:
    """How far a snapshot's history is known, in words."""
    line = list(ancestors(base, snapshot_id))
    if not line:
        return "none is known"
    gone = line[-1].parent_snapshot_id
    return f"{len(line)} known, back to {line[-1].snapshot_id}" + ("" if gone is None else f", before which {gone} was expired")
