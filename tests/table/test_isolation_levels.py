"""`write.delete.isolation-level` and `write.update.isolation-level`: what a delete or overwrite that lost its race does to what others added and changed."""

from pathlib import Path

import pyarrow as pa
import pytest

from icefloe import SqlCatalog, Table

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string())])
MODES = [("2", "copy-on-write"), ("2", "merge-on-read"), ("3", "copy-on-write"), ("3", "merge-on-read")]


def rows(*ids: int, part: str = "a") -> pa.Table:
    return pa.table({"id": list(ids), "part": [part] * len(ids)}, schema=SCHEMA)


class Two:
    """A table, as two writers hold it: what `winner` commits comes between the plan of `table` and its commit."""

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
@pytest.mark.parametrize(("level", "left"), [("serializable", [0, 10, 11]), ("snapshot", [0, 5, 10, 11])])
def test_rows_that_the_winner_added_are_looked_at_or_not(tmp_path: Path, version: str, mode: str, level: str, left: list[int]) -> None:
    two = Two(tmp_path, version, mode, level)
    two.winner.append(rows(5))
    result = two.table.delete("id > 0 AND id < 10")
    assert (result.attempts, two.ids()) == (2, left)
    assert result.deleted_records == (4 if level == "serializable" else 3)


@pytest.mark.parametrize(("version", "mode"), MODES)
def test_under_snapshot_isolation_a_change_is_planned_again_where_its_files_were_touched(tmp_path: Path, version: str, mode: str) -> None:
    two = Two(tmp_path, version, mode, "snapshot")
    two.winner.delete("id = 3")
    result = two.table.delete("id > 0 AND id < 3")
    assert (result.attempts, two.ids()) == (2, [0, 10, 11])
    two.winner.delete_keys(pa.table({"id": [0]}), ["id"])
    two.table.delete("id = 10")
    assert two.ids() == [11]


@pytest.mark.parametrize("level", ["serializable", "snapshot"])
def test_whole_files_and_overwrites_follow_the_level_too(tmp_path: Path, level: str) -> None:
    two = Two(tmp_path, "3", "merge-on-read", level)
    two.winner.append(rows(12))
    two.table.overwrite(rows(20), "id >= 10")
    assert two.ids() == ([0, 1, 2, 3, 20] if level == "serializable" else [0, 1, 2, 3, 12, 20])


@pytest.mark.parametrize(("update", "delete"), [("snapshot", "serializable"), ("serializable", "snapshot")])
def test_an_overwrite_follows_the_level_of_updates_and_a_delete_that_of_deletes(tmp_path: Path, update: str, delete: str) -> None:
    two = Two(tmp_path, "2", "copy-on-write", update)
    two.table.set_properties({"write.delete.isolation-level": delete})
    two.winner.append(rows(12))
    two.table.overwrite(rows(20), "id >= 10")
    expected = [0, 1, 2, 3, 20] if update == "serializable" else [0, 1, 2, 3, 12, 20]
    assert two.ids() == expected
    two.winner.append(rows(4))
    two.table.delete("id > 0 and id < 5")
    assert (4 in two.ids()) == (delete == "snapshot")


def test_a_change_that_found_nothing_stays_one_that_does_nothing_in_a_transaction(tmp_path: Path) -> None:
    two = Two(tmp_path, "3", "copy-on-write", "snapshot")
    with two.table.transaction() as tx:
        tx.delete("id = 50")
        tx.append(rows(51))
        two.winner.append(rows(50))
    assert two.ids() == [0, 1, 2, 3, 10, 11, 50, 51]


def test_another_schema_or_mode_is_planned_for_again(tmp_path: Path) -> None:
    two = Two(tmp_path, "3", "copy-on-write", "snapshot")
    two.winner.append(rows(5))
    two.winner.set_properties({"write.delete.mode": "merge-on-read"})
    result = two.table.delete("id > 0 AND id < 10")
    assert (two.ids(), result.added_delete_files) == ([0, 10, 11], 1)
