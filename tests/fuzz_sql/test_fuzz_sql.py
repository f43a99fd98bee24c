"""150 statements of a fixed table, and more in `make test-all`; `make fuzz-sql` runs thousands."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.fuzz_sql.histories import DEFAULT_SETTINGS
from tests.fuzz_sql.run import MIXED, PARTITIONED, SESSION, Run
from tests.fuzz_sql.trials import Lake

from icefloe import SqlCatalog
from icefloe.spark.attach_catalog import attach

pytestmark = pytest.mark.spark

SEED = 510
QUERIES = {"all rows", "projection", "filter", "aggregate", "groups", "explode", "derived table", "join", "subquery", "window", "order"}
STEPS = {"insert", "rename", "drop field", "update", "delete", "equality delete", "merge"}
OVERWRITES = {"replace where", "overwrite a named partition", "overwrite partitions"}


@pytest.fixture
def small_statements(spark: SparkSession) -> Iterator[SparkSession]:
    """The shared session with the settings that make small statements quick; those of the histories are set back too."""
    settings = {name: value for name, value in SESSION.items() if spark.conf.isModifiable(name)}
    before = {name: spark.conf.get(name, None) for name in (*settings, *DEFAULT_SETTINGS)}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield spark
    for name, old in before.items():
        spark.conf.unset(name) if old is None else spark.conf.set(name, old)


# Nested and small, with changes of the schema and of rows; and partitioned by times of any year, with a time of day where Spark has one.
@pytest.mark.parametrize(
    ("family", "number", "statements", "after_a_step", "labels"),
    [
        (MIXED, 0, 150, 15, QUERIES | STEPS),
        pytest.param(MIXED, 0, 300, 30, QUERIES | STEPS, marks=pytest.mark.slow),
        pytest.param(PARTITIONED, 141, 65, 10, OVERWRITES, marks=pytest.mark.slow),
    ],
    ids=["mixed", "mixed with more statements", "partitioned"],
)
def test_random_statements_have_the_rows_of_plain_parquet(
    small_statements: SparkSession, tmp_path: Path, family: str, number: int, statements: int, after_a_step: int, labels: set[str]
) -> None:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"))
    catalog.create_namespace("db")
    attach(small_statements, "lake", catalog)
    run = Run(Lake(small_statements, catalog, tmp_path), seed=SEED, shrink_seconds=0, queries_after_a_step=after_a_step)
    reports = run.table(number, family, most=statements)
    if reports:  # not made small; `make fuzz-sql` does that
        pytest.fail(reports[0], pytrace=False)
    # Statements that fail on both sides, and steps that are refused, compare little.
    assert run.statements >= statements, run.labels
    assert sum(run.both_refused.values()) < max(statements // 20, 5), run.both_refused
    assert sum(run.refused.values()) < 5, run.refused
    assert set(run.labels) >= labels, run.labels
