"""Validation of a table of 100,000 files in 100 manifests, compared with planning a scan of all of them: each in a new process."""

from functools import partial

from benchmarks import measure, planning_table
from benchmarks.measure import Comparison, child, interleaved, say, seconds
from benchmarks.planning import compared, megabytes

REPEATS = 5
GOAL = "<= 3"


def run() -> list[Comparison]:
    """Measure both in turn; the table has no finding."""
    say("validating: the table of 100,000 files (made once, half a minute)")
    metadata = str(planning_table.metadata_path(measure.BUILD / "planning"))
    sides = {what: partial(child, "icefloe", "validating_child.py", metadata, what) for what in ("validate", "plan")}
    taken = interleaved(REPEATS, sides)
    counts = {one["files"] for side in taken.values() for one in side}
    if len(counts) != 1:
        raise SystemExit(f"validation and planning see different files: {counts}")
    what = f"validating {counts.pop():,} files, compared with planning a scan of them"
    return [
        compared(f"{what}: CPU time", "cpu", taken["validate"], taken["plan"], seconds, GOAL),
        compared(f"{what}: time", "wall", taken["validate"], taken["plan"], seconds, ""),
        compared(f"{what}: peak memory of the process", "peak", taken["validate"], taken["plan"], megabytes, ""),
    ]
