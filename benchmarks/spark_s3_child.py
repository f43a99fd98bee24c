"""Child process of `spark_s3.py`: `spark_s3_child.py object-stores write|read ADDRESS DATABASE JARS`; prints the seconds of each query, and its result.

With jars Spark has hadoop-aws as the file system of `s3`; without, it has none.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import boto3
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from tests.emulators import KEY, SECRET, s3_properties

from benchmarks.measure import median
from benchmarks.spark_rows import rows
from icefloe.catalog.sql_catalog import SqlCatalog
from icefloe.spark.attach_catalog import attach
from icefloe.spark.runtime.start_session import session

ROWS = int(os.environ.get("ICEFLOE_BENCH_ROWS", "8000000"))
WARM_UP, REPEATS = 2, 5
TABLE = "lake.bench.sales"


def aggregate(table: DataFrame) -> DataFrame:
    """Return a group-by over all rows and four of six columns."""
    return (
        table.groupBy("category")
        .agg(f.sum("amount").alias("amount"), f.avg("quantity"), f.max("sold_at"))
        .agg(f.count("*"), f.round(f.sum("amount") / 1e6))
    )


def selective(table: DataFrame) -> DataFrame:
    """Return a filter on an ordered column that keeps one row in a thousand."""
    return table.where(f.col("id").between(ROWS // 2, ROWS // 2 + ROWS // 1000)).agg(f.count("note"), f.max("amount"))


def whole(table: DataFrame) -> DataFrame:
    """Return a sum over every column, so that all bytes are read."""
    total = f.round(f.sum("amount") / 1e6)  # without the last digits, which depend on the order of the additions
    return table.agg(total, f.max("note"), f.max("category"), f.sum("quantity"), f.max("sold_at"), f.sum("id"))


QUERIES: dict[str, Callable[[DataFrame], DataFrame]] = {"aggregate": aggregate, "all columns": whole, "selective filter": selective}


def opened(address: str, database: str, jars: str) -> SparkSession:
    """Return a session with the catalog `lake`."""
    settings = {}
    if jars:
        settings = {
            "spark.jars": jars,
            "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
            "spark.hadoop.fs.s3a.endpoint": address,
            "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
            "spark.hadoop.fs.s3a.access.key": KEY,
            "spark.hadoop.fs.s3a.secret.key": SECRET,
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
        }
    spark = session(**settings)
    catalog = SqlCatalog("lake", uri=f"sqlite:///{database}", warehouse="s3://bench/warehouse", **s3_properties(address))
    attach(spark, "lake", catalog)
    return spark


def write(address: str, database: str) -> None:
    """Create the bucket and the table."""
    boto3.client("s3", endpoint_url=address, region_name="us-east-1", aws_access_key_id=KEY, aws_secret_access_key=SECRET).create_bucket(
        Bucket="bench"
    )
    spark = opened(address, database, "")
    spark.sql("CREATE NAMESPACE lake.bench")
    rows(spark, ROWS).writeTo(TABLE).create()
    print(json.dumps({}))


def read(address: str, database: str, jars: str) -> None:
    """Run each query several times."""
    spark = opened(address, database, jars)
    has_python = "through Python" in spark.sql(f"EXPLAIN SELECT sum(amount) FROM {TABLE}").collect()[0][0]
    if has_python == bool(jars):
        raise SystemExit("the scan is not of the side that is measured")
    times: dict[str, float] = {}
    results: dict[str, Any] = {}
    for title, query in QUERIES.items():
        taken = []
        for _ in range(WARM_UP + REPEATS):
            started = time.perf_counter()
            results[title] = [list(map(str, row)) for row in query(spark.table(TABLE)).collect()]
            taken.append(time.perf_counter() - started)
        times[title] = median(taken[WARM_UP:])
    print(json.dumps({"seconds": times, "results": results}))


def main(_: str, what: str, address: str, database: str, jars: str) -> None:
    """Write or read."""
    if what == "write":
        write(address, database)
    else:
        read(address, database, jars)


if __name__ == "__main__":
    main(*sys.argv[1:])
