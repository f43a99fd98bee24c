"""Files of a write that no commit will name: of attempts of tasks that failed, were killed or lost a race, looked for by the operation's id and deleted.

Every job that writes data files runs in `writing_job`. A task that fails deletes what it made itself; this is for those that could not. Floor: spark.
Spec: Writing Data Files.
"""

import logging
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, repeat

from pyspark import SparkContext, TaskContext
from pyspark.accumulators import Accumulator, AccumulatorParam
from pyspark.sql import SparkSession

from icefloe.datafile.target import WriteTarget
from icefloe.errors import IcefloeError, NoSuchFileError
from icefloe.io.bulk_delete import delete_files
from icefloe.io.listing import files_of
from icefloe.spark.native import gateway_is_at_hand

# Seconds before each look for the files: the Python of a task that failed or lost writes on until it sees that nobody listens, or Spark ends it after two.
LOOK_AGAIN_S = (0.0, 1.0, 3.0)
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


def delete_files_of_operation(target: WriteTarget, kept: Collection[str] = (), waits_s: Sequence[float] = LOOK_AGAIN_S) -> None:
    """Deletes the files with the operation's id in their name, save those `kept`; no metadata names them. The data folder is listed.

    An attempt that was cut short may still write on, so this looks again, and again, and then for as long as there was something to find. Where the storage
    refuses, a warning says what may be left: the caller must hear of the operation's own error, or that it succeeded.
    """
    # A storage may list a file under another form of its location; a name is never given twice in an operation.
    kept_names = {_name(location) for location in kept}
    try:
        for look, wait_s in enumerate(chain(waits_s, repeat(waits_s[-1], MOST_LOOKS_MORE)), start=1):
            time.sleep(wait_s)
            found = [
                location
                for location in _files_there(target)
                if target.operation_uuid in _name(location) and _name(location) not in kept_names
            ]
            failures = delete_files(target.io, found)
            if failures:
                raise failures[0][1]
            if not found and look >= len(waits_s):
                return
    except IcefloeError as error:
        LOG.warning(
            "files that no metadata names may be left in %s, with %s in their names: %s", target.data_location, target.operation_uuid, error
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
    if not gateway_is_at_hand(spark):
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
