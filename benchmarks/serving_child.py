"""Child process that plans a scan of a served table: `serving_child.py icefloe URI server|client TABLE`; prints the seconds of a first and of a second plan.

The table is loaded before. The second plan has another filter that keeps all files, so that neither side has the plan, and both have the manifests.
"""

import json
import sys
import time

from icefloe.catalog.rest_catalog import RestCatalog
from icefloe.table import Table


def main(_: str, uri: str, mode: str, name: str) -> None:
    """Plan twice."""
    catalog = RestCatalog("served", uri=uri, **{"scan-planning-mode": mode, "io.allowed-schemes": "file"})
    table = catalog.load_table(name)
    table.scan("c19 < '1990-01-01T00:00:00'").plan_files()  # connects, and imports what planning needs; reads no manifest
    times = [plan(table, row_filter) for row_filter in ("c01 > -5", "c01 > -7")]
    print(json.dumps({"first": times[0][0], "second": times[1][0], "files": [count for _, count in times]}))


def plan(table: Table, row_filter: str) -> tuple[float, int]:
    """Return the seconds of a plan, and the number of its tasks."""
    started = time.perf_counter()
    tasks = table.scan(row_filter).plan_files()
    return time.perf_counter() - started, len(tasks)


if __name__ == "__main__":
    main(*sys.argv[1:])
