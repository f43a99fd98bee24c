"""Planning a scan over 100,000 files, compared with PyIceberg on the same table: time, CPU time and peak memory, each plan in a new process.

The table has manifests in blocks as Java writes them, and again as PyIceberg writes them, with one entry a block.
Icefloe plans with as many threads as there are cores, PyIceberg with one. Other load of the machine disturbs CPU time least.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks import measure, planning_table
from benchmarks.measure import Comparison, child, interleaved, median, say, seconds

REPEATS = 3
# Goals for the ratios to PyIceberg: time without a filter, time with a filter, memory.
GOALS = {"": "<= 0.04", "filtered": "<= 0.05", "peak": "<= 0.20"}


def run() -> list[Comparison]:
    """Measure scans as columns and as tasks: all files, one day of a thousand (decided by partition), one id and the least ids (decided by bounds)."""
    say("planning: the table of 100,000 files (made once, half a minute)")
    metadata = str(planning_table.metadata_path(measure.BUILD / "planning"))
    say("planning: the same table with manifests that PyIceberg wrote (made once, half a minute)")
    rewritten = planning_table.rewritten_by_pyiceberg(metadata, measure.BUILD / "planning-pyiceberg")
    lines = []
    cases = [
        ("all files", "", metadata),
        ("0.1 % of the files by partition", planning_table.DAY_FILTER, metadata),
        ("0.1 % of the files by bounds", planning_table.ID_FILTER, metadata),
        ("0.02 % of the files by bounds", planning_table.FEW_FILTER, metadata),
        ("PyIceberg's manifests, all files", "", rewritten),
        ("PyIceberg's manifests, 0.1 % of the files by bounds", planning_table.ID_FILTER, rewritten),
    ]
    for title, row_filter, metadata in cases:
        say(f"planning: {title}")
        sides = {"as columns": ("icefloe", "columns"), "as task objects": ("icefloe", "tasks"), "theirs": ("pyiceberg", "tasks")}
        arguments = [row_filter] if row_filter else []
        runs = {name: partial(child, engine, "planning_child.py", metadata, form, *arguments) for name, (engine, form) in sides.items()}
        taken = interleaved(REPEATS, runs)
        counts = {(one["files"], one["path_bytes"]) for side in taken.values() for one in side}
        if len(counts) != 1:
            raise SystemExit(f"the engines plan different files for {row_filter!r}: {counts}")
        described = f"planning, {title} ({counts.pop()[0]:,} files)"
        for form in ("as columns", "as task objects"):
            goal = GOALS["filtered" if row_filter else ""]
            lines.append(compared(f"{described} {form}: time", "wall", taken[form], taken["theirs"], seconds, goal))
            lines.append(compared(f"{described} {form}: CPU time", "cpu", taken[form], taken["theirs"], seconds, ""))
            if not row_filter:
                lines.append(
                    compared(
                        f"{described} {form}: peak memory of the process", "peak", taken[form], taken["theirs"], megabytes, GOALS["peak"]
                    )
                )
    return lines


def compared(what: str, figure: str, ours: list[Any], theirs: list[Any], shown: Callable[[float], str], goal: str) -> Comparison:
    """Return a comparison of the medians of one measurement."""
    mine, other = (median([one[figure] for one in side]) for side in (ours, theirs))
    return Comparison(what, shown(mine), shown(other), mine / other, goal)


def megabytes(value: float) -> str:
    """Format an amount of memory."""
    return f"{value:.0f} MB"
