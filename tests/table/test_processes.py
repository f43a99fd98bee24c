"""Several processes on one table, and processes killed at random moments: no acknowledged commit is lost, and none is applied in part."""

import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from icefloe.catalog.sql_catalog import SqlCatalog
from icefloe.table import Table

SCHEMA = pa.schema([("label", pa.string()), ("number", pa.int64())])
WRITER = Path(__file__).with_name("committing.py")
ROWS_PER_APPEND = 3
APPENDS = 6  # of each writer


def catalog(warehouse: Path) -> SqlCatalog:
    return SqlCatalog("test", uri=f"sqlite:///{warehouse}/catalog.db", warehouse=str(warehouse))


def make_table(warehouse: Path) -> Table:
    lake = catalog(warehouse)
    lake.create_namespace("db")
    # Enough retries for writers that conflict all the time.
    return lake.create_table("db.t", SCHEMA, properties={"commit.retry.num-retries": "1000", "commit.retry.min-wait-ms": "5"})


def start(warehouse: Path, label: str, count: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(WRITER), str(warehouse), "db.t", label, str(count)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def rows_by_append(table: Table) -> Counter[tuple[str, int]]:
    rows = table.refresh().scan().to_arrow().to_pylist()
    return Counter((row["label"], row["number"]) for row in rows)


def check_history(table: Table) -> None:
    snapshots = table.snapshots()
    assert [snapshot.sequence_number for snapshot in snapshots] == list(range(1, len(snapshots) + 1))
    assert [snapshot.parent_snapshot_id for snapshot in snapshots] == [None, *(s.snapshot_id for s in snapshots[:-1])]
    assert len(snapshots) == len(table.history())
    if snapshots:
        total = int(snapshots[-1].summary["total-records"])
        assert total == table.scan().count() == ROWS_PER_APPEND * len(snapshots)


def test_concurrent_appends_of_two_processes_are_all_committed(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    writers = [start(tmp_path, label, APPENDS) for label in ("a", "b")]
    for writer in writers:
        out, err = writer.communicate(timeout=240)
        assert writer.returncode == 0, err[-2000:]
        assert len(out.splitlines()) == APPENDS
    assert rows_by_append(table) == {(label, number): ROWS_PER_APPEND for label in ("a", "b") for number in range(APPENDS)}
    check_history(table)
    assert {snapshot.summary["total-data-files"] for snapshot in table.snapshots()} == {str(n) for n in range(1, 2 * APPENDS + 1)}


def append_with_kills(warehouse: Path, appends: int, seed: int) -> None:
    """Kill a writer at random moments until `appends` are acknowledged, and check the table after each kill."""
    chance = random.Random(seed)
    table, acknowledged, rounds = make_table(warehouse), set[tuple[str, int]](), 0
    while len(acknowledged) < appends:
        label = f"r{rounds}"
        writer = start(warehouse, label, 20)
        assert writer.stdout is not None
        first = writer.stdout.readline()
        assert first, writer.communicate()[1][-2000:]
        time.sleep(chance.random() * 0.15)
        writer.kill()
        out, _ = writer.communicate()
        acknowledged |= {(label, int(line.split()[1])) for line in (first + out).splitlines() if len(line.split()) == 2}
        found = rows_by_append(table)
        assert set(found.values()) <= {ROWS_PER_APPEND}, "an append is half there"
        assert acknowledged <= found.keys(), "an acknowledged append is lost"
        check_history(table)
        rounds += 1
    table.append(pa.table({"label": ["end"] * 3, "number": pa.array([0] * 3, pa.int64())}))
    check_history(table)


@pytest.mark.slow
def test_a_table_is_intact_after_writers_are_killed_at_random_moments(tmp_path: Path) -> None:
    """Kill writers that are no forks; forks are killed in the default run, in `test_many_writers.py`."""
    append_with_kills(tmp_path, 5, seed=1)


@pytest.mark.slow
def test_a_table_is_intact_after_a_hundred_appends_with_kills(tmp_path: Path) -> None:
    append_with_kills(tmp_path, 100, seed=2)
