"""Child process that appends rows of many partitions, and prints what it took; `partitions.py` runs it.

    partitions_child.py icefloe|pyiceberg FOLDER PARTITIONS

The table is new, each partition gets two rows of four columns, and the folder is emptied afterwards.
"""

import json
import resource
import shutil
import sys
import time
from importlib import import_module
from pathlib import Path

import pyarrow as pa

MODULE_OF_SQL_CATALOG = {"icefloe": "icefloe.catalog.sql_catalog", "pyiceberg": "pyiceberg.catalog.sql"}


def rows_of(partitions: int) -> pa.Table:
    """Return two rows of each partition."""
    numbers = range(2 * partitions)
    columns = {"id": list(numbers), "part": [n % partitions for n in numbers], "name": [f"name {n}" for n in numbers]}
    return pa.table({**columns, "amount": [n / 7 for n in numbers]})


def main(engine: str, folder: str, partitions: str) -> None:
    """Append once; print the seconds, the CPU seconds and the growth of the peak memory."""
    shutil.rmtree(folder, ignore_errors=True)
    Path(folder).mkdir(parents=True)
    catalog = import_module(MODULE_OF_SQL_CATALOG[engine]).SqlCatalog(
        "bench", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}"
    )
    catalog.create_namespace("bench")
    small = rows_of(2)
    for name in ("first", "many"):
        table = catalog.create_table(f"bench.{name}", schema=small.schema)
        with table.update_spec() as update:
            update.add_identity("part")
    catalog.load_table("bench.first").append(small)  # imports and first use are not measured
    table, rows = catalog.load_table("bench.many"), rows_of(int(partitions))
    peak, cpu, begin = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time(), time.perf_counter()
    table.append(rows)
    took, cpu = time.perf_counter() - begin, time.process_time() - cpu
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak
    shutil.rmtree(folder)
    print(json.dumps({"time": took, "cpu": cpu, "megabytes": grown / 1024}))


if __name__ == "__main__":
    main(*sys.argv[1:])
