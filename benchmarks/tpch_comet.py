"""TPC-H with Apache DataFusion Comet: Icefloe's tables, without deletes and with 5 % of `lineitem` and `orders` deleted by vectors, beside Parquet files.

The other sides are `spark.read.parquet` of the same files, without Comet and with it. All run in one JVM, whose CPU time includes that of Comet's native code.
Every side must return DuckDB's rows. Needs a Spark for which the local Maven cache has Comet's JAR (`tests/comet.py`): `python3 scripts/setup spark 4.1`, then
`.venvs/spark-4.1/bin/python -m benchmarks tpch-comet`. Settings are those of `tpch.py`. With `ICEFLOE_TPCH_JAVA=1` Java's Iceberg reads the same tables in the
same JVM by Comet's own support of it; the local Maven cache must have its JAR and SQLite's driver (`JAVA_JARS`).
"""

import os
from collections.abc import Mapping
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession
from tests.comet import VERSION, comet_jar, comet_settings, leave_to_spark

from benchmarks.measure import Comparison, say, seconds
from benchmarks.spark_lake import session_with_lake
from benchmarks.tpch import Taken, measured
from benchmarks.tpch_deletes import tables_with_deletes
from benchmarks.tpch_tables import SCALE, SESSION, loaded_tables, queries_of, sides, source_files

MEMORY = "4g"
PARQUET, WITH_COMET, JAVA = "parquet", "parquet with Comet", "Java's Iceberg with Comet"
GOALS = {
    "all rows": {PARQUET: 0.45 if SCALE == "10" else 0.40, WITH_COMET: 0.90, JAVA: 1.0},
    "5 % deleted": {PARQUET: 0.55, WITH_COMET: None, JAVA: None},
}
# Of the local Maven cache: `mvn dependency:get -Dartifact=GROUP:ARTIFACT:VERSION -Dtransitive=false` fetches each.
JAVA_JARS = (
    "org/apache/iceberg/iceberg-spark-runtime-4.1_2.13/1.12.0/iceberg-spark-runtime-4.1_2.13-1.12.0.jar",
    "org/xerial/sqlite-jdbc/3.53.0.0/sqlite-jdbc-3.53.0.0.jar",
)
HAS_JAVA = os.environ.get("ICEFLOE_TPCH_JAVA") == "1"
# The query whose filter leaves out most rows, and its goal over files with deletes, which Spark's reader decodes and Comet copies.
FILTERING_QUERY, GOAL_OF_FILTERING = 6, 1.2


def run() -> list[Comparison]:
    """Run the benchmark."""
    jar = comet_jar(pyspark.__version__)
    if jar is None:
        say(f"tpch-comet: left out, as the local Maven cache has no Comet {VERSION} for Spark {pyspark.__version__}")
        return []
    source = source_files()
    jars = [jar, *(Path.home() / ".m2/repository" / path for path in JAVA_JARS if HAS_JAVA)]
    settings = {**SESSION, **comet_settings(os.pathsep.join(map(str, jars))), "spark.memory.offHeap.size": MEMORY}
    with session_with_lake(f"tpch-{SCALE}", **settings) as (spark, catalog, folder):
        files = loaded_tables(spark, catalog, source, "bench")
        sessions = _sides(spark, files, "bench", folder)
        expected = dict.fromkeys(sessions, source / "expected")
        lines = _lines("all rows", dict(measured(sessions, queries_of(source), expected, "tpch-comet")))
        files = tables_with_deletes(spark, catalog, source)
        deleted = {"icefloe": source / "expected-deleted", JAVA: source / "expected-deleted", PARQUET: None, WITH_COMET: None}
        taken = dict(measured(_sides(spark, files, "deleted", folder), queries_of(source), deleted, "tpch-comet, deletes"))
        return [*lines, *_lines("5 % deleted", taken), *_filtering(taken)]


def _sides(spark: SparkSession, files: Mapping[str, list[str]], namespace: str, folder: Path) -> dict[str, SparkSession]:
    """Return a session of each side; those of Parquet read all rows of the files, without Comet and with it."""
    both = sides(spark, files, namespace)
    ordinary = both[PARQUET]
    accelerated = sides(spark, files, namespace)[PARQUET]
    leave_to_spark(ordinary)
    java = {JAVA: _session_of_java(spark, folder, namespace)} if HAS_JAVA else {}
    return {**both, WITH_COMET: accelerated, **java}


def _session_of_java(spark: SparkSession, folder: Path, namespace: str) -> SparkSession:
    """Return a session in which Java's JdbcCatalog is the current catalog, on the same database as Icefloe's; the name `bench` is that of the catalog in it."""
    session = spark.newSession()
    settings = {
        "type": "jdbc",
        "uri": f"jdbc:sqlite:{folder}/catalog.db",
        "warehouse": f"file://{folder}/warehouse",
        "jdbc.schema-version": "V1",
    }
    session.conf.set("spark.sql.catalog.bench", "org.apache.iceberg.spark.SparkCatalog")
    for name, value in settings.items():
        session.conf.set(f"spark.sql.catalog.bench.{name}", value)
    session.sql(f"USE bench.{namespace}")
    plan = session.sql("SELECT sum(l_quantity) FROM lineitem")._jdf.queryExecution().executedPlan().toString()
    say(f"tpch-comet: the plan of Java's Iceberg\n{plan}")
    return session


def _lines(what: str, taken: Taken) -> list[Comparison]:
    """Return the CPU time and the time by the clock of Icefloe with Comet beside both sides of Parquet."""
    lines = []
    for part, measure in ((1, "CPU time"), (0, "clock")):
        present = [side for side in GOALS[what] if side in next(iter(taken.values()))]
        sums = {side: sum(min(run[part] for run in runs[side]) for runs in taken.values()) for side in ("icefloe", *present)}
        for other in present:
            goal = GOALS[what][other]
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
