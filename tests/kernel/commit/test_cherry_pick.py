"""Cherry-pick of overwrites of whole partitions: made again where nobody touched those partitions, refused where somebody did."""

import pytest
from tests.kernel.commit.made_up_table import MadeUpTable, rows

from icefloe.errors import CommitInvalidatedError, InvalidInputError
from icefloe.kernel.commit.append import Append
from icefloe.kernel.commit.cherry_pick import CherryPick
from icefloe.kernel.commit.overwrite import Overwrite
from icefloe.kernel.commit.replace_partitions import ReplacePartitions


def staged(version: int) -> tuple[MadeUpTable, int]:
    """Partitions a and b; a snapshot is staged that replaces b."""
    table = MadeUpTable(version)
    table.commit(Append([rows("a1", 3, "a"), rows("b1", 4, "b")], table.context()))
    made = table.commit(
        ReplacePartitions(added=[rows("b2", 5, "b")], **table.numbered(stage_only=True, snapshot_properties={"wap.id": "w"}))
    )
    assert sorted(table.live()) == ["a1", "b1"]
    return table, made.snapshot_id


@pytest.mark.parametrize("version", [1, 2, 3])
def test_partitions_that_nobody_touched_are_replaced_again(version: int) -> None:
    table, picked = staged(version)
    table.commit(Append([rows("a2", 6, "a")], table.context()))
    made = table.commit(CherryPick(picked, table.context()))
    assert sorted(table.live()) == ["a1", "a2", "b2"]
    assert (made.operation, made.summary["source-snapshot-id"], made.summary["published-wap-id"]) == ("overwrite", str(picked), "w")
    assert made.summary["total-records"] == "14"
    if version == 3:
        first = [entry.data_file.first_row_id for entry in table.live().values()]
        assert None not in first
        assert len(set(first)) == 3
    with pytest.raises(InvalidInputError, match="its wap id 'w' was to be published once"):
        table.attempt(CherryPick(picked, table.context()))


@pytest.mark.parametrize("version", [1, 2, 3])
def test_rows_added_to_a_replaced_partition_since_are_not_taken_away(version: int) -> None:
    table, picked = staged(version)
    pick = CherryPick(picked, table.context())
    table.commit(Append([rows("a2", 6, "a")], table.context()))
    table.attempt(pick)  # a race that is lost
    added = table.commit(Append([rows("b3", 1, "b")], table.context()))
    with pytest.raises(
        CommitInvalidatedError, match=f"the partition name=b, to which snapshot {added.snapshot_id} .append. added b3 since"
    ):
        table.attempt(pick, 1)
    assert sorted(table.live()) == ["a1", "a2", "b1", "b3"]


def test_a_replaced_file_that_is_gone_is_named() -> None:
    table, picked = staged(2)
    table.commit(Overwrite(removed=["b1"], added=[], **table.numbered()))
    with pytest.raises(InvalidInputError, match="a file that it replaced is no longer live: b1"):
        table.attempt(CherryPick(picked, table.context()))


def test_a_pick_of_another_line_is_refused() -> None:
    table, picked = staged(2)
    parent = table.metadata.snapshot_by_id(picked)
    assert parent is not None
    other = table.commit(Append([rows("x", 1, "a")], table.context(branch="other", makes_branch=True)))
    made = table.commit(ReplacePartitions(added=[rows("b9", 5, "b")], **table.numbered(branch="other")))
    with pytest.raises(InvalidInputError, match=f"it replaced partitions of snapshot {other.snapshot_id}, which was to be in the history"):
        table.attempt(CherryPick(made.snapshot_id, table.context()))
