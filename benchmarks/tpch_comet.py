"""TPC-H with Apache DataFusion Comet: Icefloe's tables, without deletes and with 5 % of `lineitem` and `orders` deleted by vectors, beside Parquet files.

The other sides are `spark.read.parquet` of the same files, without Comet and with it. All run in one JVM, whose CPU time includes that of Comet's native code.
Every side must return DuckDB's rows. Needs a Spark for which the local Maven cache has Comet's JAR (`tests/comet.py`): `python3 scripts/setup spark 4.1`, then
`.venvs/spark-4.1/bin/python -m benchmarks tpch-comet`. Settings are those of `tpch.py`.
"""

from collections.abc import Mapping

import pyspark
from pyspark.sql import SparkSession
from tests.comet import VERSION, comet_jar, comet_settings

from benchmarks.measure import Comparison, say, seconds
from benchmarks.spark_lake import session_with_lake
from benchmarks.tpch import Taken, measured
from benchmarks.tpch_deletes import tables_with_deletes
from benchmarks.tpch_tables import SCALE, SESSION, loaded_tables, queries_of, sides, source_files

MEMORY = "4g"
PARQUET, WITH_COMET = "parquet", "parquet with Comet"
GOALS = {"all rows": {PARQUET: 0.40, WITH_COMET: 0.90}, "5 % deleted": {PARQUET: 0.55, WITH_COMET: None}}
# The query whose filter leaves out most rows, and its goal over files with deletes, which Spark's reader decodes and Comet copies.
FILTERING_QUERY, GOAL_OF_FILTERING = 6, 1.2


def run() -> list[Comparison]:
    """Run the benchmark."""
    jar = comet_jar(pyspark.__version__)
    if jar is None:
        say(f"tpch-comet: left out, as the local Maven cache has no Comet {VERSION} for Spark {pyspark.__version__}")
        return []
    source = source_files()
    settings = {**SESSION, **comet_settings(jar), "spark.memory.offHeap.size": MEMORY}
    with session_with_lake(f"tpch-{SCALE}", **settings) as (spark, catalog, _):
        files = loaded_tables(spark, catalog, source, "bench")
        expected = dict.fromkeys(("icefloe", PARQUET, WITH_COMET), source / "expected")
        lines = _lines("all rows", dict(measured(_sides(spark, files, "bench"), queries_of(source), expected, "tpch-comet")))
        files = tables_with_deletes(spark, catalog, source)
        deleted = {"icefloe": source / "expected-deleted", PARQUET: None, WITH_COMET: None}
        taken = dict(measured(_sides(spark, files, "deleted"), queries_of(source), deleted, "tpch-comet, deletes"))
        return [*lines, *_lines("5 % deleted", taken), *_filtering(taken)]


def _sides(spark: SparkSession, files: Mapping[str, list[str]], namespace: str) -> dict[str, SparkSession]:
    """Return a session of each side; those of Parquet read all rows of the files, without Comet and with it."""
    both = sides(spark, files, namespace)
    ordinary = both[PARQUET]
    accelerated = sides(spark, files, namespace)[PARQUET]
    ordinary.conf.set("spark.comet.enabled", "false")
    return {**both, WITH_COMET: accelerated}


def _lines(what: str, taken: Taken) -> list[Comparison]:
    """Return the CPU time and the time by the clock of Icefloe with Comet beside both sides of Parquet."""
    lines = []
    for part, measure in ((1, "CPU time"), (0, "clock")):
        sums = {side: sum(min(run[part] for run in runs[side]) for runs in taken.values()) for side in ("icefloe", PARQUET, WITH_COMET)}
        for other, goal in GOALS[what].items():
            title = f"TPC-H scale {SCALE} with Comet, {len(taken)} queries, {what}: {measure} ({other})"
            limit = "" if part == 0 or goal is None else f"<= {goal}"
            lines.append(Comparison(title, seconds(sums["icefloe"]), seconds(sums[other]), sums["icefloe"] / sums[other], limit))
    return lines


def _filtering(taken: Taken) -> list[Comparison]:
    if FILTERING_QUERY not in taken:
        return []
    ours, theirs = (min(cpu for _, cpu in taken[FILTERING_QUERY][side]) for side in ("icefloe", PARQUET))
    title = f"TPC-H scale {SCALE} with Comet, query {FILTERING_QUERY}, 5 % deleted: CPU time ({PARQUET})"
    return [Comparison(title, seconds(ours), seconds(theirs), ours / theirs, f"<= {GOAL_OF_FILTERING}")]
