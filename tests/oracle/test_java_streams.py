"""A stream whose writer is Java's, then Icefloe's, then Java's again, from one checkpoint; each is killed before Spark records its last epoch."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from icefloe.catalog.file_system_catalog import FileSystemCatalog
from icefloe.spark.attach_catalog import attach

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.slow]

JAVA = """
import json
spark.sql("create table if not exists j.db.t (id bigint) using iceberg tblproperties ('format-version' = '2')")
stream = spark.readStream.schema("id bigint").option("maxFilesPerTrigger", 1).json({source!r})
stream.writeStream.option("checkpointLocation", {checkpoint!r}).trigger(availableNow=True).toTable("j.db.t").awaitTermination()
print(json.dumps({{"ids": sorted(row.id for row in spark.table("j.db.t").collect())}}))
"""


def kill(checkpoint: Path, epoch: int) -> None:
    """Leave the checkpoint as it is after a kill between the commit of the table and the record of the epoch."""
    (checkpoint / "commits" / str(epoch)).unlink()
    (checkpoint / "commits" / f".{epoch}.crc").unlink(missing_ok=True)


def test_an_epoch_is_written_once_when_the_writer_changes(spark: SparkSession, java_script: Callable[..., str], tmp_path: Path) -> None:
    source, checkpoint, warehouse = tmp_path / "source", tmp_path / "checkpoint", tmp_path / "warehouse"
    source.mkdir()

    def add(number: int) -> None:
        (source / f"{number}.json").write_text(json.dumps({"id": number}))
        os.utime(source / f"{number}.json", (number, number))

    def run_java() -> list[int]:
        printed = java_script(JAVA.format(source=str(source), checkpoint=str(checkpoint)), str(warehouse))
        ids: list[int] = json.loads(printed.splitlines()[-1])["ids"]
        return ids

    add(1)
    add(2)
    assert run_java() == [1, 2]
    kill(checkpoint, 1)
    add(3)
    attach(spark, "lake", FileSystemCatalog("lake", warehouse=str(warehouse)))
    stream = spark.readStream.schema("id bigint").option("maxFilesPerTrigger", 1).json(str(source))
    to_table = stream.writeStream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    to_table.toTable("lake.db.t").awaitTermination()
    assert sorted(row.id for row in spark.table("lake.db.t").collect()) == [1, 2, 3]
    kill(checkpoint, 2)
    add(4)
    assert run_java() == [1, 2, 3, 4]
    kill(checkpoint, 3)
    add(5)
    to_table.toTable("lake.db.t").awaitTermination()
    assert sorted(row.id for row in spark.table("lake.db.t").collect()) == [1, 2, 3, 4, 5]
