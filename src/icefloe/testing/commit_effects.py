"""What operations do to a table, as the plain model of commits sees it: snapshots of rows, refs that move, properties, expiry.

Each effect changes a `State`, and takes from a `Landing` what a swap really brought. Who tells the model of swaps is `commit_model.py`.
Spec: Snapshots; Snapshot References; Snapshot Retention Policy.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

Bag = Counter[tuple[Any, ...]]


class BrokenInvariantError(AssertionError):
    """What must hold of commits does not."""


def must(holds: object, what: str) -> None:
    """Raises `BrokenInvariantError` with these words unless it holds."""
    if not holds:
        raise BrokenInvariantError(what)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSnapshot:
    """A snapshot as it must be: its parent, and the rows it holds as a multiset."""

    parent_id: int | None
    rows: Bag


@dataclass(slots=True, kw_only=True)
class State:
    """The table as it must be. `refs` are branches and tags by name: the kind, and the snapshot. `expired` are snapshots that are gone."""

    snapshots: dict[int, ModelSnapshot] = field(default_factory=dict)
    expired: dict[int, ModelSnapshot] = field(default_factory=dict)
    refs: dict[str, tuple[str, int]] = field(default_factory=dict)
    properties: dict[str, str] = field(default_factory=dict)

    def copy(self) -> "State":
        """The same, to be changed."""
        return State(snapshots=dict(self.snapshots), expired=dict(self.expired), refs=dict(self.refs), properties=dict(self.properties))

    def head(self, branch: str) -> int | None:
        """The snapshot of a branch; None where it has none yet."""
        return self.refs[branch][1] if branch in self.refs else None

    def rows(self, snapshot_id: int | None) -> Bag:
        """The rows of a snapshot, also of one that is gone; none of None."""
        if snapshot_id is None:
            return Counter()
        return (self.snapshots.get(snapshot_id) or self.expired[snapshot_id]).rows


@dataclass(slots=True, kw_only=True)
class Landing:
    """What a swap brought: snapshots that were not there, in order, as JSON; those that are gone; and how many writes of the operation made none.

    `rows` are those that a snapshot really holds; `rows_in` those of a snapshot that really lie in data files of these paths. `choices` say of each write in
    turn that made the next snapshot or none, both of which fit, whether it made it; a write they do not reach did.
    """

    new: list[Mapping[str, Any]]
    gone: set[int]
    idle: int
    rows: Callable[[Mapping[str, Any]], Bag]
    rows_in: Callable[[int, Collection[str]], Bag]
    choices: list[bool] = field(default_factory=list)
    chosen: int = 0  # how many choices were asked for

    def is_next(self, rows: Bag) -> bool:
        """Whether the next new snapshot holds these rows."""
        return bool(self.new) and self.rows(self.new[0]) == rows

    def choose(self) -> bool:
        """Whether the write in question made the next snapshot."""
        if self.chosen == len(self.choices):
            self.choices.append(True)
        self.chosen += 1
        return self.choices[self.chosen - 1]

    def take(self) -> Mapping[str, Any]:
        """The next new snapshot."""
        must(self.new, "the commit lacks a snapshot that the operation makes")
        return self.new.pop(0)


class Effect(Protocol):
    """What an operation does to a table, as the model sees it."""

    @property
    def makes_snapshot(self) -> bool:
        """Whether it adds a snapshot, where it has something to do."""

    def apply(self, state: State, landing: Landing) -> None:
        """Changes the state, and takes the snapshots that it makes from the landing."""


def state_after(effects: Sequence[Effect], state: State, brought: Callable[[list[bool]], Landing], check: Callable[[State], None]) -> State:
    """The state that the effects make of `state`, with everything that a swap `brought` told for.

    A snapshot that changes no row may be one of several writes': the later ones show whose it was, so that each is tried until all fits and `check` holds.
    Raises `BrokenInvariantError`, the first one, where nothing fits.
    """
    choices: list[bool] = []
    first: BrokenInvariantError | None = None
    while True:
        made, landing = state.copy(), brought(choices)
        try:
            for effect in effects:
                effect.apply(made, landing)
            must(not (landing.new or landing.gone or landing.idle), f"what landed is not the operation: {landing}")
            check(made)
        except BrokenInvariantError as error:
            first = first or error
            while choices and not choices[-1]:
                choices.pop()
            if not choices:
                raise first from None
            choices[-1] = False
        else:
            return made


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """A snapshot on a branch whose rows are `change` of those before.

    `may_be_idle`: none where no row changes. `staged`: no branch moves to it. `origin`: where the branch is not there, it is made from this one.
    `replaces`: it puts the same rows into other files, so that its snapshot is a `replace`, which no other write's is.
    """

    change: Callable[[Bag], Bag]
    branch: str = "main"
    may_be_idle: bool = False
    staged: bool = False
    origin: str = ""
    replaces: bool = False

    @property
    def makes_snapshot(self) -> bool:
        return True

    def apply(self, state: State, landing: Landing) -> None:
        """See `Effect`."""
        parent = state.head(self.branch if self.branch in state.refs else self.origin)
        before = state.rows(parent)
        after = self.change(before)
        if landing.idle and self.may_be_idle and after == before and not (landing.is_next(after) and landing.choose()):
            landing.idle -= 1
            return
        found = landing.take()
        must(found.get("parent-snapshot-id") == parent, f"the snapshot is not on the head of {self.branch}: {found}, head {parent}")
        must((found["summary"]["operation"] == "replace") == self.replaces, f"the snapshot is not of the operation's kind: {found}")
        state.snapshots[found["snapshot-id"]] = ModelSnapshot(parent_id=parent, rows=after)
        if not self.staged:
            state.refs[self.branch] = ("branch", found["snapshot-id"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """A snapshot on a branch without the rows of these data files and with `added` ones. The files must be in it."""

    removed: Collection[str]
    added: Bag
    branch: str = "main"

    @property
    def makes_snapshot(self) -> bool:
        return True

    def apply(self, state: State, landing: Landing) -> None:
        """See `Effect`."""
        _swap_rows(state, landing, self.branch, _held(state, landing, self.branch, self.removed), self.added)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeOnReadDelete:
    """A snapshot on a branch with `added` rows, without those rows of one data file whose first value is one of `keys`. The file must be in it."""

    path: str
    keys: Collection[Any]
    added: Bag
    branch: str = "main"

    @property
    def makes_snapshot(self) -> bool:
        return True

    def apply(self, state: State, landing: Landing) -> None:
        """See `Effect`."""
        held = _held(state, landing, self.branch, {self.path})
        gone = Counter({row: count for row, count in held.items() if row[0] in self.keys})
        _swap_rows(state, landing, self.branch, gone, self.added)


def _held(state: State, landing: Landing, branch: str, paths: Collection[str]) -> Bag:
    """The rows that the branch has in these data files."""
    parent = state.head(branch)
    return landing.rows_in(parent, paths) if parent is not None else Counter()


def _swap_rows(state: State, landing: Landing, branch: str, gone: Bag, added: Bag) -> None:
    Rows(change=lambda before: before - gone + added, branch=branch).apply(state, landing)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refs:
    """Branches and tags that are made, moved or removed (None): `change` gives them from the state."""

    change: Callable[[State], Mapping[str, tuple[str, int] | None]]

    @property
    def makes_snapshot(self) -> bool:
        return False

    def apply(self, state: State, landing: Landing) -> None:  # noqa: ARG002
        """See `Effect`."""
        for name, ref in self.change(state).items():
            if ref is None:
                state.refs.pop(name, None)
            else:
                state.refs[name] = ref


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchOfEmptyTable:
    """A new branch where the writer saw no snapshot on `main`: an empty snapshot, or none where `main` has one by then, at which the branch is."""

    branch: str

    @property
    def makes_snapshot(self) -> bool:
        return True

    def apply(self, state: State, landing: Landing) -> None:
        """See `Effect`."""
        head = state.head("main")
        if head is None:
            Rows(change=lambda rows: rows, branch=self.branch).apply(state, landing)
        else:
            landing.idle -= 1
            state.refs[self.branch] = ("branch", head)


@dataclass(frozen=True, slots=True, kw_only=True)
class Properties:
    """Table properties set to these values."""

    values: Mapping[str, str]

    @property
    def makes_snapshot(self) -> bool:
        return False

    def apply(self, state: State, landing: Landing) -> None:  # noqa: ARG002
        """See `Effect`."""
        state.properties.update(self.values)


@dataclass(frozen=True, slots=True, kw_only=True)
class CherryPick:
    """The changes of another snapshot put on `main`: the branch moves to it where it stands on the head, else they become a snapshot of their own."""

    source: int

    @property
    def makes_snapshot(self) -> bool:
        return True

    def apply(self, state: State, landing: Landing) -> None:
        """See `Effect`."""
        head, picked = state.head("main"), state.snapshots[self.source]
        if not landing.new:
            must(picked.parent_id == head, f"main was moved to {self.source}, which does not stand on its head {head}")
        if picked.parent_id == head:  # also where other writes of one transaction make snapshots
            landing.idle -= 1
            state.refs["main"] = ("branch", self.source)
            return
        found, before = landing.take(), state.rows(picked.parent_id)
        must(found.get("parent-snapshot-id") == head, f"the snapshot is not on the head of main: {found}, head {head}")
        rows = state.rows(head) - (before - picked.rows) + (picked.rows - before)
        state.snapshots[found["snapshot-id"]] = ModelSnapshot(parent_id=head, rows=rows)
        state.refs["main"] = ("branch", found["snapshot-id"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiry:
    """Snapshots that no branch or tag names may go; `ids` must, where they are given."""

    ids: frozenset[int] = frozenset()

    @property
    def makes_snapshot(self) -> bool:
        return False

    def apply(self, state: State, landing: Landing) -> None:
        """See `Effect`."""
        named = {snapshot_id for _, snapshot_id in state.refs.values()}
        must(not named & landing.gone, f"expired snapshots {named & landing.gone} that a branch or tag names")
        must(self.ids & state.snapshots.keys() <= landing.gone, f"snapshots {self.ids} were to expire, and {landing.gone} did")
        for snapshot_id in landing.gone:
            state.expired[snapshot_id] = state.snapshots.pop(snapshot_id)
        landing.gone.clear()
