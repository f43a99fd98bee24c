"""Spark's own scan over planned files: constants of every type, filters on them, and paths that are not decoded."""

import datetime as dt
from decimal import Decimal
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import LongType, StringType, StructField, StructType

from icefloe.errors import EngineError
from icefloe.spark.bridge import java_compiler
from icefloe.spark.bridge.gateway import class_folder, gateway_of
from icefloe.spark.scan.native_scan import hadoop_paths, native_rows

pytestmark = pytest.mark.spark

DATA = StructType([StructField("id", LongType())])
CONSTANTS: dict[str, tuple[str, pa.DataType, list[Any]]] = {
    "bool": ("boolean", pa.bool_(), [True, False, None]),
    "int": ("int", pa.int32(), [-1, 2**31 - 1, None]),
    "long": ("bigint", pa.int64(), [-1, 2**63 - 1, None]),
    "float": ("float", pa.float32(), [0.5, float("inf"), None]),
    "double": ("double", pa.float64(), [0.1, -1e300, None]),
    "short decimal": ("decimal(9,2)", pa.decimal128(9, 2), [Decimal("1.50"), Decimal("-9999999.99"), None]),
    "long decimal": ("decimal(38,10)", pa.decimal128(38, 10), [Decimal("1.5000000000"), Decimal(10) ** 27, None]),
    "date": ("date", pa.date32(), [dt.date(1, 1, 1), dt.date(2024, 2, 29), None]),
    "ntz": ("timestamp_ntz", pa.timestamp("us"), [dt.datetime(1500, 1, 1, 0, 0, 0, 1), dt.datetime(2024, 3, 31, 2, 30), None]),
    "text": ("string", pa.string(), ["", "a=b/%20 é\U0001f9ca", None]),
    "bytes": ("binary", pa.binary(), [b"", b"\x00\xff", None]),
}
FIRST = {
    "bool": "true",
    "int": "-1",
    "long": "-1L",
    "float": "0.5F",
    "double": "0.1D",
    "short decimal": "1.50BD",
    "long decimal": "1.5BD",
    "date": "DATE'0001-01-01'",
    "ntz": "TIMESTAMP_NTZ'1500-01-01 00:00:00.000001'",
    "text": "''",
    "bytes": "X''",
}


def files_of(folder: Path, count: int, rows: int = 10) -> list[str]:
    paths = []
    for number in range(count):
        path = folder / f"{number}.parquet"
        pq.write_table(pa.table({"id": range(number * rows, number * rows + rows)}), path)
        paths.append(str(path))
    return paths


def scan(spark: SparkSession, paths: list[str], constants: dict[str, tuple[str, pa.DataType, list[Any]]]) -> DataFrame:
    columns = {
        "path": hadoop_paths(pa.array(paths, pa.string())),
        "size": pa.array([Path(path).stat().st_size for path in paths], pa.int64()),
    }
    columns |= {name: pa.array(values, kind) for name, (_, kind, values) in constants.items()}
    fields = ", ".join(f"`{name}` {kind}" for name, (kind, _, _) in constants.items())
    struct = StructType.fromDDL(fields) if fields else StructType([])
    return native_rows(spark, pa.table(columns), constants=struct, data=DATA, name="db.t", size=20)


def test_a_constant_has_its_value_in_every_row_of_its_file(spark: SparkSession, tmp_path: Path) -> None:
    frame = scan(spark, files_of(tmp_path, 3), CONSTANTS)
    for number, row in enumerate(frame.orderBy("id").collect()):
        found = [bytes(value) if isinstance(value, bytearray) else value for value in row[1:]]
        assert found == [values[number // 10] for _, _, values in CONSTANTS.values()]


def test_a_filter_on_a_constant_keeps_the_rows_of_its_files_alone(spark: SparkSession, tmp_path: Path) -> None:
    frame = scan(spark, files_of(tmp_path, 3), CONSTANTS)
    filters = {}
    for name, first in FIRST.items():
        filters |= {f"`{name}` != {first}": (10, 10, 19), f"`{name}` = {first} OR `{name}` IS NULL": (20, 0, 29)}
        if name in ("int", "text"):
            filters |= {f"`{name}` = {first}": (10, 0, 9), f"`{name}` IS NULL": (10, 20, 29)}
    frames = [frame.where(text).agg(F.lit(text), F.count("*"), F.min("id"), F.max("id")) for text in filters]
    assert all("PartitionFilters: []" not in plan_of(filtered) for filtered in frames)
    rows = reduce(DataFrame.unionAll, frames).collect()
    assert {row[0]: row[1:] for row in rows} == filters


def plan_of(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


def test_a_filter_of_constants_and_columns_is_applied_completely(spark: SparkSession, tmp_path: Path) -> None:
    frame = scan(spark, files_of(tmp_path, 3), {"n": ("int", pa.int32(), [1, 2, 3]), "t": ("string", pa.string(), ["a", "b", None])})
    assert [r["id"] for r in frame.where("(n = 2 AND id < 12) OR (t IS NULL AND id % 10 = 0)").orderBy("id").collect()] == [10, 11, 20]
    assert frame.where("n > 1 AND upper(t) = 'B' AND id >= 15").count() == 5
    assert frame.where("concat(t, cast(n as string)) = 'a1'").count() == 10


def test_a_join_prunes_files_by_their_constants_at_run_time(spark: SparkSession, tmp_path: Path) -> None:
    frame = scan(spark, files_of(tmp_path, 8, rows=5000), {"n": ("int", pa.int32(), list(range(8)))})
    other = tmp_path / "other"
    spark.createDataFrame([(number, f"name {number}") for number in range(8)], ["k", "name"]).write.parquet(str(other))
    wanted = spark.read.parquet(str(other)).where("name = 'name 3'")
    joined = frame.join(F.broadcast(wanted), F.col("n") == F.col("k")).select("id")
    assert "dynamicpruning" in plan_of(joined)
    assert joined.agg(F.count("*"), F.min("id"), F.max("id")).collect()[0][:] == (5000, 15000, 19999)


def test_paths_are_read_without_decoding(spark: SparkSession, tmp_path: Path) -> None:
    frames: list[DataFrame] = []
    for folder in ("plain", "with space", "a%20b", "100%", "k=v", "a#b", "a?b", "é\U0001f9ca", "a+b&c"):
        (tmp_path / folder).mkdir()
        paths = files_of(tmp_path / folder, 2)
        for scheme in ("", "file:", "file://"):
            spelled = pa.array([scheme + path for path in paths])
            columns = {"path": hadoop_paths(spelled), "size": pa.array([Path(path).stat().st_size for path in paths], pa.int64())}
            frame = native_rows(spark, pa.table(columns), constants=StructType([]), data=DATA, name="db.t", size=20)
            frames.append(frame.select(F.lit(f"{scheme}{folder}").alias("path"), "id"))
    counts = reduce(DataFrame.unionAll, frames).groupBy("path").count().collect()
    assert len(counts) == len(frames) == 27
    assert [row.path for row in counts if row["count"] != 20] == []


@pytest.mark.slow
def test_a_hundred_thousand_files_are_passed_to_spark_in_one_call(spark: SparkSession) -> None:
    count = 100_000
    paths = pa.array([f"/warehouse/db/t/data/day=2024-01-01/{number:05d}-1-6dbd0ab0-0001.parquet" for number in range(count)])
    files = pa.table({"path": hadoop_paths(paths), "size": pa.array([7] * count, pa.int64()), "n": pa.array(range(count), pa.int64())})
    frame = native_rows(spark, files, constants=StructType([StructField("n", LongType())]), data=DATA, name="db.t", size=5_000_000)
    assert frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes() == 5_000_000
    assert len(frame.inputFiles()) == count


def test_two_scans_of_the_same_files_share_what_spark_has_cached(spark: SparkSession, tmp_path: Path) -> None:
    paths = files_of(tmp_path, 2)
    cached = scan(spark, paths, {"n": ("int", pa.int32(), [1, 2])}).cache()
    assert "InMemoryTableScan" in plan_of(scan(spark, paths, {"n": ("int", pa.int32(), [1, 2])}))
    assert "InMemoryTableScan" not in plan_of(scan(spark, paths, {"n": ("int", pa.int32(), [1, 3])}))
    cached.unpersist()


def test_compiled_classes_are_cached_for_the_next_session(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    kept = class_folder(gateway_of(spark), spark.version)
    assert kept.parent == tmp_path / "icefloe"
    assert kept.name.startswith(spark.version)
    written = (kept / "icefloe" / "PlannedFiles.class").stat().st_mtime_ns
    assert class_folder(gateway_of(spark), spark.version) == kept
    assert (kept / "icefloe" / "PlannedFiles.class").stat().st_mtime_ns == written
    assert [path.name for path in kept.parent.iterdir()] == [kept.name]


def test_classes_are_compiled_without_a_writable_cache(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    kept = class_folder(gateway_of(spark), spark.version)
    assert (kept / "icefloe" / "PlannedFiles.class").is_file()
    assert tmp_path not in kept.parents


def test_sources_that_this_spark_cannot_compile_are_an_engine_error(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "java").mkdir()
    for name in (*java_compiler.SOURCES, *java_compiler.FORMATS):
        (tmp_path / "java" / f"{name}.java").write_text(f"package icefloe; public class {name} {{ Missing m; }}")
    monkeypatch.setattr(java_compiler, "files", lambda _: tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(EngineError, match="do not compile on Spark") as caught:
        class_folder(gateway_of(spark), spark.version)
    assert "Missing" in str(caught.value)


def test_a_constant_may_be_the_only_column_of_a_query(spark: SparkSession, tmp_path: Path) -> None:
    frame = scan(spark, files_of(tmp_path, 2), {"t": ("string", pa.string(), ["a", None])})
    assert frame.schema["t"].dataType == StringType()
    assert sorted((row["t"] or "", row["count"]) for row in frame.groupBy("t").count().collect()) == [("", 10), ("a", 10)]
    assert frame.count() == 20
