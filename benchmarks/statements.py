"""The overhead of a statement by its number of table references, compared with views over the same files read by `spark.read.parquet`.

The tables are tiny, so that what a statement costs is reading metadata, planning and calls between the JVM and Python. Measured is the CPU time of the JVM and
of this process, from the text of a statement to Spark's executable plan, and of the whole statement: with one reference, with eight references to one table,
and with eight tables. Both sides take turns in one session. `ICEFLOE_BENCH_STATEMENTS` sets the number of rounds.
"""

import os
import time
from collections.abc import Callable
from functools import partial

import pyarrow as pa
from pyspark.sql import SparkSession

from benchmarks.measure import Comparison, interleaved, median, say, seconds
from benchmarks.spark_lake import session_with_lake
from benchmarks.spark_scans import jvm_seconds
from icefloe.catalog.sql_catalog import SqlCatalog

ROUNDS = int(os.environ.get("ICEFLOE_BENCH_STATEMENTS", "9"))
# Rounds before the first one that counts: the JVM compiles code that runs often, which at first takes longer than planning itself.
WARM_UP = 8
TABLES = 8
GOAL = "<= 1.15"
ICEBERG, RAW = "lake.bench.statement_{}", "raw_{}"
# The number of references, the number of tables, and the goal.
STATEMENTS = {"1 table reference": (1, 1, ""), "8 references to one table": (8, 1, GOAL), "8 tables": (8, 8, GOAL)}


def made_tables(spark: SparkSession, catalog: SqlCatalog) -> None:
    """Create the tables that do not exist yet, and a view over the files of each."""
    rows = pa.table({"id": pa.array(range(1000), pa.int64()), "name": [f"n{row}" for row in range(1000)]})
    rows = rows.append_column("amount", pa.array([row / 4 for row in range(1000)])).append_column("day", pa.array(range(1000), pa.date32()))
    for number in range(TABLES):
        name = f"bench.statement_{number}"
        if not catalog.table_exists(name):
            table = catalog.create_table(name, schema=rows.schema)
            for start in range(0, 1000, 250):
                table.append(rows.slice(start, 250))
        paths = [task.file.file_path for task in catalog.load_table(name).scan().plan_files()]
        spark.read.parquet(*paths).createOrReplaceTempView(RAW.format(number))


def statement(name: str, references: int, tables: int) -> str:
    """Return a join of so many references, each with a filter."""
    # The filters prune no file, so that both sides read the same rows.
    parts = [f"(SELECT id, amount AS a{n} FROM {name.format(n % tables)} WHERE name <> 'n7') t{n}" for n in range(references)]
    joins = "".join(f" JOIN {part} ON t0.id = t{n}.id" for n, part in enumerate(parts) if n)
    return f"SELECT t0.id, {', '.join(f'a{n}' for n in range(references))} FROM {parts[0]}{joins}"


def plan(spark: SparkSession, text: str) -> None:
    """Make the executable plan of a statement."""
    spark.sql(text)._jdf.queryExecution().executedPlan()


def collect(spark: SparkSession, text: str) -> None:
    """Run a statement."""
    spark.sql(text).collect()


# What is measured, and the statements of a round: the CPU time of a process is known to 10 ms.
ACTIONS = (("until Spark's plan", plan, 30), ("whole", collect, 5))


def used_by_both(spark: SparkSession, action: Callable[[SparkSession, str], None], text: str, statements: int) -> float:
    """Return the CPU seconds that the JVM and this process use for a statement, of so many."""
    before = jvm_seconds(spark) + time.process_time()
    for _ in range(statements):
        action(spark, text)
    return (jvm_seconds(spark) + time.process_time() - before) / statements


def run() -> list[Comparison]:
    """Measure every statement in one session."""
    lines = []
    with session_with_lake("statements") as (spark, catalog, _):
        spark.conf.set("spark.sql.shuffle.partitions", "2")
        made_tables(spark, catalog)
        for title, (references, tables, goal) in STATEMENTS.items():
            say(f"statements: {title}")
            texts = {side: statement(name, references, tables) for side, name in (("icefloe", ICEBERG), ("raw", RAW))}
            for measured, action, statements in ACTIONS:
                sides = {side: partial(used_by_both, spark, action, text, statements) for side, text in texts.items()}
                interleaved(WARM_UP, sides)
                taken = interleaved(ROUNDS, sides)
                ours, theirs = median(taken["icefloe"]), median(taken["raw"])
                what = f"Spark SQL, statement with {title}, {measured} (views over raw Parquet; CPU time)"
                lines.append(Comparison(what, seconds(ours), seconds(theirs), ours / theirs, goal))
    return lines
