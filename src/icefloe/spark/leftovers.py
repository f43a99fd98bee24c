"""Files of a write that no commit will name: of attempts of tasks that failed, were killed or lost a race, looked for by the operation's id and deleted.

A task that fails deletes what it made itself; this is for those that could not. Floor: spark. Spec: Writing Data Files.
"""

import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress

from pyspark.sql import SparkSession

from icefloe.datafile.target import WriteTarget
from icefloe.errors import IcefloeError
from icefloe.io.listing import files_of

# Seconds before each look for the files: the Python of a task that failed or lost writes on until it sees that nobody listens, or Spark ends it after two.
LOOK_AGAIN_S = (0.0, 1.0, 3.0)
_SPECULATION = "spark.speculation"


def delete_files_of_operation(target: WriteTarget, kept: Collection[str] = (), waits_s: Sequence[float] = LOOK_AGAIN_S) -> None:
    """Deletes the files with the operation's id in their name, save those `kept`; no metadata names them. The data folder is listed.

    An attempt that was cut short may still finish its file, so this looks again, and again.
    """
    for wait_s in waits_s:
        time.sleep(wait_s)
        with suppress(IcefloeError):
            for location in files_of(target.io, target.data_location):
                if target.operation_uuid in location.rpartition("/")[2] and location not in kept:
                    target.io.delete(location)


def delete_lost_attempts(spark: SparkSession, target: WriteTarget, kept: Collection[str], *, retried: bool) -> None:
    """After a job that ended well: the files of attempts whose results were not taken. Nothing is listed where there was one attempt of each task."""
    if retried or str(spark.conf.get(_SPECULATION, "false")).lower() == "true":
        delete_files_of_operation(target, kept)


@contextmanager
def none_left(target: WriteTarget) -> Iterator[None]:
    """Where the block fails, or is left by Ctrl-C, every file of the operation is looked for and deleted."""
    try:
        yield
    except BaseException:
        delete_files_of_operation(target)
        raise
