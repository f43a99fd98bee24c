"""Manifests that a filter by one partition value opens, after a rewrite in the chosen order and in the order of the spec, which is Java's.

The table has 400 days and 250 shops as partition fields, and one file for each pair, in 100 commits of 1,000 files in random order. No file exists.
"""

import random
from collections.abc import Callable
from pathlib import Path
from shutil import rmtree
from typing import Any

import pyarrow as pa

from benchmarks import measure
from benchmarks.measure import Comparison, say
from icefloe import SqlCatalog
from icefloe.spec.manifest.data_file import DataFile, FileFormat

DAYS, SHOPS, COMMITS = 400, 250, 100
FILTERS = {"day": DAYS, "shop": SHOPS}


def run() -> list[Comparison]:
    """Measure both orders on the same table."""
    folder = measure.BUILD / "clustering"
    rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    table = made(folder)
    say(f"clustering: {DAYS * SHOPS:,} files in {COMMITS} manifests")
    before = opened(table)
    table.rewrite_manifests(sort_by=list(FILTERS))
    by_spec = opened(table)
    table.rewrite_manifests()
    chosen = opened(table)
    rmtree(folder)
    lines = []
    for name in (*FILTERS, "both in turn"):
        ours, theirs, first = (counts[name] for counts in (chosen, by_spec, before))
        title = (
            f"manifests that a filter by one {name} opens, of {by_spec['all']:.0f}; before the rewrite {first:.1f} of {before['all']:.0f}"
        )
        lines.append(Comparison(title, f"{ours:.1f}", f"{theirs:.1f}", ours / theirs, "<= 0.6" if name == "both in turn" else ""))
    return lines


def made(folder: Path) -> Any:
    """Return the table."""
    catalog = SqlCatalog("clustering", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder))
    catalog.create_namespace("db")
    properties = {"commit.manifest-merge.enabled": "false", "commit.manifest.target-size-bytes": str(32 * 1024)}
    schema = pa.schema([("day", pa.int32()), ("shop", pa.int32())])
    table = catalog.create_table("db.t", schema, partition_spec=("day", "shop"), properties=properties)
    pairs = [(day, shop) for day in range(DAYS) for shop in range(SHOPS)]
    random.Random(1).shuffle(pairs)
    for commit in range(COMMITS):
        with table.update_snapshot().fast_append() as update:
            for day, shop in pairs[commit::COMMITS]:
                path = f"{table.location()}/data/day={day}/shop={shop}/0.parquet"
                update.append_file(
                    DataFile(file_path=path, file_format=FileFormat.PARQUET, record_count=1, file_size_in_bytes=1000, partition=(day, shop))
                )
    return table


def opened(table: Any) -> dict[str, float]:
    """Return the mean number of manifests that filters by single values open, by field; and the number of all manifests."""

    def of(row_filter: str) -> int:
        plan = table.scan(row_filter).plan()
        return int(plan.manifests_total - plan.manifests_skipped)

    mean: Callable[[list[int]], float] = lambda counts: sum(counts) / len(counts)  # noqa: E731
    counts = {name: mean([of(f"{name} = {value}") for value in range(0, values, values // 10)]) for name, values in FILTERS.items()}
    return {**counts, "both in turn": mean(list(counts.values())), "all": table.scan().plan().manifests_total}  # type: ignore[arg-type]
