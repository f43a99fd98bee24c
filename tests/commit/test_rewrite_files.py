"""Rewrites of data files: the rows do not change, and they can keep their data sequence number."""

import pytest
from tests.commit.made_up_table import MadeUpTable, equality_deletes, rows, vector

from icefloe.commit.append import Append
from icefloe.commit.conflicts import planned_on
from icefloe.commit.rewrite_files import RewriteFiles
from icefloe.commit.row_delta import RowDelta
from icefloe.errors import CommitInvalidatedError, InvalidInputError

ONE, TWO, BOTH = rows("one"), rows("two"), rows("both", 20)


@pytest.fixture
def table() -> MadeUpTable:
    """Return a v3 table with files of the sequence numbers 1 and 2; its snapshots are 101 and 102."""
    table = MadeUpTable(3)
    for file in (ONE, TWO):
        table.commit(Append([file], table.context()))
    return table


def rewrite(table: MadeUpTable, sequence_number: int | None = None, **others: object) -> RewriteFiles:
    arguments = {"added": [BOTH], "removed": [ONE, TWO], "rules": planned_on(102)} | others
    return RewriteFiles(sequence_number=sequence_number, **arguments, **table.numbered())  # type: ignore[arg-type]


@pytest.mark.parametrize(("requested", "expected"), [(2, 2), (None, 3)])
def test_rows_keep_their_sequence_number_if_it_is_passed(table: MadeUpTable, requested: int | None, expected: int) -> None:
    snapshot = table.commit(rewrite(table, requested))
    (entry,) = table.live().values()
    assert (entry.data_file.file_path, entry.sequence_number, entry.file_sequence_number) == ("both", expected, 3)
    new = next(manifest for manifest in table.manifests() if manifest.added_files_count)
    assert (new.sequence_number, new.min_sequence_number) == (3, expected)
    assert (snapshot.operation, snapshot.summary["total-records"]) == ("replace", "20")
    # The new file is assigned its own row ids; the rows have their old ones in a column. Spec: Row Lineage.
    assert (snapshot.first_row_id, snapshot.added_rows, entry.data_file.first_row_id) == (20, 20, 20)


def test_newer_equality_deletes_apply_to_rewritten_rows_that_keep_their_sequence_number(table: MadeUpTable) -> None:
    table.commit(RowDelta(added_deletes=[equality_deletes("e")], **table.numbered()))
    with pytest.raises(CommitInvalidatedError, match="it added e after"):
        table.commit(rewrite(table))
    table.commit(rewrite(table, 2))
    live = table.live()
    assert (live["both"].sequence_number or 0) < (live["e"].sequence_number or 0)


def test_a_newer_deletion_vector_is_a_conflict_with_any_sequence_number(table: MadeUpTable) -> None:
    table.commit(RowDelta(added_deletes=[vector("v", ONE)], **table.numbered()))
    with pytest.raises(CommitInvalidatedError, match="it added v after"):
        table.commit(rewrite(table, 2))


def test_a_sequence_number_with_which_other_deletes_would_apply_is_refused(table: MadeUpTable) -> None:
    with pytest.raises(InvalidInputError, match="two has data sequence number 2: with 1"):
        table.commit(rewrite(table, 1))
    with pytest.raises(InvalidInputError, match=r"the sequence number 3 is newer than that of snapshot .*: 2"):
        table.commit(rewrite(table, 3))


def test_a_rewrite_that_adds_rows_is_refused(table: MadeUpTable) -> None:
    with pytest.raises(InvalidInputError, match="the added files have 21 rows, the removed files 20"):
        rewrite(table, added=[rows("both", 21)])


def test_a_rewrite_of_a_file_that_is_no_longer_live_is_refused(table: MadeUpTable) -> None:
    table.commit(RowDelta(removed=[ONE], **table.numbered()))
    with pytest.raises(CommitInvalidatedError, match="no longer in the table"):
        table.commit(rewrite(table))


def test_a_v1_table_has_no_sequence_numbers() -> None:
    table = MadeUpTable(1)
    table.commit(Append([ONE, TWO], table.context()))
    table.commit(RewriteFiles(added=[BOTH], removed=[ONE, TWO], rules=planned_on(101), sequence_number=0, **table.numbered()))
    assert [entry.sequence_number for entry in table.live().values()] == [0]
