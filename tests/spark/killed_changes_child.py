"""Program that applies the changes of a table to a replica, one snapshot in each batch, for a test that kills it.

python killed_changes_child.py FOLDER
"""

import sys
from typing import Any

import icefloe.spark
from icefloe import SqlCatalog

MERGE = """
    MERGE INTO lake.db.replica t USING changed s ON t.id = s.id
    WHEN MATCHED AND s._change_type = 'delete' THEN DELETE
    WHEN MATCHED THEN UPDATE SET value = s.value
    WHEN NOT MATCHED AND s._change_type <> 'delete' THEN INSERT (id, value) VALUES (s.id, s.value)"""


def merge(batch: Any, _: int) -> None:
    last = batch.selectExpr("*", "row_number() OVER (PARTITION BY id ORDER BY _change_type IN ('delete', 'update_preimage')) AS place")
    last.where("place = 1").createOrReplaceTempView("changed")
    batch.sparkSession.sql(MERGE)


def main() -> None:
    folder = sys.argv[1]
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"{folder}/warehouse")
    spark = icefloe.spark.session({"spark.sql.shuffle.partitions": "2"}, master="local[2]")
    icefloe.spark.attach(spark, "lake", catalog)
    source = spark.readStream.format("iceberg").option("read.mode", "changes").option("streaming-max-files-per-micro-batch", 1)
    writer = source.load("lake.db.t").writeStream.foreachBatch(merge).option("checkpointLocation", f"{folder}/checkpoint")
    writer.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main()
