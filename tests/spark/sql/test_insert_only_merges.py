"""A MERGE that only inserts, beside a writer that adds or removes rows that it has read: its commit removes no row, and has the conflicts of a MERGE."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import IllegalArgumentException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from tests.repetitions import ALL
from tests.spark.sql.conftest import Run, append, stored
from tests.spark.sql.test_concurrent_statements import Meanwhile, made, other, replace_files

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
# The default run leaves out those that differ from others in the source alone, and at the level `snapshot`, those that Spark plans as others.
ALIKE = () if ALL else ("from an aggregate", "from a union", "from a join")
AT_SNAPSHOT = ("from rows", "by two clauses", "by a DataFrame", "into a cached table")


def other_insert(lake: SqlCatalog) -> None:
    append(lake, [(100, "b", 0)])


def new(lake: SqlCatalog) -> list[tuple[Any, ...]]:
    return [row for row in stored(lake, "id", "v") if row[0] >= 100]


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
            spark.catalog.clearCache()  # the statement has replaced the plan of the cached rows

    return {
        **{name: (lambda text=text: sql(text)) for name, text in STATEMENTS.items() if name not in ALIKE},
        "by a DataFrame": lambda: frame.alias("s").mergeInto("lake.db.t", F.expr("t.id = s.id")).whenNotMatched().insertAll().merge(),
        "by Python": lambda: lake.load_table("db.t").merge(frame, "t.id = s.id").when_not_matched().insert_all().merge(),
        "into a cached table": cached,
    }


def test_a_key_that_another_writer_adds_meanwhile_is_not_there_twice(
    spark: SparkSession, sql: Run, lake: SqlCatalog, other: list[Meanwhile]
) -> None:
    made(lake, "merge-on-read", "serializable")
    outcomes = {}
    for name, run in runs(spark, sql, lake).items():
        other.append(lambda: other_insert(lake))
        try:
            run()
            outcomes[name] = "committed"
        except (IllegalArgumentException, CommitInvalidatedError) as error:
            outcomes[name] = "refused" if "no added data files that may hold" in str(error) else str(error)
        assert not other, name
        assert new(lake) == [(100, 0)], name
        lake.load_table("db.t").delete("id >= 100")
    assert set(outcomes.values()) == {"refused"}, outcomes


def test_what_cannot_match_is_no_conflict(
    spark: SparkSession, sql: Run, lake: SqlCatalog, other: list[Meanwhile], monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt, session = Append.attempt, spark.newSession()
    attach(session, "lake", SqlCatalog("lake", **lake.properties))

    def after_others(self: Append, base: Any, **arguments: Any) -> Any:
        while other:
            next_one = other.pop()
            session.sql(next_one) if isinstance(next_one, str) else next_one()
        return attempt(self, base, **arguments)

    monkeypatch.setattr(Append, "attempt", after_others)  # of the statements that commit a plain append
    made(lake, "merge-on-read", "serializable")
    of_a = f"MERGE INTO lake.db.t t USING {KEYS} s ON t.k = 'a' AND t.id = s.id {INSERT}"
    for statement, meanwhile, rows in [
        (of_a, lambda: other_insert(lake), 3),
        (of_a, lambda: lake.load_table("db.t").delete("id = 1"), 2),
        (STATEMENTS["from rows"], lambda: replace_files(lake), 2),
        (f"MERGE INTO lake.db.t t USING {KEYS} s ON false {INSERT}", lambda: other_insert(lake), 3),
        (STATEMENTS["from rows"].replace(KEYS, "(SELECT 1L AS id)"), lambda: other_insert(lake), 1),  # inserts nothing
        # An INSERT has no isolation level, whatever its query reads.
        (
            f"INSERT INTO lake.db.t SELECT id, 'b', 1 FROM {KEYS} s WHERE NOT EXISTS (SELECT * FROM lake.db.t t WHERE t.id = s.id)",
            lambda: other_insert(lake),
            3,
        ),
        ("INSERT INTO lake.db.t SELECT id + 100, 'b', 1 FROM lake.db.t WHERE id < 2", lambda: other_insert(lake), 3),
    ]:
        other.append(meanwhile)
        sql(statement)
        assert not other, statement
        assert len(new(lake)) == rows, statement
        lake.load_table("db.t").delete("id >= 100")
    sql("ALTER TABLE lake.db.t SET TBLPROPERTIES ('write.merge.isolation-level' = 'snapshot')")
    for name, run in runs(spark, sql, lake).items():
        if not ALL and name not in AT_SNAPSHOT:
            continue
        other.append(lambda: other_insert(lake))
        run()
        assert [number for number, _ in new(lake)].count(100) == 2, name
        lake.load_table("db.t").delete("id >= 100")


def test_rows_that_another_writer_deletes_meanwhile_are_a_conflict(sql: Run, lake: SqlCatalog, other: list[Meanwhile]) -> None:
    made(lake, "merge-on-read", "serializable", 3)
    other.append(lambda: lake.load_table("db.t").delete("id = 3"))
    with pytest.raises(IllegalArgumentException, match="conflicts with this commit"):
        sql(STATEMENTS["from rows"].replace(KEYS, "(SELECT explode(array(3L, 100L)) AS id)"))
    assert stored(lake, "id") == [(number,) for number in range(10) if number != 3]


def test_the_result_and_the_snapshot_are_those_of_the_merge(spark: SparkSession, sql: Run, lake: SqlCatalog) -> None:
    made(lake, "copy-on-write", "serializable")
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


def test_the_branch_that_settings_send_writes_to_is_the_one_with_the_conflicts(
    spark: SparkSession, sql: Run, lake: SqlCatalog, other: list[Meanwhile]
) -> None:
    made(lake, "merge-on-read", "serializable")
    sql("ALTER TABLE lake.db.t SET TBLPROPERTIES ('write.wap.enabled' = 'true')")
    merge = STATEMENTS["from rows"]
    spark.conf.set("spark.wap.branch", "audit")
    try:
        sql(merge)  # creates the branch
        sql("INSERT INTO lake.db.t.branch_main VALUES (50, 'b', 0)")
        sql(merge.replace("array(", "array(102L, "))
        assert sql("SELECT count(*) FROM lake.db.t") == [(13,)]
        rows = pa.table({"id": [103], "k": ["b"], "v": [0]})
        other.append(lambda: lake.load_table("db.t").append(rows, branch="audit"))
        with pytest.raises(IllegalArgumentException, match="no added data files that may hold"):
            sql(merge.replace("array(", "array(103L, "))
    finally:
        spark.conf.unset("spark.wap.branch")
    assert len(stored(lake, "id")) == 11
