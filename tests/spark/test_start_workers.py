"""The Python workers of a local session: started in the background by `attach`, with the modules of tasks imported, and without pandas."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

from icefloe.spark.write import start_workers

pytestmark = pytest.mark.spark

SCRIPT = """
import gc, json, sys, threading
import icefloe.spark
from icefloe import load_catalog
from icefloe.spark.write.start_workers import DAEMON_SETTING

spark = icefloe.spark.session(master="local[1]", **json.loads(sys.argv[2]))
icefloe.spark.attach(spark, "lake", load_catalog("lake", warehouse=sys.argv[1]))
starting = [thread for thread in threading.enumerate() if thread.name == "icefloe-start-workers"]
for thread in starting:
    thread.join(120)
icefloe.spark.attach(spark, "again", load_catalog("again", warehouse=sys.argv[1] + "/again"))
more = [thread for thread in threading.enumerate() if thread.name == "icefloe-start-workers"]
tracker = spark.sparkContext.statusTracker()
jobs = tracker.getJobIdsForGroup("icefloe-start the Python workers")
states = [tracker.getJobInfo(job).status for job in jobs]
names = ("icefloe.spark.write.data_file_job", "pandas", "sqlalchemy", "sqlglot")
loaded = spark.sparkContext.parallelize([0], 1).map(lambda _: [name for name in names if name in sys.modules]).collect()[0]
skips = spark.sparkContext.parallelize([0], 1).map(lambda _: gc.get_freeze_count() > len(sys.modules)).collect()[0]
spark.sql("CREATE NAMESPACE lake.db")
spark.sql("CREATE TABLE lake.db.t AS SELECT id FROM range(5)")
rows = spark.table("lake.db.t").count()
daemon = spark.sparkContext.getConf().get(DAEMON_SETTING)
print("\\n" + json.dumps([len(starting), len(more), states, loaded, skips, daemon, rows]))
"""


def started(folder: Path, settings: dict[str, str]) -> list[object]:
    folder.mkdir(exist_ok=True)
    (folder / "again").mkdir(exist_ok=True)
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(folder), json.dumps(settings)], capture_output=True, text=True, check=False, timeout=300
    )
    assert run.returncode == 0, run.stderr
    return list(json.loads(run.stdout.splitlines()[-1]))


@pytest.mark.slow
def test_a_worker_starts_in_the_background_once_with_the_modules_of_tasks_that_no_collection_visits_and_without_pandas(
    tmp_path: Path,
) -> None:
    daemon = "icefloe.spark.write.worker_daemon"
    assert started(tmp_path / "lake", {}) == [1, 0, ["SUCCEEDED"], ["icefloe.spark.write.data_file_job"], True, daemon, 5]


@pytest.mark.slow
def test_the_daemon_that_the_user_has_chosen_stays(tmp_path: Path) -> None:
    daemon = "pyspark.daemon"
    assert started(tmp_path / "lake", {"spark.python.daemon.module": daemon}) == [1, 0, ["SUCCEEDED"], [], False, daemon, 5]


PYTHON_FUNCTION = """
import icefloe.spark

spark = icefloe.spark.session(master="local[1]")
print(spark.sparkContext.parallelize([1], 1).map(lambda number: number + 1).collect())
"""


@pytest.mark.slow
def test_python_functions_run_in_workers_whose_python_has_no_icefloe(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -S "$@"\n')  # without the packages of the environment
    python.chmod(0o755)
    environment = {**os.environ, "PYSPARK_PYTHON": str(python)}
    run = subprocess.run([sys.executable, "-c", PYTHON_FUNCTION], capture_output=True, text=True, check=False, timeout=300, env=environment)
    assert (run.stdout.splitlines()[-1:], run.returncode) == (["[2]"], 0), run.stderr


def test_workers_that_find_another_icefloe_or_none_are_forked_by_the_daemon_of_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    gateway = Mock()
    configured = gateway.jvm.org.apache.spark.SparkConf.return_value
    configured.get.side_effect = lambda _, default: default
    configured.contains.return_value = False
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    assert start_workers.worker_settings(gateway, {}) == {start_workers.DAEMON_SETTING: start_workers.DAEMON}
    monkeypatch.setattr(start_workers, "__file__", "/in/sys.path/alone/icefloe/spark/write/start_workers.py")
    assert start_workers.worker_settings(gateway, {}) == {}
