"""Tables as sources of Structured Streaming: each row of an append once, whatever happens between the batches."""

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 Spark's users know it by this letter

from icefloe import SqlCatalog
from icefloe.catalog.file_system_catalog import FileSystemCatalog
from icefloe.spark.connect.connect_options import CatalogRecipe, RegisteredCatalogs
from icefloe.spark.connect.python_data_source import IcefloeSource
from icefloe.spark.scan import stream_batches
from icefloe.spark.scan.micro_batch_stream import SparkMicroBatchStream
from icefloe.spark.scan.table_selector import TableSelection
from icefloe.spec.types import LongType, NestedField, StructType
from icefloe.table import Table

pytestmark = pytest.mark.spark
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("kind", pa.string()),
        ("nested", pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))])),
        ("key", pa.binary()),
    ]
)
Read = Callable[..., list[list[Any]]]


def rows(*ids: int) -> pa.Table:
    values = [{"id": one, "kind": "ab"[one % 2], "nested": {"a": one, "b": [f"x{one}"]}, "key": bytes([one % 256])} for one in ids]
    return pa.Table.from_pylist(values, schema=SCHEMA)


@pytest.fixture
def read(spark: SparkSession, sql: Any, tmp_path: Path) -> Read:
    """Run a query over all that is available, from the checkpoint of the name on, and return the rows of each batch; `progress` receives its reports."""

    def run(frame: DataFrame, name: str = "checkpoint", progress: list[Any] | None = None, **trigger: Any) -> list[list[Any]]:
        batches: list[list[Any]] = []
        query = (
            frame.writeStream.foreachBatch(lambda batch, _: batches.append(sorted(tuple(row) for row in batch.collect())))
            .option("checkpointLocation", str(tmp_path / name))
            .trigger(**(trigger or {"availableNow": True}))
            .start()
        )
        query.awaitTermination()
        if progress is not None:
            progress += query.recentProgress
        return batches

    return run


def stream(spark: SparkSession, name: str = "lake.db.t", **options: str) -> DataFrame:
    return spark.readStream.options(**{key.replace("_", "-"): value for key, value in options.items()}).table(name)


def new_table(lake: SqlCatalog, name: str = "db.t", **properties: str) -> Table:
    spec = {"format-version": "2", "write.delete.mode": "merge-on-read", **properties}
    return lake.create_table(name, SCHEMA, partition_spec=["kind"], properties=spec)


def test_columns_of_batches_with_rows_may_have_nulls_as_those_of_batches_without(
    spark: SparkSession, sql: Any, lake: SqlCatalog, tmp_path: Path
) -> None:
    new_table(lake).append(rows(1, 2))
    # Spark compares the schema of a stream's state, and a batch without rows has no scan.
    frame = stream(spark).where("id IS NOT NULL").select("id")
    query = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "nulls")).trigger(availableNow=True).start()
    query.awaitTermination()
    output = query._jsq.streamingQuery().lastExecution().optimizedPlan().children().head().output()
    assert output.head().nullable()


def test_a_stream_continues_over_restarts_expiry_compaction_and_new_names(spark: SparkSession, lake: SqlCatalog, read: Read) -> None:
    table = new_table(lake)
    table.append(rows(1, 2, 3, 4))
    table.append(rows(5, 6))
    table.delete("id = 3")
    reports: list[Any] = []
    batches = read(stream(spark, streaming_max_files_per_micro_batch="1").select("id", "nested"), progress=reports)
    assert sorted(map(len, batches)) == [1, 1, 1, 2]
    assert sorted(row for batch in batches for row in batch) == [(one, (one, [f"x{one}"])) for one in (1, 2, 4, 5, 6)]
    assert sum(report.numInputRows for report in reports) == 5, "the rows of the files without the deleted one"
    assert reports[0].sources[0].metrics["numFilesOutstanding"] == "3", "one of the four was read"
    assert reports[-1].sources[0].description == "Icefloe stream of lake.db.t"

    table.refresh().append(rows(7, 8))
    with table.update_schema() as update:
        update.rename_column("nested", "inner")
        update.add_column("more", "string")
    table.maintenance.rewrite_data_files(strategy="binpack")
    table.append(pa.table({"id": [9], "kind": ["b"], "more": ["new"]}))
    table.expire_snapshots(older_than=2**52, retain_last=3)
    assert len(table.snapshots()) == 3, "those that the stream has not read"
    batches = read(stream(spark).select("id", "inner.a", "more"))
    assert [row for batch in batches for row in batch] == [(7, 7, None), (8, 8, None), (9, None, "new")]
    assert read(stream(spark).select("id", "inner.a", "more")) == []


def test_a_query_of_what_is_available_ends_at_the_snapshot_of_its_start(lake: SqlCatalog) -> None:
    table = new_table(lake)

    def begin() -> SparkMicroBatchStream:
        of_query = SparkMicroBatchStream(SimpleNamespace(query={"options": {}}, selected=TableSelection(table=lake.load_table("db.t"))))  # type: ignore[arg-type]
        of_query.prepare_for_available_now()
        return of_query

    limits: Any = {"files": None, "rows": None, "bytes": None}
    empty = begin()
    table.append(rows(1))
    assert empty.next_offset(empty.initial_offset(), limits) is None, "nothing was available"
    first = begin()
    table.append(rows(2))
    end = first.next_offset(first.initial_offset(), limits)
    assert end is not None
    table.expire_snapshots(older_than=2**52, retain_last=1)
    assert first.next_offset(end, limits) == end, "the last snapshot is expired, and newer ones are those of the next query"
    assert first.metrics(end)["numRowsOutstanding"] == "0"
    second = begin()
    assert second.metrics(end)["numRowsOutstanding"] == "1"
    assert second.next_offset(end, limits) not in (None, end)


def test_an_interval_limits_how_often_the_table_is_loaded(lake: SqlCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = new_table(lake)
    table.append(rows(1))
    clock, options = [100.0], {"Streaming-Snapshot-Polling-Interval-Ms": "2000"}
    monkeypatch.setattr(stream_batches, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    of_query = SparkMicroBatchStream(SimpleNamespace(query={"options": options}, selected=TableSelection(table=lake.load_table("db.t"))))  # type: ignore[arg-type]
    limits: Any = {"files": 1, "rows": None, "bytes": None}
    first = of_query.next_offset(of_query.initial_offset(), limits)
    assert first is not None
    table.append(rows(2))
    clock[0] += 1.9
    assert of_query.next_offset(first, limits) == first
    clock[0] += 0.2
    second = of_query.next_offset(first, limits)
    assert second not in (None, first)
    table.append(rows(3))
    of_query.prepare_for_available_now()
    assert of_query.next_offset(second or "", limits) not in (None, second), "what is available is known whatever the interval"


def test_new_columns_are_named_once_also_inside_of_others(lake: SqlCatalog, caplog: pytest.LogCaptureFixture) -> None:
    table = new_table(lake)
    table.append(rows(1))
    of_query = SparkMicroBatchStream(SimpleNamespace(query={"options": {}}, selected=TableSelection(table=lake.load_table("db.t"))))  # type: ignore[arg-type]
    limits: Any = {"files": None, "rows": None, "bytes": None}
    with table.update_schema() as update:
        update.add_column(("nested", "c"), "string")
        update.add_column("more", StructType(NestedField(1, "x", LongType(), required=False)))
    for _ in range(2):
        of_query.next_offset(of_query.initial_offset(), limits)
    (text,) = (record.getMessage() for record in caplog.records if "new columns" in record.getMessage())
    assert "does not read the new columns nested.c, more until the query is started again" in text


def test_snapshots_that_replace_rows_are_refused_skipped_or_read(
    spark: SparkSession, lake: SqlCatalog, sql: Any, read: Read, tmp_path: Path
) -> None:
    table = new_table(lake, **{"write.merge.mode": "merge-on-read"})
    table.append(rows(1, 2))
    for name in ("refused", "skipped", "read"):
        assert read(stream(spark).select("id"), name) == [[(1,), (2,)]]
    sql("MERGE INTO lake.db.t USING (SELECT 2 AS id UNION SELECT 3) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET kind = 'c' "
        "WHEN NOT MATCHED THEN INSERT (id, kind) VALUES (s.id, 'd')")  # fmt: skip
    table.refresh().append(rows(4))
    with pytest.raises(
        Exception, match=r"cannot process the overwrite snapshot [0-9]+ of [\s\S]*Next: set streaming-read-overwrite-snapshots=true"
    ):
        read(stream(spark).select("id"), "refused")
    assert read(stream(spark, streaming_skip_overwrite_snapshots="true").select("id"), "skipped") == [[(4,)]]
    batches = read(stream(spark, streaming_read_overwrite_snapshots="true").select("id", "kind").where("id > 1"), "read")
    assert batches == [[(2, "c"), (3, "d"), (4, "a")]]


def test_a_stream_is_read_by_spark_with_the_columns_and_filters_of_the_query(
    spark: SparkSession, lake: SqlCatalog, sql: Any, tmp_path: Path, capfd: Any
) -> None:
    table = new_table(lake)
    table.append(rows(*range(10)))
    once = f"a{uuid.uuid4().hex}"
    counts = stream(spark).where("id >= 2").groupBy("kind").agg(F.sum("id").alias("s"))
    query = (
        counts.writeStream.format("memory").queryName(once).outputMode("complete").option("checkpointLocation", str(tmp_path / "a"))
        .trigger(once=True).start()
    )  # fmt: skip
    query.awaitTermination()
    assert sorted(sql(f"SELECT * FROM {once}")) == [("a", 20), ("b", 24)]
    assert query.recentProgress[0].numInputRows == 10
    plan = query._jsq.explainInternal(False)
    assert "MicroBatchScan[" in plan
    assert "nested" not in plan
    assert "ColumnarToRow" in plan
    # Two references to one stream, with different columns of which Spark must not read one twice.
    both = stream(spark)
    union = both.select(F.col("id").cast("string").alias("v")).union(both.select(F.col("kind").alias("v"))).groupBy("v").count()
    twice = f"b{uuid.uuid4().hex}"
    query = (
        union.writeStream.format("memory").queryName(twice).outputMode("complete").option("checkpointLocation", str(tmp_path / "b"))
        .trigger(availableNow=True).start()
    )  # fmt: skip
    query.awaitTermination()
    assert sorted(sql(f"SELECT * FROM {twice}")) == sorted([*((str(one), 1) for one in range(10)), ("a", 5), ("b", 5)])


def test_a_batch_is_merged_into_another_table(spark: SparkSession, lake: SqlCatalog, sql: Any, tmp_path: Path) -> None:
    table, target = new_table(lake), new_table(lake, "db.target")
    table.append(rows(1, 2, 3, 9))
    table.delete_keys(pa.table({"id": [9]}), key_columns=["id"])
    target.append(pa.table({"id": [2], "kind": ["old"]}))

    def merge(batch: DataFrame, _: int) -> None:
        batch.createOrReplaceTempView("batch")
        batch.sparkSession.sql(
            "MERGE INTO lake.db.target t USING batch s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )

    frame = stream(spark, streaming_max_files_per_micro_batch="1")
    query = frame.writeStream.foreachBatch(merge).option("checkpointLocation", str(tmp_path / "merge")).trigger(availableNow=True).start()
    query.awaitTermination()
    assert sorted(sql("SELECT id, kind, nested.a FROM lake.db.target")) == [(1, "b", 1), (2, "a", 2), (3, "b", 3)]


@pytest.mark.parametrize("columns", [("id", "kind"), ("id", "nested", "key")])
def test_files_that_spark_does_not_read_are_read_through_python(
    spark: SparkSession, lake: SqlCatalog, read: Read, columns: tuple[str, ...]
) -> None:
    table = new_table(lake, **{"write.format.default": "orc"})
    table.append(rows(1, 2, 3))
    table.delete("id = 2")
    expected = [tuple(row[name] for name in columns) for row in rows(1, 3).to_pylist()]
    reports: list[Any] = []
    batches = read(stream(spark).select(*columns), progress=reports)
    plain = [[tuple(value.asDict() if hasattr(value, "asDict") else bytes(value) if isinstance(value, bytearray) else value for value in row)
              for row in batch] for batch in batches]  # fmt: skip
    assert plain == [expected]
    assert reports[0].numInputRows == 2


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("lake.db.t", {"snapshot-id": "1"}, "read with the option snapshot-id, and a stream has no single state"),
        ("lake.db.t.tag_x", {}, "a snapshot, tag or time in its name"),
        ("lake.db.t", {"streaming-max-files-per-micro-batch": "0"}, "is '0', which is not a whole number of at least 1"),
        ("lake.db.t", {"streaming-skip-overwrite-snapshots": "true", "streaming-read-overwrite-snapshots": "true"}, "give one of them"),
        ("lake.db.t", {"streaming-snapshot-polling-interval-ms": "1s"}, "is '1s', which is not a whole number of at least 1"),
        ("lake.db.t", {"streaming-on-missing-snapshots": "skip"}, "is not one of fail, oldest, newest"),
        ("lake.db.t", {"streaming-max-file-per-micro-batch": "1"}, "write 'streaming-max-files-per-micro-batch'"),
    ],
)
def test_options_that_a_stream_does_not_take_are_refused(
    spark: SparkSession, lake: SqlCatalog, read: Read, name: str, options: dict[str, str], words: str
) -> None:
    table = new_table(lake)
    table.append(rows(1))
    table.manage_snapshots().create_tag(table.metadata.current_snapshot_id or 0, "x").commit()
    with pytest.raises(Exception, match=words):
        read(spark.readStream.options(**options).table(name))


def test_a_branch_and_a_folder_are_streams_and_a_changed_type_is_reported(
    spark: SparkSession, lake: SqlCatalog, read: Read, tmp_path: Path
) -> None:
    table = lake.create_table("db.t", pa.schema([("id", pa.int32())]))
    table.append(pa.table({"id": pa.array([1], pa.int32())}))
    table.manage_snapshots().create_branch(table.metadata.current_snapshot_id or 0, "audit").commit()
    table.append(pa.table({"id": pa.array([2], pa.int32())}))
    assert read(stream(spark, branch="audit"), "option") == [[(1,)]]
    assert read(stream(spark, "lake.db.t.branch_audit"), "name") == [[(1,)]]
    by_format = spark.readStream.format("iceberg").option("streaming-max-bytes-per-micro-batch", "1").load("lake.db.t")
    assert sorted(read(by_format, "format")) == [[(1,)], [(2,)]]
    with FileSystemCatalog("folders", warehouse=str(tmp_path / "folders")) as folders:
        folders.create_namespace("db")
        other = folders.create_table("db.t", pa.schema([("id", pa.int32())]))
        other.append(pa.table({"id": pa.array([3], pa.int32())}))
        assert read(spark.readStream.format("icefloe").load(other.location()), "folder") == [[(3,)]]
        with pytest.raises(Exception, match="is a metadata file, which never changes"):
            read(spark.readStream.format("icefloe").load(other.metadata_location), "file")
    frame = stream(spark)
    assert read(frame, "typed") == [[(1,), (2,)]]
    table.refresh().append(pa.table({"id": pa.array([4], pa.int32())}))
    assert read(frame, "typed") == [[(4,)]], "a DataFrame is read by several queries, each with a stream of its own"
    with table.update_schema() as update:
        update.update_column("id", "long")
    table.append(pa.table({"id": [2**40]}))
    with pytest.raises(Exception, match=r"schema of lake.db.t has changed[\s\S]*id: was int, and is long[\s\S]*start the query again"):
        read(frame, "typed")
    assert read(stream(spark), "typed") == [[(2**40,)]]


def test_the_python_data_source_has_the_same_offsets_and_epochs_and_continues_the_same_checkpoints(
    spark: SparkSession, lake: SqlCatalog, read: Read, sql: Any, tmp_path: Path
) -> None:
    """The data source of Spark Connect, in a classic session under a name of its own."""
    recipes = RegisteredCatalogs(catalogs={"lake": CatalogRecipe.of(lake)})
    named = {"__module__": __name__, "registered": recipes, "name": classmethod(lambda _: "icefloe_python")}
    spark.dataSource.register(type("NamedSource", (IcefloeSource,), named))
    table = new_table(lake)
    for one in (1, 2, 3):
        table.append(rows(one))
    limits = {"streaming-max-files-per-micro-batch": "2"} if spark.version >= "4.2" else {}

    def frame(source: str) -> DataFrame:
        return spark.readStream.format(source).options(**limits).load("lake.db.t").select("id", "nested", "key")

    first, classic = read(frame("icefloe_python"), "python"), read(frame("icefloe"), "classic")
    assert sorted(row[0] for batch in first for row in batch) == [1, 2, 3]
    if spark.version >= "4.2":
        assert first == classic
        assert offsets(tmp_path / "python") == offsets(tmp_path / "classic")
    else:
        assert [one["snapshot_id"] for one in offsets(tmp_path / "python")] == [table.snapshots()[2].snapshot_id]
    table.append(rows(4))
    assert [[row[0] for row in batch] for batch in read(frame("icefloe"), "python")] == [[4]]
    assert [[row[0] for row in batch] for batch in read(frame("icefloe_python"), "classic")] == [[4]]
    if spark.version < "4.1":
        return
    target = lake.create_table("db.target", table.schema())
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "1.json").write_text('{"id": 1}')
    for source in ("icefloe", "icefloe_python"):
        checkpoint = tmp_path / "written"
        for path in checkpoint.glob("commits/*"):
            path.unlink()  # as if the process was killed before Spark recorded the epoch
        stream = spark.readStream.schema("id BIGINT").json(str(tmp_path / "source"))
        query = stream.writeStream.format(source).option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        query.start("lake.db.target").awaitTermination()
        assert target.refresh().scan().to_arrow()["id"].to_pylist() == [1]


def offsets(checkpoint: Path) -> list[Any]:
    """Return the offsets in a checkpoint, in order."""
    return [
        json.loads((checkpoint / "offsets" / str(number)).read_text().splitlines()[-1])
        for number in range(len(list(checkpoint.glob("offsets/[0-9]*"))))
    ]
