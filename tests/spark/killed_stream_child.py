"""Program that writes a stream of JSON files to a table in two partitions, one file in each epoch, for a test that kills it.

python killed_stream_child.py FOLDER
"""

import sys

import icefloe.spark
from icefloe import SqlCatalog


def main() -> None:
    folder = sys.argv[1]
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"{folder}/warehouse")
    spark = icefloe.spark.session({"spark.sql.shuffle.partitions": "2"}, master="local[2]")
    icefloe.spark.attach(spark, "lake", catalog)
    stream = spark.readStream.schema("id BIGINT").option("maxFilesPerTrigger", 1).json(f"{folder}/source")
    writer = stream.selectExpr("id", "id % 2 AS part").writeStream.option("checkpointLocation", f"{folder}/checkpoint")
    writer.trigger(availableNow=True).toTable("lake.db.t").awaitTermination()


if __name__ == "__main__":
    main()
