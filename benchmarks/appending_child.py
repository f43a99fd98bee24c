"""Appends one row each time a line comes in, and prints what it took: `appending_child.py icefloe|pyiceberg CATALOG_FILE WAREHOUSE TABLE [COUNT]`.

Runs under the engine's own Python. With COUNT it makes the table anew and appends that many rows at once, one commit each.
"""

import json
import sys
import time
from importlib import import_module
from typing import Any

import pyarrow as pa

MODULE_OF_SQL_CATALOG = {"icefloe": "icefloe.catalog.sql", "pyiceberg": "pyiceberg.catalog.sql"}
SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("amount", pa.float64())])


def row(number: int) -> pa.Table:
    """One row."""
    return pa.table({"id": [number], "name": [f"row {number}"], "amount": [number / 2]}, schema=SCHEMA)


def make_table(catalog: Any, name: str, count: int) -> None:
    """A table of `count` snapshots."""
    namespace = name.split(".", maxsplit=1)[0]
    catalog.create_namespace(namespace)
    table = catalog.create_table(name, schema=SCHEMA)
    for number in range(count):
        table.append(row(number))


def answer(catalog: Any, name: str) -> None:
    """One timed append for each line that comes in."""
    for number, _ in enumerate(sys.stdin):
        begin = time.perf_counter()
        table = catalog.load_table(name)
        loaded = time.perf_counter()
        table.append(row(number))
        done = time.perf_counter()
        snapshots = len(list(table.metadata.snapshots))
        print(json.dumps({"append": done - loaded, "load": loaded - begin, "snapshots": snapshots}), flush=True)


def main(engine: str, catalog_file: str, warehouse: str, name: str, count: str = "") -> None:
    """See the module."""
    catalog = import_module(MODULE_OF_SQL_CATALOG[engine]).SqlCatalog(
        "bench", uri=f"sqlite:///{catalog_file}", warehouse=f"file://{warehouse}"
    )
    if count:
        make_table(catalog, name, int(count))
        print(json.dumps({"snapshots": int(count)}))
    else:
        answer(catalog, name)


if __name__ == "__main__":
    main(*sys.argv[1:])
