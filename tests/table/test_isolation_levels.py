"""`write.delete.isolation-level` and `write.update.isolation-level`: the effect of a retried delete or overwrite on rows of concurrent commits."""

from pathlib import Path

import pyarrow as pa
import pytest

from icefloe import SqlCatalog, Table

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string())])
MODES = [("2", "copy-on-write"), ("2", "merge-on-read"), ("3", "copy-on-write"), ("3", "merge-on-read")]


def rows(*ids: int, part: str = "a") -> pa.Table:
    return pa.table({"id": list(ids), "part": [part] * len(ids)}, schema=SCHEMA)


class TwoWriters:
    """A table loaded by two writers: commits of `winner` are between the plan of `table` and its commit."""

    def __init__(self, folder: Path, version: str, mode: str, level: str) -> None:
        self.catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder))
        self.catalog.create_namespace("db")
        properties = {
            "format-version": version,
            "write.delete.mode": mode,
            "write.delete.isolation-level": level,
            "write.update.isolation-level": level,
            "commit.retry.min-wait-ms": "1",
        }
        self.table = self.catalog.create_table("db.t", SCHEMA, properties=properties)
        self.table.append(rows(0, 1, 2, 3))
        self.table.append(rows(10, 11))

    @property
    def winner(self) -> Table:
        return self.catalog.load_table("db.t")

    def ids(self) -> list[int]:
        return sorted(self.table.refresh().scan().to_arrow()["id"].to_pylist())


@pytest.mark.parametrize(("version", "mode"), MODES)
@pytest.mark.parametrize(("level", "remaining_ids"), [("serializable", [0, 10, 11]), ("snapshot", [0, 5, 10, 11])])
def test_a_retried_delete_deletes_concurrently_added_rows_only_if_serializable(
    tmp_path: Path, version: str, mode: str, level: str, remaining_ids: list[int]
) -> None:
    writers = TwoWriters(tmp_path, version, mode, level)
    writers.winner.append(rows(5))
    result = writers.table.delete("id > 0 AND id < 10")
    assert (result.attempts, writers.ids()) == (2, remaining_ids)
    assert result.deleted_records == (4 if level == "serializable" else 3)


@pytest.mark.parametrize(("version", "mode"), MODES)
def test_under_snapshot_isolation_a_change_is_planned_again_if_its_files_were_changed(tmp_path: Path, version: str, mode: str) -> None:
    writers = TwoWriters(tmp_path, version, mode, "snapshot")
    writers.winner.delete("id = 3")
    result = writers.table.delete("id > 0 AND id < 3")
    assert (result.attempts, writers.ids()) == (2, [0, 10, 11])
    writers.winner.delete_keys(pa.table({"id": [0]}), ["id"])
    writers.table.delete("id = 10")
    assert writers.ids() == [11]


@pytest.mark.parametrize("level", ["serializable", "snapshot"])
def test_whole_file_deletes_and_overwrites_depend_on_the_level_too(tmp_path: Path, level: str) -> None:
    writers = TwoWriters(tmp_path, "3", "merge-on-read", level)
    writers.winner.append(rows(12))
    writers.table.overwrite(rows(20), "id >= 10")
    assert writers.ids() == ([0, 1, 2, 3, 20] if level == "serializable" else [0, 1, 2, 3, 12, 20])


@pytest.mark.parametrize(("update", "delete"), [("snapshot", "serializable"), ("serializable", "snapshot")])
def test_an_overwrite_has_the_level_of_updates_and_a_delete_that_of_deletes(tmp_path: Path, update: str, delete: str) -> None:
    writers = TwoWriters(tmp_path, "2", "copy-on-write", update)
    writers.table.set_properties({"write.delete.isolation-level": delete})
    writers.winner.append(rows(12))
    writers.table.overwrite(rows(20), "id >= 10")
    expected = [0, 1, 2, 3, 20] if update == "serializable" else [0, 1, 2, 3, 12, 20]
    assert writers.ids() == expected
    writers.winner.append(rows(4))
    writers.table.delete("id > 0 and id < 5")
    assert (4 in writers.ids()) == (delete == "snapshot")


def test_a_change_in_a_transaction_that_matched_no_row_does_nothing_after_a_conflict(tmp_path: Path) -> None:
    writers = TwoWriters(tmp_path, "3", "copy-on-write", "snapshot")
    with writers.table.transaction() as tx:
        tx.delete("id = 50")
        tx.append(rows(51))
        writers.winner.append(rows(50))
    assert writers.ids() == [0, 1, 2, 3, 10, 11, 50, 51]


def test_a_change_is_planned_again_after_a_concurrent_change_of_schema_or_mode(tmp_path: Path) -> None:
    writers = TwoWriters(tmp_path, "3", "copy-on-write", "snapshot")
    writers.winner.append(rows(5))
    writers.winner.set_properties({"write.delete.mode": "merge-on-read"})
    result = writers.table.delete("id > 0 AND id < 10")
    assert (writers.ids(), result.added_delete_files) == ([0, 10, 11], 1)
