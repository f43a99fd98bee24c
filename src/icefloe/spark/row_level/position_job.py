"""The Spark job that finds rows by a filter, for merge-on-read deletes. A task searches files by `datafile/deletes/matching_positions.py`.

The package `table` writes the delete files. Spec: Row-level Deletes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import SparkSession

from icefloe.datafile.deletes.delete_loader import DeleteLoader
from icefloe.datafile.deletes.matching_positions import matching_positions
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.spark.jobs.spark_jobs import MOST_SPARK_TASKS, run_job
from icefloe.spark.jobs.task_errors import TaskErrors
from icefloe.spec.expressions.predicate import BooleanExpression
from icefloe.spec.partitioning.partition_spec import PartitionSpec
from icefloe.spec.ports import FileIO
from icefloe.spec.puffin.deletion_vector import DeletionVector, deletion_vector_from_positions
from icefloe.spec.schema.name_mapping import NameMapping
from icefloe.spec.schema.schema import Schema
from icefloe.table.engine import PositionsRequest

# Bytes of data files in one Spark task, of which only the filter's columns are read. Fewer, larger tasks: the Python worker collects garbage after each.
BYTES_PER_TASK = 128 * 1024 * 1024


@dataclass(frozen=True)
class TaskFinder:
    """The function that Spark tasks run: it takes a scan task, and returns the positions of its matching rows as a deletion vector, which is small."""

    io: FileIO
    delete_filter: BooleanExpression
    schema: Schema
    specs: Mapping[int, PartitionSpec]
    name_mapping: NameMapping | None
    deletes: DeleteLoader
    errors: TaskErrors = field(default_factory=TaskErrors)

    def __call__(self, task: FileScanTask) -> DeletionVector:
        """Return the positions of the rows to delete in the file of a scan task."""
        with self.errors.carried():
            positions = matching_positions(
                self.io,
                task,
                self.delete_filter,
                schema=self.schema,
                specs=self.specs,
                name_mapping=self.name_mapping,
                deletes=self.deletes,
            )
        return deletion_vector_from_positions(positions)


def find_positions(spark: SparkSession, request: PositionsRequest) -> list[NDArray[np.int64]]:
    """Return the positions of rows that match a filter and are not deleted yet.

    Returns:
        For each scan task, in order, the positions in its data file, ascending.

    Raises:
        NoSuchFileError: a data or delete file is missing.
        DataFileFormatError: a file is damaged.
        StorageError: the storage refused a task, and Spark's retries too.
        EngineError: the job failed for another reason.
    """
    if not request.tasks:
        return []
    deletes = DeleteLoader(request.io, schemas=request.schemas, name_mapping=request.name_mapping)
    finder = TaskFinder(request.io, request.delete_filter, request.schema, dict(request.specs), request.name_mapping, deletes)
    vectors_of_tasks = spark.sparkContext.parallelize(list(request.tasks), _spark_tasks(spark, request)).map(finder)
    vectors = run_job(spark, f"find rows to delete in {request.table_name}", vectors_of_tasks.collect)
    return [vector.positions().astype(np.int64) for vector in vectors]


def _spark_tasks(spark: SparkSession, request: PositionsRequest) -> int:
    """Return the number of tasks: one for each `BYTES_PER_TASK`, at least as many as Spark runs at a time, at most one for each file."""
    size = sum(task.file.file_size_in_bytes for task in request.tasks)
    tasks = max(spark.sparkContext.defaultParallelism, -(-size // BYTES_PER_TASK))
    return min(len(request.tasks), tasks, MOST_SPARK_TASKS)
