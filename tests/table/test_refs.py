"""Branches and tags: every method of `table.manage_snapshots()`, its rules, and its behaviour with concurrent writers."""

import re
from pathlib import Path

import pyarrow as pa
import pytest
from tests.reference_reader import ReferenceReader

from icefloe import (
    CommitConflictError,
    CommitInvalidatedError,
    InvalidInputError,
    NoSuchSnapshotError,
    ReadOnlyTableError,
    SqlCatalog,
    StaticTable,
)
from icefloe.spec.metadata.snapshot_ref import SnapshotRef
from icefloe.table import Table

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string())])
VERSIONS = (1, 2, 3)


def rows(*numbers: int) -> pa.Table:
    return pa.Table.from_pylist([{"id": n, "part": "ab"[n % 2]} for n in numbers], schema=SCHEMA)


def make(folder: Path, version: int = 3, **properties: str) -> Table:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder))
    catalog.create_namespace_if_not_exists("db")
    settings = {"format-version": str(version), "commit.retry.min-wait-ms": "1", **properties}
    return catalog.create_table("db.t", SCHEMA, partition_spec=["part"], properties=settings)


def load_as_other_writer(folder: Path) -> Table:
    """Return the table as another writer loads it."""
    return SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder)).load_table("db.t")


def ids(table: Table, branch: str | None = None) -> list[int]:
    return sorted(table.scan(branch=branch).to_arrow()["id"].to_pylist())


def head(table: Table, name: str = "main") -> int:
    return table.refs()[name].snapshot_id


def three_snapshots(folder: Path, version: int = 3) -> tuple[Table, list[int]]:
    table = make(folder, version)
    for number in range(3):
        table.append(rows(number))
    return table, [snapshot.snapshot_id for snapshot in table.snapshots()]


@pytest.mark.parametrize("version", VERSIONS)
def test_branches_and_tags_are_created_moved_renamed_and_removed(tmp_path: Path, version: int) -> None:
    table, (first, second, third) = three_snapshots(tmp_path, version)
    with table.manage_snapshots() as manage:
        manage.create_branch(branch_name="audit", max_ref_age_ms=7, max_snapshot_age_ms=8, min_snapshots_to_keep=9)
        manage.create_tag(first, "v1", 5).create_tag("audit", "v3").create_branch("v1", "old")
    assert table.refs() == load_as_other_writer(tmp_path).refs()
    assert dict(table.refs()) == {
        "main": SnapshotRef(snapshot_id=third),
        "audit": SnapshotRef(snapshot_id=third, min_snapshots_to_keep=9, max_snapshot_age_ms=8, max_ref_age_ms=7),
        "v1": SnapshotRef(snapshot_id=first, type="tag", max_ref_age_ms=5),
        "v3": SnapshotRef(snapshot_id=third, type="tag"),
        "old": SnapshotRef(snapshot_id=first),
    }
    assert len(table.metadata.metadata_log) == 4  # all changes are one version
    table.manage_snapshots().replace_branch("audit", second).replace_tag("v1", second).rename_branch("old", "older").commit()
    assert table.refs()["audit"] == SnapshotRef(snapshot_id=second, min_snapshots_to_keep=9, max_snapshot_age_ms=8, max_ref_age_ms=7)
    assert table.refs()["v1"] == SnapshotRef(snapshot_id=second, type="tag", max_ref_age_ms=5)
    assert (ids(table, "older"), ids(table, "audit"), ids(table, "v1"), ids(table)) == ([0], [0, 1], [0, 1], [0, 1, 2])
    table.manage_snapshots().fast_forward("older", "audit").fast_forward("newer", "main").fast_forward("audit", third).commit()
    assert [head(table, name) for name in ("older", "newer", "audit")] == [second, third, third]
    table.manage_snapshots().remove_branch("older").remove_branch("newer").remove_tag("v1").remove_tag("v3").remove_branch("audit").commit()
    assert list(table.refs()) == ["main"]
    assert len(table.snapshots()) == 3


def test_retention_is_set_and_removed(tmp_path: Path) -> None:
    table, (first, _, third) = three_snapshots(tmp_path)
    table.manage_snapshots().create_tag(first, "v1").set_max_ref_age_ms("v1", 11).commit()
    table.manage_snapshots().set_min_snapshots_to_keep("main", 3).set_max_snapshot_age_ms("main", 4).set_max_ref_age_ms("main", 5).commit()
    assert table.refs()["main"] == SnapshotRef(snapshot_id=third, min_snapshots_to_keep=3, max_snapshot_age_ms=4, max_ref_age_ms=5)
    assert table.refs()["v1"].max_ref_age_ms == 11
    table.append(rows(3))
    table.manage_snapshots().set_max_snapshot_age_ms("main", None).rollback_to_snapshot(first).commit()
    assert table.refs()["main"] == SnapshotRef(snapshot_id=first, min_snapshots_to_keep=3, max_ref_age_ms=5)
    versions = len(table.metadata.metadata_log)
    table.manage_snapshots().set_max_snapshot_age_ms("main", None).commit()
    assert len(table.metadata.metadata_log) == versions  # there was no change


def test_a_branch_is_rolled_back_in_its_history_or_set_to_any_snapshot(tmp_path: Path) -> None:
    table, (first, second, third) = three_snapshots(tmp_path)
    times = [snapshot.timestamp_ms for snapshot in table.snapshots()]
    table.manage_snapshots().rollback_to_snapshot(second).commit()
    assert (head(table), ids(table)) == (second, [0, 1])
    table.append(rows(7))
    with pytest.raises(InvalidInputError, match=rf"cannot be rolled back to snapshot {third}: it is not among the ancestors"):
        table.manage_snapshots().rollback_to_snapshot(third)
    table.manage_snapshots().set_current_snapshot(third).commit()
    assert (head(table), table.current_snapshot().snapshot_id, ids(table)) == (third, third, [0, 1, 2])  # type: ignore[union-attr]
    assert [entry.snapshot_id for entry in table.history()][-3:] == [second, table.snapshots()[-1].snapshot_id, third]
    if times[0] < times[1]:
        table.manage_snapshots().rollback_to_timestamp(times[1]).commit()
        assert head(table) == first
    with pytest.raises(NoSuchSnapshotError, match="has no snapshot from before"):
        table.manage_snapshots().rollback_to_timestamp(times[0])
    table.manage_snapshots().create_branch(third, "b").rollback_to_snapshot(first, "b").set_current_snapshot(ref_name="b").commit()
    assert (head(table, "b"), head(table)) == (first, first)
    table.manage_snapshots().set_current_snapshot(third, branch="b").commit()
    assert ids(table, "b") == [0, 1, 2]


WRONG = {
    "the branch main cannot be removed": lambda m, _: m.remove_branch("main"),
    "the branch main cannot be renamed": lambda m, _: m.rename_branch("main", "x"),
    "there is a branch 'main' already": lambda m, s: m.create_tag(s, "main"),
    "there is a tag 'tag' already": lambda m, s: m.create_branch(s, "tag"),
    "there is a branch 'side' already": lambda m, _: m.create_branch("main", "kept").rename_branch("kept", "side"),
    "'tag' is a tag, not a branch": lambda m, _: m.remove_branch("tag"),
    "'side' is a branch, not a tag": lambda m, _: m.remove_tag("side"),
    "is a tag, not a branch": lambda m, s: m.rollback_to_snapshot(s, "tag"),
    "'tag' is a tag, not a bran": lambda m, _: m.fast_forward("tag", "main"),
    "tag, not a branch": lambda m, _: m.replace_branch("tag", "main"),
    "a tag, not a branch": lambda m, s: m.set_current_snapshot(s, branch="tag"),
    "there is no branch 'none'": lambda m, _: m.remove_branch("none"),
    "there is no tag 'none'": lambda m, _: m.remove_tag("none"),
    "there is no branch or tag 'none'": lambda m, _: m.set_max_ref_age_ms("none", 1),
    "no branch 'none'": lambda m, s: m.replace_branch("none", s),
    "the table has no snapshot 17": lambda m, _: m.create_tag(17, "x"),
    "the table has no snapshot 18": lambda m, _: m.set_current_snapshot(18),
    "'' is not a valid name of a branch or tag": lambda m, s: m.create_branch(s, ""),
    "' ' is not a valid name of a branch or tag": lambda m, _: m.rename_branch("side", " "),
    "a tag has no min-snapshots-to-keep": lambda m, _: m.set_min_snapshots_to_keep("tag", 1),
    "a tag has no max-snapshot-age-ms": lambda m, _: m.set_max_snapshot_age_ms("tag", 1),
    "min-snapshots-to-keep is 0; it must be a number of snapshots": lambda m, _: m.set_min_snapshots_to_keep("main", 0),
    "max-snapshot-age-ms is -1; it must be a number of milliseconds": lambda m, _: m.set_max_snapshot_age_ms("main", -1),
    "max-ref-age-ms is True": lambda m, _: m.set_max_ref_age_ms("tag", True),
    "min-snapshots-to-keep is 2147483648": lambda m, s: m.create_branch(s, "x", min_snapshots_to_keep=2**31),
    "max-ref-age-ms is 1.5": lambda m, s: m.create_tag(s, "x", 1.5),
    "exactly one snapshot is required, and none are given": lambda m, _: m.set_current_snapshot(),
    "exactly one snapshot is required, and two are given": lambda m, s: m.set_current_snapshot(s, "tag"),
    "cannot be fast-forwarded to snapshot": lambda m, _: m.fast_forward("main", "tag"),
    "True is not a snapshot id, branch or tag": lambda m, _: m.create_tag(True, "x"),
}


def test_a_violated_rule_is_refused_with_the_expected_and_the_found_state(tmp_path: Path) -> None:
    table, (first, second, _) = three_snapshots(tmp_path)
    table.manage_snapshots().create_tag(first, "tag").create_branch(second, "side").commit()
    before = table.metadata_location
    for message, wrong in WRONG.items():
        manage = table.manage_snapshots().create_tag(first, "never")
        with pytest.raises((InvalidInputError, NoSuchSnapshotError), match=re.escape(message)), manage:
            wrong(manage, first)
    assert load_as_other_writer(tmp_path).metadata_location == before


def test_writes_to_a_tag_or_a_missing_branch_are_refused(tmp_path: Path) -> None:
    table, (first, *_) = three_snapshots(tmp_path)
    table.manage_snapshots().create_tag(first, "tag").commit()
    with pytest.raises(InvalidInputError, match=r"'tag' is a tag of lake\.db\.t: it names one snapshot and takes no writes"):
        table.append(rows(9), branch="tag")
    with pytest.raises(NoSuchSnapshotError, match="has no branch 'none'"):
        table.append(rows(9), branch="none")
    with pytest.raises(InvalidInputError, match="takes no writes"):
        table.manage_snapshots().cherry_pick(first, "tag")


def test_a_branch_of_an_empty_table_gets_an_empty_snapshot(tmp_path: Path) -> None:
    table = make(tmp_path)
    with pytest.raises(NoSuchSnapshotError, match="there is no branch or tag 'main': nothing was written to it yet"):
        table.manage_snapshots().create_tag(tag_name="v0")
    table.manage_snapshots().create_branch(branch_name="audit", max_ref_age_ms=5).commit()
    assert (list(table.refs()), table.refs()["audit"].max_ref_age_ms, ids(table, "audit")) == (["audit"], 5, [])
    table.append(rows(1), branch="audit")
    table.append(rows(2))
    assert (ids(table, "audit"), ids(table)) == ([1], [2])
    assert table.current_snapshot().parent_snapshot_id is None  # type: ignore[union-attr]


def test_a_branch_of_a_table_that_got_rows_concurrently_is_at_the_head_of_main(tmp_path: Path) -> None:
    stale, also_stale = make(tmp_path), load_as_other_writer(tmp_path)
    written = load_as_other_writer(tmp_path).append(rows(1)).snapshot_id
    stale.manage_snapshots().create_branch(branch_name="audit", min_snapshots_to_keep=3).commit()
    table = load_as_other_writer(tmp_path)
    assert [snapshot.snapshot_id for snapshot in table.snapshots()] == [written]
    assert (table.refs()["audit"].snapshot_id, table.refs()["audit"].min_snapshots_to_keep) == (written, 3)
    with pytest.raises(
        CommitConflictError, match=r"the branch 'audit' changed: expected absent, found a branch at snapshot .*: another writer created it"
    ):
        also_stale.manage_snapshots().create_branch(branch_name="audit").commit()
    named = {snapshot.manifest_list for snapshot in table.snapshots()}
    assert {str(path) for path in tmp_path.rglob("snap-*.avro")} == {name.removeprefix("file://") for name in named}


def test_unknown_fields_of_a_ref_are_kept_when_it_moves(tmp_path: Path) -> None:
    table, (first, second, _) = three_snapshots(tmp_path)
    table.manage_snapshots().create_branch(first, "side").commit()
    path = Path(table.metadata_location)
    path.write_text(path.read_text().replace('"type":"branch"', '"type":"branch","owner":"me"'))
    assert '"owner"' in path.read_text()
    table = load_as_other_writer(tmp_path)
    table.manage_snapshots().fast_forward("side", second).set_max_ref_age_ms("side", 3).rename_branch("side", "wing").commit()
    table.append(rows(5), branch="wing")
    assert dict(load_as_other_writer(tmp_path).refs()["wing"].unknown) == {"owner": "me"}


def test_a_change_is_retried_where_the_ref_is_unchanged(tmp_path: Path) -> None:
    table, (first, second, third) = three_snapshots(tmp_path)
    other = load_as_other_writer(tmp_path)
    other.append(rows(3))
    with table.manage_snapshots() as manage:
        manage.create_tag(first, "v1").create_branch(second, "side").set_min_snapshots_to_keep("main", 2)
        load_as_other_writer(tmp_path).append(rows(4))
    assert ids(table) == [0, 1, 2, 3, 4]
    assert (head(table, "v1"), head(table, "side"), table.refs()["main"].min_snapshots_to_keep) == (first, second, 2)
    assert third != head(table)


def test_the_conflict_on_a_ref_that_another_writer_moved_names_that_writer_s_commit(tmp_path: Path) -> None:
    table, (first, second, third) = three_snapshots(tmp_path)
    manage = table.manage_snapshots().rollback_to_snapshot(first)
    written = load_as_other_writer(tmp_path).append(rows(3))
    with pytest.raises(
        CommitConflictError,
        match=rf"'main' changed: expected a branch at snapshot {third}, found a branch at snapshot {written.snapshot_id}: "
        rf"another writer moved it forward to snapshot {written.snapshot_id} \(append",
    ):
        manage.commit()
    assert ids(load_as_other_writer(tmp_path)) == [0, 1, 2, 3]

    table.refresh().manage_snapshots().create_branch(third, "side").create_tag(third, "tag").commit()
    stale = load_as_other_writer(tmp_path)
    table.manage_snapshots().rollback_to_snapshot(first, "side").replace_tag("tag", second).commit()
    with pytest.raises(CommitConflictError, match=f"another writer set it to snapshot {first}"):
        stale.manage_snapshots().remove_branch("side").commit()
    with pytest.raises(CommitConflictError, match="the tag 'tag' changed: expected a tag at snapshot"):
        stale.manage_snapshots().remove_tag("tag").commit()
    table.manage_snapshots().remove_branch("side").commit()
    with pytest.raises(CommitConflictError, match="found absent: another writer removed it"):
        stale.manage_snapshots().fast_forward("side", "main").commit()
    with pytest.raises(CommitConflictError, match="the branch 'side' does not exist any more"):
        stale.append(rows(9), branch="side")
    fresh = load_as_other_writer(tmp_path)
    table.manage_snapshots().create_tag(first, "new").commit()
    with pytest.raises(CommitConflictError, match=r"'new' changed: expected absent, found a tag at snapshot .*another writer created it"):
        fresh.manage_snapshots().create_branch(first, "new").commit()


def test_refs_are_changed_in_a_transaction_with_writes(tmp_path: Path) -> None:
    table, _ = three_snapshots(tmp_path)
    versions = len(table.metadata.metadata_log)
    with table.transaction() as tx:
        tx.manage_snapshots().create_branch(branch_name="audit").commit()
        tx.append(rows(10), branch="audit")
        tx.append(rows(20))
        with tx.manage_snapshots() as manage:
            manage.create_tag("audit", "audited").create_branch("main", "other")
        tx.delete("id = 0", branch="other")
        load_as_other_writer(tmp_path).append(rows(30))
    assert len(table.metadata.metadata_log) == versions + 2
    # The branches were created again on the newer table, where main had moved: the audit branch is where it was created.
    assert ids(table, "audit") == [0, 1, 2, 10]
    assert (ids(table, "audited"), ids(table)) == ([0, 1, 2, 10], [0, 1, 2, 20, 30])


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_transaction_cherry_picks_snapshots_that_it_staged_or_wrote_to_a_branch(tmp_path: Path, version: int) -> None:
    table = make(tmp_path, version, **{"write.wap.enabled": "true"})
    table.append(rows(0))
    table.manage_snapshots().create_branch(branch_name="side").commit()
    versions = len(table.metadata.metadata_log)
    with table.transaction() as tx:
        tx.append(rows(1), {"wap.id": "w1"})
        side = tx.append(rows(2), branch="side").snapshot_id
        tx.append(rows(3))
        tx.manage_snapshots().publish_changes("w1").cherry_pick(side).commit()
        tx.delete("id = 1")
        with pytest.raises(InvalidInputError, match="published it"):
            tx.manage_snapshots().publish_changes("w1")
        load_as_other_writer(tmp_path).append(rows(4))
    assert len(table.metadata.metadata_log) == versions + 2
    assert (ids(table), ids(table, "side")) == ([0, 2, 3, 4], [0, 2])
    # The rows as fastavro and PyArrow read them.
    reader = ReferenceReader(table.io)
    document = reader.document(table.metadata_location)
    found = [row.values[1] for row in reader.rows(document, reader.snapshot(document, head(table)))]
    assert sorted(found) == [0, 2, 3, 4]


def test_a_static_table_refuses_changes_of_refs(tmp_path: Path) -> None:
    table, _ = three_snapshots(tmp_path)
    with pytest.raises(ReadOnlyTableError):
        StaticTable.from_metadata(table.metadata_location).manage_snapshots()


@pytest.mark.parametrize("version", VERSIONS)
def test_an_append_of_another_branch_is_cherry_picked_once(tmp_path: Path, version: int) -> None:
    table, (first, _, third) = three_snapshots(tmp_path, version)
    table.manage_snapshots().create_branch(first, "side").commit()
    picked = table.append(rows(50, 51), branch="side").snapshot_id
    assert picked is not None
    table.manage_snapshots().cherry_pick(picked).commit()
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert (snapshot.parent_snapshot_id, snapshot.summary["source-snapshot-id"], snapshot.operation) == (third, str(picked), "append")
    assert (ids(table), ids(table, "side")) == ([0, 1, 2, 50, 51], [0, 50, 51])
    assert snapshot.summary["total-records"] == "5"
    if version == 3:
        read_rows = table.scan().select("id", "_row_id").to_arrow().to_pylist()
        assert len({row["_row_id"] for row in read_rows}) == 5
    with pytest.raises(InvalidInputError, match=f"snapshot {snapshot.snapshot_id} of the branch picked it already"):
        table.manage_snapshots().cherry_pick(picked)
    with pytest.raises(InvalidInputError, match="it is in the history of the branch already"):
        table.manage_snapshots().cherry_pick(first)
    with pytest.raises(NoSuchSnapshotError):
        table.manage_snapshots().cherry_pick(99)


@pytest.mark.parametrize("version", VERSIONS)
def test_rows_of_an_expired_cherry_pick_are_not_published_twice(tmp_path: Path, version: int) -> None:
    """Cherry-pick a snapshot whose branch still has it, whose earlier cherry-pick is expired, and of whose two files one is live on main."""
    table, (first, *_) = three_snapshots(tmp_path, version)
    table.manage_snapshots().create_branch(first, "side").commit()
    picked = table.append(rows(50, 51), branch="side").snapshot_id or 0
    table.manage_snapshots().cherry_pick(picked).commit()
    pick = head(table)
    table.delete("part = 'b'")
    table.append(rows(60))
    table.expire_snapshots(snapshot_ids=[pick])
    assert (ids(table), pick in {snapshot.snapshot_id for snapshot in table.snapshots()}) == ([0, 2, 50, 60], False)
    before = table.metadata_location
    with pytest.raises(InvalidInputError, match="is live on the branch already, so its rows would be duplicated"):
        table.manage_snapshots().cherry_pick(picked).commit()
    assert load_as_other_writer(tmp_path).metadata_location == before
    table.delete("id = 50")
    table.manage_snapshots().cherry_pick(picked).commit()  # all of its rows were deleted, so no row is published twice
    assert (ids(table), ids(table, "side")) == ([0, 2, 50, 51, 60], [0, 50, 51])


def test_a_cherry_pick_whose_parent_is_the_head_moves_the_branch_to_it(tmp_path: Path) -> None:
    table, (_, second, third) = three_snapshots(tmp_path)
    table.manage_snapshots().create_branch(branch_name="side", min_snapshots_to_keep=4).commit()
    table.delete("id = 1", branch="side")
    count = len(table.snapshots())
    table.manage_snapshots().set_min_snapshots_to_keep("main", 2).cherry_pick(head(table, "side")).commit()
    assert (head(table), len(table.snapshots()), ids(table)) == (head(table, "side"), count, [0, 2])
    assert table.refs()["main"].min_snapshots_to_keep == 2
    table.manage_snapshots().set_current_snapshot(third).rollback_to_snapshot(second).commit()
    with pytest.raises(InvalidInputError, match="its operation is delete and its parent is"):
        table.manage_snapshots().cherry_pick(head(table, "side"))


def test_a_cherry_pick_is_retried_on_the_head_of_another_writer(tmp_path: Path) -> None:
    table, (first, second, _) = three_snapshots(tmp_path)
    table.manage_snapshots().create_branch(first, "side").create_branch(branch_name="next").commit()
    picked = table.append(rows(50), branch="side").snapshot_id
    following = table.delete("id = 1", branch="next").snapshot_id
    assert picked is not None
    assert following is not None
    manage, forward = table.manage_snapshots().cherry_pick(picked), table.manage_snapshots().cherry_pick(following)
    load_as_other_writer(tmp_path).append(rows(60))
    manage.commit()
    assert ids(table) == [0, 1, 2, 50, 60]
    with pytest.raises(CommitInvalidatedError, match="another writer's commit made it so"):
        forward.commit()
    twice = [load_as_other_writer(tmp_path).manage_snapshots().cherry_pick(picked, "next") for _ in range(2)]
    twice[0].commit()
    with pytest.raises(CommitInvalidatedError, match="picked it already; another writer's commit made it so"):
        twice[1].commit()
    assert ids(load_as_other_writer(tmp_path), "next") == [0, 2, 50]
    assert second in {snapshot.snapshot_id for snapshot in table.snapshots()}
