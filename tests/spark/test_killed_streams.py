"""Streams whose driver and executors are killed at random moments, beside writers, compaction and expiry: no row is lost or doubled.

`ICEFLOE_KILLS` sets how often the driver and the executors of the last test are killed.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from icefloe import SqlCatalog

pytestmark = [pytest.mark.spark, pytest.mark.slow]

FILES, KILLS = 24, 3
KILLS_OF_ALL = int(os.environ.get("ICEFLOE_KILLS", "8"))
DRIVERS = 0.3  # of the kills; the others are of executors, which start again sooner
REMOVED = ("delete", "update_preimage")


def epochs(folder: Path) -> int:
    """Return how many epochs Spark has recorded."""
    commits = folder / "checkpoint" / "commits"
    return sum(path.name.isdigit() for path in commits.iterdir()) if commits.exists() else 0


def processes_of(process: int) -> dict[int, str]:
    """Return a process and all that it and its children started, with their command lines. Spark's JVM is in a process group of its own."""
    parents, lines = {}, {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                lines[int(folder.name)] = (folder / "cmdline").read_text(errors="replace")
            except OSError:
                continue  # it has ended
    family = {process}
    while more := {child for child, parent in parents.items() if parent in family} - family:
        family |= more
    return {member: lines[member] for member in family if member in lines}


def kill_all(child: "subprocess.Popen[bytes]") -> None:
    """Kill a process and all that it started, the JVM too, before any of them can react."""
    for signal_number in (signal.SIGSTOP, signal.SIGKILL):
        for process in processes_of(child.pid):
            with suppress(ProcessLookupError):
                os.kill(process, signal_number)
    child.wait()


def run_and_kill(command: list[str], folder: Path, target: int) -> None:
    """Run a program, and kill it at a random moment after it has recorded so many epochs."""
    child = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 300
    while epochs(folder) < target and child.poll() is None and time.monotonic() < until:
        time.sleep(0.01)
    time.sleep(random.uniform(0, 0.5))
    kill_all(child)


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


class Pipeline:
    """Three streams in processes that are killed, the table between them, and another writer of that table."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.chance = folder, random.Random(seed)
        self.catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder / "warehouse"))
        self.catalog.create_namespace("db")
        schema = pa.schema([("id", pa.int64()), ("value", pa.int64())])
        merge_on_read = {"format-version": "3", **{f"write.{verb}.mode": "merge-on-read" for verb in ("delete", "update", "merge")}}
        self.table = self.catalog.create_table("db.t", schema, properties={**merge_on_read, "commit.retry.num-retries": "20"})
        self.replica = self.catalog.create_table("db.replica", schema, properties=merge_on_read)
        change = [("_change_type", pa.string()), ("_commit_version", pa.int64())]
        self.log = self.catalog.create_table("db.log", pa.schema([*schema, *change]))
        self.command = [sys.executable, str(Path(__file__).with_name("killed_pipeline_child.py")), str(folder)]
        self.environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
        self.child: subprocess.Popen[bytes] | None = None
        self.files = self.writes = 0
        self.order: dict[int, int] = {}

    def begin(self) -> None:
        """Start the streams on a table with one row, and wait for it in the log, so that the log has every later change."""
        (self.folder / "source").mkdir()
        self.table.append(pa.table({"id": [-1], "value": [0]}))
        self.start()
        self.wait(lambda: self.log.refresh().metadata.current_snapshot_id is not None)

    def wait(self, condition: Callable[[], Any]) -> None:
        """Wait for a condition while the driver runs."""
        until = time.monotonic() + 300
        while not condition() and self.child is not None and self.child.poll() is None:
            assert time.monotonic() < until, (self.folder / "child.log").read_text()[-3000:]
            time.sleep(0.1)

    def start(self) -> None:
        with (self.folder / "child.log").open("wb") as log:
            self.child = subprocess.Popen(self.command, start_new_session=True, stdout=log, stderr=log, env=self.environment)

    def executors(self) -> list[int]:
        """Return the processes of the executors of the running driver."""
        assert self.child is not None
        return [
            process
            for process, line in processes_of(self.child.pid).items()
            if "CoarseGrainedExecutorBackend" in line and "--driver-url" in line
        ]

    def add_file(self) -> None:
        """Add a file of rows with new keys."""
        self.files += 1
        rows = "\n".join(json.dumps({"id": self.files * 10 + row, "value": 0}) for row in range(4))
        (self.folder / "new.json").write_text(rows)
        (self.folder / "new.json").rename(self.folder / "source" / f"{self.files}.json")

    def write(self) -> None:
        """Change rows as another writer does, beside the streams."""
        self.writes += 1
        self.table.refresh()
        ids = self.table.scan().select("id").to_arrow()["id"].to_pylist()
        chosen = self.chance.sample(ids, min(len(ids), 5))
        match self.chance.randrange(4):
            case 0:
                self.table.delete(f"id in ({', '.join(map(str, chosen[:2]))})")
            case 1 if self.writes % 4 == 0:
                self.table.maintenance.rewrite_data_files(options={"rewrite-all": "true"})
            case _:
                self.table.upsert(pa.table({"id": chosen, "value": [self.writes] * len(chosen)}), ["id"])

    def expire(self) -> None:
        """Expire the snapshots that no stream needs: those before the last batch but one of each."""
        self.note()
        read = []
        line = [snapshot.snapshot_id for snapshot in self.table.refresh().ancestors()]
        for name in ("merge", "log"):
            folder = self.folder / f"checkpoint-{name}" / "offsets"
            offsets = sorted(int(path.name) for path in folder.iterdir() if path.name.isdigit()) if folder.exists() else []
            if len(offsets) < 2:
                return
            offset = json.loads((folder / str(offsets[-2])).read_text().splitlines()[-1])
            read.append(line.index(offset["snapshot_id"]) if offset["snapshot_id"] in line else len(line))
        gone = line[max(read) + 1 :]
        if gone:
            self.table.expire_snapshots(snapshot_ids=gone)

    def kill(self) -> str:
        """Kill an executor, or the driver, mostly after an epoch, at times before there is an executor. Return which."""
        if self.chance.random() < 0.8:
            before = self.epochs()
            self.wait(lambda: self.epochs() > before)
        if self.chance.random() < 0.9:
            self.wait(self.executors)
        executors = self.executors()
        if executors and self.chance.random() > DRIVERS:
            os.kill(self.chance.choice(executors), signal.SIGKILL)
            return "executor"
        self.stop()
        self.start()
        return "driver"

    def epochs(self) -> int:
        """Return how many epochs the three streams have recorded."""
        return sum(path.name.isdigit() for path in self.folder.glob("checkpoint-*/commits/*"))

    def stop(self) -> None:
        """Kill the driver with its executors."""
        if self.child is not None and self.child.poll() is None:
            kill_all(self.child)

    def end(self) -> None:
        """Kill the driver, and run the streams to the end of what there is."""
        self.stop()
        done = subprocess.run(
            [*self.command, "once"], capture_output=True, text=True, check=False, timeout=600, start_new_session=True, env=self.environment
        )
        assert done.returncode == 0, done.stderr[-3000:]

    def check(self) -> None:
        """Check that the copy equals the table, and that the log has every change once."""
        tables = (self.table, self.replica)
        rows = [sorted((row["id"], row["value"]) for row in table.refresh().scan().to_arrow().to_pylist()) for table in tables]
        assert rows[0] == rows[1]
        self.note()
        log = self.log.refresh().scan().to_arrow().to_pylist()
        log.sort(key=lambda row: (self.order[row["_commit_version"]], row["_change_type"] not in REMOVED))
        kept: Counter[tuple[int, int]] = Counter()
        for row in log:
            key = (row["id"], row["value"])
            kept[key] += -1 if row["_change_type"] in REMOVED else 1
            assert kept[key] in (0, 1), f"{row} is in the log twice, or the row that it removes is missing"
        assert sorted(kept.elements()) == rows[0]
        new = [row["id"] for row in log if row["_change_type"] == "insert" and row["value"] == 0]
        assert set(new) >= {file * 10 + row for file in range(1, self.files + 1) for row in range(4)}, (
            "every row of every file was inserted"
        )

    def note(self) -> None:
        """Note the order of the snapshots before any is expired."""
        self.order |= {snapshot.snapshot_id: snapshot.sequence_number for snapshot in self.table.refresh().snapshots()}


def test_a_copy_and_a_log_of_changes_are_right_whenever_drivers_and_executors_are_killed(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path, seed=random.randrange(10_000))
    pipeline.begin()
    try:
        kills: Counter[str] = Counter()
        while kills.total() < KILLS_OF_ALL:
            until = time.monotonic() + pipeline.chance.uniform(0.5, 6)
            while time.monotonic() < until:
                pipeline.chance.choice([pipeline.add_file, pipeline.write, pipeline.write, pipeline.expire])()
                time.sleep(pipeline.chance.uniform(0.3, 1.2))
            kills[pipeline.kill()] += 1
            print(f"{kills.total()} kills, {pipeline.epochs()} epochs", flush=True)
        pipeline.end()
    finally:
        pipeline.stop()
    pipeline.check()
    print(f"{kills}, {pipeline.files} files, {pipeline.writes} writes, {pipeline.log.scan().count()} changes")
