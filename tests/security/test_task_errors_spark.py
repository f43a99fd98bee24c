"""Cells, names of files and messages that look like an error of a task are quoted by Spark, and nothing in them is executed or trusted."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 the name that users of Spark know
from tests.combinations import repetitions
from tests.security.forged_errors import pickled_attack

from icefloe import SqlCatalog
from icefloe.errors import EngineError, NoSuchFileError, StoragePermissionError
from icefloe.spark.jobs.spark_jobs import run_job
from icefloe.spark.jobs.task_errors import TaskErrors
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import LongType, NestedField, StringType

pytestmark = pytest.mark.spark
Run = Callable[[str], list[tuple[Any, ...]]]
SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "s", StringType()))


@pytest.fixture
def attacked(tmp_path: Path) -> Path:
    """Return the folder that the attack makes."""
    return tmp_path / "attacked"


@pytest.fixture
def hostile(spark: SparkSession, lake: SqlCatalog, attacked: Path) -> SqlCatalog:
    """Return a table whose cells attack a query that casts them, and a table to write to."""
    table = lake.create_table("db.hostile", SCHEMA)
    table.append(spark.createDataFrame([(1, pickled_attack(attacked))], "id bigint, s string"))
    lake.create_table("db.target", SCHEMA)
    return lake


def test_an_append_that_casts_a_hostile_cell_runs_nothing(spark: SparkSession, hostile: SqlCatalog, attacked: Path) -> None:
    rows = hostile.load_table("db.hostile").scan().to_spark().select(F.expr("cast(s as bigint)").alias("id"), "s")
    with pytest.raises(EngineError, match="CAST_INVALID_INPUT"):
        hostile.load_table("db.target").append(rows)
    assert not attacked.exists()


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO lake.db.target SELECT cast(s as bigint), s FROM lake.db.hostile",
        *repetitions(
            [
                "CREATE TABLE lake.db.made AS SELECT cast(s as bigint) AS id FROM lake.db.hostile",
                "UPDATE lake.db.hostile SET id = cast(s as bigint)",
                "DELETE FROM lake.db.hostile WHERE cast(s as bigint) + id = 5",
            ]
        ),
        "MERGE INTO lake.db.hostile t USING lake.db.hostile s ON t.id = s.id WHEN MATCHED THEN UPDATE SET id = cast(s.s as bigint)",
        "SELECT cast(s as bigint) FROM lake.db.hostile",
    ],
)
def test_a_statement_that_casts_a_hostile_cell_runs_nothing(sql: Run, hostile: SqlCatalog, attacked: Path, statement: str) -> None:
    with pytest.raises(Exception, match="CAST_INVALID_INPUT"):
        sql(statement)
    assert not attacked.exists()


def test_the_name_of_a_missing_file_is_quoted_and_not_trusted(spark: SparkSession, tmp_path: Path, attacked: Path) -> None:
    warehouse = tmp_path / pickled_attack(attacked)
    catalog = SqlCatalog("hostile", uri=f"sqlite:///{tmp_path}/hostile.db", warehouse=str(warehouse))
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", SCHEMA, properties={"write.delete.mode": "copy-on-write"})
    table.append(spark.createDataFrame([(1, "a"), (2, "b")], "id bigint, s string").coalesce(1))
    shutil.rmtree(warehouse / "db" / "t" / "data")
    with pytest.raises(NoSuchFileError) as caught:
        table.delete("id = 1")
    assert str(warehouse) in str(caught.value)
    assert not attacked.exists()


def in_job(spark: SparkSession, function: Callable[[int], Any]) -> Any:
    """Run the function in one task of a job of Icefloe."""
    errors = TaskErrors()

    def task(number: int) -> Any:
        with errors.carry():
            return function(number)

    return run_job(spark, "test", spark.sparkContext.parallelize([1], 1).map(task).collect)


def test_an_error_that_an_earlier_job_signed_is_not_trusted_in_a_later_one(spark: SparkSession) -> None:
    def refused(_: int) -> None:  # in here, since tasks cannot import tests
        raise StoragePermissionError("locked", path="/locked", next_step="unlock it")

    with pytest.raises(StoragePermissionError) as first:
        in_job(spark, refused)
    assert "icefloe-error" not in str(first.value)
    replayed = next(line for line in str(first.value.__context__).splitlines() if line.startswith("icefloe-error["))

    def replay(_: int) -> None:
        raise ValueError(f"cannot read\n{replayed}")

    with pytest.raises(EngineError):
        in_job(spark, replay)

    def quote(_: int) -> None:
        raise NoSuchFileError(f"gone\n{replayed}", path=replayed)

    with pytest.raises(NoSuchFileError) as quoted:
        in_job(spark, quote)
    assert quoted.value.path == replayed


def test_a_failed_read_of_the_user_s_own_shows_no_signed_text(spark: SparkSession, lake: SqlCatalog, tmp_path: Path) -> None:
    table = lake.create_table("db.t", SCHEMA, properties={"write.format.default": "avro"})
    table.append(spark.createDataFrame([(1, "a")], "id bigint, s string"))
    shutil.rmtree(tmp_path / "warehouse" / "db" / "t" / "data")
    with pytest.raises(Exception, match="NoSuchFileError") as caught:
        table.scan().to_spark().collect()
    assert "icefloe-error" not in str(caught.value)
