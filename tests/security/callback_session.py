"""A session of its own for the test of callbacks: Spark's stream calls Python before a catalog is attached and after, as another process calls the server."""

import subprocess
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from icefloe import SqlCatalog
from icefloe.spark.attach_catalog import attach
from icefloe.spark.bridge.gateway import gateway_of
from icefloe.spark.runtime.start_session import session

CLIENT = Path(__file__).with_name("callback_client.py")


def stream_once(spark: SparkSession, folder: Path) -> int:
    """Return the rows that one batch of a stream passes to Python."""
    seen: list[int] = []

    def note(rows: DataFrame, number: int) -> None:
        seen.append(rows.count())

    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load()
    query = stream.writeStream.foreachBatch(note).option("checkpointLocation", str(folder)).trigger(once=True).start()
    query.awaitTermination(120)
    assert query.exception() is None
    return sum(seen)


def main(folder: Path) -> None:
    """Run all steps; an assertion fails at the first wrong one."""
    spark = session(master="local[2]")
    assert stream_once(spark, folder / "before") > 0
    gateway = gateway_of(spark)
    port = gateway._callback_server.get_listening_port()
    early = subprocess.Popen(
        [sys.executable, str(CLIENT), str(port), "40", "later"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert early.stdout is not None
    assert early.stdout.readline() == "connected\n"
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder / "warehouse"))
    catalog.create_namespace("db")
    attach(spark, "lake", catalog)
    spark.sql("CREATE TABLE lake.db.t AS SELECT id FROM range(7)")
    told, _ = early.communicate("\n", timeout=60)
    answers = told.splitlines()
    assert len(answers) == 40, told
    assert [line for line in answers if "!x" not in line and "refused" not in line] == [], (
        told
    )  # the user's own batch function has no such method
    assert stream_once(spark, folder / "after") > 0
    assert spark.sql("SELECT count(*) FROM lake.db.t").collect()[0][0] == 7
    print("callbacks are as they should be")
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
