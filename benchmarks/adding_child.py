"""Adds the Parquet files under a folder to a new partitioned table, with the engine whose Python runs this; prints seconds, those of the CPU, and rows as JSON.

python adding_child.py ENGINE FILES_FOLDER LAKE_FOLDER
"""

import json
import sys
import time
from importlib import import_module
from pathlib import Path

import pyarrow.parquet as pq

MODULE_OF_SQL_CATALOG = {"icefloe": "icefloe.catalog.sql_catalog", "pyiceberg": "pyiceberg.catalog.sql"}


def main() -> None:
    """The table has the files' columns, and identity partitions of `part`."""
    engine, files, lake = sys.argv[1:]
    made = import_module(MODULE_OF_SQL_CATALOG[engine]).SqlCatalog
    catalog = made("bench", uri=f"sqlite:///{lake}/catalog.db", warehouse=f"file://{lake}")
    catalog.create_namespace("bench")
    paths = sorted(map(str, Path(files).glob("*/*.parquet")))
    table = catalog.create_table("bench.t", pq.read_schema(paths[0]))
    with table.update_spec() as update:
        update.add_identity("part")
    started, started_cpu = time.perf_counter(), time.process_time()
    table.add_files(paths)
    taken, cpu = time.perf_counter() - started, time.process_time() - started_cpu
    records = int(table.current_snapshot().summary["total-records"])
    print(json.dumps({"seconds": taken, "records": records, "cpu": cpu}))


if __name__ == "__main__":
    main()
