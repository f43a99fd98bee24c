"""Running a Spark job of Icefloe: its name in Spark's UI, its end on Ctrl-C, errors of tasks as the errors they were.

An `IcefloeError` raised inside a Python task crosses Spark as text inside a traceback; here it is put in and taken out again. Floor: spark.
"""

import base64
import pickle
import re
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import TypeVar, cast

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.util import inheritable_thread_target

from icefloe.errors import EngineError, IcefloeError
from icefloe.spark.jvm.gateway import java_words

T = TypeVar("T")

_CARRIED = re.compile(r"icefloe-error\[([A-Za-z0-9+/=]+)\]")
_AGAIN_SECONDS = 0.5
# Lines of a foreign failure that are shown; the whole is the exception's cause.
_SHOWN_LINES = 8


class TaskError(Exception):
    """An `IcefloeError` on its way out of a Spark task."""


@contextmanager
def errors_carried() -> Iterator[None]:
    """In a task: lets an `IcefloeError` cross Spark whole."""
    try:
        yield
    except IcefloeError as error:
        packed = base64.b64encode(pickle.dumps(error)).decode("ascii")
        raise TaskError(f"{error}\nicefloe-error[{packed}]") from error


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
            raise as_icefloe_error(error) from error


def as_icefloe_error(error: Exception) -> IcefloeError:
    """The error a task raised, or an `EngineError` with the first lines of what Spark says."""
    carried = _CARRIED.search(str(error))
    if carried is not None:
        found = pickle.loads(base64.b64decode(carried.group(1)))  # noqa: S301 packed by `errors_carried` in this job's own task
        if isinstance(found, IcefloeError):
            return found
    text = java_words(error) if isinstance(error, Py4JError) else str(error)
    lines = [line for line in text.splitlines() if line.strip()]
    return EngineError(
        "the Spark job failed: " + "\n".join(lines[:_SHOWN_LINES]), next_step="the cause, with its stack, is this error's __cause__"
    )
