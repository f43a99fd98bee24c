"""Joins of two tables with the same buckets, with 5 % of the rows deleted by vectors: by their partitions, and with a shuffle of both sides.

Both are Icefloe's, by the settings of the session. `ICEFLOE_BENCH_JOINED_ROWS` sets the number of rows of each table.
"""

import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from benchmarks.measure import Comparison, interleaved, median, say, seconds
from benchmarks.spark_lake import session_with_lake
from benchmarks.spark_scans import jvm_seconds
from icefloe.catalog.sql_catalog import SqlCatalog

ROWS = int(os.environ.get("ICEFLOE_BENCH_JOINED_ROWS", "4000000"))
REPEATS = 3
BUCKETS = 8
BY_PARTITIONS = "spark.sql.sources.v2.bucketing.enabled"
QUERY = "SELECT count(*), sum(o.amount), sum(l.amount) FROM lake.bench.{} o JOIN lake.bench.{} l ON o.id = l.id"


def made_table(spark: SparkSession, catalog: SqlCatalog, name: str) -> str:
    """Create the table if it does not exist yet, and return its name."""
    table = f"{name}_{ROWS}"
    if not catalog.table_exists(f"bench.{table}"):
        say(f"joining: a table of {ROWS:,} rows (created once)")
        properties = "'format-version'='3', 'write.delete.mode'='merge-on-read'"
        columns = "(id BIGINT, amount BIGINT, note STRING)"
        spark.sql(
            f"CREATE TABLE lake.bench.{table} {columns} USING iceberg PARTITIONED BY (bucket({BUCKETS}, id)) TBLPROPERTIES ({properties})"
        )
        spark.sql(f"INSERT INTO lake.bench.{table} SELECT id, xxhash64(id) % 1000, 'note ' || id % 1000 FROM range({ROWS})")
        spark.sql(f"DELETE FROM lake.bench.{table} WHERE id % 20 = {len(name)}")
    return table


def measured(spark: SparkSession, query: Callable[[], Any], *, by_partitions: bool) -> tuple[float, float]:
    """Return the seconds and the CPU seconds of a query."""
    spark.conf.set(BY_PARTITIONS, str(by_partitions).lower())
    started, used = time.perf_counter(), jvm_seconds(spark)
    query()
    return time.perf_counter() - started, jvm_seconds(spark) - used


def run() -> list[Comparison]:
    """Measure the join both ways."""
    with session_with_lake("joining") as (spark, catalog, _):
        text = QUERY.format(*(made_table(spark, catalog, name) for name in ("orders", "lines")))
        spark.conf.set("spark.sql.iceberg.planning.preserve-data-grouping", "true")
        spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
        sides = {
            name: partial(measured, spark, partial(collected, spark, text), by_partitions=name == "partitions")
            for name in ("partitions", "shuffle")
        }
        for side in sides.values():
            side()
        taken = interleaved(REPEATS, sides)
        what = f"Spark SQL, join of two tables of {ROWS:,} rows by the same {BUCKETS} buckets, 5 % deleted by vectors (the same with a shuffle)"
        found = []
        for place, title in enumerate((what, "the same, CPU time of the JVM")):
            ours, theirs = (median([pair[place] for pair in taken[name]]) for name in sides)
            found.append(Comparison(title, seconds(ours), seconds(theirs), ours / theirs, "< 1"))
        return found


def collected(spark: SparkSession, text: str) -> list[Any]:
    """Run a query, which is planned again."""
    return spark.sql(text).collect()
