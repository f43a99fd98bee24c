"""How many rows a MERGE changed that matched no row of its source, by the counts of Spark's `MergeRows` node.

`changed_rows_job.py` counts all changed rows. Spec: Snapshots (summary).
"""

from typing import Any

from pyspark.sql import DataFrame

from icefloe.spark.bridge.catalyst_plan import chain
from icefloe.spark.row_level.changed_rows_job import Unmatched, none_unmatched

# Spark 4.1 and later count rows by kind of clause in the node that runs the clauses.
_CLAUSES = "MergeRows"
_KINDS = ("Updated", "Deleted")


def unmatched_of(query: Any) -> Unmatched:
    """Return the function that counts, after the job, the rows of a MERGE's query without a source row."""
    _, clauses, name = chain(query, ("Project", "Filter"))
    if name != _CLAUSES:
        return _not_counted
    if not clauses.notMatchedBySourceInstructions().size():
        return none_unmatched
    return _counted if clauses.matchedInstructions().size() else _all_unmatched


def _not_counted(job: DataFrame, updated: int, deleted: int) -> tuple[int | None, int | None]:  # noqa: ARG001
    return None, None


def _all_unmatched(job: DataFrame, updated: int, deleted: int) -> tuple[int | None, int | None]:  # noqa: ARG001
    return updated, deleted


def _counted(job: DataFrame, updated: int, deleted: int) -> tuple[int | None, int | None]:
    """Return Spark's counts of the job; None where they do not add up to the written rows, because they include tasks that ran twice."""
    plan = _clauses_node(job._jdf.queryExecution().executedPlan())
    if plan is None:
        return None, None
    counts: list[int] = []
    for kind, total in zip(_KINDS, (updated, deleted), strict=True):
        matched, unmatched = (_metric(plan, f"numTargetRows{side}{kind}") for side in ("Matched", "NotMatchedBySource"))
        if matched is None or unmatched is None or matched + unmatched != total:
            return None, None
        counts.append(unmatched)
    return counts[0], counts[1]


def _metric(plan: Any, name: str) -> int | None:
    metric = plan.metrics().get(name)
    return int(metric.get().value()) if metric.isDefined() else None


def _clauses_node(plan: Any) -> Any:
    """Return the node of a physical plan that runs the clauses, also within stages of adaptive execution."""
    name = plan.nodeName()
    if name == _CLAUSES:
        return plan
    if name == "AdaptiveSparkPlan":
        return _clauses_node(plan.executedPlan())
    if name.endswith("QueryStage"):
        return _clauses_node(plan.plan())
    children = plan.children()
    for place in range(children.size()):
        node = _clauses_node(children.apply(place))
        if node is not None:
            return node
    return None
