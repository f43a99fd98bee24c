"""Entry point: `python -m benchmarks [NAME...]` runs the named benchmarks of `MODULES`, or all of them, and prints one table."""

import sys
import time
from importlib import import_module

from benchmarks import measure

MODULES = {
    "starting": "benchmarks.starting",
    "planning": "benchmarks.planning",
    "planning-again": "benchmarks.planning_again",
    "manifests": "benchmarks.manifests",
    "clustering": "benchmarks.clustering",
    "planning-deletes": "benchmarks.planning_deletes",
    "planning-20m": "benchmarks.planning_20m",
    "append": "benchmarks.appending",
    "partitions": "benchmarks.partitions",
    "history": "benchmarks.history",
    "streams": "benchmarks.streams",
    "micro-batches": "benchmarks.micro_batches",
    "files-commit": "benchmarks.files_commit",
    "metadata": "benchmarks.metadata",
    "deletes": "benchmarks.deletes",
    "upsert": "benchmarks.upsert",
    "long-filters": "benchmarks.long_filters",
    "adding": "benchmarks.adding",
    "spark": "benchmarks.spark_rows",
    "spark-scans": "benchmarks.spark_scans",
    "ordered-limits": "benchmarks.ordered_limits",
    "variants": "benchmarks.variants",
    "joining": "benchmarks.joining",
    "merging-buckets": "benchmarks.merging_buckets",
    "spark-changes": "benchmarks.spark_changes",
    "changes": "benchmarks.changes",
    "changelog-views": "benchmarks.changelog_views",
    "stream-lag": "benchmarks.stream_lag",
    "statements": "benchmarks.statements",
    "creating": "benchmarks.creating",
    "serving": "benchmarks.serving",
    "spark-s3": "benchmarks.spark_s3",
    "compaction": "benchmarks.compaction",
    "converting": "benchmarks.converting",
    "merging_deletes": "benchmarks.merging_deletes",
    "merging": "benchmarks.merging",
    "orphans": "benchmarks.orphans",
    "maintain": "benchmarks.maintaining",
    "validating": "benchmarks.validating",
    "comparing": "benchmarks.comparing",
    "exploring": "benchmarks.exploring",
    "tpch": "benchmarks.tpch",
    "tpch-deletes": "benchmarks.tpch_deletes",
    "tpch-comet": "benchmarks.tpch_comet",
    "tpcds": "benchmarks.tpcds",
    "tpch-writes": "benchmarks.tpch_writes",
}


def main(names: list[str]) -> None:
    """Run benchmarks; print progress to standard error and the table to standard output."""
    unknown = set(names) - set(MODULES)
    if unknown:
        raise SystemExit(f"no benchmark named {', '.join(sorted(unknown))}; there are {', '.join(MODULES)}")
    measure.BUILD.mkdir(exist_ok=True)
    comparisons = []
    for name in names or MODULES:
        started = time.monotonic()
        comparisons += import_module(MODULES[name]).run()
        measure.say(f"{name}: {time.monotonic() - started:.0f} s in all")
    print(f"\n{measure.machine()}. Medians of interleaved runs; a ratio is Icefloe's value divided by the other's.\n")
    print(measure.as_markdown(comparisons))


if __name__ == "__main__":
    main(sys.argv[1:])
