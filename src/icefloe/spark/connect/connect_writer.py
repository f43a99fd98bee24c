"""Writing of a DataFrame of Spark Connect to data files, using only public functions: the counterpart of `spark/write/data_file_job.py`.

The job's rows describe the written files, and the caller commits these files in its own process. So every kind of write works, also in transactions. The data
source, in contrast, commits on the server, where a transaction of this process has no effect. Spec: Writing Data Files.
"""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from icefloe.datafile.write_target import WriteTarget
from icefloe.spark.jobs.spark_jobs import raise_error_of
from icefloe.spark.jobs.task_errors import TaskErrors
from icefloe.spark.write.data_file_job import RESULT, TaskWriter, files_of_results, ready_to_write, small_batches
from icefloe.spark.write.failed_attempt_cleanup import deleting_files_on_failure
from icefloe.spec.manifest.data_file import DataFile


def write_connect_rows(rows: DataFrame, target: WriteTarget) -> list[DataFile]:
    """Write rows as data files.

    After a failure or Ctrl-C, the files of finished tasks are searched in the table's data folder and deleted.

    Args:
        rows: The rows, from a session of Spark Connect.
        target: The table to write for.

    Returns:
        The files, in the order of Spark's partitions.

    Raises:
        SchemaMismatchError: The columns do not match the table; raised before a job runs.
        StorageError: The workers wrote to their local disks, which this process cannot read.
        EngineError: The job failed; the server may truncate the error of a task.
    """
    spark = rows.sparkSession
    ready, target, names = ready_to_write(rows, target)
    job = uuid.uuid4().hex
    writer = TaskWriter(target, NoFinishedFiles(), names, TaskErrors(job=job))  # type: ignore[arg-type]  # only `add` is called
    with small_batches(spark, target.schema), _ended_with(spark), deleting_files_on_failure(target):
        try:
            results = ready.mapInArrow(writer, RESULT).collect()
        except PySparkException as error:
            raise_error_of(error, job)
        return files_of_results(spark, target, results)


class NoFinishedFiles:
    """A replacement of `FinishedFiles` for jobs without an accumulator. It ignores the locations, because the job's rows contain the files."""

    def add(self, locations: list[str]) -> None:
        """Do nothing."""


@contextmanager
def _ended_with(spark: SparkSession) -> Iterator[None]:
    """Return a context in which jobs of Spark Connect are run. If Ctrl-C ends it, the jobs that it started on the server are interrupted."""
    tag = f"icefloe-{uuid.uuid4()}"
    spark.addTag(tag)
    try:
        yield
    except KeyboardInterrupt:
        with suppress(PySparkException):
            spark.interruptTag(tag)
        raise
    finally:
        spark.removeTag(tag)
