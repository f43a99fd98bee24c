"""Planning of scans on a cluster: whether this process or the tasks of a Spark job read the manifests.

With a job only files that may match come back to the driver; the plan is the same either way. Planning itself is `icefloe/scan`. Spec: Scan Planning.
"""

import os
from collections.abc import Sequence
from functools import partial
from typing import Any, cast

from pyspark.sql import SparkSession

from icefloe.operations.data_scan import DataScan
from icefloe.scan.pruning import manifest_mask
from icefloe.spark.jobs.map_job import map_in_tasks
from icefloe.spark.scan.read_options import PlanningMode
from icefloe.spec.expressions.bind import bind
from icefloe.spec.manifest_list.manifest_file import ManifestContent
from icefloe.spec.metadata.manifests import read_manifests
from icefloe.spec.ports import Parallel

# Bytes of manifests per processor of this machine above which a Spark job is faster.
LOCAL_BYTES_PER_PROCESSOR = 128 * 1024 * 1024


def parallel_of(spark: SparkSession, scan: DataScan, mode: PlanningMode) -> Parallel | None:
    """Return the Spark job that reads the manifests of a scan; None if this process reads them, which is faster except for very many manifests.

    In mode `auto` a job runs only where Spark has more processors than this machine, and these would have over `LOCAL_BYTES_PER_PROCESSOR` to read each.
    """
    if mode == "auto" and not _is_worth_a_job(spark, scan):
        return None
    return cast(Parallel, partial(map_in_tasks, spark, f"plan a scan of {scan.table_name}"))


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
