"""Finding rows by a filter on Spark, for merge-on-read: files are looked through in Spark's tasks, by `datafile.positions`.

Writing the deletes down is the floor table's. Spec: Row-level Deletes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import SparkSession

from icefloe.datafile.deletes.delete_loader import DeleteLoader
from icefloe.datafile.deletes.matching_positions import matching_positions
from icefloe.kernel.expressions.predicate import BooleanExpression
from icefloe.kernel.partitioning.partition_spec import PartitionSpec
from icefloe.kernel.ports import FileIO
from icefloe.kernel.puffin.deletion_vector import DeletionVector, deletion_vector_from_positions
from icefloe.kernel.scan.file_scan_task import FileScanTask
from icefloe.kernel.schema.name_mapping import NameMapping
from icefloe.kernel.schema.schema import Schema
from icefloe.spark.jobs.spark_jobs import MOST_SPARK_TASKS, run_job
from icefloe.spark.jobs.task_errors import TaskErrors
from icefloe.table.engine import PositionsRequest

# Bytes of files that a Spark task looks through: only the filter's columns are read of them, and after each task its worker collects garbage.
BYTES_OF_A_TASK = 128 * 1024 * 1024


@dataclass(frozen=True)
class TaskFinder:
    """Runs in Spark's tasks: a scan task in, the positions of its matching rows out, as a deletion vector, which is small."""

    io: FileIO
    delete_filter: BooleanExpression
    schema: Schema
    specs: Mapping[int, PartitionSpec]
    name_mapping: NameMapping | None
    deletes: DeleteLoader
    errors: TaskErrors = field(default_factory=TaskErrors)

    def __call__(self, task: FileScanTask) -> DeletionVector:
        with self.errors.carried():
            found = matching_positions(
                self.io,
                task,
                self.delete_filter,
                schema=self.schema,
                specs=self.specs,
                name_mapping=self.name_mapping,
                deletes=self.deletes,
            )
        return deletion_vector_from_positions(found)


def find_positions(spark: SparkSession, request: PositionsRequest) -> list[NDArray[np.int64]]:
    """For each task, in their order: where in its file the rows lie that match and are not deleted yet, ascending.

    Raises:
        NoSuchFileError, DataFileFormatError, StorageError: as a task met it.
        EngineError: the job failed for another reason.
    """
    if not request.tasks:
        return []
    deletes = DeleteLoader(request.io, schemas=request.schemas, name_mapping=request.name_mapping)
    finder = TaskFinder(request.io, request.delete_filter, request.schema, dict(request.specs), request.name_mapping, deletes)
    found = spark.sparkContext.parallelize(list(request.tasks), _spark_tasks(spark, request)).map(finder)
    vectors = run_job(spark, f"find rows to delete in {request.table_name}", found.collect)
    return [vector.positions().astype(np.int64) for vector in vectors]


def _spark_tasks(spark: SparkSession, request: PositionsRequest) -> int:
    """One for each file where they are large; of smaller ones, each takes several, but as many run as this Spark has room for at a time."""
    size = sum(task.file.file_size_in_bytes for task in request.tasks)
    wanted = max(spark.sparkContext.defaultParallelism, -(-size // BYTES_OF_A_TASK))
    return min(len(request.tasks), wanted, MOST_SPARK_TASKS)
