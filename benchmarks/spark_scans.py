"""Queries with Spark SQL, compared with `spark.read.parquet` on the same files.

A group-by aggregate, a sum and a selective filter run over a table without deletes, with one row in a hundred deleted by deletion vectors or position
deletes, and with 10,000 keys deleted by equality deletes; the time until a query starts is measured too.

Parquet reads all rows. Both sides take turns in one session. The measure is the CPU time of the JVM, since wall-clock time is unreliable on a loaded machine.
`ICEFLOE_BENCH_ROWS` sets the number of rows.
"""

import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from tests.spark.merge_on_read import delete_keys

from benchmarks import measure
from benchmarks.measure import Comparison, interleaved, median, say, seconds
from benchmarks.planning_table import FEW_FILTER, metadata_path
from benchmarks.spark_lake import session_with_lake
from benchmarks.spark_rows import aggregate, rows
from icefloe.catalog.sql_catalog import SqlCatalog

ROWS = int(os.environ.get("ICEFLOE_BENCH_ROWS", "10000000"))
REPEATS = 5
WARM_UP = 3  # runs before the first one that counts: the JVM compiles code that runs often
DELETED_KEYS = 10_000
# The properties of each table, and the goals for aggregate, sum and filter.
TABLES: Mapping[str, tuple[Mapping[str, str], tuple[float, float, float]]] = {
    "no deletes": ({"format-version": "2"}, (1.05, 1.05, 1.05)),
    "1 % deleted by vectors": ({"format-version": "3", "write.delete.mode": "merge-on-read"}, (1.08, 1.15, 1.08)),
    "1 % deleted by position": ({"format-version": "2", "write.delete.mode": "merge-on-read"}, (1.08, 1.15, 1.08)),
    f"{DELETED_KEYS:,} keys deleted": ({"format-version": "2"}, (1.5, 1.15, 1.5)),
}
TICKS = os.sysconf("SC_CLK_TCK")


def jvm_seconds(spark: SparkSession) -> float:
    """Return the CPU seconds of the JVM so far."""
    process = int(spark._jvm.java.lang.ProcessHandle.current().pid())
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def used(spark: SparkSession, query: Callable[[], Any]) -> float:
    """Return the CPU seconds of a query."""
    before = jvm_seconds(spark)
    query()
    return jvm_seconds(spark) - before


def bare_sum(make: Callable[[], DataFrame]) -> list[Any]:
    """Run a sum over one column without groups."""
    return make().agg(f.sum("amount")).collect()


def selective(make: Callable[[], DataFrame]) -> list[Any]:
    """Run a filter on an ordered column that keeps one row in a thousand."""
    return make().where(f.col("id").between(ROWS // 2, ROWS // 2 + ROWS // 1000)).agg(f.count("note"), f.max("amount")).collect()


QUERIES = {"aggregate": aggregate, "bare sum": bare_sum, "selective filter": selective}


def made_table(spark: SparkSession, catalog: SqlCatalog, name: str, kind: str) -> None:
    """Create the table if it does not exist yet."""
    if catalog.table_exists(name):
        return
    say(f"spark-scans: a table of {ROWS:,} rows, {kind} (created once)")
    sales = rows(spark, ROWS)
    table = catalog.create_table(name, schema=sales.limit(1).toArrow().schema, properties=TABLES[kind][0])
    table.append(sales)
    if "1 %" in kind:
        table.delete("amount < 1000")
    elif "keys" in kind:
        step = max(ROWS // DELETED_KEYS, 1)
        delete_keys(table, pa.table({"id": pa.array(range(0, ROWS, step), pa.int64())}), ["id"])


def scans(spark: SparkSession, catalog: SqlCatalog) -> list[Comparison]:
    """Measure every query on every table."""
    found = []
    for place, (kind, (_, goals)) in enumerate(TABLES.items()):
        name = f"bench.scan_{place}_{ROWS}"
        made_table(spark, catalog, name, kind)
        paths = [task.file.file_path for task in catalog.load_table(name).scan().plan_files()]
        makes: dict[str, Callable[[], DataFrame]] = {
            "icefloe": partial(spark.table, f"lake.{name}"),
            "parquet": partial(spark.read.parquet, *paths),
        }
        for (title, query), goal in zip(QUERIES.items(), goals, strict=True):
            sides = {side: partial(query, make) for side, make in makes.items()}
            for side in [*sides.values()] * WARM_UP:
                side()
            taken = interleaved(REPEATS, {side: partial(used, spark, one) for side, one in sides.items()})
            ours, theirs = median(taken["icefloe"]), max(median(taken["parquet"]), 1 / TICKS)
            what = f"Spark SQL, {title} over {ROWS:,} rows, {kind} (spark.read.parquet of all; CPU time)"
            found.append(Comparison(what, seconds(ours), seconds(theirs), ours / theirs, f"<= {goal}"))
    return found


def query_start(spark: SparkSession, catalog: SqlCatalog) -> Comparison:
    """Measure the time from the text of a query on 100,000 files to Spark's executable plan, and the planner alone."""
    name = "bench.many_files"
    if not catalog.table_exists(name):
        catalog.register_table(name, str(metadata_path(measure.BUILD / "planning")))

    def timed(action: Callable[[], Any]) -> float:
        started = time.perf_counter()
        action()
        return time.perf_counter() - started

    sides = {
        "query": partial(timed, lambda: spark.sql(f"SELECT c02 FROM lake.{name} WHERE {FEW_FILTER}")._jdf.queryExecution().executedPlan()),
        "planner": partial(timed, lambda: catalog.load_table(name).scan(FEW_FILTER).plan()),
    }
    for side in [*sides.values()] * WARM_UP:
        side()
    taken = interleaved(REPEATS, sides)
    ours, theirs = median(taken["query"]), median(taken["planner"])
    return Comparison(
        "Spark SQL, start of a query on 100,000 files (the planner alone)", seconds(ours), seconds(theirs), ours / theirs, "< 1.5"
    )


def run() -> list[Comparison]:
    """Run all comparisons in one session."""
    with session_with_lake("spark-scans") as (spark, catalog, _):
        return [query_start(spark, catalog), *scans(spark, catalog)]
