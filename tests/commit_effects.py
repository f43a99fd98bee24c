"""Effects: the expected changes of operations on the model of a table: snapshots of rows, branches and tags, properties, expiry.

An effect changes a `State` and consumes from a `Landing` the changes that a commit really made. `commit_model.py` applies effects to every commit.
Spec: Snapshots; Snapshot References; Snapshot Retention Policy.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

Bag = Counter[tuple[Any, ...]]


class BrokenInvariantError(AssertionError):
    """An invariant of commits is violated."""


def must(holds: object, what: str) -> None:
    """Raise `BrokenInvariantError` with the message `what` unless `holds` is true."""
    if not holds:
        raise BrokenInvariantError(what)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSnapshot:
    """A snapshot of the model: its parent, and its rows as a multiset."""

    parent_id: int | None
    rows: Bag


@dataclass(slots=True, kw_only=True)
class State:
    """The expected state of the table.

    Attributes:
        snapshots: Snapshots of the table, by id.
        expired: Expired snapshots, by id.
        refs: Branches and tags by name: the kind and the snapshot id.
        properties: Table properties that an operation has set.
    """

    snapshots: dict[int, ModelSnapshot] = field(default_factory=dict)
    expired: dict[int, ModelSnapshot] = field(default_factory=dict)
    refs: dict[str, tuple[str, int]] = field(default_factory=dict)
    properties: dict[str, str] = field(default_factory=dict)

    def copy(self) -> "State":
        """Return a copy that can be changed."""
        return State(snapshots=dict(self.snapshots), expired=dict(self.expired), refs=dict(self.refs), properties=dict(self.properties))

    def head(self, branch: str) -> int | None:
        """Return the snapshot id of a branch, None if the branch does not exist yet."""
        return self.refs[branch][1] if branch in self.refs else None

    def rows(self, snapshot_id: int | None) -> Bag:
        """Return the rows of a snapshot, also of an expired one; no rows for None."""
        if snapshot_id is None:
            return Counter()
        return (self.snapshots.get(snapshot_id) or self.expired[snapshot_id]).rows


@dataclass(slots=True, kw_only=True)
class Landing:
    """The changes that one commit really made; effects consume them.

    Attributes:
        new: Snapshots that the commit added, in order, as JSON.
        gone: Ids of the snapshots that the commit removed.
        idle: Number of writes of the operation that added no snapshot.
        rows: Returns the rows that a snapshot really has.
        rows_in: Returns the rows of a snapshot that are really in data files with these paths.
        choices: For each write in turn that fits both the next snapshot and no snapshot: True if it made the snapshot. True where the list is too short.
        chosen: Number of choices that were used.
    """

    new: list[Mapping[str, Any]]
    gone: set[int]
    idle: int
    rows: Callable[[Mapping[str, Any]], Bag]
    rows_in: Callable[[int, Collection[str]], Bag]
    choices: list[bool] = field(default_factory=list)
    chosen: int = 0

    def is_next(self, rows: Bag) -> bool:
        """Return True if the next new snapshot has these rows."""
        return bool(self.new) and self.rows(self.new[0]) == rows

    def choose(self) -> bool:
        """Return True if the current write is taken to have made the next snapshot."""
        if self.chosen == len(self.choices):
            self.choices.append(True)
        self.chosen += 1
        return self.choices[self.chosen - 1]

    def take(self) -> Mapping[str, Any]:
        """Remove the next new snapshot and return it."""
        must(self.new, "the commit lacks a snapshot that the operation makes")
        return self.new.pop(0)


class Effect(Protocol):
    """The expected change of an operation on the model of a table."""

    @property
    def makes_snapshot(self) -> bool:
        """True if the operation adds a snapshot unless it has nothing to do."""

    def apply(self, state: State, landing: Landing) -> None:
        """Change the state, and consume from the landing the snapshots that the operation made."""


def state_after(effects: Sequence[Effect], state: State, brought: Callable[[list[bool]], Landing], check: Callable[[State], None]) -> State:
    """Return the state after the effects of one commit, which must explain every change that the commit made.

    A snapshot that changes no row may belong to one of several writes; only the later snapshots show which. Each possibility is tried until all fits.

    Args:
        effects: The effects of the operation, in order.
        state: The state before.
        brought: Returns the changes of the commit, for a list of choices.
        check: Checks the state afterwards.

    Raises:
        BrokenInvariantError: No possibility fits; the error is that of the first one.
    """
    choices: list[bool] = []
    first: BrokenInvariantError | None = None
    while True:
        changed, landing = state.copy(), brought(choices)
        try:
            for effect in effects:
                effect.apply(changed, landing)
            must(not (landing.new or landing.gone or landing.idle), f"the commit has changes that are not of the operation: {landing}")
            check(changed)
        except BrokenInvariantError as error:
            first = first or error
            while choices and not choices[-1]:
                choices.pop()
            if not choices:
                raise first from None
            choices[-1] = False
        else:
            return changed


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """The effect of a write: a snapshot on a branch with changed rows.

    Attributes:
        change: Returns the rows after the write from the rows before it.
        branch: The branch.
        may_be_idle: True if the write makes no snapshot where no row changes.
        staged: True if no branch is set to the snapshot.
        origin: The branch from which `branch` is created if it does not exist.
        replaces: True if the write stores the same rows in other files, so that the operation of its snapshot is `replace`; no other write has it, but that of
            None may.
        repeats: True if the operation makes any number of such snapshots, each in a commit of its own, as a compaction does.
    """

    change: Callable[[Bag], Bag]
    branch: str = "main"
    may_be_idle: bool = False
    staged: bool = False
    origin: str = ""
    replaces: bool | None = False
    repeats: bool = False

    @property
    def makes_snapshot(self) -> bool:
        return True

    def apply(self, state: State, landing: Landing) -> None:
        parent = state.head(self.branch if self.branch in state.refs else self.origin)
        before = state.rows(parent)
        after = self.change(before)
        if landing.idle and self.may_be_idle and after == before and not (landing.is_next(after) and landing.choose()):
            landing.idle -= 1
            return
        snapshot = landing.take()
        must(snapshot.get("parent-snapshot-id") == parent, f"the snapshot is not on the head of {self.branch}: {snapshot}, head {parent}")
        is_replace = snapshot["summary"]["operation"] == "replace"
        must(self.replaces in (None, is_replace), f"the snapshot is not of the operation's kind: {snapshot}")
        state.snapshots[snapshot["snapshot-id"]] = ModelSnapshot(parent_id=parent, rows=after)
        if not self.staged:
            state.refs[self.branch] = ("branch", snapshot["snapshot-id"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """The effect of replacing data files: a snapshot without the rows of the `removed` files, which must be in the branch, and with `added` rows."""

    removed: Collection[str]
    added: Bag
    branch: str = "main"

    @property
    def makes_snapshot(self) -> bool:
        return True

    def apply(self, state: State, landing: Landing) -> None:
        _replace_rows(state, landing, self.branch, _held(state, landing, self.branch, self.removed), self.added)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeOnReadDelete:
    """The effect of a merge-on-read delete: a snapshot with `added` rows and without the rows of one data file whose first value is in `keys`.

    The file must be in the branch.
    """

    path: str
    keys: Collection[Any]
    added: Bag
    branch: str = "main"

    @property
    def makes_snapshot(self) -> bool:
        return True

    def apply(self, state: State, landing: Landing) -> None:
        held = _held(state, landing, self.branch, {self.path})
        gone = Counter({row: count for row, count in held.items() if row[0] in self.keys})
        _replace_rows(state, landing, self.branch, gone, self.added)


def _held(state: State, landing: Landing, branch: str, paths: Collection[str]) -> Bag:
    """Return the rows that the branch has in these data files."""
    parent = state.head(branch)
    return landing.rows_in(parent, paths) if parent is not None else Counter()


def _replace_rows(state: State, landing: Landing, branch: str, gone: Bag, added: Bag) -> None:
    Rows(change=lambda before: before - gone + added, branch=branch).apply(state, landing)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refs:
    """The effect of an operation on branches and tags: `change` returns those that are created, moved or removed (None)."""

    change: Callable[[State], Mapping[str, tuple[str, int] | None]]

    @property
    def makes_snapshot(self) -> bool:
        return False

    def apply(self, state: State, landing: Landing) -> None:
        for name, ref in self.change(state).items():
            if ref is None:
                state.refs.pop(name, None)
            else:
                state.refs[name] = ref


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchOfEmptyTable:
    """The effect of creating a branch in an empty table: an empty snapshot or, if `main` has a snapshot by then, a branch at that snapshot."""

    branch: str

    @property
    def makes_snapshot(self) -> bool:
        return True

    def apply(self, state: State, landing: Landing) -> None:
        head = state.head("main")
        if head is None:
            Rows(change=lambda rows: rows, branch=self.branch).apply(state, landing)
        else:
            landing.idle -= 1
            state.refs[self.branch] = ("branch", head)


@dataclass(frozen=True, slots=True, kw_only=True)
class Properties:
    """The effect of setting table properties."""

    values: Mapping[str, str]

    @property
    def makes_snapshot(self) -> bool:
        return False

    def apply(self, state: State, landing: Landing) -> None:
        state.properties.update(self.values)


@dataclass(frozen=True, slots=True, kw_only=True)
class CherryPick:
    """The effect of a cherry-pick to `main`: a fast-forward if the parent of the snapshot is the head, else a new snapshot with its changes."""

    source: int

    @property
    def makes_snapshot(self) -> bool:
        return True

    def apply(self, state: State, landing: Landing) -> None:
        head, picked = state.head("main"), state.snapshots[self.source]
        if not landing.new:
            must(picked.parent_id == head, f"main was moved to {self.source}, whose parent is not its head {head}")
        if picked.parent_id == head:  # also where other writes of one transaction make snapshots
            landing.idle -= 1
            state.refs["main"] = ("branch", self.source)
            return
        snapshot, before = landing.take(), state.rows(picked.parent_id)
        must(snapshot.get("parent-snapshot-id") == head, f"the snapshot is not on the head of main: {snapshot}, head {head}")
        rows = state.rows(head) - (before - picked.rows) + (picked.rows - before)
        state.snapshots[snapshot["snapshot-id"]] = ModelSnapshot(parent_id=head, rows=rows)
        state.refs["main"] = ("branch", snapshot["snapshot-id"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiry:
    """The effect of expiring snapshots: snapshots that no branch or tag refers to may be removed; the snapshots `ids` must be."""

    ids: frozenset[int] = frozenset()

    @property
    def makes_snapshot(self) -> bool:
        return False

    def apply(self, state: State, landing: Landing) -> None:
        named = {snapshot_id for _, snapshot_id in state.refs.values()}
        must(not named & landing.gone, f"expired snapshots {named & landing.gone} that a branch or tag refers to")
        must(self.ids & state.snapshots.keys() <= landing.gone, f"the snapshots {self.ids} had to expire, but {landing.gone} did")
        for snapshot_id in landing.gone:
            state.expired[snapshot_id] = state.snapshots.pop(snapshot_id)
        landing.gone.clear()
