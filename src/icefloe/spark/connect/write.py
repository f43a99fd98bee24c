"""A DataFrame of Spark Connect becomes data files: as `spark/write.py`, with public functions alone. The commit is the caller's, in his own process.

The files come back with the job's own rows, so that every write of a table works, in transactions too; a commit by the data source could not be part of one.
Floor: spark. Spec: Writing Data Files.
"""

import pickle
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from icefloe.datafile.target import WriteTarget
from icefloe.errors import IcefloeError
from icefloe.io.listing import files_of
from icefloe.kernel.manifest.data_file import DataFile
from icefloe.spark.jobs import as_icefloe_error
from icefloe.spark.write import RESULT, TaskWriter, ready_to_write, small_batches

# Seconds before each look for the files of a job that failed.
LOOK_AGAIN_S = (0.0, 1.0, 3.0)


def write_connect_rows(rows: DataFrame, target: WriteTarget) -> list[DataFile]:
    """Writes the rows and returns the files, in the order of Spark's partitions.

    After a failure or Ctrl-C the files that tasks finished are looked for in the table's data folder, and deleted.

    Raises:
        SchemaMismatchError: the columns do not fit, found before anything runs.
        EngineError: the job failed; the server may have cut what a task says.
    """
    spark = rows.sparkSession
    ready, target, names = ready_to_write(rows, target)
    with small_batches(spark, target.schema), _ended_with(spark), _deleted_on_failure(target):
        try:
            results = ready.mapInArrow(TaskWriter(target, Nowhere(), names), RESULT).collect()  # type: ignore[arg-type]  # all that is asked of it is `add`
        except PySparkException as error:
            raise as_icefloe_error(error) from error
    return [file for (packed,) in results for file in pickle.loads(packed)]  # noqa: S301 packed by TaskWriter in this job


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


@contextmanager
def _deleted_on_failure(target: WriteTarget) -> Iterator[None]:
    try:
        yield
    except BaseException:
        delete_files_of_operation(target)
        raise


def delete_files_of_operation(target: WriteTarget) -> None:
    """Deletes the files of a failed operation, whose id is in the name of each; no metadata names them. The folder is listed, as tasks told nobody.

    A task that was cut short may still finish its file, so this looks again, and again.
    """
    for wait_s in LOOK_AGAIN_S:
        time.sleep(wait_s)
        with suppress(IcefloeError):
            for location in files_of(target.io, target.data_location):
                if target.operation_uuid in location.rpartition("/")[2]:
                    target.io.delete(location)
