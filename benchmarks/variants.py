"""Queries that extract and filter paths of variants with Spark SQL, compared with Spark's own reader: on the same files, and on Parquet files that Spark wrote.

Spark shreds variants by its settings, and Icefloe by a property of the table, as Java does. Whole variants are compared with whole ones, and shredded with
shredded ones, also where a part of the rows is deleted. The measure is the CPU time of the JVM, which reads all files. `ICEFLOE_BENCH_ROWS` sets the number of
rows.
"""

import os
from collections.abc import Callable
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from benchmarks.measure import Comparison, interleaved, median, say, seconds
from benchmarks.spark_lake import session_with_lake
from benchmarks.spark_scans import TICKS, used
from icefloe.catalog.sql_catalog import SqlCatalog

ROWS = int(os.environ.get("ICEFLOE_BENCH_ROWS", "10000000"))
FILES = 4
REPEATS = 5
WARM_UP = 3
DOCUMENT = """parse_json(concat(
    '{"kind":"k', id % 97, '","amount":', id % 100003, ',"user":{"name":"n', id % 1009, '","tags":["a","b"]},"note":"row ', id, '"}'
))"""
QUERIES = {
    "one path, filtered by another": "SELECT count(*), sum(variant_get(v, '$.amount', 'bigint')) FROM {} WHERE variant_get(v, '$.kind', 'string') = 'k5'",
    "one path": "SELECT max(variant_get(v, '$.user.name', 'string')) FROM {}",
}
SHREDDING = ("spark.sql.variant.writeShredding.enabled", "spark.sql.variant.inferShreddingSchema")


def made_tables(spark: SparkSession, catalog: SqlCatalog, folder: str) -> None:
    """Create the tables and the folders of Parquet files that do not exist yet."""
    for shredded in ("false", "true"):
        name = f"bench.shredded_{shredded}_{ROWS}"
        if catalog.table_exists(name):
            continue
        say(f"variants: {ROWS:,} variants, shredded: {shredded} (created once)")
        for setting in SHREDDING:
            spark.conf.set(setting, shredded)
        spark.range(0, ROWS, 1, FILES).selectExpr("id", f"{DOCUMENT} AS v").write.mode("overwrite").parquet(f"{folder}/{shredded}_{ROWS}")
        properties = f"'format-version' = '3', 'write.parquet.shred-variants' = '{shredded}', 'write.delete.mode' = 'merge-on-read'"
        spark.sql(f"CREATE TABLE lake.{name} (id BIGINT, v VARIANT) TBLPROPERTIES ({properties})")
        spark.read.parquet(f"{folder}/{shredded}_{ROWS}").writeTo(f"lake.{name}").append()
    deleted = f"bench.deleted_{ROWS}"
    if not catalog.table_exists(deleted):
        spark.sql(f"CREATE TABLE lake.{deleted} LIKE lake.bench.shredded_true_{ROWS}")
        spark.read.parquet(f"{folder}/true_{ROWS}").writeTo(f"lake.{deleted}").append()
        spark.sql(f"DELETE FROM lake.{deleted} WHERE id % 100 = 7")


def run() -> list[Comparison]:
    """Run all comparisons in one session."""
    comparisons = []
    with session_with_lake("variants") as (spark, catalog, folder):
        if spark.version < "4.1":
            say("variants: Spark 4.0 cannot open Parquet files with variants")
            return []
        made_tables(spark, catalog, str(folder))
        for shredded in ("false", "true"):
            name = f"bench.shredded_{shredded}_{ROWS}"
            same = [task.file.file_path for task in catalog.load_table(name).scan().plan_files()]
            spark.read.parquet(*same).createOrReplaceTempView(f"same_{shredded}")
            spark.read.parquet(f"{folder}/{shredded}_{ROWS}").createOrReplaceTempView(f"shredded_{shredded}")
        whole, shredded = f"lake.bench.shredded_false_{ROWS}", f"lake.bench.shredded_true_{ROWS}"
        sides = {
            "whole, the same files": (whole, "same_false", 1.1),
            "whole": (whole, "shredded_false", 1.1),
            "shredded, the same files": (shredded, "same_true", 1.1),
            "shredded": (shredded, "shredded_true", 1.1),
            "shredded, 1 % deleted by vectors": (f"lake.bench.deleted_{ROWS}", "shredded_true", 1.3),
        }
        for kind, (ours, theirs, goal) in sides.items():
            for title, query in QUERIES.items():
                taken = _seconds(spark, {"icefloe": query.format(ours), "parquet": query.format(theirs)}, is_equal="deleted" not in kind)
                what = f"Spark SQL, {title} of {ROWS:,} variants, {kind} (Spark's Parquet; CPU time)"
                mine, other = taken["icefloe"], max(taken["parquet"], 1 / TICKS)
                comparisons.append(Comparison(what, seconds(mine), seconds(other), mine / other, f"<= {goal}"))
    return comparisons


def _seconds(spark: SparkSession, queries: dict[str, str], *, is_equal: bool) -> dict[str, float]:
    results: dict[str, Any] = {}

    def collect(side: str) -> None:
        results[side] = spark.sql(queries[side]).collect()

    actions: dict[str, Callable[[], float]] = {side: partial(used, spark, partial(collect, side)) for side in queries}
    for action in [*actions.values()] * WARM_UP:
        action()
    if is_equal and results["icefloe"] != results["parquet"]:
        raise SystemExit("the two sides gave different results")
    return {side: median(times) for side, times in interleaved(REPEATS, actions).items()}
