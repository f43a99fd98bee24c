"""Spark's own reader connects to no host that only a hostile table names: Hadoop has file systems for http and others, which open any host."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.security.forging import forged

from icefloe import SqlCatalog
from icefloe.errors import LocationNotAllowedError
from icefloe.spark import attach
from icefloe.table import Table

pytestmark = pytest.mark.spark
ROWS = pa.table({"a": pa.array([1, 2], pa.int64())})


@pytest.fixture
def server() -> Iterator[tuple[str, list[str]]]:
    """Return a server of this machine, and the requests that it received."""
    requests: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requests.append(self.path)
            self.send_error(404)

        do_HEAD = do_GET  # noqa: N815

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        yield f"127.0.0.1:{running.server_port}", requests
        running.shutdown()
        thread.join()


def hostile(lake: SqlCatalog, folder: Path, name: str, url: str) -> Table:
    table = lake.create_table(f"db.of_{name}", ROWS.schema)
    table.append(ROWS)
    file = str(next(iter(table.scan().plan_files())).file.file_path)
    return lake.register_table(f"db.{name}", forged(table, folder / name, paths={file: url}))


@pytest.mark.parametrize("form", ["http://{}/x.parquet", "http:/{}/x.parquet", "hdfs://{}/x.parquet"])
def test_spark_makes_no_request_to_a_host_that_a_table_names(
    spark: SparkSession, tmp_path: Path, server: tuple[str, list[str]], form: str
) -> None:
    host, requests = server
    lake = SqlCatalog("hostile", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"))
    lake.create_namespace("db")
    table = hostile(lake, tmp_path, "t", form.format(host))
    with pytest.raises(LocationNotAllowedError, match=r"127\.0\.0\.1"):
        table.scan().to_spark().collect()
    attach(spark, "hostile", lake)
    for statement in (
        "SELECT * FROM hostile.db.t",
        "SELECT count(a) FROM hostile.db.t WHERE a > 1",
        "DELETE FROM hostile.db.t WHERE a = 1",
    ):
        with pytest.raises(Exception, match=r"not read or written"):
            spark.sql(statement).collect()
    assert requests == []


def test_drop_with_purge_warns_of_files_that_were_kept(spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lake = SqlCatalog("purged", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"))
    lake.create_namespace("db")
    attach(spark, "purged", lake)
    secret = tmp_path / "secret"
    secret.write_text("mine")
    hostile(lake, tmp_path / "x", "t", str(secret))
    spark.sql("DROP TABLE purged.db.t PURGE")
    assert secret.exists()
    assert str(secret) in caplog.text


def test_call_names_files_that_were_kept_outside_the_table(spark: SparkSession, tmp_path: Path) -> None:
    lake = SqlCatalog("kept", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"))
    lake.create_namespace("db")
    attach(spark, "kept", lake)
    secret = tmp_path / "secret"
    for name, allowed in (("a", ""), ("b", f", allow_outside => array('{tmp_path}')")):
        secret.write_text("mine")
        hostile(lake, Path(lake.create_table(f"db.x{name}", ROWS.schema).location()), name, str(secret)).delete("true")
        call = f"CALL kept.system.expire_snapshots(table => 'db.{name}', older_than => now() + INTERVAL 1 DAY, retain_last => 1{allowed})"
        row = spark.sql(call).collect()[0].asDict()
        if allowed:
            assert not secret.exists()
            assert str(secret) not in row.get("kept_outside_files", [])
        else:
            assert secret.exists()
            assert str(secret) in row["kept_outside_files"]
            assert row["kept_outside_files_count"] >= 1
