"""`spark.read.format("icefloe")` and `df.write.format("icefloe")` in sessions with an attached catalog, read by Spark's own scan."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import icefloe.spark
from icefloe import SqlCatalog
from icefloe.spark.attach_catalog import attach

Run = Callable[[str], list[tuple[Any, ...]]]
pytestmark = pytest.mark.spark


@pytest.fixture
def rows(sql: Run, spark: SparkSession) -> DataFrame:
    """Return four rows for the empty, partitioned table `lake.db.t`."""
    sql("CREATE TABLE lake.db.t (id BIGINT, kind STRING) USING icefloe PARTITIONED BY (kind)")
    return spark.sql("SELECT id, if(id < 2, 'a', 'b') AS kind FROM range(4)")


def ids(frame: DataFrame) -> list[int]:
    return sorted(row.id for row in frame.collect())


def read(spark: SparkSession, name: str = "lake.db.t", form: str = "icefloe", **options: Any) -> DataFrame:
    return spark.read.format(form).options(**options).load(name)


def test_tables_of_an_attached_catalog_are_written_and_read(rows: DataFrame, spark: SparkSession, lake: SqlCatalog) -> None:
    options = {"compression-codec": "gzip", "snapshot-property.who": "me", "distribution-mode": "hash"}
    rows.write.format("icefloe").mode("append").options(**options).save("lake.db.t")
    table = lake.load_table("db.t")
    assert table.current_snapshot().summary["who"] == "me"
    for task in table.scan().plan_files():
        assert pq.ParquetFile(task.file.file_path.removeprefix("file://")).metadata.row_group(0).column(0).compression == "GZIP"
    frame = read(spark, form="iceberg").where("kind = 'a' AND id > 0")
    assert ids(frame) == [1]
    plan = frame._jdf.queryExecution().executedPlan().toString()
    assert "FileScan parquet" in plan
    assert "Python" not in plan
    assert len(frame.inputFiles()) == 1
    assert read(spark).agg({"id": "max"}).collect() == [(3,)]
    assert read(spark, "lake.db.t.snapshots").count() == 1
    assert read(spark, "db.t", catalog="lake").count() == spark.read.format("icefloe").options(table="lake.db.t").load().count() == 4


def test_other_snapshots_are_read_by_options(rows: DataFrame, spark: SparkSession, lake: SqlCatalog) -> None:
    rows.write.format("iceberg").mode("append").save("lake.db.t")
    table = lake.load_table("db.t")
    start = table.current_snapshot()
    table.manage_snapshots().create_branch(branch_name="b").create_tag(tag_name="done").commit()
    changed = rows.where("id = 3").selectExpr("id + 10 AS id", "kind")
    changed.write.format("icefloe").mode("overwrite").options(**{"overwrite-mode": "dynamic", "branch": "b"}).save("lake.db.t")
    assert ids(read(spark, branch="b")) == ids(read(spark, "lake.db.t.branch_b")) == [0, 1, 13]
    for point, found in (
        (start.snapshot_id, [0, 1, 2, 3]),
        ("done", [0, 1, 2, 3]),
        ("b", [0, 1, 13]),
    ):  # as Spark calls them for its own formats
        assert ids(read(spark, versionAsOf=point)) == ids(spark.read.option("versionAsOf", point).table("lake.db.t")) == found
    assert ids(read(spark, timestampAsOf="2999-01-01")) == [0, 1, 2, 3]
    with pytest.raises(Exception, match="had no snapshot at"):
        read(spark, timestampAsOf="2001-01-01")
    rows.write.format("icefloe").mode("overwrite").save("lake.db.t")
    for options in ({"snapshot-id": start.snapshot_id}, {"tag": "done"}, {"as-of-timestamp": start.timestamp_ms}):
        assert ids(read(spark, **options)) == [0, 1, 2, 3]
    assert ids(read(spark, **{"as-of-timestamp": "2100-01-01T00:00:00+00:00"})) == [0, 1, 2, 3]


def test_save_modes_append_overwrite_ignore_or_refuse(rows: DataFrame, spark: SparkSession, lake: SqlCatalog) -> None:
    for _ in range(2):
        rows.write.format("icefloe").mode("ignore").partitionBy("kind").save("lake.db.made")
    made = lake.load_table("db.made")
    assert (ids(read(spark, "lake.db.made")), [str(field.transform) for field in made.spec().fields]) == ([0, 1, 2, 3], ["identity"])
    assert dict(made.properties) == dict(lake.load_table("db.t").properties)
    with pytest.raises(Exception, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
        rows.write.format("icefloe").save("lake.db.made")
    rows.write.format("icefloe").mode("append").saveAsTable("lake.db.made")
    rows.write.format("iceberg").saveAsTable("lake.db.other")
    rows.where("id = 2").write.format("icefloe").mode("overwrite").saveAsTable("lake.db.other")
    assert (read(spark, "lake.db.made").count(), ids(spark.table("lake.db.other"))) == (8, [2])


def test_options_choose_rows_and_columns_and_tables_are_read_by_location(rows: DataFrame, spark: SparkSession, lake: SqlCatalog) -> None:
    rows.write.format("icefloe").mode("append").save("lake.db.t")
    assert read(spark, where="id > 1", columns="id").where("id < 3").collect() == [(2,)]
    rows.limit(1).write.format("icefloe").mode("overwrite").option("where", "id > 1").save("lake.db.t")
    assert ids(read(spark)) == [0, 0, 1]
    where = lake.load_table("db.t").metadata_location
    assert ids(read(spark, where).where("kind = 'a'").select("id")) == [0, 0, 1]
    assert read(spark, where).count() == 3
    with pytest.raises(Exception, match=r"cannot be changed[\s\S]*open it through its catalog"):
        rows.write.format("icefloe").mode("append").save(where)
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW by_format USING icefloe OPTIONS (path 'lake.db.t')")
    assert spark.table("by_format").count() == 3
    spark.catalog.dropTempView("by_format")


def test_other_sessions_and_threads_have_the_same_tables(rows: DataFrame, spark: SparkSession, lake: SqlCatalog) -> None:
    rows.write.format("icefloe").mode("append").save("lake.db.t")
    told, other = spark.newSession(), spark.newSession()
    icefloe.spark.register(told, sea=lake)
    attach(other, "pond", lake)
    told.range(7, 8).selectExpr("id", "'a' AS kind").write.format("icefloe").mode("append").save("sea.db.t")
    with ThreadPoolExecutor(3) as threads:
        found = threads.map(lambda one: ids(read(*one)), [(told, "sea.db.t"), (other, "pond.db.t"), (spark, "lake.db.t")] * 2)
        assert list(found) == [[0, 1, 2, 3, 7]] * 6
    other.sql("USE pond.db")
    assert ids(read(other, "t")) == [0, 1, 2, 3, 7]
    with pytest.raises(Exception, match=r'no catalog \'pond\'[\s\S]*attach\(spark, "pond", catalog\)'):
        read(told, "pond.db.t")


def test_wrong_reads_are_refused(rows: DataFrame, spark: SparkSession) -> None:
    reads: list[tuple[str, dict[str, str], str]] = [
        ("nolake.db.t", {}, r'no catalog \'nolake\'[\s\S]*icefloe.spark.attach\(spark, "nolake", catalog\)'),
        ("lake.db.nothing", {}, "TABLE_OR_VIEW_NOT_FOUND.*nothing"),
        ("t", {}, "the name .* has no catalog"),
        ("a b", {}, "PARSE_SYNTAX_ERROR"),
        ("lake.db.t", {"snapshot_id": "1"}, "no option 'snapshot_id'"),
        ("lake.db.t", {"snapshot-id": "one"}, "snapshot-id is 'one'"),
        ("lake.db.t", {"as-of-timestamp": "yesterday"}, "not a time with its zone"),
        ("lake.db.t", {"snapshot-id": "1", "tag": "x"}, "one snapshot"),
        ("lake.db.t", {"versionAsOf": "1", "where": "id > 1"}, r"no option 'versionasof' here\s+Next: give one of snapshot-id, branch"),
        ("lake.db.t", {"columns": "nothing"}, "nothing"),
        ("/no/such/folder", {}, "/no/such/folder"),
    ]
    for name, options, words in reads:
        with pytest.raises(Exception, match=words):
            read(spark, name, **options).collect()


def test_wrong_writes_are_refused(rows: DataFrame, lake: SqlCatalog) -> None:
    writes: list[tuple[str, str, dict[str, str], str]] = [
        ("append", "lake.db.nothing", {}, "TABLE_OR_VIEW_NOT_FOUND.*nothing"),
        ("append", "nolake.db.t", {}, "no catalog 'nolake'"),
        ("error", "nolake.db.t", {}, "only a table of an attached catalog is made"),
        ("append", "lake.db.t", {"where": "id > 1"}, "the rows that an overwrite replaces"),
        ("append", "lake.db.t", {"distribution-mode": "round"}, "one of none, hash, range"),
    ]
    for mode, name, options, words in writes:
        with pytest.raises(Exception, match=words):
            rows.write.format("icefloe").mode(mode).options(**options).save(name)
    assert lake.load_table("db.t").current_snapshot() is None
