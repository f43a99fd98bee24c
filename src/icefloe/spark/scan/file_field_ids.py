"""Which columns files have, asked of the files themselves: only where a column's default, or a name mapping, makes it matter.

What follows from it is decided in `read_strategy.py`. Spec: Column Projection; Default values.
"""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession

from icefloe.datafile.field_ids import has_ids, id_of, inner_fields
from icefloe.datafile.stored_file import reader_of
from icefloe.kernel.ports import FileIO
from icefloe.kernel.scan.file_scan_task import FileScanTask
from icefloe.spark.jobs.spark_jobs import MOST_SPARK_TASKS, run_job
from icefloe.spark.jobs.task_errors import TaskErrors

# Footers that the driver reads itself, side by side; more are read by Spark's tasks.
MOST_ON_DRIVER = 256
FOOTER_THREADS = 8

# The field ids of a file's columns, inner ones too; None for a file that has none on any column.
FieldIds = frozenset[int] | None


def field_ids(spark: SparkSession, io: FileIO, tasks: Sequence[FileScanTask], table_name: str) -> list[FieldIds]:
    """The field ids in each task's file, in their order. Raises as `reader_of`, and `EngineError` where Spark's job failed for another reason."""
    reader = FooterReader(io)
    if len(tasks) <= MOST_ON_DRIVER:
        with ThreadPoolExecutor(FOOTER_THREADS, thread_name_prefix="icefloe-footers") as pool:
            return list(pool.map(reader.ids_in, tasks))
    found = spark.sparkContext.parallelize(list(tasks), min(len(tasks) // FOOTER_THREADS, MOST_SPARK_TASKS)).map(reader)
    return run_job(spark, f"read footers of {table_name}", found.collect)


@dataclass(frozen=True)
class FooterReader:
    """Runs in Spark's tasks too: a scan task in, the field ids in its file out."""

    io: FileIO
    errors: TaskErrors = field(default_factory=TaskErrors)

    def __call__(self, task: FileScanTask) -> FieldIds:
        with self.errors.carried():
            return self.ids_in(task)

    def ids_in(self, task: FileScanTask) -> FieldIds:
        """The field ids in the task's file."""
        with self.io.open_input(task.file.file_path) as file:
            columns = reader_of(task)(file, task, None).schema
        return frozenset(_ids(columns)) if has_ids(columns) or not len(columns) else None


def _ids(columns: Iterable[Any]) -> Iterator[int]:
    for column in columns:
        found = id_of(column)
        if found is not None:
            yield found
        yield from _ids(inner_fields(column.type))
