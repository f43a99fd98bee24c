"""Changes with Spark SQL, compared with Spark's Parquet reader and writer.

A merge-on-read MERGE of a few rows into many and DELETE of one row in a hundred are compared with a group-by aggregate over the same files by
`spark.read.parquet`; an append to 100 partitions with `df.repartition(...).write.partitionBy(...).parquet`.

Both sides take turns in one session. The measure is the CPU time of the JVM, its Python workers and this process together.
Each change is rolled back before the next statement. `ICEFLOE_BENCH_ROWS` sets the number of rows.
"""

import os
import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from benchmarks import measure
from benchmarks.measure import Comparison, interleaved, median, say, seconds
from benchmarks.spark_lake import new_lake_in, session_with_lake
from benchmarks.spark_rows import aggregate, rows, rows_in_parquet
from icefloe.catalog.sql_catalog import SqlCatalog
from icefloe.spark.attach_catalog import attach

ROWS = int(os.environ.get("ICEFLOE_BENCH_ROWS", "10000000"))
MERGED = ROWS // 100
REPEATS = 5
TICKS = os.sysconf("SC_CLK_TCK")
TABLES: Mapping[str, Mapping[str, str]] = {
    "v2": {"format-version": "2"},
    "v3": {"format-version": "3"},
}
MODES = {f"write.{verb}.mode": "merge-on-read" for verb in ("delete", "update", "merge")}
MERGE = "MERGE INTO lake.{table} t USING {source} s ON t.id = s.id WHEN MATCHED THEN UPDATE SET amount = s.amount, note = s.note"
INSERT = " WHEN NOT MATCHED THEN INSERT *"
GOALS = {"MERGE of updates": 2.0, "MERGE, half of it inserts": 2.0, "DELETE of 1 %": 0.5}


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and its descendants so far; ended processes count for the parent that waited for them."""
    parents: dict[int, tuple[int, float]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # the process has ended
            parents[int(folder.name)] = (int(fields[1]), sum(map(int, fields[11:15])) / TICKS)
    known, total = {os.getpid()}, parents[os.getpid()][1]
    found = True
    while found:
        found = {process for process, (parent, _) in parents.items() if parent in known and process not in known}
        known |= found
        total += sum(parents[process][1] for process in found)
    return total


def used(action: Callable[[], Any]) -> float:
    """Return the CPU seconds of an action."""
    before = cpu_seconds()
    action()
    return cpu_seconds() - before


def source(spark: SparkSession, folder: Path, name: str, first: int) -> None:
    """Create a view of `MERGED` rows in Parquet: every hundredth row from `first` on, and the others after the last row of the table."""
    path = folder / f"{name}-{ROWS}"
    if not (path / "_SUCCESS").exists():
        made = rows(spark, 2 * ROWS).where((f.col("id") % 100 == 7) & (f.col("id") >= first) & (f.col("id") < first + 100 * MERGED))
        made.withColumn("note", f.lit("changed")).coalesce(1).write.mode("overwrite").parquet(str(path))
    spark.read.parquet(str(path)).createOrReplaceTempView(name)


def changes(spark: SparkSession, catalog: SqlCatalog) -> list[Comparison]:
    """Measure every statement on every table."""
    found = []
    statements = {
        "MERGE of updates": MERGE.format(table="{table}", source="updates"),
        "MERGE, half of it inserts": (MERGE + INSERT).format(table="{table}", source="half"),
        "DELETE of 1 %": "DELETE FROM lake.{table} WHERE amount < 1000",
    }
    for version, properties in TABLES.items():
        name = f"bench.changed_{version}_{ROWS}"
        if not catalog.table_exists(name):
            say(f"spark-changes: a table of {ROWS:,} rows, {version} (made once)")
            made = rows(spark, ROWS)
            catalog.create_table(name, schema=made.limit(1).toArrow().schema, properties={**properties, **MODES}).append(made)
        first = catalog.load_table(name).history()[0].snapshot_id
        rolled_back(catalog, name, first)
        paths = [task.file.file_path for task in catalog.load_table(name).scan().plan_files()]
        for title, text in statements.items():

            def change(text: str = text.format(table=name), name: str = name, first: int = first) -> float:
                taken = used(partial(spark.sql, text))
                rolled_back(catalog, name, first)
                return taken

            sides = {"icefloe": change, "parquet": partial(used, partial(aggregate, partial(spark.read.parquet, *paths)))}
            for side in sides.values():  # until the JVM has compiled the code
                side()
                side()
            taken = interleaved(REPEATS, sides)
            ours, theirs = median(taken["icefloe"]), median(taken["parquet"])
            what = f"Spark SQL, {title}, {MERGED:,} of {ROWS:,} rows, {version} merge-on-read (a group-by aggregate of all, spark.read.parquet; CPU time)"
            found.append(Comparison(what, seconds(ours), seconds(theirs), ours / theirs, f"<= {GOALS[title]}"))
            say(measure.as_markdown(found[-1:]).splitlines()[-1])
    return found


def rolled_back(catalog: SqlCatalog, name: str, snapshot_id: int) -> None:
    """Roll the table back to a snapshot."""
    catalog.load_table(name).manage_snapshots().set_current_snapshot(snapshot_id=snapshot_id).commit()


def partitioned_append(spark: SparkSession, folder: Path) -> Comparison:
    """Measure the append of all rows, read from Parquet, to 100 partitions."""
    given = rows_in_parquet(spark, folder, ROWS)
    scratch = folder / "written"
    attach(spark, "written", new_lake_in(scratch, "written"))
    spark.read.parquet(given).createOrReplaceTempView("given")

    def append() -> float:
        spark.sql(
            "CREATE TABLE written.bench.sales (id BIGINT, category STRING, amount DOUBLE, quantity INT, sold_at TIMESTAMP, note STRING) "
            "PARTITIONED BY (category) TBLPROPERTIES ('write.parquet.compression-codec' = 'zstd')"
        )
        taken = used(lambda: spark.sql("INSERT INTO written.bench.sales SELECT * FROM given"))
        spark.sql("DROP TABLE written.bench.sales")
        shutil.rmtree(scratch / "warehouse")
        return taken

    def write() -> float:
        plain = scratch / "plain"
        made = spark.read.parquet(given).repartition("category").write.option("compression", "zstd").partitionBy("category")
        taken = used(lambda: made.parquet(str(plain)))
        shutil.rmtree(plain)
        return taken

    sides = {"icefloe": append, "parquet": write}
    for side in sides.values():
        side()
        side()
    taken = interleaved(REPEATS, sides)
    shutil.rmtree(scratch)
    ours, theirs = median(taken["icefloe"]), median(taken["parquet"])
    return Comparison(
        f"Spark SQL, INSERT of {ROWS:,} rows into 100 partitions (df.repartition(...).write.partitionBy(...).parquet; CPU time)",
        seconds(ours),
        seconds(theirs),
        ours / theirs,
        "<= 1.1",
    )


def run() -> list[Comparison]:
    """Run all comparisons in one session."""
    with session_with_lake("spark-changes") as (spark, catalog, folder):
        source(spark, folder, "updates", 0)
        source(spark, folder, "half", ROWS // 2)
        return [*changes(spark, catalog), partitioned_append(spark, folder)]
