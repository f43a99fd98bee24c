#!/usr/bin/env bash
# A stream that Java's Iceberg writes doubles its last epoch after a crash, if the epoch's snapshot has expired meanwhile.
#
# Guess before the run: the table has each row of the stream once, because the snapshot of an epoch has the ids of the query and of the epoch.
# Seen with iceberg-spark-runtime-4.1_2.13 1.11.0 and pyspark 4.1.1: the writer looks for the ids in the snapshots that remain. Spark records an epoch in its checkpoint after
# the table's commit; a process that is killed in between writes the epoch again.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv environment
environment/bin/pip install --quiet pyspark==4.1.1
cat > run.py <<'PYTHON'
import glob
import os

from pyspark.sql import SparkSession

spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.ui.enabled", "false")
    .config("spark.jars.packages", "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0")
    .config("spark.sql.catalog.lake", "org.apache.iceberg.spark.SparkCatalog")
    .config("spark.sql.catalog.lake.type", "hadoop")
    .config("spark.sql.catalog.lake.warehouse", "lake")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("OFF")
os.mkdir("source")
with open("source/1.json", "w") as file:
    file.write('{"id": 1}')


def write(table):
    stream = spark.readStream.schema("id BIGINT").json("source").writeStream.option("checkpointLocation", f"checkpoint-{table}")
    stream.trigger(availableNow=True).toTable(f"lake.db.{table}").awaitTermination()


for case in ("plain", "expired"):
    spark.sql(f"CREATE TABLE lake.db.{case} (id BIGINT) USING iceberg")
    spark.sql(f"INSERT INTO lake.db.{case} VALUES (0)")
    write(case)
    if case == "expired":
        spark.sql("INSERT INTO lake.db.expired VALUES (2)")
        spark.sql("CALL lake.system.expire_snapshots(table => 'db.expired', older_than => TIMESTAMP '2100-01-01', retain_last => 1)")
    for path in [*glob.glob(f"checkpoint-{case}/commits/0"), *glob.glob(f"checkpoint-{case}/commits/.0.crc")]:
        os.remove(path)  # as if the process was killed before Spark recorded the epoch
    write(case)
    print(f"{case}: row 1 is there {spark.table(f'lake.db.{case}').where('id = 1').count()} times")
spark.stop()
PYTHON
environment/bin/python run.py 2>/dev/null | tee seen.txt
cat > expected.txt <<'TEXT'
plain: row 1 is there 1 times
expired: row 1 is there 2 times
TEXT
diff expected.txt seen.txt
