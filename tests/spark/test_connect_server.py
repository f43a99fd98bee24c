"""A server of Spark Connect whose clients, plain PySpark without Icefloe, have the whole SQL of the catalogs."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from icefloe import SqlCatalog

pytestmark = [pytest.mark.spark, pytest.mark.slow]

CLIENT = """
import json, sys
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
other = SparkSession.builder.remote(sys.argv[1]).create()
print(json.dumps(rows(other, "SELECT count(*) FROM prod.db.t")))
other.stop()
"""


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def test_clients_without_icefloe_have_the_whole_sql_and_ctrl_c_ends_the_server(tmp_path: Path) -> None:
    catalog = SqlCatalog("prod", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"))
    catalog.create_namespace("db")
    catalog.close()
    port = free_port()
    command = [sys.executable, "-m", "icefloe", "connect-server", "--catalog", "prod", "--uri", f"sqlite:///{tmp_path}/catalog.db"]
    command += [
        "--warehouse",
        f"{tmp_path}/warehouse",
        "--port",
        str(port),
        "--master",
        "local[2]",
        "--conf",
        "spark.sql.shuffle.partitions=2",
    ]
    with (tmp_path / "server.log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, cwd=tmp_path)
    try:
        until = time.monotonic() + 240
        while "listens on" not in (tmp_path / "server.log").read_text():
            assert server.poll() is None, (tmp_path / "server.log").read_text()
            assert time.monotonic() < until
            time.sleep(0.5)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
        client = subprocess.run(
            [sys.executable, "-c", CLIENT, f"sc://127.0.0.1:{port}"],
            capture_output=True,
            text=True,
            timeout=500,
            check=False,
            env=environment,
        )
        assert client.returncode == 0, client.stderr[-3000:] + (tmp_path / "server.log").read_text()[-3000:]
        assert [json.loads(line) for line in client.stdout.splitlines()] == [[["df", 2], ["k", 8], ["m", 1]], [[11]], 3, [[4]], 1, [[11]]]
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(timeout=120)
    assert SqlCatalog("prod", uri=f"sqlite:///{tmp_path}/catalog.db").load_table("db.t").scan().count() == 11
