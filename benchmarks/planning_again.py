"""Planning the same scan of 100,000 files a second time in one process, compared with the first plan of that process, in CPU seconds and wall time.

Decoded manifests are kept (`io.manifest.cache-enabled`), so that the second plan decodes nothing. The table is loaded again for each plan.
"""

from functools import partial

from benchmarks import measure, planning_table
from benchmarks.measure import Comparison, child, interleaved, median, say, seconds

REPEATS = 5
# Goals for the second plan as parts of the first: 60 ms and 15 ms where the first takes 350 ms.
GOALS = {"": "<= 0.17", planning_table.ID_FILTER: "<= 0.043"}


def run() -> list[Comparison]:
    """Measure all files, and a filter that bounds decide."""
    metadata = str(planning_table.metadata_path(measure.BUILD / "planning"))
    lines = []
    for title, row_filter in (("all files", ""), ("0.1 % of the files by bounds", planning_table.ID_FILTER)):
        say(f"planning-again: {title}")
        arguments = [row_filter] if row_filter else []
        taken = interleaved(REPEATS, {"": partial(child, "icefloe", "planning_again_child.py", metadata, *arguments)})[""]
        for figure, name in (("wall", "time"), ("cpu", "CPU time")):
            first, again = (median([one[turn][figure] for one in taken]) for turn in ("first", "again"))
            goal = GOALS[row_filter] if figure == "cpu" else ""
            what = f"planning 100,000 files again in a process (first), {title}: {name}"
            lines.append(Comparison(what, seconds(again), seconds(first), again / first, goal))
    return lines
