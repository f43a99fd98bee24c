"""Row-level statements with concurrent commits, and statements that fail or are killed: one commit wins, the other is retried or refused as a whole."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import IllegalArgumentException, PySparkException
from pyspark.sql import SparkSession
from tests.combinations import combinations, repetitions
from tests.spark.sql.conftest import Run

from icefloe import SqlCatalog
from icefloe.spark.attach_catalog import attach
from icefloe.spark.row_level import operation

pytestmark = pytest.mark.spark

MERGE = "MERGE INTO lake.db.t t USING (SELECT {} AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = t.v + 1 WHEN NOT MATCHED THEN INSERT (id) VALUES (-1)"


def made(sql: Run, mode: str, level: str, version: int = 2) -> None:
    properties = ", ".join(
        f"'write.{one}.mode' = '{mode}', 'write.{one}.isolation-level' = '{level}'" for one in ("update", "merge", "delete")
    )
    sql(
        f"CREATE TABLE lake.db.t (id BIGINT, k STRING, v BIGINT) USING iceberg PARTITIONED BY (k) TBLPROPERTIES ('format-version' = '{version}', {properties})"
    )
    sql("INSERT INTO lake.db.t SELECT id, if(id % 2 = 0, 'a', 'b'), 0 FROM range(10)")


def data_files(folder: Path) -> set[str]:
    return {path.name for path in (folder / "warehouse").rglob("*") if path.suffix in (".parquet", ".puffin")}


@pytest.fixture
def other(spark: SparkSession, lake: SqlCatalog, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Statements that another session runs after the next statement has written its rows and before it commits them."""
    session, told = spark.newSession(), list[str]()
    attach(session, "lake", SqlCatalog("lake", **lake.properties))
    commit = operation.commit

    def after_others(*arguments: Any) -> Any:
        while told:
            session.sql(told.pop())
        return commit(*arguments)

    monkeypatch.setattr(operation, "commit", after_others)
    return told


@pytest.mark.parametrize(("mode", "version"), [("copy-on-write", 2), ("merge-on-read", 2), ("merge-on-read", 3)])
def test_concurrent_changes_of_different_files_are_both_committed(
    sql: Run, lake: SqlCatalog, other: list[str], mode: str, version: int
) -> None:
    made(sql, mode, "snapshot", version)
    other.append(MERGE.format(2))
    sql(MERGE.format(3))
    assert sql("SELECT id FROM lake.db.t WHERE v = 1 ORDER BY id") == [(2,), (3,)]
    assert len(lake.load_table("db.t").snapshots()) == 3


@pytest.mark.parametrize(("mode", "version"), [("copy-on-write", 2), ("merge-on-read", 2), ("merge-on-read", 3)])
def test_a_concurrent_change_of_the_same_file_is_refused_and_leaves_no_file(
    sql: Run, tmp_path: Path, other: list[str], mode: str, version: int
) -> None:
    made(sql, mode, "snapshot", version)
    other.append(MERGE.format(1))
    with pytest.raises(IllegalArgumentException, match=r"conflicts with this commit|no longer"):
        sql(MERGE.format(3))
    assert sql("SELECT id FROM lake.db.t WHERE v = 1") == [(1,)]
    after = data_files(tmp_path)
    sql(MERGE.format(3))
    assert sql("SELECT id FROM lake.db.t WHERE v = 1 ORDER BY id") == [(1,), (3,)]
    # The copy, which holds the new row; or a file of the new row, and the delete file.
    assert len(data_files(tmp_path) - after) == (1 if mode == "copy-on-write" else 2)


def test_rows_added_meanwhile_conflict_with_a_serializable_statement_that_would_match_them(sql: Run, other: list[str]) -> None:
    made(sql, "merge-on-read", "serializable")
    other.append("INSERT INTO lake.db.t VALUES (100, 'b', 0)")
    with pytest.raises(IllegalArgumentException, match="no added data files that may hold"):
        sql("UPDATE lake.db.t SET v = 5 WHERE k = 'b' AND id % 3 = 0")
    other.append("INSERT INTO lake.db.t VALUES (100, 'b', 0)")
    sql("UPDATE lake.db.t SET v = 5 WHERE k = 'a' AND id % 3 = 0")
    assert sql("SELECT count(*), count_if(v = 5) FROM lake.db.t") == [(12, 2)]


REPLACING = "CALL lake.system.rewrite_data_files('db.t', options => map('rewrite-all', 'true'))"
# Statements, and how many rows each changes.
CHANGING = {
    MERGE.format(3): 1,
    "UPDATE lake.db.t SET v = v + 1 WHERE id IN (SELECT id FROM lake.db.t WHERE id < 4)": 4,
    "DELETE FROM lake.db.t WHERE id % 3 = 1": 3,
    "WITH s AS (SELECT id, uuid() AS token FROM range(5)) MERGE INTO lake.db.t t USING s ON t.id = s.id"
    " WHEN MATCHED AND s.token IS NOT NULL THEN UPDATE SET v = t.v + 1": 5,
}


@pytest.mark.parametrize(
    ("statement", "mode", "version"),
    [
        pytest.param(*chosen.values[:1], *chosen.values[1], marks=chosen.marks)
        for chosen in combinations(list(CHANGING), [("copy-on-write", 2), ("merge-on-read", 2), ("merge-on-read", 3)])
    ],
)
def test_a_statement_whose_files_a_compaction_replaced_meanwhile_runs_again(
    sql: Run, lake: SqlCatalog, other: list[str], statement: str, mode: str, version: int
) -> None:
    made(sql, mode, "serializable", version)
    sql(f"CREATE TABLE lake.db.alone TBLPROPERTIES ('format-version' = '{version}') AS SELECT * FROM lake.db.t")
    sql(statement.replace("lake.db.t", "lake.db.alone"))
    sql("DELETE FROM lake.db.t WHERE id = 9")
    sql("INSERT INTO lake.db.t VALUES (9, 'b', 0)")
    other.append(REPLACING)
    counts = sql(statement)
    assert not other
    assert sql("SELECT * FROM lake.db.t ORDER BY id") == sql("SELECT * FROM lake.db.alone ORDER BY id")
    operations = [snapshot.operation for snapshot in lake.load_table("db.t").snapshots()]
    assert operations[-2:] in (["replace", "overwrite"], ["replace", "delete"])
    assert counts[0][0] == CHANGING[statement]


@pytest.mark.parametrize("version", repetitions([2, 3], 3))
def test_a_statement_whose_files_got_converted_deletes_meanwhile_runs_again(
    sql: Run, lake: SqlCatalog, other: list[str], version: int
) -> None:
    made(sql, "merge-on-read", "serializable", version)
    lake.load_table("db.t").delete_keys(pa.table({"id": [8, 9]}), ["id"])
    other.append("CALL lake.system.convert_equality_deletes('db.t')")
    sql("UPDATE lake.db.t SET v = v + 1 WHERE id IN (2, 3, 8)")
    assert not other
    assert sql("SELECT id FROM lake.db.t WHERE v = 1 ORDER BY id") == [(2,), (3,)]
    assert sql("SELECT count(*) FROM lake.db.t") == [(8,)]
    snapshots = lake.load_table("db.t").snapshots()
    assert [snapshot.operation for snapshot in snapshots[-2:]] == ["delete", "overwrite"]


@pytest.mark.parametrize("version", repetitions([2, 3], 3))
def test_a_statement_whose_deletes_were_merged_meanwhile_runs_again(sql: Run, lake: SqlCatalog, other: list[str], version: int) -> None:
    made(sql, "merge-on-read", "serializable", version)
    sql("DELETE FROM lake.db.t WHERE id = 9")
    sql("DELETE FROM lake.db.t WHERE id = 8")
    other.append("CALL lake.system.rewrite_position_delete_files(table => 'db.t', options => map('rewrite-all', 'true'))")
    sql("UPDATE lake.db.t SET v = v + 1 WHERE id IN (2, 3, 8)")
    assert not other
    assert sql("SELECT id FROM lake.db.t WHERE v = 1 ORDER BY id") == [(2,), (3,)]
    assert sql("SELECT count(*) FROM lake.db.t") == [(8,)]
    snapshots = lake.load_table("db.t").snapshots()
    assert [snapshot.operation for snapshot in snapshots[-2:]] == ["replace", "overwrite"]


def test_a_statement_that_a_compaction_overtakes_each_time_is_refused_at_last_and_leaves_no_file(
    sql: Run, tmp_path: Path, spark: SparkSession, lake: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(sql, "merge-on-read", "serializable", 3)
    session, commit, runs = spark.newSession(), operation.commit, []
    attach(session, "lake", SqlCatalog("lake", **lake.properties))

    def overtaken(*arguments: Any) -> Any:
        runs.append(session.sql(REPLACING).collect())
        return commit(*arguments)

    monkeypatch.setattr(operation, "commit", overtaken)
    with pytest.raises(IllegalArgumentException, match=r"\(replace\) conflicts with this commit"):
        sql("UPDATE lake.db.t SET v = 1 WHERE id = 1")
    assert len(runs) == 5
    assert sql("SELECT sum(v) FROM lake.db.t") == [(0,)]
    assert not [name for name in data_files(tmp_path) if name.endswith(".puffin")]


def test_two_sessions_merge_concurrently(spark: SparkSession, sql: Run, lake: SqlCatalog) -> None:
    made(sql, "merge-on-read", "snapshot", 3)
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
    assert sql("SELECT v FROM lake.db.t WHERE id = 1") == [(done,)]
    assert sql("SELECT count(*), count(DISTINCT _row_id) FROM lake.db.t") == [(10, 10)]


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_a_task_that_fails_leaves_no_file(sql: Run, lake: SqlCatalog, tmp_path: Path, mode: str) -> None:
    made(sql, mode, "serializable")
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
    made(sql, "merge-on-read", "serializable", 3)
    before, location = data_files(tmp_path), lake.load_table("db.t").metadata_location
    died = subprocess.run(
        [sys.executable, "-c", _DIES, json.dumps(dict(lake.properties)), MERGE.format(1)], capture_output=True, check=False
    )
    assert died.returncode == -9, died.stderr[-2000:]
    assert data_files(tmp_path) > before  # what nothing names is for the removal of orphan files
    assert lake.load_table("db.t").metadata_location == location
    sql(MERGE.format(1))
    assert sql("SELECT count(*), sum(v) FROM lake.db.t") == [(10, 1)]
