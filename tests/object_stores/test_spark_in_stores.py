"""Spark reads and writes tables in an object store with no JAR: it has no Hadoop file system for `s3`."""

import logging
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.emulators import ObjectStore, RequestLog

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


def test_a_filtered_scan_by_spark_makes_at_most_three_requests_for_a_file(spark: SparkSession, s3: ObjectStore, tmp_path: Path) -> None:
    log = RequestLog(s3.properties["s3.endpoint"])
    try:
        properties = {**s3.properties, "s3.endpoint": log.address}
        catalog = load_catalog("counted", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"{s3.bucket}/w", **properties)
        icefloe.spark.attach(spark, "counted", catalog)
        catalog.create_namespace("db")
        count = 200_000
        wide = pa.table({f"c{number}": pa.array(range(count), pa.int64()) for number in range(12)})
        table = catalog.create_table(
            "db.t", wide.schema, properties={"write.parquet.row-group-limit": "50000", "write.parquet.compression-codec": "uncompressed"}
        )
        for _ in range(3):
            table.append(wide)
        sizes = [task.file.file_size_in_bytes for task in table.scan().plan_files()]
        assert min(sizes) > 4 * 1024 * 1024, "a small file would be read as a whole"
        log.requests.clear()
        found = spark.sql("SELECT sum(c1), count(c9) FROM counted.db.t WHERE c3 >= 60000 AND c3 < 60010").collect()
        assert [tuple(row) for row in found] == [(3 * sum(range(60000, 60010)), 30)]
        requests: dict[str, int] = {}
        for _, path, _ in log.of("/data/"):
            requests[path] = requests.get(path, 0) + 1
        assert len(requests) == 3
        assert max(requests.values()) <= 3, log.of("/data/")
    finally:
        log.close()
