"""Planning a micro-batch of one new file on tables of 100,000 files, with 100 and with 10,000 snapshots: what a long history costs a stream.

The tables differ in their history alone: a hundred commits, and before them older snapshots that exist only in the metadata. Every table has its own process,
and the processes take turns.
"""

from typing import Any

from benchmarks import measure
from benchmarks.appending import Appender
from benchmarks.measure import Comparison, child, interleaved, median, say, seconds

COUNTS, REPEATS, GOAL_S = (100, 10_000), 15, 0.05


def run() -> list[Comparison]:
    """Measure the end of the batch and its plan, and the same with loading the table's new metadata, in wall-clock and CPU seconds."""
    folder = measure.BUILD / "micro-batches"
    (folder / "warehouse").mkdir(parents=True, exist_ok=True)
    say("micro-batches: tables of 100,000 files (their metadata is created once)")
    for count in COUNTS:
        child("icefloe", "micro_batches_child.py", str(folder), f"bench.s{count}", str(count))
    say("micro-batches: a batch of one file at a time, in turns")
    planners = {str(count): Appender("icefloe", str(folder), f"bench.s{count}", program="micro_batches_child.py") for count in COUNTS}
    for planner in planners.values():
        planner.append()  # imports and first use are not measured
    taken = interleaved(REPEATS, {name: planner.append for name, planner in planners.items()})
    for planner in planners.values():
        planner.close()

    def took(count: int, *parts: str) -> float:
        rounds: list[dict[str, Any]] = taken[str(count)]
        return median([sum(one[part] for part in parts) for one in rounds])

    few, many = COUNTS
    title = f"planning a micro-batch of a new file, 100,000 files and {many:,} snapshots"
    lines = [
        Comparison(f"{title} (goal): time", seconds(took(many, "plan")), seconds(GOAL_S), took(many, "plan") / GOAL_S, "<= 1"),
        Comparison(
            f"{title} ({few}): CPU time", seconds(took(many, "plan_cpu")), seconds(took(few, "plan_cpu")),
            took(many, "plan_cpu") / took(few, "plan_cpu"), "<= 1.5",
        ),
    ]  # fmt: skip
    loaded = [took(count, "load_cpu", "plan_cpu") for count in (many, few)]
    lines.append(
        Comparison(f"the same, with loading its new metadata file ({few}): CPU time", *map(seconds, loaded), loaded[0] / loaded[1], "")
    )
    return lines
