"""Batches of a stream over random histories: whatever the limits, restarts and expired snapshots, each appended file is in exactly one batch."""

import json
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

from icefloe import InMemoryCatalog
from icefloe.errors import InvalidInputError, ManifestFormatError, NoSuchSnapshotError
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.scan.micro_batches import MicroBatchPlanner
from icefloe.scan.scan_plan import NO_FILES, FileCounts
from icefloe.scan.stream_rules import NO_LIMITS, ReadLimits, StreamRules
from icefloe.scan.streaming_offset import START, StreamingOffset
from icefloe.spec.manifest.data_file import DataFile, FileFormat
from icefloe.spec.manifest_list.manifest_list_writer import write_manifest_list
from icefloe.spec.metadata.snapshot import Summary
from icefloe.spec.metadata.snapshot_manifests import read_manifests
from icefloe.table import Table

APPENDS = StreamRules()
SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string())])


def new_table(name: str = "db.t", **properties: str) -> Table:
    catalog = InMemoryCatalog(f"streams-{random.random()}")
    catalog.create_namespace("db")
    return catalog.create_table(name, SCHEMA, properties=properties)


def planner(table: Table, rules: StreamRules = APPENDS, branch: str = "main", **more: Any) -> MicroBatchPlanner:
    table.refresh()
    head = table.metadata.snapshot_by_id(table.metadata.refs[branch].snapshot_id) if branch in table.metadata.refs else None
    return MicroBatchPlanner(table_name="db.t", metadata=table.metadata, head=head, rules=rules, read=table.io.read, **more)


def tasks(plan: Any) -> list[FileScanTask]:
    return [task for part in plan.parts for task in part.tasks()]


def paths(plan: Any) -> list[str]:
    return [task.file.file_path for task in tasks(plan)]


def reread(offset: StreamingOffset) -> StreamingOffset:
    """Return the offset as a restarted query reads it from its checkpoint."""
    return StreamingOffset.from_json(offset.json, "db.t")


def read_all(
    table: Table, start: StreamingOffset = START, rules: StreamRules = APPENDS, limits: ReadLimits = NO_LIMITS, **more: Any
) -> list[list[str]]:
    batches = []
    while True:
        plans = planner(table, rules, **more)
        end = reread(plans.next_offset(start, limits))
        if end == start:
            return batches
        batches.append(paths(plans.plan(start, end, table.schema())))
        start = end


def file(table: Table, number: int, rows: int = 10) -> DataFile:
    return DataFile(
        file_path=f"{table.location()}/data/{number}.parquet",
        file_format=FileFormat.PARQUET,
        partition=(),
        record_count=rows,
        file_size_in_bytes=100 * rows,
        spec_id=0,
    )


def append(table: Table, *files: DataFile, merges: bool = False, branch: str = "main") -> int:
    update = table.update_snapshot(branch=branch)
    change = update.merge_append() if merges else update.fast_append()
    for added in files:
        change.append_file(added)
    change.commit()
    return int(table.refresh().metadata.refs[branch].snapshot_id)


@dataclass
class Writer:
    """A table, its live files, and the files that a stream must deliver, in the order of their commits."""

    table: Table
    chance: random.Random
    live: dict[str, DataFile] = field(default_factory=dict)
    added: list[str] = field(default_factory=list)
    number: int = 0

    def new_files(self) -> list[DataFile]:
        files = [file(self.table, self.number + place, self.chance.randint(1, 30)) for place in range(self.chance.randint(1, 5))]
        self.number += len(files)
        return files

    def append(self) -> None:
        files = self.new_files()
        append(self.table, *files, merges=self.chance.random() < 0.5)
        self.live |= {one.file_path: one for one in files}
        self.added += [one.file_path for one in files]

    def overwrite(self) -> None:
        files, gone = self.new_files(), self.some_live()
        with self.table.update_snapshot().overwrite() as change:
            self.begin(change)
            for one in files:
                change.add_file(one)
            for one in gone:
                change.delete_file(one)
        self._forget(gone)
        self.live |= {one.file_path: one for one in files}
        self.added += [one.file_path for one in files]

    def delete(self) -> None:
        gone = self.some_live()
        if gone:
            with self.table.update_snapshot().delete_files() as change:
                for one in gone:
                    change.delete_file(one)
            self._forget(gone)

    def compact(self) -> None:
        gone = self.some_live()
        if gone:
            made = file(self.table, self.number, sum(one.record_count for one in gone))
            self.number += 1
            with self.table.update_snapshot().rewrite_files() as change:
                self.begin(change)
                change.add_file(made)
                for one in gone:
                    change.delete_file(one)
            self._forget(gone)
            self.live[made.file_path] = made

    def rewrite_manifests(self) -> None:
        if self.live:
            self.table.update_snapshot().rewrite_manifests().commit()

    def begin(self, change: Any) -> None:
        """Name the snapshot that the change is based on: older ones may be expired."""
        if self.table.metadata.current_snapshot_id is not None:
            change.validate_from_snapshot(self.table.metadata.current_snapshot_id)

    def some_live(self) -> list[DataFile]:
        names = sorted(self.live)
        return [self.live[name] for name in self.chance.sample(names, min(len(names), self.chance.randint(1, 3)))]

    def _forget(self, gone: list[DataFile]) -> None:
        for one in gone:
            del self.live[one.file_path]


STEPS: list[Callable[[Writer], None]] = [Writer.append] * 4 + [Writer.overwrite, Writer.delete, Writer.compact, Writer.rewrite_manifests]
RULES = StreamRules(skips_deletes=True, reads_overwrites=True)


def check_history(seed: int) -> None:
    chance = random.Random(seed)
    writer = Writer(new_table(**{"commit.manifest.min-count-to-merge": "2"}), chance)
    for _ in range(chance.randint(0, 4)):
        chance.choice(STEPS)(writer)
    offset, expected, delivered = START, list[str](), list[str]()
    for _ in range(20):
        if chance.random() < 0.4:
            chance.choice(STEPS)(writer)
        limit = chance.choice(
            [NO_LIMITS, ReadLimits(files=chance.randint(1, 4)), ReadLimits(rows=chance.randint(1, 60)), ReadLimits(bytes=4000)]
        )
        plans = planner(writer.table, RULES)
        if offset is START:  # the stream begins with the rows that the table has at its first batch
            expected = list(writer.live)
            writer.added.clear()
        end = reread(plans.next_offset(offset, limit))
        if end == offset:
            continue
        plan = plans.plan(offset, end, writer.table.schema())
        check_limits(plan, limit)
        if chance.random() < 0.3:  # the query fails after the offset is in its checkpoint, while others commit
            chance.choice(STEPS)(writer)
            again = planner(writer.table, RULES).plan(offset, end, writer.table.schema())
            assert Counter(paths(again)) == Counter(paths(plan))
        delivered += paths(plan)
        offset = end
        if chance.random() < 0.5:
            expire_read(writer.table, offset)
    delivered += [path for batch in read_all(writer.table, offset, RULES) for path in batch]
    assert Counter(delivered) == Counter([*expected, *writer.added])


def check_limits(plan: Any, limit: ReadLimits) -> None:
    files = [task.file for task in tasks(plan)]
    if len(files) > 1:
        assert limit.files is None or len(files) <= limit.files
        assert limit.rows is None or sum(one.record_count for one in files) <= limit.rows
        assert limit.bytes is None or sum(one.file_size_in_bytes for one in files) <= limit.bytes


def expire_read(table: Table, offset: StreamingOffset) -> None:
    """Expire the snapshots that the stream no longer needs, as far as no branch refers to them."""
    ids = [snapshot.snapshot_id for snapshot in table.refresh().ancestors()]
    read = ids[ids.index(offset.snapshot_id) :] if offset.snapshot_id in ids else []
    gone = [one for one in read if one != table.metadata.current_snapshot_id and (offset.is_complete or one != offset.snapshot_id)]
    if gone:
        table.expire_snapshots(snapshot_ids=gone)


@pytest.mark.parametrize("first", [0, *(pytest.param(first, marks=pytest.mark.slow) for first in range(100, 1100, 50))])
def test_each_appended_file_is_in_exactly_one_batch_of_a_random_history(first: int) -> None:
    for seed in range(first, first + (8 if first == 0 else 50)):
        try:
            check_history(seed)
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise


def test_a_snapshot_is_divided_by_limits_and_its_parts_have_its_deletes() -> None:
    table = new_table(**{"format-version": "2", "write.delete.mode": "merge-on-read"})
    for number in range(4):
        table.append(pa.table({"id": range(10 * number, 10 * number + 10), "part": ["a"] * 10}, schema=SCHEMA))
    table.delete("id in (3, 13, 35)")
    table.append(pa.table({"id": [100], "part": ["b"]}, schema=SCHEMA))
    wanted = {task.file.file_path: {one.file_path for one in task.delete_files} for task in table.scan().plan_files()}
    seen: dict[str, set[str]] = {}
    offset, plans = START, planner(table)
    for _ in range(5):
        end = reread(plans.next_offset(offset, ReadLimits(rows=10)))
        assert json.loads(end.json)["version"] == (1 if end.is_complete else 2), "Java would skip the files that are left"
        batch = tasks(plans.plan(offset, end, table.schema()))
        assert len(batch) == 1
        assert end.begin == (None if offset is not START else replace(end, position=0, begin=None, is_complete=False))
        seen |= {task.file.file_path: {one.file_path for one in task.delete_files} for task in batch}
        offset = end
    assert offset.is_complete
    assert plans.next_offset(offset, NO_LIMITS) is offset
    assert seen == wanted
    assert sum(map(bool, seen.values())) == 3


def test_only_manifests_of_snapshots_in_the_batch_are_read() -> None:
    table = new_table()
    for number in range(6):
        append(table, file(table, number))
    offset = planner(table).next_offset(START)
    fifth = append(table, file(table, 10), file(table, 11))
    read: list[str] = []
    plans = replace(planner(table), read=lambda path: (read.append(path), table.io.read(path))[1])
    end = plans.next_offset(offset)
    assert read == [], "without limits the end of a batch is known from the metadata"
    assert sorted(paths(plans.plan(offset, end, table.schema()))) == sorted(file(table, number).file_path for number in (10, 11))
    snapshot = table.metadata.snapshot_by_id(fifth)
    assert snapshot is not None
    own = [one.manifest_path for one in read_manifests(snapshot, table.io.read) if one.added_snapshot_id == fifth]
    assert read == [snapshot.manifest_list, *own]


def test_snapshots_that_do_not_append_end_a_stream_after_what_is_before_them() -> None:
    table = new_table()
    first, second, third = (file(table, number) for number in range(3))
    append(table, first)
    offset = planner(table).next_offset(START)
    append(table, second)
    with table.update_snapshot().delete_files() as change:
        change.delete_file(second)
    plans = planner(table)
    middle = plans.next_offset(offset)
    assert paths(plans.plan(offset, middle, table.schema())) == [second.file_path]
    with pytest.raises(InvalidInputError, match="cannot process the delete snapshot") as raised:
        plans.next_offset(middle)
    assert "streaming-skip-delete-snapshots=true" in str(raised.value)
    skips = planner(table, StreamRules(skips_deletes=True))
    after = skips.next_offset(middle)
    assert after.is_complete
    assert paths(skips.plan(middle, after, table.schema())) == []
    with table.update_snapshot().overwrite() as overwrite:
        overwrite.add_file(third)
        overwrite.delete_file(first)
    with pytest.raises(InvalidInputError, match="cannot process the overwrite snapshot") as raised:
        planner(table).next_offset(after)
    assert "streaming-skip-overwrite-snapshots=true" in str(raised.value)
    assert "streaming-read-overwrite-snapshots=true" in str(raised.value)
    assert read_all(table, after, StreamRules(skips_overwrites=True)) == [[]]
    assert read_all(table, after, StreamRules(reads_overwrites=True)) == [[third.file_path]]


def test_a_stream_begins_with_the_first_snapshot_of_a_time() -> None:
    table = new_table()
    ids = [append(table, file(table, number)) for number in range(3)]
    times = {one: snapshot.timestamp_ms for one in ids if (snapshot := table.metadata.snapshot_by_id(one)) is not None}
    assert read_all(table, rules=StreamRules(from_timestamp_ms=times[ids[2]] + 1)) == []
    batches = read_all(table, rules=StreamRules(from_timestamp_ms=0), limits=ReadLimits(files=1))
    assert batches == [[file(table, number).file_path] for number in range(3)]
    table.expire_snapshots(snapshot_ids=ids[:1])
    warnings: list[str] = []
    plans = planner(table, StreamRules(from_timestamp_ms=0), warn=warnings.append)
    end = reread(plans.next_offset(START))
    append(table, file(table, 9))
    assert paths(planner(table).plan(START, end, table.schema())) == [file(table, 1).file_path, file(table, 2).file_path]
    assert "snapshots before it were expired" in warnings[0]


def test_missing_snapshots_are_named_and_a_stream_continues_by_option() -> None:
    table = new_table()
    ids = [append(table, file(table, number)) for number in range(2)]
    offset = planner(table).next_offset(START)
    ids += [append(table, file(table, number)) for number in range(2, 6)]
    behind = planner(table).next_offset(offset, ReadLimits(files=1))  # has read the snapshot of file 2
    table.expire_snapshots(snapshot_ids=ids[:3])
    assert [path for batch in read_all(table, behind) for path in batch] == [file(table, number).file_path for number in (3, 4, 5)]
    with pytest.raises(
        NoSuchSnapshotError, match=f"needs snapshot {ids[2]}, which was expired .* it has read up to snapshot {ids[1]} of .* UTC"
    ) as raised:
        planner(table).next_offset(offset)
    assert f"the oldest that remains is {ids[3]} of " in str(raised.value)
    assert "streaming-on-missing-snapshots=oldest" in str(raised.value)
    warnings: list[str] = []
    oldest = planner(table, StreamRules(on_missing="oldest"), warn=warnings.append)
    assert paths(oldest.plan(offset, oldest.next_offset(offset), table.schema())) == [file(table, number).file_path for number in (3, 4, 5)]
    assert "rows in between are lost" in warnings[0]
    newest = planner(table, StreamRules(on_missing="newest"))
    end = newest.next_offset(offset)
    assert paths(newest.plan(offset, end, table.schema())) == []
    assert end.snapshot_id == ids[-1]
    assert (end.position, end.is_complete) == (1, True), "Java, which reads on at the position, has read the only file too"
    append(table, file(table, 9))
    assert read_all(table, end) == [[file(table, 9).file_path]]


def test_the_end_of_a_snapshot_whose_summary_counts_nothing_is_counted_by_its_manifests() -> None:
    table = new_table()
    append(table, file(table, 0))
    append(table, file(table, 1), file(table, 2), merges=True)
    plans = planner(table)
    assert plans.head is not None
    bare = replace(plans, head=replace(plans.head, summary=Summary("append")))
    all_files = bare.next_offset(START)
    assert (all_files.position, all_files.is_complete) == (3, True)
    latest = bare.latest_offset()
    assert latest is not None
    assert latest.position == 2


def test_a_stream_ends_at_its_last_snapshot_also_where_that_is_expired_or_rolled_back() -> None:
    table = new_table()
    paths_of = [file(table, number).file_path for number in range(8)]
    ids = [append(table, file(table, 0))]
    offset = planner(table).next_offset(START)
    ids += [append(table, file(table, number)) for number in range(1, 4)]
    last = table.current_snapshot()
    ids.append(append(table, file(table, 4)))
    assert read_all(table, offset, last=last) == [paths_of[1:4]]
    assert read_all(table, last=last) == [paths_of[3::-1]], "the rows of the table when the query was started"
    assert planner(table, last=last).backlog(offset).counts.files == 3
    behind, complete = (planner(table, last=last).next_offset(offset, ReadLimits(files=count)) for count in (1, 3))
    assert planner(table, last=last).latest_offset() == complete
    table.expire_snapshots(snapshot_ids=ids[3:4])
    assert read_all(table, complete, last=last) == [], "newer snapshots are those of the next query"
    assert planner(table, last=last).latest_offset() is None
    with pytest.raises(NoSuchSnapshotError, match=f"needs snapshot {ids[3]}, which was expired"):
        read_all(table, behind, last=last)
    assert read_all(table, behind, StreamRules(on_missing="oldest"), last=last) == []
    assert read_all(table, complete) == [[paths_of[4]]]

    table.manage_snapshots().set_current_snapshot(ids[2]).commit()
    append(table, file(table, 5))
    assert read_all(table, behind, last=last) == [[paths_of[2]]], "the snapshot after a rollback is newer"
    assert read_all(table, behind) == [[paths_of[2], paths_of[5]]]


@pytest.mark.parametrize("version", ["1", "2"])
def test_the_files_of_skipped_snapshots_and_those_that_were_read_are_no_backlog(version: str) -> None:
    table = new_table(**{"format-version": version, "commit.manifest.min-count-to-merge": "2"})
    append(table, file(table, 0))
    offset = planner(table).next_offset(START)
    append(table, file(table, 1, 10), file(table, 2, 20), file(table, 3, 30), merges=True)
    writer = Writer(table, random.Random(1), {one.file_path: one for one in map(partial(file, table), (0, 1))})
    writer.number = 10
    writer.compact()
    writer.overwrite()
    skips = StreamRules(skips_overwrites=True)
    backlog = planner(table, skips).backlog(offset)
    assert (backlog.snapshots, backlog.counts) == (3, FileCounts(files=3, records=60, bytes=6000))
    assert planner(table).backlog(offset) == (2, backlog.counts), "the overwrite ends the stream"
    middle = planner(table, skips).next_offset(offset, ReadLimits(files=1))
    rest = Counter(path for batch in read_all(table, middle, skips) for path in batch)
    backlog = planner(table, skips).backlog(middle)
    assert (backlog.counts.files, backlog.counts.records) == (
        2,
        sum(10 * number for number in (1, 2, 3) if file(table, number).file_path in rest),
    )
    end = planner(table, skips).next_offset(middle)
    assert planner(table, skips).backlog(end) == (0, NO_FILES)


def test_the_rest_of_a_snapshot_that_is_gone_is_missing() -> None:
    table = new_table()
    first = append(table, file(table, 0), file(table, 1))
    offset = planner(table).next_offset(START, ReadLimits(files=1))
    append(table, file(table, 2))
    table.expire_snapshots(snapshot_ids=[first])
    with pytest.raises(NoSuchSnapshotError, match=f"needs snapshot {first}"):
        planner(table).next_offset(offset)
    assert read_all(table, offset, StreamRules(on_missing="oldest")) == [[file(table, 2).file_path]]
    # The end of a batch that was in the checkpoint when its snapshot was expired.
    with pytest.raises(NoSuchSnapshotError, match=f"needs snapshot {first}"):
        planner(table).plan(START, offset, table.schema())


def test_a_rollback_ends_a_stream_unless_deletes_are_skipped() -> None:
    table = new_table()
    kept = append(table, file(table, 0))
    append(table, file(table, 1))
    offset = planner(table).next_offset(START)
    taken_back = table.metadata.current_snapshot_id
    table.manage_snapshots().rollback_to_snapshot(kept).commit()
    skips = StreamRules(skips_deletes=True)
    with pytest.raises(InvalidInputError, match=f"has read snapshot {taken_back} .* which is no ancestor of the current snapshot {kept}"):
        planner(table).next_offset(offset)
    assert read_all(table, offset, skips) == [], "nothing is new, and the stream waits"
    append(table, file(table, 2))
    assert read_all(table, offset, skips) == [[file(table, 2).file_path]]
    assert taken_back is not None
    table.expire_snapshots(snapshot_ids=[taken_back])
    with pytest.raises(InvalidInputError, match="which is no ancestor"):
        planner(table).next_offset(offset)
    assert read_all(table, offset, skips) == [[file(table, 2).file_path]]


@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.parametrize("is_expired", [False, True])
def test_the_replacement_of_a_table_is_named_and_its_snapshots_are_read_on_request(version: str, is_expired: bool) -> None:
    catalog = InMemoryCatalog(f"streams-{random.random()}")
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", SCHEMA, properties={"format-version": version})
    uuid, last = table.metadata.table_uuid, append(table, file(table, 0))
    offset = planner(table).next_offset(START)
    time.sleep(0.002)  # by which snapshots of version 1 are ordered
    table = catalog.replace_table("db.t", SCHEMA)
    assert table.metadata.table_uuid == uuid
    assert planner(table).next_offset(offset) == offset, "the new table has no snapshot yet"
    first = append(table, file(table, 1))
    append(table, file(table, 2))
    if is_expired:
        table.expire_snapshots(snapshot_ids=[last])
    with pytest.raises(
        InvalidInputError, match=rf"snapshot {last} .*the table was replaced, .* begins with snapshot {first} of"
    ) as refused:
        planner(table).next_offset(offset)
    assert "rolled back" not in str(refused.value)
    assert "begin with a new checkpointLocation" in str(refused.value)
    assert read_all(table, offset, StreamRules(skips_deletes=True)) == [[file(table, 1).file_path, file(table, 2).file_path]]


def test_a_branch_is_read_as_its_own_history() -> None:
    table = new_table()
    append(table, file(table, 0))
    table.manage_snapshots().create_branch(table.metadata.current_snapshot_id or 0, "audit").commit()
    append(table, file(table, 1))
    plans = planner(table, branch="audit")
    offset = plans.next_offset(START)
    assert paths(plans.plan(START, offset, table.schema())) == [file(table, 0).file_path]
    append(table, file(table, 2), branch="audit")
    plans = planner(table, branch="audit")
    assert paths(plans.plan(offset, plans.next_offset(offset), table.schema())) == [file(table, 2).file_path]


def test_offsets_of_java_are_read_at_the_end_and_in_the_middle_of_a_snapshot() -> None:
    table = new_table()
    append(table, file(table, 0))
    second = append(table, file(table, 1), file(table, 2), file(table, 3))
    append(table, file(table, 4))

    def of_java(position: int) -> StreamingOffset:
        return StreamingOffset.from_json(
            json.dumps({"version": 1, "snapshot_id": second, "position": position, "scan_all_files": False}), "db.t"
        )

    assert read_all(table, of_java(3)) == [[file(table, 4).file_path]]
    assert [path for batch in read_all(table, of_java(1)) for path in batch] == [file(table, number).file_path for number in (2, 3, 4)]
    with pytest.raises(InvalidInputError, match="has the end of the first batch but not its begin"):
        planner(table).plan(START, of_java(3), table.schema())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        "{}",
        '{"version": 3, "snapshot_id": 1, "position": 0, "scan_all_files": false}',
        '{"version": 1, "snapshot_id": "1", "position": 0, "scan_all_files": false}',
        '{"version": 1, "snapshot_id": 1, "position": -1, "scan_all_files": false}',
        '{"version": 1, "snapshot_id": 99999999999999999999, "position": 0, "scan_all_files": false}',
        '{"version": 1, "snapshot_id": 1, "position": 0, "scan_all_files": false, "begin": {"snapshot_id": 1, "position": -5, "scan_all_files": true}}',
        '{"version": 1, "snapshot_id": 1, "position": 0, "scan_all_files": false, "begin": ' + '{"begin": ' * 5000 + "1" + "}" * 5001,
        "\ud800",
    ],
)
def test_an_offset_that_is_none_is_refused_with_the_next_step(text: str) -> None:
    with pytest.raises(InvalidInputError, match=r"the checkpoint of a stream of db\.t has an offset that cannot be read") as raised:
        StreamingOffset.from_json(text, "db.t")
    assert "new checkpointLocation" in str(raised.value)
    assert len(str(raised.value)) < 2000


def test_a_checkpoint_of_another_table_is_refused() -> None:
    table, other = new_table(), new_table()
    append(table, file(table, 0))
    append(other, file(other, 0))
    with pytest.raises(InvalidInputError, match=r"the checkpoint of the stream is of another table db\.t"):
        planner(other).next_offset(planner(table).next_offset(START))


def test_a_manifest_with_more_files_than_are_counted_is_refused_where_positions_depend_on_it() -> None:
    table = new_table()
    append(table, file(table, 0), file(table, 1))
    with pytest.raises(ManifestFormatError, match="status: 2 entries are ADDED, the manifest list counts 1"):
        counts_less(table).next_offset(START, ReadLimits(files=1))


def counts_less(table: Table) -> MicroBatchPlanner:
    """Return a planner for the table with a manifest list that counts one file less, and a summary without counts."""
    plans = planner(table)
    assert plans.head is not None
    manifests = [replace(one, added_files_count=(one.added_files_count or 0) - 1) for one in read_manifests(plans.head, table.io.read)]
    head = replace(plans.head, summary=Summary("append"))
    content = write_manifest_list(
        manifests, format_version=2, snapshot_id=head.snapshot_id, parent_snapshot_id=None, sequence_number=head.sequence_number
    )
    return replace(plans, head=head, read=lambda path: content if path == head.manifest_list else table.io.read(path))


def test_expired_snapshots_are_missing_although_a_tag_keeps_the_one_that_was_read() -> None:
    table = new_table()
    first = append(table, file(table, 0))
    offset = planner(table).next_offset(START)
    table.manage_snapshots().create_tag(first, "kept").commit()
    gone = append(table, file(table, 1))
    append(table, file(table, 2))
    table.expire_snapshots(snapshot_ids=[gone])
    for skips in (False, True):
        with pytest.raises(NoSuchSnapshotError, match=f"needs snapshot {gone}, which was expired"):
            planner(table, StreamRules(skips_deletes=skips)).next_offset(offset)
    assert read_all(table, offset, StreamRules(on_missing="oldest")) == [[file(table, 2).file_path]]
