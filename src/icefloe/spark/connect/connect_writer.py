"""A DataFrame of Spark Connect becomes data files: as `spark/write/data_file_job.py`, with public functions alone. The commit is the caller's, in
his own process.

The files come back with the job's own rows, so that every write of a table works, in transactions too; a commit by the data source could not be part of one.
Spec: Writing Data Files.
"""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from icefloe.datafile.write_target import WriteTarget
from icefloe.kernel.manifest.data_file import DataFile
from icefloe.spark.jobs.spark_jobs import engine_error, task_error
from icefloe.spark.jobs.task_errors import TaskErrors
from icefloe.spark.write.data_file_job import RESULT, TaskWriter, files_of_results, ready_to_write, small_batches
from icefloe.spark.write.failed_attempt_cleanup import deleting_files_on_failure


def write_connect_rows(rows: DataFrame, target: WriteTarget) -> list[DataFile]:
    """Writes the rows and returns the files, in the order of Spark's partitions.

    After a failure or Ctrl-C the files that tasks finished are looked for in the table's data folder, and deleted.

    Raises:
        SchemaMismatchError: the columns do not fit, found before anything runs.
        EngineError: the job failed; the server may have cut what a task says.
    """
    spark = rows.sparkSession
    ready, target, names = ready_to_write(rows, target)
    job = uuid.uuid4().hex
    writer = TaskWriter(target, Nowhere(), names, TaskErrors(job=job))  # type: ignore[arg-type]  # all that is asked of it is `add`
    with small_batches(spark, target.schema), _ended_with(spark), deleting_files_on_failure(target):
        try:
            results = ready.mapInArrow(writer, RESULT).collect()
        except PySparkException as error:
            raise task_error(error, job) or engine_error(error) from error
        return files_of_results(spark, target, results)


class Nowhere:
    """Takes the locations of finished files, where they come back with Spark's own answer."""

    def add(self, locations: list[str]) -> None:
        """Keeps nothing."""


@contextmanager
def _ended_with(spark: SparkSession) -> Iterator[None]:
    """Jobs of the block end on the server where the block is left by Ctrl-C."""
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
