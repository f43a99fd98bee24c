"""What INSERT, UPDATE, DELETE and MERGE return in SQL: one row with the numbers of rows and files that they changed, and the snapshot."""

from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from tests.combinations import repetitions
from tests.spark.sql.conftest import Run

from icefloe import SqlCatalog
from icefloe.spark.attach_catalog import attach

pytestmark = pytest.mark.spark

COLUMNS = [
    "num_affected_rows",
    "num_inserted_rows",
    "num_updated_rows",
    "num_deleted_rows",
    "num_added_files",
    "num_removed_files",
    "num_added_delete_files",
    "snapshot_id",
]
# Statements in their order, each with the numbers of rows: affected, inserted, updated, deleted.
STATEMENTS = (
    ("INSERT INTO lake.db.t SELECT id, 0L FROM range(10)", (10, 10, 0, 0)),
    ("WITH s AS (SELECT 10L AS id, 0L AS v) INSERT INTO lake.db.t SELECT * FROM s", (1, 1, 0, 0)),
    ("UPDATE lake.db.t SET v = 1 WHERE id < 3", (3, 0, 3, 0)),
    ("DELETE FROM lake.db.t WHERE id >= 9", (2, 0, 0, 2)),
    ("DELETE FROM lake.db.t WHERE id IN (SELECT 8L)", (1, 0, 0, 1)),
    (
        "MERGE INTO lake.db.t t USING (SELECT id, 5L AS v FROM range(6, 12)) s ON t.id = s.id WHEN MATCHED AND t.id = 6 THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        (6, 4, 1, 1),
    ),
    (
        "MERGE INTO lake.db.t t USING (SELECT id, 5L AS v FROM range(20, 22)) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *",
        (2, 2, 0, 0),
    ),
    ("INSERT INTO lake.db.t REPLACE WHERE id >= 20 SELECT 20L, 7L", (3, 1, 0, 2)),
    ("INSERT OVERWRITE lake.db.t SELECT 1L, 1L", (13, 1, 0, 12)),
    ("DELETE FROM lake.db.t", (1, 0, 0, 1)),
)


@pytest.mark.parametrize("mode", repetitions(["copy-on-write", "merge-on-read"], "merge-on-read"))
def test_each_statement_returns_the_rows_that_it_changed_and_its_snapshot(
    spark: SparkSession, sql: Run, lake: SqlCatalog, mode: str
) -> None:
    modes = ", ".join(f"'write.{verb}.mode' = '{mode}'" for verb in ("delete", "update", "merge"))
    sql(f"CREATE TABLE lake.db.t (id BIGINT, v BIGINT) TBLPROPERTIES ({modes})")
    for statement, rows in STATEMENTS:
        result = spark.sql(statement)
        assert result.columns == COLUMNS
        (row,) = result.collect()
        snapshot = lake.load_table("db.t").current_snapshot()
        assert snapshot is not None
        assert (tuple(row[:4]), row.snapshot_id) == (rows, snapshot.snapshot_id), statement
        assert (row.num_added_files, row.num_removed_files) == (
            int(snapshot.summary.get("added-data-files", 0)),
            int(snapshot.summary.get("deleted-data-files", 0)),
        ), statement
        assert row.num_added_delete_files == int(snapshot.summary.get("added-delete-files", 0)), statement


def test_a_statement_that_changes_nothing_returns_zeros_without_a_snapshot(sql: Run) -> None:
    sql("CREATE TABLE lake.db.t (id BIGINT, v BIGINT)")
    sql("INSERT INTO lake.db.t VALUES (1, 1)")
    nothing: list[tuple[Any, ...]] = [(0, 0, 0, 0, 0, 0, 0, None)]
    assert sql("UPDATE lake.db.t SET v = 2 WHERE id = 2") == nothing
    assert sql("DELETE FROM lake.db.t WHERE id = 2 AND v IN (SELECT 9L)") == nothing
    assert sql("DELETE FROM lake.db.t WHERE false") == nothing


def test_parameters_and_a_dynamic_overwrite_have_results_too(spark: SparkSession, sql: Run) -> None:
    sql("CREATE TABLE lake.db.t (id BIGINT, v BIGINT) PARTITIONED BY (v)")
    assert spark.sql("INSERT INTO lake.db.t VALUES (:id, 1), (2, 2)", args={"id": 1}).first().num_inserted_rows == 2  # type: ignore[union-attr]
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        assert sql("INSERT OVERWRITE lake.db.t SELECT 3L, 2L")[0][:4] == (2, 1, 0, 1)
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")


def test_a_statement_is_explained_as_spark_plans_it_and_changes_nothing(sql: Run) -> None:
    sql("CREATE TABLE lake.db.t (id BIGINT, v BIGINT)")
    (explained,) = sql("EXPLAIN INSERT INTO lake.db.t VALUES (1, 1)")
    assert "AppendData" in explained[0]
    assert sql("SELECT * FROM lake.db.t") == []


def test_statements_on_other_tables_return_nothing_as_in_spark(spark: SparkSession, sql: Run) -> None:
    assert sql("CREATE TABLE spark_catalog.default.plain_of_results (id BIGINT) USING parquet") == []
    try:
        assert spark.sql("INSERT INTO spark_catalog.default.plain_of_results VALUES (1)").columns == []
    finally:
        sql("DROP TABLE spark_catalog.default.plain_of_results")


def test_an_error_of_a_statement_is_spark_s_own(sql: Run) -> None:
    sql("CREATE TABLE lake.db.t (id BIGINT, v BIGINT)")
    with pytest.raises(AnalysisException, match="UNRESOLVED_COLUMN"):
        sql("UPDATE lake.db.t SET v = nowhere")
    with pytest.raises(AnalysisException, match="TOO_MANY_DATA_COLUMNS"):
        sql("INSERT INTO lake.db.t VALUES (1, 2, 3)")


def test_a_session_that_icefloe_did_not_start_returns_them_too(spark: SparkSession, lake: SqlCatalog) -> None:
    other = spark.newSession()
    attach(other, "lake", lake)
    lake.create_table("db.t", pa.schema([("id", pa.int64())]))
    assert other.sql("INSERT INTO lake.db.t VALUES (1), (2)").first().num_inserted_rows == 2  # type: ignore[union-attr]
