"""Child process that compares the two snapshots of a table, and prints time and memory: `comparing_child.py icefloe METADATA statistics|files`."""

import json
import sys
import time
from importlib import import_module

from planning_child import megabytes


def main(_engine: str, metadata: str, what: str) -> None:
    """Compare; importing is not measured."""
    inspect = import_module("icefloe.inspect.table_diff")
    static_table = import_module("icefloe.table.static_table").StaticTable
    before = megabytes("VmRSS")
    started, started_cpu = time.perf_counter(), time.process_time()
    table = static_table.from_metadata(metadata)
    found = inspect.diff(table, from_version=table.snapshots()[0].snapshot_id, statistics=what == "statistics").data_files
    wall, cpu = time.perf_counter() - started, time.process_time() - started_cpu
    files = found.added.files + found.removed.files + found.kept.files
    print(json.dumps({"wall": wall, "cpu": cpu, "peak": megabytes("VmHWM"), "grown": megabytes("VmHWM") - before, "files": files}))


if __name__ == "__main__":
    main(*sys.argv[1:])
