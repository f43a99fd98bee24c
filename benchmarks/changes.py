"""The changes of one row in a hundred of a table with deletion vectors, compared with a full comparison of both snapshots by Spark (EXCEPT in both directions).

The changed rows are adjacent, as where recent rows change, or scattered over all files. Both sides return the two images of each updated row. The measures are
the CPU time of the JVM, its Python workers and this process together, and the bytes that the JVM reads, beside those of the data files of both snapshots.
`ICEFLOE_BENCH_ROWS` sets the number of rows.
"""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from benchmarks.measure import Comparison, interleaved, median, say, seconds
from benchmarks.spark_changes import used
from benchmarks.spark_lake import session_with_lake
from icefloe.catalog.sql_catalog import SqlCatalog
from icefloe.spark.scan.change_feed import changes_frame
from icefloe.table import Table

ROWS = int(os.environ.get("ICEFLOE_BENCH_ROWS", "1000000"))
FILES = 20
REPEATS = 3
# The condition of the rows that change.
CHANGED = {"adjacent": f"id >= {ROWS - ROWS // 100}", "scattered": "id % 100 = 7"}
# Several row groups a file, as in files of the default size of 512 MB with row groups of 128 MB.
ROW_GROUPS = {"write.parquet.row-group-size-bytes": str(max(ROWS // 10, 2**16))}
MODES = {f"write.{verb}.mode": "merge-on-read" for verb in ("delete", "update", "merge")}


def made_table(spark: SparkSession, catalog: SqlCatalog, name: str, condition: str) -> Table:
    """Create the table if it does not exist yet: an append of all rows, and an update of one in a hundred."""
    if catalog.table_exists(name):
        return catalog.load_table(name)
    say(f"changes: a table of {ROWS:,} rows in {FILES} files, and an update of one in a hundred (created once)")
    schema = pa.schema(
        [("id", pa.int64()), ("kind", pa.string()), ("amount", pa.float64()), ("at", pa.timestamp("us")), ("note", pa.string())]
    )
    table = catalog.create_table(name, schema, properties={"format-version": "3", **ROW_GROUPS, **MODES})
    random, count = np.random.default_rng(7), ROWS // FILES
    kinds = pa.array(["order", "return", "offer", "visit"])
    for start in range(0, FILES * count, count):
        ids = np.arange(start, start + count)
        columns = [
            ids,
            kinds.take(pa.array(random.integers(0, 4, count))),
            random.random(count),
            ids * 1000,
            pa.array(ids % 100_003).cast(pa.string()),
        ]
        table.append(pa.table([pa.array(column) for column in columns], names=schema.names).cast(schema))
    spark.sql(f"UPDATE lake.{name} SET amount = amount + 1 WHERE {condition}")
    return table.refresh()


def changes(spark: SparkSession, table: Table, *, compute_updates: bool = True) -> DataFrame:
    """Return the images of the updated rows by the change feed, or with `compute_updates=False` the deleted and inserted rows."""
    return changes_frame(spark, table.changes(table.snapshots()[-2].snapshot_id, compute_updates=compute_updates))


def comparison(spark: SparkSession, name: str, table: Table) -> DataFrame:
    """Return the rows that differ by a comparison of both snapshots."""
    before, after = (spark.read.option("snapshot-id", snapshot.snapshot_id).table(f"lake.{name}") for snapshot in table.snapshots()[-2:])
    return before.exceptAll(after).withColumn("side", f.lit("old")).unionAll(after.exceptAll(before).withColumn("side", f.lit("new")))


def bytes_read(spark: SparkSession, action: Callable[[], Any]) -> int:
    """Return the bytes that the JVM reads from files and sockets during an action."""
    process = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()

    def total() -> int:
        lines = Path(f"/proc/{process}/io").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("rchar")).split()[1])

    before = total()
    action()
    return total() - before


def compared(spark: SparkSession, catalog: SqlCatalog) -> list[Comparison]:
    """Measure both sides for adjacent and for scattered changes."""
    lines = []
    for layout, condition in CHANGED.items():
        name = f"bench.changed_{layout}_in_groups_{ROWS}"
        table = made_table(spark, catalog, name, condition)
        sides = {"icefloe": partial(changes, spark, table), "except": partial(comparison, spark, name, table)}
        counts = {side: make().count() for side, make in sides.items()}
        if set(counts.values()) != {2 * (ROWS // 100)}:
            raise SystemExit(f"the sides have other numbers of rows: {counts}")
        runs = {side: partial(run_query, make) for side, make in sides.items()}
        taken = interleaved(REPEATS, {side: partial(used, run) for side, run in runs.items()})
        ours, theirs = median(taken["icefloe"]), median(taken["except"])
        what = f"changes of 1 % of {ROWS:,} rows, {layout} (EXCEPT in both directions; CPU time)"
        lines.append(Comparison(what, seconds(ours), seconds(theirs), ours / theirs, "<= 0.05"))
        # Without updates, because the shuffle of their rows is read from files too.
        read = bytes_read(spark, partial(run_query, partial(changes, spark, table, compute_updates=False)))
        snapshots = table.snapshots()[-2:]
        whole = sum(
            task.file.file_size_in_bytes for snapshot in snapshots for task in table.scan(snapshot_id=snapshot.snapshot_id).plan_files()
        )
        goal = "<= 0.03" if layout == "adjacent" else ""
        lines.append(
            Comparison(f"the same: bytes read (data files of both snapshots), {layout}", f"{read:,}", f"{whole:,}", read / whole, goal)
        )
    return lines


def run_query(make: Callable[[], DataFrame]) -> None:
    """Compute all rows and columns."""
    make().write.format("noop").mode("overwrite").save()


def run() -> list[Comparison]:
    """Measure both sides in one session."""
    with session_with_lake("changes") as (spark, catalog, _):
        return compared(spark, catalog)
