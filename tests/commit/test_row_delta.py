"""Row deltas: which delete files they replace, which changes are refused, and retries after a concurrent commit."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.commit.made_up_table import MadeUpTable, equality_deletes, position_deletes, rows, vector

from icefloe.commit.append import Append
from icefloe.commit.conflicts import planned_on
from icefloe.commit.overwrite import Overwrite
from icefloe.commit.row_delta import RowDelta
from icefloe.errors import CommitInvalidatedError, InvalidInputError
from icefloe.spec.manifest.data_file import DataFile
from icefloe.spec.manifest.entry import ManifestEntryStatus
from icefloe.spec.manifest_list.manifest_file import ManifestContent

ONE, TWO, IN_A = rows("one"), rows("two"), rows("in_a", name="a")


@pytest.fixture
def table() -> MadeUpTable:
    """Return a v3 table with two unpartitioned files and one in the partition `a`."""
    table = MadeUpTable(3)
    table.commit(Append([ONE, TWO, IN_A], table.context()))
    return table


def delta(table: MadeUpTable, **changes: Any) -> RowDelta:
    return RowDelta(**changes, **table.numbered())


def live_names(table: MadeUpTable) -> set[str]:
    return set(table.live())


def test_a_deletion_vector_replaces_the_old_one_and_position_deletes() -> None:
    table = MadeUpTable(2)
    table.commit(Append([ONE], table.context()))
    old = position_deletes("pos", ONE, target="one")
    table.commit(delta(table, added_deletes=[old]))
    table.upgrade(3)
    first = vector("p1", ONE)
    table.commit(delta(table, added_deletes=[first], removed_deletes=[old]))
    assert live_names(table) == {"one", "p1@4"}
    snapshot = table.commit(delta(table, added_deletes=[vector("p2", ONE, 2)], removed_deletes=[first]))
    assert live_names(table) == {"one", "p2@4"}
    assert (snapshot.operation, snapshot.summary["added-dvs"], snapshot.summary["removed-dvs"]) == ("delete", "1", "1")
    assert (snapshot.summary["added-files-size"], snapshot.summary["removed-files-size"]) == ("42", "41")


def test_the_entry_of_a_replaced_vector_has_the_removing_snapshot_and_the_next_commit_drops_it(table: MadeUpTable) -> None:
    first = vector("p1", ONE)
    table.commit(delta(table, added_deletes=[first]))
    snapshot = table.commit(delta(table, added_deletes=[vector("p2", ONE)], removed_deletes=[first]))
    deleted = [e for _, entries in table.entries() for e in entries if e.status == ManifestEntryStatus.DELETED]
    assert [(e.data_file.file_path, e.snapshot_id, e.sequence_number, e.file_sequence_number) for e in deleted] == [
        ("p1", snapshot.snapshot_id, 2, 2)
    ]
    table.commit(delta(table, removed=[TWO]))
    assert [e.data_file.file_path for _, entries in table.entries() for e in entries if not e.is_live] == ["two"]


def test_several_vectors_of_one_puffin_file_are_identified_by_their_offsets(table: MadeUpTable) -> None:
    both = [vector("p", ONE, offset=4), vector("p", TWO, offset=50)]
    action = delta(table, added_deletes=both)
    assert action.new_data_files() == ["p"]
    table.commit(action)
    table.commit(delta(table, added_deletes=[vector("q", TWO)], removed_deletes=[both[1]]))
    assert live_names(table) == {"one", "two", "in_a", "p@4", "q@4"}


@pytest.mark.parametrize("removal", ["row delta", "overwrite"])
def test_removing_a_data_file_removes_its_vector_and_its_position_deletes(removal: str) -> None:
    table = MadeUpTable(2)
    table.commit(Append([ONE, TWO], table.context()))
    about_one, about_both = position_deletes("p1", ONE, target="one"), position_deletes("p2", ONE)
    table.commit(delta(table, added_deletes=[about_one, about_both, equality_deletes("e")]))
    table.upgrade(3)
    table.commit(delta(table, added_deletes=[vector("v", TWO)]))
    if removal == "row delta":
        table.commit(delta(table, removed=[ONE, TWO]))
    else:
        table.commit(Overwrite(removed=["one", "two"], added=[], **table.numbered()))
    assert live_names(table) == {"p2", "e"}


def test_manifests_that_a_commit_does_not_touch_are_kept_as_they_are(table: MadeUpTable) -> None:
    table.commit(delta(table, added_deletes=[vector("v", IN_A)]))
    before = table.manifests()
    table.commit(delta(table, added_deletes=[vector("w", ONE)]))
    after = table.manifests()
    assert [m.content for m in after if m not in before] == [ManifestContent.DELETES]
    assert set(before) < set(after)


def test_only_manifests_that_may_contain_a_target_are_read(table: MadeUpTable) -> None:
    before = {manifest.partition_spec_id: manifest.manifest_path for manifest in table.manifests()}
    read: list[str] = []
    action = delta(table, added_deletes=[vector("v", IN_A)])
    action.attempt(table.metadata, number=0, now_ms=9, read=lambda path: (read.append(path), table.read(path))[1])
    assert before[1] in read
    assert before[0] not in read


REFUSED: list[tuple[Callable[[], dict[str, Any]], str]] = [
    (lambda: {"added_deletes": [vector("v", ONE), vector("w", ONE)]}, "one would get two deletion vectors"),
    (lambda: {"added_deletes": [vector("v", ONE)], "removed": [ONE]}, "v deletes rows of one, which the same commit removes"),
    (lambda: {"added": [vector("v", ONE)]}, "v contains POSITION_DELETES, and is among the data files"),
    (lambda: {"added_deletes": [ONE]}, "one contains data, and is among the delete files"),
    (lambda: {"removed_deletes": [ONE]}, "one contains data, and is among the delete files"),
]


@pytest.mark.parametrize(("changes", "rule"), REFUSED)
def test_changes_that_contradict_themselves_are_refused(table: MadeUpTable, changes: Callable[[], dict[str, Any]], rule: str) -> None:
    with pytest.raises(InvalidInputError, match=rule):
        delta(table, **changes())


@pytest.mark.parametrize(
    ("version", "file", "rule"),
    [
        (1, equality_deletes("e"), "a table of format version 1 has no delete files"),
        (2, vector("v", ONE), "v cannot be added: a table of format version 2 has no deletion vectors"),
        (3, position_deletes("p", ONE), "p cannot be added: from format version 3 on no position delete files are added"),
    ],
)
def test_files_that_a_version_does_not_allow_are_refused_with_file_and_rule(version: int, file: DataFile, rule: str) -> None:
    table = MadeUpTable(version)
    table.commit(Append([ONE], table.context()))
    with pytest.raises(InvalidInputError, match=rule):
        table.commit(delta(table, added_deletes=[file]))


def test_deletes_in_another_partition_than_their_file_would_not_apply_and_are_refused(table: MadeUpTable) -> None:
    also_in_b = rows("in_b", name="b")
    table.commit(Append([also_in_b, replace(IN_A, file_path="in_a2")], table.context()))
    # One manifest holds `a` and `b`, so that the file is found, in the other partition.
    with pytest.raises(InvalidInputError, match="in_b are of another partition"):
        table.commit(delta(table, added_deletes=[vector("v", replace(also_in_b, partition=("a",)))]))
    with pytest.raises(CommitInvalidatedError, match="not in the partition that was named"):
        table.commit(delta(table, added_deletes=[vector("v", replace(ONE, partition=("z",), spec_id=1))]))


def test_deletes_of_a_file_of_the_same_commit_are_allowed(table: MadeUpTable) -> None:
    new = rows("new")
    snapshot = table.commit(delta(table, added=[new], added_deletes=[vector("v", new)]))
    assert snapshot.operation == "overwrite"
    assert {"new", "v@4"} <= live_names(table)


def test_nothing_to_change_is_no_commit(table: MadeUpTable) -> None:
    assert delta(table).attempt(table.metadata, number=0, now_ms=1, read=table.read) is None


# ---- retries after a concurrent commit ----


def lose(table: MadeUpTable, action: RowDelta, *winners: Any) -> None:
    """Attempt the action, and then commit those of other writers."""
    table.attempt(action)
    for winner in winners:
        table.commit(winner)


def test_a_retry_reuses_its_manifests_with_sequence_numbers_of_the_new_base(table: MadeUpTable) -> None:
    first = vector("v", ONE)
    table.commit(delta(table, added_deletes=[first]))
    action = delta(table, added=[rows("new", 7)], added_deletes=[vector("w", ONE)], removed_deletes=[first])
    lose(table, action, Append([rows("other", 5)], table.context()))
    files = set(table.files)
    snapshot = table.commit(action, number=1)
    assert [path for path in table.files if path not in files and "snap-" not in path] == []
    assert (snapshot.first_row_id, snapshot.added_rows, snapshot.sequence_number) == (35, 7, 4)
    live = table.live()
    assert live["new"].data_file.first_row_id == 35
    assert live["other"].data_file.first_row_id == 30
    assert (live["new"].sequence_number, live["w@4"].sequence_number, live["other"].sequence_number) == (4, 4, 3)


def test_a_retry_keeps_the_row_ids_that_another_writer_assigned_after_an_upgrade() -> None:
    table = MadeUpTable(2)
    table.commit(Append([ONE, TWO], table.context()))
    table.upgrade(3)
    action = delta(table, removed=[TWO])
    lose(table, action, Append([rows("other", 5)], table.context()))
    first_row_id = table.live()["one"].data_file.first_row_id
    table.commit(action, number=1)
    assert table.live()["one"].data_file.first_row_id == first_row_id
    assert first_row_id is not None


NOT_LIVE = "is no longer in the table"


@pytest.mark.parametrize(
    ("changes", "winner", "what"),
    [
        ({"added_deletes": [vector("v", ONE)]}, {"removed": [ONE]}, NOT_LIVE),
        ({"removed": [ONE]}, {"removed": [ONE]}, NOT_LIVE),
        ({"added_deletes": [vector("v", ONE)]}, {"added_deletes": [vector("w", ONE)]}, "one has a deletion vector already, in w at byte 4"),
    ],
)
def test_a_retry_is_refused_if_another_writer_changed_the_same_files(
    table: MadeUpTable, changes: dict[str, Any], winner: dict[str, Any], what: str
) -> None:
    action = delta(table, **changes)
    lose(table, action, delta(table, **winner))
    with pytest.raises(CommitInvalidatedError, match=what):
        table.commit(action, number=1)


def test_a_vector_that_another_writer_replaced_cannot_be_replaced_again(table: MadeUpTable) -> None:
    first = vector("v", ONE)
    table.commit(delta(table, added_deletes=[first]))
    action = delta(table, added_deletes=[vector("w", ONE)], removed_deletes=[first])
    lose(table, action, delta(table, added_deletes=[vector("x", ONE)], removed_deletes=[first]))
    with pytest.raises(CommitInvalidatedError, match="one has a deletion vector already, in x"):
        table.commit(action, number=1)


def test_position_deletes_written_for_v2_are_refused_after_an_upgrade_to_v3() -> None:
    table = MadeUpTable(2)
    table.commit(Append([ONE], table.context()))
    action = delta(table, added_deletes=[position_deletes("p", ONE)])
    table.attempt(action)
    table.upgrade(3)
    with pytest.raises(CommitInvalidatedError, match="upgraded from format version 2 to 3 while"):
        table.commit(action, number=1)


def test_an_append_written_for_v2_is_written_again_for_v3() -> None:
    table = MadeUpTable(2)
    action = Append([ONE], table.context())
    table.attempt(action)
    table.upgrade(3)
    table.commit(action, number=1)
    assert table.live()["one"].data_file.first_row_id == 0


# ---- deletes that other writers added since the commit was planned ----


def head(table: MadeUpTable) -> int:
    snapshot = table.metadata.current_snapshot()
    assert snapshot is not None
    return snapshot.snapshot_id


OF_IN_A = [vector("v", IN_A), equality_deletes("e", IN_A), equality_deletes("e")]


@pytest.mark.parametrize("newer", OF_IN_A)
def test_a_file_with_newer_deletes_is_not_replaced(table: MadeUpTable, newer: DataFile) -> None:
    plan = head(table)
    table.commit(delta(table, added_deletes=[newer]))
    for action in (
        delta(table, removed=[IN_A], added=[rows("copy", name="a")], rules=planned_on(plan)),
        Overwrite(removed=["in_a"], added=[], rules=planned_on(plan), **table.numbered()),
    ):
        with pytest.raises(CommitInvalidatedError, match=f"it added {newer.file_path} after it was planned"):
            table.commit(action)
    table.commit(delta(table, removed=[IN_A], rules=planned_on(head(table))))


ELSEWHERE = [vector("v", ONE), equality_deletes("e", rows("x", name="b"))]


@pytest.mark.parametrize("newer", ELSEWHERE)
def test_newer_deletes_of_other_files_and_partitions_are_no_conflict(table: MadeUpTable, newer: DataFile) -> None:
    plan = head(table)
    table.commit(delta(table, added_deletes=[newer]))
    table.commit(delta(table, removed=[IN_A], rules=planned_on(plan)))
    assert "in_a" not in table.live()


@pytest.mark.parametrize(
    ("lower", "upper", "is_refused"), [(b"a", b"z", True), (b"j", b"z", False), (b"a", b"b", False), (None, None, True)]
)
def test_position_deletes_of_a_partition_conflict_only_if_their_path_bounds_contain_the_file(
    lower: bytes, upper: bytes, is_refused: bool
) -> None:
    table = MadeUpTable(2)
    table.commit(Append([IN_A], table.context()))
    plan = head(table)
    bounds = {"lower_bounds": {2147483546: lower}, "upper_bounds": {2147483546: upper}} if lower else {}
    table.commit(delta(table, added_deletes=[replace(position_deletes("p", IN_A), **bounds)]))
    action = delta(table, removed=[IN_A], rules=planned_on(plan))
    if is_refused:
        with pytest.raises(CommitInvalidatedError, match="it added p after"):
            table.commit(action)
    else:
        table.commit(action)


def test_a_vector_does_not_hide_newer_position_deletes() -> None:
    table = MadeUpTable(2)
    table.commit(Append([ONE], table.context()))
    plan = head(table)
    table.commit(delta(table, added_deletes=[position_deletes("p", ONE)]))
    table.upgrade(3)
    with pytest.raises(CommitInvalidatedError, match="it added p after"):
        table.commit(delta(table, added_deletes=[vector("v", ONE)], rules=planned_on(plan)))


def test_a_change_planned_on_a_missing_snapshot_is_refused(table: MadeUpTable) -> None:
    with pytest.raises(CommitInvalidatedError, match="snapshot 5, which this commit was planned on"):
        table.commit(delta(table, removed=[ONE], rules=planned_on(5)))


def test_a_retry_reads_only_what_others_have_committed_since_the_attempt_before(
    table: MadeUpTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    action = delta(table, added_deletes=[vector("v", ONE)], rules=planned_on(table.metadata.current_snapshot_id))
    read, paths = table.read, list[str]()
    monkeypatch.setattr(table, "read", lambda path: (paths.append(path), read(path))[1])
    counts = []
    for number in range(12):
        table.attempt(action, number)
        counts.append(len(paths))
        table.commit(delta(table, added=[rows(f"other{number}")], added_deletes=[equality_deletes(f"e{number}")]))
        paths.clear()
    assert max(counts[2:]) == counts[2], counts
    table.commit(delta(table, added_deletes=[vector("w", ONE)]))
    with pytest.raises(CommitInvalidatedError, match="added w after it was planned"):
        table.commit(action, number=12)
