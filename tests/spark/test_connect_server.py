"""A server of Spark Connect whose clients, plain PySpark without Icefloe, have the whole SQL of the catalogs."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from icefloe import SqlCatalog
from icefloe.catalog.file_system_catalog import FileSystemCatalog

pytestmark = [pytest.mark.spark, pytest.mark.slow]

CLIENT = """
import json, sys, tempfile
from pyspark.sql import SparkSession
assert "icefloe" not in sys.modules
def rows(spark, text):
    return [list(row) for row in spark.sql(text).collect()]
spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
spark.sql("CREATE TABLE prod.db.t (id BIGINT, kind STRING) TBLPROPERTIES ('write.delete.mode'='merge-on-read')")
spark.sql("INSERT INTO prod.db.t SELECT id, 'k' FROM range(0, 10)")
spark.range(10, 12).selectExpr("id", "'df' AS kind").writeTo("prod.db.t").append()
spark.sql("DELETE FROM prod.db.t WHERE id = 3")
spark.sql("MERGE INTO prod.db.t t USING (SELECT 4L AS id, 'm' AS kind) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *")
spark.sql("ALTER TABLE prod.db.t CREATE TAG done")
print(json.dumps(rows(spark, "SELECT kind, count(*) FROM prod.db.t GROUP BY kind ORDER BY kind")))
print(json.dumps(rows(spark, "SELECT count(*) FROM prod.db.t VERSION AS OF 'done'")))
print(json.dumps(spark.table("prod.db.t").where("id > 8").count()))
print(json.dumps(rows(spark, "SELECT count(*) FROM prod.db.t.snapshots")))
print(json.dumps(len(rows(spark, "CALL prod.system.rewrite_data_files(table => 'db.t')"))))
counts = []
for number, frame in enumerate([spark.readStream.table("prod.db.t"), spark.readStream.format("iceberg").load("prod.db.t")]):
    query = frame.where("id > 8").writeStream.format("memory").queryName(f"seen{number}").trigger(availableNow=True).start()
    query.awaitTermination()
    counts.append(spark.table(f"seen{number}").count())
print(json.dumps(counts))
spark.sql("CALL prod.system.create_changelog_view(table => 'db.t', changelog_view => 'seen')")
print(json.dumps(rows(spark, "SELECT _change_type, count(*) FROM seen GROUP BY 1 ORDER BY 1")))
first = rows(spark, "SELECT snapshot_id FROM prod.db.t.snapshots ORDER BY committed_at")[0][0]
clause = f"prod.db.t CHANGES FROM VERSION {first} EXCLUSIVE" if spark.version >= "4.2" else f"seen WHERE _commit_snapshot_id <> {first}"
print(json.dumps(rows(spark, f"SELECT count(*), count(id), min(id) FROM {clause}")))
changes = spark.readStream.format("iceberg").options(**{"read.mode": "changes", "start-snapshot-id": first}).load("prod.db.t")
changes.writeStream.format("memory").queryName("changed").trigger(availableNow=True).start().awaitTermination()
print(json.dumps(rows(spark, "SELECT lower(_change_type), count(*) FROM changed GROUP BY 1 ORDER BY 1")))
other = SparkSession.builder.remote(sys.argv[1]).create()
print(json.dumps(rows(other, "SELECT count(*) FROM prod.db.t")))
other.stop()
first_message = SparkSession.builder.remote(sys.argv[1]).create()
first_message.catalog.setCurrentCatalog("prod")
print(json.dumps([first_message.catalog.currentCatalog(), first_message.table("db.t").count()]))
first_message.stop()
stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load().selectExpr("value + 100 AS id", "'s' AS kind")
for _ in range(2):
    to_table = stream.writeStream.outputMode("update").option("key-columns", "id").option("checkpointLocation", tempfile.mkdtemp())
    query = to_table.trigger(once=True).toTable("prod.db.t")
    query.awaitTermination()
    print(json.dumps([query.lastProgress["sink"]["numOutputRows"], spark.table("prod.db.t").count()]))
"""


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@contextmanager
def connect_server(folder: Path, *options: str) -> Iterator[str]:
    """Start `icefloe connect-server` in a folder, yield the address of its clients, and end it as Ctrl-C does."""
    port = free_port()
    command = [sys.executable, "-m", "icefloe", "connect-server", "--port", str(port), "--master", "local[2]"]
    command += ["--conf", "spark.sql.shuffle.partitions=2", *options]
    path = folder / "server.log"
    with path.open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
    try:
        until = time.monotonic() + 240
        while "listens on" not in path.read_text():
            assert server.poll() is None, path.read_text()
            assert time.monotonic() < until
            time.sleep(0.5)
        yield f"sc://127.0.0.1:{port}"
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(timeout=120)


def run_client(program: str, address: str, folder: Path) -> list[object]:
    """Run a program of plain PySpark, and return the values that it prints."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    command = [sys.executable, "-c", program, address]
    client = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False, env=environment)
    assert client.returncode == 0, client.stderr[-3000:] + (folder / "server.log").read_text()[-3000:]
    return [json.loads(line) for line in client.stdout.splitlines()]


def test_clients_without_icefloe_have_the_whole_sql_and_ctrl_c_ends_the_server(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path}/catalog.db"
    catalog = SqlCatalog("prod", uri=uri, warehouse=str(tmp_path / "warehouse"))
    catalog.create_namespace("db")
    catalog.close()
    with connect_server(tmp_path, "--catalog", "prod", "--uri", uri, "--warehouse", f"{tmp_path}/warehouse") as address:
        assert run_client(CLIENT, address, tmp_path) == [
            [["df", 2], ["k", 8], ["m", 1]],
            [[11]],
            3,
            [[4]],
            1,
            [3, 3],
            [["DELETE", 2], ["INSERT", 13]],
            [[5, 5, 3]],
            [["delete", 2], ["insert", 3]],
            [[11]],
            ["prod", 11],
            [5, 16],
            [5, 16],
        ]
    assert SqlCatalog("prod", uri=uri).load_table("db.t").scan().count() == 16


CLIENT_OF_SETTINGS = """
import json, sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
spark.sql("CREATE NAMESPACE folders.db")
spark.sql("CREATE TABLE folders.db.t (id BIGINT)")
spark.range(3).writeTo("folders.db.t").append()
spark.sql("CREATE TABLE lake.db.t AS SELECT id + 10 AS id FROM folders.db.t")
print(json.dumps([row[0] for row in spark.sql("SELECT id FROM folders.db.t UNION ALL SELECT id FROM lake.db.t ORDER BY id").collect()]))
print(json.dumps(spark.conf.get("spark.sql.catalog.folders.warehouse").endswith("folders")))
"""


def test_catalogs_of_the_settings_are_there_for_clients_beside_those_that_are_named(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path}/catalog.db"
    catalog = SqlCatalog("lake", uri=uri, warehouse=str(tmp_path / "lake"))
    catalog.create_namespace("db")
    catalog.close()
    settings = {
        "spark.sql.catalog.folders": "icefloe",
        "spark.sql.catalog.folders.type": "file-system",
        "spark.sql.catalog.folders.warehouse": str(tmp_path / "folders"),
    }
    options = [part for name, text in settings.items() for part in ("--conf", f"{name}={text}")]
    with connect_server(tmp_path, *options, "--catalog", "lake", "--uri", uri, "--warehouse", f"{tmp_path}/lake") as address:
        assert run_client(CLIENT_OF_SETTINGS, address, tmp_path) == [[0, 1, 2, 10, 11, 12], True]
    assert FileSystemCatalog("folders", warehouse=str(tmp_path / "folders")).load_table("db.t").scan().count() == 3
    assert SqlCatalog("lake", uri=uri).load_table("db.t").scan().count() == 3
