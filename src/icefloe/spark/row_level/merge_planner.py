"""Planning of MERGE: change the join of its query so that it reads fewer rows.

Spark rewrites a MERGE into a query over a join of the target with the source. If the source is small and the join condition has an equality between columns of
both, this module changes that join:

1. The source is read first, once, and stays on the driver (`broadcast_source.py`).
2. The target's scan skips files and row groups that contain no key of the source (`target_pruning.py`).
3. Only target rows that match a source row take part in the join; Spark tests this in the stage that reads the target.

If the source is too large for the driver, only its keys prune the target (`large_source.py`), and Spark joins by a shuffle. If both have the same partitions of
the key, and the session joins by partitions, a larger source is joined without a shuffle (`partitioned_join.py`).

Any other query, and a MERGE that needs unmatched target rows, keeps Spark's plan. `catalyst_plan.py` changes the plan nodes, `operation.py` runs the statement,
and `changed_rows_job.py` writes its rows.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from icefloe.spark.bridge.catalyst import sequence
from icefloe.spark.bridge.catalyst_plan import catalyst_object, chain, node, python_proxy_behind, rows_of, some, stack_nodes, with_part
from icefloe.spark.row_level.broadcast_source import BroadcastSource, read_small_source, source_plan
from icefloe.spark.row_level.large_source import prune_target_by_keys, read_large_source
from icefloe.spark.row_level.partitioned_join import PartitionField, is_joined_by_partitions, partition_fields, with_hash_join
from icefloe.spark.row_level.target_pruning import MatchKey, match_keys, prune_target

# Join types of a MERGE, with the target first; and the join type of a MERGE that only inserts, with the source first, which Spark plans as an append.
MERGE_JOINS, INSERT_JOINS = ("Inner", "RightOuter"), ("LeftAnti",)
# The index of the columns among the parts of a `LogicalRDD`.
_OUTPUT = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _MergeJoin:
    """The parts of a MERGE's query plan around its join of target and source.

    Attributes:
        nodes_above: the nodes above the join, from the top.
        join: the join's node.
        join_type: the join's type, such as `Inner`.
        source: the plan of the source.
        nodes_over_scan: the nodes between the join and the target's scan, from the top.
        scan: the target's scan relation.
        condition: the join condition.
        keys: the equalities of the condition.
    """

    nodes_above: list[Any]
    join: Any
    join_type: str
    source: Any
    nodes_over_scan: list[Any]
    scan: Any
    condition: Any
    keys: list[MatchKey]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementRows:
    """The rows of a statement.

    Attributes:
        frame: a lazy DataFrame.
        grouped_by: the partition fields of the target by whose values the rows are grouped: one task has all rows with the same values, and a row keeps them
            when it is written. Empty if rows are not grouped.
    """

    frame: DataFrame
    grouped_by: frozenset[PartitionField] = field(default_factory=frozenset)


def plan_merge_rows(spark: SparkSession, session: Any, query: Any, join_types: Collection[str]) -> StatementRows:
    """Return the rows of a MERGE's query, with its join changed as this module describes, if that is possible.

    Args:
        spark: the session of Python.
        session: Spark's session that runs the statement, an object of Java.
        query: Spark's optimized logical plan for the statement.
        join_types: `MERGE_JOINS`, `INSERT_JOINS`, or an empty sequence to keep Spark's plan.

    Returns:
        The rows, with the columns of the query.
    """
    merge = _merge_join(spark, query, join_types) if join_types else None
    if merge is None:
        return StatementRows(frame=rows_of(spark, session, query))
    if merge.join_type not in INSERT_JOINS and is_joined_by_partitions(spark, session, merge.join, merge.source, merge.scan):
        plan = _planned_by_partitions(spark, session, merge)
        return StatementRows(
            frame=rows_of(spark, session, plan), grouped_by=partition_fields(spark, merge.scan, merge.nodes_above, merge.keys)
        )
    return StatementRows(frame=rows_of(spark, session, _plan(spark, session, merge) or query))


def _planned_by_partitions(spark: SparkSession, session: Any, merge: _MergeJoin) -> Any:
    """Return the plan of the MERGE's query with a join by partitions, with the target pruned by the source's keys if that is worth it."""
    join = with_hash_join(spark, merge.join, merge.source, merge.scan)
    large_source = read_large_source(spark, session, merge.source, merge.scan, merge.keys, only_bounds=True)
    if large_source is not None:
        target = prune_target_by_keys(spark, merge.nodes_over_scan, merge.scan, large_source, "narrow_partitions")
        join = join.withNewChildren(sequence(spark, (target, large_source.plan)))
    return stack_nodes(spark, merge.nodes_above, join)


def _plan(spark: SparkSession, session: Any, merge: _MergeJoin) -> Any | None:
    """Return the plan of the MERGE's query with its target pruned by the source's keys; None to keep Spark's plan."""
    small_source = read_small_source(spark, session, merge.source)
    if small_source is not None:
        return _planned_over(spark, session, merge, small_source)
    large_source = read_large_source(spark, session, merge.source, merge.scan, merge.keys)
    if large_source is None:
        return None
    target = prune_target_by_keys(spark, merge.nodes_over_scan, merge.scan, large_source)
    sides = (large_source.plan, target) if merge.join_type in INSERT_JOINS else (target, large_source.plan)
    return stack_nodes(spark, merge.nodes_above, merge.join.withNewChildren(sequence(spark, sides)))


def _merge_join(spark: SparkSession, query: Any, join_types: Collection[str]) -> _MergeJoin | None:
    """Find the join in a MERGE's query; return None if it has another type, its target is no Icefloe scan, or its condition has no usable equality."""
    nodes_above, join, name = chain(query, ("Project", "Filter", "MergeRows"))
    if name != "Join" or (join_type := join.joinType().toString()) not in join_types or not join.condition().isDefined():
        return None
    source, target = (join.left(), join.right()) if join_type in INSERT_JOINS else (join.right(), join.left())
    nodes_over_scan, scan, name = chain(target, ("Project", "Filter"))
    if name != "DataSourceV2ScanRelation" or python_proxy_behind(spark, scan.scan()) is None:
        return None
    condition = join.condition().get()
    if not condition.deterministic() or catalyst_object(spark, "expressions.SubqueryExpression").hasSubquery(condition):
        return None
    # The condition is tested at the scan, where columns that nodes above the scan compute do not exist.
    target_columns, source_columns = scan.outputSet(), source.outputSet()
    is_of_both = condition.references().subsetOf(getattr(target_columns, "$plus$plus")(source_columns))
    keys = match_keys(condition, target_columns, source_columns) if is_of_both else []
    if not keys:
        return None
    return _MergeJoin(
        nodes_above=nodes_above,
        join=join,
        join_type=join_type,
        source=source,
        nodes_over_scan=nodes_over_scan,
        scan=scan,
        condition=condition,
        keys=keys,
    )


def _planned_over(spark: SparkSession, session: Any, merge: _MergeJoin, source: BroadcastSource) -> Any:
    """Return the plan of the MERGE's query over a source whose rows are on the driver, with the target pruned and joined with these rows."""
    source_columns = merge.source.output()
    local_rows = source_plan(spark, session, merge.source.schema(), source)
    joined_source = with_part(spark, local_rows, _OUTPUT, source_columns)
    target = prune_target(spark, merge.scan, merge.keys, source_columns, source.rows)
    condition, hint = merge.join.condition(), merge.join.hint()
    broadcast = some(spark, node(spark, "plans.logical.HintInfo", some(spark, catalyst_object(spark, "plans.logical.BROADCAST"))))
    if merge.join_type == "Inner":
        hint = node(spark, "plans.logical.JoinHint", hint.leftHint(), broadcast)
    else:
        # An outer or anti join cannot broadcast the source to the stage that reads the target; an additional semi join can.
        broadcast_right = node(spark, "plans.logical.JoinHint", some(spark, None), broadcast)
        semi_join = node(
            spark, "plans.logical.Join", target, local_rows, catalyst_object(spark, "plans.LeftSemi"), condition, broadcast_right
        )
        attributes = catalyst_object(spark, "expressions.AttributeMap").apply(source_columns.zip(local_rows.output()))
        target = semi_join.rewriteAttrs(attributes)
    matching_rows = stack_nodes(spark, merge.nodes_over_scan, target)
    sides = (joined_source, matching_rows) if merge.join_type in INSERT_JOINS else (matching_rows, joined_source)
    return stack_nodes(spark, merge.nodes_above, node(spark, "plans.logical.Join", *sides, merge.join.joinType(), condition, hint))
