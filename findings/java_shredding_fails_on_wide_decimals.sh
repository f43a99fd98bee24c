#!/usr/bin/env bash
# Java's Iceberg shreds variants with write.parquet.shred-variants, and then cannot write decimals of 19 to 37 digits.
#
# Guess before the run: a number of 22 digits in a JSON document is written with the property as without it.
# Seen with iceberg-spark-runtime-4.1_2.13 1.11.0 and pyspark 4.1.1: the write fails. The column for the decimal has 16 bytes, and the writer gives it as many as the precision needs:
# "Fixed Binary size 11 does not match field type length 16". Without the property the row is written.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv environment
environment/bin/pip install --quiet pyspark==4.1.1
cat > run.py <<'PYTHON'
import re

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
for shredded in ("false", "true"):
    properties = f"'format-version' = '3', 'write.parquet.shred-variants' = '{shredded}'"
    spark.sql(f"CREATE TABLE lake.db.{shredded}_ (v VARIANT) USING iceberg TBLPROPERTIES ({properties})")
    try:
        spark.sql(f"""INSERT INTO lake.db.{shredded}_ SELECT parse_json('{{"d":1234567890123456789012.25}}')""")
        print("shredded:", shredded, "| rows:", spark.table(f"lake.db.{shredded}_").count())
    except Exception as error:
        print("shredded:", shredded, "|", re.search("Fixed Binary size .* length [0-9]+", str(error)).group())
spark.stop()
PYTHON
environment/bin/python run.py 2>/dev/null | tee seen.txt
cat > expected.txt <<'TEXT'
shredded: false | rows: 1
shredded: true | Fixed Binary size 11 does not match field type length 16
TEXT
diff expected.txt seen.txt
