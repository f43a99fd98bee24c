"""MERGE of a table into a table with the same buckets of the key: by their partitions, and with a shuffle.

Both sides are Icefloe's, by the settings of the session. Each run merges into the same state of the target, which is registered under a new name. The measure
is the CPU time of this process, the JVM and Python's workers. `ICEFLOE_BENCH_MERGED_ROWS` sets the number of rows of the target.
"""

import os
import time
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from benchmarks.measure import Comparison, interleaved, median, say, seconds
from benchmarks.spark_changes import cpu_seconds
from benchmarks.spark_lake import session_with_lake
from icefloe.catalog.sql_catalog import SqlCatalog

ROWS = int(os.environ.get("ICEFLOE_BENCH_MERGED_ROWS", "20000000"))
CHANGED, NEW = ROWS // 20 * 9 // 10, ROWS // 200
REPEATS = int(os.environ.get("ICEFLOE_BENCH_MERGES", "3"))
BUCKETS = 16
BY_PARTITIONS = "spark.sql.sources.v2.bucketing.enabled"
MERGE = """MERGE INTO lake.{} t USING lake.{} s ON t.id = s.id
    WHEN MATCHED THEN UPDATE SET amount = s.amount, note = s.note WHEN NOT MATCHED THEN INSERT *"""
ROWS_OF = {
    "target": f"SELECT id, xxhash64(id) % 1000 AS amount, 'note ' || id % 1000 AS note FROM range({ROWS})",
    # Keys that are spread over the target, and new ones.
    "source": f"""SELECT id, 7 AS amount, 'changed ' || id % 100 AS note
        FROM (SELECT id * {ROWS // CHANGED} AS id FROM range({CHANGED}) UNION ALL SELECT {ROWS} + id FROM range({NEW}))""",
}


def made_table(spark: SparkSession, catalog: SqlCatalog, kind: str) -> str:
    """Create the table if it does not exist yet, and return its name."""
    name = f"bench.{kind}_{ROWS}"
    if not catalog.table_exists(name):
        say(f"merging-buckets: the {kind} (created once)")
        spark.sql(
            f"""CREATE TABLE lake.{name} (id BIGINT, amount BIGINT, note STRING) USING iceberg PARTITIONED BY (bucket({BUCKETS}, id))
            TBLPROPERTIES ('format-version'='3', 'write.merge.mode'='merge-on-read')"""
        )
        spark.sql(f"INSERT INTO lake.{name} {ROWS_OF[kind]}")
    return name


def merged(spark: SparkSession, catalog: SqlCatalog, target: str, source: str, *, by_partitions: bool) -> tuple[float, float, str]:
    """Merge into a copy of the target; return the seconds, the CPU seconds, and a text of the rows."""
    spark.conf.set(BY_PARTITIONS, str(by_partitions).lower())
    name = f"bench.merged_{time.time_ns()}"
    catalog.register_table(name, catalog.load_table(target).metadata_location)
    started, used = time.perf_counter(), cpu_seconds()
    spark.sql(MERGE.format(name, source))
    taken, used = time.perf_counter() - started, cpu_seconds() - used
    rows = spark.sql(f"SELECT count(*), sum(id), sum(amount), sum(crc32(note)) FROM lake.{name}").collect()
    catalog.drop_table(name)
    return taken, used, str(rows)


def run() -> list[Comparison]:
    """Measure the MERGE both ways, and compare the rows."""
    with session_with_lake("merging-buckets") as (spark, catalog, _):
        names = [made_table(spark, catalog, kind) for kind in ("target", "source")]
        spark.conf.set("spark.sql.iceberg.planning.preserve-data-grouping", "true")
        sides = {side: partial(merged, spark, catalog, *names, by_partitions=side == "partitions") for side in ("partitions", "shuffle")}
        for side in sides.values():
            side()
        taken: dict[str, list[Any]] = interleaved(REPEATS, sides)
        if len({rows for runs in taken.values() for _, _, rows in runs}) != 1:
            raise SystemExit("the sides have other rows")
        found = []
        what = (
            f"Spark SQL, MERGE of {CHANGED + NEW:,} rows into {ROWS:,} of the same {BUCKETS} buckets, version 3 (the same with a shuffle)"
        )
        for place, title in enumerate((what, "the same, CPU time")):
            ours, theirs = (median([run[place] for run in taken[side]]) for side in sides)
            found.append(Comparison(title, seconds(ours), seconds(theirs), ours / theirs, "<= 0.6" if place else ""))
        return found
