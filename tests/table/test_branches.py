"""Writes to and reads of branches other than `main`; staged writes; the writer that a snapshot summary names."""

from pathlib import Path

import pyarrow as pa
import pytest

import icefloe
from icefloe import CommitConflictError, CommitInvalidatedError, InvalidInputError, NoSuchSnapshotError, SqlCatalog
from icefloe.commit.metadata_change import MetadataChange
from icefloe.spec.metadata.snapshot_updates import RemoveSnapshots
from icefloe.table import Table, write_audit_publish

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string())])
WAP = {"write.wap.enabled": "true"}


def rows(*numbers: int) -> pa.Table:
    return pa.Table.from_pylist([{"id": n, "part": "ab"[n % 2]} for n in numbers], schema=SCHEMA)


def make(folder: Path, version: int = 3, **properties: str) -> Table:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder))
    catalog.create_namespace_if_not_exists("db")
    settings = {"format-version": str(version), "commit.retry.min-wait-ms": "1", **properties}
    return catalog.create_table("db.t", SCHEMA, partition_spec=["part"], properties=settings)


def load_again(folder: Path) -> Table:
    return SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder)).load_table("db.t")


def ids(table: Table, branch: str | None = None) -> list[int]:
    return sorted(table.scan(branch=branch).to_arrow()["id"].to_pylist())


@pytest.mark.parametrize(
    ("version", "mode"), [(1, "copy-on-write"), (2, "copy-on-write"), (2, "merge-on-read"), (3, "copy-on-write"), (3, "merge-on-read")]
)
def test_every_write_changes_only_its_branch(tmp_path: Path, version: int, mode: str) -> None:
    table = make(tmp_path, version, **{"write.delete.mode": mode})
    table.append(rows(*range(6)))
    table.manage_snapshots().create_branch(branch_name="side").create_tag(tag_name="start").commit()
    table.append(rows(10, 11), branch="side")
    table.append(rows(20), branch="main")
    table.delete("id in (1, 10)", branch="side")
    table.overwrite(rows(30), "id = 2", branch="side")
    if version > 1:
        table.delete_keys(pa.table({"id": [3]}), ["id"], branch="side")
        assert ids(table, "side") == [0, 4, 5, 11, 30]
    else:
        table.delete("id = 3", branch="side")
    table.delete("id = 0")
    side, main = [0, 4, 5, 11, 30], [1, 2, 3, 4, 5, 20]
    assert (ids(table, "side"), ids(table), ids(table, "start")) == (side, main, [0, 1, 2, 3, 4, 5])
    assert (table.scan(branch="side").count(), table.scan("id > 4", branch="side").count(), table.scan().count()) == (5, 3, 6)
    paths = {task.file.file_path for task in table.scan(branch="side").plan_files()}
    assert paths != {task.file.file_path for task in table.scan().plan_files()}
    numbers = [snapshot.sequence_number for snapshot in table.snapshots()]
    assert numbers == ([0] * 7 if version == 1 else list(range(1, 8)))
    if version == 3:
        side_rows = table.scan(branch="side").select("id", "_row_id").to_arrow().to_pylist()
        main_rows = table.scan().select("id", "_row_id").to_arrow().to_pylist()
        assert len({row["_row_id"] for row in side_rows}) == 5
        assert {row["id"] for row in side_rows if row["_row_id"] in {other["_row_id"] for other in main_rows}} == {4, 5}
    with pytest.raises(InvalidInputError, match=r"both snapshot .* and branch 'side' are named"):
        table.scan(snapshot_id=table.snapshots()[0].snapshot_id, branch="side")


def test_a_transaction_writes_to_several_branches_in_one_table_version(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.append(rows(0, 1))
    table.manage_snapshots().create_branch(branch_name="a").create_branch(branch_name="b").commit()
    versions = len(table.metadata.metadata_log)
    with table.transaction() as tx:
        tx.append(rows(10), branch="a")
        tx.append(rows(20), branch="b")
        tx.delete("id = 0", branch="a")
        tx.append(rows(30))
        load_again(tmp_path).append(rows(40), branch="b")
    assert len(table.metadata.metadata_log) == versions + 2
    assert (ids(table, "a"), ids(table, "b"), ids(table)) == ([1, 10], [0, 1, 20, 40], [0, 1, 30])
    found = [row for name in ("a", "b", "main") for row in table.scan(branch=name).select("id", "_row_id").to_arrow().to_pylist()]
    assert len({row["_row_id"] for row in found}) == len({row["id"] for row in found}) == 6
    assert [snapshot.sequence_number for snapshot in table.snapshots()] == [1, 2, 3, 4, 5, 6]


def test_time_travel_on_a_branch_uses_its_ancestors(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.append(rows(0))
    table.manage_snapshots().create_branch(branch_name="side").commit()
    table.append(rows(1))
    table.append(rows(2), branch="side")
    table.append(rows(3), branch="side")
    first, _, second, third = table.snapshots()
    assert [entry.snapshot_id for entry in table.history("side")] == [first.snapshot_id, second.snapshot_id, third.snapshot_id]
    assert [found.snapshot_id for found in table.ancestors("side")] == [third.snapshot_id, second.snapshot_id, first.snapshot_id]
    assert [found.snapshot_id for found in table.ancestors(second.snapshot_id)] == [second.snapshot_id, first.snapshot_id]
    assert [found.snapshot_id for found in table.ancestors()] == [table.metadata.current_snapshot_id, first.snapshot_id]
    on_side = table.scan(branch="side")
    if second.timestamp_ms < third.timestamp_ms:
        assert sorted(on_side.as_of(second.timestamp_ms).to_arrow()["id"].to_pylist()) == [0, 2]
    assert sorted(on_side.as_of(third.timestamp_ms).to_arrow()["id"].to_pylist()) == [0, 2, 3]
    assert sorted(table.scan(branch="main").as_of(third.timestamp_ms).to_arrow()["id"].to_pylist()) == [0, 1]
    with pytest.raises(
        NoSuchSnapshotError,
        match=r"the branch 'side' of lake\.db\.t had no snapshot at 5 ms \(1970-01-01T00:00:00\.005\+00:00\)\n.*begins at \d+ ms \(20\d\d-",
    ):
        on_side.as_of(5)
    table.manage_snapshots().set_current_snapshot(third.snapshot_id).commit()
    table.apply(MetadataChange(lambda _: (RemoveSnapshots((first.snapshot_id,)),), ()))
    assert [found.snapshot_id for found in table.ancestors("side")] == [third.snapshot_id, second.snapshot_id]
    assert table.ancestors("side")[-1].parent_snapshot_id == first.snapshot_id
    with pytest.raises(NoSuchSnapshotError, match=f"what was before it, snapshot {first.snapshot_id}, was expired"):
        table.scan(branch="side").as_of(5)
    with pytest.raises(NoSuchSnapshotError, match="there is no branch or tag 'none'"):
        table.history("none")


def test_a_write_under_a_wap_id_is_staged_and_published_once(tmp_path: Path) -> None:
    table = make(tmp_path, **WAP)
    table.append(rows(0))
    head = table.refs()["main"].snapshot_id
    staged = table.append(rows(1), snapshot_properties={"wap.id": "w1"}).snapshot_id
    with write_audit_publish(wap_id="w2"):
        table.append(rows(2))
    assert (ids(table), table.refs()["main"].snapshot_id, len(table.history())) == ([0], head, 1)
    assert sorted(table.scan(snapshot_id=staged).to_arrow()["id"].to_pylist()) == [0, 1]
    with pytest.raises(InvalidInputError, match="the wap id 'w1' must be new, but snapshot"):
        table.append(rows(9), snapshot_properties={"wap.id": "w1"})
    table.manage_snapshots().publish_changes("w1").commit()
    assert (ids(table), table.refs()["main"].snapshot_id) == ([0, 1], staged)  # its parent was the head
    table.manage_snapshots().publish_changes("w2").commit()
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert (ids(table), snapshot.summary["published-wap-id"], "wap.id" in snapshot.summary) == ([0, 1, 2], "w2", False)
    for wap_id in ("w1", "w2"):
        with pytest.raises(InvalidInputError, match="was to be published once, and snapshot"):
            table.manage_snapshots().publish_changes(wap_id)
    with pytest.raises(NoSuchSnapshotError, match="no snapshot was staged with the wap id 'none'"):
        table.manage_snapshots().publish_changes("none")


def test_two_writers_of_one_wap_id_stage_one_snapshot(tmp_path: Path) -> None:
    table = make(tmp_path, **WAP)
    table.append(rows(0))
    tx = table.transaction()
    tx.append(rows(1), snapshot_properties={"wap.id": "w"})
    load_again(tmp_path).append(rows(2), snapshot_properties={"wap.id": "w"})
    with pytest.raises(CommitInvalidatedError, match="the wap id 'w' must be new"):
        tx.commit_transaction()
    assert len(load_again(tmp_path).snapshots()) == 2


def test_writes_and_reads_use_the_wap_branch(tmp_path: Path) -> None:
    table = make(tmp_path, **WAP)
    table.append(rows(0))
    table.manage_snapshots().create_branch(branch_name="other").create_tag(tag_name="tag").commit()
    with write_audit_publish(branch="audit"):
        assert ids(table) == [0]
        table.append(rows(1))
        table.delete("id = 0")
        with table.transaction() as tx:
            tx.append(rows(2))
        assert ids(table) == [1, 2]
        assert sorted(table.scan(snapshot_id=table.refs()["main"].snapshot_id).to_arrow()["id"].to_pylist()) == [0]
        with pytest.raises(InvalidInputError, match="both are set: the wap id 'w' and the branch 'audit'"):
            table.append(rows(3), snapshot_properties={"wap.id": "w"})
        table.append(rows(3), branch="other")
        table.append(rows(4), branch="other", snapshot_properties={"wap.id": "w"})
    assert (ids(table), ids(table, "audit"), ids(table, "other")) == ([0], [1, 2], [0, 3])
    assert [found.operation for found in table.ancestors("audit")] == ["append", "delete", "append", "append"]
    with write_audit_publish(branch="tag"), pytest.raises(InvalidInputError, match="takes no writes"):
        table.append(rows(3))
    table.manage_snapshots().fast_forward("main", "audit").commit()
    assert ids(table) == [1, 2]
    with pytest.raises(InvalidInputError, match="the id is None and the branch None"), write_audit_publish():
        pass


def test_a_table_without_write_wap_enabled_refuses_staged_writes(tmp_path: Path) -> None:
    table = make(tmp_path)
    with pytest.raises(InvalidInputError, match=r"its property write\.wap\.enabled is not true"):
        table.append(rows(1), snapshot_properties={"wap.id": "w"})
    with write_audit_publish(branch="audit"), pytest.raises(InvalidInputError, match="was to be staged to the branch 'audit'"):
        table.append(rows(1))
    assert table.snapshots() == []


def test_a_branch_created_by_a_write_includes_rows_committed_to_main_concurrently(tmp_path: Path) -> None:
    table = make(tmp_path, **WAP)
    table.append(rows(0))
    with write_audit_publish(branch="audit"):
        tx = table.transaction()
        tx.append(rows(1))
        load_again(tmp_path).append(rows(2))
        tx.commit_transaction()
    assert ids(table, "audit") == [0, 1, 2]


def test_a_write_to_a_branch_that_became_a_tag_is_a_conflict(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.append(rows(0))
    table.manage_snapshots().create_branch(branch_name="side").commit()
    stale = load_again(tmp_path)
    table.manage_snapshots().remove_branch("side").create_tag(tag_name="side").commit()
    with pytest.raises(CommitConflictError, match="the branch 'side' is a tag now"):
        stale.append(rows(1), branch="side")


def test_every_snapshot_summary_names_its_writer(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.append(rows(0, 1), {"engine-name": "mine", "app-id": "a-1", "note": "x"})
    table.delete("id = 0")
    table.overwrite(rows(5), "id = 1")
    table.delete_keys(pa.table({"id": [5]}), ["id"])
    table.manage_snapshots().create_branch(branch_name="side").commit()
    picked = table.append(rows(6), branch="side").snapshot_id
    table.append(rows(7))
    table.manage_snapshots().cherry_pick(picked or 0).commit()
    known = {"engine-name": "icefloe", "engine-version": icefloe.__version__, "iceberg-version": f"Icefloe {icefloe.__version__}"}
    assert len(table.snapshots()) == 7
    for snapshot in table.snapshots():
        assert known.items() <= dict(snapshot.summary).items()
    first = table.snapshots()[0].summary
    assert (first["note"], first["app-id"]) == ("x", "a-1")
