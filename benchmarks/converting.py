"""Conversion of equality deletes by Icefloe, beside Java's compaction of the same table, on the same version of Spark.

The table has 10,000,000 rows in 20 files, and 500 equality delete files of 1,000 keys. Each run of a side is a process, which registers the same metadata file
under a new name and does the work on a small table first, so that starting is not measured. `ICEFLOE_CONVERTING_RUNS` sets the runs.
"""

import os
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks import measure
from benchmarks.compaction import in_new_process
from benchmarks.measure import Comparison, interleaved, median, say, seconds
from benchmarks.spark_lake import new_lake_in

RUNS = int(os.environ.get("ICEFLOE_CONVERTING_RUNS", "2"))
FILES, ROWS_OF_A_FILE = 20, 500_000
DELETE_FILES, KEYS = 500, 1_000
GOAL = "<= 0.3"


def run() -> list[Comparison]:
    """Measure both sides, and compare the rows that they leave."""
    say(f"converting: a table of {FILES * ROWS_OF_A_FILE:,} rows and {DELETE_FILES} equality delete files (made once)")
    large, small = (_made(name, files, deletes) for name, files, deletes in (("large", FILES, DELETE_FILES), ("small", 2, 5)))
    what = f"`convert_equality_deletes` of {DELETE_FILES} files beside Java's `rewrite_data_files`"
    return compared("convert", what, large, small, GOAL)


def compared(kind: str, what: str, large: str, small: str, goal: str) -> list[Comparison]:
    """Let both sides work on the tables with these metadata files, and compare the time, the processor time and the rows that they leave."""
    sides = {side: partial(in_new_process, "converting_child", side, kind, large, small) for side in ("icefloe", "java")}
    taken = interleaved(RUNS, sides)
    if len({one["rows"] for runs in taken.values() for one in runs}) != 1:
        raise SystemExit("the sides have other rows")
    lines = []
    for figure, unit in (("wall", "time"), ("cpu", "processor time")):
        ours, theirs = (median([one[figure] for one in taken[side]]) for side in ("icefloe", "java"))
        lines.append(Comparison(f"{what}: {unit}", seconds(ours), seconds(theirs), ours / theirs, goal if unit == "time" else ""))
    return lines


def _made(name: str, files: int, deletes: int) -> str:
    """Return the location of the table's metadata file."""
    folder: Path = measure.BUILD / f"converting-{name}"
    done = folder / "metadata-location"
    if done.exists():
        return done.read_text()
    table = new_lake_in(folder).create_table(
        "bench.t", pa.schema([("id", pa.int64()), ("price", pa.float64()), ("comment", pa.string())]), properties={"format-version": "3"}
    )
    chance = np.random.default_rng(7)
    for number in range(files):
        ids = np.arange(ROWS_OF_A_FILE) + number * ROWS_OF_A_FILE
        words = pa.array([f"word{word}" for word in range(2_000)]).take(pa.array(chance.integers(0, 2_000, ROWS_OF_A_FILE)))
        table.append(pa.table({"id": ids, "price": chance.random(ROWS_OF_A_FILE), "comment": words}))
    for _ in range(deletes):
        table.delete_keys(pa.table({"id": np.unique(chance.integers(0, files * ROWS_OF_A_FILE, KEYS))}), ["id"])
    done.write_text(table.metadata_location)
    return table.metadata_location
