"""Every job that writes files, with a task that fails once when its files are written, is killed once in the middle of them, or fails each time.

Run by `test_lost_attempts.py` with the catalog's folder, and jobs if not all, in a session that repeats failed tasks; prints the outcome of each.
"""

import json
import os
import signal
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from tests.table.reachable import everything, on_disk

from icefloe import SqlCatalog
from icefloe.errors import EngineError
from icefloe.spark.attach_catalog import attach
from icefloe.spark.connect.python_data_source import IcefloeSource
from icefloe.spark.connect.register import register, registered_catalogs
from icefloe.spark.row_level import changed_rows_job, upsert_job, upsert_rows_source
from icefloe.spark.runtime.start_session import session
from icefloe.spark.write import data_file_job, file_job
from icefloe.table.table import Table

ROWS, PARTITIONS = 40_000, 2
ONCE, KILLED, ALWAYS = "failing once", "killed once", "always failing"
LOST_BATCH = 1
# The format `icefloe` cannot be registered again in a session with an attached catalog.
LOSING_FORMAT = "losing"


@dataclass(frozen=True)
class Losing:
    """A replacement of a class that writes in tasks, which loses attempts at the first task."""

    writer: Callable[[Any], Any]
    how: str
    folder: str

    def __call__(self, task_input: Any) -> Any:
        if isinstance(task_input, tuple):  # one file to rewrite
            outcome = self.writer(task_input)
            self._lose(KILLED)
            self._lose(ONCE, ALWAYS)
            return outcome
        return self._batches(task_input)

    def _batches(self, batches: Any) -> Iterator[Any]:
        outcomes = list(self.writer(self._until_killed(batches)))
        self._lose(ONCE, ALWAYS)  # with its files written
        yield from outcomes

    def _until_killed(self, batches: Any) -> Iterator[Any]:
        for number, batch in enumerate(batches):
            if number == LOST_BATCH:  # with files written, and one open
                self._lose(KILLED)
            yield batch

    def _lose(self, *hows: str) -> None:
        context = TaskContext.get()
        if context is None or context.partitionId() != 0 or self.how not in hows or (context.attemptNumber() and self.how != ALWAYS):
            return
        Path(self.folder, uuid.uuid4().hex).touch()
        if self.how == KILLED:
            os.kill(os.getpid(), signal.SIGKILL)
        raise ValueError("no such luck")


def losing(kind: Any, how: str, folder: str) -> Any:
    """Return a function that creates a losing writer instead of the class's own."""
    return lambda *arguments: Losing(kind(*arguments), how, folder)


def by_data_source(spark: SparkSession, rows: DataFrame, how: str, folder: str) -> None:
    """Append by the data source, whose writer is created in another process."""

    def writer(source: Any, schema: Any, overwrite: bool) -> Any:
        table_writer: Any = IcefloeSource.writer(source, schema, overwrite)
        table_writer._task = LosingTaskWriter(table_writer._task, how, folder, table_writer._task.target)
        return table_writer

    attributes = {
        "__module__": "__main__",  # so that it is pickled with its attributes
        "name": classmethod(lambda _: LOSING_FORMAT),
        "registered": registered_catalogs(spark),
        "writer": writer,
    }
    spark.dataSource.register(type("LosingSource", (IcefloeSource,), attributes))
    rows.write.format(LOSING_FORMAT).mode("append").save("lake.db.t")


@dataclass(frozen=True)
class LosingTaskWriter(Losing):
    """A losing writer with the attribute `target` and the method `files_of`, which a `TaskWriter` has."""

    target: Any

    def files_of(self, batches: Any) -> Any:
        task_files = self.writer.files_of(self._until_killed(batches))  # type: ignore[attr-defined]
        self._lose(ONCE, ALWAYS)
        return task_files


def jobs(spark: SparkSession, table: Table, how: str, folder: str) -> dict[str, Callable[[], Any]]:
    """Return the jobs by name; each changes the table once."""
    low = table.scan().count() * 10
    new = spark.range(low, low + ROWS, 1, PARTITIONS).selectExpr("id", "0L AS v")
    changed = spark.range(0, ROWS, 1, PARTITIONS).selectExpr("id", f"{low}L AS v")
    return {
        "append": lambda: table.append(new),
        "append by the data source": lambda: by_data_source(spark, new, how, folder),
        "upsert": lambda: table.upsert(changed, ["id"]),
        "update": lambda: spark.sql("UPDATE lake.db.t SET v = v + 1 WHERE id % 10 > 0"),
        "merge": lambda: spark.sql(
            f"MERGE INTO lake.db.t t USING (SELECT id * 2 AS id FROM range({ROWS})) s ON t.id = s.id "
            f"WHEN MATCHED THEN UPDATE SET v = t.v + 1 WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id + {low}, 0)"
        ),
        "delete": lambda: table.delete(f"id < {5 * len(table.snapshots())}"),
    }


WRITERS = {
    "append": (data_file_job, "TaskWriter"),
    "append by the data source": None,
    "upsert": (upsert_job, "TaskUpserter"),
    "update": (changed_rows_job, "TaskChanger"),
    "merge": (changed_rows_job, "TaskChanger"),
    "delete": (file_job, "TaskFileWriter"),
}


def run(spark: SparkSession, table: Table, job: str, how: str, folder: Path) -> None:
    """Run one job and print the files that remain after it."""
    lost_attempts = folder / f"{job} {how}"
    lost_attempts.mkdir()
    place = WRITERS[job]
    whole = None if place is None else getattr(*place)
    if place is not None:
        setattr(*place, losing(whole, how, str(lost_attempts)))
    try:
        jobs(spark, table.refresh(), how, str(lost_attempts))[job]()
        ended = True
    except (EngineError, PySparkException) as error:
        if "no such luck" not in f"{error}{error.__cause__}":
            raise
        ended = False
    if place is not None:
        setattr(*place, whole)
    left, missing = files_at_the_end(table)
    found = {"job": job, "lost": how, "was_lost": any(lost_attempts.iterdir()), "ended": ended, "left": left, "missing": missing}
    print("OUTCOME" + json.dumps(found), flush=True)


def files_at_the_end(table: Table) -> tuple[list[str], list[str]]:
    """Wait until lost tasks have deleted their files, and return the files that no snapshot names and the named files that are missing."""
    metadata = table.refresh().metadata
    named = {path.removeprefix("file://") for path in everything(metadata)}
    for _ in range(100):
        there = on_disk(table.location().removeprefix("file://"))
        if there == named:
            break
        time.sleep(0.2)
    return sorted(there - named), sorted(named - there)


if __name__ == "__main__":
    upsert_rows_source.MOST_BYTES_HERE = 0  # few rows would be upserted in this process
    folder = Path(sys.argv[1])
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"{folder}/warehouse")
    spark = session({"spark.driver.memory": "1g"}, master="local[2,3]")
    attach(spark, "lake", catalog)
    register(spark, lake=catalog)
    table = catalog.load_table("db.t")
    table.append(spark.range(0, ROWS, 1, PARTITIONS).selectExpr("id", "0L AS v"))
    for job in sys.argv[2:] or WRITERS:
        for how in (ONCE, KILLED, ALWAYS):
            run(spark, table, job, how, folder)
