"""Conflict rules compared with brute force: a random history of commits, a change planned on one of its snapshots, and a model that checks every newer file."""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.commit.made_up_table import BY_NAME, FLAT, MadeUpTable, equality_deletes, name_of, position_deletes, rows, vector
from tests.repetitions import examples

from icefloe.commit.append import Append
from icefloe.commit.attempt import Action
from icefloe.commit.composite_action import CompositeAction, StagedFiles
from icefloe.commit.conflicts import ConflictRules
from icefloe.commit.overwrite import Overwrite
from icefloe.commit.replace_partitions import ReplacePartitions
from icefloe.commit.rewrite_files import RewriteFiles
from icefloe.commit.row_delta import RowDelta
from icefloe.errors import CommitInvalidatedError, InvalidInputError
from icefloe.spec.expressions.predicate import AlwaysTrue, And, BooleanExpression, EqualTo, GreaterThan, LessThan, Or
from icefloe.spec.manifest.data_file import DataFile, FileContent
from icefloe.spec.manifest.file_rules import is_deletion_vector
from icefloe.spec.metadata.metadata_updates import apply_updates
from icefloe.spec.metadata.snapshot_ref import SnapshotRef
from icefloe.spec.metadata.snapshot_updates import RemoveSnapshots, SetSnapshotRef

LEAVES = st.sampled_from(
    [AlwaysTrue(), EqualTo("name", "a"), EqualTo("name", "b"), LessThan("id", 5), GreaterThan("id", 6), EqualTo("id", 3)]
)
FILTERS = LEAVES | st.builds(And, LEAVES, LEAVES) | st.builds(Or, LEAVES, LEAVES)
NAMES = st.sampled_from([None, "a", "b"])


def bounded(file: DataFile, low: int, high: int) -> DataFile:
    """Return the file with bounds of its ids."""
    count = file.record_count
    return replace(
        file,
        lower_bounds={1: struct.pack("<q", low)},
        upper_bounds={1: struct.pack("<q", high)},
        value_counts={1: count},
        null_value_counts={1: 0},
    )


def span(file: DataFile) -> tuple[int, int] | None:
    if file.lower_bounds is None or file.upper_bounds is None:
        return None
    return struct.unpack("<q", file.lower_bounds[1])[0], struct.unpack("<q", file.upper_bounds[1])[0]


def may_match(expression: BooleanExpression, file: DataFile) -> bool:
    """Return True if a row of the file, or a row that a delete file applies to, may match: by the bounds of its ids and the name of its partition."""
    if isinstance(expression, And):
        return all(may_match(term, file) for term in expression.terms)
    if isinstance(expression, Or):
        return any(may_match(term, file) for term in expression.terms)
    if isinstance(expression, AlwaysTrue):
        return True
    assert isinstance(expression, EqualTo | LessThan | GreaterThan)
    if expression.term == "name":
        return file.spec_id == FLAT or file.partition == (expression.literal,)
    ids = span(file)
    if ids is None:
        return True
    tests: dict[type, Callable[[int], bool]] = {
        EqualTo: lambda one: one == expression.literal,
        LessThan: lambda one: one < expression.literal,
        GreaterThan: lambda one: one > expression.literal,
    }
    return any(tests[type(expression)](one) for one in range(ids[0], ids[1] + 1))


def may_delete(delete: DataFile, file: DataFile) -> bool:
    if delete.content == FileContent.POSITION_DELETES and delete.referenced_data_file is not None:
        return delete.referenced_data_file == file.file_path
    if delete.content == FileContent.EQUALITY_DELETES and delete.spec_id == FLAT:
        return True
    return (delete.spec_id, delete.partition) == (file.spec_id, file.partition)


@dataclass
class Past:
    """The files that one snapshot added and removed, and the live files after it."""

    snapshot_id: int
    operation: str
    added: list[DataFile]
    removed: list[DataFile]
    live: dict[str, DataFile]

    def data(self) -> list[DataFile]:
        return [file for file in self.live.values() if file.content == FileContent.DATA]

    def deletes_of(self, path: str) -> list[DataFile]:
        return [file for file in self.live.values() if file.referenced_data_file == path]


class History:
    """A table with a random history, and a record of each snapshot."""

    def __init__(self, version: int, data: st.DataObject) -> None:
        self.table = MadeUpTable(version)
        self.data = data
        self.past: list[Past] = []
        self.made = 0
        self.commit(Append(first := [self.new_file(), self.new_file()], self.table.context()), first, [])
        steps = [self.append, self.overwrite, self.add_deletes, self.add_equality_deletes, self.rewrite]
        for step in data.draw(st.lists(st.sampled_from(steps), max_size=6)):
            step()

    def draw(self, strategy: st.SearchStrategy[Any]) -> Any:
        return self.data.draw(strategy)

    def name(self, kind: str) -> str:
        self.made += 1
        return f"{kind}{self.made}"

    def new_file(self) -> DataFile:
        low = self.draw(st.integers(0, 9))
        return bounded(rows(self.name("d"), name=self.draw(NAMES)), low, self.draw(st.integers(low, 9)))

    def commit(self, action: Action, added: list[DataFile], removed: list[DataFile]) -> None:
        snapshot = self.table.commit(action)
        before = self.past[-1].live if self.past else {}
        gone = {name_of(file) for file in removed} | {
            name
            for name, file in before.items()
            if file.referenced_data_file in {one.file_path for one in removed if one.content == FileContent.DATA}
        }
        live = {name: file for name, file in before.items() if name not in gone} | {name_of(file): file for file in added}
        self.past.append(Past(snapshot.snapshot_id, snapshot.operation or "", added, [before[name] for name in sorted(gone)], live))

    def some(self) -> list[DataFile]:
        known = self.past[-1].data()
        return [self.draw(st.sampled_from(known))] if known else []

    def append(self) -> None:
        files = [self.new_file()]
        self.commit(Append(files, self.table.context()), files, [])

    def overwrite(self) -> None:
        removed, added = self.some(), [self.new_file()] if self.draw(st.booleans()) else []
        if removed or added:
            self.commit(Overwrite(removed=removed, added=added, **self.table.numbered()), added, removed)

    def add_deletes(self) -> None:
        for target in self.some():
            old = self.past[-1].deletes_of(target.file_path) if self.table.metadata.format_version > 2 else []
            new = self.new_deletes(target)
            added = [self.new_file()] if self.draw(st.booleans()) else []
            self.commit(RowDelta(added=added, added_deletes=[new], removed_deletes=old, **self.table.numbered()), [*added, new], old)

    def new_deletes(self, target: DataFile) -> DataFile:
        if self.table.metadata.format_version > 2:
            return vector(self.name("v"), target)
        return position_deletes(self.name("p"), target, target=self.draw(st.sampled_from([None, target.file_path])))

    def add_equality_deletes(self) -> None:
        low = self.draw(st.integers(0, 9))
        partition = self.draw(st.sampled_from([None, *self.past[-1].data()]))
        new = bounded(equality_deletes(self.name("e"), partition), low, self.draw(st.integers(low, 9)))
        self.commit(RowDelta(added_deletes=[new], **self.table.numbered()), [new], [])

    def rewrite(self) -> None:
        for old in self.some():
            new = replace(old, file_path=self.name("d"))
            rules = ConflictRules(since=self.past[-1].snapshot_id)
            self.commit(RewriteFiles(added=[new], removed=[old], rules=rules, **self.table.numbered()), [new], [old])


@dataclass
class Change:
    """A row delta that was planned on an earlier snapshot."""

    rules: ConflictRules
    removed: list[DataFile]
    deletes: list[DataFile]
    replaced: list[DataFile]
    target: DataFile | None

    def conflicts(self, since: list[Past], head: Past) -> Iterator[str]:
        """Yield every reason to refuse the change, by brute force."""
        if any(name_of(file) not in head.live for file in [*self.removed, *self.replaced]):
            yield "gone"
        if any(delete.referenced_data_file not in {None, *head.live} for delete in self.deletes):
            yield "target gone"
        vectors = [one for one in head.deletes_of(self.target.file_path) if is_deletion_vector(one)] if self.target else []
        if any(map(is_deletion_vector, self.deletes)) and any(one not in self.replaced for one in vectors):
            yield "second vector"
        for past in since:
            yield from self.broken_by(past)

    def matches(self, file: DataFile) -> bool:
        rules = self.rules
        if rules.partitions is None:
            return may_match(rules.row_filter, file)
        is_everywhere = file.content == FileContent.EQUALITY_DELETES and file.spec_id == FLAT
        return (file.spec_id, file.partition) in rules.partitions or is_everywhere

    def broken_by(self, past: Past) -> Iterator[str]:
        rules, matches = self.rules, self.matches
        data = [one for one in past.added if one.content == FileContent.DATA]
        deletes = [one for one in past.added if one.content != FileContent.DATA]
        gone = [one for one in past.removed if one.content == FileContent.DATA and matches(one)]
        skipped = rules.skip_deletes and past.operation == "delete"
        about = {delete.referenced_data_file for delete in self.deletes if is_deletion_vector(delete)}
        broken = {
            "added data": rules.no_added_data and past.operation != "replace" and any(map(matches, data)),
            "removed data": rules.no_removed_data and bool(gone),
            "required": not skipped and any(one.file_path in rules.required_files for one in gone),
            "added deletes": rules.no_added_deletes and any(map(matches, deletes)),
            "newer deletes": rules.no_newer_deletes
            and any(matches(delete_file) and may_delete(delete_file, file) for delete_file in deletes for file in self.removed),
            "vector": any(delete_file.referenced_data_file in about and delete_file not in self.replaced for delete_file in deletes),
        }
        yield from (reason for reason, is_broken in broken.items() if is_broken)


def planned(history: History) -> tuple[Change, list[Past]]:
    """Return a change, and the snapshots after the one that it was planned on."""
    place = history.draw(st.integers(0, len(history.past) - 1))
    seen, known = history.past[place], history.past[place].data()
    some = st.lists(st.sampled_from(known), max_size=1) if known else st.just([])
    removed = history.draw(some)
    target = next((file for file in history.draw(some) if file not in removed), None)
    deletes = [history.new_deletes(target)] if target else []
    replaced = seen.deletes_of(target.file_path) if target and history.table.metadata.format_version > 2 else []
    flags = {
        flag: history.draw(st.booleans())
        for flag in ("no_added_data", "no_added_deletes", "no_removed_data", "no_newer_deletes", "skip_deletes")
    }
    partitions = history.draw(st.none() | st.just(frozenset({(BY_NAME, ("a",))})))
    required = frozenset(file.file_path for file in history.draw(some))
    from_start = history.draw(st.booleans()) and place == 0
    rules = ConflictRules(
        since=None if from_start else seen.snapshot_id,
        row_filter=history.draw(FILTERS),
        partitions=partitions,
        required_files=required,
        **flags,
    )
    return Change(rules, removed, deletes, replaced, target), history.past if from_start else history.past[place + 1 :]


@pytest.mark.parametrize("examples", [10, pytest.param(500, marks=pytest.mark.slow)])
@pytest.mark.parametrize("version", [2, 3])
def test_a_change_is_refused_only_if_a_file_of_a_newer_snapshot_conflicts(version: int, examples: int) -> None:
    @settings(max_examples=examples)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        history = History(version, data)
        change, since = planned(history)
        action = RowDelta(
            added=[history.new_file()],
            added_deletes=change.deletes,
            removed=change.removed,
            removed_deletes=change.replaced,
            rules=change.rules,
            **history.table.numbered(),
        )
        expected = sorted(set(change.conflicts(since, history.past[-1])))
        before, error = history.table.metadata, None
        try:
            history.table.commit(action)
        except CommitInvalidatedError as raised:
            error = raised
        assert (error is not None) == bool(expected), (error, expected)
        if error is not None:
            assert history.table.metadata is before
            assert error.snapshot_id in {None, *(past.snapshot_id for past in history.past)}
            assert [problem.where for problem in error.problems] == ["expected", "found"]

    check()


# ---- incomplete histories ----

ONE, TWO = rows("one", name="a"), rows("two", name="b")


def table_of(count: int) -> MadeUpTable:
    """Return a table with snapshots 101, 102, and so on, each of which added a file."""
    table = MadeUpTable(3)
    for number in range(count):
        table.commit(Append([rows(f"file-{number}", name="a")], table.context()))
    return table


def delta(table: MadeUpTable, **rules: Any) -> RowDelta:
    return RowDelta(added=[rows("new", name="a")], rules=ConflictRules(no_added_data=True, **rules), **table.numbered())


def expire(table: MadeUpTable, *snapshot_ids: int) -> None:
    table.metadata = apply_updates(table.metadata, [RemoveSnapshots(snapshot_ids)], 9)


def test_a_change_planned_on_a_snapshot_outside_of_the_history_is_refused() -> None:
    table = table_of(3)
    with pytest.raises(CommitInvalidatedError, match="snapshot 5, which this commit was planned on, is no longer in the table"):
        table.commit(delta(table, since=5))
    table.metadata = apply_updates(table.metadata, [SetSnapshotRef("main", SnapshotRef(snapshot_id=102))], 9)
    with pytest.raises(CommitInvalidatedError, match="103, which this commit was planned on, is not in the history of main") as error:
        table.commit(delta(table, since=103))
    assert "rolled back or replaced" in error.value.problems[1].what


def test_the_snapshot_a_change_was_planned_on_may_be_expired_if_its_child_is_not() -> None:
    table = table_of(4)
    expire(table, 101, 102)
    with pytest.raises(CommitInvalidatedError, match=r"snapshot 104 \(append\) conflicts with this commit: it added file-3"):
        table.commit(delta(table, since=102))
    with pytest.raises(CommitInvalidatedError, match="101, which this commit was planned on, is no longer in the table"):
        table.commit(delta(table, since=101))
    with pytest.raises(CommitInvalidatedError, match="since its first snapshot cannot be known"):
        table.commit(delta(table))


def test_a_transaction_finds_conflicts_in_snapshots_below_its_own() -> None:
    table = table_of(1)
    own = Append([ONE], table.context())
    staged = StagedFiles()
    first = own.attempt(table.metadata, number=0, now_ms=5, read=table.read)
    staged.add(first)
    working = apply_updates(table.metadata, first.updates, 5)
    second = delta(table, since=first.snapshot_id)
    attempt = second.attempt(working, number=0, now_ms=6, read=staged.reading(table.read))
    assert attempt is not None
    table.commit(Append([TWO], table.context()))
    with pytest.raises(CommitInvalidatedError, match="it added two after it was planned"):
        CompositeAction([own, second], staged).attempt(table.metadata, number=1, now_ms=7, read=table.read)


def test_a_file_that_was_added_and_removed_again_is_a_conflict() -> None:
    table = table_of(1)
    table.commit(Append([ONE], table.context()))
    table.commit(Overwrite(removed=["one"], added=[], **table.numbered()))
    with pytest.raises(CommitInvalidatedError, match="it added one after"):
        table.commit(delta(table, since=101))


# ---- files that are removed by a rule ----


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_filter_removes_files_of_which_all_rows_match_and_refuses_partial_matches(version: int) -> None:
    @settings(max_examples=examples(20))
    @given(st.data())
    def check(data: st.DataObject) -> None:
        history = History(version, data) if version > 1 else History.__new__(History)
        if version == 1:
            history.table, history.data, history.past, history.made = MadeUpTable(1), data, [], 0
            for _ in range(data.draw(st.integers(1, 4))):
                history.append()
        row_filter = data.draw(FILTERS)
        files = history.past[-1].data()
        partial_matches = [file for file in files if may_match(row_filter, file) and not must_match(row_filter, file)]
        full_matches = {file.file_path for file in files if may_match(row_filter, file) and must_match(row_filter, file)}
        action = Overwrite(removed=[], added=[rows("new")], row_filter=row_filter, **history.table.numbered())
        if partial_matches:
            with pytest.raises(InvalidInputError, match="cannot delete file where some, but not all, rows match"):
                history.table.commit(action)
            return
        history.table.commit(action)
        live = {entry.data_file.file_path for entry in history.table.live().values() if entry.data_file.content == FileContent.DATA}
        assert live == {file.file_path for file in files} - full_matches | {"new"}
        targets = {entry.data_file.referenced_data_file for entry in history.table.live().values()}
        assert not targets & full_matches

    check()


def must_match(expression: BooleanExpression, file: DataFile) -> bool:
    """Return True if partition and bounds prove, term by term, that all rows match."""
    if isinstance(expression, And):
        return all(must_match(term, file) for term in expression.terms)
    if isinstance(expression, Or):
        return any(must_match(term, file) for term in expression.terms)
    if isinstance(expression, AlwaysTrue):
        return True
    assert isinstance(expression, EqualTo | LessThan | GreaterThan)
    if expression.term == "name":
        return file.spec_id == BY_NAME and file.partition == (expression.literal,)
    low, high = span(file) or (0, 99)
    if isinstance(expression, EqualTo):
        return low == high == expression.literal
    return high < expression.literal if isinstance(expression, LessThan) else low > expression.literal


@pytest.mark.parametrize("version", [2, 3])
def test_replacing_partitions_removes_all_their_data_and_delete_files(version: int) -> None:
    @settings(max_examples=examples(15))
    @given(st.data())
    def check(data: st.DataObject) -> None:
        history = History(version, data)
        new = rows("new", name=data.draw(NAMES))
        history.table.commit(ReplacePartitions(added=[new], **history.table.numbered()))
        before = history.past[-1].live
        kept = {name for name, file in before.items() if new.spec_id != FLAT and (file.spec_id, file.partition) != (BY_NAME, new.partition)}
        assert set(history.table.live()) == kept | {"new"}

    check()
