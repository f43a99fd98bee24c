"""Ctrl-C during a statement: `KeyboardInterrupt`, no running job, no progress, no remaining file, and a session that runs the next statement."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

INTERRUPTED = """
import glob, io, itertools, json, os, signal, sys, threading, time
from icefloe.catalog.catalog_loader import load_catalog
from icefloe.spark import session
lake = load_catalog("lake", type="sql", uri=f"sqlite:///{sys.argv[1]}/c.db", warehouse=sys.argv[1])
spark = session(catalogs={"lake": lake}, master="local[2]", **{"spark.driver.memory": "700m"})
spark.sql("CREATE NAMESPACE lake.a")
spark.sql("CREATE TABLE lake.a.t (id bigint) TBLPROPERTIES ('write.update.mode' = 'merge-on-read')")
spark.sql("INSERT INTO lake.a.t VALUES (1), (2)")
endless = "SELECT id FROM range(0, 2000000000000, 1, 2)"
files = lambda: sorted(glob.glob(sys.argv[1] + "/a/t/data/*"))
before = files()

def press_soon():
    status = spark.sparkContext.statusTracker()
    while not ended.is_set() and not status.getActiveJobsIds():
        time.sleep(0.1)
    if not ended.wait(1.5):
        os.kill(os.getpid(), signal.SIGINT)

statements = (
    f"INSERT INTO lake.a.t {endless}",
    f"UPDATE lake.a.t SET id = 3 WHERE id IN (SELECT hash(id) FROM ({endless}))",
    f"SELECT count(*) FROM ({endless}) WHERE hash(id) = 7",
)
for place, statement in itertools.product(("script", "notebook"), statements):
    ended = threading.Event()
    presser = threading.Thread(target=press_soon, daemon=True)
    presser.start()
    came = None
    if place == "notebook":  # as a kernel does before each cell
        sys.stdout = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})()
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        spark.sql(statement).collect()
    except BaseException as error:
        came = "KeyboardInterrupt" if isinstance(error, KeyboardInterrupt) else repr(error)
    ended.set()
    presser.join()
    for _ in range(100):
        running = list(spark.sparkContext.statusTracker().getActiveJobsIds())
        if not running:
            break
        time.sleep(0.1)
    rows = sorted(row.id for row in spark.table("lake.a.t").collect())
    reporters = [thread.name for thread in threading.enumerate() if thread.name == "icefloe-progress"]
    print(json.dumps([place, came, rows, running, reporters, files() == before]), file=sys.__stdout__)
"""


WAITING = """
import os, signal, sys, threading, time
from icefloe.catalog.catalog_loader import load_catalog
from icefloe.spark import session
lake = load_catalog("lake", type="sql", uri=f"sqlite:///{sys.argv[1]}/c.db", warehouse=sys.argv[1])
spark = session(catalogs={"lake": lake}, master="local[2]", **{"spark.driver.memory": "700m"})
spark.sql("CREATE NAMESPACE lake.a")
spark.sql("CREATE TABLE lake.a.t (id bigint)")
spark.sql("INSERT INTO lake.a.t VALUES (1), (2)")
stream = spark.readStream.format("iceberg").option("read.mode", "changes").load("lake.a.t").writeStream.format("noop")
query = stream.option("checkpointLocation", sys.argv[1] + "/checkpoint").start()
query.processAllAvailable()  # and waits for further snapshots
for wait in (query.awaitTermination, lambda: query.awaitTermination(300), spark.streams.awaitAnyTermination):
    threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
    begin = time.monotonic()
    try:
        wait()
    except KeyboardInterrupt:
        print(time.monotonic() - begin < 60, query.isActive, spark.table("lake.a.t").count())
query.stop()
"""


@pytest.mark.slow
def test_ctrl_c_ends_the_wait_for_a_stream_that_has_nothing_to_do(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WAITING, str(tmp_path)], env={**os.environ}, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["True True 2"] * 3


@pytest.mark.slow
def test_ctrl_c_ends_a_statement_and_leaves_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, str(tmp_path)],
        env={**os.environ},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        [place, "KeyboardInterrupt", [1, 2], [], [], True] for place in ("script", "notebook") for _ in range(3)
    ]
