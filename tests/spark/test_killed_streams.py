"""A stream whose process is killed at random moments, beside a writer that expires its snapshots: every row is in the table once."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

from icefloe import SqlCatalog

pytestmark = [pytest.mark.spark, pytest.mark.slow]

FILES, KILLS = 24, 3


def epochs(folder: Path) -> int:
    """Return how many epochs Spark has recorded."""
    commits = folder / "checkpoint" / "commits"
    return sum(path.name.isdigit() for path in commits.iterdir()) if commits.exists() else 0


def run_and_kill(command: list[str], folder: Path, target: int) -> None:
    """Run a program, and kill it at a random moment after it has recorded so many epochs."""
    child = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 300
    while epochs(folder) < target and child.poll() is None and time.monotonic() < until:
        time.sleep(0.01)
    time.sleep(random.uniform(0, 0.5))
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def test_every_row_is_in_the_table_once_whenever_the_stream_is_killed(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    for number in range(FILES):
        (tmp_path / "source" / f"{number}.json").write_text("\n".join(f'{{"id": {number * 10 + row}}}' for row in range(3)))
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"))
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", pa.schema([("id", pa.int64()), ("part", pa.int64())]), partition_spec=["part"])
    command = [sys.executable, str(Path(__file__).with_name("killed_stream_child.py")), str(tmp_path)]
    for kill in range(KILLS):
        run_and_kill(command, tmp_path, (kill + 1) * FILES // (KILLS + 2))
        table.refresh().append(pa.table({"id": [1_000 + kill], "part": [0]}))
        table.expire_snapshots(older_than=2**53, retain_last=1)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    rows = sorted(table.refresh().scan().to_arrow()["id"].to_pylist())
    assert rows == [number * 10 + row for number in range(FILES) for row in range(3)] + [1_000 + kill for kill in range(KILLS)]


def test_a_table_that_follows_the_changes_of_another_is_equal_to_it_whenever_the_stream_is_killed(tmp_path: Path) -> None:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"))
    catalog.create_namespace("db")
    schema = pa.schema([("id", pa.int64()), ("value", pa.int64())])
    merge_on_read = {"format-version": "3", **{f"write.{verb}.mode": "merge-on-read" for verb in ("delete", "update", "merge")}}
    table = catalog.create_table("db.t", schema, properties=merge_on_read)
    replica = catalog.create_table("db.replica", schema)
    chance = random.Random(5)

    def commit(number: int) -> None:
        ids = chance.sample(range(40), 6)
        table.upsert(pa.table({"id": ids, "value": [number] * len(ids)}), ["id"])
        table.delete(f"id in ({ids[0]}, {chance.randrange(40)})")
        if number % 4 == 0:
            table.maintenance.rewrite_data_files(options={"rewrite-all": "true"})

    for number in range(5):
        commit(number)
    command = [sys.executable, str(Path(__file__).with_name("killed_changes_child.py")), str(tmp_path)]
    for kill in range(KILLS):
        run_and_kill(command, tmp_path, 2 * kill + 1)
        line = [snapshot.snapshot_id for snapshot in table.refresh().ancestors()]
        offsets = sorted(int(path.name) for path in (tmp_path / "checkpoint" / "offsets").iterdir() if path.name.isdigit())
        before = [json.loads((tmp_path / "checkpoint" / "offsets" / str(offset)).read_text().splitlines()[-1]) for offset in offsets]
        read = [offset["snapshot_id"] for offset in before[:-1]]  # the last batch may run again
        if read:
            table.expire_snapshots(snapshot_ids=line[line.index(read[-1]) + 1 :])
        for number in range(3):
            commit(10 * kill + number)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    rows = [sorted(map(tuple, (row.values() for row in one.refresh().scan().to_arrow().to_pylist()))) for one in (table, replica)]
    assert rows[0] == rows[1]
