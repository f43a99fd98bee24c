"""`CALL system.snapshot` of tables of Spark's session catalog: the same rows, and the source stays a table of Spark."""

from pathlib import Path

import pyarrow as pa
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


def test_timestamps_that_spark_writes_are_read_by_spark_and_in_process(spark: SparkSession, lake: SqlCatalog, tmp_path: Path) -> None:
    attach(spark, "lake", lake)
    micros = [1_704_085_200_123_456, 0, -3_000_000_000_000_000, -13_000_000_000_000_000, None]
    rows = ", ".join(f"({number}, {'NULL' if value is None else f'{value}L'})" for number, value in enumerate(micros))
    is_utc = spark._jvm.java.util.TimeZone.getDefault().getID() in ("UTC", "GMT", "Etc/UTC")  # ORC has the clock of the machine
    for file_format in ("parquet", "orc") if is_utc else ("parquet",):
        kept = len(micros) if file_format == "parquet" else 3  # Arrow reads from ORC what nanoseconds can count
        spark.sql(
            f"""CREATE TABLE snapshot_times USING {file_format} LOCATION '{tmp_path}/{file_format}' AS
            SELECT id, timestamp_micros(u) AS ts, CAST(timestamp_micros(u) AS TIMESTAMP_NTZ) AS local, array(timestamp_micros(u)) AS l
            FROM VALUES {rows} AS v(id, u) WHERE id < {kept}"""
        )
        try:
            spark.sql(f"CALL lake.system.snapshot('snapshot_times', 'db.{file_format}')")
        finally:
            spark.sql("DROP TABLE snapshot_times")
        query = "SELECT id, unix_micros(ts) AS ts, unix_micros(CAST(local AS TIMESTAMP)) AS local, unix_micros(l[0]) AS l FROM lake.db."
        expected = [(number, value, value, value) for number, value in enumerate(micros[:kept])]
        assert sorted(map(tuple, spark.sql(query + file_format).collect())) == expected
        in_process = lake.load_table(f"db.{file_format}").scan().to_arrow().sort_by("id")
        assert [str(in_process.schema.field(name).type) for name in ("ts", "local")] == ["timestamp[us, tz=UTC]", "timestamp[us]"]
        for column in (in_process["ts"], in_process["local"], in_process["l"].combine_chunks().flatten()):
            assert column.cast(pa.int64()).to_pylist() == micros[:kept]
        found = spark.sql(f"SELECT id FROM lake.db.{file_format} WHERE ts < TIMESTAMP'1900-01-01 00:00:00'").collect()
        assert sorted(row.id for row in found) == [number for number in (2, 3) if number < kept]
