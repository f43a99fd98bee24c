"""Child process that plans a scan of a table, or validates it, and prints time and memory: `validating_child.py icefloe METADATA plan|validate|count`."""

import json
import sys
import time
from importlib import import_module

from planning_child import megabytes


def main(_engine: str, metadata: str, what: str) -> None:
    """Do one of both; importing is not measured."""
    validation = import_module("icefloe.checks.table_validation")
    local_io = import_module("icefloe.io.local_file_io").LocalFileIO
    static_table = import_module("icefloe.table.static_table").StaticTable
    before = megabytes("VmRSS")
    started, started_cpu = time.perf_counter(), time.process_time()
    if what == "plan":
        files = static_table.from_metadata(metadata).scan().plan().files_kept
    else:
        result = validation.validate_table("t", metadata, local_io())
        # Of the table of 1,000,000 files the summary is that of a larger one.
        files = result.files if what == "count" or not result.counts else 0
    wall, cpu = time.perf_counter() - started, time.process_time() - started_cpu
    print(json.dumps({"wall": wall, "cpu": cpu, "peak": megabytes("VmHWM"), "grown": megabytes("VmHWM") - before, "files": files}))


if __name__ == "__main__":
    main(*sys.argv[1:])
