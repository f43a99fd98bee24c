"""Planning of scans on a cluster: whether this process or the tasks of a Spark job read the manifests.

With a job only files that may match come back to the driver; the plan is the same either way. Planning itself is `icefloe/scan`. Spec: Scan Planning.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from pyspark.sql import SparkSession

from icefloe.scan.pruning import manifest_mask
from icefloe.spark.jobs.spark_jobs import run_job
from icefloe.spark.jobs.task_errors import TaskErrors
from icefloe.spark.scan.read_options import PlanningMode
from icefloe.spec.expressions.bind import bind
from icefloe.spec.manifest_list.manifest_file import ManifestContent
from icefloe.spec.metadata.manifests import read_manifests
from icefloe.spec.ports import Parallel
from icefloe.table.data_scan import DataScan

# Bytes of manifests per processor of this machine above which a Spark job is faster.
LOCAL_BYTES_PER_PROCESSOR = 128 * 1024 * 1024
# Tasks of a job for each processor of Spark: each costs some milliseconds beside its work; several make up for tasks that take longer than others. Where
# executors are allocated as tasks wait for them, few processors are known when the job starts: so many tasks let Spark add more.
_TASKS_OF_A_PROCESSOR, _LEAST_TASKS = 4, 200


@dataclass(frozen=True)
class TaskFunction:
    """A function that Spark tasks run: it takes an item, and returns the result of the wrapped function."""

    function: Callable[[Any], Any]
    errors: TaskErrors = field(default_factory=TaskErrors)

    def __call__(self, item: Any) -> Any:
        """Return the result of the function for an item."""
        with self.errors.carried():
            return self.function(item)


@dataclass(frozen=True)
class SparkTasks:
    """A `map` that runs the items in the tasks of one Spark job, each task some items that follow each other, and returns the results in order.

    Raises:
        IcefloeError: As a task raised it.
        EngineError: The job failed for another reason.
    """

    spark: SparkSession
    description: str

    def __call__(self, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        """Yield the results of a function for items, computed by Spark tasks."""
        work = list(items)
        if not work:
            return
        context = self.spark.sparkContext
        tasks = min(len(work), max(_LEAST_TASKS, _TASKS_OF_A_PROCESSOR * context.defaultParallelism))
        results = context.parallelize(work, tasks).map(TaskFunction(function))
        yield from run_job(self.spark, self.description, results.collect)


def parallel_of(spark: SparkSession, scan: DataScan, mode: PlanningMode) -> Parallel | None:
    """Return the Spark job that reads the manifests of a scan; None if this process reads them, which is faster except for very many manifests.

    In mode `auto` a job runs only where Spark has more processors than this machine, and these would have over `LOCAL_BYTES_PER_PROCESSOR` to read each.
    """
    if mode == "auto" and not _is_worth_a_job(spark, scan):
        return None
    return cast(Parallel, SparkTasks(spark, f"plan a scan of {scan.table_name}"))


def _is_worth_a_job(spark: SparkSession, scan: DataScan) -> bool:
    local_processors, spark_processors = os.cpu_count() or 1, spark.sparkContext.defaultParallelism
    snapshot = scan.snapshot()
    if spark_processors <= local_processors or snapshot is None:
        return False
    return _bytes_to_read(scan, snapshot) > local_processors * LOCAL_BYTES_PER_PROCESSOR


def _bytes_to_read(scan: DataScan, snapshot: Any) -> int:
    """Return the bytes of the data manifests that the filter does not prune."""
    manifests = [manifest for manifest in read_manifests(snapshot, scan.io.read) if manifest.content is ManifestContent.DATA]
    specs = {spec.spec_id: spec for spec in scan.metadata.partition_specs}
    bound = bind(scan.row_filter, scan.schema(), case_sensitive=scan.case_sensitive)
    mask: Sequence[bool] = manifest_mask(manifests, bound, specs, scan.schema()).tolist()
    return sum(manifest.manifest_length for manifest, may_match in zip(manifests, mask, strict=True) if may_match)
