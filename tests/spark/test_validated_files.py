"""The files of large tables are checked by the tasks of a Spark job, with the findings of this process."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.checks.file_breaks import FILE_BREAKS, VALUES, written_files
from tests.combinations import repetitions

from icefloe.operations.available_engines import EngineChoice, choosing_engines
from icefloe.spark.spark_engine import SparkEngine

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    "rule_id", repetitions(["file-damaged", "column-bounds", "vector-damaged", "partition-value"], "file-damaged", "column-bounds")
)
def test_a_spark_job_finds_what_this_process_finds(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule_id: str
) -> None:
    broken = FILE_BREAKS[rule_id]
    stored = written_files(tmp_path, broken.version)
    broken.change(stored)
    here = stored.validated(VALUES)
    jobs: list[str] = []

    def map_items(engine: SparkEngine, function: object, items: object, description: str) -> object:
        jobs.append(description)
        return run(engine, function, items, description)  # type: ignore[arg-type]

    run = SparkEngine.map
    monkeypatch.setattr(SparkEngine, "map", map_items)
    assert spark is not None
    with choosing_engines(EngineChoice(checked_files=1)):
        by_spark = stored.validated(VALUES)
    assert jobs == ["validate the files of t"]
    assert by_spark.findings == here.findings
    assert by_spark.counts == here.counts
    assert rule_id in by_spark.counts
