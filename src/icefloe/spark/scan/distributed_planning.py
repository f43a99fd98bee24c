"""Where manifests are read for a scan: in this process, or by a Spark job whose tasks read and test them, so that only files that may match come back.

Planning itself is `kernel/scan`, and its result the same either way. Spec: Scan Planning.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from pyspark.sql import SparkSession

from icefloe.kernel.expressions.bind import bind
from icefloe.kernel.manifest_list.manifest_file import ManifestContent
from icefloe.kernel.metadata.manifests import read_manifests
from icefloe.kernel.scan.prune_manifests import manifest_mask
from icefloe.kernel.scan.scan_context import Parallel
from icefloe.kernel.scan.scan_planner import ScanPlan
from icefloe.spark.jobs.spark_jobs import MOST_SPARK_TASKS, run_job
from icefloe.spark.jobs.task_errors import TaskErrors
from icefloe.table.data_scan import DataScan

PlanningMode = Literal["auto", "local", "distributed"]
# Bytes of manifests that a processor of this machine reads before asking Spark's tasks to is worth while.
LOCAL_BYTES_PER_PROCESSOR = 128 * 1024 * 1024


@dataclass(frozen=True)
class TaskFunction:
    """Runs in Spark's tasks: an item in, the function's answer out."""

    function: Callable[[Any], Any]
    errors: TaskErrors = field(default_factory=TaskErrors)

    def __call__(self, item: Any) -> Any:
        with self.errors.carried():
            return self.function(item)


@dataclass(frozen=True)
class SparkTasks:
    """Like `map`, each item in a task of one Spark job, the answers in order. Raises as a task did, and `EngineError`."""

    spark: SparkSession
    description: str

    def __call__(self, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        sent = list(items)
        if not sent:
            return
        found = self.spark.sparkContext.parallelize(sent, min(len(sent), MOST_SPARK_TASKS)).map(TaskFunction(function))
        yield from run_job(self.spark, self.description, found.collect)


def parallel_of(spark: SparkSession, scan: DataScan, mode: PlanningMode) -> Parallel | None:
    """What reads the manifests of a scan: None for this process, which is the quicker way until there are very many.

    By itself (`auto`) Spark is asked where it has more processors than this machine, and these would have over `LOCAL_BYTES_PER_PROCESSOR` to read each.
    """
    if mode == "local" or (mode == "auto" and not _is_worth_a_job(spark, scan)):
        return None
    return cast(Parallel, SparkTasks(spark, f"plan a scan of {scan.table_name}"))


def _is_worth_a_job(spark: SparkSession, scan: DataScan) -> bool:
    here, there = os.cpu_count() or 1, spark.sparkContext.defaultParallelism
    snapshot = scan.snapshot()
    if there <= here or (spark.sparkContext.master or "").startswith("local") or snapshot is None:
        return False
    return _bytes_to_read(scan, snapshot) > here * LOCAL_BYTES_PER_PROCESSOR


def _bytes_to_read(scan: DataScan, snapshot: Any) -> int:
    """Of the data manifests that the filter does not rule out."""
    manifests = [one for one in read_manifests(snapshot, scan.io.read) if one.content is ManifestContent.DATA]
    specs = {spec.spec_id: spec for spec in scan.metadata.partition_specs}
    bound = bind(scan.row_filter, scan.schema(), case_sensitive=scan.case_sensitive)
    mask: Sequence[bool] = manifest_mask(manifests, bound, specs, scan.schema()).tolist()
    return sum(one.manifest_length for one, keep in zip(manifests, mask, strict=True) if keep)


# How many plans are kept: a statement that reads a table twice with different filters asks for each in turn.
_KEPT = 4


class ScanPlans:
    """Plans by what was asked for; the last few are kept as long as the table is."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._known: list[tuple[tuple[object, ...], ScanPlan]] = []

    def plan(self, scan: DataScan, mode: PlanningMode, *, include_statistics: bool = False) -> ScanPlan:
        """The plan of a scan, `covered` told of every file. Raises as `DataScan.plan`."""
        key = (scan.snapshot_id, scan.appends, scan.by_table_schema, scan.row_filter, include_statistics)
        for known, plan in self._known:
            if known == key:
                return plan
        parallel = parallel_of(self._spark, scan, mode)
        found = (
            scan.plan(include_statistics=include_statistics, find_covered=True)
            if parallel is None
            else scan.plan(include_statistics=include_statistics, find_covered=True, parallel=parallel, prune_in_parallel=True)
        )
        self._known = [*self._known[1 - _KEPT :], (key, found)]
        return found
