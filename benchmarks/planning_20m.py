"""Work on a table of 20,000,000 files in 200 manifests: a plan by a Spark job, a count, a limit and the metadata table `files`; and the memory of the driver.

The other side of the plan is the planner of this process, on the same table and filter; PyIceberg would take half an hour. The other side of the rest is
that plan by a Spark job, which reads every manifest. A new process with a driver of 1 GB does everything.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks import measure, planning_20m_table
from benchmarks.measure import ROOT, Comparison, median, say, seconds

# Goal: entries that a core plans in a second.
ENTRIES_PER_SECOND = 1_000_000
MOST_MEGABYTES = 1_000


def run() -> list[Comparison]:
    """Measure in one session."""
    say("planning-20m: the table of 20,000,000 files (made once, 20 seconds, 1.7 GB)")
    path = planning_20m_table.metadata_path(measure.BUILD / "planning-20m")
    say("planning-20m: plans, counts and limits")
    taken = in_new_process(path)
    files = planning_20m_table.FILES
    times = {name: {figure: median([one[figure] for one in runs]) for figure in runs[0]} for name, runs in taken["times"].items()}
    job, here = times["job"], times["here"]
    rates = [files / side["cpu"] for side in (job, here)]
    what = f"planning {files:,} files, a filter that keeps {planning_20m_table.STEPS_OF_A_FILE:,}, by a Spark job (in this process)"
    lines = [
        Comparison(
            f"{what}: entries per second of CPU time",
            f"{rates[0]:,.0f}",
            f"{rates[1]:,.0f}",
            rates[0] / rates[1],
            f">= {ENTRIES_PER_SECOND:,}",
        ),
        Comparison(f"{what}: time", seconds(job["wall"]), seconds(here["wall"]), job["wall"] / here["wall"], ""),
    ]
    for name, title, goal in (
        ("count", "SELECT count(*)", "<= 0.1"),
        ("limit", "SELECT * ... LIMIT 100", "<= 0.2"),
        ("files", "SELECT file_path, record_count FROM ....files of one day of a thousand", "<= 2"),
    ):
        ours = times[name]["wall"]
        lines.append(
            Comparison(
                f"{title} of {files:,} files (the plan by a Spark job): time", seconds(ours), seconds(job["wall"]), ours / job["wall"], goal
            )
        )
    for name, title in (("python", "of the Python process"), ("heap", "of the heap of the JVM, with the tasks")):
        peak = taken["peak"][name]
        lines.append(
            Comparison(
                f"the same: peak memory of the driver, {title} (goal)",
                f"{peak:.0f} MB",
                f"{MOST_MEGABYTES:,} MB",
                peak / MOST_MEGABYTES,
                "<= 1",
            )
        )
    return lines


def in_new_process(path: Path) -> Any:
    """Return what `planning_20m_child` measures; it is a process of its own, so that its peak memory is that of this work."""
    command = [sys.executable, "-m", "benchmarks.planning_20m_child", str(path)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    if result.returncode:
        raise SystemExit(f"{' '.join(command)}\n{result.stderr[-4000:]}")
    return json.loads(result.stdout.splitlines()[-1])
