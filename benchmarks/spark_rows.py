"""Reads and writes of many rows with Spark, compared with Spark's Parquet reader and writer.

An aggregate over a table, with and without deleted rows, is compared with `spark.read.parquet` on the same files; an append with `df.write.parquet` of the
same rows. Both sides take turns in one session; the times include planning or listing, the job, and the commit.
"""

import math
import shutil
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from benchmarks.measure import Comparison, interleaved, median, say, seconds
from benchmarks.spark_lake import new_lake_in, session_with_lake
from icefloe.catalog.sql_catalog import SqlCatalog

ROWS_READ, ROWS_WRITTEN, PARTITIONS = 20_000_000, 10_000_000, 8
REPEATS_OF_READS, REPEATS_OF_WRITES = 7, 5
CODEC = "zstd"
TABLE = "bench.sales"
TABLE_WITH_DELETES = "bench.sales_with_deletes"
LEAST_AMOUNT_LEFT = 1000  # amounts are uniform between 0 and 100,000


def rows(spark: SparkSession, count: int) -> DataFrame:
    """Return sales: an ordered id, one of 100 categories, amounts that do not compress, times, and a text."""
    number = f.col("id")
    return spark.range(0, count, 1, PARTITIONS).select(
        number,
        f.concat(f.lit("category "), f.pmod(f.xxhash64(number), f.lit(100)).cast("string")).alias("category"),
        (f.pmod(f.xxhash64(number, f.lit(1)), f.lit(10_000_000)) / 100.0).alias("amount"),
        f.pmod(f.xxhash64(number, f.lit(2)), f.lit(50)).cast("int").alias("quantity"),
        f.timestamp_seconds(f.lit(1_700_000_000) + number).alias("sold_at"),
        f.concat(f.lit("note "), f.pmod(f.xxhash64(number, f.lit(3)), f.lit(1_000_000)).cast("string")).alias("note"),
    )


def rows_in_parquet(spark: SparkSession, folder: Path, count: int) -> str:
    """Write the sales to a folder once; return the folder."""
    path = str(folder / f"source-{count}")
    if not Path(path, "_SUCCESS").exists():
        rows(spark, count).write.mode("overwrite").parquet(path)
    return path


def timed(action: Callable[[], Any]) -> float:
    """Return the seconds of an action."""
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def aggregate(make: Callable[[], DataFrame]) -> list[Any]:
    """Run the same aggregate on either side."""
    grouped = make().groupBy("category").agg(f.count("*"), f.sum("amount"), f.avg("quantity"), f.max("sold_at"), f.max(f.length("note")))
    return sorted(grouped.collect())


def same(left: list[Any], right: list[Any]) -> bool:
    """Return True if two results are equal, except for the last digits of sums of doubles, which depend on the order of the additions."""
    cells = [pair for one, other in zip(left, right, strict=True) for pair in zip(one, other, strict=True)]
    return all(math.isclose(one, other) if isinstance(one, float) else one == other for one, other in cells)


def size_of(folder: Path) -> int:
    """Return the bytes of the Parquet files in a folder tree."""
    return sum(path.stat().st_size for path in folder.rglob("*.parquet"))


def reading(spark: SparkSession, catalog: SqlCatalog) -> Comparison:
    """Measure the aggregate over 20 million rows; the table is created once."""
    if not catalog.table_exists(TABLE):
        say(f"spark: a table of {ROWS_READ:,} rows (made once)")
        made = rows(spark, ROWS_READ)
        catalog.create_table(TABLE, schema=made.limit(1).toArrow().schema).append(made)
    paths = [task.file.file_path for task in catalog.load_table(TABLE).scan().plan_files()]
    sides = {
        "icefloe": lambda: catalog.load_table(TABLE).scan().to_spark(),
        "parquet": lambda: spark.read.parquet(*paths),
    }
    if not same(aggregate(sides["icefloe"]), aggregate(sides["parquet"])):  # it also warms up both sides
        raise SystemExit("the aggregates differ")
    say("spark: the aggregate, in turns")
    taken = interleaved(REPEATS_OF_READS, {name: partial(timed, partial(aggregate, make)) for name, make in sides.items()})
    ours, theirs = median(taken["icefloe"]), median(taken["parquet"])
    return Comparison(
        f"Spark aggregate over {ROWS_READ:,} rows (spark.read.parquet)", seconds(ours), seconds(theirs), ours / theirs, "<= 1.05"
    )


def reading_with_deletes(spark: SparkSession, catalog: SqlCatalog) -> Comparison:
    """Measure the aggregate over 10 million rows of which deletion vectors delete scattered ones, one in a hundred; Parquet reads all rows."""
    if not catalog.table_exists(TABLE_WITH_DELETES):
        say(f"spark: a table of {ROWS_WRITTEN:,} rows, and vectors that delete one in a hundred (made once)")
        made = rows(spark, ROWS_WRITTEN)
        settings = {"format-version": "3", "write.delete.mode": "merge-on-read"}
        table = catalog.create_table(TABLE_WITH_DELETES, schema=made.limit(1).toArrow().schema, properties=settings)
        table.append(made)
        table.delete(f"amount < {LEAST_AMOUNT_LEFT}")
    paths = [task.file.file_path for task in catalog.load_table(TABLE_WITH_DELETES).scan().plan_files()]
    sides = {
        "icefloe": lambda: catalog.load_table(TABLE_WITH_DELETES).scan().to_spark(),
        "parquet": lambda: spark.read.parquet(*paths),
    }
    left = aggregate(lambda: spark.read.parquet(*paths).where(f.col("amount") >= LEAST_AMOUNT_LEFT))
    if not same(aggregate(sides["icefloe"]), left):
        raise SystemExit("the aggregates differ")
    say("spark: the aggregate over what is left, in turns")
    taken = interleaved(REPEATS_OF_READS, {name: partial(timed, partial(aggregate, make)) for name, make in sides.items()})
    ours, theirs = median(taken["icefloe"]), median(taken["parquet"])
    return Comparison(
        f"Spark aggregate over {ROWS_WRITTEN:,} rows, 1 % deleted by vectors (spark.read.parquet of all)",
        seconds(ours),
        seconds(theirs),
        ours / theirs,
        "<= 1.15",
    )


def writing(spark: SparkSession, folder: Path) -> Comparison:
    """Measure an append of 10 million rows, read from Parquet, with the same codec."""
    source = rows_in_parquet(spark, folder, ROWS_WRITTEN)
    scratch = folder / "written"
    catalog = new_lake_in(scratch)
    schema = spark.read.parquet(source).limit(1).toArrow().schema
    sizes: dict[str, int] = {}

    def append() -> float:
        table = catalog.create_table("bench.written", schema=schema, properties={"write.parquet.compression-codec": CODEC})
        taken = timed(lambda: table.append(spark.read.parquet(source)))
        sizes["icefloe"] = size_of(scratch / "warehouse")
        catalog.drop_table("bench.written")
        shutil.rmtree(scratch / "warehouse")
        return taken

    def write() -> float:
        plain = scratch / "plain"
        taken = timed(lambda: spark.read.parquet(source).write.option("compression", CODEC).parquet(str(plain)))
        sizes["parquet"] = size_of(plain)
        shutil.rmtree(plain)
        return taken

    say("spark: the append, in turns")
    sides = {"icefloe": append, "parquet": write}
    for side in sides.values():
        side()
    taken = interleaved(REPEATS_OF_WRITES, sides)
    shutil.rmtree(scratch)
    ours, theirs = (median(taken[side]) for side in ("icefloe", "parquet"))
    ours_text, theirs_text = (f"{seconds(value)}, {sizes[side] / 1e6:.0f} MB" for value, side in ((ours, "icefloe"), (theirs, "parquet")))
    return Comparison(f"Spark append of {ROWS_WRITTEN:,} rows, {CODEC} (df.write.parquet)", ours_text, theirs_text, ours / theirs, "<= 1.1")


def run() -> list[Comparison]:
    """Run all comparisons in one session."""
    with session_with_lake("spark") as (spark, catalog, folder):
        return [reading(spark, catalog), reading_with_deletes(spark, catalog), writing(spark, folder)]
