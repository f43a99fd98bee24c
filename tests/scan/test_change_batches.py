"""Batches of a stream of changes: whole snapshots within the limits, whatever the restarts and expired snapshots between them."""

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from tests.scan.test_micro_batches import append, file, new_table, reread
from tests.table.change_model import History, new_history
from tests.table.change_model import append as append_rows

from icefloe.errors import InvalidInputError, NoSuchSnapshotError
from icefloe.operations.change_feed.snapshot_range import snapshots_in_range
from icefloe.scan.change_batches import BatchOfChanges, ChangeBatchPlanner
from icefloe.scan.stream_rules import NO_LIMITS, ReadLimits, StreamRules
from icefloe.scan.streaming_offset import START, StreamingOffset
from icefloe.spec.metadata.snapshot import Operation
from icefloe.table import Table

FROM_START = StreamRules(from_timestamp_ms=0)
STEPS = (
    "append",
    "delete",
    "delete_keys",
    "upsert",
    "upsert_stream",
    "overwrite",
    "compact",
    "change_spec",
    "rewrite_manifests",
    "write_to_branch",
)


def planner(table: Table, rules: StreamRules = FROM_START, start: int | None = None, **more: Any) -> ChangeBatchPlanner:
    table.refresh()
    metadata, head = table.metadata, table.metadata.current_snapshot()
    first = None if start is None or head is None else lambda: snapshots_in_range(metadata, "db.t", start, head.snapshot_id)
    return ChangeBatchPlanner(
        table_name="db.t", metadata=metadata, head=head, rules=rules, read=table.io.read, first_snapshots=first, **more
    )


def read_all(
    table: Table, offset: StreamingOffset = START, rules: StreamRules = FROM_START, start: int | None = None
) -> list[BatchOfChanges]:
    batches = []
    while True:
        plans = planner(table, rules, start)
        end = reread(plans.next_offset(offset))
        if end == offset:
            return batches
        batches.append(plans.changes(offset, end, table.schema()))
        offset = end


def ids(batch: BatchOfChanges) -> list[int]:
    return [snapshot.snapshot_id for snapshot in batch.snapshots]


def changing(table: Table) -> list[int]:
    """Return the ids of the snapshots that changed rows, oldest first."""
    line = table.refresh().ancestors()[::-1]
    return [snapshot.snapshot_id for snapshot in line if snapshot.operation != Operation.REPLACE]


def check_history(seed: int) -> None:
    chance = random.Random(seed)
    history = new_history(seed, chance.randint(0, 6))
    table, offset = history.table, START
    rules = chance.choice([StreamRules(), FROM_START])
    if rules is FROM_START and table.metadata.current_snapshot() is not None and table.ancestors()[-1].parent_snapshot_id is not None:
        rules = StreamRules()  # the history is not complete any more
    seen: list[int] = []
    read: list[str] = []
    first, rows_at_first = None, Counter[str]()
    for _ in range(20):
        if chance.random() < 0.4:
            step_without_gaps(history)
        limits = chance.choice(
            [NO_LIMITS, ReadLimits(files=chance.randint(1, 3)), ReadLimits(rows=chance.randint(1, 30)), ReadLimits(bytes=3000)]
        )
        plans = planner(table, rules)
        end = reread(plans.next_offset(offset, limits))
        if end == offset:
            continue
        batch = plans.changes(offset, end, table.schema())
        if chance.random() < 0.3:  # the query fails after the offset is in its checkpoint, while others commit
            step_without_gaps(history)
            again = planner(table, rules).changes(offset, end, table.schema())
            assert (ids(again), paths(again)) == (ids(batch), paths(batch))
        if batch.snapshot is not None:
            if first is None:
                first = batch.snapshot.snapshot_id
                rows_at_first = Counter(task.file.file_path for task in table.scan(snapshot_id=first).plan_files())
            assert batch.snapshot.snapshot_id == first
        read += paths(batch)
        seen += ids(batch)
        assert len(batch.snapshots) < 2 or limits == NO_LIMITS or within(batch, limits)
        offset = end
        if chance.random() < 0.5:
            expire_read(table, offset)
    for batch in read_all(table, offset, rules):
        seen += ids(batch)
        read += paths(batch)
    assert Counter(read) == rows_at_first
    line = [snapshot.snapshot_id for snapshot in table.refresh().ancestors()]
    left = [one for one in changing(table) if first is None or first not in line or line.index(one) < line.index(first)]
    assert seen[len(seen) - len(left) :] == left, history.steps
    assert len(set(seen)) == len(seen)


def paths(batch: BatchOfChanges) -> list[str]:
    return [] if batch.rows is None else [task.file.file_path for part in batch.rows.parts for task in part.tasks()]


def within(batch: BatchOfChanges, limits: ReadLimits) -> bool:
    summaries = [snapshot.summary for snapshot in batch.snapshots]
    files = sum(int(one.get(key, "0")) for one in summaries for key in ("added-data-files", "deleted-data-files", "added-delete-files"))
    rows = sum(int(one.get(key, "0")) for one in summaries for key in ("added-records", "deleted-records"))
    return (limits.files is None or files <= limits.files) and (limits.rows is None or rows <= limits.rows)


def step_without_gaps(history: History) -> None:
    """Apply a step that removes no snapshot from main."""
    history.step(*STEPS)


def expire_read(table: Table, offset: StreamingOffset) -> None:
    """Expire the snapshots before the one that the stream has read, which it needs for the rows that the next snapshot removes."""
    line = [snapshot.snapshot_id for snapshot in table.refresh().ancestors()]
    gone = line[line.index(offset.snapshot_id) + 1 :] if offset.snapshot_id in line else []
    if gone:
        table.expire_snapshots(snapshot_ids=gone)


@pytest.mark.parametrize("first", [0, *(pytest.param(first, marks=pytest.mark.slow) for first in range(100, 1100, 50))])
def test_the_changes_of_each_snapshot_are_in_exactly_one_batch_of_a_random_history(first: int) -> None:
    for seed in range(first, first + (8 if first == 0 else 50)):
        try:
            check_history(seed)
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise


def test_a_batch_has_whole_snapshots_and_only_the_first_rows_are_divided() -> None:
    table = new_table(**{"format-version": "2", "write.delete.mode": "merge-on-read"})
    for number in range(3):
        append(table, file(table, number))
    rows_at = table.metadata.current_snapshot_id
    plans, limit = planner(table, StreamRules()), ReadLimits(files=2)
    first = reread(plans.next_offset(START, limit))
    assert (first.snapshot_id, first.is_complete) == (rows_at, False)
    begin = paths(plans.changes(START, first, table.schema()))
    whole = append(table, *(file(table, number) for number in range(10, 14)))
    later = append(table, file(table, 20))
    plans = planner(table, StreamRules())
    second = reread(plans.next_offset(first, limit))
    batch = plans.changes(first, second, table.schema())
    assert sorted([*begin, *paths(batch)]) == [file(table, number).file_path for number in range(3)]
    assert (len(begin), ids(batch)) == (2, [])
    third = reread(plans.next_offset(second, limit))
    assert ids(plans.changes(second, third, table.schema())) == [whole], "more than the limit, and at least one"
    assert ids(plans.changes(third, plans.next_offset(third, limit), table.schema())) == [later]
    everything = plans.next_offset(first)
    batch = plans.changes(first, everything, table.schema())
    assert (len(paths(batch)), ids(batch)) == (1, [whole, later])
    assert plans.backlog(second).snapshots == 2
    assert plans.backlog(second).counts.files == 5


def test_a_snapshot_that_was_read_is_needed_only_for_the_rows_that_the_next_one_removed() -> None:
    for removes in (False, True):
        history = History.begin(7)
        table = history.table
        append_rows(history)
        append_rows(history)
        offset = planner(table, StreamRules()).next_offset(START)
        if removes:
            table.delete(f"id = {min(history.rows)}")
        else:
            append_rows(history)
        next_id = table.refresh().metadata.current_snapshot_id
        table.append(pa.table({"id": [77], "part": ["a"], "value": pa.array([1], pa.int32())}))
        table.refresh().expire_snapshots(snapshot_ids=[offset.snapshot_id])
        last_id = table.refresh().metadata.current_snapshot_id
        if not removes:
            assert [ids(batch) for batch in read_all(table, offset)] == [[next_id, last_id]]
            continue
        with pytest.raises(
            NoSuchSnapshotError, match=f"needs snapshot {offset.snapshot_id}, .*: it has the rows that snapshot {next_id} of .* UTC removed"
        ) as raised:
            planner(table).next_offset(offset)
        assert "streaming-on-missing-snapshots=oldest" in str(raised.value)
        warnings: list[str] = []
        continued = planner(table, StreamRules(on_missing="oldest"), warn=warnings.append)
        assert ids(continued.changes(offset, continued.next_offset(offset), table.schema())) == [last_id]
        assert f"continues after snapshot {next_id}" in warnings[0]


def test_expired_and_rolled_back_snapshots_are_the_errors_of_other_streams_and_no_option_hides_a_rollback() -> None:
    table = new_table()
    first = append(table, file(table, 0))
    offset = planner(table).next_offset(START)
    gone = append(table, file(table, 1))
    append(table, file(table, 2))
    ahead = planner(table).next_offset(offset)
    table.manage_snapshots().rollback_to_snapshot(gone).commit()
    with pytest.raises(InvalidInputError, match="which is no ancestor of the current snapshot") as raised:
        planner(table).next_offset(ahead)
    assert "begins with the current rows" in str(raised.value)
    assert "streaming-skip" not in str(raised.value)
    append(table, file(table, 3))
    table.expire_snapshots(snapshot_ids=[first, gone])
    with pytest.raises(NoSuchSnapshotError, match=f"needs snapshot {gone}, which was expired"):
        planner(table).next_offset(offset)
    other = new_table()
    append(other, file(other, 0))
    with pytest.raises(InvalidInputError, match=r"the checkpoint of the stream is of another table db\.t"):
        planner(other).next_offset(offset)


def test_changes_begin_after_a_snapshot_which_may_expire_once_they_have_begun() -> None:
    table = new_table()
    line = [append(table, file(table, number)) for number in range(3)]
    assert [ids(batch) for batch in read_all(table, start=line[0])] == [line[1:]]
    assert read_all(table, start=line[2]) == []
    end = reread(planner(table, start=line[0]).next_offset(START, ReadLimits(files=1)))
    table.expire_snapshots(snapshot_ids=line[:1])
    assert ids(planner(table, start=line[0]).changes(START, end, table.schema())) == line[1:2]
    assert [ids(batch) for batch in read_all(table, end, start=line[0])] == [line[2:]]
    table.expire_snapshots(snapshot_ids=line[1:2])
    with pytest.raises(NoSuchSnapshotError, match=f"has no snapshot {line[0]}"):
        planner(table, start=line[0]).next_offset(START)


def test_the_checkpoint_of_a_stream_of_rows_within_a_snapshot_is_refused() -> None:
    table = new_table()
    append(table, file(table, 0))
    whole = planner(table).next_offset(START)
    snapshot_id = append(table, file(table, 1), file(table, 2))
    within_snapshot = replace(whole, snapshot_id=snapshot_id, position=1, is_complete=False, begin=None)
    with pytest.raises(InvalidInputError, match="is that of a stream of rows, which ended within snapshot"):
        planner(table).next_offset(within_snapshot)
    assert [ids(batch) for batch in read_all(table, replace(whole, begin=None))] == [[snapshot_id]]
