"""`write_in_tasks`: apply a function that writes files, for example the rewrite of a data file, to items, in one Spark task for each item.

The functions are in `datafile/`: `rewrite_task`, `rewrite_group`, `compact_files`, `merge_deletes`. For functions that only read, see `jobs/map_job.py`.
Spec: Row-level Deletes (copy-on-write).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import SparkSession

from icefloe.datafile.write_target import WriteTarget, WritingTask
from icefloe.spark.jobs.spark_jobs import MOST_SPARK_TASKS, run_job
from icefloe.spark.jobs.task_errors import TaskErrors
from icefloe.spark.write.failed_attempt_cleanup import (
    FinishedFiles,
    TaskAttempt,
    check_files_exist,
    delete_lost_attempts,
    this_attempt,
    this_task,
    writing_job,
)


@dataclass(frozen=True)
class TaskFileWriter:
    """The function of a Spark task: it takes the number and the item of the task, and returns the outcome of `function`, and the attempt of the task."""

    function: Callable[[Any, WritingTask], Any]
    finished: FinishedFiles
    errors: TaskErrors = field(default_factory=TaskErrors)

    def __call__(self, numbered: tuple[int, Any]) -> tuple[Any, TaskAttempt]:
        """Call the function with the item, and return its outcome with the attempt of the task."""
        number, item = numbered
        with self.errors.carry():
            outcome = self.function(item, replace(this_task(), partition_id=number))
        self.finished.add([file.file_path for file in outcome.added])
        return outcome, this_attempt()


def write_in_tasks(
    spark: SparkSession, description: str, function: Callable[[Any, WritingTask], Any], items: Sequence[Any], target: WriteTarget
) -> list[Any]:
    """Call a function that writes files with each item, in Spark's tasks. After a failure none of the files remains.

    Args:
        spark: A classic session.
        description: The name of the job in Spark's UI.
        function: The function; the attribute `added` of its outcome has the files that it wrote.
        items: The items, one for each task.
        target: The target of the write to which the files belong.

    Returns:
        The outcomes, in the order of the items.

    Raises:
        NoSuchFileError: a data or delete file is missing.
        DataFileFormatError: a file is damaged.
        StorageError: the storage refused a task and its retries; or the workers wrote to their local disks, which this process cannot read.
        EngineError: the job failed for another reason.
    """
    if not items:
        return []
    with writing_job(spark, target) as finished:
        numbered = spark.sparkContext.parallelize(list(enumerate(items)), min(len(items), MOST_SPARK_TASKS))
        results = run_job(spark, description, numbered.map(TaskFileWriter(function, finished)).collect)
        added = {file.file_path for outcome, _ in results for file in outcome.added}
        delete_lost_attempts(spark, target, added, (attempt for _, attempt in results))
        check_files_exist(target, added)
    return [outcome for outcome, _ in results]
