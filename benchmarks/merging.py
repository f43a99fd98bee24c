"""MERGE of a source that is too large for the driver, by Icefloe and by Java, on the same version of Spark.

The table has 10,000,000 rows in 20 files. The source has 3,000,000 rows that match, spread over all files, and 500,000 new ones: 200 MB in memory. Each run
of a side is a process, which registers the same metadata file under a new name and merges into a small table first, so that starting is not measured.
`ICEFLOE_MERGING_RUNS` sets the runs.
"""

import os
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import measure
from benchmarks.compaction import in_new_process
from benchmarks.measure import Comparison, interleaved, median, say, seconds
from benchmarks.spark_lake import new_lake_in

RUNS = int(os.environ.get("ICEFLOE_MERGING_RUNS", "2"))
FILES, ROWS_OF_A_FILE = 20, 500_000
MATCHED, NEW = 3_000_000, 500_000
MODES = {"merge-on-read": "3", "copy-on-write": "2"}  # with the format version
GOAL = "<= 1.0"


def run() -> list[Comparison]:
    """Measure both sides in both modes, and compare the rows."""
    lines = []
    for mode, version in MODES.items():
        large, small = (_made(f"{mode}-{name}", version, mode, files) for name, files in (("large", FILES), ("small", 1)))
        sides = {side: partial(in_new_process, "merging_child", side, *large, *small) for side in ("icefloe", "java")}
        taken = interleaved(RUNS, sides)
        if len({str(one["rows"]) for runs in taken.values() for one in runs}) != 1:
            raise SystemExit("the sides have other rows")
        for figure, unit in (("wall", "time"), ("cpu", "processor time")):
            ours, theirs = (median([one[figure] for one in taken[side]]) for side in ("icefloe", "java"))
            what = f"MERGE of {MATCHED + NEW:,} rows into {FILES * ROWS_OF_A_FILE:,}, {mode}, beside Java: {unit}"
            lines.append(Comparison(what, seconds(ours), seconds(theirs), ours / theirs, GOAL if unit == "time" else ""))
            say(f"merging: {mode}, {unit}: {ours / theirs:.2f}")
    return lines


def _made(name: str, version: str, mode: str, files: int) -> tuple[str, str]:
    """Return the location of the table's metadata file, and that of the source."""
    folder: Path = measure.BUILD / f"merging-{name}"
    done, source = folder / "metadata-location", folder / "source.parquet"
    if not done.exists():
        say(f"merging: the table {name} (made once)")
        schema = pa.schema([("id", pa.int64()), ("price", pa.float64()), ("comment", pa.string())])
        table = new_lake_in(folder).create_table("bench.t", schema, properties={"format-version": version, "write.merge.mode": mode})
        chance = np.random.default_rng(7)
        for number in range(files):
            table.append(_rows(chance, np.arange(ROWS_OF_A_FILE) + number * ROWS_OF_A_FILE))
        count = files * ROWS_OF_A_FILE
        matched = chance.choice(count, MATCHED * files // FILES, replace=False)
        new = np.arange(NEW * files // FILES) + count
        pq.write_table(_rows(chance, np.concatenate([matched, new])), source, compression="zstd")
        done.write_text(table.metadata_location)
    return done.read_text(), str(source)


def _rows(chance: np.random.Generator, ids: Any) -> pa.Table:
    words = pa.array([f"{word:032x}" for word in range(100_000)]).take(pa.array(chance.integers(0, 100_000, len(ids))))
    return pa.table({"id": ids, "price": chance.random(len(ids)), "comment": words})
