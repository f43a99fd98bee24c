"""Child process that plans one scan several times and prints the first and the median of the others: `planning_again_child.py icefloe METADATA [FILTER]`."""

import json
import statistics
import sys
import time

from icefloe.spec.expressions.filter_parser import parse_filter
from icefloe.table.static_table import StaticTable

TURNS = 9


def main(metadata: str, row_filter: str = "") -> None:
    """Load the table and plan, again and again."""
    parse_filter("a = 1")  # the parser is imported at the first filter
    wall, cpu, files = [], [], set()
    for _ in range(TURNS):
        started, started_cpu = time.perf_counter(), time.process_time()
        table = StaticTable.from_metadata(metadata)
        plan = (table.scan(row_filter=row_filter) if row_filter else table.scan()).plan()
        wall.append(time.perf_counter() - started)
        cpu.append(time.process_time() - started_cpu)
        files.add(plan.files_kept)
    if len(files) != 1:
        raise SystemExit(f"the plans have different files: {files}")
    again = {"wall": statistics.median(wall[1:]), "cpu": statistics.median(cpu[1:])}
    print(json.dumps({"first": {"wall": wall[0], "cpu": cpu[0]}, "again": again}))


if __name__ == "__main__":
    main(*sys.argv[2:])
