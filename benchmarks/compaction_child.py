"""Child process of the benchmark `compaction`: one side compacts the files of a folder, after those of a small folder; prints times and files opened.

Arguments: the side (`icefloe-on-spark`, `java` or `plain`), the folder, the small folder, the order (empty for bin-pack), the target size of files.
"""

import json
import os
import random
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp

from pyspark.sql import SparkSession

from benchmarks.spark_changes import cpu_seconds

SETTINGS = {
    "spark.driver.memory": "4g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.session.timeZone": "UTC",
}
JAR = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0"
COLUMNS = "id BIGINT, customer BIGINT, price DOUBLE, amount DOUBLE, quantity INT, day DATE, status STRING, comment STRING"
BOXES, SHARE = 200, 0.1  # boxes of a tenth of each of two columns
Compacted = Callable[[], float]


def main(side: str, source: str, few: str, order: str, target: str) -> None:
    """Compact the small folder, then the other one."""
    scratch = Path(mkdtemp(prefix="compaction-", dir=Path.cwd()))
    try:
        prepared = {"icefloe-on-spark": _icefloe, "java": _java, "plain": _plain}[side](scratch)
        prepared(few, order, target)
        print(json.dumps(prepared(source, order, target)))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


Prepared = Callable[[str, str, str], dict[str, float]]


def timed(work: Callable[[], object]) -> dict[str, float]:
    started, started_cpu = time.perf_counter(), cpu_seconds()
    work()
    return {"wall": time.perf_counter() - started, "cpu": cpu_seconds() - started_cpu}


def _icefloe(scratch: Path) -> Prepared:
    from benchmarks.spark_lake import new_lake_in
    from icefloe.spark import session

    lake = new_lake_in(scratch / "lake", "lake")
    spark = session(catalogs={"lake": lake}, **SETTINGS)
    return _by_procedures(spark, "lake", "bench")


def _java(scratch: Path) -> Prepared:
    return _by_procedures(java_session(java_settings(scratch / "lake")), "lake", "bench")


def java_settings(warehouse: Path) -> dict[str, str]:
    """Return the settings of a session with Java's Iceberg, whose catalog `lake` is of the kind `hadoop`."""
    return {
        **SETTINGS,
        "spark.jars.packages": JAR,
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": str(warehouse),
    }


def java_session(settings: dict[str, str]) -> SparkSession:
    builder = SparkSession.builder.master("local[*]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _by_procedures(spark: SparkSession, catalog: str, namespace: str) -> Prepared:
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {catalog}.{namespace}")

    def compact(source: str, order: str, target: str) -> dict[str, float]:
        name = f"{namespace}.t{abs(hash(source))}"
        spark.sql(f"CREATE TABLE {catalog}.{name} ({COLUMNS}) USING iceberg")
        spark.sql(f"CALL {catalog}.system.add_files(table => '{name}', source_table => '`parquet`.`{source}`')")
        rows = spark.table(f"{catalog}.{name}").count()
        strategy = f"strategy => 'sort', sort_order => '{order}', " if order else ""
        options = f"map('target-file-size-bytes', '{target}', 'rewrite-all', 'true')"
        taken = timed(
            lambda: spark.sql(f"CALL {catalog}.system.rewrite_data_files(table => '{name}', {strategy}options => {options})").collect()
        )
        if spark.table(f"{catalog}.{name}").count() != rows:
            raise SystemExit("the compaction has other rows")
        return {**taken, "opened": _opened(spark, f"{catalog}.{name}")}

    return compact


def _plain(scratch: Path) -> Prepared:
    spark = java_session(SETTINGS)

    def compact(source: str, order: str, target: str) -> dict[str, float]:
        size = sum(entry.stat().st_size for entry in os.scandir(source))
        parts, output = max(1, size // int(target)), str(scratch / "plain")

        def work() -> None:
            rows = spark.read.parquet(source)
            rows = rows.repartitionByRange(parts, order).sortWithinPartitions(order) if order else rows.repartition(parts)
            rows.write.mode("overwrite").parquet(output)

        return {**timed(work), "opened": 0}

    return compact


def _opened(spark: SparkSession, name: str) -> float:
    """Return the mean number of files that a box of two columns opens, by the bounds in the metadata table."""
    bounds = "readable_metrics.{0}.lower_bound, readable_metrics.{0}.upper_bound"
    files = spark.sql(f"SELECT {bounds.format('customer')}, {bounds.format('price')} FROM {name}.files").collect()
    chance, total = random.Random(7), 0
    for _ in range(BOXES):
        low_customer, low_price = (chance.random() * (1 - SHARE) for _ in range(2))
        box = (low_customer * 10**9, (low_customer + SHARE) * 10**9, low_price, low_price + SHARE)
        total += sum(low <= box[1] and high >= box[0] and low2 <= box[3] and high2 >= box[2] for low, high, low2, high2 in files)
    return total / BOXES


if __name__ == "__main__":
    main(*sys.argv[1:])
