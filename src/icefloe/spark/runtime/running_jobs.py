"""Functions for command lines: the progress of Spark's running jobs, and stopping all of them after an interrupt."""

import time
from collections.abc import Callable

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from icefloe.spark.runtime.start_session import active_session

# Seconds between attempts to stop a session whose connection was interrupted.
STOP_WAITS_S = (0.1, 0.5, 1.0)


def running_tasks(spark: SparkSession) -> Callable[[], tuple[int, int]]:
    """Return a function that returns the number of completed tasks and the number of all tasks in running stages; (0, 0) if nothing runs."""
    tracker = spark.sparkContext.statusTracker()

    def count() -> tuple[int, int]:
        try:
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        except Py4JError:  # the JVM is ending; missing progress is not worth an error
            return 0, 0
        running = [stage for stage in stages if stage is not None]
        return sum(stage.numCompletedTasks for stage in running), sum(stage.numTasks for stage in running)

    return count


def stop_running_session() -> None:
    """Stop the session, if one is running, and return when none of its tasks can write any more."""
    for wait_s in STOP_WAITS_S:
        try:
            session = active_session()
            if session is not None:
                session.sparkContext.setLogLevel("OFF")  # tasks are cancelled on purpose, so that their errors are not shown
                session.stop()
        except Py4JError:
            # After an interrupt, the connection of the call is unusable for a moment. If it stays unusable, the JVM ends with this process.
            time.sleep(wait_s)
        else:
            return
