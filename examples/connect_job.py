"""Read, append and upsert over Spark Connect: this process has no JVM. The server must have Icefloe too, and reach the same files.

SPARK_REMOTE=sc://server:15002 python connect_job.py
"""

import os

from pyspark.sql import SparkSession

import icefloe.spark
from icefloe import load_catalog


def main() -> None:
    """Run the job on the server that SPARK_REMOTE names."""
    spark = SparkSession.builder.remote(os.environ["SPARK_REMOTE"]).getOrCreate()
    catalog = load_catalog("lake", uri="lake.db", warehouse="lake")
    catalog.create_namespace_if_not_exists("shop")
    rows = spark.createDataFrame([(1, "a", 3.5), (2, "b", 4.0)], "id bigint, kind string, price double")
    table = catalog.create_table_if_not_exists("shop.items", rows.limit(0).toArrow().schema)
    icefloe.spark.register(spark, lake=catalog)

    table.append(rows)  # the server's tasks write the files, this process commits
    changes = spark.createDataFrame([(2, "b", 5.0), (3, "c", 6.0)], "id bigint, kind string, price double")
    print(table.upsert(changes, ["id"]))  # the rows come to this process, which joins them with the table
    icefloe.spark.table(spark, table, where="price > 4").orderBy("id").show()


if __name__ == "__main__":
    main()
