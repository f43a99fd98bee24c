"""A scan of a decayed table before and after `maintain`, and what `health` and `maintain --plan` cost for a table of 1,000,000 files.

TPC-H's `lineitem` comes in `ICEFLOE_MAINTAIN_FILES` files (10,000), committed a hundred at a time, and 5 % of its rows are deleted by vectors. Both sides of a
scan are snapshots of this one table, read in turns: before `maintain` and after it. All runs return the same rows. The files are written once, the table is
made in each run. The table of 1,000,000 files has metadata only. `tpch_tables.py` has the scale.
"""

import os
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from benchmarks import measure, planning_20m_table
from benchmarks.measure import Comparison, child, interleaved, median, say, seconds
from benchmarks.spark_changes import cpu_seconds
from benchmarks.spark_lake import new_lake_in
from benchmarks.tpch_tables import DELETED, SCALE, SESSION, source_files
from icefloe.inspect import health
from icefloe.spark.attach_catalog import attach
from icefloe.spark.runtime.start_session import session
from icefloe.table.table import Table

FILES = int(os.environ.get("ICEFLOE_MAINTAIN_FILES", "10000"))
FILES_OF_A_COMMIT = 100
REPEATS = 3
LOOKED_MANIFESTS = 10  # of 100,000 files each
PLANNING_GOAL = 5.0
TABLE = "bench.lineitem"
PROPERTIES = {"format-version": "3", "write.delete.mode": "merge-on-read"}
SCANS = {
    "sums of two columns": "SELECT count(*), sum(l_quantity), sum(l_extendedprice * (1 - l_discount)) FROM {}",
    "one order": "SELECT count(*), sum(l_quantity), max(l_comment) FROM {} WHERE l_orderkey = 3000001",
}


def run() -> list[Comparison]:
    """Run the benchmark."""
    return [*_scanned(), *_looked()]


def _scanned() -> list[Comparison]:
    source = decayed_files(source_files() / "lineitem.parquet", measure.BUILD / f"maintain-{SCALE}-{FILES}")
    catalog = new_lake_in(measure.BUILD / "maintain-lake", "lake")
    spark = session(**SESSION)
    try:
        attach(spark, "lake", catalog)
        table = catalog.create_table(TABLE, schema=pq.read_schema(source[0]), properties=PROPERTIES)
        say(f"maintain: {len(source):,} files in commits of {FILES_OF_A_COMMIT}")
        for start in range(0, len(source), FILES_OF_A_COMMIT):
            table.add_files([str(path) for path in source[start : start + FILES_OF_A_COMMIT]])
        say("maintain: delete 5 % of the rows")
        spark.sql(f"DELETE FROM lake.{TABLE} WHERE l_{DELETED}")
        table.refresh()
        decayed, before = _head(table), health(table)
        say(f"maintain: {before.files:,} files; maintain")
        started = time.perf_counter()
        say(str(table.maintenance.maintain(min_age_minutes=0)))
        took, after = time.perf_counter() - started, health(table)
        say(f"maintain: took {took:.1f} s; {before.files:,} files became {after.files:,}")
        assert after.needs_care == (), after.needs_care
        return _compared(spark, decayed, _head(table))
    finally:
        spark.stop()


def _head(table: Table) -> int:
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return snapshot.snapshot_id


def _compared(spark: SparkSession, decayed: int, kept: int) -> list[Comparison]:
    lines = []
    title = f"`lineitem` of scale {SCALE} in {FILES:,} files, 5 % deleted"
    for name, query in SCANS.items():
        say(f"maintain: {name}")
        work = {
            side: partial(_used, spark, query.format(f"lake.{TABLE} VERSION AS OF {one}"))
            for side, one in (("before", decayed), ("after", kept))
        }
        interleaved(1, work)  # the first run of a query compiles code
        taken = interleaved(REPEATS, work)
        rows = {one[2] for side in taken.values() for one in side}
        assert len(rows) == 1, rows
        for index, unit in enumerate(("time", "CPU time")):
            after, before = (median([one[index] for one in taken[side]]) for side in ("after", "before"))
            lines.append(
                Comparison(f"{name} of {title}, after `maintain` (before): {unit}", seconds(after), seconds(before), after / before, "")
            )
    return lines


def _used(spark: SparkSession, query: str) -> tuple[float, float, tuple[Any, ...]]:
    """Return the seconds of the clock, and of CPU time, of a query, and its row."""
    before, started = cpu_seconds(), time.perf_counter()
    row = spark.sql(query).collect()[0]
    return time.perf_counter() - started, cpu_seconds() - before, tuple(row)


def decayed_files(source: Path, folder: Path) -> list[Path]:
    """Return the rows of a Parquet file in `FILES` files of neighbouring rows, which are written once."""
    paths = [folder / f"part-{number:05}.parquet" for number in range(FILES)]
    done = folder.with_suffix(".done")
    if done.exists():
        return paths
    say(f"maintain: write {source.name} in {FILES:,} files (once)")
    folder.mkdir(parents=True, exist_ok=True)
    rows = _with_field_ids(pq.read_table(source))
    step = -(-len(rows) // FILES)

    def write(number: int) -> None:
        pq.write_table(rows.slice(number * step, step), paths[number], compression="zstd")

    with ThreadPoolExecutor() as pool:
        list(pool.map(write, range(FILES)))
    done.touch()
    return paths


def _with_field_ids(rows: pa.Table) -> pa.Table:
    """Return the rows with the field ids that a new table gets, so that Spark's own Parquet scan reads both sides."""
    fields = [field.with_metadata({"PARQUET:field_id": str(number)}) for number, field in enumerate(rows.schema, 1)]
    return rows.cast(pa.schema(fields))


def _looked() -> list[Comparison]:
    files = LOOKED_MANIFESTS * planning_20m_table.FILES_PER_MANIFEST
    say(f"maintain: look at {files:,} files (their metadata is made once)")
    path = planning_20m_table.metadata_path(measure.BUILD / "compaction-planning", LOOKED_MANIFESTS)
    taken = child("icefloe", "maintaining_look_child.py", str(path))
    plan, planned = taken["plan"], taken["`icefloe maintain --plan`"][0]
    return [
        Comparison(
            f"`icefloe maintain --plan` of {files:,} files (goal): time",
            seconds(planned),
            seconds(PLANNING_GOAL),
            planned / PLANNING_GOAL,
            "<= 1.0",
        ),
        *_beside_plan(taken, plan, files),
    ]


def _beside_plan(taken: Mapping[str, Any], plan: tuple[float, float], files: int) -> list[Comparison]:
    return [
        Comparison(
            f"{name} of {files:,} files (the plan of a scan of all of them): {unit}",
            seconds(one[at]),
            seconds(plan[at]),
            one[at] / plan[at],
            "",
        )
        for name, one in taken.items()
        if name != "plan"
        for at, unit in enumerate(("time", "CPU time"))
    ]
