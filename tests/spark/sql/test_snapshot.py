"""`CALL system.snapshot` of tables of Spark's session catalog: the same rows, and the source stays a table of Spark."""

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from icefloe import SqlCatalog
from icefloe.spark import attach

pytestmark = pytest.mark.spark


def test_a_partitioned_table_of_spark_is_snapshotted(spark: SparkSession, lake: SqlCatalog, tmp_path: Path) -> None:
    attach(spark, "lake", lake)
    spark.sql(
        f"""CREATE TABLE snapshot_source (id BIGINT, price DECIMAL(9, 2), kind STRING, day DATE) USING parquet PARTITIONED BY (kind, day)
        LOCATION '{tmp_path}/divided' TBLPROPERTIES ('owner-team' = 'x')"""
    )
    try:
        spark.sql(
            """INSERT INTO snapshot_source SELECT * FROM VALUES (1L, 1.5BD, 'a', DATE'2024-01-01'), (2L, 2.5BD, 'b c', DATE'2024-01-02'),
            (3L, NULL, NULL, DATE'2024-01-02') AS v(id, price, kind, day)"""
        )
        rows = sorted(map(str, spark.table("snapshot_source").collect()))
        counted = spark.sql("CALL lake.system.snapshot('snapshot_source', 'db.copy', properties => map('a', 'b'))").collect()
        assert [tuple(row) for row in counted] == [(3,)]
        assert sorted(map(str, spark.table("lake.db.copy").collect())) == rows
        properties = lake.load_table("db.copy").properties
        assert (properties["owner-team"], properties["a"], properties["gc.enabled"]) == ("x", "b", "false")
        spark.sql("DELETE FROM lake.db.copy WHERE id = 1")
        spark.sql("INSERT INTO lake.db.copy VALUES (4, 1.0, 'z', DATE'2024-01-03')")
        assert sorted(row.id for row in spark.table("lake.db.copy").collect()) == [2, 3, 4]
        spark.catalog.refreshTable("snapshot_source")
        assert sorted(map(str, spark.table("snapshot_source").collect())) == rows
        with pytest.raises(PySparkException, match="exists"):
            spark.sql("CALL lake.system.snapshot('snapshot_source', 'db.copy')")
    finally:
        spark.sql("DROP TABLE snapshot_source")
