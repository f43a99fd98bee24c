"""The source of a MERGE whose rows fit on the driver.

Reading the source once ensures that both joins of `merge_planner.py` use the same rows. The values of its keys prune the target (`target_pruning.py`).
`bridge/java/GatheredRows.java` holds the rows.
"""

from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from icefloe.spark.bridge.catalyst_plan import rows_of
from icefloe.spark.bridge.gateway import new_object

# The maximum bytes of a MERGE's source on the driver. In a merge with 10 million target rows, a driver with Spark's default 1 GB, which also ran the tasks,
# used 54 MB for the source, in a third of the CPU time of Spark's own join.
MOST_SOURCE_BYTES = 64 * 1024 * 1024
# The number of rows that are read before their size is measured, and the bytes of the objects that hold a row, besides its values.
_FIRST_ROWS, _ROW_OVERHEAD_BYTES = 10_000, 64
# Rows of the source in each task of the join.
_ROWS_PER_TASK = 5000
# In bytes. If Spark has no estimate, for example for rows from Python or from a stream, it reports this size or more; then the first rows are measured.
_UNKNOWN_BYTES = 2**50


@dataclass(frozen=True, slots=True, kw_only=True)
class BroadcastSource:
    """The rows of a MERGE's source, all of which are in the driver's JVM.

    Attributes:
        rows: Java's `GatheredRows` object.
        count: number of rows.
        size: memory of the rows in bytes.
    """

    rows: Any
    count: int
    size: int


def read_small_source(spark: SparkSession, session: Any, source: Any) -> BroadcastSource | None:
    """Read the rows of a MERGE's source to the driver; return None if they would take more than `MOST_SOURCE_BYTES`.

    First some rows are read, to measure their size and to compute how many rows are within the limit. Then all rows are read.
    """
    most_rows = first_rows(source.stats().sizeInBytes(), source.schema().defaultSize())
    if most_rows == 0:
        return None
    executed_plan = rows_of(spark, session, source)._jdf.queryExecution().executedPlan()
    small_source = _read(spark, executed_plan, most_rows + 1)
    if small_source.count > most_rows:
        most_rows = MOST_SOURCE_BYTES * small_source.count // small_source.size
        if most_rows < small_source.count:
            return None
        small_source = _read(spark, executed_plan, most_rows + 1)
    return small_source if small_source.count <= most_rows and small_source.size <= MOST_SOURCE_BYTES else None


def is_known(size: int) -> bool:
    """Return whether the size in bytes that Spark reports for a source is an estimate, and not the huge default for unknown sizes."""
    return size < _UNKNOWN_BYTES


def first_rows(size: int, row_size: int) -> int:
    """Return the number of rows of a source to read first.

    Args:
        size: Spark's estimate of the source, in bytes.
        row_size: Spark's estimate of one row, in bytes.

    Returns:
        The number of rows; 0 if the source is larger than `MOST_SOURCE_BYTES` by Spark's estimate, so that it should not be read.
    """
    estimate = size if is_known(size) else 0
    return 0 if estimate > MOST_SOURCE_BYTES else min(_FIRST_ROWS, MOST_SOURCE_BYTES // max(row_size, 1))


def source_plan(spark: SparkSession, session: Any, schema: Any, source: BroadcastSource) -> Any:
    """Return a logical plan over the rows of a source, with new attribute ids; `schema` is the Spark schema of the rows.

    It is a plan over an RDD, because for a plan of local rows every rule of Spark's optimizer would visit each row.
    """
    tasks = min(1 + source.count // _ROWS_PER_TASK, spark.sparkContext.defaultParallelism)
    rows = spark.sparkContext._jsc.parallelize(source.rows.list(), tasks)
    return session.internalCreateDataFrame(rows.rdd(), schema, False).queryExecution().analyzed()


def _read(spark: SparkSession, executed_plan: Any, most_rows: int) -> BroadcastSource:
    array = executed_plan.executeTake(most_rows)
    rows, count = new_object(spark, "GatheredRows", array), len(array)
    return BroadcastSource(rows=rows, count=count, size=rows.bytes() + count * _ROW_OVERHEAD_BYTES)
