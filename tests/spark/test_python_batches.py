"""Rows that Python reads in Spark's tasks, as batches and converted one by one: both ways have the same values, errors and limits for every type."""

import math
import random
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import reduce
from operator import or_
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from tests.spark.comparing import plan_of
from tests.spark.merge_on_read import delete_positions

import icefloe.spark
from icefloe import SqlCatalog
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.spark.bridge import java_compiler as compiled
from icefloe.spark.bridge.gateway import class_folder, gateway_of
from icefloe.spark.scan.python_scan import BYTES_PER_TASK, _task_groups
from icefloe.table import Table

pytestmark = pytest.mark.spark

ROWS = 6_000
AS_ROWS = {"spark.sql.execution.arrow.useLargeVarTypes": "true"}  # Spark converts such batches itself
COMPILED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
EPOCH = datetime(1970, 1, 1)
VALUES: dict[str, tuple[Any, list[Any]]] = {
    "flag": (pa.bool_(), [True, False]),
    "small": (pa.int32(), [0, 1, -1, 2**31 - 1, -(2**31)]),
    "large": (pa.int64(), [0, 1, -1, 2**63 - 1, -(2**63)]),
    "single": (pa.float32(), [0.0, -0.0, 1.5, math.inf, -math.inf]),
    "double": (pa.float64(), [0.0, -0.0, 0.1, math.inf, 5e-324]),
    "short": (pa.decimal128(9, 2), [Decimal("0.00"), Decimal("-9999999.99"), Decimal("9999999.99")]),
    "long": (pa.decimal128(18, 0), [Decimal(10**18 - 1), Decimal(1 - 10**18), Decimal(-1)]),
    "wide": (pa.decimal128(38, 10), [Decimal("-1E-10"), Decimal("9999999999999999999999999999.9999999999"), Decimal(-(2**64))]),
    "day": (pa.date32(), [date(1, 1, 1), date(1970, 1, 1), date(9999, 12, 31)]),
    "local": (pa.timestamp("us"), [EPOCH, EPOCH - timedelta(seconds=1), EPOCH + timedelta(days=20_000, microseconds=1)]),
    "instant": (pa.timestamp("us", "UTC"), [EPOCH.replace(tzinfo=UTC), datetime(2026, 11, 27, 1, 2, 3, 4, UTC)]),
    "text": (pa.string(), ["", "a", "ä€𝄞", "x" * 1000]),
    "bytes": (pa.binary(), [b"", b"\x00", b"\xff" * 300]),
    "sixteen": (pa.binary(3), [b"abc", b"\x00\x00\x00"]),
}


@contextmanager
def settings(spark: SparkSession, values: dict[str, str]) -> Iterator[None]:
    for name, value in values.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in values:
            spark.conf.unset(name)


def rows_of(frame: DataFrame) -> list[str]:
    return sorted(map(repr, frame.collect()))


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    """Two ORC files, which Spark's own scan does not read, with every type of one value, nulls among them, and deleted rows."""
    folder = tmp_path_factory.mktemp("batches")
    lake = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder / "warehouse"))
    lake.create_namespace("db")
    rng = random.Random(3)
    columns = {
        name: pa.array([None if rng.random() < 0.2 else rng.choice(values) for _ in range(ROWS)], kind)
        for name, (kind, values) in VALUES.items()
    }
    rows = pa.table({"id": pa.array(range(ROWS), pa.int64()), **columns, "none": pa.nulls(ROWS, pa.string())})
    made = lake.create_table("db.t", rows.schema, properties={"write.format.default": "orc"})
    made.append(rows.slice(0, 4_000))
    made.append(rows.slice(4_000))
    first = next(task for task in made.scan().plan_files() if task.file.record_count == 4_000)
    delete_positions(made, {first.file.file_path: [0, 1, 2_345, 3_999]})
    return made


@pytest.mark.parametrize("modes", [COMPILED, INTERPRETED], ids=["compiled", "interpreted"])
def test_batches_have_the_rows_that_spark_converts(spark: SparkSession, table: Table, modes: dict[str, str]) -> None:
    with settings(spark, AS_ROWS):
        frame = table.scan().to_spark()
        assert "MapInArrow" in plan_of(frame)
        expected = rows_of(frame)
    with settings(spark, modes):
        frame = table.scan().to_spark()
        assert "BatchScan" in plan_of(frame)
        assert rows_of(frame) == expected
    assert len(expected) == ROWS - 4


def test_aggregates_and_filters_of_batches(spark: SparkSession, table: Table) -> None:
    def results() -> list[list[str]]:
        frame = table.scan().to_spark()
        aggregates = [function(name) for name in (*VALUES, "none") for function in (f.min, f.max, f.count)]
        equal = reduce(or_, (f.col(name) == f.lit(values[-1]) for name, (_, values) in VALUES.items()))
        return [
            rows_of(frame.agg(*aggregates)),
            rows_of(frame.groupBy("flag", "double", "short", "text").agg(f.count("*"), f.max("wide"), f.max("bytes"))),
            rows_of(frame.where(equal & f.col("none").isNull() & f.col("large").isNotNull()).select("id", *VALUES)),
            rows_of(frame.sort(f.col("wide").desc_nulls_last(), "id").limit(50)),
        ]

    with settings(spark, AS_ROWS):
        expected = results()
    with settings(spark, COMPILED):
        assert results() == expected


def test_a_value_of_an_early_batch_stays(spark: SparkSession, lake: SqlCatalog) -> None:
    """Aggregates without groups refer to a text of an earlier batch, whose memory Arrow has released."""
    texts = pa.array([f"{10**6 - number:07d}" * 20 for number in range(60_000)])
    made = lake.create_table("db.t", pa.schema([("text", pa.string())]), properties={"write.format.default": "orc"})
    made.append(pa.table({"text": texts}))
    row = made.scan().to_spark().agg(f.max("text"), f.min("text"), f.count("text")).collect()[0]
    assert tuple(row) == (texts[0].as_py(), texts[-1].as_py(), 60_000)


def test_nested_columns_and_no_columns_are_read_as_rows(spark: SparkSession, lake: SqlCatalog) -> None:
    kind = pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))])
    rows = pa.table({"id": pa.array([1, 2], pa.int64()), "s": pa.array([{"a": 1, "b": ["x", None]}, None], kind)})
    made = lake.create_table("db.t", rows.schema, properties={"write.format.default": "orc"})
    made.append(rows)
    frame = made.scan().to_spark()
    assert "MapInArrow" in plan_of(frame)
    assert frame.sort("id").collect() == [(1, (1, ["x", None])), (2, None)]
    assert frame.count() == 2


def test_sql_reads_batches_twice_in_a_join_and_in_a_row_level_operation(spark: SparkSession, lake: SqlCatalog) -> None:
    made = lake.create_table(
        "db.t",
        pa.schema([("id", pa.int64()), ("text", pa.string())]),
        properties={"write.format.default": "orc", "write.delete.mode": "merge-on-read"},
    )
    icefloe.spark.attach(spark, "batches", lake)
    made.append(pa.table({"id": pa.array(range(100), pa.int64()), "text": [f"t{number % 5}" for number in range(100)]}))
    joined = spark.sql("SELECT a.id, b.text FROM batches.db.t a JOIN batches.db.t b ON a.id = b.id + 1 WHERE a.id < 3")
    assert sorted(map(tuple, joined.collect())) == [(1, "t0"), (2, "t1")]
    spark.sql("DELETE FROM batches.db.t WHERE text = 't1'")
    spark.sql("UPDATE batches.db.t SET text = 'new' WHERE id = 0")
    counted = spark.sql("SELECT text, count(id) FROM batches.db.t GROUP BY text")
    assert "through Python" in plan_of(counted)
    assert sorted(map(tuple, counted.collect())) == [("new", 1), ("t0", 19), ("t2", 20), ("t3", 20), ("t4", 20)]
    assert [row[0] for row in spark.sql("SELECT id FROM batches.db.t WHERE id >= 98 LIMIT 5").collect()] == [98, 99]
    assert len(spark.sql("SELECT id FROM batches.db.t LIMIT 5").collect()) == 5


def test_an_error_names_the_file_and_leaves_no_job(spark: SparkSession, lake: SqlCatalog) -> None:
    made = lake.create_table("db.t", pa.schema([("id", pa.int64())]), properties={"write.format.default": "orc"})
    made.append(pa.table({"id": pa.array([1], pa.int64())}))
    icefloe.spark.attach(spark, "broken", lake)
    path = Path(next(iter(made.scan().plan_files())).file.file_path.removeprefix("file://"))
    path.unlink()
    with pytest.raises(PythonException, match="NoSuchFileError") as caught:
        spark.sql("SELECT sum(id) FROM broken.db.t").collect()
    assert path.name in str(caught.value)
    assert not spark.sparkContext.statusTracker().getActiveJobsIds()


def test_the_jar_for_executors_has_the_classes_that_read_batches(spark: SparkSession) -> None:
    with zipfile.ZipFile(class_folder(gateway_of(spark), spark.version) / compiled.EXECUTOR_JAR) as jar:
        names = jar.namelist()
    assert len(set(names)) == len(names)
    assert {f"icefloe/{name}.class" for name in ("CopiedColumn", "PythonSplit", "PythonBatches", "PythonReaders")} <= set(names)


@pytest.mark.parametrize(
    ("lengths", "parallelism", "sizes"),
    [
        ([13, 14, 13, 14, 13, 14, 13, 14], 2, [4, 4]),
        ([5], 4, [1]),
        ([10, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], 2, [1, 10]),
        ([BYTES_PER_TASK] * 3, 2, [1, 1, 1]),
        ([1] * 5, 2, [2, 3]),
        ([0, 0], 2, [2]),
        ([], 2, []),
    ],
)
def test_tasks_are_grouped_by_bytes(lengths: list[int], parallelism: int, sizes: list[int]) -> None:
    tasks = [SimpleNamespace(length=length) for length in lengths]
    groups = list(_task_groups(cast("list[FileScanTask]", tasks), parallelism))
    assert [len(group) for group in groups] == sizes
    assert [task for group in groups for task in group] == tasks
