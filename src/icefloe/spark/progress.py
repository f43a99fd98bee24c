"""How far Spark's running jobs are, for a progress bar. Floor: spark."""

from collections.abc import Callable

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession


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
