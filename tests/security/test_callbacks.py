"""Py4J's callback server refuses every process but the JVM of the session, whenever it was started, and the session's own streams still call Python."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from icefloe.spark.bridge.callback_server import start_callbacks
from icefloe.spark.bridge.gateway import gateway_of

pytestmark = pytest.mark.spark
Run = Callable[[str], list[tuple[Any, ...]]]
HERE = Path(__file__).parent
MOST_IDS = 40


def responses_to_another_process(spark: SparkSession, *token: str) -> list[str]:
    """Return the responses of the callback server to another process of the machine."""
    port = gateway_of(spark)._callback_server.get_listening_port()
    command = [sys.executable, str(HERE / "callback_client.py"), str(port), str(MOST_IDS), *token]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout.splitlines()


def is_refused(line: str) -> bool:
    """Return True if the connection ended without a response, or with an authentication error."""
    return len(line.split()) == 1 or "refused" in line or line.startswith("token !x")


def test_another_process_without_the_token_is_refused(spark: SparkSession, sql: Run) -> None:
    sql("CREATE TABLE lake.db.t AS SELECT 1 AS id")
    responses = responses_to_another_process(spark)
    assert len(responses) == MOST_IDS
    assert [line for line in responses if not is_refused(line)] == []
    assert sql("SELECT id FROM lake.db.t") == [(1,)]


def test_another_process_with_a_wrong_token_is_refused(spark: SparkSession, sql: Run) -> None:
    for token in ("", "wrong"):
        responses = responses_to_another_process(spark, token)
        assert len(responses) == MOST_IDS * 2
        assert [line for line in responses if not is_refused(line)] == []


def test_the_batches_of_a_stream_reach_python_in_a_session_with_a_catalog(spark: SparkSession, sql: Run, tmp_path: Path) -> None:
    sql("CREATE TABLE lake.db.t (id bigint)")

    def append(rows: DataFrame, number: int) -> None:
        rows.selectExpr("value AS id").writeTo("lake.db.t").append()

    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load()
    query = stream.writeStream.foreachBatch(append).option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(once=True).start()
    assert query.awaitTermination(120)
    assert query.exception() is None
    assert sql("SELECT count(*) FROM lake.db.t")[0][0] >= 5


def test_the_token_is_set_once(spark: SparkSession, sql: Run) -> None:
    gateway = gateway_of(spark)
    token = gateway.callback_server_parameters.auth_token
    start_callbacks(gateway)
    assert gateway.callback_server_parameters.auth_token == token
    assert len(token) > 40


@pytest.mark.slow
@pytest.mark.parametrize("pinned", ["true", "false"])
def test_a_server_that_a_stream_started_before_is_closed_to_others_once_a_catalog_is_attached(pinned: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.security.callback_session", str(tmp_path)]
    environment = {**os.environ, "PYSPARK_PIN_THREAD": pinned}
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env=environment, cwd=HERE.parents[1])
    assert "callbacks are as they should be" in ended.stdout, ended.stdout + ended.stderr
