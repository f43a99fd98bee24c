"""`ScanPlans`: the plans of one loaded table, made once for all that Spark asks of them, and which filters hold on every row of what was planned.

While it optimizes, Spark asks for filters, aggregates, size and rows one after the other. Spec: Scan Planning.
"""

from collections.abc import Sequence

from pyspark.sql import SparkSession

from icefloe.kernel.expressions.bind import bind
from icefloe.kernel.expressions.predicate import BooleanExpression
from icefloe.kernel.manifest.manifest_columns import ManifestColumns
from icefloe.kernel.metadata.table_metadata import TableMetadata
from icefloe.kernel.partitioning.partition_spec import PartitionSpec
from icefloe.kernel.partitioning.transforms import IdentityTransform
from icefloe.kernel.scan.prune_files import strict_mask
from icefloe.kernel.scan.scan_planner import ScanPlan
from icefloe.kernel.schema.schema import Schema
from icefloe.spark.scan.distributed_planning import PlanningMode, parallel_of
from icefloe.table.data_scan import DataScan

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


def holding(plan: ScanPlan, filters: Sequence[BooleanExpression | None], metadata: TableMetadata) -> list[bool]:
    """Of each filter whether it holds on every row of the planned files. The plan's own filter is all those that are not None, together."""
    if None not in filters and all(part.covered is not None and bool(part.covered.all()) for part in plan.parts):
        return [True] * len(filters)
    return [one is not None and _holds(plan, one, metadata) for one in filters]


def _holds(plan: ScanPlan, one: BooleanExpression, metadata: TableMetadata) -> bool:
    """By the files' partition values; only identity is looked at, under which they are the rows' own."""
    bound = bind(one, plan.schema)
    specs = {spec.spec_id: _identities(spec) for spec in metadata.partition_specs}
    return all(bool(strict_mask(ManifestColumns(part.entries), bound, specs[part.spec_id], plan.schema).all()) for part in plan.parts)


def _identities(spec: PartitionSpec) -> PartitionSpec:
    return PartitionSpec(*(field for field in spec.fields if isinstance(field.transform, IdentityTransform)), spec_id=spec.spec_id)


def constant_columns(plan: ScanPlan, metadata: TableMetadata, columns: Schema) -> list[str]:
    """Those of the columns that have one value in each planned file, by its partition."""
    found: set[int] | None = None
    for part in plan.parts:
        fields = metadata.spec_by_id(part.spec_id).fields
        own = {field.source_id for field in fields if isinstance(field.transform, IdentityTransform)}
        found = own if found is None else found & own
    return [field.name for field in columns.fields if field.field_id in (found or ())]
