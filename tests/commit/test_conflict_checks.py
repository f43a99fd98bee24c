"""Each rule of `ConflictRules` alone: a concurrent commit that violates it, and a similar one that does not. `test_conflicts.py` has random histories."""

import struct
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from tests.commit.made_up_table import MadeUpTable, equality_deletes, position_deletes, rows, vector

from icefloe.commit.append import Append
from icefloe.commit.attempt import Action
from icefloe.commit.conflicts import ConflictRules, planned_on
from icefloe.commit.overwrite import Overwrite
from icefloe.commit.rewrite_files import RewriteFiles
from icefloe.commit.row_delta import RowDelta
from icefloe.errors import CommitInvalidatedError
from icefloe.spec.expressions.predicate import EqualTo
from icefloe.spec.manifest.data_file import DataFile

OLD, OTHER = rows("old", name="a"), rows("other", name="b")
BASE = 101
PARTITION_A, PARTITION_B = (frozenset({(1, (name,))}) for name in "ab")
IN_A, IN_B, ID_3 = EqualTo("name", "a"), EqualTo("name", "b"), EqualTo("id", 3)
# The commit of another writer, after the change was planned.
Winner = Callable[[MadeUpTable], Action]


def bounded(file: DataFile, value: int) -> DataFile:
    """Return the file with bounds that contain one id only."""
    bound = {1: struct.pack("<q", value)}
    return replace(file, lower_bounds=bound, upper_bounds=bound, value_counts={1: 10}, null_value_counts={1: 0})


def append(*files: DataFile) -> Winner:
    return lambda table: Append(files, table.context())


def overwrite(*files: DataFile) -> Winner:
    """Return an overwrite that removes `old`; its operation is `delete` if no file is added."""
    return lambda table: Overwrite(removed=[OLD], added=files, **table.numbered())


def rewrite(table: MadeUpTable) -> Action:
    return RewriteFiles(added=[rows("copy", name="a")], removed=[OLD], rules=ConflictRules(since=BASE), **table.numbered())


def deletes(*files: DataFile, added: Sequence[DataFile] = (), removed: Sequence[DataFile] = ()) -> Winner:
    """Return a row delta; its operation is `delete`, or `overwrite` if files are added."""
    return lambda table: RowDelta(added=added, added_deletes=files, removed_deletes=removed, **table.numbered())


def other_vectors(*files: DataFile, removed: Sequence[DataFile]) -> Winner:
    return lambda table: RewriteFiles(
        added=(), removed=(), added_deletes=files, removed_deletes=removed, rules=ConflictRules(), **table.numbered()
    )


def refused(table: MadeUpTable, winner: Winner, rules: ConflictRules, **change: Sequence[DataFile]) -> str:
    """Return the rule that the winner violated for a row delta; empty if the row delta was committed."""
    winning, conflict = table.commit(winner(table)), None
    try:
        table.commit(RowDelta(**{"added": [rows("new", name="a")], **change}, rules=rules, **table.numbered()))
    except CommitInvalidatedError as error:
        conflict = error
    if conflict is None:
        return ""
    assert conflict.snapshot_id == winning.snapshot_id
    assert f"snapshot {winning.snapshot_id} ({winning.operation})" in str(conflict)
    return conflict.problems[0].what


def table_of(version: int = 3) -> MadeUpTable:
    made = MadeUpTable(version)
    made.commit(Append([OLD, OTHER], made.context()))
    return made


NEW_A, NEW_B = rows("x", name="a"), rows("y", name="b")
VECTOR, KEY_DELETES = vector("other vector", OLD), equality_deletes("keys", OLD)
BOTH_AROUND_B = (rows("x", name="a"), rows("z", name="c"))
REQUIRED = {"required_files": frozenset({"old"})}
CASES: dict[str, tuple[Winner, dict[str, object], bool]] = {
    "a required file was overwritten": (overwrite(NEW_A), REQUIRED, True),
    "a required file was deleted": (overwrite(), REQUIRED, True),
    "a required file was rewritten": (rewrite, REQUIRED, True),
    "a required file was deleted, which is allowed": (overwrite(), {**REQUIRED, "skip_deletes": True}, False),
    "a required file was overwritten, and not deleted": (overwrite(NEW_A), {**REQUIRED, "skip_deletes": True}, True),
    "a required file was rewritten, and not deleted": (rewrite, {**REQUIRED, "skip_deletes": True}, True),
    "another file than the required one was removed": (overwrite(), {"required_files": frozenset({"other"})}, False),
    "rows were appended": (append(NEW_A), {"no_added_data": True}, True),
    "rows were added by an overwrite": (overwrite(NEW_A), {"no_added_data": True}, True),
    "rows were rewritten, and none are new": (rewrite, {"no_added_data": True}, False),
    "rows were appended to another partition": (append(NEW_B), {"no_added_data": True, "row_filter": IN_A}, False),
    "rows were appended to partitions before and after": (append(*BOTH_AROUND_B), {"no_added_data": True, "row_filter": IN_B}, False),
    "rows with other ids were appended": (append(bounded(NEW_A, 4)), {"no_added_data": True, "row_filter": ID_3}, False),
    "rows with the id were appended": (append(bounded(NEW_A, 3)), {"no_added_data": True, "row_filter": ID_3}, True),
    "rows were appended to the partition": (append(NEW_A), {"no_added_data": True, "partitions": PARTITION_A}, True),
    "rows were appended to partitions before and after the partition": (
        append(*BOTH_AROUND_B),
        {"no_added_data": True, "partitions": PARTITION_B},
        False,
    ),
    "rows were appended, which is allowed": (append(NEW_A), {"no_removed_data": True, "no_added_deletes": True}, False),
    "a file was overwritten": (overwrite(NEW_A), {"no_removed_data": True}, True),
    "a file was deleted": (overwrite(), {"no_removed_data": True}, True),
    "a file was rewritten": (rewrite, {"no_removed_data": True}, True),
    "a file of another partition was removed": (overwrite(), {"no_removed_data": True, "row_filter": IN_B}, False),
    "a vector was added": (deletes(VECTOR), {"no_added_deletes": True}, True),
    "a vector was added with rows": (deletes(VECTOR, added=[NEW_A]), {"no_added_deletes": True}, True),
    "a vector was added to another partition": (deletes(VECTOR), {"no_added_deletes": True, "row_filter": IN_B}, False),
    "a vector was added to the partition": (deletes(VECTOR), {"no_added_deletes": True, "partitions": PARTITION_A}, True),
    "equality deletes were added": (deletes(KEY_DELETES), {"no_added_deletes": True}, True),
    "equality deletes of other ids were added": (deletes(bounded(KEY_DELETES, 4)), {"no_added_deletes": True, "row_filter": ID_3}, False),
    "equality deletes of the whole table were added": (
        deletes(equality_deletes("keys")),
        {"no_added_deletes": True, "partitions": PARTITION_A},
        True,
    ),
    "equality deletes were added to partitions before and after the partition": (
        deletes(KEY_DELETES, equality_deletes("more", BOTH_AROUND_B[1])),
        {"no_added_deletes": True, "partitions": PARTITION_B},
        False,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_rule_refuses_only_the_changes_that_it_is_about(name: str) -> None:
    winner, rules, is_refused = CASES[name]
    assert bool(refused(table_of(), winner, ConflictRules(since=BASE, **rules))) == is_refused  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("winner", "is_refused"),
    [(deletes(VECTOR), True), (deletes(KEY_DELETES), True), (deletes(vector("other vector", OTHER)), False), (append(NEW_A), False)],
)
def test_a_removed_file_must_not_have_newer_deletes(winner: Winner, is_refused: bool) -> None:
    assert bool(refused(table_of(), winner, planned_on(BASE), removed=[OLD])) == is_refused


@pytest.mark.parametrize(
    ("sequence_number", "winner", "is_refused"),
    [(1, KEY_DELETES, False), (1, VECTOR, True), (None, KEY_DELETES, True), (None, VECTOR, True)],
)
def test_newer_equality_deletes_are_allowed_for_rows_that_keep_their_sequence_number(
    sequence_number: int | None, winner: DataFile, is_refused: bool
) -> None:
    table = table_of()
    change = RewriteFiles(
        added=[rows("copy", name="a")], removed=[OLD], sequence_number=sequence_number, rules=ConflictRules(since=BASE), **table.numbered()
    )
    table.commit(deletes(winner)(table))
    if is_refused:
        with pytest.raises(CommitInvalidatedError, match=f"it added {winner.file_path} after it was planned"):
            table.commit(change)
    else:
        table.commit(change)


VECTOR_RULE = "no added position deletes or deletion vector of old"


@pytest.mark.parametrize("added", [(), (NEW_B,)], ids=["delete", "overwrite"])
def test_a_vector_of_another_writer_is_a_conflict(added: Sequence[DataFile]) -> None:
    rule = refused(table_of(), deletes(VECTOR, added=added), ConflictRules(since=BASE), added_deletes=[vector("mine", OLD)])
    assert rule.startswith(VECTOR_RULE)


def test_without_a_starting_snapshot_the_whole_history_is_checked() -> None:
    assert refused(table_of(), deletes(VECTOR), planned_on(None), removed=[OLD]).startswith("no added deletes that may apply to old")
    assert refused(table_of(), deletes(VECTOR), ConflictRules(), added_deletes=[vector("mine", OLD)]).startswith(VECTOR_RULE)


def test_a_vector_of_another_writer_that_the_commit_removes_is_allowed() -> None:
    table = table_of()
    assert not refused(table, deletes(VECTOR), ConflictRules(since=BASE), added_deletes=[vector("mine", OLD)], removed_deletes=[VECTOR])


def test_equality_deletes_do_not_conflict_with_a_new_vector() -> None:
    assert not refused(table_of(), deletes(KEY_DELETES), ConflictRules(since=BASE), added_deletes=[vector("mine", OLD)])


def test_a_vector_that_another_writer_rewrote_is_a_conflict() -> None:
    table = table_of()
    table.commit(deletes(VECTOR)(table))
    winner = other_vectors(vector("rewritten", OLD), removed=[VECTOR])
    rule = refused(table, winner, ConflictRules(since=102), added_deletes=[vector("mine", OLD)], removed_deletes=[VECTOR])
    assert rule.startswith(VECTOR_RULE)
    assert not refused(table, append(NEW_A), ConflictRules(since=103, no_added_deletes=True))


@pytest.mark.parametrize("is_rewrite", [False, True])
def test_newer_position_deletes_from_before_an_upgrade_conflict_with_a_vector_unless_rewritten(is_rewrite: bool) -> None:
    table = table_of(2)
    first, second = (position_deletes(name, OLD, target="old") for name in ("first", "second"))
    table.commit(deletes(first)(table))
    winner = other_vectors(second, removed=[first]) if is_rewrite else deletes(second)
    winning = table.commit(winner(table))
    assert winning.operation == ("replace" if is_rewrite else "delete")
    table.upgrade(3)
    mine = RowDelta(added_deletes=[vector("mine", OLD)], rules=ConflictRules(since=102), **table.numbered())
    if is_rewrite:
        table.commit(mine)
    else:
        with pytest.raises(CommitInvalidatedError, match="it added second after it was planned"):
            table.commit(mine)


def test_rewritten_deletes_are_not_added_deletes() -> None:
    table = table_of()
    table.commit(deletes(VECTOR)(table))
    assert not refused(table, other_vectors(vector("rewritten", OLD), removed=[VECTOR]), ConflictRules(since=102, no_added_deletes=True))
