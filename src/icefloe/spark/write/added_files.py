"""Footers of files that are added to a table, read by Spark's tasks where they are many, by `datafile.partition_of_file`.

Spec: Data File Fields.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from pyspark.sql import SparkSession

from icefloe.datafile.foreign_files import FooterRequest
from icefloe.datafile.partition_of_file import FilesToAdd, FileToAdd
from icefloe.kernel.partitioning.partition_spec import PartitionSpec
from icefloe.spark.jobs.spark_jobs import MOST_SPARK_TASKS, run_job
from icefloe.spark.jobs.task_errors import TaskErrors

FILES_PER_TASK = 64


@dataclass(frozen=True)
class FileReader:
    """Runs in Spark's tasks: a location in, the file out."""

    request: FooterRequest
    spec: PartitionSpec
    errors: TaskErrors = field(default_factory=TaskErrors)

    def __call__(self, location: str) -> FileToAdd:
        with self.errors.carried():
            return self._files.file_to_add(location)

    @cached_property
    def _files(self) -> FilesToAdd:
        """One for all files of a task; made there, as it is not sent."""
        return FilesToAdd(self.request, self.spec)


def files_to_add(
    spark: SparkSession, locations: Sequence[str], request: FooterRequest, spec: PartitionSpec, table_name: str
) -> list[FileToAdd]:
    """What a manifest says of each file, in the order of the locations. Raises as `FilesToAdd`, and `EngineError` where Spark's job failed otherwise."""
    if not locations:
        return []
    tasks = max(1, min(len(locations) // FILES_PER_TASK, MOST_SPARK_TASKS))
    found = spark.sparkContext.parallelize(list(locations), tasks).map(FileReader(request, spec))
    return run_job(spark, f"read footers of files to add to {table_name}", found.collect)
