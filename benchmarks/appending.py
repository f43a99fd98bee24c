"""A one-row append to tables of 10, 1,000 and 10,000 snapshots, beside PyIceberg's at 1,000 on the same SQLite catalog and the same table.

The engines take turns on one table, so both always meet the same history (it grows by the few rows that are measured). Icefloe makes the tables once, and
the catalog file is kept: copying it back points them at their first snapshots again. Merging of manifests is on, as the defaults have it.
"""

import json
import shutil
import subprocess
from typing import Any

from benchmarks import measure
from benchmarks.measure import Comparison, child, interleaved, median, say, seconds

FEW, SNAPSHOTS, MANY, REPEATS, TABLE = 10, 1_000, 10_000, 9, "bench.appends{}"


class Appender:
    """One engine's process, which keeps its catalog open and appends when told to."""

    def __init__(self, engine: str, *arguments: str) -> None:
        command = [str(measure.PYTHON_OF[engine]), str(measure.ROOT / "benchmarks" / "appending_child.py"), engine, *arguments]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def append(self) -> dict[str, Any]:
        """Seconds that one append took, and that loading the table before it took."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write("append\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"an appending process ended with {self.process.wait()}")
        return dict(json.loads(line))

    def close(self) -> None:
        """Ends the process."""
        self.process.communicate()


def run(maker: str = "icefloe") -> list[Comparison]:
    """The append alone, with loading the table, and how it grows with the history, by the clock and in seconds of the processors."""
    folder = measure.BUILD / "appending"
    kept, used, warehouse = folder / "catalog-kept.db", folder / "catalog.db", folder / "warehouse"
    if not kept.exists():
        say(f"append: tables of {FEW}, {SNAPSHOTS:,} and {MANY:,} snapshots (made once)")
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
