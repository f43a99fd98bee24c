"""`map_in_tasks`: a function over items by the tasks of one Spark job, such as the planning of a scan or a check of files.

Nothing but the function, which pickles, and the items travel to the tasks. The same for functions that write files is `spark/write/file_job.py`.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from icefloe.errors import NoSuchFileError
from icefloe.spark.jobs.spark_jobs import MOST_SPARK_TASKS, run_job
from icefloe.spark.jobs.task_errors import UNSEEN_FILE, TaskErrors

# Tasks of a job for each processor of Spark: each costs some milliseconds beside its work; several make up for tasks that take longer than others. Where
# executors are allocated as tasks wait for them, few processors are known when the job starts: so many tasks let Spark add more.
_TASKS_OF_A_PROCESSOR, _LEAST_TASKS = 4, 200
# Levels of tasks that combine the results of others: the driver then receives about the cube root of their number, 22 of 10,000.
_COMBINE_LEVELS = 3


@dataclass(frozen=True)
class TaskFunction:
    """A function that Spark tasks run: it takes an item, and returns the result of the wrapped function."""

    function: Callable[[Any], Any]
    errors: TaskErrors = field(default_factory=TaskErrors)

    def __call__(self, item: Any) -> Any:
        """Return the result of the function for an item. The error of a file that does not exist shows that a worker may be another machine."""
        with self.errors.carry():
            try:
                return self.function(item)
            except NoSuchFileError as error:
                raise NoSuchFileError(error.message, table=error.table, path=error.path, next_step=UNSEEN_FILE) from error


def map_in_tasks(
    spark: SparkSession,
    description: str,
    function: Callable[[Any], Any],
    items: Iterable[Any],
    tasks: int | None = None,
    combine: Callable[[Any, Any], Any] | None = None,
) -> Iterator[Any]:
    """Yield the results of a function for items, in their order; each task has some items that follow each other.

    Args:
        spark: A classic session.
        description: The name of the job in Spark's UI.
        function: The function. A task has one copy of it for all its items.
        items: The items.
        tasks: The number of tasks that the work is worth; there are at least as many as Spark runs at a time. None for several of each processor.
        combine: Returns one result of two; tasks combine the results of others on the way to the driver, and one result of all is yielded.

    Raises:
        IcefloeError: As a task raised it.
        EngineError: The job failed for another reason.
    """
    work = list(items)
    if not work:
        return
    context = spark.sparkContext
    slices = (
        max(_LEAST_TASKS, _TASKS_OF_A_PROCESSOR * context.defaultParallelism) if tasks is None else max(context.defaultParallelism, tasks)
    )
    results = context.parallelize(work, min(len(work), slices, MOST_SPARK_TASKS)).map(TaskFunction(function))
    if combine is None:
        yield from run_job(spark, description, results.collect)
    else:
        yield run_job(spark, description, partial(results.treeReduce, combine, depth=_COMBINE_LEVELS))
