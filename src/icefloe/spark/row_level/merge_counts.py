"""How many rows a MERGE changed that no row of its source matched, as Spark counts them where it runs the clauses.

The other counts are those of `spark/row_level/changed_rows_job.py`. Spec: Snapshots (summary).
"""

from typing import Any

from pyspark.sql import DataFrame

from icefloe.spark.bridge.catalyst_plan import chain
from icefloe.spark.row_level.changed_rows_job import Unmatched, none_unmatched

# Spark 4.1 and later count the rows of each kind of clause in the node that runs them.
_CLAUSES = "MergeRows"
_KINDS = ("Updated", "Deleted")


def unmatched_of(query: Any) -> Unmatched:
    """Return what tells how many rows of a MERGE's query matched no row of the source, once it ran."""
    _, clauses, name = chain(query, ("Project", "Filter"))
    if name != _CLAUSES:
        return _unknown
    if not clauses.notMatchedBySourceInstructions().size():
        return none_unmatched
    return _counted if clauses.matchedInstructions().size() else _all_unmatched


def _unknown(job: DataFrame, updated: int, deleted: int) -> tuple[int | None, int | None]:  # noqa: ARG001
    return None, None


def _all_unmatched(job: DataFrame, updated: int, deleted: int) -> tuple[int | None, int | None]:  # noqa: ARG001
    return updated, deleted


def _counted(job: DataFrame, updated: int, deleted: int) -> tuple[int | None, int | None]:
    """Read Spark's counts of the job. They also count tasks that ran twice: where they do not add up to the rows that were written, nothing is known."""
    plan = _node_of(job._jdf.queryExecution().executedPlan())
    if plan is None:
        return None, None
    found: list[int] = []
    for kind, total in zip(_KINDS, (updated, deleted), strict=True):
        matched, unmatched = (_metric(plan, f"numTargetRows{side}{kind}") for side in ("Matched", "NotMatchedBySource"))
        if matched is None or unmatched is None or matched + unmatched != total:
            return None, None
        found.append(unmatched)
    return found[0], found[1]


def _metric(plan: Any, name: str) -> int | None:
    metric = plan.metrics().get(name)
    return int(metric.get().value()) if metric.isDefined() else None


def _node_of(plan: Any) -> Any:
    """Return the node of a physical plan that runs the clauses; stages of adaptive execution are looked into."""
    name = plan.nodeName()
    if name == _CLAUSES:
        return plan
    if name == "AdaptiveSparkPlan":
        return _node_of(plan.executedPlan())
    if name.endswith("QueryStage"):
        return _node_of(plan.plan())
    children = plan.children()
    for place in range(children.size()):
        found = _node_of(children.apply(place))
        if found is not None:
            return found
    return None
