"""Files of a write that no commit will name: of attempts of tasks that failed, were killed or lost a race, looked for by the operation's id and deleted.

Every job that writes data files runs in `writing_job`. A task that fails deletes what it made itself; this is for those that could not.
Spec: Writing Data Files.
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

from icefloe.datafile.write_target import WriteTarget
from icefloe.errors import IcefloeError, NoSuchFileError, in_one_line
from icefloe.io.bulk_delete import delete_files
from icefloe.io.listing import files_of
from icefloe.spark.bridge.gateway import has_jvm

# Seconds before each look for the files: the Python of a task that failed or lost writes on until it sees that nobody listens, or Spark ends it after two.
LOOK_AGAIN_S = (0.0, 1.0, 3.0)
# Seconds before each look of a thread, when nothing waits any longer. Python that was still importing when its task failed reads afterwards what Spark had
# sent it until then, takes the closed connection for the end of the rows, and writes files; where processors are busy that is long after the failure.
LOOK_LATER_S = (5.0, 10.0, 30.0)
MOST_LOOKS_MORE = 20
SPECULATION = "spark.speculation"
LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Attempt:
    """The attempt at a task whose result was taken: its stage, how many attempts at the task began before it, and whether Spark may run two at once."""

    stage_id: int = 0
    number: int = 0
    speculates: bool = False


def this_attempt() -> Attempt:
    """The one that calls, in a task of Spark."""
    context = TaskContext.get()
    if context is None:
        return Attempt()
    # Settings reach tasks as properties of their job.
    speculates = str(context.getLocalProperty(SPECULATION)).lower() == "true"
    return Attempt(stage_id=context.stageId(), number=context.attemptNumber(), speculates=speculates)


def delete_files_of_operation(
    target: WriteTarget,
    kept: Collection[str] = (),
    waits_s: Sequence[float] = LOOK_AGAIN_S,
    later_s: Sequence[float] = LOOK_LATER_S,
) -> None:
    """Delete the files with the operation's id in their name, except `kept`; no metadata names them. The data folder is listed.

    An attempt that was cut short may still write, so this looks several times, then for as long as there is something to delete. A thread that ends with
    the process looks again later. Where the storage refuses, a warning says what may be left: the caller must get the operation's own error, or its success.

    Args:
        kept: the locations of all files that the operation's tasks returned.
        waits_s: seconds before each look, until the last of which the caller waits.
        later_s: seconds before each look of the thread, which deletes files of tasks alone.
    """
    # A storage may list a file under another form of its location; a name is never given twice in an operation.
    kept_names = frozenset(map(_name, kept))
    with _warning_of(target):
        for look, wait_s in enumerate(chain(waits_s, repeat(waits_s[-1], MOST_LOOKS_MORE)), start=1):
            time.sleep(wait_s)
            found = _delete_where(target, lambda name: target.operation_uuid in name and name not in kept_names)
            if not found and look >= len(waits_s):
                break
        threading.Thread(target=_delete_later, args=(target, kept_names, later_s), name="icefloe-lost-attempts", daemon=True).start()


def _delete_later(target: WriteTarget, kept_names: Collection[str], waits_s: Iterable[float]) -> None:
    """Delete what tasks of the operation wrote after the last look of `delete_files_of_operation`.

    The operation goes on meanwhile: its delete files have its id in their names too, but another text behind it (`delete_file_output.py`), and are not touched.
    """
    of_task = re.compile(rf"\d+-\d+-{re.escape(target.operation_uuid)}-\d+\.\w+")
    with _warning_of(target):
        for wait_s in waits_s:
            time.sleep(wait_s)
            _delete_where(target, lambda name: of_task.fullmatch(name) is not None and name not in kept_names)


def _delete_where(target: WriteTarget, is_lost: Callable[[str], bool]) -> list[str]:
    """Delete the files of the data folder whose names are those of lost files, and return their locations. Raises the first error of the storage."""
    found = [location for location in _files_there(target) if is_lost(_name(location))]
    failures = delete_files(target.io, found)
    if failures:
        raise failures[0][1]
    return found


@contextmanager
def _warning_of(target: WriteTarget) -> Iterator[None]:
    """Log a warning where the block fails because of the storage."""
    try:
        yield
    except IcefloeError as error:
        LOG.warning(
            "files that no metadata names may be left in %s, with %s in their names: %s",
            in_one_line(target.data_location),
            target.operation_uuid,
            error,
        )


def _files_there(target: WriteTarget) -> list[str]:
    try:
        return files_of(target.io, target.data_location)
    except NoSuchFileError:
        return []


def _name(location: str) -> str:
    return location.rpartition("/")[2]


def delete_lost_attempts(spark: SparkSession | None, target: WriteTarget, kept: Collection[str], attempts: Iterable[Attempt]) -> None:
    """After a job that ended well: the files of attempts whose results were not taken. Nothing is listed where there was one attempt of each task.

    `spark` is None where no session is at hand. Where a lost executor makes Spark run a stage again, attempts count from 0 anew; a classic session knows.
    """
    taken = set(attempts)
    others = any(attempt.number > 0 or attempt.speculates for attempt in taken)
    if not others and spark is not None:
        others = str(spark.conf.get(SPECULATION, "false")).lower() == "true" or _ran_again(spark, {attempt.stage_id for attempt in taken})
    if others:
        delete_files_of_operation(target, kept)


def _ran_again(spark: SparkSession, stage_ids: Iterable[int]) -> bool:
    if not has_jvm(spark):
        return False
    tracker = spark.sparkContext.statusTracker()
    return any(found is not None and found.currentAttemptId > 0 for found in map(tracker.getStageInfo, stage_ids))


@contextmanager
def none_left(target: WriteTarget) -> Iterator[None]:
    """Where the block fails, or is left by Ctrl-C, every file of the operation is looked for and deleted."""
    try:
        yield
    except BaseException:
        delete_files_of_operation(target)
        raise


@dataclass(frozen=True, slots=True)
class FinishedFiles:
    """The locations of the files that tasks of one operation finished: tasks add them, and the driver reads them.

    All operations share one accumulator, because PySpark keeps every accumulator for as long as the process lives.
    """

    accumulator: Accumulator[dict[str, list[str]]]
    operation_uuid: str

    def add(self, locations: list[str]) -> None:
        """Add locations, in a task."""
        self.accumulator.add({self.operation_uuid: locations})

    def pop(self) -> list[str]:
        """Return the locations that arrived so far, and forget them, on the driver."""
        return self.accumulator.value.pop(self.operation_uuid, [])


@contextmanager
def writing_job(spark: SparkSession, target: WriteTarget) -> Iterator[FinishedFiles]:
    """Yield where tasks tell which files they finished. Where the block fails, those are deleted at once, and any other file of the operation.

    A block whose job ends well calls `delete_lost_attempts`.
    """
    finished = FinishedFiles(_accumulator(spark.sparkContext), target.operation_uuid)
    with none_left(target):
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
    """Locations of files by the id of their operation, gathered from tasks."""

    def zero(self, value: dict[str, list[str]]) -> dict[str, list[str]]:  # noqa: ARG002 Spark's signature
        return {}

    def addInPlace(self, value1: dict[str, list[str]], value2: dict[str, list[str]]) -> dict[str, list[str]]:  # noqa: N802 Spark's name
        for operation_uuid, locations in value2.items():
            value1.setdefault(operation_uuid, []).extend(locations)
        return value1
