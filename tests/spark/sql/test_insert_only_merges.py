"""A MERGE that only inserts, beside a writer that adds or removes rows that it has read: its commit removes no row, and has the conflicts of a MERGE."""

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.errors import IllegalArgumentException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from tests.spark.sql.conftest import Run
from tests.spark.sql.test_concurrent_statements import REPLACING, made, other

from icefloe import SqlCatalog
from icefloe.commit.append import Append
from icefloe.errors import CommitInvalidatedError
from icefloe.spark.attach_catalog import attach

pytestmark = pytest.mark.spark

__all__ = ["other"]  # a fixture

KEYS = "(SELECT explode(array(100L, 101L)) AS id)"
INSERT = "WHEN NOT MATCHED THEN INSERT (id, k, v) VALUES (s.id, 'b', 1)"
SOURCES = {
    "rows": KEYS,
    "an aggregate": f"(SELECT id, count(*) AS n FROM {KEYS} GROUP BY id)",
    "a union": f"(SELECT * FROM {KEYS} UNION ALL SELECT 102L)",
    "a join": f"(SELECT a.id FROM {KEYS} a JOIN (SELECT * FROM range(90, 110)) b ON a.id = b.id)",
    "the target": "(SELECT id + 100 AS id FROM lake.db.t WHERE id < 2)",
    "random values": f"(SELECT id, uuid() AS token FROM {KEYS})",
}
# Statements over the target `t` of ten rows, in which the keys 100 and 101 are new.
STATEMENTS = {
    **{f"from {name}": f"MERGE INTO lake.db.t t USING {source} s ON t.id = s.id {INSERT}" for name, source in SOURCES.items()},
    "by two clauses": f"MERGE INTO lake.db.t t USING {KEYS} s ON t.id = s.id"
    " WHEN NOT MATCHED AND s.id < 101 THEN INSERT (id, k, v) VALUES (s.id, 'b', 1) WHEN NOT MATCHED THEN INSERT (id, k, v) VALUES (s.id, 'b', 2)",
    "without an equality": f"MERGE INTO lake.db.t t USING {KEYS} s ON t.id BETWEEN s.id AND s.id {INSERT}",
    "beside a clause that matches nothing": f"MERGE INTO lake.db.t t USING {KEYS} s ON t.id = s.id WHEN MATCHED THEN DELETE {INSERT}",
}
OTHER_INSERT = "INSERT INTO lake.db.t VALUES (100, 'b', 0)"


def runs(spark: SparkSession, sql: Run, lake: SqlCatalog) -> dict[str, Callable[[], object]]:
    """Return the statements, and the same MERGE by a DataFrame, by Python's `table.merge`, and of a target that Spark has in its cache."""
    first = STATEMENTS["from rows"]
    frame = spark.sql(f"SELECT id, 'b' AS k, 1L AS v FROM {KEYS}")

    def cached() -> object:
        table = spark.table("lake.db.t").cache()
        assert table.count() >= 10
        try:
            return sql(first)
        finally:
            table.unpersist()

    return {
        **{name: (lambda text=text: sql(text)) for name, text in STATEMENTS.items()},
        "by a DataFrame": lambda: frame.alias("s").mergeInto("lake.db.t", F.expr("t.id = s.id")).whenNotMatched().insertAll().merge(),
        "by Python": lambda: lake.load_table("db.t").merge(frame, "t.id = s.id").when_not_matched().insert_all().merge(),
        "into a cached table": cached,
    }


def test_a_key_that_another_writer_adds_meanwhile_is_not_there_twice(
    spark: SparkSession, sql: Run, lake: SqlCatalog, other: list[str]
) -> None:
    made(sql, "merge-on-read", "serializable")
    outcomes = {}
    for name, run in runs(spark, sql, lake).items():
        other.append(OTHER_INSERT)
        try:
            run()
            outcomes[name] = "committed"
        except (IllegalArgumentException, CommitInvalidatedError) as error:
            outcomes[name] = "refused" if "no added data files that may hold" in str(error) else str(error)
        assert not other, name
        assert sql("SELECT id, v FROM lake.db.t WHERE id >= 100") == [(100, 0)], name
        sql("DELETE FROM lake.db.t WHERE id >= 100")
    assert set(outcomes.values()) == {"refused"}, outcomes


def test_what_cannot_match_is_no_conflict(
    spark: SparkSession, sql: Run, lake: SqlCatalog, other: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt, session = Append.attempt, spark.newSession()
    attach(session, "lake", SqlCatalog("lake", **lake.properties))

    def after_others(self: Append, base: Any, **arguments: Any) -> Any:
        while other:
            session.sql(other.pop())
        return attempt(self, base, **arguments)

    monkeypatch.setattr(Append, "attempt", after_others)  # of the statements that commit a plain append
    made(sql, "merge-on-read", "serializable")
    of_a = f"MERGE INTO lake.db.t t USING {KEYS} s ON t.k = 'a' AND t.id = s.id {INSERT}"
    for statement, meanwhile, rows in [
        (of_a, OTHER_INSERT, 3),
        (of_a, "DELETE FROM lake.db.t WHERE id = 1", 2),
        (STATEMENTS["from rows"], REPLACING, 2),
        (f"MERGE INTO lake.db.t t USING {KEYS} s ON false {INSERT}", OTHER_INSERT, 3),
        (STATEMENTS["from rows"].replace(KEYS, "(SELECT 1L AS id)"), OTHER_INSERT, 1),  # inserts nothing
        # An INSERT has no isolation level, whatever its query reads.
        (
            f"INSERT INTO lake.db.t SELECT id, 'b', 1 FROM {KEYS} s WHERE NOT EXISTS (SELECT * FROM lake.db.t t WHERE t.id = s.id)",
            OTHER_INSERT,
            3,
        ),
        ("INSERT INTO lake.db.t SELECT id + 100, 'b', 1 FROM lake.db.t WHERE id < 2", OTHER_INSERT, 3),
    ]:
        other.append(meanwhile)
        sql(statement)
        assert not other, statement
        assert sql("SELECT count(*) FROM lake.db.t WHERE id >= 100") == [(rows,)], statement
        sql("DELETE FROM lake.db.t WHERE id >= 100")
    sql("ALTER TABLE lake.db.t SET TBLPROPERTIES ('write.merge.isolation-level' = 'snapshot')")
    for name, run in runs(spark, sql, lake).items():
        other.append(OTHER_INSERT)
        run()
        assert sql("SELECT count(*) FROM lake.db.t WHERE id = 100") == [(2,)], name
        sql("DELETE FROM lake.db.t WHERE id >= 100")


def test_rows_that_another_writer_deletes_meanwhile_are_a_conflict(sql: Run, other: list[str]) -> None:
    made(sql, "merge-on-read", "serializable", 3)
    other.append("DELETE FROM lake.db.t WHERE id = 3")
    with pytest.raises(IllegalArgumentException, match="conflicts with this commit"):
        sql(STATEMENTS["from rows"].replace(KEYS, "(SELECT explode(array(3L, 100L)) AS id)"))
    assert sql("SELECT count(*), max(id) FROM lake.db.t") == [(9, 9)]


def test_the_result_and_the_snapshot_are_those_of_the_merge(spark: SparkSession, sql: Run, lake: SqlCatalog) -> None:
    made(sql, "copy-on-write", "serializable")
    table, frame = lake.load_table("db.t"), spark.sql(f"SELECT id, 'b' AS k, 1L AS v FROM {KEYS}")
    merge = table.merge(frame, "t.id = s.id", snapshot_properties={"job": "nightly"}).when_not_matched().insert_all()
    result = merge.merge()
    head = table.refresh().current_snapshot()
    assert (result.inserted_records, result.snapshot_id, result.operation) == (2, head.snapshot_id, "merge")
    assert (head.summary["operation"], head.summary["job"], head.summary["added-records"]) == ("append", "nightly", "2")
    sql("ALTER TABLE lake.db.t CREATE BRANCH audit")
    sql(STATEMENTS["from rows"].replace("array(", "array(102L, ").replace("lake.db.t t", "lake.db.t.branch_audit t"))
    assert sql("SELECT count(*) FROM lake.db.t VERSION AS OF 'audit'") == [(13,)]
    assert (sql("SELECT count(*) FROM lake.db.t"), merge.merge().snapshot_id) == ([(12,)], None)  # without rows there is no snapshot


def test_the_branch_that_settings_send_writes_to_is_the_one_with_the_conflicts(spark: SparkSession, sql: Run, other: list[str]) -> None:
    made(sql, "merge-on-read", "serializable")
    sql("ALTER TABLE lake.db.t SET TBLPROPERTIES ('write.wap.enabled' = 'true')")
    merge = STATEMENTS["from rows"]
    spark.conf.set("spark.wap.branch", "audit")
    try:
        sql(merge)  # creates the branch
        sql("INSERT INTO lake.db.t.branch_main VALUES (50, 'b', 0)")
        sql(merge.replace("array(", "array(102L, "))
        assert sql("SELECT count(*) FROM lake.db.t") == [(13,)]
        other.append("INSERT INTO lake.db.t.branch_audit VALUES (103, 'b', 0)")
        with pytest.raises(IllegalArgumentException, match="no added data files that may hold"):
            sql(merge.replace("array(", "array(103L, "))
    finally:
        spark.conf.unset("spark.wap.branch")
    assert sql("SELECT count(*) FROM lake.db.t") == [(11,)]
