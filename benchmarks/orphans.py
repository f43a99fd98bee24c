"""The search for orphan files beside Java's `remove_orphan_files`, as dry runs on the same local files; and the memory of the comparison.

The table is in a Hadoop catalog, which both open. Its data files are empty and ten days old, and its snapshots reference half of them; both sides must find
the other half. Each side has processes of its own, which take turns and search a small table first, so that starting is not measured.
`ICEFLOE_ORPHAN_FILES` sets the number of files, `ICEFLOE_ORPHAN_RUNS` the runs. For the memory nothing is listed: names of files are made up.
"""

import os
import time
from functools import partial
from pathlib import Path

import pyarrow as pa

from benchmarks import measure
from benchmarks.compaction import in_new_process
from benchmarks.measure import Comparison, interleaved, median, say, seconds
from icefloe import load_catalog
from icefloe.catalog.catalog import Catalog
from icefloe.kernel.commit.append import Append
from icefloe.kernel.manifest.data_file import DataFile, FileFormat
from icefloe.table.rows.write_context import commit_context

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
        lines.append(Comparison(what, seconds(ours), seconds(theirs), ours / theirs, "<= 1.0" if figure == "wall" else ""))
    say("orphans: memory of the comparison")
    few, many = (in_new_process("orphans_child", "memory", str(files))["peak"] for files in SIMULATED)
    what = f"peak memory of the comparison of {SIMULATED[1]:,} files beside {SIMULATED[0]:,}"
    return [*lines, Comparison(what, f"{many:.0f} MB", f"{few:.0f} MB", many / few, "<= 1.25")]


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
            start = catalog.load_table(name)._start()
            table._commit(Append(referenced, commit_context(start.handle, start.metadata, {}, "main")))
            referenced = []
