"""A script for PySpark with the runtime JAR of Java's Iceberg: it writes the rows of a table shredded, and prints the paths of the new data files.

`python java_shredding.py JAR FOLDER METADATA`: the table at METADATA is copied to a table in FOLDER, in one file.
"""

import json
import sys

from pyspark.sql import SparkSession

jar, folder, metadata = sys.argv[1:]
settings = {
    "spark.driver.extraClassPath": jar,
    "spark.ui.enabled": "false",
    "spark.driver.memory": "2g",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.catalog.j": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.j.type": "hadoop",
    "spark.sql.catalog.j.warehouse": folder,
}
builder = SparkSession.builder.master("local[1]")
for name, value in settings.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
rows = spark.read.format("iceberg").load(metadata).coalesce(1)
properties = {"format-version": "3", "write.parquet.shred-variants": "true"}
writer = rows.writeTo("j.db.t").using("iceberg")
for name, value in properties.items():
    writer = writer.tableProperty(name, value)
writer.create()
version = spark._jvm.org.apache.iceberg.IcebergBuild.version()
print(json.dumps({"version": version, "files": [row[0] for row in spark.sql("SELECT file_path FROM j.db.t.files").collect()]}))
spark.stop()
