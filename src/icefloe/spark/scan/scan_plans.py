"""Caches of plans and other values that scans compute from immutable files: `ScanCache` for all tables of a catalog, `ScanPlans` for a loaded table.

`ScanPlans` also plans scans: either this process reads the manifests, or the tasks of a Spark job read them and return only files that may match to the driver.

A cached value belongs to one state of a table. After a commit or ALTER by any process, or for a different table with the same name, the next statement loads a
different state, and does not use the value. All else on which a value depends is in its key: the query that Spark pushed, and the session settings that Icefloe
reads.
Spec: Scan Planning.
"""

import json
import os
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar, cast

from pyspark.sql import SparkSession

from icefloe.bounded_cache import BoundedCache
from icefloe.operations.data_scan import DataScan
from icefloe.operations.staging import branch_to_read
from icefloe.scan.pruning import manifest_mask
from icefloe.scan.scan_plan import ScanPlan
from icefloe.spark.jobs.map_job import map_in_tasks
from icefloe.spark.scan.read_options import PlanningMode
from icefloe.spark.types.spark_types import has_geo_types
from icefloe.spec.expressions.bind import bind
from icefloe.spec.manifest_list.manifest_file import ManifestContent
from icefloe.spec.metadata.snapshot_manifests import read_manifests
from icefloe.spec.metadata.table_properties import WAP_ENABLED
from icefloe.spec.ports import Parallel
from icefloe.table.table import Table

# The number of plans that a loaded table keeps: a statement may read a table with two different filters, and use both plans in turn.
_PLANS_OF_A_TABLE = 4
# The maximum bytes of the values that a catalog keeps for later statements in a session.
SHARED_BYTES = 2**26
# The sizes in bytes that the cache assumes: of a delete file with its entry in the index; of a planned file in the JVM; and of any other value with its key.
_BYTES_OF_A_DELETE_FILE = 2**10
BYTES_OF_A_FILE_IN_THE_JVM = 2**10
_BYTES_OF_A_VALUE = 2**10
# The bytes that the cache assumes for a character of a key: more than in a text, because literals in a key are objects.
_BYTES_OF_A_CHARACTER = 8
T = TypeVar("T")
# The bytes of manifests for each processor of this machine above which a Spark job is faster.
LOCAL_BYTES_PER_PROCESSOR = 128 * 1024 * 1024


def parallel_of(spark: SparkSession, scan: DataScan, mode: PlanningMode) -> Parallel | None:
    """Return a function that reads the manifests of a scan in a Spark job; None if this process reads them, which is faster unless there are very many.

    In the mode `auto` there is a job only if Spark has more processors than this machine, and each processor of this machine would have to read more than
    `LOCAL_BYTES_PER_PROCESSOR`.
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
    """Return the total size in bytes of the data manifests that the scan's filter does not prune."""
    manifests = [manifest for manifest in read_manifests(snapshot, scan.io.read) if manifest.content is ManifestContent.DATA]
    specs = {spec.spec_id: spec for spec in scan.metadata.partition_specs}
    bound = bind(scan.row_filter, scan.schema(), case_sensitive=scan.case_sensitive)
    mask: Sequence[bool] = manifest_mask(manifests, bound, specs, scan.schema()).tolist()
    return sum(manifest.manifest_length for manifest, may_match in zip(manifests, mask, strict=True) if may_match)


class ScanCache:
    """A cache of values that scans of a catalog's tables compute in a session. Later statements that read the same state of a table in the same way use them.

    Attributes:
        deletes: A cache of the deleted positions of data files. Its keys are files instead of table states.
    """

    def __init__(self) -> None:
        self._values: BoundedCache[tuple[object, ...], Any] = BoundedCache(most_cost=SHARED_BYTES)
        self.deletes: BoundedCache[Hashable, Any] = BoundedCache(most_cost=SHARED_BYTES)

    def get(self, key: tuple[object, ...]) -> Any:
        """Return the cached value of a key, or None."""
        return self._values.get(key)

    def put(self, key: tuple[object, ...], value: Any, size: int) -> None:
        """Cache a value, unless the value and its key are larger than the whole cache. `size` is the value's size in bytes."""
        self._values.put(key, value, size + _BYTES_OF_A_CHARACTER * sum(len(part) for part in key if isinstance(part, str)))


class ScanPlans:
    """Plans the scans of a loaded table, and caches the plans and other values of its scans.

    While Spark optimizes a query, it requests filters, aggregates, statistics and rows one after the other, all of which need the same plan.

    Args:
        spark: The session.
        table: The table.
        shared: The cache that is shared with other statements; None for no sharing.
    """

    def __init__(self, spark: SparkSession, table: Table, shared: ScanCache | None = None) -> None:
        self._spark = spark
        self._plans: list[tuple[tuple[object, ...], ScanPlan]] = []
        metadata = table.metadata
        self._metadata = metadata
        # The location alone is not enough, because it may have a new file after its table was dropped. Values also contain the table's name, for messages and
        # EXPLAIN.
        self._loaded = (metadata.table_uuid, table.metadata_location, metadata.last_updated_ms, table.full_name)
        self._has_geo_types = has_geo_types(spark, metadata.schema())
        self._shared = shared if metadata.table_uuid and table.metadata_location else None

    @property
    def _state(self) -> tuple[object, ...]:
        """The first part of every key: the loaded state of the table, whether the session has geo types, and the branch that session settings select."""
        return (*self._loaded, self._has_geo_types, branch_to_read(self._metadata) if WAP_ENABLED.read(self._metadata.properties) else None)

    @property
    def state(self) -> str | None:
        """A text that is different for each state of the table; None if nothing is shared with other statements."""
        return None if self._shared is None else repr(self._state)

    @property
    def deletes(self) -> BoundedCache[Hashable, Any] | None:
        """The cache of deleted positions that is shared with other statements; None if nothing is shared."""
        return None if self._shared is None else self._shared.deletes

    def plan(
        self,
        scan: DataScan,
        mode: PlanningMode,
        *,
        include_statistics: bool = False,
        statistics_of: frozenset[int] = frozenset(),
        enough_rows: int | None = None,
    ) -> ScanPlan:
        """Return the plan of a scan, from the cache or planned now. It has masks of the files in which all rows match the filter.

        Args:
            scan: The scan.
            mode: The planning mode: `auto`, `local` or `distributed`.
            include_statistics: Whether the plan has the statistics of all columns.
            statistics_of: Field ids of the columns whose statistics the plan has besides those that were tested with the filter.
            enough_rows: The number of rows after which planning may stop (see `plan_scan`), or None. If set, this process reads the manifests.
        """
        appends = None if scan.appends is None else tuple(snapshot.snapshot_id for snapshot in scan.appends)
        # The literals 1 and TRUE, or 0.0 and -0.0, make filters equal, but their texts differ.
        key = (
            *self._state,
            mode,
            scan.snapshot_id,
            appends,
            scan.by_table_schema,
            scan.row_filter,
            str(scan.row_filter),
            scan.tolerant,
            include_statistics,
            statistics_of,
            enough_rows,
        )
        for cached_key, plan in self._plans:
            if cached_key == key or cached_key == (*key[:-1], None):  # a plan of all files can replace a plan of the first files
                return plan
        kept = None if self._shared is None else self._shared.get(key)
        plan = self._plan(scan, mode, include_statistics, statistics_of, enough_rows) if kept is None else replace(kept, planning_ns=0)
        self._plans = [*self._plans[1 - _PLANS_OF_A_TABLE :], (key, plan)]
        if kept is None and self._shared is not None:
            self._shared.put(key, plan, _size_of(plan))
        return plan

    def get_or_compute(self, key: tuple[object, ...], compute: Callable[[], T]) -> T:
        """Return the cached value of a key, or compute and cache it. The value must be JSON, and depend only on the table state and the key."""
        if self._shared is None:
            return compute()
        state_and_key = (*self._state, *key)
        value: T | None = self._shared.get(state_and_key)
        if value is None:
            value = compute()
            self._shared.put(state_and_key, value, _BYTES_OF_A_VALUE + len(json.dumps(value)))
        return value

    def _plan(
        self, scan: DataScan, mode: PlanningMode, include_statistics: bool, statistics_of: frozenset[int], enough_rows: int | None
    ) -> ScanPlan:
        if enough_rows is not None:
            return scan.plan(include_statistics=include_statistics, find_covered=True, enough_rows=enough_rows)
        # With a local master, Spark has no more processors than this process.
        # The warnings of a tolerant scan must be logged in this process.
        is_local = (
            scan.tolerant
            or scan.is_planned_by_server
            or mode == "local"
            or (mode == "auto" and (self._spark.sparkContext.master or "").startswith("local"))
        )
        parallel = None if is_local else parallel_of(self._spark, scan, mode)
        return scan.plan(
            include_statistics=include_statistics,
            find_covered=True,
            include_tested=True,
            statistics_of=statistics_of,
            parallel=parallel,
            prune_in_parallel=parallel is not None,
        )


def _size_of(plan: ScanPlan) -> int:
    return int(sum(part.entries.nbytes for part in plan.parts)) + _BYTES_OF_A_DELETE_FILE * (1 + plan.delete_files_considered)
