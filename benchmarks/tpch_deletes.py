"""TPC-H with 5 % of `lineitem` and `orders` deleted by deletion vectors, compared with `spark.read.parquet` on the same data files with all rows.

DuckDB runs the queries without the deleted rows, and Icefloe must return the same rows. Settings are those of `tpch.py`.
"""

from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.measure import Comparison, say
from benchmarks.spark_lake import session_with_lake
from benchmarks.tpch import compared, measured
from benchmarks.tpch_tables import DELETED, SCALE, SESSION, loaded_tables, queries_of, sides, source_files
from icefloe import SqlCatalog

PROPERTIES = {"format-version": "3", "write.delete.mode": "merge-on-read"}
GOAL_OF_SUM = 1.10


def tables_with_deletes(spark: SparkSession, catalog: SqlCatalog, source: Path) -> dict[str, list[str]]:
    """Load TPC-H's tables into `lake.deleted`, and delete 5 % of `lineitem` and `orders`, unless an earlier run has done so. Return the data files by table."""
    if not catalog.namespace_exists("deleted"):
        catalog.create_namespace("deleted")
    files = loaded_tables(spark, catalog, source, "deleted", PROPERTIES)
    for table, prefix in (("lineitem", "l_"), ("orders", "o_")):
        if len(catalog.load_table(f"deleted.{table}").history()) == 1:
            say(f"delete 5 % of {table} (once)")
            spark.sql(f"DELETE FROM lake.deleted.{table} WHERE {DELETED.replace('orderkey', f'{prefix}orderkey')}")
    return files


def run() -> list[Comparison]:
    """Run the benchmark."""
    source = source_files()
    with session_with_lake(f"tpch-{SCALE}", **SESSION) as (spark, catalog, _):
        files = tables_with_deletes(spark, catalog, source)
        expected = {"icefloe": source / "expected-deleted", "parquet": None}
        taken = dict(measured(sides(spark, files, "deleted"), queries_of(source), expected, "tpch-deletes"))
    title = f"TPC-H scale {SCALE}, 5 % of lineitem and orders deleted by vectors"
    return compared(taken, title, "spark.read.parquet of all rows", GOAL_OF_SUM, None)
