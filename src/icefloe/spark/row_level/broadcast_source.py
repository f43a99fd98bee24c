"""The rows of a MERGE whose source is small, computed otherwise: the source is read first, once, and stays on the driver.

Then only those rows of the target take part in the join that match one of the source, which Spark tests while it scans, and only files are read that may have
such rows (`target_pruning.py`). Rows of the target that match nothing must not be wanted. It is Spark's own plan that is changed (`catalyst_plan.py`).
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from icefloe.spark.bridge.catalyst_plan import catalyst_object, chain, chained, node, python_proxy_behind, rows_of, some, with_part
from icefloe.spark.bridge.java_compiler import new_object
from icefloe.spark.row_level.target_pruning import Key, keys_of, narrowed

# Joins of a target with a source by which a MERGE finds its rows, and of a source with a target by which it only inserts.
OF_MERGE, OF_INSERTS = ("Inner", "RightOuter"), ("LeftAnti",)
# Bytes that the source of a MERGE may take on the driver to be read before the target and sent to wherever that is read. Beside 10 million rows, a driver of
# Spark's default 1 GB, which ran the tasks too, took 54 MB in a third of the CPU time that Spark's own join with them takes.
MOST_SOURCE_BYTES = 64 * 1024 * 1024
# Rows of it that are read before it is known how large they are, and the bytes of the objects that hold a row.
_FIRST_ROWS, _BYTES_BESIDE_A_ROW = 10_000, 64
# Rows of it in a task of the join, where there are more.
_ROWS_OF_A_TASK = 5000
# Above this Spark does not know how many there are, as of rows that Python or a stream gave it; then it is tried.
_UNKNOWN_BYTES = 2**50
# The place of the columns in `LogicalRDD`.
_OUTPUT = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Merge:
    """Where a query joins a small source with a table: the nodes above the join, the source, the table's scan with the nodes above that, and what matches."""

    above: list[Any]
    join: Any
    kind: str
    source: Any
    over: list[Any]
    target: Any
    condition: Any
    keys: list[Key]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """Rows of a source as `GatheredRows`, their number, and the bytes that they take."""

    rows: Any
    count: int
    size: int


def merge_rows_of(spark: SparkSession, session: Any, query: Any, joins: Collection[str]) -> DataFrame:
    """The rows of a query in a session of Java's, as Spark planned them or better, where it has one of these joins."""
    merge = _merge(spark, query, joins) if joins else None
    source = None if merge is None else _gathered(spark, session, merge.source)
    return rows_of(spark, session, query if merge is None or source is None else _changed(spark, session, merge, source))


def _merge(spark: SparkSession, query: Any, joins: Collection[str]) -> _Merge | None:
    """The join of a query, if rows of its target can be tested while they are scanned, and some be looked up by an equality."""
    above, join, name = chain(query, ("Project", "Filter", "MergeRows"))
    if name != "Join" or (kind := join.joinType().toString()) not in joins or not join.condition().isDefined():
        return None
    source, side = (join.left(), join.right()) if kind in OF_INSERTS else (join.right(), join.left())
    over, target, name = chain(side, ("Project", "Filter"))
    if name != "DataSourceV2ScanRelation" or python_proxy_behind(spark, target.scan()) is None:
        return None
    condition = join.condition().get()
    if not condition.deterministic() or catalyst_object(spark, "expressions.SubqueryExpression").hasSubquery(condition):
        return None
    # What the nodes above the scan compute is not known where it is tested.
    columns, given = target.outputSet(), source.outputSet()
    keys = keys_of(condition, columns, given) if condition.references().subsetOf(getattr(columns, "$plus$plus")(given)) else []
    if not keys:
        return None
    return _Merge(above=above, join=join, kind=kind, source=source, over=over, target=target, condition=condition, keys=keys)


def rows_to_look_at(size: int, width: int) -> int:
    """How many rows of a source are read first, by what Spark reckons of its bytes, and of those of a row. 0: it is too large."""
    known = size if size < _UNKNOWN_BYTES else 0
    return 0 if known > MOST_SOURCE_BYTES else min(_FIRST_ROWS, MOST_SOURCE_BYTES // max(width, 1))


def _gathered(spark: SparkSession, session: Any, source: Any) -> _Source | None:
    """The source's rows; None where they are too large. How large they are is known when the first are read."""
    first = rows_to_look_at(source.stats().sizeInBytes(), source.schema().defaultSize())
    if first == 0:
        return None
    reading = rows_of(spark, session, source)._jdf.queryExecution().executedPlan()
    found = _read(spark, reading, first + 1)
    if found.count > first:
        first = MOST_SOURCE_BYTES * found.count // found.size
        if first < found.count:
            return None
        found = _read(spark, reading, first + 1)
    return found if found.count <= first and found.size <= MOST_SOURCE_BYTES else None


def _read(spark: SparkSession, reading: Any, most: int) -> _Source:
    array = reading.executeTake(most)
    rows, count = new_object(spark, "GatheredRows", array), len(array)
    return _Source(rows=rows, count=count, size=rows.bytes() + count * _BYTES_BESIDE_A_ROW)


def _changed(spark: SparkSession, session: Any, merge: _Merge, source: _Source) -> Any:
    columns = merge.source.output()
    again = _plan(spark, session, merge.source.schema(), source)
    given = with_part(spark, again, _OUTPUT, columns)
    target = narrowed(spark, merge.target, merge.keys, columns, source.rows)
    condition, hint = merge.join.condition(), merge.join.hint()
    sent = some(spark, node(spark, "plans.logical.HintInfo", some(spark, catalyst_object(spark, "plans.logical.BROADCAST"))))
    if merge.kind == "Inner":
        hint = node(spark, "plans.logical.JoinHint", hint.leftHint(), sent)
    else:
        # Such a join cannot send the source to where the target is read; a semi join before it can.
        only = node(spark, "plans.logical.JoinHint", some(spark, None), sent)
        semi = node(spark, "plans.logical.Join", target, again, catalyst_object(spark, "plans.LeftSemi"), condition, only)
        target = semi.rewriteAttrs(catalyst_object(spark, "expressions.AttributeMap").apply(columns.zip(again.output())))
    matching = chained(spark, merge.over, target)
    sides = (given, matching) if merge.kind in OF_INSERTS else (matching, given)
    return chained(spark, merge.above, node(spark, "plans.logical.Join", *sides, merge.join.joinType(), condition, hint))


def _plan(spark: SparkSession, session: Any, schema: Any, source: _Source) -> Any:
    """Rows of the source in a plan, under new ids. Spark's plan of local rows would be gone through, row by row, by every rule of its optimizer."""
    tasks = min(1 + source.count // _ROWS_OF_A_TASK, spark.sparkContext.defaultParallelism)
    rows = spark.sparkContext._jsc.parallelize(source.rows.list(), tasks)
    return session.internalCreateDataFrame(rows.rdd(), schema, False).queryExecution().analyzed()
