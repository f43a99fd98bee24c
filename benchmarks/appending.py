"""One-row appends to tables of 10, 1,000 and 10,000 snapshots, compared with PyIceberg at 1,000 on the same SQLite catalog and table.

The engines take turns on one table, so that both have the same history (it grows by the few measured rows). Icefloe creates the tables once and keeps a copy
of the catalog file: restoring the copy resets the tables to their first snapshots. Manifest merging is on, which is the default.
"""

import json
import os
import shutil
import subprocess
from typing import Any

from benchmarks import measure
from benchmarks.measure import Comparison, child, interleaved, median, say, seconds

FEW, SNAPSHOTS, MANY, REPEATS, TABLE = 10, 1_000, 10_000, 9, "bench.appends{}"


class Appender:
    """A process of one engine, which keeps its catalog open and appends on request."""

    def __init__(self, engine: str, *arguments: str, program: str = "appending_child.py") -> None:
        command = [str(measure.PYTHON_OF[engine]), str(measure.ROOT / "benchmarks" / program), engine, *arguments]
        environment = {**os.environ, "PYTHONPATH": str(measure.ROOT)}  # some children use modules of the benchmarks
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)

    def append(self) -> dict[str, Any]:
        """Append once; return the seconds of the append and of loading the table before it."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write("append\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"an appending process ended with {self.process.wait()}")
        return dict(json.loads(line))

    def close(self) -> None:
        """End the process."""
        self.process.communicate()


def run(maker: str = "icefloe") -> list[Comparison]:
    """Measure the append with and without loading the table, and its growth with the history, in wall-clock and CPU seconds."""
    folder = measure.BUILD / "appending"
    kept, used, warehouse = folder / "catalog-kept.db", folder / "catalog.db", folder / "warehouse"
    if not kept.exists():
        say(f"append: tables of {FEW}, {SNAPSHOTS:,} and {MANY:,} snapshots (created once)")
        shutil.rmtree(folder, ignore_errors=True)
        warehouse.mkdir(parents=True)
        for count in (FEW, SNAPSHOTS, MANY):
            child(maker, "appending_child.py", str(used), str(warehouse), TABLE.format(count), str(count))
        shutil.copy(used, kept)
    shutil.copy(kept, used)
    say("append: one row at a time, in turns")
    sides = (("icefloe", FEW), ("icefloe", SNAPSHOTS), ("pyiceberg", SNAPSHOTS), ("icefloe", MANY))
    appenders = {(engine, count): Appender(engine, str(used), str(warehouse), TABLE.format(count)) for engine, count in sides}
    for appender in appenders.values():
        appender.append()  # imports and first use are not measured
    taken = interleaved(REPEATS, {f"{engine} {count}": appender.append for (engine, count), appender in appenders.items()})
    for appender in appenders.values():
        appender.close()

    def took(engine: str, count: int, *parts: str) -> float:
        return median([sum(one[part] for part in parts) for one in taken[f"{engine} {count}"]])

    lines = []
    for title, parts, goal in (
        (f"one-row append at {SNAPSHOTS:,} snapshots", ("append",), "<= 0.033"),
        ("the same, processor time", ("cpu",), ""),
        ("the same, with loading the table", ("load", "append"), ""),
    ):
        ours, theirs = took("icefloe", SNAPSHOTS, *parts), took("pyiceberg", SNAPSHOTS, *parts)
        lines.append(Comparison(title, seconds(ours), seconds(theirs), ours / theirs, goal))
    for title, part, goal in (
        (f"one-row append at {MANY:,} beside {FEW} snapshots", "append", "<= 3"),
        ("the same, processor time", "cpu", ""),
    ):
        many, few = took("icefloe", MANY, part), took("icefloe", FEW, part)
        lines.append(Comparison(title, seconds(many), seconds(few), many / few, goal))
    return lines
