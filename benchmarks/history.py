"""One-row appends to tables of 10, 1,000, 10,000 and 100,000 snapshots, each compared with the table of 10: what a long history costs.

The tables differ in their history alone: ten commits, and before them older snapshots that exist only in the metadata. Tables with 100 branches get their
appends on one branch after the other; tables with gzip compress their metadata files. Every table has its own process, and the processes take turns.
"""

import json
from typing import Any

from benchmarks import measure
from benchmarks.appending import Appender
from benchmarks.measure import Comparison, child, interleaved, median, say, seconds

COUNTS, BRANCHES, REPEATS = (10, 1_000, 10_000, 100_000), 100, 9
GOALS = {1_000: "", 10_000: "<= 1.5", 100_000: "<= 3"}
# Name of the variant, number of branches, codec of the metadata.
VARIANTS = (("", 1, "none"), (f", {BRANCHES} branches", BRANCHES, "none"), (", gzip", 1, "gzip"))
# What is measured, and the parts of an append that belong to it.
MEASURES = (
    ("processor time", ("append_cpu",)),
    ("by the clock", ("append",)),
    ("with loading the table, processor time", ("load_cpu", "loaded_cpu")),
    ("with loading the table, by the clock", ("load", "loaded")),
)


def run() -> list[Comparison]:
    """Measure the appends, with a table that is held and with one that is loaded for every append, in wall-clock and CPU seconds."""
    folder = measure.BUILD / "history"
    warehouse = folder / "warehouse"
    warehouse.mkdir(parents=True, exist_ok=True)
    tables = {(variant, count): f"bench.h{count}_{branches}_{codec}" for variant, branches, codec in VARIANTS for count in COUNTS}
    say("history: tables of 10 to 100,000 snapshots (their metadata is created once)")
    for variant, branches, codec in VARIANTS:
        for count in COUNTS:
            child("icefloe", "history_child.py", str(folder), tables[variant, count], str(count), str(branches), codec)
    say("history: one row at a time, in turns")
    appenders = {side: Appender("icefloe", str(folder), table, program="history_child.py") for side, table in tables.items()}
    for appender in appenders.values():
        appender.append()  # imports and first use are not measured
    taken = interleaved(REPEATS, {json.dumps(side): appender.append for side, appender in appenders.items()})
    for appender in appenders.values():
        appender.close()

    def took(variant: str, count: int, parts: tuple[str, ...]) -> float:
        rounds: list[dict[str, Any]] = taken[json.dumps((variant, count))]
        return median([sum(one[part] for part in parts) for one in rounds])

    lines = []
    for variant, _, _ in VARIANTS:
        for count in COUNTS[1:]:
            for what, parts in MEASURES:
                many, few = took(variant, count, parts), took(variant, COUNTS[0], parts)
                title = f"one-row append at {count:,} beside {COUNTS[0]} snapshots{variant}, {what}"
                lines.append(Comparison(title, seconds(many), seconds(few), many / few, GOALS[count]))
    return lines
