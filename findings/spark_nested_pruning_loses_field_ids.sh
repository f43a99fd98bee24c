#!/usr/bin/env bash
# Spark reads Parquet columns by field id (spark.sql.parquet.fieldId.read.enabled), until a query selects one field of a struct.
#
# Guess before the run: a column is found by its id whether the query takes the whole struct or one field of it.
# Seen with pyspark 4.3.0 and pyarrow 21.0.0: the whole struct is right. With one field the column is null, without an error or a warning: the rule that prunes nested
# fields builds the pruned column anew, without the metadata that has the id, and the reader looks for it by name. With
# spark.sql.optimizer.nestedSchemaPruning.enabled=false the same query is right. Inside lists and maps it is the same.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv environment
environment/bin/pip install --quiet pyspark==4.3.0 pyarrow==21.0.0
cat > run.py <<'PYTHON'
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, IntegerType, StructField, StructType


def stored(name, kind, number):
    return pa.field(name, kind, metadata={"PARQUET:field_id": str(number)})


def read(name, kind, number):
    return StructField(name, kind, True, {"parquet.field.id": number})


# The file has the names from before a rename; the ids did not change.
item = pa.struct([stored("x", pa.int32(), 3), stored("y", pa.int32(), 4)])
schema = pa.schema([stored("old_s", item, 1), stored("old_l", pa.list_(stored("element", item, 5)), 2)])
value = {"x": 1, "y": 2}
pq.write_table(pa.Table.from_pylist([{"old_s": value, "old_l": [value]}], schema), "rows.parquet")

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
spark.conf.set("spark.sql.parquet.fieldId.read.enabled", "true")
struct = StructType([read("x", IntegerType(), 3), read("y", IntegerType(), 4)])
columns = StructType([read("s", struct, 1), read("l", ArrayType(struct), 2)])
rows = spark.read.schema(columns).parquet("rows.parquet")
print("version", spark.version)
print("whole columns", [[(s.x, s.y), [(e.x, e.y) for e in l]] for s, l in rows.collect()])
print("one field of each", [list(row) for row in rows.selectExpr("s.y", "l[0].y").collect()])
spark.conf.set("spark.sql.optimizer.nestedSchemaPruning.enabled", "false")
print("without pruning", [list(row) for row in rows.selectExpr("s.y", "l[0].y").collect()])
spark.stop()
PYTHON
environment/bin/python run.py 2>/dev/null | tee seen.txt
cat > expected.txt <<'TEXT'
version 4.3.0
whole columns [[(1, 2), [(1, 2)]]]
one field of each [[None, None]]
without pruning [[2, 2]]
TEXT
diff expected.txt seen.txt
