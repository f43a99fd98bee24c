"""The Spark job that reads the footers of files which are added to a table, where they are many; a task uses `datafile/partition_of_file.py`.

Spec: Data File Fields.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from pyspark.sql import SparkSession

from icefloe.datafile.foreign_files import FooterRequest
from icefloe.datafile.partition_of_file import FilesToAdd, FileToAdd
from icefloe.spark.jobs.spark_jobs import MOST_SPARK_TASKS, run_job
from icefloe.spark.jobs.task_errors import TaskErrors
from icefloe.spec.partitioning.partition_spec import PartitionSpec

FILES_PER_TASK = 64


@dataclass(frozen=True)
class FileReader:
    """The function that Spark tasks run: it takes a location, and returns the manifest fields of the file."""

    request: FooterRequest
    spec: PartitionSpec
    errors: TaskErrors = field(default_factory=TaskErrors)

    def __call__(self, location: str) -> FileToAdd:
        """Return the entry of a file for a manifest."""
        with self.errors.carried():
            return self._files.file_to_add(location)

    @cached_property
    def _files(self) -> FilesToAdd:
        """Return the reader of all files of a task. The task creates it, because it cannot be pickled."""
        return FilesToAdd(self.request, self.spec)


def files_to_add(
    spark: SparkSession, locations: Sequence[str], request: FooterRequest, spec: PartitionSpec, table_name: str
) -> list[FileToAdd]:
    """Read the manifest fields of each file from its footer.

    Returns:
        The files, in the order of the locations.

    Raises:
        IcefloeError: what `FilesToAdd` raises for a file.
        EngineError: Spark's job failed for another reason.
    """
    if not locations:
        return []
    tasks = max(1, min(len(locations) // FILES_PER_TASK, MOST_SPARK_TASKS))
    files = spark.sparkContext.parallelize(list(locations), tasks).map(FileReader(request, spec))
    return run_job(spark, f"read footers of files to add to {table_name}", files.collect)
