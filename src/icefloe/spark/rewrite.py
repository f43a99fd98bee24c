"""Copy-on-write on Spark: every file is copied without the deleted rows in a Spark task of its own, by `datafile.rewrite`.

Floor: spark. Spec: Row-level Deletes (copy-on-write).
"""

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark import TaskContext
from pyspark.accumulators import Accumulator
from pyspark.sql import SparkSession

from icefloe.datafile.deletes.delete_loader import DeleteLoader
from icefloe.datafile.rewrite import RewrittenFile, rewrite_task
from icefloe.datafile.target import WriteTarget
from icefloe.kernel.metadata.properties import NAME_MAPPING
from icefloe.kernel.partitioning.partition_spec import PartitionSpec
from icefloe.kernel.schema.schema import Schema
from icefloe.spark.jobs import run_job
from icefloe.spark.leftovers import Attempt, delete_lost_attempts, this_attempt, writing_job
from icefloe.spark.task_errors import TaskErrors
from icefloe.table.engine import RewriteRequest

# Above this many files a Spark task takes several, so that the driver need not keep track of more.
MOST_SPARK_TASKS = 10_000


@dataclass(frozen=True)
class TaskRewriter:
    """Runs in Spark's tasks: a file's number and its pickled scan task with what tells the rows to leave out, in; the pickled outcome and its attempt out."""

    target: WriteTarget
    schema: Schema
    specs: Mapping[int, PartitionSpec]
    finished: Accumulator[list[str]]
    deletes: DeleteLoader
    errors: TaskErrors = field(default_factory=TaskErrors)

    def __call__(self, numbered: tuple[int, bytes]) -> bytes:
        number, packed = numbered
        context = TaskContext.get()
        task, rows_to_leave = pickle.loads(packed)  # noqa: S301 packed by this module, on the driver
        with self.errors.carried():
            outcome = rewrite_task(
                self.target,
                task,
                rows_to_leave,
                schema=self.schema,
                specs=self.specs,
                partition_id=number,
                task_id=context.taskAttemptId() if context is not None else 0,
                deletes=self.deletes,
            )
        self.finished.add([file.file_path for file in outcome.added])
        return pickle.dumps((outcome, this_attempt()))


def rewrite_files(spark: SparkSession, request: RewriteRequest) -> list[RewrittenFile]:
    """What became of each task's file, in the order of the tasks.

    Raises:
        NoSuchFileError, DataFileFormatError, StorageError: as a task met it.
        EngineError: the job failed for another reason.
    """
    if not request.tasks:
        return []
    numbered = [(number, pickle.dumps((task, request.rows_to_leave(number)))) for number, task in enumerate(request.tasks)]
    with writing_job(spark, request.target) as finished:
        deletes = DeleteLoader(
            request.target.io,
            schemas=request.schemas or (request.schema, *request.target.older_schemas),
            name_mapping=NAME_MAPPING.read(request.target.properties),
        )
        rewriter = TaskRewriter(request.target, request.schema, dict(request.specs), finished, deletes)
        outcomes = spark.sparkContext.parallelize(numbered, min(len(numbered), MOST_SPARK_TASKS)).map(rewriter)
        packed = run_job(spark, f"rewrite files of {request.target.table_name}", outcomes.collect)
        found: list[tuple[RewrittenFile, Attempt]] = [pickle.loads(one) for one in packed]  # noqa: S301 packed by TaskRewriter in this job
        added = {file.file_path for outcome, _ in found for file in outcome.added}
        delete_lost_attempts(spark, request.target, added, (attempt for _, attempt in found))
    return [outcome for outcome, _ in found]
