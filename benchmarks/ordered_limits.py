"""ORDER BY with LIMIT over a table of many files in the order of their column, compared with `spark.read.parquet` on the same files, which reads all of them.

The rows of both sides are compared. The measure is the CPU time of the JVM. `ICEFLOE_BENCH_ROWS` sets the number of rows.
"""

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from benchmarks.measure import Comparison, interleaved, median, say, seconds
from benchmarks.spark_lake import session_with_lake
from benchmarks.spark_scans import REPEATS, TICKS, WARM_UP, used
from icefloe.catalog.sql_catalog import SqlCatalog

ROWS = int(os.environ.get("ICEFLOE_BENCH_ROWS", "10000000"))
FILES = 100


def made_table(catalog: SqlCatalog) -> str:
    """Create the table if it does not exist yet, and return its name."""
    name = f"bench.ordered_{ROWS}"
    if not catalog.table_exists(name):
        say(f"ordered-limits: a table of {ROWS:,} rows (created once)")
        schema = pa.schema([("id", pa.int64()), ("amount", pa.float64()), ("note", pa.string())])
        table = catalog.create_table(name, schema)
        count = ROWS // FILES
        for start in range(0, FILES * count, count):
            ids = np.arange(start, start + count)
            table.append(pa.table({"id": ids, "amount": ids % 1009 / 4, "note": pa.array(ids).cast(pa.string())}))
    return name


def last_rows(make: Callable[[], DataFrame]) -> list[Any]:
    """Return the rows with the greatest ids."""
    return make().orderBy(f.desc("id")).limit(100).collect()


def next_page(make: Callable[[], DataFrame]) -> list[Any]:
    """Return the first rows after an id, as a page after another page."""
    return make().where(f.col("id") > ROWS // 3).orderBy("id").limit(100).collect()


def compared(spark: SparkSession, catalog: SqlCatalog) -> list[Comparison]:
    """Measure both queries on both sides."""
    name = made_table(catalog)
    paths = [task.file.file_path for task in catalog.load_table(name).scan().plan_files()]
    makes: dict[str, Callable[[], DataFrame]] = {
        "icefloe": partial(spark.table, f"lake.{name}"),
        "parquet": partial(spark.read.parquet, *paths),
    }
    found = []
    for title, query in {"ORDER BY id DESC LIMIT 100": last_rows, "WHERE id > n ORDER BY id LIMIT 100": next_page}.items():
        sides = {side: partial(query, make) for side, make in makes.items()}
        if len({str(side()) for side in [*sides.values()] * WARM_UP}) != 1:
            raise SystemExit("the sides have other rows")
        taken = interleaved(REPEATS, {side: partial(used, spark, run_query) for side, run_query in sides.items()})
        ours, theirs = median(taken["icefloe"]), max(median(taken["parquet"]), 1 / TICKS)
        what = f"Spark SQL, {title} over {ROWS:,} rows in {FILES} files (spark.read.parquet; CPU time)"
        found.append(Comparison(what, seconds(ours), seconds(theirs), ours / theirs, "<= 0.2"))
    return found


def run() -> list[Comparison]:
    """Measure both queries in one session."""
    with session_with_lake("ordered-limits") as (spark, catalog, _):
        return compared(spark, catalog)
