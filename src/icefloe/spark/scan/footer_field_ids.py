"""The field ids in the footers of data files, read by this process or by Spark's tasks: which columns a file has.

`read_strategy.py` needs them where a column's default, a name mapping or a struct makes that matter. Spec: Column Projection; Default values.
"""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession

from icefloe.datafile.field_ids import has_ids, id_of, inner_fields
from icefloe.datafile.stored_file import opened_stored_file
from icefloe.kernel.ports import FileIO
from icefloe.kernel.scan.file_scan_task import FileScanTask
from icefloe.spark.jobs.spark_jobs import MOST_SPARK_TASKS, run_job
from icefloe.spark.jobs.task_errors import TaskErrors

# Footers that the driver reads itself, in threads; more are read by Spark's tasks.
MOST_ON_DRIVER = 256
FOOTER_THREADS = 8
# The field ids of a file's columns, inner ones too; None for a file that has none on any column.
FieldIds = frozenset[int] | None


def field_ids(spark: SparkSession, io: FileIO, tasks: Sequence[FileScanTask], table_name: str) -> list[FieldIds]:
    """Return the field ids in each task's file, in the order of the tasks.

    Args:
        spark: A classic session; its tasks read the footers where there are more than `MOST_ON_DRIVER`.
        io: The table's storage.
        tasks: Scan tasks.
        table_name: For the description of the job.

    Raises:
        NoSuchFileError, DataFileFormatError: A file is missing or damaged.
        EngineError: Spark's job failed for another reason.
    """
    reader = FooterReader(io)
    if len(tasks) <= MOST_ON_DRIVER:
        with ThreadPoolExecutor(FOOTER_THREADS, thread_name_prefix="icefloe-footers") as pool:
            return list(pool.map(reader.ids_in, tasks))
    ids_of_files = spark.sparkContext.parallelize(list(tasks), min(len(tasks) // FOOTER_THREADS, MOST_SPARK_TASKS)).map(reader)
    return run_job(spark, f"read footers of {table_name}", ids_of_files.collect)


@dataclass(frozen=True)
class FooterReader:
    """A function that Spark tasks run: it takes a scan task, and returns the field ids in its file."""

    io: FileIO
    errors: TaskErrors = field(default_factory=TaskErrors)

    def __call__(self, task: FileScanTask) -> FieldIds:
        """Return the field ids in the file of a scan task."""
        with self.errors.carried():
            return self.ids_in(task)

    def ids_in(self, task: FileScanTask) -> FieldIds:
        """Return the field ids in the task's file."""
        with opened_stored_file(self.io, task) as stored:
            columns = stored.schema
        return frozenset(_ids(columns)) if has_ids(columns) or not len(columns) else None


def _ids(columns: Iterable[Any]) -> Iterator[int]:
    for column in columns:
        field_id = id_of(column)
        if field_id is not None:
            yield field_id
        yield from _ids(inner_fields(column.type))
