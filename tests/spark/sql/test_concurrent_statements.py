"""Row-level statements with concurrent commits, and statements that fail or are killed: one commit wins, the other is retried or refused as a whole."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import IllegalArgumentException, PySparkException
from pyspark.sql import SparkSession
from tests.combinations import combinations, repetitions
from tests.spark.sql.conftest import Run, append, stored

from icefloe import SqlCatalog
from icefloe.procedures import call
from icefloe.spark.attach_catalog import attach
from icefloe.spark.row_level import operation

pytestmark = pytest.mark.spark

FORMS = [("copy-on-write", 2), ("merge-on-read", 2), ("merge-on-read", 3)]
Meanwhile = str | Callable[[], object]

MERGE = "MERGE INTO lake.db.t t USING (SELECT {} AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = t.v + 1 WHEN NOT MATCHED THEN INSERT (id) VALUES (-1)"


def made(lake: SqlCatalog, mode: str, level: str, version: int = 2) -> None:
    properties = {
        f"write.{one}.{name}": value
        for one in ("update", "merge", "delete")
        for name, value in (("mode", mode), ("isolation-level", level))
    }
    schema = pa.schema([("id", pa.int64()), ("k", pa.string()), ("v", pa.int64())])
    lake.create_table("db.t", schema, partition_spec=["k"], properties={"format-version": str(version), **properties})
    append(lake, [(number, "ab"[number % 2], 0) for number in range(10)])


def changed(lake: SqlCatalog) -> list[int]:
    return [number for number, v in stored(lake, "id", "v") if v == 1]


def data_files(folder: Path) -> set[str]:
    return {path.name for path in (folder / "warehouse").rglob("*") if path.suffix in (".parquet", ".puffin")}


@pytest.fixture
def other(spark: SparkSession, lake: SqlCatalog, monkeypatch: pytest.MonkeyPatch) -> list[Meanwhile]:
    """What another session does after the next statement has written its rows and before it commits them: statements, and functions."""
    session, told = spark.newSession(), list[Meanwhile]()
    attach(session, "lake", SqlCatalog("lake", **lake.properties))
    commit = operation.commit

    def after_others(*arguments: Any) -> Any:
        while told:
            next_one = told.pop()
            session.sql(next_one) if isinstance(next_one, str) else next_one()
        return commit(*arguments)

    monkeypatch.setattr(operation, "commit", after_others)
    return told


@pytest.mark.parametrize(("mode", "version"), repetitions(FORMS, FORMS[0], FORMS[1]))
def test_concurrent_changes_of_different_files_are_both_committed(
    sql: Run, lake: SqlCatalog, other: list[Meanwhile], mode: str, version: int
) -> None:
    made(lake, mode, "snapshot", version)
    other.append(MERGE.format(2))
    sql(MERGE.format(3))
    assert changed(lake) == [2, 3]
    assert len(lake.load_table("db.t").snapshots()) == 3


@pytest.mark.parametrize(("mode", "version"), repetitions(FORMS, FORMS[0], FORMS[2]))
def test_a_concurrent_change_of_the_same_file_is_refused_and_leaves_no_file(
    sql: Run, lake: SqlCatalog, tmp_path: Path, other: list[Meanwhile], mode: str, version: int
) -> None:
    made(lake, mode, "snapshot", version)
    other.append(MERGE.format(1))
    with pytest.raises(IllegalArgumentException, match=r"conflicts with this commit|no longer"):
        sql(MERGE.format(3))
    assert changed(lake) == [1]
    after = data_files(tmp_path)
    sql(MERGE.format(3))
    assert changed(lake) == [1, 3]
    # The copy, which holds the new row; or a file of the new row, and the delete file.
    assert len(data_files(tmp_path) - after) == (1 if mode == "copy-on-write" else 2)


def test_rows_added_meanwhile_conflict_with_a_serializable_statement_that_would_match_them(
    sql: Run, lake: SqlCatalog, other: list[Meanwhile]
) -> None:
    made(lake, "merge-on-read", "serializable")
    other.append(lambda: append(lake, [(100, "b", 0)]))
    with pytest.raises(IllegalArgumentException, match="no added data files that may hold"):
        sql("UPDATE lake.db.t SET v = 5 WHERE k = 'b' AND id % 3 = 0")
    other.append(lambda: append(lake, [(100, "b", 0)]))
    sql("UPDATE lake.db.t SET v = 5 WHERE k = 'a' AND id % 3 = 0")
    assert Counter(v for _, v in stored(lake, "id", "v")) == {0: 10, 5: 2}


def replace_files(lake: SqlCatalog) -> None:
    call(lake, "rewrite_data_files", table="db.t", options={"rewrite-all": "true"})


# Statements, and the ids of the rows that each changes.
CHANGING = {
    MERGE.format(3): {3},
    "UPDATE lake.db.t SET v = v + 1 WHERE id IN (SELECT id FROM lake.db.t WHERE id < 4)": {0, 1, 2, 3},
    "DELETE FROM lake.db.t WHERE id % 3 = 1": {1, 4, 7},
    "WITH s AS (SELECT id, uuid() AS token FROM range(5)) MERGE INTO lake.db.t t USING s ON t.id = s.id"
    " WHEN MATCHED AND s.token IS NOT NULL THEN UPDATE SET v = t.v + 1": {0, 1, 2, 3, 4},
}


@pytest.mark.parametrize(
    ("statement", "mode", "version"),
    [
        # The default run has the other MERGE, whose source is random too.
        pytest.param(*chosen.values[:1], *chosen.values[1], marks=pytest.mark.slow if chosen.values[0] == MERGE.format(3) else chosen.marks)
        for chosen in combinations(list(CHANGING), [("copy-on-write", 2), ("merge-on-read", 2), ("merge-on-read", 3)])
    ],
)
def test_a_statement_whose_files_a_compaction_replaced_meanwhile_runs_again(
    sql: Run, lake: SqlCatalog, other: list[Meanwhile], statement: str, mode: str, version: int
) -> None:
    made(lake, mode, "serializable", version)
    lake.load_table("db.t").delete("id = 9")
    append(lake, [(9, "b", 0)])
    other.append(lambda: replace_files(lake))
    counts = sql(statement)
    assert not other
    ids = CHANGING[statement]
    left = set(range(10)) - ids if statement.startswith("DELETE") else set(range(10))
    assert stored(lake, "id", "k", "v") == [(number, "ab"[number % 2], int(number in ids)) for number in sorted(left)]
    operations = [snapshot.operation for snapshot in lake.load_table("db.t").snapshots()]
    assert operations[-2:] in (["replace", "overwrite"], ["replace", "delete"])
    assert counts[0][0] == len(ids)


@pytest.mark.parametrize("version", repetitions([2, 3], 3))
def test_a_statement_whose_files_got_converted_deletes_meanwhile_runs_again(
    sql: Run, lake: SqlCatalog, other: list[Meanwhile], version: int
) -> None:
    made(lake, "merge-on-read", "serializable", version)
    lake.load_table("db.t").delete_keys(pa.table({"id": [8, 9]}), ["id"])
    other.append(lambda: call(lake, "convert_equality_deletes", table="db.t"))
    sql("UPDATE lake.db.t SET v = v + 1 WHERE id IN (2, 3, 8)")
    assert not other
    assert changed(lake) == [2, 3]
    assert len(stored(lake, "id")) == 8
    snapshots = lake.load_table("db.t").snapshots()
    assert [snapshot.operation for snapshot in snapshots[-2:]] == ["delete", "overwrite"]


@pytest.mark.parametrize("version", repetitions([2, 3], 3))
def test_a_statement_whose_deletes_were_merged_meanwhile_runs_again(
    sql: Run, lake: SqlCatalog, other: list[Meanwhile], version: int
) -> None:
    made(lake, "merge-on-read", "serializable", version)
    for number in (9, 8):
        lake.load_table("db.t").delete(f"id = {number}")
    other.append(lambda: call(lake, "rewrite_position_delete_files", table="db.t", options={"rewrite-all": "true"}))
    sql("UPDATE lake.db.t SET v = v + 1 WHERE id IN (2, 3, 8)")
    assert not other
    assert changed(lake) == [2, 3]
    assert len(stored(lake, "id")) == 8
    snapshots = lake.load_table("db.t").snapshots()
    assert [snapshot.operation for snapshot in snapshots[-2:]] == ["replace", "overwrite"]


def test_a_statement_that_a_compaction_overtakes_each_time_is_refused_at_last_and_leaves_no_file(
    sql: Run, tmp_path: Path, lake: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(lake, "merge-on-read", "serializable", 3)
    commit, runs = operation.commit, list[None]()

    def overtaken(*arguments: Any) -> Any:
        runs.append(replace_files(lake))
        return commit(*arguments)

    monkeypatch.setattr(operation, "commit", overtaken)
    with pytest.raises(IllegalArgumentException, match=r"\(replace\) conflicts with this commit"):
        sql("UPDATE lake.db.t SET v = 1 WHERE id = 1")
    assert len(runs) == 5
    assert set(stored(lake, "v")) == {(0,)}
    assert not [name for name in data_files(tmp_path) if name.endswith(".puffin")]


@pytest.mark.slow
def test_two_sessions_merge_concurrently(spark: SparkSession, sql: Run, lake: SqlCatalog) -> None:
    made(lake, "merge-on-read", "snapshot", 3)
    sessions = [spark.newSession() for _ in range(2)]
    for session in sessions:
        attach(session, "lake", SqlCatalog("lake", **lake.properties))

    def merged(session: SparkSession) -> int:
        done = 0
        for _ in range(2):
            try:
                session.sql(MERGE.format(1))
                done += 1
            except IllegalArgumentException as error:
                assert "conflicts" in str(error)  # noqa: PT017
        return done

    with ThreadPoolExecutor(2) as pool:
        done = sum(pool.map(merged, sessions))
    assert done >= 1
    rows = stored(lake, "id", "v", "_row_id")
    assert [v for number, v, _ in rows if number == 1] == [done]
    assert len(rows) == len({row_id for _, _, row_id in rows}) == 10


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_a_task_that_fails_leaves_no_file(sql: Run, lake: SqlCatalog, tmp_path: Path, mode: str) -> None:
    made(lake, mode, "serializable")
    before, location = data_files(tmp_path), lake.load_table("db.t").metadata_location
    with pytest.raises(PySparkException, match="in the middle"):
        sql("UPDATE lake.db.t SET v = if(id = 8, CAST(raise_error('in the middle') AS BIGINT), id + 1)")
    assert data_files(tmp_path) == before
    assert lake.load_table("db.t").metadata_location == location


_DIES = """
import json, os, signal, sys
from icefloe.spark.row_level import operation
from icefloe import SqlCatalog
from icefloe.spark.runtime.start_session import session
from icefloe.spark.attach_catalog import attach
spark = session({"spark.driver.memory": "1g"}, master="local[1]")
attach(spark, "lake", SqlCatalog("lake", **json.loads(sys.argv[1])))
operation.commit = lambda *arguments: os.kill(os.getpid(), signal.SIGKILL)
spark.sql(sys.argv[2])
"""


@pytest.mark.slow
def test_a_driver_killed_between_writing_and_committing_changes_nothing(sql: Run, lake: SqlCatalog, tmp_path: Path) -> None:
    made(lake, "merge-on-read", "serializable", 3)
    before, location = data_files(tmp_path), lake.load_table("db.t").metadata_location
    died = subprocess.run(
        [sys.executable, "-c", _DIES, json.dumps(dict(lake.properties)), MERGE.format(1)], capture_output=True, check=False
    )
    assert died.returncode == -9, died.stderr[-2000:]
    assert data_files(tmp_path) > before  # what nothing names is for the removal of orphan files
    assert lake.load_table("db.t").metadata_location == location
    sql(MERGE.format(1))
    assert sql("SELECT count(*), sum(v) FROM lake.db.t") == [(10, 1)]
