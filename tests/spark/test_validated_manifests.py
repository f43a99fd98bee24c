"""The manifests of large tables are checked by the tasks of a Spark job, with the findings of this process; and `CALL system.validate`."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.checks.breaks import BREAKS
from tests.checks.stored_table import StoredTable, written_table
from tests.combinations import repetitions

from icefloe import SqlCatalog
from icefloe.operations.available_engines import EngineChoice, choosing_engines
from icefloe.spark import attach
from icefloe.spark.spark_engine import SparkEngine

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    "rule_id",
    repetitions(
        ["manifest-missing", "bound-order", "file-twice", "row-ids-overlap", "summary-total"],
        "manifest-missing",
        "file-twice",
        "summary-total",
    ),
)
def test_a_spark_job_finds_what_this_process_finds(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule_id: str
) -> None:
    broken = BREAKS[rule_id]
    stored = StoredTable.written(tmp_path, broken.version)
    broken.change(stored)
    here = stored.validated()
    jobs: list[str] = []
    run = SparkEngine.map

    def map_items(engine: SparkEngine, function: object, items: object, description: str) -> object:
        jobs.append(description)
        return run(engine, function, items, description)  # type: ignore[arg-type]

    monkeypatch.setattr(SparkEngine, "map", map_items)
    assert spark is not None
    with choosing_engines(EngineChoice(manifest_bytes=1)):
        by_spark = stored.validated()
    assert jobs == ["validate the manifests of t"]
    assert by_spark == here
    assert set(by_spark.counts) == {rule_id}


def test_the_procedure_returns_a_row_for_each_finding(spark: SparkSession, tmp_path: Path) -> None:
    table = written_table(tmp_path)
    manifest_list = table.current_snapshot().manifest_list  # type: ignore[union-attr]
    attach(spark, "validated", SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path)))
    assert spark.sql("CALL validated.system.validate(table => 'db.t')").collect() == []
    Path(str(manifest_list)).unlink()
    (row,) = spark.sql("CALL validated.system.validate(table => 'db.t', current_only => true)").collect()
    assert (row.severity, row.rule, row.file, row.entry) == ("error", "manifest-list-missing", manifest_list, None)
