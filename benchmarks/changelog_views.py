"""The changes of one row in a hundred by `create_changelog_view`, of Icefloe and of Java, on the same version of Spark.

Java's view refuses tables whose rows are deleted by delete files, so that it reads a copy-on-write twin of the table; Icefloe reads the table with deletion
vectors, and the twin. Each run of a side is a process, which first reads the changes of a small table. Both views have updates by the identifier column.
`ICEFLOE_BENCH_ROWS` sets the rows, `ICEFLOE_CHANGELOG_RUNS` the runs.
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

ROWS = int(os.environ.get("ICEFLOE_BENCH_ROWS", "10000000"))
RUNS = int(os.environ.get("ICEFLOE_CHANGELOG_RUNS", "2"))
FILES = 20
VECTORS, COPIES = ("merge-on-read", "3"), ("copy-on-write", "2")  # with the format version
# The sides, with the table of each.
SIDES = {"icefloe": ("icefloe", VECTORS), "icefloe on the twin": ("icefloe", COPIES), "java on the twin": ("java", COPIES)}
GOALS = {"icefloe": "<= 0.3", "icefloe on the twin": "<= 0.5"}


def run() -> list[Comparison]:
    """Measure the sides for adjacent and scattered changes, and compare the changes."""
    lines = []
    for layout in ("adjacent", "scattered"):
        tables = {kind: [_made(layout, *kind, rows) for rows in (ROWS, ROWS // 100)] for kind in (VECTORS, COPIES)}
        sides = {
            name: partial(in_new_process, "changelog_views_child", side, *sum(tables[kind], ())) for name, (side, kind) in SIDES.items()
        }
        taken = interleaved(RUNS, sides)
        if len({str(one["rows"]) for runs in taken.values() for one in runs}) != 1:
            raise SystemExit(f"the sides have other changes: {taken}")
        for figure, unit in (("cpu", "processor time"), ("wall", "time")):
            java, *ours = (median([one[figure] for one in taken[name]]) for name in reversed(SIDES))
            for name, seconds_of_side in zip(reversed([*SIDES][:-1]), ours, strict=True):
                what = f"changes of 1 % of {ROWS:,} rows, {layout}, {name}, beside Java's view of the twin: {unit}"
                goal = GOALS[name] if unit == "processor time" else ""
                lines.append(Comparison(what, seconds(seconds_of_side), seconds(java), seconds_of_side / java, goal))
    return lines


def _made(layout: str, mode: str, version: str, rows: int) -> tuple[str, str]:
    """Return the metadata file of the table, and its first snapshot with all rows, the last but one."""
    folder: Path = measure.BUILD / f"changelog-{layout}-{mode}-{rows}"
    done = folder / "metadata-location"
    if not done.exists():
        say(f"changelog_views: a table of {rows:,} rows, {layout} changes, {mode} (made once)")
        schema = pa.schema([("id", pa.int64()), ("amount", pa.float64()), ("note", pa.string())])
        modes = {f"write.{verb}.mode": mode for verb in ("delete", "update", "merge")}
        groups = {"write.parquet.row-group-size-bytes": str(max(rows // 10, 2**16))}
        table = new_lake_in(folder).create_table("bench.t", schema, properties={"format-version": version, **modes, **groups})
        count = rows // FILES
        for number in range(FILES):
            table.append(_rows(np.arange(count) + number * count, 0))
        ids = np.arange(rows - rows // 100, rows) if layout == "adjacent" else np.arange(7, rows, 100)
        table.upsert(_rows(ids, 1), ["id"])
        done.write_text(f"{table.metadata_location} {table.snapshots()[FILES - 1].snapshot_id}")
    location, start = done.read_text().split()
    return location, start


def _rows(ids: np.ndarray, added: int) -> pa.Table:
    return pa.table({"id": ids, "amount": ids * 0.37 + added, "note": pa.array(ids % 100_003).cast(pa.string())})
