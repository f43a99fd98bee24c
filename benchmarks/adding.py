"""Adding files of another writer to a table in one commit, compared with PyIceberg's `add_files`: both read the footers and commit."""

import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import measure
from benchmarks.measure import Comparison, child, interleaved, median, say, seconds

FILES, REPEATS = 10_000, 1
# Goal for the ratio of Icefloe's time to PyIceberg's time.
GOAL = "<= 0.20"


def run() -> list[Comparison]:
    """Measure each engine once, since PyIceberg takes long."""
    folder = measure.BUILD / "adding"
    make_files(folder / "in", FILES)
    say(f"adding: {FILES:,} files in one commit")
    taken = interleaved(REPEATS, {engine: partial(added, engine, folder) for engine in ("icefloe", "pyiceberg")})
    lines = []
    for figure, title in (("seconds", ""), ("cpu", ": CPU time")):
        ours, theirs = (median([one[figure] for one in taken[engine]]) for engine in ("icefloe", "pyiceberg"))
        what = f"add_files of {FILES:,} Parquet files in one commit{title}"
        lines.append(Comparison(what, seconds(ours), seconds(theirs), ours / theirs, GOAL))
    return lines


def make_files(folder: Path, count: int) -> None:
    """Create copies of a small file with twelve columns and no field ids, in the folders of 16 partitions."""
    if folder.exists() and sum(1 for _ in folder.glob("*/*.parquet")) == count:
        return
    shutil.rmtree(folder, ignore_errors=True)
    columns = {"id": pa.array(range(100), pa.int64()), "name": pa.array([f"name {number}" for number in range(100)])}
    columns |= {f"value{place}": pa.array([number * place / 8 for number in range(100)]) for place in range(10)}
    for number in range(count):
        path = folder / f"part={number % 16}" / f"{number}.parquet"
        if number < 16:
            path.parent.mkdir(parents=True)
            # PyIceberg derives partitions from column values only.
            pq.write_table(pa.table({**columns, "part": pa.array([number] * 100, pa.int32())}), path)
        else:
            path.write_bytes((path.parent / f"{number % 16}.parquet").read_bytes())


def added(engine: str, folder: Path) -> Mapping[str, Any]:
    """Return the wall-clock and CPU seconds of the call."""
    lake = folder / engine
    shutil.rmtree(lake, ignore_errors=True)
    lake.mkdir()
    found = child(engine, "adding_child.py", str(folder / "in"), str(lake))
    assert found["records"] == 100 * FILES, found
    return found
