"""Planning a scan over 100,000 files, beside PyIceberg on the same table: time and peak memory, each in a process of its own."""

from functools import partial

from benchmarks import measure, planning_table
from benchmarks.measure import Comparison, child, interleaved, median, say, seconds

REPEATS = 3


def run() -> list[Comparison]:
    """Four scans: everything, one day of a thousand (the partition decides), one id and the least ids (the bounds decide)."""
    say("planning: the table of 100,000 files (made once, half a minute)")
    metadata = str(planning_table.metadata_path(measure.BUILD / "planning"))
    lines = []
    for title, row_filter, goal in (
        ("all files", "", "<= 1.0"),
        ("0.1 % of the files by partition", planning_table.DAY_FILTER, "<= 0.5"),
        ("0.1 % of the files by bounds", planning_table.ID_FILTER, "<= 0.5"),
        ("0.02 % of the files by bounds", planning_table.FEW_FILTER, "<= 0.5"),
    ):
        say(f"planning: {title}")
        arguments = ("planning_child.py", metadata, *([row_filter] if row_filter else []))
        taken = interleaved(REPEATS, {engine: partial(child, engine, *arguments) for engine in ("icefloe", "pyiceberg")})
        counts = {(one["files"], one["path_bytes"]) for side in taken.values() for one in side}
        if len(counts) != 1:
            raise SystemExit(f"the engines plan different files for {row_filter!r}: {counts}")
        ours, theirs = (median([one["wall"] for one in taken[engine]]) for engine in ("icefloe", "pyiceberg"))
        lines.append(
            Comparison(f"planning, {title} ({counts.pop()[0]:,} files): time", seconds(ours), seconds(theirs), ours / theirs, goal)
        )
        if not row_filter:
            ours, theirs = (median([one["peak"] for one in taken[engine]]) for engine in ("icefloe", "pyiceberg"))
            lines.append(
                Comparison(f"planning, {title}: peak memory of the process", f"{ours:.0f} MB", f"{theirs:.0f} MB", ours / theirs, "<= 0.5")
            )
    return lines
