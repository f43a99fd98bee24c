"""Child process of the benchmark `compaction` that plans compactions of the table of `planning_20m_table.py`, whose metadata file is its argument."""

import json
import sys
import time
from pathlib import Path

from benchmarks.spark_lake import new_lake_in

TABLE = "bench.planned"
# Every file has about 1,000 rows and less than the target size, so that thresholds choose all of them or none.
PLANS = {
    "what to bin-pack": (None, {}),
    "what to bin-pack where nothing is to do": (
        None,
        {"target-file-size-bytes": 1_000, "min-file-size-bytes": 0, "max-file-size-bytes": 2**40},
    ),
    "what to sort": ("id", {"target-file-size-bytes": 1_000, "min-file-size-bytes": 0, "max-file-size-bytes": 2**40}),
    "what to place along a curve": (
        "hilbert(id, amount)",
        {"target-file-size-bytes": 1_000, "min-file-size-bytes": 0, "max-file-size-bytes": 2**40},
    ),
}


def main(metadata: str) -> None:
    """Plan everything in one process, each on a table that is loaded again."""
    lake = new_lake_in(Path(metadata).parents[1] / "catalog", "lake")
    lake.register_table(TABLE, metadata)
    taken = {}
    for name, (order, options) in PLANS.items():
        started = time.perf_counter()
        result = lake.load_table(TABLE).maintenance.rewrite_data_files(sort_order=order, options=options, dry_run=True)
        taken[name] = time.perf_counter() - started
        print(name, result, file=sys.stderr)
    print(json.dumps(taken))


if __name__ == "__main__":
    main(sys.argv[1])
