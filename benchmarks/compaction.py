"""Compaction of many small files by Icefloe, by Java's Iceberg and by a plain Spark job, on the same files and the same version of Spark.

Each side has processes of its own, which take turns. A process compacts a table of a few files first, so that starting is not measured. Both tables get the
files by `add_files`, and run `CALL ... rewrite_data_files` with the same options; the plain job reads the files, changes the number of partitions or sorts,
and writes Parquet. `ICEFLOE_COMPACTION_FILES` sets the number of files of 2 MB, `ICEFLOE_COMPACTION_RUNS` the runs, `ICEFLOE_COMPACTION_STRATEGIES` which
strategies run, such as `bin-pack,sort`.

The other lines plan a table of 1,000,000 files, of which only metadata exists, and count the files that ranges of two columns open after each order.
"""

import json
import os
import subprocess
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import measure, planning_20m_table
from benchmarks.measure import Comparison, interleaved, median, say, seconds

FILES = int(os.environ.get("ICEFLOE_COMPACTION_FILES", "2000"))
RUNS = int(os.environ.get("ICEFLOE_COMPACTION_RUNS", "2"))
SPARK = "4.1"
ROWS_OF_A_FILE = 52_000  # 2 MB
FILES_OF_WARM_UP = 8
TARGET = 128 * 1024 * 1024
PLANNED_MANIFESTS = 10  # of 100,000 files each
# The order of each strategy, and the goals against Java and against the plain job.
STRATEGIES = {
    "bin-pack": ("", "<= 0.9", "<= 1.0"),
    "sort": ("customer", "<= 1.0", ""),
    "zorder": ("zorder(customer, price)", "<= 1.0", ""),
    "hilbert": ("hilbert(customer, price)", "", ""),
}
CHOSEN = os.environ.get("ICEFLOE_COMPACTION_STRATEGIES", ",".join(STRATEGIES)).split(",")
PLANNING_GOAL = 5.0


def run() -> list[Comparison]:
    """Measure the strategies, planning and the layout."""
    return [*_compacted(), *_planned()]


def _compacted() -> list[Comparison]:
    source, few = measure.BUILD / f"compaction-{FILES}", measure.BUILD / f"compaction-{FILES_OF_WARM_UP}"
    say(f"compaction: {FILES:,} files of 2 MB (made once)")
    make_files(source, FILES)
    make_files(few, FILES_OF_WARM_UP)
    lines, opened = [], {}
    for name in CHOSEN:
        order, java_goal, plain_goal = STRATEGIES[name]
        sides = ["icefloe-on-spark", *(["java"] if name != "hilbert" else []), *(["plain"] if name in ("bin-pack", "sort") else [])]
        say(f"compaction: {name} by {', '.join(sides)}")
        work = {side: partial(in_new_process, "compaction_child", side, str(source), str(few), order, str(TARGET)) for side in sides}
        taken = interleaved(RUNS, work)
        opened |= {(name, side): taken[side][-1]["opened"] for side in sides if side != "plain"}
        what = f"{name} of {FILES:,} files of 2 MB"
        for other, title, goal in (("java", "Java's Iceberg", java_goal), ("plain", "a plain Spark job", plain_goal)):
            for figure, unit in (("wall", "time"), ("cpu", "processor time")):
                if other in taken:
                    ours, theirs = (median([one[figure] for one in taken[side]]) for side in ("icefloe-on-spark", other))
                    lines.append(
                        Comparison(
                            f"{what} beside {title}: {unit}", seconds(ours), seconds(theirs), ours / theirs, goal if unit == "time" else ""
                        )
                    )
    if not {"zorder", "hilbert"} <= set(CHOSEN):
        return lines
    ours = opened["hilbert", "icefloe-on-spark"]
    for name, side, title in (("zorder", "icefloe-on-spark", "z-order"), ("zorder", "java", "Java's z-order")):
        theirs = opened[name, side]
        what = f"files opened by ranges of two columns, after `hilbert` beside {title}"
        lines.append(Comparison(what, f"{ours:.1f}", f"{theirs:.1f}", ours / theirs, "<= 0.95"))
    return lines


def _planned() -> list[Comparison]:
    files = PLANNED_MANIFESTS * planning_20m_table.FILES_PER_MANIFEST
    say(f"compaction: planning {files:,} files (their metadata is made once)")
    path = planning_20m_table.metadata_path(measure.BUILD / "compaction-planning", PLANNED_MANIFESTS)
    taken = in_new_process("compaction_planning_child", str(path))
    return [
        Comparison(
            f"planning {what} of {files:,} files (goal): time", seconds(took), seconds(PLANNING_GOAL), took / PLANNING_GOAL, "<= 1.0"
        )
        for what, took in taken.items()
    ]


def in_new_process(module: str, *arguments: str) -> dict[str, float]:
    """Run a module of the benchmarks in an environment with the Spark that Java's Iceberg is made for; return the JSON object in its last line."""
    python = measure.ROOT / ".venvs" / f"spark-{SPARK}" / "bin" / "python"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(measure.ROOT / "src"), str(measure.ROOT)])}
    command = [str(python), "-m", f"benchmarks.{module}", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=measure.BUILD, env=environment)
    if result.returncode:
        raise SystemExit(f"{' '.join(command)}\n{result.stderr[-4000:]}")
    return dict(json.loads(result.stdout.splitlines()[-1]))


def make_files(folder: Path, files: int) -> None:
    """Write the files if they do not exist yet. Their values are random, so that every file spans every column."""
    done = folder.with_suffix(".done")
    if done.exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(files):
        pq.write_table(rows_of_a_file(number), folder / f"part-{number:05}.parquet", compression="zstd")
    done.touch()


def rows_of_a_file(number: int) -> pa.Table:
    """Return the rows of one file."""
    chance = np.random.default_rng(number)
    words = np.array([f"word{word}" for word in range(2_000)])
    comment = np.char.add(
        np.char.add(words[chance.integers(0, 2_000, ROWS_OF_A_FILE)], " "), words[chance.integers(0, 2_000, ROWS_OF_A_FILE)]
    )
    return pa.table(
        {
            "id": pa.array(np.arange(ROWS_OF_A_FILE) + number * ROWS_OF_A_FILE),
            "customer": pa.array(chance.integers(0, 10**9, ROWS_OF_A_FILE)),
            "price": pa.array(chance.random(ROWS_OF_A_FILE)),
            "amount": pa.array(chance.random(ROWS_OF_A_FILE) * 1_000),
            "quantity": pa.array(chance.integers(1, 50, ROWS_OF_A_FILE).astype(np.int32)),
            "day": pa.array(chance.integers(18_000, 20_000, ROWS_OF_A_FILE).astype(np.int32)).cast(pa.date32()),
            "status": pa.array(np.array(["new", "paid", "sent", "closed"])[chance.integers(0, 4, ROWS_OF_A_FILE)]),
            "comment": pa.array(comment),
        }
    )
