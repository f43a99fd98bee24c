"""Child process that plans one scan and prints time and memory: `planning_child.py icefloe|pyiceberg METADATA columns|tasks [FILTER]`.

Engines use Icefloe's plan as columns; PyIceberg has tasks only. It runs in the Python environment of the engine and does nothing else.
"""

import json
import re
import sys
import time
from importlib import import_module
from pathlib import Path

MODULE_OF_STATIC_TABLE = {"icefloe": "icefloe.table.static_table", "pyiceberg": "pyiceberg.table"}


def megabytes(name: str) -> float:
    """Return VmHWM (peak) or VmRSS (current) of this process, which do not include the parent's memory as getrusage does."""
    found = re.search(rf"^{name}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    return int(found[1]) / 1024 if found else 0.0


def main(engine: str, metadata: str, result: str, row_filter: str = "") -> None:
    """Open the table, plan the scan and visit every path; PyIceberg always creates tasks."""
    static_table = import_module(MODULE_OF_STATIC_TABLE[engine]).StaticTable
    if engine == "icefloe":  # the parser is imported at the first filter; PyIceberg imports its own with the table
        import_module("icefloe.spec.expressions.filter_parser").parse_filter("a = 1")
    before = megabytes("VmRSS")
    started, started_cpu = time.perf_counter(), time.process_time()
    table = static_table.from_metadata(metadata)
    scan = table.scan(row_filter=row_filter) if row_filter else table.scan()
    if engine == "icefloe" and result == "columns":
        compute, plan = import_module("pyarrow.compute"), scan.plan()
        files, size = plan.files_kept, sum(compute.sum(compute.utf8_length(part.entries["file_path"])).as_py() for part in plan.parts)
    else:
        tasks = list(scan.plan_files())
        files, size = len(tasks), sum(len(task.file.file_path) for task in tasks)
    wall, cpu = time.perf_counter() - started, time.process_time() - started_cpu
    peak = megabytes("VmHWM")
    print(json.dumps({"wall": wall, "cpu": cpu, "peak": peak, "grown": peak - before, "files": files, "path_bytes": size}))


if __name__ == "__main__":
    main(*sys.argv[1:])
