"""Partitioned writes of TPC-H's `lineitem` and `orders`, by year, compared with `df.repartition(...).write.partitionBy(...).parquet` of the same rows.

CREATE TABLE AS SELECT and INSERT of all rows, which both sides read from DuckDB's Parquet files. Both sides take turns in one session; the measures are the
clock, and the CPU time of the JVM, its Python workers and this process together. `tpch_tables.py` has the scale.
"""

import shutil
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from benchmarks.measure import Comparison, interleaved, say, seconds
from benchmarks.spark_changes import cpu_seconds
from benchmarks.spark_lake import new_lake_in, session_with_lake
from benchmarks.tpch_tables import SCALE, SESSION, source_files
from icefloe.spark.attach_catalog import attach

DATES = {"lineitem": "l_shipdate", "orders": "o_orderdate"}
REPEATS = 3
GOAL = 0.8


def used(action: Callable[[], Any]) -> tuple[float, float]:
    """Return the seconds of the clock, and of CPU time, of an action."""
    before, started = cpu_seconds(), time.perf_counter()
    action()
    return time.perf_counter() - started, cpu_seconds() - before


def create_as_select(spark: SparkSession, scratch: Path, table: str) -> tuple[float, float]:
    """Measure CREATE TABLE AS SELECT, and drop the table."""
    taken = used(
        partial(
            spark.sql, f"CREATE TABLE written.bench.{table} USING iceberg PARTITIONED BY (years({DATES[table]})) AS SELECT * FROM {table}"
        )
    )
    return dropped(spark, scratch, table, taken)


def insert(spark: SparkSession, scratch: Path, table: str) -> tuple[float, float]:
    """Measure an INSERT into an empty table, and drop the table."""
    spark.sql(f"CREATE TABLE written.bench.{table} USING iceberg PARTITIONED BY (years({DATES[table]})) AS SELECT * FROM {table} LIMIT 0")
    return dropped(spark, scratch, table, used(partial(spark.sql, f"INSERT INTO written.bench.{table} SELECT * FROM {table}")))


def dropped(spark: SparkSession, scratch: Path, table: str, taken: tuple[float, float]) -> tuple[float, float]:
    """Drop the table with its files, and return what was measured."""
    spark.sql(f"DROP TABLE written.bench.{table}")
    shutil.rmtree(scratch / "warehouse")
    return taken


def plain_write(rows: DataFrame, folder: Path) -> tuple[float, float]:
    """Measure Spark's own partitioned write."""
    taken = used(partial(rows.repartition("year").write.option("compression", "zstd").partitionBy("year").parquet, str(folder)))
    shutil.rmtree(folder)
    return taken


def run() -> list[Comparison]:
    """Run the benchmark."""
    source, lines = source_files(), []
    with session_with_lake(f"tpch-{SCALE}", **SESSION) as (spark, _, folder):
        scratch = folder / "written"
        attach(spark, "written", new_lake_in(scratch, "written"))
        for table, column in DATES.items():
            rows = spark.read.parquet(str(source / f"{table}.parquet"))
            rows.createOrReplaceTempView(table)
            actions: dict[str, Callable[[], Any]] = {
                "CREATE TABLE AS SELECT": partial(create_as_select, spark, scratch, table),
                "INSERT": partial(insert, spark, scratch, table),
                "parquet": partial(plain_write, rows.withColumn("year", f.year(column)), scratch / "plain"),
            }
            interleaved(1, actions)  # until the JVM has compiled the code
            taken = interleaved(REPEATS, actions)
            (clock, cpu) = ({side: min(run[part] for run in runs) for side, runs in taken.items()} for part in (0, 1))
            for statement in ("CREATE TABLE AS SELECT", "INSERT"):
                title = f"Spark SQL, {statement} of TPC-H's {table} at scale {SCALE} by year"
                for what, best in ((f"{title} (df.repartition(...).write.partitionBy(...).parquet)", clock), ("the same, CPU time", cpu)):
                    ratio = best[statement] / best["parquet"]
                    lines.append(
                        Comparison(what, seconds(best[statement]), seconds(best["parquet"]), ratio, f"<= {GOAL}" if best is clock else "")
                    )
                say(
                    f"tpch-writes: {statement} of {table}: {clock[statement] / clock['parquet']:.2f}, CPU time {cpu[statement] / cpu['parquet']:.2f}"
                )
    return lines
