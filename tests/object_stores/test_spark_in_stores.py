"""Spark reads and writes tables in an object store with no JAR: it has no Hadoop file system for `s3`."""

import logging
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.emulators import ObjectStore

import icefloe.spark
from icefloe import load_catalog

pytestmark = [pytest.mark.emulator, pytest.mark.spark]


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stores")


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_sql_writes_and_reads_a_table_in_s3_without_a_jar(
    spark: SparkSession, s3: ObjectStore, tmp_path: Path, scheme: str, caplog: pytest.LogCaptureFixture
) -> None:
    name = f"store_{scheme}"
    warehouse = f"{scheme}://{s3.bucket.partition('://')[2]}/w"
    catalog = load_catalog(name, uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=warehouse, **s3.properties)
    icefloe.spark.attach(spark, name, catalog)
    spark.sql(f"CREATE NAMESPACE {name}.db")
    spark.sql(
        f"CREATE TABLE {name}.db.t (id BIGINT, kind STRING) PARTITIONED BY (kind) TBLPROPERTIES ('write.delete.mode'='merge-on-read')"
    )
    spark.sql(f"INSERT INTO {name}.db.t SELECT id, concat('k', id % 2) FROM range(0, 100)")
    spark.sql(f"DELETE FROM {name}.db.t WHERE id < 10")
    spark.sql(f"""MERGE INTO {name}.db.t t USING (SELECT id, 'new' AS kind FROM range(95, 105)) s ON t.id = s.id
        WHEN MATCHED THEN UPDATE SET kind = s.kind WHEN NOT MATCHED THEN INSERT *""")
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        found = {
            row["kind"]: row["n"]
            for row in spark.sql(f"SELECT kind, count(id) AS n FROM {name}.db.t WHERE id >= 0 GROUP BY kind").collect()
        }
        again = spark.sql(f"SELECT id FROM {name}.db.t WHERE id = 50").collect()
    assert found == {"k0": 43, "k1": 42, "new": 10}
    assert [row["id"] for row in again] == [50]
    lines = [line for line in caplog.messages if "file system" in line]
    assert len(lines) <= 1, "a scheme is named once"
    plan = spark.sql(f"EXPLAIN SELECT id FROM {name}.db.t WHERE id = 50").collect()[0][0]
    assert "Arrow" in plan
    assert s3.properties["s3.secret-access-key"] not in plan
    spark.sql(f"CALL {name}.system.rewrite_data_files(table => 'db.t')")
    assert spark.table(f"{name}.db.t").count() == 95
    spark.sql(f"DROP TABLE {name}.db.t PURGE")
