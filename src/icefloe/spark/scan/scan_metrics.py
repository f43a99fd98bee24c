"""The metrics of a scan in Spark's SQL tab: what planning read and skipped, and the deletes that apply. `bridge/java/ScanMetrics.java` adds them to plan nodes.

Their values are known before the query runs. The names are those of metrics reports (`stores/metrics_report.py`), the labels those of Java's Iceberg. Spark
shows its own metrics of a scan beside them, such as the number of files read. Spec: Scan Planning.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from icefloe.scan.scan_plan import ScanPlan
from icefloe.spec.expressions.predicate import AlwaysTrue

# Spark's kinds of metrics, which determine how a number is shown.
COUNT, BYTES, NANOSECONDS = "sum", "size", "nsTiming"
# Labels by the names of metrics: of every plan; of plans that were made here; of those with a filter; of those with deletes.
_READ = {"result-data-files": "number of result data files", "total-file-size-in-bytes": "total data file size"}
_MANIFESTS = {
    "scanned-data-manifests": "number of scanned data manifests",
    "skipped-data-manifests": "number of skipped data manifests",
}
_SKIPPED = {
    "in-skipped-manifests": "number of data files in skipped manifests",
    "skipped-by-partition": "number of data files skipped by partition",
    "skipped-by-statistics": "number of data files skipped by column statistics",
}
_SKIPPED_BY_ORDER = {"skipped-by-order": "number of data files skipped by ORDER BY and LIMIT"}
_SKIPPED_BY_SAMPLE = {"skipped-by-sample": "number of data files skipped by TABLESAMPLE"}
_DELETES = {
    "equality-delete-files": "number of equality delete files",
    "positional-delete-files": "number of positional delete files",
    "dvs": "number of deletion vectors",
    "total-delete-file-size-in-bytes": "total delete file size",
}
_DELETE_MANIFESTS = {
    "scanned-delete-manifests": "number of scanned delete manifests",
    "skipped-delete-manifests": "number of skipped delete manifests",
    "skipped-delete-files": "number of skipped delete files",
}


class ScanMetric(NamedTuple):
    """A number about a scan: its name, its label in the SQL tab, and its kind (`COUNT`, `BYTES` or `NANOSECONDS`)."""

    name: str
    label: str
    kind: str
    value: int


def metrics_of_groups(plan: ScanPlan, deleted_positions: Sequence[int | None], *, place: int) -> Sequence[Sequence[ScanMetric]]:
    """Return the metrics of each file group of a plan. Those of the whole plan belong to one group, so that a query shows each once.

    Args:
        plan: The plan.
        deleted_positions: For each group, how many rows it leaves out by their positions; None for a group whose files have no such deletes.
        place: The index of the group that has the metrics of the whole plan.
    """
    return [
        [
            *(_plan_metrics(plan) if number == place else ()),
            *([] if deleted is None else [ScanMetric("deleted-positions", "number of row deletes applied", COUNT, deleted)]),
        ]
        for number, deleted in enumerate(deleted_positions)
    ]


def _plan_metrics(plan: ScanPlan) -> Iterator[ScanMetric]:
    """Yield the metrics of a plan, without those that are unknown because a server made the plan, and those that are certainly 0."""
    skipped = {
        "in-skipped-manifests": plan.files_in_skipped_manifests,
        "skipped-by-partition": plan.files_skipped_by_partition,
        "skipped-by-statistics": plan.files_skipped_by_metrics,
        "skipped-by-order": plan.skipped_by_order.files,
        "skipped-by-sample": plan.skipped_by_sample.files,
    }
    sizes = plan.sizes()
    values = {**plan.counts(), **skipped, **sizes}
    for name, label in _labels(plan).items():
        yield ScanMetric(name, label, BYTES if name in sizes else COUNT, values[name])
    yield ScanMetric("total-planning-duration", "total planning duration", NANOSECONDS, plan.planning_ns)


def _labels(plan: ScanPlan) -> Mapping[str, str]:
    is_planned_here, has_deletes = not plan.is_planned_by_server, bool(plan.delete_manifests_total or plan.delete_files)
    return {
        **_READ,
        **(_MANIFESTS if is_planned_here else {}),
        **(_SKIPPED if is_planned_here and not isinstance(plan.row_filter, AlwaysTrue) else {}),
        **(_SKIPPED_BY_ORDER if plan.skipped_by_order.files else {}),
        **(_SKIPPED_BY_SAMPLE if plan.skipped_by_sample.files else {}),
        **(_DELETES if has_deletes else {}),
        **(_DELETE_MANIFESTS if has_deletes and is_planned_here else {}),
    }
