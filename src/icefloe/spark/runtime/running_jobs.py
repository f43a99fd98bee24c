"""What Spark is doing now: how far its jobs are, and ending them all. For command lines that show progress and can be interrupted."""

import time
from collections.abc import Callable

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from icefloe.spark.runtime.start_session import active_session

# Seconds between attempts to end a session whose connection was interrupted.
STOP_WAITS_S = (0.1, 0.5, 1.0)


def running_tasks(spark: SparkSession) -> Callable[[], tuple[int, int]]:
    """A function that tells how many tasks of the stages now running are done, and how many there are; (0, 0) when nothing runs."""
    tracker = spark.sparkContext.statusTracker()

    def ask() -> tuple[int, int]:
        try:
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        except Py4JError:  # the JVM is ending; a progress bar is not worth an error
            return 0, 0
        known = [stage for stage in stages if stage is not None]
        return sum(stage.numCompletedTasks for stage in known), sum(stage.numTasks for stage in known)

    return ask


def stop_running_session() -> None:
    """Ends the session, if one runs, and returns when none of its tasks can write any more."""
    for wait_s in STOP_WAITS_S:
        try:
            found = active_session()
            if found is not None:
                found.sparkContext.setLogLevel("OFF")  # that tasks were cut short is meant, and no news
                found.stop()
        except Py4JError:
            # An interrupted call leaves its connection unusable for a moment; if it stays so, the JVM ends with this process.
            time.sleep(wait_s)
        else:
            return
