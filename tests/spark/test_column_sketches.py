"""Distinct values counted by Spark's tasks: the same sketches as in this process, byte for byte, and errors that name the file."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from icefloe import SqlCatalog
from icefloe.errors import EngineError, NoSuchFileError
from icefloe.operations import engine
from icefloe.spark.jobs import map_job
from icefloe.table import Table

pytestmark = pytest.mark.spark

PLACE = pa.struct([("town", pa.string())])


@pytest.fixture
def table(lake: SqlCatalog) -> Table:
    """Seven files with deleted rows, a column that the first files lack, and more distinct values than a sketch keeps."""
    table = lake.create_table("db.t", pa.schema([("id", pa.int64()), ("place", PLACE)]), properties={"format-version": "3"})
    for number in range(6):
        ids = range(number * 1500, number * 1500 + 2000)
        table.append(pa.table({"id": pa.array(ids, pa.int64()), "place": pa.array([{"town": f"t{n % 7}"} for n in ids], PLACE)}))
    with table.update_schema() as update:
        update.add_column("kind", "string")
    table.append(pa.table({"id": [100_000], "kind": ["a"]}))
    table.delete("id < 1000")
    return table


def blobs(table: Table) -> bytes:
    (file,) = table.metadata.statistics
    return table.io.read(file.statistics_path)


def test_spark_counts_the_same_values_as_this_process(spark: SparkSession, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["id", "kind", "place.town"]
    here = table.compute_statistics(names, engine="in-process")
    written = blobs(table)
    monkeypatch.setattr(engine, "BYTES_PER_TASK", 1)  # a task for each file, and tasks that merge
    by_spark = table.compute_statistics(names, engine="spark")
    assert here is not None
    assert by_spark is not None
    assert by_spark.distinct_values == here.distinct_values
    assert here.distinct_values["kind"] == 1
    assert here.distinct_values["id"] == pytest.approx(8501, rel=0.05)
    assert blobs(table) == written


def test_spark_is_used_where_it_runs(spark: SparkSession, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs: list[str] = []
    run_job = map_job.run_job

    def watched(spark: SparkSession, description: str, action: object) -> object:
        jobs.append(description)
        return run_job(spark, description, action)  # type: ignore[arg-type]

    monkeypatch.setattr(map_job, "run_job", watched)
    table.compute_statistics(["id"])
    assert jobs == ["count distinct values of lake.db.t"]


def test_a_missing_file_is_named_and_statistics_stay(spark: SparkSession, table: Table) -> None:
    table.compute_statistics(["id"])
    before = blobs(table)
    gone = table.scan().plan_files()[0].file.file_path
    Path(gone).unlink()
    with pytest.raises(NoSuchFileError, match=Path(gone).name):
        table.compute_statistics(["id"], engine="spark")
    assert blobs(table) == before
    with pytest.raises(EngineError, match="no engine named"):
        table.compute_statistics(["id"], engine="sparkle")


def test_a_table_whose_rows_are_all_deleted_has_no_values(spark: SparkSession, table: Table) -> None:
    table.delete("id >= 0")
    statistics = table.compute_statistics(["id"], engine="spark")
    assert statistics is not None
    assert statistics.distinct_values == {"id": 0}
