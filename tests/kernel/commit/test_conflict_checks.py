"""Each check of `ConflictRules` alone: one winner that breaks it, and one that only looks as if it did. Random histories are `test_conflicts.py`."""

import struct
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from tests.kernel.commit.made_up_table import MadeUpTable, equality_deletes, position_deletes, rows, vector

from icefloe.errors import CommitInvalidatedError
from icefloe.kernel.commit.append import Append
from icefloe.kernel.commit.attempt import Action
from icefloe.kernel.commit.conflicts import ConflictRules, planned_on
from icefloe.kernel.commit.overwrite import Overwrite
from icefloe.kernel.commit.rewrite_files import RewriteFiles
from icefloe.kernel.commit.row_delta import RowDelta
from icefloe.kernel.expressions.predicate import EqualTo
from icefloe.kernel.manifest.data_file import DataFile

OLD, OTHER = rows("old", name="a"), rows("other", name="b")
BASE = 101
PARTITION_A, PARTITION_B = (frozenset({(1, (name,))}) for name in "ab")
IN_A, IN_B, ID_3 = EqualTo("name", "a"), EqualTo("name", "b"), EqualTo("id", 3)
Winner = Callable[[MadeUpTable], Action]


def bounded(file: DataFile, value: int) -> DataFile:
    """All of its ids are the value."""
    bound = {1: struct.pack("<q", value)}
    return replace(file, lower_bounds=bound, upper_bounds=bound, value_counts={1: 10}, null_value_counts={1: 0})


def append(*files: DataFile) -> Winner:
    return lambda table: Append(files, table.context())


def overwrite(*files: DataFile) -> Winner:
    """Takes `old` away; the operation is `delete` where nothing is added."""
    return lambda table: Overwrite(removed=[OLD], added=files, **table.numbered())


def rewrite(table: MadeUpTable) -> Action:
    return RewriteFiles(added=[rows("copy", name="a")], removed=[OLD], rules=ConflictRules(since=BASE), **table.numbered())


def deletes(*files: DataFile, added: Sequence[DataFile] = (), removed: Sequence[DataFile] = ()) -> Winner:
    """The operation is `delete`, or `overwrite` where rows are added too."""
    return lambda table: RowDelta(added=added, added_deletes=files, removed_deletes=removed, **table.numbered())


def other_vectors(*files: DataFile, removed: Sequence[DataFile]) -> Winner:
    return lambda table: RewriteFiles(
        added=(), removed=(), added_deletes=files, removed_deletes=removed, rules=ConflictRules(), **table.numbered()
    )


def refused(table: MadeUpTable, winner: Winner, rules: ConflictRules, **change: Sequence[DataFile]) -> str:
    """The rule that the winner broke for a row delta; empty where it may be committed."""
    winning, broken = table.commit(winner(table)), None
    try:
        table.commit(RowDelta(**{"added": [rows("new", name="a")], **change}, rules=rules, **table.numbered()))
    except CommitInvalidatedError as error:
        broken = error
    if broken is None:
        return ""
    assert broken.snapshot_id == winning.snapshot_id
    assert f"snapshot {winning.snapshot_id} ({winning.operation})" in str(broken)
    return broken.problems[0].what


def table_of(version: int = 3) -> MadeUpTable:
    made = MadeUpTable(version)
    made.commit(Append([OLD, OTHER], made.context()))
    return made


NEW_A, NEW_B = rows("x", name="a"), rows("y", name="b")
MARK, KEYS = vector("marks", OLD), equality_deletes("keys", OLD)
BOTH_AROUND_B = (rows("x", name="a"), rows("z", name="c"))
RELIES = {"required_files": frozenset({"old"})}
CASES: dict[str, tuple[Winner, dict[str, object], bool]] = {
    "a required file was overwritten": (overwrite(NEW_A), RELIES, True),
    "a required file was deleted": (overwrite(), RELIES, True),
    "a required file was rewritten": (rewrite, RELIES, True),
    "a required file was deleted, which may be": (overwrite(), {**RELIES, "skip_deletes": True}, False),
    "a required file was overwritten, and not deleted": (overwrite(NEW_A), {**RELIES, "skip_deletes": True}, True),
    "a required file was rewritten, and not deleted": (rewrite, {**RELIES, "skip_deletes": True}, True),
    "another file than the required one went": (overwrite(), {"required_files": frozenset({"other"})}, False),
    "rows were appended": (append(NEW_A), {"no_added_data": True}, True),
    "rows were added by an overwrite": (overwrite(NEW_A), {"no_added_data": True}, True),
    "rows were rewritten, and none are new": (rewrite, {"no_added_data": True}, False),
    "rows were appended elsewhere": (append(NEW_B), {"no_added_data": True, "row_filter": IN_A}, False),
    "rows were appended around": (append(*BOTH_AROUND_B), {"no_added_data": True, "row_filter": IN_B}, False),
    "rows with other ids were appended": (append(bounded(NEW_A, 4)), {"no_added_data": True, "row_filter": ID_3}, False),
    "rows with the id were appended": (append(bounded(NEW_A, 3)), {"no_added_data": True, "row_filter": ID_3}, True),
    "rows were appended to the partition": (append(NEW_A), {"no_added_data": True, "partitions": PARTITION_A}, True),
    "rows were appended around the partition": (append(*BOTH_AROUND_B), {"no_added_data": True, "partitions": PARTITION_B}, False),
    "rows were appended, and may be": (append(NEW_A), {"no_removed_data": True, "no_added_deletes": True}, False),
    "a file went by an overwrite": (overwrite(NEW_A), {"no_removed_data": True}, True),
    "a file was deleted": (overwrite(), {"no_removed_data": True}, True),
    "a file was rewritten": (rewrite, {"no_removed_data": True}, True),
    "a file went elsewhere": (overwrite(), {"no_removed_data": True, "row_filter": IN_B}, False),
    "a vector came": (deletes(MARK), {"no_added_deletes": True}, True),
    "a vector came with rows": (deletes(MARK, added=[NEW_A]), {"no_added_deletes": True}, True),
    "a vector came elsewhere": (deletes(MARK), {"no_added_deletes": True, "row_filter": IN_B}, False),
    "a vector came in the partition": (deletes(MARK), {"no_added_deletes": True, "partitions": PARTITION_A}, True),
    "keys came": (deletes(KEYS), {"no_added_deletes": True}, True),
    "other keys came": (deletes(bounded(KEYS, 4)), {"no_added_deletes": True, "row_filter": ID_3}, False),
    "keys of the whole table came": (deletes(equality_deletes("keys")), {"no_added_deletes": True, "partitions": PARTITION_A}, True),
    "keys came around the partition": (
        deletes(KEYS, equality_deletes("more", BOTH_AROUND_B[1])),
        {"no_added_deletes": True, "partitions": PARTITION_B},
        False,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_check_refuses_what_it_is_about_and_no_more(name: str) -> None:
    winner, asked, is_refused = CASES[name]
    assert bool(refused(table_of(), winner, ConflictRules(since=BASE, **asked))) == is_refused  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("winner", "is_refused"),
    [(deletes(MARK), True), (deletes(KEYS), True), (deletes(vector("marks", OTHER)), False), (append(NEW_A), False)],
)
def test_a_file_that_goes_has_no_newer_deletes(winner: Winner, is_refused: bool) -> None:
    assert bool(refused(table_of(), winner, planned_on(BASE), removed=[OLD])) == is_refused


@pytest.mark.parametrize(("age", "winner", "is_refused"), [(1, KEYS, False), (1, MARK, True), (None, KEYS, True), (None, MARK, True)])
def test_keys_go_on_applying_to_rows_that_keep_their_age(age: int | None, winner: DataFile, is_refused: bool) -> None:
    table = table_of()
    change = RewriteFiles(
        added=[rows("copy", name="a")], removed=[OLD], sequence_number=age, rules=ConflictRules(since=BASE), **table.numbered()
    )
    table.commit(deletes(winner)(table))
    if is_refused:
        with pytest.raises(CommitInvalidatedError, match=f"it added {winner.file_path} after it was planned"):
            table.commit(change)
    else:
        table.commit(change)


VECTOR_RULE = "no added position deletes or deletion vector of old"


@pytest.mark.parametrize("added", [(), (NEW_B,)], ids=["delete", "overwrite"])
def test_a_file_got_a_vector_from_others(added: Sequence[DataFile]) -> None:
    rule = refused(table_of(), deletes(MARK, added=added), ConflictRules(since=BASE), added_deletes=[vector("mine", OLD)])
    assert rule.startswith(VECTOR_RULE)


def test_without_a_snapshot_to_begin_from_the_whole_history_is_looked_at() -> None:
    assert refused(table_of(), deletes(MARK), planned_on(None), removed=[OLD]).startswith("no added deletes that may apply to old")
    assert refused(table_of(), deletes(MARK), ConflictRules(), added_deletes=[vector("mine", OLD)]).startswith(VECTOR_RULE)


def test_a_vector_that_is_named_to_be_replaced_is_known() -> None:
    table = table_of()
    assert not refused(table, deletes(MARK), ConflictRules(since=BASE), added_deletes=[vector("mine", OLD)], removed_deletes=[MARK])


def test_keys_are_no_vector() -> None:
    assert not refused(table_of(), deletes(KEYS), ConflictRules(since=BASE), added_deletes=[vector("mine", OLD)])


def test_a_vector_that_others_wrote_anew_is_another_one() -> None:
    table = table_of()
    table.commit(deletes(MARK)(table))
    winner = other_vectors(vector("anew", OLD), removed=[MARK])
    rule = refused(table, winner, ConflictRules(since=102), added_deletes=[vector("mine", OLD)], removed_deletes=[MARK])
    assert rule.startswith(VECTOR_RULE)
    assert not refused(table, append(NEW_A), ConflictRules(since=103, no_added_deletes=True))


@pytest.mark.parametrize("is_rewrite", [False, True])
def test_position_deletes_before_an_upgrade_are_missed_by_a_vector_where_they_are_new(is_rewrite: bool) -> None:
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


def test_rewritten_deletes_are_none_that_were_added() -> None:
    table = table_of()
    table.commit(deletes(MARK)(table))
    assert not refused(table, other_vectors(vector("anew", OLD), removed=[MARK]), ConflictRules(since=102, no_added_deletes=True))
