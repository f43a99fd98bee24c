"""The source of a MERGE that is too large for the driver: its keys prune the target, and Spark joins the rest by a shuffle.

One aggregation over the source's keys returns their bounds, which skip files and row groups of the target, and a Bloom filter, which drops most of its other
rows before they are shuffled. Both are true of every row that matches, so they never change the result of a join that keeps only target rows with a match.
The driver holds the Bloom filter, of 8 MiB at most, and no row. A source that may return other rows when it is read again is computed once, and kept on the
executors. Sources that fit the driver are `broadcast_source.py`; the nodes of the join are `merge_planner.py`.
Spec: Scan Planning.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 Spark's users know it by this letter

from icefloe.spark.bridge.catalyst import column_of, data_type, expression_of, invoke, object_literal, sequence
from icefloe.spark.bridge.catalyst_plan import node, python_proxy_behind, rows_of, stack_nodes, with_part
from icefloe.spark.bridge.gateway import java_class, new_object
from icefloe.spark.jobs.spark_jobs import run_job
from icefloe.spark.row_level.broadcast_source import is_known
from icefloe.spark.row_level.target_pruning import SCAN, MatchKey, bounds_as_predicates

# Bytes of the target below which its rows are joined as they are: reading the source's keys first would take longer.
LEAST_TARGET_BYTES = 64 * 1024 * 1024
# Bits of the Bloom filter for each key, which let through some 2 % of the keys that the source does not have; and its most bits, which are Spark's.
_BITS_PER_KEY, _MOST_BITS = 8, 64 * 1024 * 1024
# Types that Spark compares as it hashes them. Texts with a collation have other names, and floats have several NaN and two zeros.
_KEY_TYPE = re.compile(r"byte|short|integer|long|date|timestamp|timestamp_ntz|string|binary|decimal\(.*\)")
# Nodes of a plan that returns the same rows whenever it is read, and costs little more than its files, if the relations in it do: a database may return others.
_READ_AGAIN = frozenset({"Project", "Filter", "LogicalRelation", "DataSourceV2ScanRelation", "LocalRelation", "Range"})
_FILES = "HadoopFsRelation"
_BLOOM_FILTER = "org.apache.spark.util.sketch.BloomFilter"


@dataclass(frozen=True, slots=True, kw_only=True)
class LargeSource:
    """A source whose keys were read.

    Attributes:
        plan: the rows, with the columns of the source.
        figures: Java's `GatheredRows` of one row: the Bloom filter, then the least and the greatest value of each key.
        bloom_filter: the bytes of Spark's Bloom filter of all keys together.
        keys: the equalities that were read.
    """

    plan: Any
    figures: Any
    bloom_filter: bytes
    keys: Sequence[MatchKey]


def read_large_source(spark: SparkSession, session: Any, source: Any, scan: Any, keys: Sequence[MatchKey]) -> LargeSource | None:
    """Read the keys of a source by one job; return None where its target is joined as it is.

    Args:
        spark: the session of Python.
        session: Spark's session that runs the statement, an object of Java.
        source: the optimized logical plan of the source.
        scan: the scan relation of the target.
        keys: equalities of the join condition.

    Raises:
        EngineError: the job failed.
    """
    hashed = [key for key in keys if not key.nulls_are_equal and _is_hashed(key)]
    size = int(str(source.stats().sizeInBytes()))
    target_size = int(str(scan.stats().sizeInBytes()))
    can_be_read_again = _can_be_read_again(spark, source)
    # Of a source that is read again only the keys are; one that is kept should be worth it.
    is_too_large = not can_be_read_again and is_known(size) and size > target_size
    if not hashed or target_size < LEAST_TARGET_BYTES or is_too_large:
        return None
    rows = rows_of(spark, session, source)
    if not can_be_read_again:
        # The executors keep the rows, in memory and on disk. Spark fails, and does not compute rows again, where it loses an executor with some of them.
        rows = run_job(spark, "compute the source of a MERGE", partial(rows.localCheckpoint, True))
        source = rows._jdf.logicalPlan()
        size = int(str(source.stats().sizeInBytes()))
    figures = _figures(spark, rows, hashed, size // max(1, int(source.schema().defaultSize())))
    array = run_job(spark, "read the keys of a MERGE", partial(figures._jdf.queryExecution().executedPlan().executeTake, 1))
    bloom_filter = array[0].getBinary(0)
    if bloom_filter is None:  # no row has a key
        return None
    return LargeSource(plan=source, figures=new_object(spark, "GatheredRows", array), bloom_filter=bytes(bloom_filter), keys=hashed)


def _is_hashed(key: MatchKey) -> bool:
    return bool(_KEY_TYPE.fullmatch(str(key.source.dataType().typeName()))) and bool(key.target.dataType().equals(key.source.dataType()))


def _can_be_read_again(spark: SparkSession, plan: Any) -> bool:
    """Return True for filters and columns of files whose list is known, or of a snapshot of a table, without random functions and subqueries."""
    name = plan.nodeName().partition(" ")[0]
    if name not in _READ_AGAIN or not plan.deterministic() or not plan.subqueries().isEmpty():
        return False
    if name == "LogicalRelation" and plan.relation().getClass().getSimpleName() != _FILES:
        return False
    if name == "DataSourceV2ScanRelation" and python_proxy_behind(spark, plan.scan()) is None:
        return False
    children = plan.children()
    return all(_can_be_read_again(spark, children.apply(index)) for index in range(children.size()))


def _figures(spark: SparkSession, rows: DataFrame, keys: Sequence[MatchKey], count: int) -> DataFrame:
    """Return one row with the Bloom filter, and the least and the greatest value of each key."""
    bits = max(1024, min(_MOST_BITS, _BITS_PER_KEY * count))
    numbers = [expression_of(spark, F.lit(number).cast("bigint")) for number in (max(1, count), bits)]
    hashes = node(spark, "expressions.XxHash64", sequence(spark, [key.source for key in keys]))
    bloom_filter = node(spark, "expressions.aggregate.BloomFilterAggregate", hashes, *numbers)
    columns = [column_of(spark, bloom_filter.toAggregateExpression())]
    complete = reduce(Column.__and__, (column_of(spark, key.source).isNotNull() for key in keys))
    for key in keys:
        column = column_of(spark, key.source)
        columns += [F.min(column), F.max(column)]
    return rows.where(complete).agg(*(column.alias(f"figure{ordinal}") for ordinal, column in enumerate(columns)))


def prune_target_by_keys(spark: SparkSession, nodes_over_scan: Sequence[Any], relation: Any, source: LargeSource) -> Any:
    """Return the target without files, row groups and most rows that no key of the source matches.

    The condition is above the nodes over the scan: a key such as a cast may fail on rows that their filters leave out.

    Args:
        spark: the session of Python.
        nodes_over_scan: the nodes between the join and the target's scan, from the top.
        relation: the scan relation of the target.
        source: the source whose keys were read.
    """
    hashes = node(spark, "expressions.XxHash64", sequence(spark, [key.target for key in source.keys]))
    # Spark writes the bytes of a binary literal into each text of the plan, and keeps the texts of a thousand queries.
    content = java_class(spark, "java.io.ByteArrayInputStream")(source.bloom_filter)
    bloom_filter = object_literal(spark, java_class(spark, _BLOOM_FILTER).readFrom(content), _BLOOM_FILTER)
    conditions = [invoke(spark, bloom_filter, "mightContainLong", data_type(spark, "boolean"), [hashes])]
    predicates: list[Mapping[str, Any]] = []
    for index, key in enumerate(source.keys):
        if key.target.nodeName() != "AttributeReference":
            continue
        literals = []
        for ordinal, comparison in ((1 + 2 * index, "GreaterThanOrEqual"), (2 + 2 * index, "LessThanOrEqual")):
            bound = node(spark, "expressions.BoundReference", ordinal, key.source.dataType(), True)
            value, _, literals_json, _ = source.figures.values(bound, 1)
            literals.append(json.loads(literals_json)[0])
            conditions.append(node(spark, f"expressions.{comparison}", key.target, value))
        predicates += bounds_as_predicates(key.target.name(), literals)
    if predicates:
        scan = python_proxy_behind(spark, relation.scan()).objectOf("narrow", json.dumps([predicates]))
        relation = with_part(spark, relation, SCAN, scan)
    # The bounds come first, as they cost less.
    condition = reduce(lambda left, right: node(spark, "expressions.And", left, right), [*conditions[1:], conditions[0]])
    return node(spark, "plans.logical.Filter", condition, stack_nodes(spark, nodes_over_scan, relation))
