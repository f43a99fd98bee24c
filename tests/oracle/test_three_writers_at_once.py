"""Java's JdbcCatalog, PyIceberg's and Icefloe's SqlCatalog append to one table of one SQLite file at the same time, each in a process of its own.

All three begin when all are ready, and two of them continue until Java has made its commits, so that commits overlap. Java's driver waits for SQLite's lock as
long as `jdbc.busy_timeout` allows; a database that is still locked refuses before anything is committed, and the writer tries again.
"""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.oracle.conftest import ORACLES, interpreter
from tests.oracle.java_jdbc import HEAD, TAIL, sqlite_driver

from icefloe import SqlCatalog
from icefloe.table import Table

pytestmark = [pytest.mark.oracle, pytest.mark.slow]

JAVA_COMMITS = 15
SCHEMA = pa.schema([("writer", pa.string()), ("number", pa.int64())])
# No writer may give up because it lost too many races.
PATIENCE = {"commit.retry.num-retries": "1000", "commit.retry.min-wait-ms": "5", "commit.retry.max-wait-ms": "50"}

# `ready()` waits until all three are; `acknowledge(writer, number)` records an acknowledged commit in a file.
MEETING = """
import json, pathlib, sys, time
place = pathlib.Path(sys.argv[1])
def ready(writer):
    (place / (writer + ".ready")).touch()
    while len(list(place.glob("*.ready"))) < 3:
        time.sleep(0.02)
def is_over():
    return (place / "java.over").exists()
def acknowledge(writer, number):
    with open(place / (writer + ".acknowledged"), "a") as out:
        print(number, file=out)
"""

PYTHON = """
def write(writer, table, is_locked):
    refused, number = 0, 0
    ready(writer)
    while not is_over() or number < 5:
        try:
            table.append(pa.table({"writer": [writer], "number": pa.array([number], pa.int64())}))
        except Exception as error:
            if not is_locked(error):
                raise
            refused += 1
            table.refresh()
            continue
        acknowledge(writer, number)
        number += 1
        time.sleep(0.25)
    print(json.dumps({"refused": refused}))
"""

PYICEBERG = (
    MEETING
    + PYTHON
    + """
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from sqlalchemy.exc import OperationalError
catalog = SqlCatalog("lake", uri=f"sqlite:///{place}/catalog.db", warehouse=f"file://{place}/warehouse")
write("pyiceberg", catalog.load_table("db.t"), lambda error: isinstance(error, OperationalError) and "database is locked" in str(error))
"""
)

OURS = (
    MEETING
    + PYTHON
    + """
import pyarrow as pa
from icefloe import SqlCatalog
catalog = SqlCatalog("lake", uri=f"sqlite:///{place}/catalog.db", warehouse=f"{place}/warehouse")
write("ours", catalog.load_table("db.t"), lambda error: False)
"""
)

# Iceberg 1.10's catalog leaves a result open after it has listed its tables (closed since by https://github.com/apache/iceberg/pull/15463). The result has a
# read lock on the file until its process ends, and no other process can commit before that. So the test closes it.
CLOSED_RESULTS = """
def private(kind, name, of):
    found = kind.getDeclaredField(name)
    found.setAccessible(True)
    return found.get(of)
pool = private(jdbc.getClass(), "connections", jdbc)
database = private(pool.getClass().getSuperclass(), "clients", pool).peek().getDatabase()
for statement in private(database.getClass().getSuperclass(), "stmts", database).toArray():
    statement.close()
"""

JAVA = (
    MEETING
    + CLOSED_RESULTS
    + f"""
results["refused"], number = 0, 0
ready("java")
try:
    while number < {JAVA_COMMITS}:
        try:
            spark.sql(f"insert into lake.db.t values ('java', {{number}})")
        except Exception as error:
            if "SQLITE_BUSY" not in str(error):
                raise
            results["refused"] += 1
            continue
        acknowledge("java", number)
        number += 1
finally:
    (place / "java.over").touch()
"""
)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"{tmp_path}/warehouse", **{"jdbc.schema-version": "V1"})
    catalog.create_namespace("db")
    return catalog.create_table("db.t", SCHEMA, properties=PATIENCE)


def start(*command: str) -> subprocess.Popen[str]:
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(writer: str, process: subprocess.Popen[str]) -> dict[str, Any]:
    out, problem = process.communicate(timeout=600)
    assert process.returncode == 0, f"{writer}: {problem[-3000:]}"
    results: dict[str, Any] = json.loads(out.splitlines()[-1])
    return results


def test_three_implementations_append_at_once_and_nothing_acknowledged_is_lost(table: Table, tmp_path: Path) -> None:
    jar, libraries = sqlite_driver()
    here = str(tmp_path)
    writers = {
        "java": start(interpreter("java"), "-c", HEAD + JAVA + TAIL, here, str(ORACLES), str(jar), libraries),
        "pyiceberg": start(interpreter("pyiceberg"), "-c", PYICEBERG, here),
        "ours": start(sys.executable, "-c", OURS, here),
    }
    try:
        results = {writer: ended(writer, process) for writer, process in writers.items()}
    finally:
        for process in writers.values():
            process.kill()
            process.wait()
    assert results["ours"]["refused"] == 0
    acknowledged = {(writer, int(line)) for writer in writers for line in (tmp_path / f"{writer}.acknowledged").read_text().split()}
    assert len({writer for writer, _ in acknowledged}) == 3
    rows = [(row["writer"], row["number"]) for row in table.refresh().scan().to_arrow().to_pylist()]
    print(results, Counter(writer for writer, _ in rows))
    assert Counter(rows) == Counter(acknowledged), "every acknowledged commit is there, once, and no other"
    snapshots = table.snapshots()
    assert [snapshot.sequence_number for snapshot in snapshots] == list(range(1, len(rows) + 1))
    assert [snapshot.parent_snapshot_id for snapshot in snapshots] == [None, *(snapshot.snapshot_id for snapshot in snapshots[:-1])]
    assert [int(snapshot.summary["total-records"]) for snapshot in snapshots] == list(range(1, len(rows) + 1))
    java = [number for number, snapshot in enumerate(snapshots) if snapshot.summary.get("engine-name") == "spark"]
    assert len(java) == JAVA_COMMITS
    assert java[-1] - java[0] >= JAVA_COMMITS, "others committed in between"
