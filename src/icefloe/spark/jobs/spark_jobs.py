"""Functions that run Icefloe's Spark jobs: with a name in Spark's UI, cancellation by Ctrl-C, and the errors of tasks raised on the driver.

The transport of an `IcefloeError` from a task to the driver is in `task_errors.py`.
"""

import re
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from typing import NoReturn, TypeVar, cast

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession
from pyspark.util import inheritable_thread_target

from icefloe.display.progress import progress
from icefloe.errors import EngineError
from icefloe.spark.bridge.gateway import java_message
from icefloe.spark.jobs.task_errors import JOB_PROPERTY, error_in, key_of_this_process, without_packed_errors

T = TypeVar("T")

# The maximum number of tasks in a job: with more files a task gets several, which limits the number of tasks that the driver tracks.
MOST_SPARK_TASKS = 10_000
_AGAIN_SECONDS = 0.5
# The number of first and last lines of Spark's error in a message: the first lines have its kind, the last of a traceback its cause. The exception's cause has
# all lines.
_FIRST_LINES, _LAST_LINES = 3, 6
# Spark's local properties for the job group of a thread, and for the stream whose micro-batch the thread runs.
_GROUP, _STREAM = "spark.jobGroup.id", "sql.streaming.queryId"
_NO_ICEFLOE = "No module named 'icefloe'"
_JAVA_STACK = "JVM stacktrace:"
_JAVA_FRAME = re.compile(r"\s*(at \S+\(.*\)|\.\.\. \d+ more|Driver stacktrace:)\s*")


def run_job(spark: SparkSession, description: str, action: Callable[[], T]) -> T:
    """Run an action in a separate job group and thread, so that the caller's connection to the JVM is free for Ctrl-C.

    In a micro-batch of a stream the group is that of the stream, which `query.stop()` cancels.

    Args:
        spark: A classic session.
        description: The name of the job in Spark's UI.
        action: The function that starts the job and waits for it.

    Returns:
        The result of the action.

    Raises:
        IcefloeError: The error that a task raised.
        EngineError: Spark failed for another reason; the message has the first and last lines of its text.
        KeyboardInterrupt: After Ctrl-C, when the job has ended.
    """
    context = spark.sparkContext
    job = f"icefloe-{uuid.uuid4()}"
    group = (context.getLocalProperty(_GROUP) if context.getLocalProperty(_STREAM) else None) or job

    def in_group() -> T:
        context.setJobGroup(group, description, interruptOnCancel=True)
        context.setLocalProperty(JOB_PROPERTY, job)
        return action()

    with (
        progress(description, "tasks", poll=partial(_tasks_of, context, group)),
        ThreadPoolExecutor(1, thread_name_prefix="icefloe-job") as pool,
    ):
        # The thread inherits the caller's scheduler pool and other local properties.
        running = pool.submit(inheritable_thread_target(spark)(in_group))
        try:
            return cast(T, running.result())
        except KeyboardInterrupt:
            # A job that has not begun yet cannot be cancelled, so that the cancellation is repeated until the action ends.
            while not running.done():
                context.cancelJobGroup(group)
                wait([running], _AGAIN_SECONDS)
            raise
        except (PySparkException, Py4JError) as error:
            raise_error_of(error, job)


def _tasks_of(context: SparkContext, group: str) -> tuple[int, int]:
    """Return the number of completed tasks and the number of all tasks, in those stages of a job group that have begun."""
    tracker = context.statusTracker()
    try:
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
        stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
    except Py4JError:  # the JVM is ending; missing progress is not worth an error
        return 0, 0
    started = [stage for stage in stages if stage is not None]
    return sum(stage.numCompletedTasks for stage in started), sum(stage.numTasks for stage in started)


def raise_error_of(error: Exception, job: str) -> NoReturn:
    """Raise the error that a task of this job raised. If Spark failed for another reason, raise an `EngineError`.

    If Spark's error contains the packed error of a task, it is not the cause of the raised error, because tracebacks must not show the packed text.

    Args:
        error: Spark's error.
        job: The id of the job.

    Raises:
        IcefloeError: Always.
    """
    text = str(error)
    known = error_in(text, job, key_of_this_process())
    if known is not None:
        raise known from None
    # SQL statements fail with the cause if Spark has an error condition for it; a job without Icefloe is explained by its own error.
    raise engine_error(error) from (error if without_packed_errors(text) == text and _NO_ICEFLOE not in text else None)


def engine_error(error: Exception) -> EngineError:
    """Return an `EngineError` with the first and last lines of Spark's message, or with the reason if the workers do not have Icefloe."""
    text = without_packed_errors(java_message(error) if isinstance(error, Py4JError) else str(error))
    if _NO_ICEFLOE in text:
        return EngineError(
            "the Spark job failed: the Python of Spark's workers does not have Icefloe",
            next_step="set PYSPARK_PYTHON to a Python that has this version of Icefloe, on every machine where Spark's workers run",
        )
    text = text.partition(f"\n{_JAVA_STACK}")[0]
    lines = [line for line in text.splitlines() if line.strip() and not _JAVA_FRAME.fullmatch(line)]
    if len(lines) > _FIRST_LINES + _LAST_LINES:
        lines = [*lines[:_FIRST_LINES], "...", *lines[-_LAST_LINES:]]
    is_statement = isinstance(error, AnalysisException)  # also a packed error that cannot be parsed
    return EngineError(
        "the Spark job failed: " + "\n".join(lines),
        next_step="correct the statement" if is_statement else "the whole text, with its stack, is in Spark's log",
    )
