"""The source of a MERGE that is too large for the driver: its keys prune the target, and Spark joins the remaining rows by a shuffle.

One aggregation over the source's keys returns their bounds, which prune files and row groups of the target, and a Bloom filter, which drops most of the other
target rows before the shuffle. Every matching row passes both, so that the result of a join which keeps only matching target rows does not change. The driver
holds only the Bloom filter, of at most 8 MiB, and no rows. If a source may return different rows when it is read again, it is computed once and kept on the
executors. `broadcast_source.py` handles sources that fit on the driver; `merge_planner.py` changes the join.
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

# The size of the target in bytes below which it is joined without pruning, because reading the source's keys first would take longer.
LEAST_TARGET_BYTES = 64 * 1024 * 1024
# Bits of the Bloom filter for each key, with which about 2 % of other keys pass; and the maximum of bits, which is Spark's.
_BITS_PER_KEY, _MOST_BITS = 8, 64 * 1024 * 1024
# Types for which Spark's hash agrees with its comparison. Texts with a collation have other type names; floats have several NaN values and two zeros.
_KEY_TYPE = re.compile(r"byte|short|integer|long|date|timestamp|timestamp_ntz|string|binary|decimal\(.*\)")
# Plan nodes that return the same rows at every read, at little more cost than reading files, if their relations do; a database may return different rows.
_READ_AGAIN = frozenset({"Project", "Filter", "LogicalRelation", "DataSourceV2ScanRelation", "LocalRelation", "Range"})
_FILES = "HadoopFsRelation"
_BLOOM_FILTER = "org.apache.spark.util.sketch.BloomFilter"


@dataclass(frozen=True, slots=True, kw_only=True)
class LargeSource:
    """A source that is too large for the driver, with what was computed from its keys.

    Attributes:
        plan: the logical plan of the rows, with the columns of the source.
        figures: Java's `GatheredRows` object with one row: the Bloom filter, then the least and the greatest value of each key.
        bloom_filter: the bytes of Spark's Bloom filter for the combination of all keys; None if only bounds were read.
        keys: the equalities of the join condition whose values were read.
    """

    plan: Any
    figures: Any
    bloom_filter: bytes | None
    keys: Sequence[MatchKey]


def read_large_source(
    spark: SparkSession, session: Any, source: Any, scan: Any, keys: Sequence[MatchKey], *, only_bounds: bool = False
) -> LargeSource | None:
    """Read the keys of a source with one job.

    Return None if the keys cannot prune the target, or if reading them would cost more than it saves: the target is small, or the source must be stored and is
    larger than the target.

    Args:
        spark: the Python session.
        session: the Java session that runs the statement.
        source: the optimized logical plan of the source.
        scan: the scan relation of the target.
        keys: equalities of the join condition.
        only_bounds: whether to compute no Bloom filter, because looking a row up in it takes as long as joining it; the source is not stored then.

    Raises:
        EngineError: the job failed.
    """
    hashed = [key for key in keys if not key.nulls_are_equal and _is_hashed(key)]
    size = int(str(source.stats().sizeInBytes()))
    target_size = int(str(scan.stats().sizeInBytes()))
    can_be_read_again = _can_be_read_again(spark, source)
    # If the source can be read again, only its keys are read now. Keeping a source costs more, and must be worth it.
    is_too_large = not can_be_read_again and (only_bounds or (is_known(size) and size > target_size))
    if not hashed or target_size < LEAST_TARGET_BYTES or is_too_large:
        return None
    rows = rows_of(spark, session, source)
    if not can_be_read_again:
        # The executors keep the rows in memory and on disk. If Spark loses an executor with some of the rows, it fails instead of computing them again.
        rows = run_job(spark, "compute the source of a MERGE", partial(rows.localCheckpoint, True))
        source = rows._jdf.logicalPlan()
        size = int(str(source.stats().sizeInBytes()))
    count = None if only_bounds else size // max(1, int(source.schema().defaultSize()))
    figures = _figures(spark, rows, hashed, count)
    array = run_job(spark, "read the keys of a MERGE", partial(figures._jdf.queryExecution().executedPlan().executeTake, 1))
    first = array[0].get(0, figures._jdf.schema().apply(0).dataType())
    if first is None:  # no row of the source has a complete key
        return None
    bloom_filter = None if only_bounds else bytes(first)
    return LargeSource(plan=source, figures=new_object(spark, "GatheredRows", array), bloom_filter=bloom_filter, keys=hashed)


def _is_hashed(key: MatchKey) -> bool:
    return bool(_KEY_TYPE.fullmatch(str(key.source.dataType().typeName()))) and bool(key.target.dataType().equals(key.source.dataType()))


def _can_be_read_again(spark: SparkSession, plan: Any) -> bool:
    """Return whether a plan always returns the same rows: only filters and projections over files, snapshots of tables or local rows, all deterministic."""
    name = plan.nodeName().partition(" ")[0]
    if name not in _READ_AGAIN or not plan.deterministic() or not plan.subqueries().isEmpty():
        return False
    if name == "LogicalRelation" and plan.relation().getClass().getSimpleName() != _FILES:
        return False
    if name == "DataSourceV2ScanRelation" and python_proxy_behind(spark, plan.scan()) is None:
        return False
    children = plan.children()
    return all(_can_be_read_again(spark, children.apply(index)) for index in range(children.size()))


def _figures(spark: SparkSession, rows: DataFrame, keys: Sequence[MatchKey], count: int | None) -> DataFrame:
    """Return a DataFrame of one row: the Bloom filter, then the least and the greatest value of each key.

    Args:
        spark: the Python session.
        rows: the source.
        keys: its keys.
        count: the estimated number of rows; None for the number of bounds in place of the Bloom filter.
    """
    columns = [F.max(F.lit(2 * len(keys)))]
    if count is not None:
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


def prune_target_by_keys(
    spark: SparkSession, nodes_over_scan: Sequence[Any], relation: Any, source: LargeSource, narrow: str = "narrow"
) -> Any:
    """Return the logical plan of the target, without files, row groups and most rows that match no key of the source.

    The condition is placed above the nodes over the scan, because a key, for example a cast, may fail for rows that the filters in these nodes remove.

    Args:
        spark: the Python session.
        nodes_over_scan: the nodes between the join and the target's scan, from the top.
        relation: the scan relation of the target.
        source: the source whose keys were read.
        narrow: the method of the target's scan that returns a scan with more filters.
    """
    conditions: list[Any] = []
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
        scan = python_proxy_behind(spark, relation.scan()).objectOf(narrow, json.dumps([predicates]))
        relation = with_part(spark, relation, SCAN, scan)
    if source.bloom_filter is not None:  # it is tested last, because bounds are cheaper
        hashes = node(spark, "expressions.XxHash64", sequence(spark, [key.target for key in source.keys]))
        # Spark writes the bytes of a binary literal into every text of the plan, and keeps these texts for a thousand queries.
        content = java_class(spark, "java.io.ByteArrayInputStream")(source.bloom_filter)
        bloom_filter = object_literal(spark, java_class(spark, _BLOOM_FILTER).readFrom(content), _BLOOM_FILTER)
        conditions.append(invoke(spark, bloom_filter, "mightContainLong", data_type(spark, "boolean"), [hashes]))
    if not conditions:
        return stack_nodes(spark, nodes_over_scan, relation)
    condition = reduce(lambda left, right: node(spark, "expressions.And", left, right), conditions)
    return node(spark, "plans.logical.Filter", condition, stack_nodes(spark, nodes_over_scan, relation))
