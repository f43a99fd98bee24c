"""The page of a table of 100,000 and of 1,000,000 files: when its first page is there, when each page is complete, and how large the largest one is.

Each in a new process, over HTTP on loopback.
"""

from benchmarks import measure, planning_20m_table, planning_table
from benchmarks.measure import Comparison, child, median, say, seconds

REPEATS = 2
OPENED_S, COMPLETE_S = 2.0, 10.0
MOST_BYTES = 2_000_000


def run() -> list[Comparison]:
    """Measure both tables."""
    say("exploring: the tables of 100,000 and of 1,000,000 files (made once, half a minute)")
    tables = {
        "100,000": planning_table.metadata_path(measure.BUILD / "planning"),
        "1,000,000": planning_20m_table.metadata_path(measure.BUILD / "million", 10),
    }
    lines = []
    for files, metadata in tables.items():
        say(f"exploring: {files} files")
        taken = [child("icefloe", "exploring_child.py", str(metadata)) for _ in range(REPEATS)]
        opened = median([one["opened"] for one in taken])
        slowest = max(taken[0]["complete"], key=taken[0]["complete"].get)
        complete = median([one["complete"][slowest] for one in taken])
        largest = max(taken[0]["bytes"], key=taken[0]["bytes"].get)
        size = taken[0]["bytes"][largest]
        what = f"page of a table of {files} files"
        lines += [
            Comparison(f"{what}: time until its first page is there (goal)", seconds(opened), seconds(OPENED_S), opened / OPENED_S, "<= 1"),
            Comparison(
                f"{what}: time until its slowest page is complete, {slowest} (goal)",
                seconds(complete),
                seconds(COMPLETE_S),
                complete / COMPLETE_S,
                "<= 1",
            ),
            Comparison(f"{what}: bytes of its largest page, {largest} (goal)", f"{size:,}", f"{MOST_BYTES:,}", size / MOST_BYTES, "<= 1"),
            Comparison(
                f"{what}: peak memory of the server (goal)",
                f"{median([one['peak'] for one in taken]):.0f} MB",
                "1,024 MB",
                median([one["peak"] for one in taken]) / 1024,
                "<= 1",
            ),
        ]
    return lines
