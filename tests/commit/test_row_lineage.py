"""Row ids that commits assign: the example of the specification, upgrades, branches."""

from dataclasses import replace

import pytest
from tests.commit.made_up_table import MadeUpTable, rows

from icefloe.commit.append import Append
from icefloe.commit.overwrite import Overwrite
from icefloe.spec.manifest_list.manifest_file import ManifestContent


def first_row_ids(table: MadeUpTable) -> dict[str, int | None]:
    return {name: entry.data_file.first_row_id for name, entry in table.live().items()}


def test_the_example_of_the_specification_has_the_same_row_ids() -> None:
    """Manifest `added1` of the example: an EXISTING file of 25 rows with id 800, and two new files of 50; the table's next row id is 1000."""
    table = MadeUpTable(3)
    table.metadata = replace(table.metadata, next_row_id=800)
    table.commit(Append([rows("data1", 25), rows("gone", 75)], table.context()))
    table.metadata = replace(table.metadata, next_row_id=1_000)
    snapshot = table.commit(Append([rows("data2", 50), rows("data3", 50)], table.context()))
    assert (snapshot.first_row_id, snapshot.added_rows, table.metadata.next_row_id) == (1_000, 100, 1_100)
    assert first_row_ids(table) == {"data1": 800, "gone": 825, "data2": 1_000, "data3": 1_050}
    snapshot = table.commit(Overwrite(removed=["gone"], added=[], **table.numbered()))
    assert first_row_ids(table) == {"data1": 800, "data2": 1_000, "data3": 1_050}
    # Ids are reserved for the 25 existing rows, although they have ids already: Java counts them too.
    assert (snapshot.first_row_id, snapshot.added_rows, table.metadata.next_row_id) == (1_100, 25, 1_125)


@pytest.mark.parametrize("version", [1, 2])
def test_the_first_commit_after_an_upgrade_assigns_row_ids_to_old_files_in_list_order(version: int) -> None:
    table = MadeUpTable(version)
    table.commit(Append([rows("a", 3), rows("b", 4)], table.context()))
    table.commit(Append([rows("c", 5)], table.context()))
    table.upgrade(3)
    assert table.metadata.next_row_id == 0
    assert set(first_row_ids(table).values()) == {None}
    snapshot = table.commit(Append([rows("d", 6)], table.context()))
    assert first_row_ids(table) == {"d": 0, "c": 6, "a": 11, "b": 14}
    assert (snapshot.first_row_id, snapshot.added_rows, table.metadata.next_row_id) == (0, 18, 18)
    table.commit(Append([rows("e", 7)], table.context()))
    assert first_row_ids(table) == {"d": 0, "c": 6, "a": 11, "b": 14, "e": 18}


def test_a_commit_that_only_deletes_has_row_ids_too() -> None:
    table = MadeUpTable(3)
    table.commit(Append([rows("a", 3)], table.context()))
    snapshot = table.commit(Overwrite(removed=["a"], added=[], **table.numbered()))
    assert (snapshot.first_row_id, snapshot.added_rows) == (3, 0)


def test_branches_assign_disjoint_row_ids() -> None:
    table = MadeUpTable(3)
    table.commit(Append([rows("a", 3)], table.context()))
    table.commit(Append([rows("b", 4)], table.context(branch="side", makes_branch=True)))
    table.commit(Append([rows("c", 5)], table.context()))
    assert first_row_ids(table) == {"a": 0, "c": 7}
    assert table.metadata.next_row_id == 12


def test_missing_row_ids_in_a_list_of_another_writer_are_assigned() -> None:
    """The snapshot has a first row id, but its list has a data manifest without one: the next commit assigns it, as Java does."""
    table = MadeUpTable(2)
    table.commit(Append([rows("a", 3)], table.context()))
    table.upgrade(3)
    snapshot = table.metadata.current_snapshot()
    assert snapshot is not None
    claims = replace(snapshot, first_row_id=0, added_rows=0)
    table.metadata = replace(table.metadata, snapshots=[claims])
    table.commit(Append([rows("b", 4)], table.context()))
    assert first_row_ids(table) == {"b": 0, "a": 4}
    assert [manifest.content for manifest in table.manifests()] == [ManifestContent.DATA] * 2
