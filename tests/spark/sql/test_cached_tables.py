"""Cached DataFrames of a table are read again after the statements that Icefloe runs."""

from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.spark.sql.conftest import Run, append

from icefloe import SqlCatalog
from icefloe.spark.scan.spark_cache import recache

pytestmark = pytest.mark.spark


def ids(run: Run, table: str = "lake.db.t") -> list[int]:
    """Return the ids of a table as Spark reads them, from its cache or not, sorted."""
    return sorted(number for (number,) in run(f"SELECT id FROM {table}"))


@pytest.fixture
def kept(spark: SparkSession, sql: Run, lake: SqlCatalog) -> Iterator[Run]:
    """A table of five rows, cached. It has a branch."""
    lake.create_table("db.t", pa.schema([("id", pa.int64()), ("kind", pa.string())]), partition_spec=["kind"])
    append(lake, [(1, "a"), (2, "a"), (3, "b"), (4, "b"), (5, None)])
    lake.load_table("db.t").manage_snapshots().create_branch(branch_name="other").create_tag(tag_name="start").commit()
    sql("CACHE TABLE lake.db.t")
    yield sql
    spark.catalog.clearCache()
    spark.catalog.dropTempView("kinds")


@pytest.mark.parametrize(
    ("statement", "rows"),
    [
        ("UPDATE lake.db.t SET id = id + 10 WHERE id < 3", [3, 4, 5, 11, 12]),
        pytest.param("DELETE FROM lake.db.t WHERE id % 2 = 0", [1, 3, 5], marks=pytest.mark.slow),  # as in the test of queries below
        pytest.param(
            "MERGE INTO lake.db.t t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE", [2, 3, 4, 5], marks=pytest.mark.slow
        ),
        (
            "MERGE INTO lake.db.t t USING (SELECT 7 AS id) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id, kind) VALUES (id, 'a')",
            [1, 2, 3, 4, 5, 7],
        ),
    ],
)
def test_cached_rows_are_read_again_after_a_row_level_statement(kept: Run, statement: str, rows: list[int]) -> None:
    assert ids(kept) == [1, 2, 3, 4, 5]
    kept(statement)
    assert ids(kept) == rows


def test_cached_rows_are_read_again_after_statements_of_python(lake: SqlCatalog, kept: Run, spark: SparkSession) -> None:
    table = lake.load_table("db.t")
    assert ids(kept) == [1, 2, 3, 4, 5]
    assert table.update({"id": "id + 10"}, where="id = 1").rows_updated == 1
    assert ids(kept) == [2, 3, 4, 5, 11]
    table.merge(spark.sql("SELECT 7L AS id, 'a' AS kind"), "t.id = s.id").when_not_matched().insert_all().merge()
    assert ids(kept) == [2, 3, 4, 5, 7, 11]


def test_a_change_is_no_failure_because_cached_rows_cannot_be_read_again(
    spark: SparkSession, kept: Run, caplog: pytest.LogCaptureFixture
) -> None:
    recache(spark, ["lake", "db", "never"])
    assert "`lake`.`db`.`never` is changed" in caplog.text


def test_cached_rows_of_tables_and_queries_are_read_again_and_those_of_another_branch_are_not(kept: Run) -> None:
    kept("CACHE TABLE lake.db.t.branch_other")
    kept("CACHE TABLE kinds AS SELECT kind, count(*) AS n FROM lake.db.t GROUP BY kind")
    kept("DELETE FROM lake.db.t WHERE id % 2 = 0")
    assert ids(kept) == [1, 3, 5]
    assert kept("SELECT sum(n) FROM kinds") == [(3,)]
    assert ids(kept, "lake.db.t.branch_other") == [1, 2, 3, 4, 5]


def test_cached_rows_of_a_branch_are_read_again(kept: Run) -> None:
    kept("CACHE TABLE lake.db.t.branch_other")
    kept("UPDATE lake.db.t.branch_other SET id = 0 WHERE id = 5")
    assert ids(kept, "lake.db.t.branch_other") == [0, 1, 2, 3, 4]
    assert ids(kept) == [1, 2, 3, 4, 5]


def test_cached_rows_are_read_again_after_partitions_are_overwritten(spark: SparkSession, kept: Run) -> None:
    spark.sql("SELECT 9L AS id, 'a' AS kind").writeTo("lake.db.t").overwritePartitions()
    assert ids(kept) == [3, 4, 5, 9]


def test_cached_rows_are_read_again_after_the_current_snapshot_changed(lake: SqlCatalog, kept: Run) -> None:
    kept("DELETE FROM lake.db.t WHERE kind = 'a'")
    assert ids(kept) == [3, 4, 5]
    table = lake.load_table("db.t")
    start, head = table.refs()["start"].snapshot_id, table.current_snapshot().snapshot_id  # type: ignore[union-attr]
    for statement, rows in (
        ("CALL lake.system.set_current_snapshot(table => 'db.t', ref => 'start')", [1, 2, 3, 4, 5]),
        (f"CALL lake.system.set_current_snapshot(table => 'lake.db.t', snapshot_id => {head})", [3, 4, 5]),
        (f"ALTER TABLE lake.db.t REPLACE BRANCH main AS OF VERSION {start}", [1, 2, 3, 4, 5]),
    ):
        kept(statement)
        assert ids(kept) == rows, statement


def test_a_statement_changes_the_current_rows_and_not_the_cached_ones(lake: SqlCatalog, kept: Run) -> None:
    lake.load_table("db.t").append(pa.table({"id": [6], "kind": ["c"]}))
    kept("UPDATE lake.db.t SET id = id * 10 WHERE id > 4")
    assert ids(kept) == [1, 2, 3, 4, 50, 60]


def test_cached_rows_of_a_dropped_table_are_not_those_of_a_new_table_of_its_name(lake: SqlCatalog, kept: Run) -> None:
    assert ids(kept) == [1, 2, 3, 4, 5]
    schema = lake.load_table("db.t").schema()
    lake.drop_table("db.t")
    table = lake.create_table("db.t", schema, partition_spec=["kind"])
    assert ids(kept) == []
    table.append(pa.table({"id": [7], "kind": ["z"]}))
    assert ids(kept) == [7]
    assert kept("SELECT record_count FROM lake.db.t.files") == [(1,)]


def test_cached_metadata_tables_of_a_dropped_table_are_read_again_for_a_new_one(spark: SparkSession, lake: SqlCatalog, kept: Run) -> None:
    kept("CACHE TABLE lake.db.t.snapshots")
    assert len(kept("SELECT * FROM lake.db.t.snapshots")) == 1
    schema = lake.load_table("db.t").schema()
    lake.drop_table("db.t")
    lake.create_table("db.t", schema)
    assert kept("SELECT * FROM lake.db.t.snapshots") == []
