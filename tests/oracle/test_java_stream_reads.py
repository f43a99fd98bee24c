"""A stream that is read by Java's Iceberg and by Icefloe in turn, from one checkpoint; each repeats the batch that the other did not record."""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from icefloe.catalog.file_system_catalog import FileSystemCatalog
from icefloe.spark.attach_catalog import attach
from icefloe.table import Table

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.slow]

ONE_FILE = {"streaming-max-files-per-micro-batch": "1"}
JAVA = """
def keep(batch, number):
    batch.write.mode("overwrite").json({folder!r} + "/rows/" + str(number))
stream = spark.readStream.format("iceberg").options(**{options!r}).load("j.db.t").writeStream.foreachBatch(keep)
query = stream.option("checkpointLocation", {folder!r} + "/checkpoint").start()  # this Java does not divide a batch of availableNow
try:
    query.processAllAvailable()
    query.stop()
except Exception as error:
    print(error)
"""


@dataclass(frozen=True)
class Query:
    """A query over `db.t` with its checkpoint, and the ids of the rows of its batches, in a folder; it runs in either engine."""

    spark: SparkSession
    folder: Path

    def in_java(self, **options: str) -> str:
        """Return the statements that run the query in Java, and print its error."""
        return JAVA.format(folder=str(self.folder), options=options)

    def run(self, **options: str) -> None:
        def keep(batch: DataFrame, number: int) -> None:
            batch.write.mode("overwrite").json(f"{self.folder}/rows/{number}")

        stream = self.spark.readStream.format("iceberg").options(**options).load("lake.db.t").writeStream.foreachBatch(keep)
        stream.option("checkpointLocation", f"{self.folder}/checkpoint").trigger(availableNow=True).start().awaitTermination()

    @property
    def batches(self) -> list[list[int]]:
        folders = sorted((self.folder / "rows").iterdir(), key=lambda folder: int(folder.name))
        return [
            sorted(json.loads(line)["id"] for file in folder.glob("*.json") for line in file.read_text().splitlines()) for folder in folders
        ]

    def forget(self, first: int, *, begun: bool) -> None:
        """Leave the checkpoint as it is after a kill before a batch, or if it had `begun`, before it was recorded."""
        for number in range(first, len(self.batches)):
            for part in ("commits",) if begun else ("commits", "offsets"):
                (self.folder / "checkpoint" / part / str(number)).unlink()
                (self.folder / "checkpoint" / part / f".{number}.crc").unlink(missing_ok=True)
        for number in range(first, len(self.batches)):
            shutil.rmtree(self.folder / "rows" / str(number))


def append(table: Table, *ids: int) -> None:
    """Append a file for each id."""
    table.refresh().append(pa.table({"id": pa.array(ids, pa.int64()), "part": pa.array(ids, pa.int64())}))


def compact(table: Table) -> None:
    table.refresh().maintenance.rewrite_data_files(options={"rewrite-all": "true"}, engine="in-process")


def test_a_stream_is_read_by_java_and_by_icefloe_in_turn(spark: SparkSession, java_script: Callable[..., str], tmp_path: Path) -> None:
    warehouse = str(tmp_path / "warehouse")
    catalog = FileSystemCatalog("lake", warehouse=warehouse)
    catalog.create_namespace("db")
    attach(spark, "lake", catalog)
    schema = pa.schema([("id", pa.int64()), ("part", pa.int64())])
    properties = {"format-version": "2", "commit.manifest.min-count-to-merge": "2"}
    table = catalog.create_table("db.t", schema, partition_spec=["part"], properties=properties)
    query, other = Query(spark, tmp_path / "query"), Query(spark, tmp_path / "other")

    append(table, 0, 1, 2)
    append(table, 3, 4)
    assert not java_script(query.in_java(**ONE_FILE), warehouse)
    of_java = query.batches
    assert sorted(map(len, of_java)) == [1] * 5
    query.forget(4, begun=True)
    append(table, 5, 6, 7)
    compact(table)
    append(table, 8, 9)
    query.run(**ONE_FILE)
    continued = query.batches
    assert continued[:5] == of_java, "Icefloe reads the same rows where it repeats a batch of Java"
    assert sorted(row for batch in continued for row in batch) == list(range(10))
    assert len(continued[-1]) == 1

    query.forget(len(continued) - 1, begun=True)
    append(table, 10, 11)
    other.run(**ONE_FILE)
    other.forget(3, begun=False)
    printed = java_script(query.in_java() + other.in_java(), warehouse)
    assert "Version 2 is not supported" in printed
    assert len(other.batches) == 3, "Java would skip the rest of the rows with which the stream begins"
    assert query.batches[:-1] == continued, "Java reads the same rows where it repeats a batch of Icefloe"
    assert query.batches[-1] == [10, 11]

    append(table, 12)
    compact(table)
    query.run()
    append(table, 13)
    assert not java_script(query.in_java(), warehouse)
    assert [batch for batch in query.batches if batch][-2:] == [[12], [13]]
