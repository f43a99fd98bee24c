"""Child process that plans and counts the table of `planning_20m_table.py` in a Spark session, and prints times and memory; its argument is the metadata file.

It checks the number of rows or files of everything that it measures.
"""

import json
import sys
import time
from collections.abc import Callable
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from benchmarks import planning_20m_table
from benchmarks.planning_child import megabytes
from benchmarks.spark_changes import cpu_seconds
from benchmarks.spark_lake import new_lake_in
from icefloe.spark import session

REPEATS = 2
TABLE = "bench.huge"
DAY = date(2024, 3, 1)


def main(metadata: str) -> None:
    """Measure every side once a round, after a first round that starts the workers."""
    lake = new_lake_in(Path(metadata).parents[1] / "catalog", "lake")
    lake.register_table(TABLE, metadata)
    spark = session(catalogs={"lake": lake}, **{"spark.driver.memory": "1g"})
    try:
        sides = {
            "job": partial(planned, spark, "distributed"),
            "here": partial(planned, spark, "local"),
            "count": partial(counted, spark),
            "limit": partial(limited, spark),
            "files": partial(files_of_a_day, spark, planning_20m_table.files_of_day(DAY)),
        }
        times: dict[str, list[dict[str, float]]] = {name: [] for name in sides}
        for turn in range(REPEATS + 1):
            for name, side in sides.items():
                taken = measured(partial(side, turn))
                if turn:
                    times[name].append(taken)
        peak = {"python": megabytes("VmHWM"), "heap": peak_heap(spark)}
    finally:
        spark.stop()
    print(json.dumps({"times": times, "peak": peak}))


def measured(work: Callable[[], None]) -> dict[str, float]:
    """Return the time of a call, and the CPU time of this process, the JVM and the workers."""
    started, started_cpu = time.perf_counter(), cpu_seconds()
    work()
    return {"wall": time.perf_counter() - started, "cpu": cpu_seconds() - started_cpu}


def planned(spark: SparkSession, mode: str, turn: int) -> None:
    """Plan the files of one id, which is another one each time, since a catalog keeps plans."""
    row_id = planning_20m_table.ID + turn * planning_20m_table.IDS_OF_A_STEP
    frame = spark.read.option("planning-mode", mode).table(f"lake.{TABLE}").where(f"id = {row_id}").select("amount")
    frame._jdf.queryExecution().executedPlan()
    check(len(frame.inputFiles()), planning_20m_table.STEPS_OF_A_FILE)


def counted(spark: SparkSession, _: int) -> None:
    """Count all rows."""
    check(spark.sql(f"SELECT count(*) FROM lake.{TABLE}").collect()[0][0], planning_20m_table.FILES * planning_20m_table.ROWS_OF_A_FILE)


def limited(spark: SparkSession, turn: int) -> None:
    """Read about a hundred rows."""
    check(len(spark.sql(f"SELECT * FROM lake.{TABLE} LIMIT {100 + turn}").collect()), 100 + turn)


def files_of_a_day(spark: SparkSession, expected: int, _: int) -> None:
    """Collect the paths of the files of one day of a thousand."""
    rows = spark.sql(f"SELECT file_path, record_count FROM lake.{TABLE}.files WHERE partition.happened_day = DATE '{DAY}'").collect()
    check(len(rows), expected)


def check(actual: int, expected: int) -> None:
    """Refuse to print figures of wrong results."""
    if actual != expected:
        raise SystemExit(f"{actual} rows or files instead of {expected}")


def peak_heap(spark: SparkSession) -> float:
    """Return the most megabytes of the JVM's heap that were in use."""
    jvm: Any = spark._jvm
    pools = jvm.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()
    return sum(pool.getPeakUsage().getUsed() for pool in pools if pool.getType().toString() == "Heap memory") / 2**20


if __name__ == "__main__":
    main(sys.argv[1])
