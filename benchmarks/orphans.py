"""The search for orphan files beside Java's `remove_orphan_files`, as dry runs on the same local files; and the memory of the comparison.

The table is in a Hadoop catalog, which both open. Its data files are empty and ten days old, and its snapshots reference half of them; both sides must find
the other half. Each side has processes of its own, which take turns and search a small table first, so that starting is not measured.
`ICEFLOE_ORPHAN_FILES` sets the number of files, `ICEFLOE_ORPHAN_RUNS` the runs. For the memory nothing is listed: names of files are made up, for Spark as a
view that its executors compare with a table's manifests; the driver has 512 MB of heap.
"""

import json
import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pyarrow as pa

from benchmarks import measure
from benchmarks.compaction import in_new_process
from benchmarks.measure import Comparison, interleaved, median, say, seconds
from benchmarks.orphans_child import made_up_names
from icefloe import load_catalog
from icefloe.catalog.catalog import Catalog
from icefloe.commit.append import Append
from icefloe.operations.rows.write_context import commit_context
from icefloe.spec.manifest.data_file import DataFile, FileFormat

FILES = int(os.environ.get("ICEFLOE_ORPHAN_FILES", "1000000"))
RUNS = int(os.environ.get("ICEFLOE_ORPHAN_RUNS", "1"))
FILES_OF_WARM_UP, FILES_OF_A_FOLDER, FILES_OF_A_COMMIT = 1_000, 1_000, 50_000
AGE = 10 * 24 * 3600
SIMULATED = (1_000_000, 5_000_000)


def run() -> list[Comparison]:
    """Measure the search and the memory."""
    lake = measure.BUILD / f"orphans-{FILES}"
    say(f"orphans: {FILES:,} files (made once)")
    make_tables(lake)
    sides = ("icefloe", "java")
    tables = {"few": FILES_OF_WARM_UP, "many": FILES}
    taken = interleaved(RUNS, {side: partial(in_new_process, "orphans_child", side, str(lake), *tables) for side in sides})
    if len({one["found"] for side in sides for one in taken[side]}) != 1:
        raise SystemExit("the sides found other files")
    lines = []
    for figure, title in (("wall", "time"), ("cpu", "processor time")):
        ours, theirs = (median([one[figure] for one in taken[side]]) for side in sides)
        what = f"orphan files among {FILES:,} local files beside Java's Iceberg: {title}"
        lines.append(Comparison(what, seconds(ours), seconds(theirs), ours / theirs, "<= 0.5" if figure == "wall" else ""))
    say("orphans: memory of the comparison")
    few, many = (in_new_process("orphans_child", "memory", str(files))["peak"] for files in SIMULATED)
    what = f"peak memory of the comparison of {SIMULATED[1]:,} files beside {SIMULATED[0]:,}"
    lines.append(Comparison(what, f"{many:.0f} MB", f"{few:.0f} MB", many / few, "<= 1.25"))
    return [*lines, *spark_memory(lake.with_name("orphans-made-up"))]


def spark_memory(lake: Path) -> list[Comparison]:
    """Measure the memory of the driver while two executors compare made-up files."""
    say("orphans: memory of Spark's driver")
    done = lake.with_suffix(".done")
    if not done.exists():
        catalog = load_catalog("bench", type="hadoop", warehouse=str(lake))
        catalog.create_namespace_if_not_exists("bench")
        for files in SIMULATED:
            _make_made_up(catalog, f"bench.t{files}", files)
        done.touch()
    few, many = (_in_this_python("orphans_child", "spark-memory", str(lake), str(files)) for files in SIMULATED)
    counts = f"the comparison of {SIMULATED[1]:,} files by Spark beside {SIMULATED[0]:,}"
    return [
        Comparison(
            f"peak memory of the driver's {what} for {counts}", f"{many[key]:.0f} MB", f"{few[key]:.0f} MB", many[key] / few[key], goal
        )
        for key, what, goal in (("python", "Python", "<= 1.25"), ("heap", "live objects in Java", ""))
    ]


def _in_this_python(module: str, *arguments: str) -> dict[str, float]:
    result = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{module}", *arguments], capture_output=True, text=True, check=False, cwd=measure.ROOT
    )
    if result.returncode:
        raise SystemExit(f"{module}\n{result.stderr[-4000:]}")
    return dict(json.loads(result.stdout.splitlines()[-1]))


def _make_made_up(catalog: Catalog, name: str, files: int) -> None:
    """Make a table that references every second file of `made_up_names`, none of which exists."""
    if catalog.table_exists(name):
        catalog.drop_table(name)
    table = catalog.create_table(name, pa.schema([("id", pa.int64())]))
    for first in range(0, files, 2 * FILES_OF_A_COMMIT):
        names = made_up_names(first, min(files, first + 2 * FILES_OF_A_COMMIT))[::2]
        added = [DataFile(file_path=path, file_format=FileFormat.PARQUET, record_count=1, file_size_in_bytes=1) for path in names]
        start = catalog.load_table(name).mutation_context()
        table.apply(Append(added, commit_context(start.handle, start.metadata, {}, "main")))


def make_tables(lake: Path) -> None:
    """Make the small table and the large one, if they do not exist yet."""
    done = lake.with_suffix(".done")
    if done.exists():
        return
    catalog = load_catalog("bench", type="hadoop", warehouse=str(lake))
    catalog.create_namespace_if_not_exists("bench")
    for name, files in (("few", FILES_OF_WARM_UP), ("many", FILES)):
        _make_table(catalog, f"bench.{name}", files)
    done.touch()


def _make_table(catalog: Catalog, name: str, files: int) -> None:
    if catalog.table_exists(name):
        catalog.drop_table(name, purge=True)
    table = catalog.create_table(name, pa.schema([("id", pa.int64())]))
    data, old = Path(table.location().removeprefix("file://")) / "data", time.time() - AGE
    referenced: list[DataFile] = []
    for number in range(files):
        folder = data / f"{number // FILES_OF_A_FOLDER:04}"
        if number % FILES_OF_A_FOLDER == 0:
            folder.mkdir(parents=True)
        path = f"{folder}/{number:08}-{number * 2654435761 % 2**32:08x}.parquet"
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
        os.utime(path, (old, old))
        if number % 2 == 0:
            referenced.append(DataFile(file_path=path, file_format=FileFormat.PARQUET, record_count=1, file_size_in_bytes=1))
        if referenced and (len(referenced) == FILES_OF_A_COMMIT or number == files - 1):
            start = catalog.load_table(name).mutation_context()
            table.apply(Append(referenced, commit_context(start.handle, start.metadata, {}, "main")))
            referenced = []
