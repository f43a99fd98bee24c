#!/usr/bin/env bash
# Spark 4.3 reads CHANGES between times that are literals, but not between times that are computed, as by current_timestamp() or by subtracting an interval.
#
# Guess before the run: the clause takes the same expressions as TIMESTAMP AS OF. A table of Parquet files has neither time travel nor changes, so that each query ends in Spark's error that
# says so, after it has evaluated the time.
# Seen with pyspark 4.3.0 (and 4.2.0): with TIMESTAMP AS OF all expressions end in this error. With CHANGES only the literal does; the others end in
# "java.lang.AssertionError: assertion failed" in TimeTravelSpec, since the time is evaluated before its functions and operators are resolved. The catalog does not matter.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv environment
environment/bin/pip install --quiet pyspark==4.3.0
cat > run.py <<'PYTHON'
import re

from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("OFF")
spark.sql("CREATE TABLE sales (id INT) USING parquet")
for clause in ("TIMESTAMP AS OF", "CHANGES FROM TIMESTAMP"):
    for time in ("TIMESTAMP'2026-01-01 00:00:00'", "TIMESTAMP'2026-01-01 00:00:00' - INTERVAL 1 DAY", "current_timestamp()", "date_sub(DATE'2026-01-02', 1)"):
        try:
            spark.sql(f"SELECT * FROM sales {clause} {time}").collect()
            seen = "rows"
        except Exception as error:
            seen = re.search(r"UNSUPPORTED_FEATURE\.\w+|java\.lang\.AssertionError: [a-z ]+\w", str(error)).group()
        print(clause, time, "|", seen)
spark.stop()
PYTHON
environment/bin/python run.py 2>/dev/null | tee seen.txt
cat > expected.txt <<'TEXT'
TIMESTAMP AS OF TIMESTAMP'2026-01-01 00:00:00' | UNSUPPORTED_FEATURE.TIME_TRAVEL
TIMESTAMP AS OF TIMESTAMP'2026-01-01 00:00:00' - INTERVAL 1 DAY | UNSUPPORTED_FEATURE.TIME_TRAVEL
TIMESTAMP AS OF current_timestamp() | UNSUPPORTED_FEATURE.TIME_TRAVEL
TIMESTAMP AS OF date_sub(DATE'2026-01-02', 1) | UNSUPPORTED_FEATURE.TIME_TRAVEL
CHANGES FROM TIMESTAMP TIMESTAMP'2026-01-01 00:00:00' | UNSUPPORTED_FEATURE.CHANGE_DATA_CAPTURE
CHANGES FROM TIMESTAMP TIMESTAMP'2026-01-01 00:00:00' - INTERVAL 1 DAY | java.lang.AssertionError: assertion failed
CHANGES FROM TIMESTAMP current_timestamp() | java.lang.AssertionError: assertion failed
CHANGES FROM TIMESTAMP date_sub(DATE'2026-01-02', 1) | java.lang.AssertionError: assertion failed
TEXT
diff expected.txt seen.txt
