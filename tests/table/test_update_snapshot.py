"""Snapshots of existing files through `table.update_snapshot()`: each operation alone and in a transaction, and its refusals."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from icefloe import CommitInvalidatedError, InvalidInputError, NoSuchSnapshotError, SqlCatalog, Table
from icefloe.errors import InvalidFilterError
from icefloe.operations.available_engines import IN_PROCESS
from icefloe.operations.rows.write_context import write_target
from icefloe.spec.manifest.data_file import DataFile, FileContent
from icefloe.spec.manifest_list.manifest_file import ManifestContent

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string())])


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Return a table of version 3 partitioned by `part`, with a file in `a` (ids 0 to 4) and one in `b` (5 to 9)."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    table = catalog.create_table(
        "db.t", SCHEMA, partition_spec=["part"], properties={"format-version": "3", "write.delete.mode": "merge-on-read"}
    )
    table.append(rows(range(5), "a"))
    table.append(rows(range(5, 10), "b"))
    return table


def rows(ids: range, part: str) -> pa.Table:
    return pa.table({"id": list(ids), "part": [part] * len(ids)}, schema=SCHEMA)


def write_file(table: Table, ids: range, part: str) -> DataFile:
    """Write a data file that no snapshot contains."""
    (file,) = IN_PROCESS.write(rows(ids, part), write_target(table._handle, table.metadata))
    return file


def of(table: Table, part: str) -> DataFile:
    (task,) = table.scan(f"part = '{part}'").plan_files()
    return task.file


def ids(table: Table, **scan: int) -> list[int]:
    return sorted(table.refresh().scan(**scan).to_arrow()["id"].to_pylist())


def head(table: Table) -> int:
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return snapshot.snapshot_id


@pytest.mark.parametrize("operation", ["fast_append", "merge_append"])
def test_files_are_appended_with_given_summary_properties(table: Table, operation: str) -> None:
    update = getattr(table.update_snapshot(snapshot_properties={"who": "me"}), operation)()
    with update.set("why", "test") as change:
        change.append_data_file(write_file(table, range(10, 12), "a")).append_file(write_file(table, range(12, 13), "b"))
    summary = table.refresh().current_snapshot().summary  # type: ignore[union-attr]
    assert (summary["operation"], summary["who"], summary["why"], summary["total-records"]) == ("append", "me", "test", "13")
    assert ids(table) == list(range(13))


def test_files_are_overwritten_by_name_and_by_filter(table: Table) -> None:
    with table.update_snapshot().overwrite() as change:
        change.delete_data_file(of(table, "a")).append_data_file(write_file(table, range(20, 22), "a"))
    assert ids(table) == [*range(5, 10), 20, 21]
    with table.update_snapshot().overwrite() as change:
        change.overwrite_by_row_filter("part = 'b'").add_file(write_file(table, range(30, 31), "b"))
        change.validate_added_files_match_overwrite_filter()
    assert ids(table) == [20, 21, 30]
    assert table.current_snapshot().operation == "overwrite"  # type: ignore[union-attr]


def test_an_added_file_that_may_not_match_the_overwrite_filter_is_refused(table: Table) -> None:
    update = table.update_snapshot().overwrite().overwrite_by_row_filter("id < 5").validate_added_files_match_overwrite_filter()
    update.add_file(write_file(table, range(3, 6), "a"))
    with pytest.raises(InvalidInputError, match="may contain rows that do not match the overwrite filter id < 5"):
        update.commit()
    update = table.update_snapshot().overwrite().overwrite_by_row_filter("id < 5").validate_added_files_match_overwrite_filter()
    update.add_file(write_file(table, range(3, 5), "b")).commit()
    assert ids(table) == [3, 4, 5, 6, 7, 8, 9]


def test_files_are_deleted_by_path_by_value_and_by_filter(table: Table) -> None:
    with table.update_snapshot().delete_files() as change:
        change.delete_file(of(table, "a").file_path).validate_files_exist()
    assert ids(table) == list(range(5, 10))
    table.append(rows(range(5), "a"))
    with table.refresh().update_snapshot().delete_files() as change:
        change.delete_file(of(table, "b")).delete_from_row_filter("id < 3 OR part = 'a'")
    assert ids(table) == []
    assert table.current_snapshot().operation == "delete"  # type: ignore[union-attr]


def test_a_file_in_which_only_some_rows_match_is_not_deleted(table: Table) -> None:
    before = head(table)
    with pytest.raises(InvalidInputError, match="cannot delete file where some, but not all, rows match id < 3") as error:
        table.update_snapshot().delete_files().delete_from_row_filter("id < 3").commit()
    assert error.value.path == of(table, "a").file_path
    assert head(table.refresh()) == before


def test_a_filter_that_matches_no_file_commits_no_snapshot(table: Table) -> None:
    before = head(table)
    table.update_snapshot().delete_files().delete_from_row_filter("id > 100").commit()
    assert head(table.refresh()) == before


def test_delete_files_are_removed_with_the_files_that_a_filter_deletes(table: Table) -> None:
    table.delete("id = 1")
    table.delete_keys(pa.table({"id": [2], "part": ["a"]}), ["id", "part"])
    table.update_snapshot().delete_files().delete_from_row_filter("part = 'a'").commit()
    summary = table.refresh().current_snapshot().summary  # type: ignore[union-attr]
    assert (summary["removed-dvs"], summary["total-delete-files"], summary["total-data-files"]) == ("1", "0", "1")
    assert summary["removed-equality-delete-files"] == "1"


def test_partitions_are_replaced(table: Table) -> None:
    table.delete("id = 1")
    with table.update_snapshot().replace_partitions() as change:
        change.add_file(write_file(table, range(40, 42), "a")).append_data_file(write_file(table, range(42, 43), "c"))
    assert ids(table) == [5, 6, 7, 8, 9, 40, 41, 42]
    summary = table.current_snapshot().summary  # type: ignore[union-attr]
    assert (summary["operation"], summary["replace-partitions"], summary["removed-dvs"]) == ("overwrite", "true", "1")
    update = table.update_snapshot().replace_partitions().validate_append_only().add_file(write_file(table, range(1), "a"))
    with pytest.raises(CommitInvalidatedError, match="a partition that must be empty has files already"):
        update.commit()


def vector_of(table: Table, part: str, row: int) -> DataFile:
    """Return a deletion vector that a removed branch wrote, so that its file exists."""
    name = f"for-{part}-{row}"
    table.manage_snapshots().create_branch(head(table), name).commit()
    table.delete(f"id = {row}", branch=name)
    snapshot = table.snapshot_by_name(name)
    assert snapshot is not None
    made = [
        entry.data_file
        for manifest in snapshot.manifests(table.io)
        if manifest.content is ManifestContent.DELETES
        for entry in manifest.fetch_manifest_entry(table.io)
        if entry.data_file.referenced_data_file == of(table, part).file_path
    ]
    return made[0]


def test_a_row_delta_adds_rows_and_deletes(table: Table) -> None:
    vector = vector_of(table, "a", 1)
    with table.update_snapshot().row_delta() as change:
        change.add_rows(write_file(table, range(50, 51), "b")).add_deletes(vector).validate_from_snapshot(head(table))
        change.validate_data_files_exist([of(table, "a").file_path]).validate_deleted_files().validate_no_conflicting_delete_files()
    assert ids(table) == [0, 2, 3, 4, 5, 6, 7, 8, 9, 50]
    with table.update_snapshot().row_delta() as change:
        change.remove_deletes(vector).remove_rows(of(table, "a"))
    assert ids(table) == [5, 6, 7, 8, 9, 50]


def test_a_rewrite_keeps_rows_and_their_sequence_number(table: Table) -> None:
    old, before = of(table, "a"), head(table)
    with table.update_snapshot().rewrite_files() as change:
        change.delete_file(old).add_file(write_file(table, range(5), "a")).validate_from_snapshot(before).data_sequence_number(1)
    assert ids(table) == list(range(10))
    assert table.current_snapshot().operation == "replace"  # type: ignore[union-attr]
    with pytest.raises(InvalidInputError, match="is added, and no data file is removed"):
        table.update_snapshot().rewrite_files().add_file(write_file(table, range(1), "a")).commit()
    with pytest.raises(InvalidInputError, match="a rewrite removes files"):
        table.update_snapshot().rewrite_files().commit()


def test_several_operations_in_one_transaction_see_each_other(table: Table) -> None:
    new = write_file(table, range(60, 62), "a")
    with table.transaction() as tx:
        tx.update_snapshot().fast_append().append_file(new).commit()
        with tx.update_snapshot().delete_files() as change:
            change.delete_file(new)
        with tx.update_snapshot().replace_partitions() as replaced:
            replaced.add_file(write_file(table, range(70, 71), "b"))
        tx.dynamic_partition_overwrite(rows(range(80, 82), "a"))
    assert ids(table) == [70, 80, 81]
    assert len(table.metadata.snapshots) == 6


def test_a_staged_snapshot_changes_no_branch(table: Table) -> None:
    before = head(table)
    table.update_snapshot().fast_append().append_file(write_file(table, range(90, 91), "a")).stage_only().commit()
    table.refresh()
    assert head(table) == before
    (staged,) = [snapshot for snapshot in table.metadata.snapshots if snapshot.parent_snapshot_id == before]
    assert ids(table, snapshot_id=staged.snapshot_id)[-1] == 90


def test_a_snapshot_is_committed_to_a_branch(table: Table) -> None:
    table.manage_snapshots().create_branch(head(table), "side").commit()
    table.update_snapshot(branch="side").delete_files().delete_file(of(table, "a")).commit()
    assert ids(table) == list(range(10))
    assert len(table.scan().use_ref("side").to_arrow()) == 5


def test_invalid_files_are_refused_by_the_call_that_adds_them(table: Table) -> None:
    file = write_file(table, range(1), "a")
    append = table.update_snapshot().fast_append()
    with pytest.raises(InvalidInputError, match=r"is of partition spec 7, which lake\.db\.t does not have; it has 0"):
        append.append_file(replace(file, spec_id=7))
    with pytest.raises(InvalidInputError, match=r"has 0 partition values, and spec 0 of lake\.db\.t has 1 fields"):
        append.append_file(replace(file, partition=()))
    with pytest.raises(InvalidInputError, match="contains EQUALITY_DELETES; DATA is required here"):
        append.append_file(replace(file, content=FileContent.EQUALITY_DELETES, equality_ids=(1,)))
    append.append_file(file)
    with pytest.raises(InvalidInputError, match="is listed twice"):
        append.append_file(file)
    with pytest.raises(InvalidInputError, match="is listed twice"):
        table.update_snapshot().overwrite().delete_file(file).add_file(file)
    with pytest.raises(InvalidInputError, match="no position delete files are added"):
        table.update_snapshot().row_delta().add_deletes(replace(file, content=FileContent.POSITION_DELETES))
    with pytest.raises(InvalidInputError, match="EQUALITY_DELETES; DATA or POSITION_DELETES is required"):
        table.update_snapshot().rewrite_files().add_file(replace(file, content=FileContent.EQUALITY_DELETES, equality_ids=(1,)))
    with pytest.raises(NoSuchSnapshotError, match="has no snapshot 5, from which this change is to be checked"):
        table.update_snapshot().row_delta().validate_from_snapshot(5)
    with pytest.raises(InvalidFilterError):
        table.update_snapshot().delete_files().delete_from_row_filter("missing = 1")
    with pytest.raises(InvalidInputError, match="exactly one partition spec; there is none"):
        table.update_snapshot().replace_partitions().commit()


def test_a_commit_that_deletes_a_missing_file_is_refused_and_keeps_its_new_file(table: Table) -> None:
    old, new = of(table, "a"), write_file(table, range(1), "a")
    update = table.update_snapshot().overwrite().delete_file(old).add_file(new)
    table.delete("part = 'a'")
    removed_by = head(table)
    with pytest.raises(CommitInvalidatedError, match=f"removed by snapshot {removed_by} \\(delete\\)") as error:
        update.commit()
    assert (error.value.snapshot_id, error.value.path) == (removed_by, old.file_path)
    assert "a retry will fail again" in (error.value.next_step or "")
    assert table.io.read(new.file_path)  # the new file belongs to the caller


# ---- rows that replace their partitions ----


def test_a_dynamic_partition_overwrite_replaces_the_partitions_of_its_rows(table: Table) -> None:
    table.delete("id = 1")
    result = table.dynamic_partition_overwrite(rows(range(100, 103), "a"), {"who": "me"})
    assert ids(table) == [5, 6, 7, 8, 9, 100, 101, 102]
    assert (result.operation, result.added_records, result.removed_files, result.deleted_records) == ("overwrite", 3, 1, 4)
    assert table.current_snapshot().summary["who"] == "me"  # type: ignore[union-attr]
    assert table.dynamic_partition_overwrite(rows(range(0), "a")).snapshot_id is None


def test_a_retried_partition_overwrite_replaces_concurrently_added_files_too(table: Table) -> None:
    stale = table.refresh()
    other = SqlCatalog("lake", uri=f"sqlite:///{table.location().rsplit('/', 2)[0]}/catalog.db").load_table("db.t")
    other.append(rows(range(200, 202), "a"))
    other.append(rows(range(300, 301), "b"))
    result = stale.dynamic_partition_overwrite(rows(range(100, 101), "a"))
    assert result.attempts == 2
    assert ids(table) == [5, 6, 7, 8, 9, 100, 300]


def test_an_unpartitioned_table_refuses_a_partition_overwrite(table: Table) -> None:
    with table.update_spec() as spec:
        spec.remove_field("part")
    with pytest.raises(InvalidInputError, match="is not partitioned"):
        table.dynamic_partition_overwrite(rows(range(1), "a"))
