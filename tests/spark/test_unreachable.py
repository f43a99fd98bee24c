"""Finding unreachable files by a Spark job: the same files, refusals and reports of unreadable manifests as in this process."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.table.reachable import everything, on_disk

from icefloe import SqlCatalog
from icefloe.errors import FormatError, NoSuchFileError
from icefloe.operations.available_engines import EngineChoice, choosing_engines
from icefloe.spark import spark_engine
from icefloe.table import Table

pytestmark = pytest.mark.spark
FAR = 10**14


@pytest.fixture
def table(spark: SparkSession, lake: SqlCatalog) -> Table:
    properties = {"format-version": "3", "write.delete.mode": "merge-on-read", "commit.manifest.min-count-to-merge": "3"}
    made = lake.create_table("db.t", pa.schema([("a", pa.int64())]), properties=properties)
    for number in range(6):
        made.append(pa.table({"a": [number, number + 10]}))
    made.delete("a = 11")
    made.overwrite(pa.table({"a": [100]}), "a < 4")
    made.delete("a = 12")
    return made


def test_a_spark_job_finds_the_same_files_as_this_process(table: Table) -> None:
    by_spark = table.expire_snapshots(FAR, retain_last=2, dry_run=True, engine="spark")
    here = table.expire_snapshots(FAR, retain_last=2, dry_run=True, engine="in-process")
    assert sorted(by_spark.files.to_pylist(), key=str) == sorted(here.files.to_pylist(), key=str)
    assert len(by_spark.totals) > 3
    rows = sorted(table.scan().to_arrow()["a"].to_pylist())
    report = table.expire_snapshots(FAR, engine="spark")
    assert on_disk(table.location()) == everything(table.metadata)
    assert report.deleted_files == len(report.files)
    assert sorted(table.scan().to_arrow()["a"].to_pylist()) == rows


def test_a_manifest_that_cannot_be_read_is_reported_or_refused(table: Table) -> None:
    gone = table.snapshots()[0].manifests(table.io)[0].manifest_path
    kept = table.current_snapshot().manifests(table.io)[0].manifest_path  # type: ignore[union-attr]
    content = Path(kept).read_bytes()
    Path(gone).write_bytes(b"Obj\x01 no manifest")
    Path(kept).write_bytes(content[:-1])
    before = on_disk(table.location())
    with pytest.raises(FormatError, match="no file was deleted"):
        table.expire_snapshots(FAR, engine="spark")
    Path(kept).unlink()
    with pytest.raises(NoSuchFileError, match=kept):
        table.expire_snapshots(FAR, engine="spark")
    Path(kept).write_bytes(content)
    assert on_disk(table.location()) == before
    report = table.expire_snapshots(FAR, engine="spark")
    assert [problem.where for problem in report.unreadable] == [gone]
    assert Path(gone).exists()


def test_a_running_session_reads_many_manifests_by_default(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs: list[str] = []
    run = spark_engine.map_in_tasks
    monkeypatch.setattr(spark_engine, "map_in_tasks", lambda spark, job, *work: jobs.append(job) or run(spark, job, *work))
    with choosing_engines(EngineChoice(manifests=1)):
        table.expire_snapshots(FAR)
    assert jobs == ["find files of lake.db.t that nothing needs"] * 2
    assert on_disk(table.location()) == everything(table.metadata)
