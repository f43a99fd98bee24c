"""Rewrites: the rows stay, their age with them where asked for."""

import pytest
from tests.kernel.commit.made_up_table import MadeUpTable, equality_deletes, rows, vector

from icefloe.errors import CommitInvalidatedError, InvalidInputError
from icefloe.kernel.commit.append import Append
from icefloe.kernel.commit.conflicts import planned_on
from icefloe.kernel.commit.rewrite_files import RewriteFiles
from icefloe.kernel.commit.row_delta import RowDelta

ONE, TWO, BOTH = rows("one"), rows("two"), rows("both", 20)


@pytest.fixture
def table() -> MadeUpTable:
    """v3, with a file of sequence number 1 and one of 2; the snapshots are 101 and 102."""
    made = MadeUpTable(3)
    for file in (ONE, TWO):
        made.commit(Append([file], made.context()))
    return made


def rewrite(table: MadeUpTable, sequence_number: int | None = None, **others: object) -> RewriteFiles:
    given = {"added": [BOTH], "removed": [ONE, TWO], "rules": planned_on(102)} | others
    return RewriteFiles(sequence_number=sequence_number, **given, **table.numbered())  # type: ignore[arg-type]


@pytest.mark.parametrize(("asked", "found"), [(2, 2), (None, 3)])
def test_rows_keep_their_age_where_asked_for(table: MadeUpTable, asked: int | None, found: int) -> None:
    snapshot = table.commit(rewrite(table, asked))
    (entry,) = table.live().values()
    assert (entry.data_file.file_path, entry.sequence_number, entry.file_sequence_number) == ("both", found, 3)
    new = next(manifest for manifest in table.manifests() if manifest.added_files_count)
    assert (new.sequence_number, new.min_sequence_number) == (3, found)
    assert (snapshot.operation, snapshot.summary["total-records"]) == ("replace", "20")
    # The new file has room for row ids of its own; the rows carry their old ones as a column. Spec: Row Lineage.
    assert (snapshot.first_row_id, snapshot.added_rows, entry.data_file.first_row_id) == (20, 20, 20)


def test_equality_deletes_that_others_add_meanwhile_go_on_applying_to_rows_of_their_age(table: MadeUpTable) -> None:
    table.commit(RowDelta(added_deletes=[equality_deletes("e")], **table.numbered()))
    with pytest.raises(CommitInvalidatedError, match="it added e after"):
        table.commit(rewrite(table))
    table.commit(rewrite(table, 2))
    live = table.live()
    assert (live["both"].sequence_number or 0) < (live["e"].sequence_number or 0)


def test_a_vector_that_others_add_meanwhile_makes_a_rewrite_wrong_whatever_its_age(table: MadeUpTable) -> None:
    table.commit(RowDelta(added_deletes=[vector("v", ONE)], **table.numbered()))
    with pytest.raises(CommitInvalidatedError, match="it added v after"):
        table.commit(rewrite(table, 2))


def test_an_age_under_which_other_deletes_would_apply_is_refused(table: MadeUpTable) -> None:
    with pytest.raises(InvalidInputError, match="two has data sequence number 2: with 1"):
        table.commit(rewrite(table, 1))
    with pytest.raises(InvalidInputError, match=r"the sequence number 3 is newer than that of snapshot .*: 2"):
        table.commit(rewrite(table, 3))


def test_a_rewrite_adds_no_rows(table: MadeUpTable) -> None:
    with pytest.raises(InvalidInputError, match="the added files have 21 rows, the removed files 20"):
        rewrite(table, added=[rows("both", 21)])


def test_a_removed_file_that_is_gone_makes_the_rewrite_wrong(table: MadeUpTable) -> None:
    table.commit(RowDelta(removed=[ONE], **table.numbered()))
    with pytest.raises(CommitInvalidatedError, match="no longer in the table"):
        table.commit(rewrite(table))


def test_v1_has_no_ages() -> None:
    table = MadeUpTable(1)
    table.commit(Append([ONE, TWO], table.context()))
    table.commit(RewriteFiles(added=[BOTH], removed=[ONE, TWO], rules=planned_on(101), sequence_number=0, **table.numbered()))
    assert [entry.sequence_number for entry in table.live().values()] == [0]
