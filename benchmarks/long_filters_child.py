"""Child process that scans a new table with filters of 100,000 values, and prints what that took; `long_filters.py` runs it.

    long_filters_child.py icefloe FOLDER

The other side scans all rows, and keeps those that PyArrow's `is_in` finds in an array of the same values. The folder is emptied afterwards.
"""

import json
import random
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.measure import interleaved, median
from icefloe.catalog.sql_catalog import SqlCatalog

ROWS, VALUES, REPEATS = 1_000_000, 100_000, 5


def timed(scan: Callable[[], pa.Table]) -> tuple[float, float]:
    """Return the CPU seconds and the seconds of a scan that has to find every value once."""
    cpu, begin = time.process_time(), time.perf_counter()
    found = scan()
    taken = time.process_time() - cpu, time.perf_counter() - begin
    if found.num_rows != VALUES:
        raise SystemExit(f"{found.num_rows} rows were found, of {VALUES}")
    return taken


def main(_engine: str, folder: str) -> None:
    """Print the medians of both sides for whole numbers and for texts."""
    shutil.rmtree(folder, ignore_errors=True)
    Path(folder).mkdir(parents=True)
    catalog = SqlCatalog("bench", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
    catalog.create_namespace("bench")
    rows = pa.table({"id": range(ROWS), "name": [f"name {number}" for number in range(ROWS)]})
    table = catalog.create_table("bench.rows", schema=rows.schema)
    table.append(rows)
    numbers = random.Random(1).sample(range(ROWS), VALUES)
    literals: dict[str, list[Any]] = {"id": numbers, "name": [f"name {number}" for number in numbers]}
    sides: dict[str, Callable[[], tuple[float, float]]] = {}
    for column, values in literals.items():
        text = f"{column} IN ({', '.join(map(repr, values))})"
        value_set = pa.array(values)

        def filtered(text: str = text) -> pa.Table:
            return table.scan(text).to_arrow()

        def compared(column: str = column, value_set: pa.Array = value_set) -> pa.Table:
            every = table.scan().to_arrow()
            return every.filter(pc.is_in(every[column], value_set=value_set))

        sides[f"filter {column}"] = lambda scan=filtered: timed(scan)
        sides[f"is_in {column}"] = lambda scan=compared: timed(scan)
    for side in sides.values():
        side()  # imports and first use are not measured
    taken = interleaved(REPEATS, sides)
    shutil.rmtree(folder)
    medians = {
        f"{name} {what}": median([turn[place] for turn in turns])
        for name, turns in taken.items()
        for place, what in enumerate(("cpu", "time"))
    }
    print(json.dumps(medians))


if __name__ == "__main__":
    main(*sys.argv[1:])
