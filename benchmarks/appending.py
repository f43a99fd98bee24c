"""A one-row append to a table of 1,000 snapshots, beside PyIceberg's on the same SQLite catalog and the same table.

The engines take turns on one table, so both always meet the same history (it grows by the few rows that are measured). Icefloe makes the thousand snapshots
once, and the catalog file is kept: copying it back points the table at its thousandth snapshot again.
"""

import json
import shutil
import subprocess
from functools import partial
from typing import Any

from benchmarks import measure
from benchmarks.measure import Comparison, child, interleaved, median, say, seconds

SNAPSHOTS, REPEATS, TABLE = 1_000, 9, "bench.appends"


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
    """The append alone, and with loading the table."""
    folder = measure.BUILD / "appending"
    kept, used, warehouse = folder / "catalog-kept.db", folder / "catalog.db", folder / "warehouse"
    if not kept.exists():
        say(f"append: a table of {SNAPSHOTS:,} snapshots (made once)")
        shutil.rmtree(folder, ignore_errors=True)
        warehouse.mkdir(parents=True)
        child(maker, "appending_child.py", str(used), str(warehouse), TABLE, str(SNAPSHOTS))
        shutil.copy(used, kept)
    shutil.copy(kept, used)
    say("append: one row at a time, in turns")
    appenders = {engine: Appender(engine, str(used), str(warehouse), TABLE) for engine in ("icefloe", "pyiceberg")}
    for appender in appenders.values():
        appender.append()  # imports and first use are not measured
    taken = interleaved(REPEATS, {engine: partial(appender.append) for engine, appender in appenders.items()})
    for appender in appenders.values():
        appender.close()
    lines = []
    for title, parts, goal in (
        (f"one-row append at {SNAPSHOTS:,} snapshots", ("append",), "<= 0.05"),
        ("the same, with loading the table", ("load", "append"), ""),
    ):
        ours, theirs = (median([sum(one[part] for part in parts) for one in taken[engine]]) for engine in ("icefloe", "pyiceberg"))
        lines.append(Comparison(title, seconds(ours), seconds(theirs), ours / theirs, goal))
    return lines
