"""`ChangeFollower` on a long history: what a look for new snapshots costs, and where positions are."""

import datetime as dt
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from icefloe import InMemoryCatalog
from icefloe.operations.change_follower import ChangeFollower, FeedPosition
from icefloe.spec.metadata.raw_entries import RawEntries
from icefloe.spec.metadata.snapshot import SNAPSHOTS, Snapshot, Summary
from icefloe.spec.metadata.snapshot_ref import SnapshotRef
from icefloe.table import Table

BEGIN_MS = 1_700_000_000_000


def table_of(count: int) -> Table:
    """Return a table whose metadata has a line of so many snapshots, with ids from 1 on and a second between them. None of them was decoded yet."""
    catalog = InMemoryCatalog(f"follower{count}")
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", pa.schema([("id", pa.int64())]), properties={"format-version": "2"})
    line = [
        Snapshot(
            snapshot_id=number,
            parent_snapshot_id=number - 1 or None,
            sequence_number=number,
            timestamp_ms=BEGIN_MS + 1000 * number,
            manifest_list=f"/nowhere/{number}.avro",
            summary=Summary("append"),
            schema_id=0,
        )
        for number in range(1, count + 1)
    ]
    metadata = replace(
        table.metadata,
        snapshots=RawEntries.of(SNAPSHOTS, line).fresh(),
        current_snapshot_id=count,
        refs={"main": SnapshotRef(snapshot_id=count), "side": SnapshotRef(snapshot_id=count - 1)},
    )
    table._loaded = replace(table._loaded, metadata=metadata)
    return table


def follower_of(table: Table) -> ChangeFollower:
    return ChangeFollower(table=table, scan=table.changes(table.metadata.current_snapshot_id))


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list to which the position of each snapshot is added that is decoded."""
    places: list[int] = []
    real = RawEntries._decode

    def decode(self: Any, raw: Any, at: int) -> Any:
        places.append(at)
        return real(self, raw, at)

    monkeypatch.setattr(RawEntries, "_decode", decode)
    return places


def at(number: int) -> dt.datetime:
    return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=BEGIN_MS + 1000 * number)


@pytest.mark.parametrize("branch", ["main", "side"])
def test_a_look_for_new_snapshots_visits_these_alone(decoded: list[int], branch: str) -> None:
    count = 10_000
    table = table_of(count)
    follower, last = follower_of(table), count - (branch == "side")
    for behind in (0, 1, 3, 20):
        position = follower.head(branch)
        start = replace(table._loaded, metadata=replace(table.metadata, snapshots=table.metadata.snapshots.fresh()))
        table._loaded = start
        decoded.clear()
        begin = FeedPosition(table_uuid=position.table_uuid, branch=branch, snapshot_id=last - behind)
        assert [one.snapshot.snapshot_id for one in follower.changes_after(begin)] == list(range(last - behind + 1, last + 1))
        assert len(set(decoded)) <= behind + 2
        decoded.clear()
        assert [one.snapshot.snapshot_id for one in follower.changes_after(begin, position)] == list(range(last - behind + 1, last + 1))
        assert len(set(decoded)) <= behind + 2
    later = follower.position_at(last - 3, branch)
    assert list(follower.changes_after(later, follower.position_at(last - 5, branch))) == []
    assert [one.snapshot.snapshot_id for one in follower.changes_after(later, follower.position_at(last - 1, branch))] == [
        last - 2,
        last - 1,
    ]
    assert len(set(decoded)) < 50


def test_positions_before_within_and_after_a_history(decoded: list[int]) -> None:
    table = table_of(1000)
    follower = follower_of(table)
    decoded.clear()
    for start, snapshot_id in ((990, 990), (at(990), 990), (1000, 1000), (at(5000), 1000), ("side", 999)):
        position = follower.position_at(start)
        assert (position.snapshot_id, position.timestamp_ms) == (snapshot_id, BEGIN_MS + 1000 * snapshot_id)
    assert len(set(decoded)) < 30
    assert follower.position_at(None).snapshot_id is None
    assert follower.position_at(at(0)).snapshot_id is None
    table._loaded = replace(table._loaded, metadata=replace(table.metadata, snapshots=table.metadata.snapshots.without({1, 2})))
    assert (follower.position_at(None).snapshot_id, follower.position_at(None).timestamp_ms) == (2, None)
    assert follower.position_at(2).snapshot_id == 2
