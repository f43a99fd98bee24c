"""Expired snapshots and references, compared with a naive model that follows the text of the specification step by step."""

from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.repetitions import examples

from icefloe.errors import InvalidInputError
from icefloe.spec.metadata.new_table import new_table_metadata
from icefloe.spec.metadata.retention import Expired, Retention, select_expired
from icefloe.spec.metadata.snapshot import Snapshot
from icefloe.spec.metadata.snapshot_ref import SnapshotRef
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import LongType, NestedField

NOW = 1_000
FOREVER = 2**63 - 1
SCHEMA = Schema(NestedField(1, "id", LongType()))


def table(snapshots: list[Snapshot], refs: dict[str, SnapshotRef], **properties: Any) -> TableMetadata:
    made = new_table_metadata(location="t", schema=SCHEMA, table_uuid="6a1c", now_ms=0)
    main = refs.get("main")
    return replace(
        made,
        snapshots=snapshots,
        refs=refs,
        current_snapshot_id=main.snapshot_id if main else None,
        properties={f"history.expire.{name.replace('_', '-')}": str(value) for name, value in properties.items()},
    )


def snapshot(snapshot_id: int, timestamp_ms: int, parent: int | None = None) -> Snapshot:
    return Snapshot(
        snapshot_id=snapshot_id,
        timestamp_ms=timestamp_ms,
        parent_snapshot_id=parent,
        sequence_number=snapshot_id,
        manifest_list=f"l{snapshot_id}",
    )


@dataclass
class Model:
    """The five steps of the policy over plain dictionaries, and age for snapshots that no reference leads to."""

    times: dict[int, int]
    parents: dict[int, int | None]

    def line(self, snapshot_id: int | None) -> list[int]:
        found: list[int] = []
        while snapshot_id in self.times:
            found.append(snapshot_id)
            snapshot_id = self.parents[snapshot_id]
        return found

    def kept(self, refs: dict[str, SnapshotRef], oldest: int, least: int, max_ref_age: int) -> tuple[set[str], set[int]]:
        names = set()
        for name, ref in refs.items():
            limit = max_ref_age if ref.max_ref_age_ms is None else ref.max_ref_age_ms
            if name == "main" or not NOW - self.times[ref.snapshot_id] > limit:
                names.add(name)
        retained = {refs[name].snapshot_id for name in names}
        led_to = set(retained)
        for ref in (refs[name] for name in names if refs[name].type == "branch"):
            cut = oldest if ref.max_snapshot_age_ms is None else NOW - ref.max_snapshot_age_ms
            first = least if ref.min_snapshots_to_keep is None else ref.min_snapshots_to_keep
            line = self.line(ref.snapshot_id)
            led_to |= set(line)
            going = [self.times[one] < cut and place >= first for place, one in enumerate(line)]
            retained |= set(line[: going.index(True)] if True in going else line)
        retained |= {one for one, time in self.times.items() if one not in led_to and time >= oldest}
        return names, retained


AGES = st.one_of(st.none(), st.integers(1, 1_200))
COUNTS = st.one_of(st.none(), st.integers(1, 6))


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Snapshot], dict[str, SnapshotRef]]:
    """Return trees whose times may go backwards and whose roots may have expired parents."""
    snapshots: list[Snapshot] = []
    for snapshot_id in range(1, draw(st.integers(1, 12)) + 1):
        parent = draw(
            st.one_of(st.none(), st.just(99), st.integers(max(1, snapshot_id - 3), snapshot_id - 1) if snapshot_id > 1 else st.none())
        )
        snapshots.append(snapshot(snapshot_id, draw(st.integers(0, NOW)), parent))
    ids = st.integers(1, len(snapshots))
    refs = {}
    for name in draw(st.lists(st.sampled_from(["main", "b1", "b2", "t1", "t2"]), unique=True)):
        if name.startswith("t"):
            refs[name] = SnapshotRef(snapshot_id=draw(ids), type="tag", max_ref_age_ms=draw(AGES))
        else:
            refs[name] = SnapshotRef(
                snapshot_id=draw(ids), min_snapshots_to_keep=draw(COUNTS), max_snapshot_age_ms=draw(AGES), max_ref_age_ms=draw(AGES)
            )
    return snapshots, refs


@settings(max_examples=examples(50))
@given(histories(), AGES, COUNTS, AGES, AGES, COUNTS)
def test_expired_snapshots_and_references_are_those_of_the_specification(
    history: Any, age: int | None, least: int | None, ref_age: int | None, older_than: int | None, retain_last: int | None
) -> None:
    snapshots, refs = history
    given_properties = {"max_snapshot_age_ms": age, "min_snapshots_to_keep": least, "max_ref_age_ms": ref_age}
    metadata = table(snapshots, refs, **{name: value for name, value in given_properties.items() if value is not None})
    model = Model({one.snapshot_id: one.timestamp_ms for one in snapshots}, {one.snapshot_id: one.parent_snapshot_id for one in snapshots})
    oldest = older_than if older_than is not None else NOW - (432_000_000 if age is None else age)
    names, kept = model.kept(refs, oldest, retain_last or least or 1, FOREVER if ref_age is None else ref_age)

    expiry = select_expired(metadata, Retention(older_than_ms=older_than, retain_last=retain_last), NOW)
    assert set(expiry.refs) == refs.keys() - names
    assert set(expiry.snapshot_ids) == model.times.keys() - kept


@settings(max_examples=examples(30))
@given(histories(), st.sets(st.integers(1, 14)))
def test_only_the_listed_snapshots_expire_and_referenced_ones_are_refused(history: Any, chosen: set[int]) -> None:
    snapshots, refs = history
    metadata = table(snapshots, refs, max_snapshot_age_ms=1)
    retention = Retention(snapshot_ids=tuple(chosen), by_policy=False)
    needed = {name for name, ref in refs.items() if ref.snapshot_id in chosen}
    if needed:
        with pytest.raises(InvalidInputError, match="still referenced") as refused:
            select_expired(metadata, retention, NOW)
        assert all(f" {name} names it" in str(refused.value) for name in needed)
    else:
        assert select_expired(metadata, retention, NOW) == Expired(snapshot_ids=tuple(sorted(chosen & set(range(1, len(snapshots) + 1)))))


def test_an_expired_reference_does_not_keep_a_listed_snapshot() -> None:
    metadata = table(
        [snapshot(1, 0), snapshot(2, NOW)],
        {"main": SnapshotRef(snapshot_id=2), "old": SnapshotRef(snapshot_id=1, type="tag", max_ref_age_ms=10)},
    )
    assert select_expired(metadata, Retention(snapshot_ids=(1,)), NOW) == Expired(refs=("old",), snapshot_ids=(1,))
    with pytest.raises(InvalidInputError, match="tag old"):
        select_expired(metadata, Retention(snapshot_ids=(1,), by_policy=False), NOW)


def test_main_is_kept_regardless_of_its_age() -> None:
    metadata = table([snapshot(1, 0)], {"main": SnapshotRef(snapshot_id=1, max_ref_age_ms=1)}, max_ref_age_ms=1, max_snapshot_age_ms=0)
    assert not select_expired(metadata, Retention(), 10**15)
