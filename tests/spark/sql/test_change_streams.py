"""Streams of changes: applied to the rows, each batch gives the table as it was after the batch, and has the rows that a read of the same changes has."""

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 Spark's users know it by this letter
from tests.spark.sql.conftest import Run
from tests.table.change_model import History, append

from icefloe import SqlCatalog
from icefloe.catalog.file_system_catalog import FileSystemCatalog
from icefloe.table import Table

pytestmark = pytest.mark.spark
REMOVED, ADDED = ("delete", "update_preimage"), ("insert", "update_postimage")
KINDS = {"INSERT": "insert", "DELETE": "delete", "UPDATE_BEFORE": "update_preimage", "UPDATE_AFTER": "update_postimage"}
STEPS = ("append", "delete", "delete_by_value", "delete_keys", "upsert", "upsert_stream", "merge", "overwrite", "compact", "change_schema",
         "change_spec", "upgrade", "change_mode", "rewrite_manifests", "write_to_branch")  # fmt: skip
Rows = list[tuple[Any, ...]]


class ConsumerError(Exception):
    """Raised by the tests' own consumer of a batch."""


@pytest.fixture
def read(spark: SparkSession, sql: Run, tmp_path: Path) -> Callable[..., dict[int, Rows]]:
    """Run a query over all that is available, from the checkpoint of the name on, and return the rows of each batch by its number."""

    def run(
        frame: DataFrame, name: str = "checkpoint", fails: bool = False, progress: list[Any] | None = None, **trigger: Any
    ) -> dict[int, Rows]:
        batches: dict[int, Rows] = {}

        def consume(batch: DataFrame, number: int) -> None:
            batches[number] = [tuple(row) for row in batch.collect()]
            if fails:
                raise ConsumerError

        query = frame.writeStream.foreachBatch(consume).option("checkpointLocation", str(tmp_path / name))
        started = query.trigger(**(trigger or {"availableNow": True})).start()
        try:
            started.awaitTermination()
        except Exception:
            if not fails or not batches:
                raise
        if progress is not None:
            progress += started.recentProgress
        return batches

    return run


def changes(spark: SparkSession, name: str = "lake.db.t", **options: Any) -> DataFrame:
    """Return a stream of changes, as every version of Spark has it."""
    texts = {key.replace("_", "-"): str(value) for key, value in options.items()}
    return spark.readStream.format("iceberg").option("read.mode", "changes").options(**texts).load(name)


def ways(spark: SparkSession) -> Iterator[Callable[[dict[str, Any]], DataFrame]]:
    """Yield the ways in which this Spark reads the same stream of changes."""
    yield lambda options: changes(spark, **options)
    if spark.version < "4.2":
        return
    yield lambda options: spark.readStream.options(**{key.replace("_", "-"): str(value) for key, value in options.items()}).changes(
        "lake.db.t"
    )


def applied(rows: Counter[tuple[Any, ...]], batch: Rows, line: list[int]) -> Counter[tuple[Any, ...]]:
    """Return the rows after the changes of a batch, snapshot by snapshot. A deleted row that is not there is an error."""
    after = Counter(rows)
    for snapshot_id in sorted({row[-2] for row in batch}, key=line.index):
        of_snapshot = [row for row in batch if row[-2] == snapshot_id]
        after.subtract(Counter(row[:-3] for row in of_snapshot if row[-3] in REMOVED))
        assert all(count >= 0 for count in after.values()), "deleted, and never there"
        after.update(Counter(row[:-3] for row in of_snapshot if row[-3] in ADDED))
    return +after


def listed(table: Table, start: int | None, end: int, **more: Any) -> Counter[tuple[Any, ...]]:
    """Return the changes of snapshots as this process reads them, with Spark's names of the kinds."""
    names = [*table.schema().names, "_change_type", "_commit_snapshot_id"]
    rows = table.changes(start, end, **more).select(*names).to_arrow().select(names)
    return Counter((*row[:-2], KINDS[row[-2]], row[-1]) for row in zip(*(column.to_pylist() for column in rows.columns), strict=True))


def offset_of(checkpoint: Path, number: int) -> dict[str, Any]:
    return dict(json.loads((checkpoint / "offsets" / str(number)).read_text().splitlines()[-1]))


class Reader:
    """A query over the changes of a history's table that is started again and again, beside steps of the history."""

    def __init__(self, spark: SparkSession, read: Callable[..., dict[int, Rows]], checkpoint: Path, history: History) -> None:
        self.history, self.table, self.chance = history, history.table, history.chance
        self.read, self.checkpoint = read, checkpoint
        self.ways = list(ways(spark))
        self.position: dict[str, Any] | None = None  # the offset of the last batch that was consumed
        self.failed: tuple[int, Counter[tuple[Any, ...]]] | None = None  # a batch that was not consumed, and its rows
        self.updates = False

    def start(self, *, fails: bool = False) -> None:
        options: dict[str, Any] = dict(self.chance.choice([{}, {"streaming_max_rows_per_micro_batch": self.chance.randint(1, 8)},
                                                           {"streaming_max_files_per_micro_batch": 1}]))  # fmt: skip
        if self.failed is None:
            self.updates = self.table.refresh().format_version == 3 and self.chance.random() < 0.5
        if self.updates:
            options["computeUpdates"] = "true"
        batches = self.read(self.chance.choice(self.ways)(options), fails=fails)
        self.table.refresh()
        for number, rows in batches.items():
            if self.failed is not None and self.failed[0] == number:
                assert Counter(rows) == self.failed[1], "a batch that runs again has the same rows"
            if fails:
                self.failed = (number, Counter(rows))
                return
            self.failed = None
            self.check(rows, offset_of(self.checkpoint, number))

    def check(self, rows: Rows, offset: dict[str, Any]) -> None:
        """Check the rows of a batch against the model, and against a read of the same snapshots."""
        line = [snapshot.snapshot_id for snapshot in self.table.ancestors()][::-1]
        end, before = offset["snapshot_id"], self.position
        self.position = offset
        if offset["scan_all_files"]:
            self.first_rows = [*getattr(self, "first_rows", []), *rows]
            if offset.get("is_complete"):
                assert Counter(row[:-3] for row in self.first_rows) == self.history.state(end)
                assert {(row[-3], row[-2]) for row in self.first_rows} <= {("insert", end)}
            return
        assert before is not None
        if not before.get("is_complete"):  # the batch begins with the last rows of the first snapshot
            last = [row for row in rows if row[-2] == before["snapshot_id"]]
            assert Counter(row[:-3] for row in [*self.first_rows, *last]) == self.history.state(before["snapshot_id"])
            rows = [row for row in rows if row[-2] != before["snapshot_id"]]
        assert applied(self.history.state(before["snapshot_id"]), rows, line) == self.history.state(end)
        expected = listed(self.table, before["snapshot_id"], end, compute_updates=self.updates)
        assert Counter(row[:-1] for row in rows) == expected

    def expire(self) -> None:
        """Expire the snapshots before the one that was read: it has the rows that the next snapshot may remove."""
        line = [snapshot.snapshot_id for snapshot in self.table.refresh().ancestors()]
        gone = [] if self.position is None else line[line.index(self.position["snapshot_id"]) + 1 :]
        if gone:
            self.table.expire_snapshots(snapshot_ids=gone)


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(100, 140))])
def test_the_changes_of_a_random_history_give_the_table_after_every_batch(
    spark: SparkSession, lake: SqlCatalog, read: Callable[..., dict[int, Rows]], tmp_path: Path, seed: int
) -> None:
    history = History.begin(seed, lake, lambda text: spark.sql(text).collect())
    append(history)
    history.note(None)
    reader = Reader(spark, read, tmp_path / "checkpoint", history)
    random.seed(seed)
    try:
        for _ in range(3):
            for _ in range(history.chance.randint(1, 4)):
                history.step(*STEPS)
            if history.chance.random() < 0.5:
                reader.start(fails=True)
                history.step("append", "delete", "upsert", "overwrite", "compact")
            reader.start()
            if history.chance.random() < 0.5:
                reader.expire()
    except BaseException as error:
        error.add_note(f"steps: {history.steps}")
        raise


def new_table(lake: SqlCatalog, name: str = "db.t", **properties: str) -> Table:
    spec = {"format-version": "3", **{f"write.{verb}.mode": "merge-on-read" for verb in ("delete", "update", "merge")}, **properties}
    return lake.create_table(
        name, pa.schema([("id", pa.int64()), ("name", pa.string()), ("tags", pa.map_(pa.string(), pa.int32()))]), properties=spec
    )


def rows(*ids: int) -> pa.Table:
    schema = pa.schema([("id", pa.int64()), ("name", pa.string()), ("tags", pa.map_(pa.string(), pa.int32()))])
    return pa.Table.from_pylist([{"id": one, "name": f"n{one}", "tags": [("a", one)]} for one in ids], schema=schema)


def test_merges_and_compactions_are_read_by_every_way_with_columns_filters_and_counts(
    spark: SparkSession, lake: SqlCatalog, sql: Run, read: Callable[..., dict[int, Rows]], tmp_path: Path
) -> None:
    table = new_table(lake, **{"write.merge.mode": "copy-on-write"})
    table.append(rows(1, 2, 3))
    reports: list[Any] = []
    first = read(changes(spark).select("id", "tags.a", "_change_type"), progress=reports)
    assert {number: sorted(batch) for number, batch in first.items()} == {0: [(1, 1, "insert"), (2, 2, "insert"), (3, 3, "insert")]}
    assert reports[0].numInputRows == 3
    assert reports[0].sources[0].description == "Icefloe stream of the changes of lake.db.t"
    sql("MERGE INTO lake.db.t t USING (SELECT 2 AS id UNION SELECT 4) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET name = 'new' "
        "WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, 'n4')")  # fmt: skip
    table.refresh().delete("id = 1")
    table.maintenance.rewrite_data_files(options={"rewrite-all": "true"})
    merge, delete = [snapshot.snapshot_id for snapshot in table.refresh().ancestors()][::-1][1:3]
    expected = sorted(
        [
            (1, "n1", "delete", delete),
            (2, "n2", "update_preimage", merge),
            (2, "new", "update_postimage", merge),
            (4, "n4", "insert", merge),
        ]
    )
    columns = ("id", "name", "_change_type", "_commit_version")
    reports.clear()
    for place, way in enumerate(ways(spark)):
        frame = way({"computeUpdates": "true", "start_snapshot_id": table.ancestors()[-1].snapshot_id})
        assert sorted(read(frame.select(*columns), f"way{place}", progress=reports)[0]) == expected
    assert reports[0].numInputRows == 4, "the changes, without copied rows"
    assert reports[0].sources[0].metrics["numSnapshotsOutstanding"] == "0"
    if spark.version >= "4.2":
        start = table.ancestors()[-1].snapshot_id
        query = f"SELECT id, name, _change_type, _commit_version FROM STREAM lake.db.t CHANGES FROM VERSION {start} EXCLUSIVE WITH (computeUpdates = 'true')"
        assert sorted(read(spark.sql(query), "sql")[0]) == expected
    deleted = changes(spark, start_snapshot_id=table.ancestors()[-1].snapshot_id).where("name > 'n1' AND _change_type <> 'insert'")
    counts = (
        deleted.groupBy("_change_type").agg(F.sum("id").alias("s")).writeStream.format("memory").queryName("sums").outputMode("complete")
    )
    started = counts.option("checkpointLocation", str(tmp_path / "sums")).trigger(availableNow=True).start()
    started.awaitTermination()
    assert sorted(sql("SELECT * FROM sums")) == [("delete", 2)]
    plan = started._jsq.explainInternal(False)
    assert "ChangedRows[" in plan
    assert "tags" not in plan
    computed = plan.partition("ChangedRows[")[2]
    assert "n1" in computed, "the filter is below the scan of the batch"
    assert "AdaptiveSparkPlan" not in computed


def test_a_table_of_a_catalog_is_a_stream_of_changes_where_its_columns_depend_on_options(
    spark: SparkSession, lake: SqlCatalog, read: Callable[..., dict[int, Rows]]
) -> None:
    new_table(lake).append(rows(1))
    of_name = spark.readStream.option("read.mode", "changes")
    if spark.version < "4.3":
        with pytest.raises(Exception, match=r'before it passes the option[\s\S]*Next: .*format\("iceberg"\)'):
            read(of_name.table("lake.db.t"))
    else:
        assert [
            row[:-2] for row in read(of_name.table("lake.db.t").select("id", "_change_type", "_commit_version", "_commit_timestamp"))[0]
        ] == [(1, "insert")]
        assert spark.table("lake.db.t").columns == ["id", "name", "tags"]
        assert (
            len(spark.read.option("versionAsOf", str(lake.load_table("db.t").snapshots()[0].snapshot_id)).table("lake.db.t").collect()) == 1
        )
    for batch in (spark.read.option("read.mode", "changes").table, spark.read.format("iceberg").option("read.mode", "changes").load):
        with pytest.raises(Exception, match=r"which is for streams[\s\S]*create_changelog_view"):
            batch("lake.db.t").collect()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"read.mode": "change"}, "read.mode is 'change', which is not rows or changes"),
        ({"deduplicationMode": "netChanges"}, "would depend on which snapshots are in a batch"),
        ({"deduplicationMode": "all"}, "there is no deduplication mode 'all'"),
        ({"computeUpdates": "yes"}, "computeUpdates is 'yes', which is not true or false"),
        ({"computeUpdates": "true"}, "has no identifier fields, by which updates are found"),
        ({"streaming-skip-delete-snapshots": "true"}, "an option of streams of appended rows"),
        ({"startingVersion": "1"}, r"an option of readStream.changes[\s\S]*give start-snapshot-id"),
        ({"start-snapshot-id": "1", "stream-from-timestamp": "0"}, "and with another start"),
        ({"start-snapshot-id": "1"}, "db.t has no snapshot 1"),
        ({"end-snapshot-id": "1", "start-snapshot-id": "1"}, "the option end-snapshot-id, and a stream has no single state"),
        ({"computeUpdate": "true"}, "write 'computeUpdates'"),
        ({"read.mode": "rows", "computeUpdates": "true"}, "an option of streams of changes"),
    ],
)
def test_options_that_a_stream_of_changes_does_not_take_are_refused(
    spark: SparkSession, lake: SqlCatalog, read: Callable[..., dict[int, Rows]], options: dict[str, str], words: str
) -> None:
    new_table(lake, **{"format-version": "2"}).append(rows(1))
    with pytest.raises(Exception, match=words):
        read(spark.readStream.format("iceberg").options(**{"read.mode": "changes", **options}).load("lake.db.t"))


def test_a_branch_a_folder_and_bounds_of_the_clause_are_streams_and_other_ends_are_refused(
    spark: SparkSession, lake: SqlCatalog, read: Callable[..., dict[int, Rows]], tmp_path: Path
) -> None:
    table = new_table(lake)
    table.append(rows(1))
    table.manage_snapshots().create_branch(table.metadata.current_snapshot_id or 0, "audit").commit()
    table.append(rows(2))
    table.append(rows(3), branch="audit")
    assert sorted(row[0] for row in read(changes(spark, branch="audit"), "option")[0]) == [1, 3]
    assert sorted(row[0] for row in read(changes(spark, "lake.db.t.branch_audit"), "name")[0]) == [1, 3]
    assert [row[0] for row in read(changes(spark, branch="audit", start_snapshot_id=table.snapshots()[0].snapshot_id), "after")[0]] == [3]
    time = table.snapshots()[1].timestamp_ms
    assert [row[0] for row in read(changes(spark, stream_from_timestamp=time), "time")[0]] == [2]
    with FileSystemCatalog("folders", warehouse=str(tmp_path / "folders")) as folders:
        folders.create_namespace("db")
        other = new_table(folders)  # type: ignore[arg-type]
        other.append(rows(4))
        assert [row[0] for row in read(changes(spark, other.location()), "folder")[0]] == [4]
        with pytest.raises(Exception, match="is a metadata file, which never changes"):
            read(changes(spark, other.metadata_location), "file")
    with pytest.raises(Exception, match="is a metadata table"):
        read(changes(spark, "lake.db.t.files"), "files")
    if spark.version < "4.2":
        return
    first = table.snapshots()[0].snapshot_id
    assert sorted(row[0] for row in read(spark.readStream.option("startingVersion", first).changes("lake.db.t"), "inclusive")[0]) == [1, 2]
    with pytest.raises(Exception, match="has an end, and a stream waits for further snapshots"):
        read(spark.readStream.options(startingVersion=first, endingVersion=first).changes("lake.db.t"), "end")
    with pytest.raises(Exception, match=r"there is no read option 'startVersion'[\s\S]*write 'startingversion'"):
        read(spark.readStream.option("startVersion", first).changes("lake.db.t"), "misspelt")
    with pytest.raises(Exception, match="would depend on which snapshots are in a batch"):
        read(spark.readStream.option("deduplicationMode", "netChanges").changes("lake.db.t"), "net")
    assert sorted(row.id for row in spark.read.changes("lake.db.t").collect()) == [1, 2], "without bounds, all changes"
    table.expire_snapshots(snapshot_ids=[first])
    assert read(spark.readStream.option("startingVersion", first).changes("lake.db.t"), "inclusive") == {}, (
        "the start was read, and may be expired"
    )


def test_expiry_and_rollback_are_reported_and_new_columns_are_read_after_a_restart(
    spark: SparkSession, lake: SqlCatalog, read: Callable[..., dict[int, Rows]]
) -> None:
    table = new_table(lake)
    table.append(rows(1))
    frame = changes(spark)
    assert len(read(frame)[0]) == 1
    with table.update_schema() as update:
        update.rename_column("name", "title")
        update.add_column("more", "string")
    table.append(pa.table({"id": [2], "title": ["two"], "more": ["new"]}))
    kept = table.current_snapshot()
    assert [row[:2] for row in read(frame)[1]] == [(2, "two")], "with the columns of the DataFrame"
    table.delete("id = 2")
    assert [(row.id, row.title, row.more, row._change_type) for row in _rows(spark, changes(spark), read)] == [(2, "two", "new", "delete")]
    assert kept is not None
    table.manage_snapshots().rollback_to_snapshot(kept.snapshot_id).commit()
    with pytest.raises(Exception, match=r"which is no ancestor of the current snapshot[\s\S]*begin with a new checkpointLocation"):
        read(changes(spark))


def _rows(spark: SparkSession, frame: DataFrame, read: Callable[..., dict[int, Rows]]) -> list[Any]:
    (batch,) = read(frame).values()
    return list(spark.createDataFrame(batch, frame.schema).collect())
