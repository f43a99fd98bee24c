"""Validation of a table of 100,000 files in 100 manifests, compared with planning a scan of all of them: each in a new process.

Then the validation of 1,000,000 files in 10 manifests by a Spark job, and the memory of its tasks.
"""

from functools import partial

from benchmarks import measure, planning_20m_table, planning_table
from benchmarks.measure import Comparison, child, interleaved, say, seconds
from benchmarks.planning import compared, megabytes

REPEATS = 5
GOAL = "<= 3"
MILLION_MANIFESTS = 10
MOST_MEGABYTES = 1_024


def run() -> list[Comparison]:
    """Measure both in turn, and the job once; the tables have no finding."""
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
        *_by_spark(),
    ]


def _by_spark() -> list[Comparison]:
    say("validating: the table of 1,000,000 files (made once, some seconds, 90 MB)")
    metadata = str(planning_20m_table.metadata_path(measure.BUILD / "million", MILLION_MANIFESTS))
    say("validating: by a Spark job")
    here = child("icefloe", "validating_child.py", metadata, "count")
    job = child("icefloe", "validating_job_child.py", metadata)
    if {one["files"] for one in (here, job)} != {MILLION_MANIFESTS * planning_20m_table.FILES_PER_MANIFEST}:
        raise SystemExit(f"not all files were validated: {here}, {job}")
    what = "validating 1,000,000 files by a Spark job on two cores"
    lines = [Comparison(f"{what} (in this process): time", seconds(job["wall"]), seconds(here["wall"]), job["wall"] / here["wall"], "")]
    for name, title in (("worker", "of a Python worker"), ("driver", "of the driver's Python"), ("heap", "of the heap of the JVM")):
        peak = job[name]
        lines.append(
            Comparison(f"{what}: peak memory {title} (goal)", megabytes(peak), megabytes(MOST_MEGABYTES), peak / MOST_MEGABYTES, "<= 1")
        )
    return lines
