"""Child process that adds the Parquet files in a folder to a new partitioned table; it prints seconds, CPU seconds and rows as JSON.

It runs in the Python environment of the engine:

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
    """Create a table with the columns of the files, partitioned by identity of `part`, and add the files."""
    engine, files, lake = sys.argv[1:]
    sql_catalog = import_module(MODULE_OF_SQL_CATALOG[engine]).SqlCatalog
    catalog = sql_catalog("bench", uri=f"sqlite:///{lake}/catalog.db", warehouse=f"file://{lake}")
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
