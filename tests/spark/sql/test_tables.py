"""Namespaces and tables by Spark SQL: created, listed, read, written and dropped."""

import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException
from pyspark.sql import SparkSession
from tests.spark.sql.conftest import Run

from icefloe import SqlCatalog

pytestmark = pytest.mark.spark

CREATE = """CREATE TABLE lake.db.t (id BIGINT, kind STRING COMMENT 'what it is', v DOUBLE, s STRUCT<a: INT, b: ARRAY<STRING>>)
            USING iceberg PARTITIONED BY (kind, bucket(4, id))"""
INSERT = "INSERT INTO lake.db.t SELECT id, if(id % 2 = 0, 'a', 'b'), id / 2, named_struct('a', 1, 'b', array('x')) FROM range(10)"


def test_a_table_is_created_described_and_dropped_by_sql(sql: Run, lake: SqlCatalog) -> None:
    sql("CREATE NAMESPACE lake.other")
    assert sql("SHOW NAMESPACES IN lake") == [("db",), ("other",)]
    sql(CREATE)
    assert [row[1] for row in sql("SHOW TABLES IN lake.db")] == ["t"]
    described = {row[0]: row[1:] for row in sql("DESCRIBE lake.db.t")}
    assert described["kind"] == ("string", "what it is")
    assert described["Part 1"][0] == "bucket(4, id)"
    sql(INSERT)
    assert sorted(sql("SELECT id, v FROM lake.db.t WHERE id < 6 AND kind = 'a'")) == [(0, 0.0), (2, 1.0), (4, 2.0)]
    assert sorted(sql("SELECT kind, count(*), max(s.a) FROM lake.db.t GROUP BY kind")) == [("a", 5, 1), ("b", 5, 1)]
    assert lake.load_table("db.t").scan().to_arrow().num_rows == 10
    assert sql("SELECT count(DISTINCT _file), max(_pos), max(_partition.kind) FROM lake.db.t") == [
        (len(lake.load_table("db.t").scan().plan_files()), 3, "b")
    ]
    sql("DROP TABLE lake.db.t")
    sql("DROP NAMESPACE lake.other")
    assert sql("SHOW TABLES IN lake.db") == []


@pytest.mark.parametrize("part", ["branch_b", "tag_first", "files"])
@pytest.mark.parametrize("more", ["", " PURGE"])
def test_dropping_a_branch_or_metadata_table_as_a_table_is_refused(sql: Run, part: str, more: str) -> None:
    sql("CREATE TABLE lake.db.t (id BIGINT) USING iceberg")
    sql("INSERT INTO lake.db.t VALUES (1)")
    sql("ALTER TABLE lake.db.t CREATE BRANCH b")
    sql("ALTER TABLE lake.db.t CREATE TAG first")
    with pytest.raises(
        Exception, match=rf"db\.t\.{part} is a branch, tag, snapshot or metadata table and cannot be dropped\s+Next: .*DROP BRANCH"
    ):
        sql(f"DROP TABLE lake.db.t.{part}{more}")
    assert sql(f"SELECT count(*) FROM lake.db.t.{part}") == sql("SELECT count(*) FROM lake.db.t") == [(1,)]
    sql("DROP TABLE IF EXISTS lake.db.t.nothing")


def test_cascade_drops_the_tables_and_views_of_one_namespace(lake: SqlCatalog, sql: Run) -> None:
    for name in ("lake.whole", "lake.outer", "lake.outer.inner"):
        sql(f"CREATE NAMESPACE {name}")
    for name in ("lake.whole", "lake.outer"):
        sql(f"CREATE TABLE {name}.t (id INT)")
        sql(f"CREATE VIEW {name}.v AS SELECT 1 AS one")
    with pytest.raises(IllegalArgumentException, match=r"namespaces below it: outer\.inner"):
        sql("DROP NAMESPACE lake.outer CASCADE")
    assert lake.table_exists("outer.t")
    assert lake.view_exists("outer.v")
    with pytest.raises(AnalysisException, match="SCHEMA_NOT_EMPTY"):
        sql("DROP NAMESPACE lake.whole")
    sql("DROP NAMESPACE lake.whole CASCADE")
    assert not lake.namespace_exists("whole")


def test_rows_are_added_replaced_and_deleted(sql: Run) -> None:
    sql(CREATE)
    sql(INSERT)
    sql("INSERT OVERWRITE lake.db.t PARTITION (kind = 'a') SELECT 100, 1.5D, NULL")
    assert sql("SELECT id FROM lake.db.t WHERE kind = 'a'") == [(100,)]
    assert sql("SELECT count(*) FROM lake.db.t") == [(6,)]


def test_a_query_reads_the_planned_files_by_sparks_own_scan(spark: SparkSession, sql: Run) -> None:
    sql(CREATE)
    sql(INSERT.replace("range(10)", "range(100)"))  # no file has but ids that the filter keeps, which would leave nothing to test
    plan = sql("EXPLAIN SELECT sum(v) FROM lake.db.t WHERE id < 6 AND kind = 'a'")[0][0]
    assert "FileScan parquet" in plan
    assert "LessThan(id,6)" in plan
    assert "BatchScan" not in plan


def test_missing_names_are_reported_by_the_errors_of_spark(sql: Run) -> None:
    sql(CREATE)
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        sql("SELECT * FROM lake.db.nothing")
    with pytest.raises(AnalysisException, match="INSERT_COLUMN_ARITY_MISMATCH"):
        sql("INSERT INTO lake.db.t VALUES (1)")
    with pytest.raises(AnalysisException, match="SCHEMA_NOT_FOUND"):
        sql("CREATE TABLE lake.nowhere.t (id INT) USING iceberg")
