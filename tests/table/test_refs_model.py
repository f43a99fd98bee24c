"""Random methods of `ManageSnapshots` on random trees of snapshots, alone and with a concurrent writer, compared with a plain model."""

from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from tests.repetitions import examples

from icefloe.commit.attempt import Action
from icefloe.errors import CommitConflictError, InvalidInputError, NoSuchSnapshotError
from icefloe.operations.changes.manage_snapshots import ManageSnapshots
from icefloe.operations.pending_change import MutationContext
from icefloe.spec.metadata.metadata_updates import apply_updates
from icefloe.spec.metadata.new_table import new_table_metadata
from icefloe.spec.metadata.snapshot import Snapshot
from icefloe.spec.metadata.snapshot_ref import SnapshotRef
from icefloe.spec.metadata.snapshot_updates import AddSnapshot, SetSnapshotRef
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import LongType, NestedField

NAMES = ("main", "a", "b", "c")
Step = tuple[str, tuple[Any, ...]]


class RefusedError(Exception):
    """A refusal by the model."""


@dataclass
class Model:
    """Model of branches and tags as a dictionary, with the effect of each method in plain Python."""

    parents: dict[int, int | None]
    refs: dict[str, SnapshotRef] = field(default_factory=dict)
    touched: set[str] = field(default_factory=set)  # the refs on which the last method is based

    def line(self, snapshot_id: int | None) -> list[int]:
        return [] if snapshot_id is None else [snapshot_id, *self.line(self.parents[snapshot_id])]

    def source(self, source: int | str | None) -> int:
        source = "main" if source is None else source
        if isinstance(source, str):
            need(source in self.refs)
            return self.refs[source].snapshot_id
        need(source in self.parents)
        return source

    def ref(self, name: str, kind: str | None = None) -> SnapshotRef:
        need(name in self.refs and kind in (None, self.refs[name].type))
        return self.refs[name]

    def put(self, name: str, ref: SnapshotRef, *based_on: object) -> None:
        self.touched = {name, *(other for other in based_on if isinstance(other, str))}
        self.refs = {**self.refs, name: ref}

    def create_branch(self, source: int | str | None, name: str, ref_age: int | None, age: int | None, keep: int | None) -> None:
        need(name not in self.refs and all(value is None or value > 0 for value in (ref_age, age, keep)))
        at = self.source(source)
        self.put(name, SnapshotRef(snapshot_id=at, max_ref_age_ms=ref_age, max_snapshot_age_ms=age, min_snapshots_to_keep=keep))

    def create_tag(self, source: int | str | None, name: str, ref_age: int | None) -> None:
        at = self.source(source)
        need(name not in self.refs and name != "main" and (ref_age is None or ref_age > 0))
        self.put(name, SnapshotRef(snapshot_id=at, type="tag", max_ref_age_ms=ref_age))

    def remove_branch(self, name: str) -> None:
        need(name != "main")
        self.ref(name, "branch")
        self.touched, self.refs = {name}, {other: ref for other, ref in self.refs.items() if other != name}

    def remove_tag(self, name: str) -> None:
        self.ref(name, "tag")
        self.touched, self.refs = {name}, {other: ref for other, ref in self.refs.items() if other != name}

    def rename_branch(self, name: str, new: str) -> None:
        ref = self.ref(name, "branch")
        need(name != "main" and new not in self.refs)
        self.remove_branch(name)
        self.put(new, ref, name)

    def replace_branch(self, name: str, source: int | str) -> None:
        at = self.source(source)
        if (name not in self.refs and isinstance(source, str)) or (name not in self.refs and name == "main"):
            self.put(name, SnapshotRef(snapshot_id=at))
        else:
            self.put(name, replace(self.ref(name, "branch"), snapshot_id=at), source)

    def replace_tag(self, name: str, source: int | str) -> None:
        at = self.source(source)
        self.put(name, replace(self.ref(name, "tag"), snapshot_id=at), source)

    def fast_forward(self, name: str, source: int | str) -> None:
        if name in self.refs:
            need(self.ref(name, "branch").snapshot_id in self.line(self.source(source)))
        self.replace_branch(name, source)

    def rollback_to_snapshot(self, source: int | str, name: str) -> None:
        at = self.source(source)
        ref = self.ref(name, "branch")
        need(at in self.line(ref.snapshot_id))
        self.put(name, replace(ref, snapshot_id=at))

    def rollback_to_timestamp(self, timestamp_ms: int, name: str) -> None:
        older = [found for found in self.line(self.ref(name, "branch").snapshot_id) if found * 10 < timestamp_ms]
        need(bool(older))
        self.rollback_to_snapshot(max(older), name)

    def set_current_snapshot(self, at: int | None, source: str | None, name: str) -> None:
        need((at is None) != (source is None))
        found = self.source(source if at is None else at)
        ref = self.refs.get(name) if name == "main" else self.ref(name, "branch")
        self.put(name, replace(ref or SnapshotRef(snapshot_id=found), snapshot_id=found), source)

    def _keep(self, name: str, kind: str | None, **rule: int | None) -> None:
        ref = self.ref(name)
        (value,) = rule.values()
        need(value is None or (value > 0 and kind in (None, ref.type)))
        self.put(name, replace(ref, **rule))  # type: ignore[arg-type]
        self.touched = set()

    def set_min_snapshots_to_keep(self, name: str, value: int | None) -> None:
        self._keep(name, "branch", min_snapshots_to_keep=value)

    def set_max_snapshot_age_ms(self, name: str, value: int | None) -> None:
        self._keep(name, "branch", max_snapshot_age_ms=value)

    def set_max_ref_age_ms(self, name: str, value: int | None) -> None:
        self._keep(name, None, max_ref_age_ms=value)


def need(right: bool) -> None:
    if not right:
        raise RefusedError


@dataclass
class Store:
    """A table that is only metadata; commits are applied to its current metadata."""

    metadata: TableMetadata

    def manage(self) -> ManageSnapshots:
        handle: Any = SimpleNamespace(clock=SimpleNamespace(now_ms=lambda: 0), io=SimpleNamespace(read=None), ids=None, table_name="t")
        return ManageSnapshots(MutationContext(handle=handle, metadata=self.metadata), self.commit)

    def commit(self, action: Action) -> None:
        attempt = action.attempt(self.metadata, number=0, now_ms=0, read=lambda _: b"")
        if attempt is not None:
            for requirement in attempt.requirements:
                requirement.check(self.metadata)
            self.metadata = apply_updates(self.metadata, attempt.updates, 1_000)


def start(parents: dict[int, int | None], refs: dict[str, SnapshotRef]) -> tuple[Store, Model]:
    """Return a store and its model; snapshot n was committed at 10 n ms, and its parent is an earlier one or none."""
    metadata = new_table_metadata(
        location="t", schema=Schema(NestedField(1, "id", LongType())), format_version=2, table_uuid="6a", now_ms=0
    )
    for number, parent in parents.items():
        snapshot = Snapshot(
            snapshot_id=number, parent_snapshot_id=parent, sequence_number=number, timestamp_ms=10 * number, manifest_list="m"
        )
        metadata = apply_updates(metadata, [AddSnapshot(snapshot)], 1_000)
    here = {name: replace(ref, snapshot_id=min(ref.snapshot_id, len(parents))) for name, ref in refs.items()}
    metadata = apply_updates(metadata, [SetSnapshotRef(name, ref) for name, ref in here.items()], 1_000)
    model = Model(parents, here)
    return Store(metadata), model


names, ages = st.sampled_from(NAMES), st.one_of(st.none(), st.integers(0, 3))
ids = st.integers(1, 7)
sources = st.one_of(ids, names)
VERBS: dict[str, tuple[st.SearchStrategy[Any], ...]] = {
    "create_branch": (st.one_of(st.none(), sources), names, ages, ages, ages),
    "create_tag": (st.one_of(st.none(), sources), names, ages),
    "remove_branch": (names,),
    "remove_tag": (names,),
    "rename_branch": (names, names),
    "replace_branch": (names, sources),
    "replace_tag": (names, sources),
    "fast_forward": (names, sources),
    "set_min_snapshots_to_keep": (names, ages),
    "set_max_snapshot_age_ms": (names, ages),
    "set_max_ref_age_ms": (names, ages),
    "set_current_snapshot": (st.one_of(st.none(), ids), st.one_of(st.none(), names), names),
    "rollback_to_snapshot": (sources, names),
    "rollback_to_timestamp": (st.integers(0, 80), names),
}
steps = st.sampled_from(sorted(VERBS)).flatmap(lambda verb: st.tuples(st.just(verb), st.tuples(*VERBS[verb])))


@st.composite
def trees(drawn: st.DrawFn) -> dict[int, int | None]:
    return {number: drawn(st.sampled_from([None, *range(1, number)][-4:])) for number in range(1, drawn(st.integers(3, 7)) + 1)}


branches, tags = (ids.map(lambda at, kind=kind: SnapshotRef(snapshot_id=at, type=kind)) for kind in ("branch", "tag"))
refs_at_first = st.fixed_dictionaries({"main": branches}, optional={"a": branches, "b": st.one_of(branches, tags), "c": tags})


def do(target: Any, step: Step) -> bool:
    """Call the method; return whether it was accepted."""
    try:
        getattr(target, step[0])(*step[1])
    except (RefusedError, InvalidInputError, NoSuchSnapshotError):
        return False
    return True


def check(store: Store, model: Model) -> None:
    assert dict(store.metadata.refs) == model.refs
    assert store.metadata.current_snapshot_id == (model.refs["main"].snapshot_id if "main" in model.refs else None)
    assert {snapshot.snapshot_id for snapshot in store.metadata.snapshots} == set(model.parents)


# In a table without a branch main, `create_branch` without a source writes an empty snapshot, which `test_refs.py` tests.
def is_plain(step: Step, model: Model) -> bool:
    return "main" in model.refs or step[0] != "create_branch" or step[1][0] is not None


@settings(max_examples=examples(100))
@given(trees(), st.lists(steps, max_size=12), st.one_of(st.just({}), refs_at_first), st.integers(1, 4))
def test_every_method_has_the_effect_of_the_model_or_both_refuse_it(
    parents: dict[int, int | None], steps: list[Step], refs: dict[str, SnapshotRef], at_once: int
) -> None:
    store, model = start(parents, refs)
    for first in range(0, len(steps), at_once):
        manage = store.manage()
        for step in steps[first : first + at_once]:
            if is_plain(step, model):
                assert do(manage, step) == do(model, step), step
        manage.commit()
        check(store, model)


def fixed(step: Step, seen: Model) -> Step:
    """Return the step as the transaction keeps it: a new branch or tag is at the snapshot at which its source was."""
    verb, given = step
    if verb.startswith("create_"):
        return verb, (seen.source(given[0]), *given[1:])
    if verb in ("replace_branch", "fast_forward") and given[0] not in seen.refs and isinstance(given[1], str):
        return "create_branch", (seen.source(given[1]), given[0], None, None, None)
    return step


def replayed(model: Model, taken: list[tuple[Step, Model]]) -> Model | None:
    """Apply the steps to a newer table; return None where one of the refs on which they are based has changed."""
    working = replace(model)
    for step, before in taken:
        tried = replace(before)
        assert do(tried, step)
        for name in tried.touched:
            was, now = before.refs.get(name), working.refs.get(name)
            if (was and (was.snapshot_id, was.type)) != (now and (now.snapshot_id, now.type)):
                return None
        if not do(working, step):
            return None
    return working


def make(manage: ManageSnapshots, steps: list[Step], model: Model) -> list[tuple[Step, Model]]:
    """Run the steps; return the accepted ones, each with the model before it, also those that change nothing: they may on a newer table."""
    taken = []
    for step in steps:
        seen = replace(model)
        if do(manage, step):
            assert do(model, step)
            taken.append((fixed(step, seen), seen))
    return taken


@settings(max_examples=examples(100))
@given(trees(), refs_at_first, st.lists(steps, min_size=1, max_size=5), st.lists(steps, min_size=1, max_size=5))
def test_a_change_beside_a_concurrent_writer_is_retried_or_conflicts(
    parents: dict[int, int | None], refs: dict[str, SnapshotRef], own_steps: list[Step], other_steps: list[Step]
) -> None:
    store, model = start(parents, refs)
    mine, my_model = store.manage(), replace(model)
    taken = make(mine, own_steps, my_model)
    other = store.manage()
    make(other, other_steps, model)
    other.commit()
    expected = replayed(model, taken)
    event(f"{len(taken)} kept, {'conflict' if expected is None else 'made again'}")
    if expected is None:
        with pytest.raises((CommitConflictError, InvalidInputError, NoSuchSnapshotError)):
            mine.commit()
    else:
        mine.commit()
    check(store, expected or model)
