"""`map_in_tasks`: apply a function to items in the tasks of one Spark job, for example to plan a scan or to check files.

Only the pickled function and the items are sent to the tasks. `spark/write/file_job.py` does the same for functions that write files.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from icefloe.errors import NoSuchFileError
from icefloe.spark.jobs.spark_jobs import MOST_SPARK_TASKS, run_job
from icefloe.spark.jobs.task_errors import UNSEEN_FILE, TaskErrors

# Tasks of a job for each processor of Spark. A task costs some milliseconds besides its work; several per processor balance tasks of different length. With
# dynamic allocation, few processors are known when the job starts, and waiting tasks make Spark add executors.
_TASKS_OF_A_PROCESSOR, _LEAST_TASKS = 4, 200
# Levels of tasks that combine the results of other tasks. The driver receives about the cube root of the number of results: 22 for 10,000.
_COMBINE_LEVELS = 3


@dataclass(frozen=True)
class TaskFunction:
    """The function that Spark's tasks call with each item: it calls `function`, and sends its errors to the driver."""

    function: Callable[[Any], Any]
    errors: TaskErrors = field(default_factory=TaskErrors)

    def __call__(self, item: Any) -> Any:
        """Return the function's result for an item. An error about a missing file gets the advice that workers may not see this machine's files."""
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
    """Apply a function to items in the tasks of a Spark job. Yield the results in the order of the items; each task gets several consecutive items.

    Args:
        spark: A classic session.
        description: The name of the job in Spark's UI.
        function: The function. A task unpickles one copy for all of its items.
        items: The items.
        tasks: The number of tasks that the work is worth; Spark gets at least as many tasks as it runs at a time, if there are enough items. None for several
            tasks per processor.
        combine: A function that combines two results. If set, tasks combine results before they reach the driver, and a single combined result is yielded.

    Raises:
        IcefloeError: The error that a task raised.
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
