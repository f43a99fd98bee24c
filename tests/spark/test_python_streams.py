"""Streams through the Python data source without a running Spark: the calls that Spark makes, in its order, with everything pickled or as JSON between them."""

import json
import random
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
import pytest
from pyspark import TaskContext, cloudpickle
from pyspark.sql.types import LongType, StringType, StructField, StructType

from icefloe import SqlCatalog
from icefloe.catalog.file_system_catalog import FileSystemCatalog
from icefloe.commit.stream_epoch import PREFIX
from icefloe.errors import (
    IcefloeError,
    InvalidInputError,
    NoSuchSnapshotError,
    SchemaMismatchError,
    UnsupportedFeatureError,
)
from icefloe.spark.connect import stream_reader
from icefloe.spark.connect.connect_options import CatalogRecipe, RegisteredCatalogs
from icefloe.spark.connect.python_data_source import IcefloeSource
from icefloe.spark.connect.stream_writer import QUERY_PROPERTY, EpochMessage
from icefloe.spec.metadata.snapshot import Operation
from icefloe.table import Table

SECRET = "never-to-be-seen-5520"  # noqa: S105 the opposite of one
COLUMNS = StructType([StructField("id", LongType()), StructField("kind", StringType())])
takes_arrow = pytest.mark.skipif(pyspark.__version__ < "4.1", reason="Spark passes the rows of a stream as Arrow since 4.1")
needs_admission = pytest.mark.skipif(stream_reader.admission is None, reason="Spark limits the batches of Python data sources since 4.2")


@pytest.fixture
def table(lake: SqlCatalog) -> Table:
    schema = pa.schema([("id", pa.int64()), ("kind", pa.string())])
    return lake.create_table("db.t", schema, partition_spec=["kind"], properties={"format-version": "2"})


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": ids, "kind": ["ab"[one % 2] for one in ids]}, schema=pa.schema([("id", pa.int64()), ("kind", pa.string())]))


def source(lake: SqlCatalog, options: dict[str, str]) -> IcefloeSource:
    """Return the data source as Spark has it in a Python process of the driver."""
    recipe = CatalogRecipe.of(lake)
    secret = CatalogRecipe(kind=recipe.kind, name=recipe.name, properties={**recipe.properties, "s3.secret-access-key": SECRET})
    known = RegisteredCatalogs(catalogs={"lake": secret})
    kind = type("RegisteredSource", (IcefloeSource,), {"__module__": __name__, "registered": known, "pushes_filters": True})
    return cloudpickle.loads(cloudpickle.dumps(kind))({"path": "lake.db.t", **options})


class Checkpoint:
    """The offsets of a query, as Spark stores them, and the batches of ids that it has read."""

    def __init__(self, lake: SqlCatalog) -> None:
        self.lake = lake
        self.offsets: list[str] = []
        self.batches: list[list[int]] = []

    def run(self, *, passes_start: bool, once: bool = False, most: int = 100, **options: str) -> list[list[int]]:
        """Run a query from this checkpoint with `availableNow` or `once` until its end, or for a number of batches, and return the batches of this run.

        Args:
            passes_start: Whether Spark passes the begin and the limit of a batch, as 4.2 does.
            once: Whether limits are ignored, and one batch is read.
            most: The number of batches after which the driver is killed.
            options: Options of the read.
        """
        found = source(self.lake, {name.replace("_", "-"): text for name, text in options.items()})
        planner, sent = start(found)
        if not passes_start:
            end = json.dumps(planner.latestOffset())
        elif not once:
            planner.prepareForTriggerAvailableNow()
        if self.offsets:  # Spark passes the last offset of the checkpoint in this way
            assert planner.partitions(json.loads(self.offsets[-1]), json.loads(self.offsets[-1])) == []
        before = len(self.batches)
        while len(self.batches) - before < most:
            begin = self.offsets[-1] if self.offsets else json.dumps(planner.initialOffset())
            if passes_start:
                limit = stream_reader.admission.ReadAllAvailable() if once else planner.getDefaultReadLimit()
                end = json.dumps(planner.latestOffset(json.loads(begin), limit))
            if self.offsets and end == begin:
                break
            self.offsets.append(end)
            self.batches.append(ids_of(planner, sent, begin, end))
            if once or not passes_start:
                break
        planner.stop()
        return self.batches[before:]

    def again(self, number: int, **options: str) -> list[int]:
        """Return the rows of a batch that a new process reads again."""
        planner, sent = start(source(self.lake, {name.replace("_", "-"): text for name, text in options.items()}))
        begin = json.dumps(planner.initialOffset()) if number == 0 else self.offsets[number - 1]
        return ids_of(planner, sent, begin, self.offsets[number])


def start(found: IcefloeSource) -> tuple[Any, bytes]:
    """Return the reader in the driver's process of a query, and the bytes of the one that Spark sends to tasks once."""
    schema = found.schema()
    instance = cloudpickle.dumps(found)
    planner = cloudpickle.loads(instance).streamReader(schema)
    return planner, cloudpickle.dumps(cloudpickle.loads(instance).streamReader(schema).read)


def ids_of(planner: Any, sent: bytes, begin: str, end: str) -> list[int]:
    partitions = [cloudpickle.dumps(partition) for partition in planner.partitions(json.loads(begin), json.loads(end))]
    batches = [batch for partition in partitions for batch in cloudpickle.loads(sent)(cloudpickle.loads(partition))]
    return sorted(one for batch in batches for one in batch["id"].to_pylist())


@pytest.fixture(params=[pytest.param(True, marks=needs_admission), False])
def passes_start(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether Spark passes the begin of a batch, as since 4.2."""
    if not request.param:
        monkeypatch.setattr(stream_reader, "admission", None)
    return bool(request.param)


def test_each_appended_row_is_read_once_whatever_happens_between_the_batches(lake: SqlCatalog, table: Table, passes_start: bool) -> None:
    query = Checkpoint(lake)
    assert query.run(passes_start=passes_start) == [[]]
    assert query.run(passes_start=passes_start) == []
    table.append(rows(1, 2, 3))
    table.delete("id = 2")
    assert query.run(passes_start=passes_start) == [[1, 3]]
    first = len(query.batches) - 1
    table.append(rows(4))
    with table.update_spec() as update:
        update.remove_field("kind")
    with table.update_schema() as update:
        update.rename_column("kind", "sort")
        update.add_column("more", "long")
    table.append(pa.table({"id": [5], "sort": ["x"], "more": [1]}))
    table.maintenance.rewrite_data_files(strategy="binpack")
    assert query.run(passes_start=passes_start) == [[4, 5]]
    assert query.again(first) == [1, 3]
    assert query.again(first + 1) == [4, 5]
    assert query.run(passes_start=passes_start) == []
    table.expire_snapshots(older_than=2**53, retain_last=1)
    table.append(pa.table({"id": [6], "sort": ["y"], "more": [1]}))
    assert query.run(passes_start=passes_start) == [[6]]


def test_a_running_query_reads_what_is_written_with_later_specs_and_schemas(lake: SqlCatalog, table: Table) -> None:
    """The reader of the tasks was pickled when the query was started."""
    table.append(rows(1))
    planner, sent = start(source(lake, {"columns": "kind,_spec_id,id"}))

    def latest() -> dict[str, Any]:
        return planner.latestOffset(offsets[-1], planner.getDefaultReadLimit()) if stream_reader.admission else planner.latestOffset()

    offsets = [planner.initialOffset()]
    offsets.append(latest())
    with table.update_spec() as update:
        update.add_field("id", "bucket[4]")
    with table.update_schema() as update:
        update.rename_column("id", "number").add_column("more", "string")
    table.append(pa.table({"number": [2], "kind": ["a"], "more": ["m"]}))
    offsets.append(latest())
    texts = list(map(json.dumps, offsets))
    assert [ids_of(planner, sent, *pair) for pair in pairwise(texts)] == [[1], [2]]
    with table.update_spec() as update:
        update.remove_field("kind")
    with table.update_schema() as update:
        update.delete_column("kind")
    with pytest.raises(SchemaMismatchError, match=r"(?s)the schema of lake\.db\.t has changed.*kind: was dropped"):
        latest()


@needs_admission
@pytest.mark.parametrize("seed", range(3))
def test_limits_divide_any_history_into_batches_that_are_read_again_with_the_same_rows(lake: SqlCatalog, table: Table, seed: int) -> None:
    chooser = random.Random(seed)
    query, number = Checkpoint(lake), 0
    options = {
        f"streaming_max_{unit}_per_micro_batch": str(chooser.choice(sizes))
        for unit, sizes in (("files", (1, 2, 5)), ("rows", (1, 3, 7)), ("bytes", (1, 2000, 10**9)))
        if chooser.random() < 0.7
    }
    for _ in range(4):
        for _ in range(chooser.randrange(4)):
            count = chooser.randrange(1, 5)
            table.append(rows(*range(number, number + count)))
            number += count
        if chooser.random() < 0.3:
            table.maintenance.rewrite_data_files(strategy="binpack")
        query.run(passes_start=True, once=chooser.random() < 0.2, most=chooser.choice([1, 2, 100]), **options)
    query.run(passes_start=True, **options)
    assert sorted(one for batch in query.batches for one in batch) == list(range(number))
    for place in chooser.sample(range(len(query.batches)), min(3, len(query.batches))):
        assert query.again(place, **options) == query.batches[place]
    files = int(options.get("streaming_max_files_per_micro_batch", 0))
    assert not files or len(query.batches) > 1


@needs_admission
def test_a_query_of_what_is_available_ends_at_the_snapshot_of_its_start(lake: SqlCatalog, table: Table) -> None:
    planner, sent = start(source(lake, {}))
    planner.prepareForTriggerAvailableNow()
    begin, limit = planner.initialOffset(), planner.getDefaultReadLimit()
    table.append(rows(1))
    assert planner.latestOffset(begin, limit) == begin
    planner, sent = start(source(lake, {}))
    planner.prepareForTriggerAvailableNow()
    table.append(rows(2))
    end = planner.latestOffset(begin, limit)
    assert ids_of(planner, sent, json.dumps(begin), json.dumps(end)) == [1]
    assert planner.latestOffset(end, limit) == end
    assert planner.reportLatestOffset()["snapshot_id"] == table.refresh().snapshots()[0].snapshot_id


def test_snapshots_that_delete_or_replace_rows_end_the_stream_or_are_skipped_or_read(
    lake: SqlCatalog, table: Table, passes_start: bool
) -> None:
    table.append(rows(1, 2))
    query = Checkpoint(lake)
    query.run(passes_start=passes_start)
    table.append(rows(3))
    table.delete("id = 1")
    table.overwrite(rows(4), "id = 2")
    begun = len(query.offsets)
    with pytest.raises(InvalidInputError, match="set streaming-skip-delete-snapshots=true to ignore deletes"):
        query.run(passes_start=passes_start)
    # With the begin of a batch, rows before the delete are read first; without it the batch is in the log already, and is planned again.
    assert query.batches[begun:] == ([[3]] if passes_start else [])
    rules = {"streaming_skip_delete_snapshots": "true"}
    with pytest.raises(InvalidInputError, match="streaming-read-overwrite-snapshots=true to read the rows"):
        query.run(passes_start=passes_start, **rules) if passes_start else query.again(begun, **rules)
    rules["streaming_read_overwrite_snapshots"] = "true"
    if passes_start:
        assert query.run(passes_start=True, **rules) == [[4]]
    else:
        assert query.again(begun, **rules) == [3, 4]


def test_a_stream_begins_with_a_time_and_reports_snapshots_that_it_needs_and_that_were_expired(
    lake: SqlCatalog, table: Table, passes_start: bool
) -> None:
    for number in (1, 2, 3):
        table.append(rows(number))
    second = table.snapshots()[1].timestamp_ms
    query = Checkpoint(lake)
    begun = {"stream_from_timestamp": str(second)}
    assert query.run(passes_start=passes_start, **begun) == [[2, 3]]
    assert query.again(0, **begun) == [2, 3]
    table.append(rows(4))
    table.append(rows(5))
    table.expire_snapshots(older_than=2**53, retain_last=1)
    with pytest.raises(NoSuchSnapshotError, match="which was expired or removed"):
        query.run(passes_start=passes_start)
    again = {"streaming_on_missing_snapshots": "oldest"}
    assert (query.run(passes_start=True, **again) if passes_start else [query.again(1, **again)]) == [[5]]
    fresh = Checkpoint(lake)
    later = {"stream_from_timestamp": "2100-01-01T00:00:00Z"}
    if passes_start:
        assert fresh.run(passes_start=True, **later) == [[]]
    else:
        with pytest.raises(InvalidInputError, match="cannot wait for one"):
            fresh.run(passes_start=False, **later)


def test_a_branch_and_a_folder_are_streams(lake: SqlCatalog, table: Table, tmp_path: Path, passes_start: bool) -> None:
    table.append(rows(1))
    table.manage_snapshots().create_branch(table.snapshots()[0].snapshot_id, "b").commit()
    table.append(rows(2))
    table.append(rows(3), branch="b")
    query = Checkpoint(lake)
    assert query.run(passes_start=passes_start, branch="b") == [[1, 3]]
    folders = FileSystemCatalog("folders", warehouse=str(tmp_path / "folders"))
    folders.create_namespace("db")
    other = folders.create_table("db.t", table.schema())
    other.append(rows(7))
    query = Checkpoint(lake)
    assert query.run(passes_start=passes_start, path=other.location().removeprefix("file://")) == [[7]]
    other.append(rows(8))
    assert query.run(passes_start=passes_start, path=other.location().removeprefix("file://")) == [[8]]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"streaming-max-file-per-micro-batch": "1"}, "(?s)no option 'streaming-max-file-per-micro-batch'.*write 'streaming-max-files"),
        ({"maxFilesPerTrigger": "1"}, "write 'streaming-max-files-per-micro-batch'"),
        ({"stream-from-timestmp": "1"}, "write 'stream-from-timestamp'"),
        ({"streaming-skip-delete-snapshots": "yes"}, "is 'yes', which is not true or false"),
        ({"streaming-max-rows-per-micro-batch": "0"}, "a whole number of at least 1|since 4.2"),
        ({"snapshot-id": "1"}, "the option snapshot-id, and a stream has no single state"),
        ({"where": "id > 1"}, "(?s)option where.*filter the DataFrame"),
        ({"tolerant": "true"}, "read with tolerant"),
        ({"read.mode": "changes"}, "(?s)read.mode changes, which the Python data source does not have.*icefloe connect-server"),
        ({"computeUpdates": "true"}, "a stream of rows is read with computeUpdates, an option of streams of changes"),
        ({"split-size": "many"}, "many"),
        ({"path": "METADATA"}, "no catalog has its later snapshots"),
    ],
)
def test_options_that_a_stream_does_not_take_are_refused(lake: SqlCatalog, table: Table, options: dict[str, str], words: str) -> None:
    options = {name: table.metadata_location if text == "METADATA" else text for name, text in options.items()}
    with pytest.raises(IcefloeError, match=words):
        source(lake, options).streamReader(COLUMNS)


def test_limits_are_refused_where_spark_does_not_pass_them(lake: SqlCatalog, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_reader, "admission", None)
    with pytest.raises(UnsupportedFeatureError, match=r"streaming-max-rows-per-micro-batch, and Spark limits the batches .* since 4\.2"):
        source(lake, {"streaming-max-rows-per-micro-batch": "5"}).streamReader(COLUMNS)


def test_the_reader_that_is_sent_to_tasks_has_no_properties_of_the_catalog_and_cannot_plan(lake: SqlCatalog, table: Table) -> None:
    table.append(rows(1))
    _, sent = start(source(lake, {}))
    assert SECRET.encode() not in sent
    assert b"catalog.db" not in sent
    with pytest.raises(SchemaMismatchError, match="only in the process that created it"):
        cloudpickle.loads(sent).__self__.partitions({}, {})


# -- writing


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run as a Spark task of a query; its attributes may be set."""
    context: Any = TaskContext()
    context._stageId, context._partitionId, context._attemptNumber, context._taskAttemptId = 0, 0, 0, 0
    context._localProperties = {QUERY_PROPERTY: "5b6b39d5-8a4f-4bd9-a5d6-62bb1a0b3d6c"}
    monkeypatch.setattr(TaskContext, "_taskContext", context)
    return context


class Sink:
    """The calls that Spark makes for each epoch of a query that writes to a table."""

    def __init__(self, lake: SqlCatalog, task: Any, *, overwrite: bool = False, **options: str) -> None:
        self._lake, self._task, self._overwrite, self._options = lake, task, overwrite, options
        self._attempts = 0

    def _source(self) -> IcefloeSource:
        return source(self._lake, {name.replace("_", "-"): text for name, text in self._options.items()})

    def write(self, *parts: pa.Table) -> list[Any]:
        """Write the rows of each part in a task of its own, and return the messages."""
        sent = cloudpickle.dumps(self._source().streamWriter(COLUMNS, self._overwrite).write)
        messages = []
        for number, part in enumerate(parts):
            self._attempts += 1
            self._task._partitionId, self._task._taskAttemptId = number, self._attempts
            messages.append(cloudpickle.loads(cloudpickle.dumps(cloudpickle.loads(sent)(iter(part.to_batches())))))
        return messages

    def commit(self, epoch: int, *parts: pa.Table) -> list[Any]:
        """Write and commit an epoch, and return the messages of its tasks."""
        messages = self.write(*parts)
        self._source().streamWriter(COLUMNS, self._overwrite).commit(messages, epoch)
        return messages

    def abort(self, epoch: int, messages: Sequence[Any]) -> None:
        self._source().streamWriter(COLUMNS, self._overwrite).abort(list(messages), epoch)


def ids(table: Table, branch: str | None = None) -> list[int]:
    return sorted(table.refresh().scan(branch=branch).to_arrow()["id"].to_pylist())


def files_on_disk(table: Table) -> set[str]:
    return {path.name for path in Path(table.location().removeprefix("file://")).rglob("*.parquet")}


def files_of(table: Table) -> set[str]:
    return {file.file.file_path.rpartition("/")[2] for file in table.refresh().scan().plan_files()}


@takes_arrow
def test_each_epoch_is_written_once_also_after_expiry_and_beside_other_writers(lake: SqlCatalog, table: Table, task: Any) -> None:
    sink = Sink(lake, task, **{"snapshot-property.who": "me"})
    sink.commit(0, rows(1, 2), rows(3))
    sink.commit(0, rows(1, 2), rows(3))
    assert ids(table) == [1, 2, 3]
    assert files_on_disk(table) == files_of(table)
    sink.commit(1, rows(), rows())  # no rows, no snapshot
    table.append(rows(100))
    sink.commit(2, rows(4))
    table.refresh().append(rows(101))
    table.expire_snapshots(older_than=2**53, retain_last=1)
    sink.commit(2, rows(4))
    sink.commit(3, rows(5), rows())
    assert ids(table) == [1, 2, 3, 4, 5, 100, 101]
    assert files_on_disk(table) == files_of(table)
    summary = table.snapshots()[-1].summary
    assert summary["spark.sql.streaming.epochId"] == "3"
    assert summary["who"] == "me"
    assert [name for name in table.properties if name.startswith(PREFIX)] == [PREFIX + task.getLocalProperty(QUERY_PROPERTY)]


@takes_arrow
def test_the_mode_complete_replaces_all_rows_and_a_branch_is_written(lake: SqlCatalog, table: Table, task: Any) -> None:
    table.append(rows(50))
    table.manage_snapshots().create_branch(table.snapshots()[0].snapshot_id, "b").commit()
    complete = Sink(lake, task, overwrite=True, branch="b")
    complete.commit(0, rows(1), rows(2))
    complete.commit(1, rows(2), rows(3))
    complete.commit(1, rows(2), rows(3))
    assert (ids(table), ids(table, "b")) == ([50], [2, 3])
    complete.commit(2, rows())
    assert ids(table, "b") == []
    assert [snapshot.operation for snapshot in table.refresh().snapshots()] == [
        Operation.APPEND,
        Operation.OVERWRITE,
        Operation.OVERWRITE,
        Operation.DELETE,
    ]


@takes_arrow
def test_an_abort_deletes_the_files_of_its_attempt_alone(
    lake: SqlCatalog, table: Table, task: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("icefloe.spark.write.failed_attempt_cleanup.time.sleep", lambda _: None)
    sink = Sink(lake, task)
    committed = sink.commit(0, rows(1))
    kept = files_on_disk(table)
    sink.abort(0, committed)  # the commit has begun, and the answer of the catalog was lost
    messages = sink.write(rows(2), rows(3))
    assert len(files_on_disk(table) - kept) == 2
    sink.abort(1, [messages[0], None])
    assert files_on_disk(table) == kept
    sink.abort(1, [None, None])
    assert ids(table) == [1]


@takes_arrow
def test_files_outside_of_the_table_and_tasks_without_the_id_of_the_query_are_refused(
    lake: SqlCatalog, table: Table, task: Any, tmp_path: Path
) -> None:
    sink = Sink(lake, task)
    messages = sink.write(rows(1))
    assert isinstance(messages[0], EpochMessage)
    outside = tmp_path / "outside.parquet"
    outside.write_bytes(b"x")
    object.__setattr__(messages[0].written[0].files[0], "file_path", str(outside))
    with pytest.raises(InvalidInputError, match=r"not in the folder of the data files of lake\.db\.t"):
        source(lake, {}).streamWriter(COLUMNS, False).commit(messages, 0)
    assert outside.exists()
    messages = sink.write(rows(1))
    task._localProperties = {QUERY_PROPERTY: "another"}
    with pytest.raises(InvalidInputError, match="its tasks have sent 2"):
        source(lake, {}).streamWriter(COLUMNS, False).commit([*messages, *sink.write(rows(2))], 0)
    task._localProperties = {}
    before = files_on_disk(table)
    with pytest.raises(UnsupportedFeatureError, match=r"(?s)sql\.streaming\.queryId.*Next: write with foreachBatch"):
        sink.write(rows(1))
    assert files_on_disk(table) == before
    assert table.refresh().snapshots() == []


@takes_arrow
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"key-columns": "id"}, "Spark has no output mode update for Python data sources"),
        ({"where": "id > 1"}, "a stream does not have the option where"),
        ({"overwrite-mode": "dynamic"}, "a stream does not have the option overwrite-mode"),
        ({"branch": "absent"}, "has no branch 'absent'"),
        ({"distribution-mode": "hash"}, "distribution-mode: the data source writes rows as they are"),
        ({"compresion-codec": "gzip"}, "write 'compression-codec'"),
        ({"path": "/some/folder"}, "a write needs its catalog"),
    ],
)
def test_options_that_a_stream_cannot_be_written_with_are_refused(
    lake: SqlCatalog, table: Table, options: dict[str, str], words: str
) -> None:
    with pytest.raises(IcefloeError, match=words):
        source(lake, options).streamWriter(COLUMNS, False)


@pytest.mark.skipif(pyspark.__version__ >= "4.1", reason="Spark passes the rows of a stream as Arrow since 4.1")
def test_writes_are_refused_where_spark_passes_rows(lake: SqlCatalog, table: Table) -> None:
    with pytest.raises(UnsupportedFeatureError, match=r"(?s)as Arrow since 4\.1.*Next: use Spark 4\.1 or later"):
        source(lake, {}).streamWriter(COLUMNS, False)
