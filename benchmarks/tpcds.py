"""TPC-DS: the queries that Spark parses on Iceberg tables, beside `spark.read.parquet` of the same files, without Comet and with it.

DuckDB generates the data, the queries and the expected rows (`tpcds_child.py`), which every side must return. All sides run in one JVM, in turns; its CPU time
includes that of Comet's native code. The sides with Comet need a Spark for which the local Maven cache has Comet's JAR (`tests/comet.py`):
`python3 scripts/setup spark 4.1`, then `.venvs/spark-4.1/bin/python -m benchmarks tpcds`. Each side runs a query once before it counts. `ICEFLOE_TPCDS_RUNS`
sets the runs that count, of which the best is taken (1), `ICEFLOE_TPCDS_QUERIES` the numbers of the queries, `ICEFLOE_TPCDS_SCALE` the scale factor (1), and
`ICEFLOE_TPCDS_SIDES=spark` or `comet` leaves the sides with or without Comet out.
"""

import os
from collections.abc import Mapping
from pathlib import Path

import pyspark
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tests.comet import VERSION, comet_jar, comet_settings, leave_to_spark

from benchmarks import measure
from benchmarks.measure import Comparison, child, say, seconds
from benchmarks.spark_lake import session_with_lake
from benchmarks.tpch import Taken, measured
from benchmarks.tpch_tables import SESSION, loaded_tables, queries_of, sides
from icefloe import SqlCatalog
from icefloe.spark.attach_catalog import attach

SCALE = os.environ.get("ICEFLOE_TPCDS_SCALE", "1")
RUNS = int(os.environ.get("ICEFLOE_TPCDS_RUNS", "1"))
WARM_UP = 1
MEMORY = "6g"
ICEFLOE, PARQUET = "icefloe", "parquet"
WITH_COMET = {ICEFLOE: "icefloe with Comet", PARQUET: "parquet with Comet"}
# The pairs that are compared, and the highest ratio of CPU time that meets the goal; none where there is no goal.
PAIRS = ((ICEFLOE, PARQUET, 1.00), (WITH_COMET[ICEFLOE], PARQUET, 0.60), (WITH_COMET[ICEFLOE], WITH_COMET[PARQUET], None))


def run() -> list[Comparison]:
    """Run the benchmark."""
    source = source_files()
    jar = comet_jar(pyspark.__version__)
    if jar is None:
        say(f"tpcds: without Comet, as the local Maven cache has no Comet {VERSION} for Spark {pyspark.__version__}")
    settings = {} if jar is None else {**comet_settings(jar), "spark.memory.offHeap.size": MEMORY}
    with session_with_lake(f"tpcds-{SCALE}", **{**SESSION, "spark.driver.memory": MEMORY, **settings}) as (spark, catalog, _):
        files = loaded_tables(spark, catalog, source, "bench")
        sessions = _selected(_sides(spark, catalog, files, has_comet=jar is not None))
        queries = parsed(sessions[min(sessions)], queries_of(source, "ICEFLOE_TPCDS_QUERIES"))
        expected: dict[str, Path | None] = dict.fromkeys(sessions, source / "expected")
        taken = {}
        for number, runs in measured(sessions, queries, expected, "tpcds", (WARM_UP, RUNS)):
            taken[number] = runs
            spark._jvm.java.lang.System.gc()  # Spark drops broadcast tables of earlier queries only after a collection
        return _lines(taken)


def source_files() -> Path:
    """Return the folder of DuckDB's tables, queries and expected rows, which are written once."""
    folder = measure.BUILD / f"tpcds-{SCALE}-source"
    if not (folder / "queries.json").exists():
        say(f"tpcds: tables and expected rows at scale {SCALE} by DuckDB (written once)")
        child("duckdb", "tpcds_child.py", SCALE, str(folder))
    return folder


def _sides(spark: SparkSession, catalog: SqlCatalog, files: Mapping[str, list[str]], *, has_comet: bool) -> dict[str, SparkSession]:
    """Return a session of each side."""
    plain = sides(spark, files, "bench")
    if not has_comet:
        return plain
    second = spark.newSession()
    attach(second, "lake", catalog)
    accelerated = sides(second, files, "bench")
    for session in plain.values():
        leave_to_spark(session)
    return {**plain, **{WITH_COMET[side]: session for side, session in accelerated.items()}}


def _selected(sessions: Mapping[str, SparkSession]) -> dict[str, SparkSession]:
    """Return the sides that are measured: Spark on Parquet, with which all others are compared, and those that `ICEFLOE_TPCDS_SIDES` leaves."""
    of = os.environ.get("ICEFLOE_TPCDS_SIDES")
    left_out = {"spark": set(WITH_COMET.values()), "comet": {ICEFLOE}}.get(of or "", set())
    return {side: session for side, session in sessions.items() if side not in left_out}


def parsed(spark: SparkSession, queries: Mapping[int, str]) -> dict[int, str]:
    """Return the queries that Spark accepts, and print the others with its reason."""
    accepted = {}
    for number, query in queries.items():
        try:
            spark.sql(query)
        except PySparkException as refusal:
            say(f"tpcds: query {number} is left out: {str(refusal).strip().splitlines()[0]}")
        else:
            accepted[number] = query
    return accepted


def _lines(taken: Taken) -> list[Comparison]:
    """Return the CPU time and the time by the clock of each pair of sides."""
    measured_sides = next(iter(taken.values())).keys()
    lines = []
    for ours, theirs, goal in PAIRS:
        if not {ours, theirs} <= measured_sides:
            continue
        for part, unit in ((1, "CPU time"), (0, "clock")):
            mine, other = (sum(min(run[part] for run in runs[side]) for runs in taken.values()) for side in (ours, theirs))
            title = f"TPC-DS scale {SCALE}, {len(taken)} queries, {ours} ({theirs}): {unit}"
            lines.append(
                Comparison(title, seconds(mine), seconds(other), mine / other, f"<= {goal}" if part == 1 and goal is not None else "")
            )
    return lines
