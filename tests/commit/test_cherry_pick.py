"""Cherry-picks of snapshots: an overwrite of whole partitions is repeated unless a newer snapshot added files to these partitions."""

import pytest
from tests.commit.made_up_table import MadeUpTable, rows

from icefloe.commit.append import Append
from icefloe.commit.cherry_pick import CherryPick
from icefloe.commit.overwrite import Overwrite
from icefloe.commit.replace_partitions import ReplacePartitions
from icefloe.errors import CommitInvalidatedError, InvalidInputError
from icefloe.spec.metadata.metadata_updates import apply_updates
from icefloe.spec.metadata.snapshot_updates import RemoveSnapshotRef, RemoveSnapshots, SetSnapshotRef


def staged(version: int) -> tuple[MadeUpTable, int]:
    """Return a table with partitions a and b, and the id of a staged snapshot that replaces b."""
    table = MadeUpTable(version)
    table.commit(Append([rows("a1", 3, "a"), rows("b1", 4, "b")], table.context()))
    new_snapshot = table.commit(
        ReplacePartitions(added=[rows("b2", 5, "b")], **table.numbered(stage_only=True, snapshot_properties={"wap.id": "w"}))
    )
    assert sorted(table.live()) == ["a1", "b1"]
    return table, new_snapshot.snapshot_id


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_pick_replaces_partitions_without_newer_files(version: int) -> None:
    table, picked = staged(version)
    table.commit(Append([rows("a2", 6, "a")], table.context()))
    new_snapshot = table.commit(CherryPick(picked, table.context()))
    assert sorted(table.live()) == ["a1", "a2", "b2"]
    assert (new_snapshot.operation, new_snapshot.summary["source-snapshot-id"], new_snapshot.summary["published-wap-id"]) == (
        "overwrite",
        str(picked),
        "w",
    )
    assert new_snapshot.summary["total-records"] == "14"
    if version == 3:
        first = [entry.data_file.first_row_id for entry in table.live().values()]
        assert None not in first
        assert len(set(first)) == 3
    with pytest.raises(InvalidInputError, match="its wap id 'w' was to be published once"):
        table.attempt(CherryPick(picked, table.context()))


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_pick_is_refused_if_a_newer_snapshot_added_files_to_a_replaced_partition(version: int) -> None:
    table, picked = staged(version)
    pick = CherryPick(picked, table.context())
    table.commit(Append([rows("a2", 6, "a")], table.context()))
    table.attempt(pick)  # another writer commits first
    added = table.commit(Append([rows("b3", 1, "b")], table.context()))
    with pytest.raises(
        CommitInvalidatedError, match=f"the partition name=b, to which snapshot {added.snapshot_id} .append. added b3 since"
    ):
        table.attempt(pick, 1)
    assert sorted(table.live()) == ["a1", "a2", "b1", "b3"]


def test_the_error_names_a_replaced_file_that_is_no_longer_live() -> None:
    table, picked = staged(2)
    table.commit(Overwrite(removed=["b1"], added=[], **table.numbered()))
    with pytest.raises(InvalidInputError, match="a file that it replaced is no longer live: b1"):
        table.attempt(CherryPick(picked, table.context()))


def test_a_pick_is_refused_if_its_parent_is_not_in_the_history_of_the_branch() -> None:
    table, picked = staged(2)
    parent = table.metadata.snapshot_by_id(picked)
    assert parent is not None
    other = table.commit(Append([rows("x", 1, "a")], table.context(branch="other", makes_branch=True)))
    new_snapshot = table.commit(ReplacePartitions(added=[rows("b9", 5, "b")], **table.numbered(branch="other")))
    with pytest.raises(InvalidInputError, match=f"it replaced partitions of snapshot {other.snapshot_id}, which is not in the history"):
        table.attempt(CherryPick(new_snapshot.snapshot_id, table.context()))


def expire(table: MadeUpTable, *snapshot_ids: int) -> None:
    table.metadata = apply_updates(table.metadata, [RemoveSnapshots(snapshot_ids)], table.now_ms)


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("removed", [(), ("s1",)], ids=["all of its files", "some of its files"])
def test_files_that_an_expired_pick_added_are_not_added_again(version: int, removed: tuple[str, ...]) -> None:
    """The history no longer contains the pick; its live files show it, even from a manifest of a later snapshot."""
    table = MadeUpTable(version)
    table.commit(Append([rows("a1", 3, "a")], table.context()))
    picked = table.commit(Append([rows("s1", 5, "a"), rows("s2", 1, "b")], table.context(branch="side", makes_branch=True))).snapshot_id
    table.commit(Append([rows("a2", 6, "a")], table.context()))
    new_snapshot = table.commit(CherryPick(picked, table.context()))
    table.commit(Overwrite(removed=["a1", *removed], added=[], **table.numbered()))
    table.commit(Append([rows("a3", 6, "a")], table.context()))
    expire(table, new_snapshot.snapshot_id)
    live = sorted({"a2", "a3", "s1", "s2"} - set(removed))
    assert sorted(table.live()) == live
    with pytest.raises(InvalidInputError, match=f"its file {'s2' if removed else 's1'} is live on the branch already") as found:
        table.attempt(CherryPick(picked, table.context()))
    assert found.value.path == ("s2" if removed else "s1")
    table.commit(Overwrite(removed=[name for name in live if name.startswith("s")], added=[], **table.numbered()))
    table.commit(CherryPick(picked, table.context()))  # none of its files is live any more
    assert sorted(table.live()) == ["a2", "a3", "s1", "s2"]


def test_a_retry_finds_a_pick_that_another_writer_committed_and_expired() -> None:
    table = MadeUpTable(2)
    table.commit(Append([rows("a1")], table.context()))
    picked = table.commit(Append([rows("s1")], table.context(branch="side", makes_branch=True))).snapshot_id
    table.commit(Append([rows("a2")], table.context()))
    pick = CherryPick(picked, table.context())
    table.attempt(pick)  # another writer commits first
    new_snapshot = table.commit(CherryPick(picked, table.context()))
    table.commit(Append([rows("a3")], table.context()))
    expire(table, new_snapshot.snapshot_id)
    with pytest.raises(
        CommitInvalidatedError, match=r"its file s1 is live on the branch already.*another writer's commit made it so"
    ) as found:
        table.attempt(pick, 1)
    assert found.value.path == "s1"


def test_a_pick_reads_only_manifests_that_may_contain_its_files() -> None:
    table = MadeUpTable(2)
    table.commit(Append([rows("a1", 3, "a"), rows("b1", 3, "b")], table.context()))
    old = {manifest.manifest_path for manifest in table.manifests()}
    picked = table.commit(Append([rows("s1", 5, "a")], table.context(stage_only=True))).snapshot_id
    table.commit(Append([rows("b2", 6, "b")], table.context()))
    other_partition = {manifest.manifest_path for manifest in table.manifests()} - old
    table.commit(Append([rows("a2", 6, "a")], table.context()))
    same_partition = {manifest.manifest_path for manifest in table.manifests()} - old - other_partition
    read_paths: list[str] = []

    def read(path: str) -> bytes:
        read_paths.append(path)
        return table.read(path)

    assert CherryPick(picked, table.context()).attempt(table.metadata, number=0, now_ms=9, read=read) is not None
    assert same_partition <= set(read_paths)
    assert not (old | other_partition) & set(read_paths)


@pytest.mark.parametrize("is_picked", [True, False], ids=["the branch has a pick of it", "the branch has the snapshot itself"])
def test_a_pick_of_a_pick_is_the_same_change(is_picked: bool) -> None:
    """This holds even if its files were rewritten, so that no live file shows the earlier pick."""
    table = MadeUpTable(3)
    table.commit(Append([rows("a1")], table.context()))
    start = table.metadata.refs["main"]
    table.metadata = apply_updates(table.metadata, [SetSnapshotRef("first", start), SetSnapshotRef("second", start)], 1)
    source = table.commit(Append([rows("s1")], table.context(branch="side", makes_branch=True) if is_picked else table.context()))
    table.commit(Append([rows("f1")], table.context(branch="first")))
    table.commit(Append([rows("g1")], table.context(branch="second")))
    once = table.commit(CherryPick(source.snapshot_id, table.context(branch="first")))
    twice = table.commit(CherryPick(once.snapshot_id, table.context(branch="second")))
    assert twice.summary["source-snapshot-id"] == str(once.snapshot_id)
    table.commit(Append([rows("a2")], table.context()))
    on_branch = table.commit(CherryPick(source.snapshot_id, table.context())) if is_picked else source
    table.commit(Overwrite(removed=["s1"], added=[rows("rewritten")], **table.numbered()))
    reason = (
        f"snapshot {on_branch.snapshot_id} of the branch picked it"
        if is_picked
        else f"it is a pick of snapshot {source.snapshot_id}, which"
    )
    for pick in (once, twice):
        with pytest.raises(InvalidInputError, match=reason):
            table.attempt(CherryPick(pick.snapshot_id, table.context()))


def test_partitions_whose_history_is_expired_are_not_replaced() -> None:
    """The snapshot was made on the empty table, and whether a later snapshot added files to its partition is unknown."""
    table = MadeUpTable(2)
    first = table.commit(Append([rows("b1", 4, "b")], table.context()))
    staged_on_nothing = ReplacePartitions(added=[rows("b2", 5, "b")], **table.numbered(branch="other", makes_branch=True))
    emptied, table.metadata = table.metadata, apply_updates(table.metadata, [RemoveSnapshotRef("main")], 1)
    picked = table.commit(staged_on_nothing).snapshot_id
    table.metadata = apply_updates(table.metadata, [SetSnapshotRef("main", emptied.refs["main"])], 1)
    table.commit(Append([rows("a1", 4, "a")], table.context()))
    with pytest.raises(InvalidInputError, match=f"to which snapshot {first.snapshot_id} .append. added b1 since"):
        table.attempt(CherryPick(picked, table.context()))
    expire(table, first.snapshot_id)
    with pytest.raises(InvalidInputError, match="what was added to them since cannot be known: snapshots before"):
        table.attempt(CherryPick(picked, table.context()))
