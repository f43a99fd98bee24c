"""A stream whose process is killed at random moments, beside a writer that expires its snapshots: every row is in the table once."""

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


def test_every_row_is_in_the_table_once_whenever_the_stream_is_killed(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    for number in range(FILES):
        (tmp_path / "source" / f"{number}.json").write_text("\n".join(f'{{"id": {number * 10 + row}}}' for row in range(3)))
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"))
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", pa.schema([("id", pa.int64()), ("part", pa.int64())]), partition_spec=["part"])
    command = [sys.executable, str(Path(__file__).with_name("killed_stream_child.py")), str(tmp_path)]
    for kill in range(KILLS):
        target = (kill + 1) * FILES // (KILLS + 2)
        child = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until = time.monotonic() + 300
        while epochs(tmp_path) < target and child.poll() is None and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(random.uniform(0, 0.5))
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        table.refresh().append(pa.table({"id": [1_000 + kill], "part": [0]}))
        table.expire_snapshots(older_than=2**53, retain_last=1)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    rows = sorted(table.refresh().scan().to_arrow()["id"].to_pylist())
    assert rows == [number * 10 + row for number in range(FILES) for row in range(3)] + [1_000 + kill for kill in range(KILLS)]
