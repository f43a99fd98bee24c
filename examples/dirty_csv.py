"""Load a CSV file with bad lines into a table: good rows in one commit, every bad line beside the file with its number and the reason.

python dirty_csv.py trips.csv
"""

import csv
import datetime as dt
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from icefloe import load_catalog

SCHEMA = pa.schema([("id", pa.int64()), ("kind", pa.string()), ("fare", pa.float64()), ("pickup", pa.timestamp("us"))])
# How the text of each column is read; an empty text is null.
READERS: dict[str, Callable[[str], Any]] = {"id": int, "kind": str, "fare": float, "pickup": dt.datetime.fromisoformat}


def split(path: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the rows that can be read, and a line for each that cannot: its number, the reason, the text."""
    good, bad = [], []
    with path.open(newline="", encoding="utf-8", errors="replace") as file:
        lines = csv.DictReader(file)
        for row in lines:
            try:
                if None in row or None in row.values():
                    raise ValueError("another number of values than the header")
                good.append({name: read(row[name]) if row[name] else None for name, read in READERS.items()})
            except ValueError as error:
                bad.append(f"line {lines.line_num}: {error}: {list(row.values())}")
    return good, bad


def main(path: Path) -> None:
    """Load one file."""
    good, bad = split(path)
    catalog = load_catalog("lake", uri="lake.db", warehouse="lake")
    catalog.create_namespace_if_not_exists("taxi")
    table = catalog.create_table_if_not_exists("taxi.trips", SCHEMA, partition_spec=["month(pickup)"])
    table.append(pa.Table.from_pylist(good, schema=SCHEMA), snapshot_properties={"source-file": path.name, "bad-lines": str(len(bad))})
    if bad:
        path.with_suffix(".bad").write_text("\n".join(bad) + "\n", encoding="utf-8")
    print(f"{len(good)} rows loaded, {len(bad)} lines set aside")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
