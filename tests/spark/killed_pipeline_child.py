"""Program with three streams on executors in processes of their own, for a test that kills it: files into a table, its changes into a copy and into a log.

python killed_pipeline_child.py FOLDER [once]: until it is killed, or until everything was read.
"""

import sys
from pathlib import Path
from typing import Any

from tests.spark.killed_changes_child import merge

import icefloe.spark
from icefloe import SqlCatalog

CONF = {
    "spark.sql.shuffle.partitions": "2",
    "spark.executor.memory": "512m",
    "spark.executorEnv.PYTHONPATH": str(Path(__file__).parents[2]),
    "spark.deploy.maxExecutorRetries": "-1",  # as many executors as are killed
    "spark.task.maxFailures": "20",
    "spark.stage.maxConsecutiveAttempts": "20",
}


def main() -> None:
    folder, once = sys.argv[1], sys.argv[2:] == ["once"]
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"{folder}/warehouse")
    spark = icefloe.spark.session(CONF, master="local-cluster[2,1,1024]")
    icefloe.spark.attach(spark, "lake", catalog)
    files = spark.readStream.schema("id BIGINT, value BIGINT").option("maxFilesPerTrigger", 2).json(f"{folder}/source")

    def changes(most_files: int) -> Any:
        source = spark.readStream.format("iceberg").option("read.mode", "changes").option("streaming-max-files-per-micro-batch", most_files)
        return source.load("lake.db.t")

    # The MERGE takes the changes of one snapshot; the log those of several.
    streams: dict[str, Any] = {
        "files": lambda writer: writer(files).toTable("lake.db.t"),
        "merge": lambda writer: writer(changes(1)).foreachBatch(merge).start(),
        "log": lambda writer: writer(changes(4).drop("_commit_timestamp")).toTable("lake.db.log"),
    }
    for name, start in streams.items():
        trigger = {"availableNow": True} if once else {"processingTime": "100 milliseconds"}
        checkpoint = f"{folder}/checkpoint-{name}"
        query = start(lambda rows, options=trigger, at=checkpoint: rows.writeStream.option("checkpointLocation", at).trigger(**options))
        if once:
            query.awaitTermination()
    if not once:
        spark.streams.awaitAnyTermination()


if __name__ == "__main__":
    main()
