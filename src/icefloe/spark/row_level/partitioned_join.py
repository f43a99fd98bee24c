"""MERGE of a source into a target with the same partitions of the key, without a shuffle (storage-partitioned joins).

The target's scan reports its partitions to Spark, as the scan of a query does (`scan/partitioned_scan.py`), and Spark joins each partition of the target with
the partition of the source in one task. A task hashes the source's rows, so that the target's rows are not sorted. Whether Spark joins so depends on both sides
and on settings; this module plans the join to find out. A small source is still read first (`broadcast_source.py`), because its keys prune the target.
Spec: Partitioning; Partition Transforms.
"""

import json
from collections.abc import Iterator, Sequence
from math import ceil
from typing import Any

from py4j.java_gateway import is_instance_of
from pyspark.sql import SparkSession

from icefloe.spark.bridge.catalyst_plan import catalyst_object, chain, node, python_proxy_behind, rows_of, some, with_part
from icefloe.spark.bridge.gateway import gateway_of
from icefloe.spark.row_level.target_pruning import MatchKey

# A field of a partition spec: the id of its source column, and its transform.
PartitionField = tuple[int, str]
# The least rows of a source that is joined by partitions. Of a smaller one the rows are read first, and few files of the target.
LEAST_SOURCE_ROWS = 100_000
# The greatest bytes of the source's rows in a task for which they are hashed; a hash table does not spill to disk.
_MOST_HASHED_BYTES = 64 * 1024 * 1024
# Spark's classes of nodes that move rows; accelerators extend the first one.
_EXCHANGES = ("org.apache.spark.sql.execution.exchange.Exchange", "org.apache.spark.sql.execution.exchange.ReusedExchangeExec")
# The index of the hint among the parts of a `Join`.
_HINT = 4
# The operation of a row that is only deleted, in Spark's first column (`RowDeltaUtils`).
_DELETE = "1"


def is_joined_by_partitions(spark: SparkSession, session: Any, join: Any, source: Any, scan: Any) -> bool:
    """Return whether Spark joins a target and a source by their partitions, and the source is not small.

    Args:
        spark: the Python session.
        session: the Java session that runs the statement.
        join: the join of target and source.
        source: the optimized logical plan of the source.
        scan: the scan relation of the target.
    """
    if not scan.keyGroupedPartitioning().isDefined():
        return False
    _, source_scan, name = chain(source, ("Project", "Filter"))
    if name != "DataSourceV2ScanRelation" or not source_scan.keyGroupedPartitioning().isDefined():
        return False
    if _rows_of(spark, source_scan) < LEAST_SOURCE_ROWS:
        return False
    plan = rows_of(spark, session, with_hash_join(spark, join, source, scan))._jdf.queryExecution().executedPlan()
    return not _has_exchange(spark, plan)


def _has_exchange(spark: SparkSession, plan: Any) -> bool:
    """Return whether a physical plan moves rows between tasks, by a shuffle or a broadcast of Spark or of an accelerator."""
    if plan.nodeName() == "AdaptiveSparkPlan":
        plan = plan.initialPlan()
    is_one = any(is_instance_of(gateway_of(spark), plan, name) for name in _EXCHANGES)
    return is_one or any(_has_exchange(spark, child) for child in _members(plan.children()))


def with_hash_join(spark: SparkSession, join: Any, source: Any, scan: Any) -> Any:
    """Return the join with the hint that each task hashes the source's rows, if these are few enough; otherwise Spark sorts both sides."""
    _, source_scan, _ = chain(source, ("Project", "Filter"))
    proxy = python_proxy_behind(spark, source_scan.scan())
    partitions, of_target = (side.scan().outputPartitioning().numPartitions() for side in (source_scan, scan))
    # A task may have several partitions of the source, where the target has fewer. The largest is the one that must fit.
    of_task = 1 if proxy is None else min(1.0, json.loads(proxy.once("share_of_largest_partition")) * ceil(partitions / max(1, of_target)))
    if _rows_of(spark, source_scan) * int(source.schema().defaultSize()) * of_task > _MOST_HASHED_BYTES:
        return join
    hashed = node(spark, "plans.logical.HintInfo", some(spark, catalyst_object(spark, "plans.logical.SHUFFLE_HASH")))
    return with_part(spark, join, _HINT, node(spark, "plans.logical.JoinHint", some(spark, None), some(spark, hashed)))


def _rows_of(spark: SparkSession, scan: Any) -> int:
    """Return the number of rows that a scan relation of Icefloe reports to Spark; 0 for another one."""
    if python_proxy_behind(spark, scan.scan()) is None:
        return 0
    return int(scan.scan().estimateStatistics().numRows().orElse(0))


def partition_fields(spark: SparkSession, scan: Any, nodes_above: Sequence[Any], keys: Sequence[MatchKey]) -> frozenset[PartitionField]:
    """Return the partition fields of the target's scan whose values the written rows keep: their source column is a key of the join in every written row.

    Args:
        spark: the Python session.
        scan: the scan relation of the target.
        nodes_above: the nodes above the join, from the top.
        keys: the equalities of the join condition.
    """
    if len(nodes_above) != 1:
        return frozenset()
    clauses = nodes_above[0]
    names = [attribute.name() for attribute in _members(clauses.output())]
    return frozenset(
        (int(source_id), str(transform))
        for source_id, transform, name in python_proxy_behind(spark, scan.scan()).described("partitionKeys")
        if name in names and _is_kept(clauses, names.index(name), _ids_of_key(name, keys))
    )


def _ids_of_key(column_name: str, keys: Sequence[MatchKey]) -> set[Any]:
    """Return the ids of the attributes that are equal to a column of the target by the join condition, and of the column itself."""
    ids = set()
    for key in keys:
        sides = (key.target, key.source)
        if key.target.nodeName() == "AttributeReference" and key.target.name() == column_name:
            ids |= {side.exprId().id() for side in sides if side.nodeName() == "AttributeReference"}
    return ids


def _is_kept(clauses: Any, index: int, ids: set[Any]) -> bool:
    """Return whether the column at an index of a row that a clause writes is always one of the attributes with these ids."""
    for clause in _members(clauses.instructions()):
        for output in _members(clause.outputs()):
            column = output.apply(index)
            is_deleted = str(output.apply(0).toString()) == _DELETE
            if not is_deleted and (column.nodeName() != "AttributeReference" or column.exprId().id() not in ids):
                return False
    return True


def _members(sequence: Any) -> Iterator[Any]:
    """Yield the members of a Scala sequence."""
    return (sequence.apply(index) for index in range(sequence.size()))
