"""Running a Spark job of Icefloe: its name in Spark's UI, its end on Ctrl-C, errors of tasks as the errors they were.

How an `IcefloeError` of a task crosses Spark is `task_errors.py`.
"""

import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar, cast

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.util import inheritable_thread_target

from icefloe.errors import EngineError, IcefloeError
from icefloe.spark.bridge.gateway import java_words
from icefloe.spark.jobs.task_errors import JOB_PROPERTY, error_in, key_of_this_process

T = TypeVar("T")

# Tasks of one job at most: above this many files a task takes several, so that the driver need not keep track of more.
MOST_SPARK_TASKS = 10_000
_AGAIN_SECONDS = 0.5
# Lines of a foreign failure that are shown; the whole is the exception's cause.
_SHOWN_LINES = 8


def run_job(spark: SparkSession, description: str, action: Callable[[], T]) -> T:
    """Runs an action in a job group of its own, and in a thread of its own: the caller's way to the JVM stays free, so that Ctrl-C can use it.

    Raises:
        IcefloeError: the one that a task raised.
        EngineError: Spark failed for a reason of its own; the first lines of its message are in it.
        KeyboardInterrupt: after Ctrl-C, once the job has ended.
    """
    context = spark.sparkContext
    group = f"icefloe-{uuid.uuid4()}"

    def in_group() -> T:
        context.setJobGroup(group, description, interruptOnCancel=True)
        context.setLocalProperty(JOB_PROPERTY, group)
        return action()

    with ThreadPoolExecutor(1, thread_name_prefix="icefloe-job") as pool:
        # The thread inherits the caller's scheduler pool and other local properties.
        running = pool.submit(inheritable_thread_target(spark)(in_group))
        try:
            return cast(T, running.result())
        except KeyboardInterrupt:
            # A job that has not begun yet cannot be cancelled: again, until there is none.
            while not running.done():
                context.cancelJobGroup(group)
                wait([running], _AGAIN_SECONDS)
            raise
        except (PySparkException, Py4JError) as error:
            raise task_error(error, group) or engine_error(error) from error


def task_error(error: Exception, job: str) -> IcefloeError | None:
    """Return the error that a task of this job raised, or None where Spark's failure is not one of a task of Icefloe's."""
    return error_in(str(error), job, key_of_this_process())


def engine_error(error: Exception) -> EngineError:
    """Return an `EngineError` with the first lines of what Spark says."""
    text = java_words(error) if isinstance(error, Py4JError) else str(error)
    lines = [line for line in text.splitlines() if line.strip()]
    return EngineError(
        "the Spark job failed: " + "\n".join(lines[:_SHOWN_LINES]), next_step="the cause, with its stack, is this error's __cause__"
    )
