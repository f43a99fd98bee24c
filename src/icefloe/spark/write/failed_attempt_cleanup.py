"""Clean-up of files that no commit refers to: those of task attempts that failed, were killed, or lost to another attempt.

Every job that writes data files runs within `writing_job`. A failing task deletes its own files. If it cannot, this module finds the files by the operation's
id in their names. It also checks that the process which commits can find the files that tasks report. Spec: Writing Data Files.
"""

import logging
import re
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, repeat

from pyspark import SparkContext, TaskContext
from pyspark.accumulators import Accumulator, AccumulatorParam
from pyspark.sql import SparkSession

from icefloe.datafile.write_target import WriteTarget, WritingTask
from icefloe.errors import IcefloeError, NoSuchFileError, StorageError, in_one_line
from icefloe.io.bulk_delete import delete_files
from icefloe.io.listing import files_of
from icefloe.io.locations import scheme_of
from icefloe.spark.bridge.gateway import has_jvm

# Seconds before each listing. The Python process of a failed or superseded attempt continues to write until it finds its connection closed, or Spark ends it
# after
# two seconds.
LISTING_WAITS_S = (0.0, 1.0, 3.0)
# Seconds before each listing by the background thread. If a Python process was still importing when its task failed, it then reads the rows that Spark has
# already
# sent, treats the closed connection as the end of the rows, and writes files; on busy processors this is long after the failure.
BACKGROUND_WAITS_S = (5.0, 10.0, 30.0)
MOST_MORE_LISTINGS = 20
SPECULATION = "spark.speculation"
LOG = logging.getLogger(__name__)


def check_files_exist(target: WriteTarget, locations: Iterable[str]) -> None:
    """Check before a commit that this process finds the local files that tasks reported. Files in object stores are the same everywhere, and not checked.

    Args:
        target: The target of the write, with the storage as this process accesses it.
        locations: The locations of files that the tasks reported.

    Raises:
        StorageError: A file is missing.
    """
    local = [location for location in locations if scheme_of(location) == "file"]
    missing = [location for location in local if not target.io.exists(location)]
    if missing:
        raise StorageError(
            f"Spark's workers wrote to their own disk: {len(missing)} of the {len(local)} files that they reported do not exist on this machine; "
            "nothing was committed, and the files remain on the workers",
            table=target.table_name,
            path=missing[0],
            next_step="keep the warehouse in an object store or in a folder that is mounted at this path on every machine of Spark",
        )


@dataclass(frozen=True, slots=True)
class TaskAttempt:
    """An attempt of a Spark task.

    Attributes:
        stage_id: id of the task's stage.
        number: the number of earlier attempts of the task.
        speculates: True if Spark may run two attempts at the same time.
    """

    stage_id: int = 0
    number: int = 0
    speculates: bool = False


def this_attempt() -> TaskAttempt:
    """Return the attempt of the Spark task in which this code runs; outside of tasks a default attempt."""
    context = TaskContext.get()
    if context is None:
        return TaskAttempt()
    # Settings are available in tasks as properties of their job.
    speculates = str(context.getLocalProperty(SPECULATION)).lower() == "true"
    return TaskAttempt(stage_id=context.stageId(), number=context.attemptNumber(), speculates=speculates)


def this_task() -> WritingTask:
    """Return the Spark task in which this code runs, with the numbers for the names of its files; outside of tasks the task 0."""
    context = TaskContext.get()
    return WritingTask(0) if context is None else WritingTask(context.partitionId(), context.taskAttemptId())


def delete_files_of_operation(
    target: WriteTarget,
    committed: Collection[str] = (),
    waits_s: Sequence[float] = LISTING_WAITS_S,
    background_waits_s: Sequence[float] = BACKGROUND_WAITS_S,
) -> None:
    """Delete all files of a write operation, which have its id in their names, except committed files.

    No metadata refers to these files, so that the data folder is listed. Because an aborted attempt may still write, the folder is listed several times, and
    then again while files are still found; later a background thread, which ends with the process, lists it again. Storage errors become warnings, because the
    caller must get the operation's own error or result.

    Args:
        target: the target of the write, with the operation's id.
        committed: locations of all files that the operation's tasks returned.
        waits_s: seconds before each listing during which the caller waits.
        background_waits_s: seconds before each listing by the thread, which deletes only files of tasks.
    """
    # A storage may list a file with a different form of its location; within an operation, names are unique.
    committed_names = frozenset(map(_name, committed))
    with _warning_of(target):
        for listing, wait_s in enumerate(chain(waits_s, repeat(waits_s[-1], MOST_MORE_LISTINGS)), start=1):
            time.sleep(wait_s)
            deleted = _delete_where(target, lambda name: target.operation_uuid in name and name not in committed_names)
            if not deleted and listing >= len(waits_s):
                break
        threading.Thread(
            target=_delete_in_background, args=(target, committed_names, background_waits_s), name="icefloe-lost-attempts", daemon=True
        ).start()


def _delete_in_background(target: WriteTarget, committed_names: Collection[str], waits_s: Iterable[float]) -> None:
    """Delete the files that tasks of the operation wrote after the last listing of `delete_files_of_operation`.

    The operation may continue meanwhile. Its delete files also have its id in their names, but followed by a different text (`delete_file_output.py`), so that
    they are kept.
    """
    of_task = re.compile(rf"\d+-\d+-{re.escape(target.operation_uuid)}-\d+\.\w+")
    with _warning_of(target):
        for wait_s in waits_s:
            time.sleep(wait_s)
            _delete_where(target, lambda name: of_task.fullmatch(name) is not None and name not in committed_names)


def _delete_where(target: WriteTarget, is_lost: Callable[[str], bool]) -> list[str]:
    """Delete the files in the data folder for whose names `is_lost` is true, and return their locations. Raises the first error of the storage."""
    lost = [location for location in _listed_files(target) if is_lost(_name(location))]
    failures = delete_files(target.io, lost)
    if failures:
        raise failures[0][1]
    return lost


@contextmanager
def _warning_of(target: WriteTarget) -> Iterator[None]:
    """Return a context that logs errors of the storage as warnings instead of raising them."""
    try:
        yield
    except IcefloeError as error:
        LOG.warning(
            "could not delete all files of failed task attempts in %s; their names contain %s: %s",
            in_one_line(target.data_location),
            target.operation_uuid,
            error,
        )


def _listed_files(target: WriteTarget) -> list[str]:
    try:
        return files_of(target.io, target.data_location)
    except NoSuchFileError:
        return []


def _name(location: str) -> str:
    return location.rpartition("/")[2]


def delete_lost_attempts(
    spark: SparkSession | None, target: WriteTarget, committed: Collection[str], attempts: Iterable[TaskAttempt]
) -> None:
    """Delete the files of task attempts whose results are not used, after a successful job.

    The data folder is listed only if a task may have had several attempts.

    Args:
        spark: the session; None if there is none. If Spark runs a stage again after losing an executor, attempts are numbered from 0 again, which only a
            classic session can detect.
        target: the target of the write.
        committed: locations of the files that the job returned.
        attempts: the attempts whose results are used.
    """
    successful = set(attempts)
    has_others = any(attempt.number > 0 or attempt.speculates for attempt in successful)
    if not has_others and spark is not None:
        has_others = str(spark.conf.get(SPECULATION, "false")).lower() == "true" or _ran_again(
            spark, {attempt.stage_id for attempt in successful}
        )
    if has_others:
        delete_files_of_operation(target, committed)


def _ran_again(spark: SparkSession, stage_ids: Iterable[int]) -> bool:
    if not has_jvm(spark):
        return False
    tracker = spark.sparkContext.statusTracker()
    return any(stage is not None and stage.currentAttemptId > 0 for stage in map(tracker.getStageInfo, stage_ids))


@contextmanager
def deleting_files_on_failure(target: WriteTarget) -> Iterator[None]:
    """Return a context for a write operation that deletes all files of the operation if it fails, or is interrupted by Ctrl-C."""
    try:
        yield
    except BaseException:
        delete_files_of_operation(target)
        raise


@dataclass(frozen=True, slots=True)
class FinishedFiles:
    """The locations of files that the tasks of an operation have finished, to delete them after a failure. Tasks add them; the driver takes them.

    All operations share one accumulator, because PySpark keeps every accumulator until the process ends.
    """

    accumulator: Accumulator[dict[str, list[str]]]
    operation_uuid: str

    def add(self, locations: list[str]) -> None:
        """Add locations of finished files. Called in tasks."""
        self.accumulator.add({self.operation_uuid: locations})

    def pop(self) -> list[str]:
        """Remove and return the locations that have arrived so far. Called on the driver."""
        return self.accumulator.value.pop(self.operation_uuid, [])


@contextmanager
def writing_job(spark: SparkSession, target: WriteTarget) -> Iterator[FinishedFiles]:
    """Return a context for a job that writes files; its value is the `FinishedFiles` for the tasks of the job.

    If the context fails, the finished files are deleted first, then all other files of the operation. After a successful job, the caller must call
    `delete_lost_attempts` within the context.
    """
    finished = FinishedFiles(_accumulator(spark.sparkContext), target.operation_uuid)
    with deleting_files_on_failure(target):
        try:
            yield finished
        except BaseException:
            for location in finished.pop():
                with suppress(IcefloeError):
                    target.io.delete(location)
            raise
        finally:
            finished.pop()


@lru_cache(maxsize=1)
def _accumulator(context: SparkContext) -> Accumulator[dict[str, list[str]]]:
    return context.accumulator({}, _LocationsByOperation())


class _LocationsByOperation(AccumulatorParam[dict[str, list[str]]]):
    """Merges the locations that tasks add to the accumulator: lists of locations by the id of their operation."""

    def zero(self, value: dict[str, list[str]]) -> dict[str, list[str]]:  # noqa: ARG002 Spark's signature
        return {}

    def addInPlace(self, value1: dict[str, list[str]], value2: dict[str, list[str]]) -> dict[str, list[str]]:  # noqa: N802 Spark's name
        for operation_uuid, locations in value2.items():
            value1.setdefault(operation_uuid, []).extend(locations)
        return value1
