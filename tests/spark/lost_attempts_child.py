"""Writes with tasks that are lost, in a session that repeats failed tasks, until the driver is killed between a write and its commit.

Run by `test_lost_attempts.py` with the catalog's folder; prints the outcome of each write, a line each.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from icefloe import SqlCatalog
from icefloe.errors import EngineError
from icefloe.spark.runtime.start_session import session
from icefloe.spark.write import data_file_job as spark_write
from icefloe.table import table as table_module
from icefloe.table.table import Table

ROWS, PARTITIONS, LOST = 200_000, 4, 1
LATE_S = 12.0


class KilledWriter(spark_write.TaskWriter):
    """A writer that is killed in the middle of the first attempt at one partition, when it has finished some files and others are open."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return super().__call__(self._until_killed(batches))

    def _until_killed(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        for number, batch in enumerate(batches):
            if context is not None and context.partitionId() == LOST and context.attemptNumber() == 0 and number == 4:
                os.kill(os.getpid(), signal.SIGKILL)
            yield batch


class LateWriter(spark_write.TaskWriter):
    """A writer that reads its rows long after the first attempt at one partition has failed, like a Python worker with slow imports."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        if context is not None and context.partitionId() == LOST and context.attemptNumber() == 0:
            time.sleep(LATE_S)
        return super().__call__(batches)


def failing(rows: DataFrame, attempts: int) -> DataFrame:
    """Return the rows, of which one partition fails near its end in the first `attempts` attempts."""

    def passed_on(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        for number, batch in enumerate(batches):
            if context is not None and context.partitionId() == LOST and context.attemptNumber() < attempts and number == 5:
                raise ValueError("no such luck")
            yield batch

    return rows.mapInArrow(passed_on, rows.schema)


def outcome(table: Table, name: str) -> dict[str, Any]:
    """Return the numbers of rows, of files that the table names and of data files in its folder."""
    table.refresh()
    folder = Path(table.location().removeprefix("file://")) / "data"
    named = len(list(table.scan().plan_files()))
    return {"name": name, "rows": table.scan().count(), "named": named, "there": data_files_at_the_end(folder, named)}


def data_files_at_the_end(folder: Path, expected: int) -> int:
    """Wait until lost tasks have noticed the lost connection and deleted their files, and return the number of data files in the folder."""
    for _ in range(200):
        found = len(list(folder.rglob("*.parquet")))
        if found == expected:
            break
        time.sleep(0.2)
    return found


def report(found: dict[str, Any]) -> None:
    """Print one line for the test."""
    print("OUTCOME" + json.dumps(found), flush=True)


def run(spark: SparkSession, table: Table) -> None:
    """Run the writes one after another."""
    rows = spark.range(0, ROWS, 1, PARTITIONS)
    try:
        table.append(failing(rows, attempts=99))
        report({"name": "not refused"})
    except EngineError as error:
        report(outcome(table, "failed") | {"names_reason": "no such luck" in str(error)})
    table.append(failing(rows, attempts=1))
    report(outcome(table, "failed once"))
    whole = spark_write.TaskWriter
    spark_write.TaskWriter = LateWriter  # type: ignore[misc]
    table.append(failing(rows, attempts=1))
    time.sleep(LATE_S)  # the files are there by now, if nothing deleted them
    report(outcome(table, "failed once, wrote late"))
    spark_write.TaskWriter = KilledWriter  # type: ignore[misc]
    table.append(rows)
    spark_write.TaskWriter = whole  # type: ignore[misc]
    report(outcome(table, "killed once"))
    table_module.commit = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment]
    table.append(rows)


if __name__ == "__main__":
    folder = sys.argv[1]
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"{folder}/warehouse")
    conf = {"spark.driver.memory": "1g", "spark.sql.execution.arrow.maxRecordsPerBatch": "8192"}
    run(session(conf, master="local[2,3]"), catalog.load_table("db.t"))
