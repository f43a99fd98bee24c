"""Streams that write to tables: output modes, restarts, options, errors, metrics, and what streams do to Spark's state beside the write."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 Spark's users know it by this letter
from tests.spark.sql.conftest import Run, stored
from tests.spark.sql_tab import executions, metrics_since, of_nodes

from icefloe import SqlCatalog
from icefloe.commit.stream_epoch import StreamEpoch

pytestmark = pytest.mark.spark

COLUMNS = "id BIGINT, name STRING, at TIMESTAMP"
Start = Callable[..., Any]


class Source:
    """A folder of JSON files, each of which is a micro-batch."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._folder = folder
        self._files = 0
        folder.mkdir()
        self.stream: DataFrame = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).json(str(folder))

    def add(self, *rows: tuple[int, str]) -> None:
        """Add a file; rows of one file have the same time, an hour after those of the file before."""
        self._files += 1
        lines = [json.dumps({"id": number, "name": name, "at": f"2026-01-01T{self._files:02}:00:00Z"}) for number, name in rows]
        (self._folder / f"{self._files}.json").write_text("\n".join(lines))
        os.utime(self._folder / f"{self._files}.json", (self._files, self._files))


@pytest.fixture
def source(spark: SparkSession, tmp_path: Path) -> Source:
    return Source(spark, tmp_path / "source")


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return tmp_path / "checkpoint"


@pytest.fixture(autouse=True)
def _two_partitions(spark: SparkSession) -> Any:
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    yield
    spark.conf.set("spark.sql.shuffle.partitions", str(before))


def run(stream: DataFrame, checkpoint: Path, name: str = "lake.db.t", mode: str = "append", **options: str) -> list[tuple[int, int]]:
    """Write what a stream has now, and return for each epoch its rows in the sink and in the source."""
    options["checkpointLocation"] = str(checkpoint)
    query = stream.writeStream.outputMode(mode).options(**options).trigger(availableNow=True).toTable(name)
    query.awaitTermination()
    return [(progress.sink.numOutputRows, progress.numInputRows) for progress in query.recentProgress]


def lose_commit_log(checkpoint: Path, epoch: int) -> None:
    """Leave the checkpoint as it is if the process is killed between the commit of the table and Spark's record of it."""
    (checkpoint / "commits" / str(epoch)).unlink()
    (checkpoint / "commits" / f".{epoch}.crc").unlink(missing_ok=True)


def test_an_append_stream_writes_every_row_once_across_restarts(
    spark: SparkSession, sql: Run, lake: SqlCatalog, source: Source, checkpoint: Path
) -> None:
    sql(
        "CREATE TABLE lake.db.t (id BIGINT, name STRING, at TIMESTAMP) USING iceberg PARTITIONED BY (bucket(4, id)) "
        "TBLPROPERTIES ('write.distribution-mode' = 'hash')"
    )
    sql("CACHE TABLE lake.db.t")
    source.add((1, "a"), (2, "b"))
    source.add((3, "c"))
    before = executions(spark)
    options = {"fanout-enabled": "false", "snapshot-property.who": "me", "compression-codec": "gzip"}
    assert run(source.stream, checkpoint, **options) == [(2, 2), (1, 1)]
    # Spark runs each micro-batch in an execution within another one, which has the same plan and no values.
    writes = [write for write in of_nodes(metrics_since(spark, before), "StreamWrite") if write]
    assert [(write["number of inserted rows"], write["number of commit attempts"]) for write in writes] == [("2", "1"), ("1", "1")]
    assert sql("SELECT count(*) FROM lake.db.t") == [(3,)]
    sql("UNCACHE TABLE lake.db.t")
    table = lake.load_table("db.t")
    assert [snapshot.summary["who"] for snapshot in table.snapshots()] == ["me", "me"]

    lose_commit_log(checkpoint, 1)
    files = {path.name for path in Path(table.location().removeprefix("file://")).rglob("*.parquet")}
    source.add((4, "d"))
    assert run(source.stream, checkpoint) == [(0, 1), (1, 1)]
    assert stored(lake, "id", "name") == [(1, "a"), (2, "b"), (3, "c"), (4, "d")]
    new_files = {path.name for path in Path(table.location().removeprefix("file://")).rglob("*.parquet")} - files
    assert len(new_files) == 1

    # Other writers, the expiry of every older snapshot, a new column, and another way to name the table.
    table.refresh().append(pa.table({"id": [100], "name": ["x"]}))
    table.expire_snapshots(older_than=2**53, retain_last=1)
    sql("ALTER TABLE lake.db.t ADD COLUMN note STRING")
    lose_commit_log(checkpoint, 2)
    source.add((5, "e"))
    options = {"checkpointLocation": str(checkpoint), "path": "lake.db.t"}
    source.stream.writeStream.format("iceberg").options(**options).trigger(availableNow=True).start().awaitTermination()
    assert stored(lake, "id", "name", "note") == [(n, name, None) for n, name in [*zip(range(1, 6), "abcde", strict=True), (100, "x")]]


def test_a_stream_of_java_continues_without_writing_its_last_epoch_again(
    sql: Run, lake: SqlCatalog, source: Source, checkpoint: Path
) -> None:
    sql("CREATE TABLE lake.db.t (id BIGINT, name STRING) USING iceberg")
    source.add((1, "a"))
    run(source.stream.select("id", "name"), checkpoint)
    query_id = json.loads((checkpoint / "metadata").read_text())["id"]
    table = lake.create_table("db.java", lake.load_table("db.t").schema())
    table.append(pa.table({"id": [1], "name": ["a"]}), StreamEpoch(query_id=query_id, epoch=0, branch="main").summary)
    table.append(pa.table({"id": [7], "name": ["x"]}))
    lose_commit_log(checkpoint, 0)
    source.add((2, "b"))
    run(source.stream.select("id", "name"), checkpoint, "lake.db.java")
    assert stored(lake, "id", name="db.java") == [(1,), (2,), (7,)]


def test_aggregates_replace_the_table_or_rows_of_a_branch_by_key(
    spark: SparkSession, sql: Run, lake: SqlCatalog, source: Source, tmp_path: Path
) -> None:
    counts = source.stream.groupBy("name").count()
    sql("CREATE TABLE lake.db.t (name STRING, count BIGINT) USING iceberg TBLPROPERTIES ('format-version' = '3')")
    sql("INSERT INTO lake.db.t VALUES ('z', 0)")
    sql("ALTER TABLE lake.db.t CREATE BRANCH b")
    source.add((1, "a"), (2, "b"))
    source.add((3, "a"))
    assert run(counts, tmp_path / "complete", mode="complete") == [(2, 2), (2, 1)]
    assert stored(lake, "name", "count") == [("a", 2), ("b", 1)]
    lose_commit_log(tmp_path / "complete", 1)
    source.add((4, "c"))
    assert run(counts, tmp_path / "complete", mode="complete") == [(0, 1), (3, 1)]  # the state of the query has every epoch
    assert stored(lake, "name", "count") == [("a", 2), ("b", 1), ("c", 1)]
    table = lake.load_table("db.t")
    assert [snapshot.operation for snapshot in table.snapshots()] == ["append", "overwrite", "overwrite", "overwrite"]

    options = {"key-columns": "NAME", "write-format": "orc"}
    assert run(counts, tmp_path / "update", "lake.db.t.branch_b", "update", **options) == [(2, 2), (1, 1), (1, 1)]
    assert sorted(map(tuple, spark.table("lake.db.t.branch_b").collect())) == [("a", 2), ("b", 1), ("c", 1), ("z", 0)]
    branch_files = table.refresh().scan(branch="b").plan_files()
    assert {task.file.file_format.lower() for task in branch_files} == {"parquet", "orc"}
    assert stored(lake, "name", "count") == [("a", 2), ("b", 1), ("c", 1)]


@pytest.mark.slow
def test_rows_replace_rows_by_the_identifier_fields(sql: Run, lake: SqlCatalog, source: Source, checkpoint: Path) -> None:
    sql("CREATE TABLE lake.db.t (id BIGINT NOT NULL, name STRING) USING iceberg")
    sql("ALTER TABLE lake.db.t SET IDENTIFIER FIELDS id")
    source.add((1, "a"), (2, "b"))
    source.add((2, "c"), (3, "d"))
    stream = source.stream.select("id", "name")
    assert run(stream, checkpoint, mode="update", **{"check-nullability": "false"}) == [(2, 2), (2, 2)]
    assert stored(lake, "id", "name") == [(1, "a"), (2, "c"), (3, "d")]
    source.add((4, "e"), (4, "f"))
    with pytest.raises(StreamingQueryException, match="4"):
        run(stream, checkpoint, mode="update", **{"check-nullability": "false"})


@pytest.mark.slow
def test_watermarks_and_a_new_table(spark: SparkSession, sql: Run, lake: SqlCatalog, source: Source, checkpoint: Path) -> None:
    source.add((1, "a"), (1, "a"))
    source.add((1, "a"), (2, "b"))
    unique = source.stream.withWatermark("at", "10 minutes").dropDuplicates(["id", "at"])
    window = unique.groupBy(F.window("at", "1 hour").alias("w")).count().select("w.start", "count")
    source.add((9, "z"))
    progress = run(window, checkpoint)
    assert [rows for _, rows in progress if rows] == [2, 2, 1]
    assert lake.load_table("db.t").schema().names == ["start", "count"]
    assert stored(lake, "count") == [(1,)]  # the last two hours are open
    assert len(lake.load_table("db.t").snapshots()) == sum(1 for written, _ in progress if written)


def test_errors_name_what_is_wrong_before_rows_are_written(
    spark: SparkSession, sql: Run, lake: SqlCatalog, source: Source, tmp_path: Path
) -> None:
    sql("CREATE TABLE lake.db.t (id BIGINT, name STRING) USING iceberg")
    source.add((1, "a"))
    stream = source.stream.select("id", "name")
    wrong: list[tuple[DataFrame, str, dict[str, str], str]] = [
        (stream, "update", {}, r"lake\.db\.t has no identifier fields\s+Next: name the key columns"),
        (stream, "update", {"key-columns": "nope"}, "nope"),
        (stream, "append", {"key-columns": "id"}, "option of streams with the output mode update"),
        (stream, "append", {"branch": "c"}, "no branch 'c'"),
        (stream, "append", {"fanout-enable": "true"}, "write 'fanout-enabled'"),
        (stream, "append", {"delete-mode": "merge-on-read"}, "delete-mode is not supported"),
        (source.stream, "append", {}, "at: is not a column of the table"),
        (stream.select(F.col("id").cast("string"), "name"), "append", {}, "id"),
    ]
    for place, (rows, mode, options, message) in enumerate(wrong):
        with pytest.raises(StreamingQueryException, match=message):
            run(rows, tmp_path / f"wrong{place}", mode=mode, **options)
    source.add((2, None))  # type: ignore[arg-type]
    with pytest.raises(
        StreamingQueryException, match=r"null in the key column NAME, and replaces no row of lake\.db\.t\s+Next: leave such"
    ):
        run(stream.where("id = 2"), tmp_path / "null", mode="update", **{"key-columns": "id,NAME"})
    rate = spark.readStream.format("rate").load().selectExpr("value AS id", "'a' AS name")
    query = rate.writeStream.option("checkpointLocation", str(tmp_path / "continuous")).trigger(continuous="1 second").toTable("lake.db.t")
    with pytest.raises(StreamingQueryException, match="in micro-batches"):
        query.awaitTermination()
    with pytest.raises(PySparkException, match="TABLE_OR_VIEW_NOT_FOUND"):
        stream.writeStream.format("iceberg").option("checkpointLocation", str(tmp_path / "none")).start("lake.db.none")
    assert len(lake.load_table("db.t").snapshots()) == 0
    assert not list((tmp_path / "warehouse").rglob("*.parquet"))


def test_a_stream_that_is_stopped_ends_without_error_and_leaves_no_file(
    spark: SparkSession, sql: Run, lake: SqlCatalog, checkpoint: Path, tmp_path: Path
) -> None:
    sql("CREATE TABLE lake.db.t (id BIGINT) USING iceberg")
    sleep = F.udf(lambda number: time.sleep(30) or number, "bigint")
    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 2).load().select(sleep("value").alias("id"))
    query = stream.writeStream.option("checkpointLocation", str(checkpoint)).toTable("lake.db.t")
    tracker = spark.sparkContext.statusTracker()
    deadline = time.monotonic() + 60
    while not tracker.getActiveJobsIds() and time.monotonic() < deadline:
        time.sleep(0.05)
    begun = time.monotonic()
    query.stop()
    assert time.monotonic() - begun < 25
    assert query.exception() is None
    assert not list((tmp_path / "warehouse").rglob("*.parquet"))


@pytest.mark.slow
def test_foreach_batch_merges_beside_a_stream(spark: SparkSession, sql: Run, lake: SqlCatalog, source: Source, checkpoint: Path) -> None:
    sql("CREATE TABLE lake.db.t (id BIGINT, name STRING) USING iceberg TBLPROPERTIES ('write.merge.mode' = 'merge-on-read')")
    sql("INSERT INTO lake.db.t VALUES (1, 'old'), (2, 'old')")

    def merge(batch: DataFrame, _: int) -> None:
        batch.createOrReplaceTempView("changes")
        batch.sparkSession.sql(
            "MERGE INTO lake.db.t t USING changes c ON t.id = c.id WHEN MATCHED AND c.name = 'gone' THEN DELETE "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )

    source.add((1, "new"), (2, "gone"), (3, "more"))
    stream = source.stream.select("id", "name").writeStream.foreachBatch(merge).option("checkpointLocation", str(checkpoint))
    stream.trigger(availableNow=True).start().awaitTermination()
    lose_commit_log(checkpoint, 0)
    stream.trigger(availableNow=True).start().awaitTermination()
    assert stored(lake, "id", "name")[0::2] == [(1, "new"), (3, "more")]
