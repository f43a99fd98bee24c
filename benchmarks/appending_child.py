"""Child process that appends one row for each line of its input and prints the seconds of each append.

    appending_child.py icefloe|pyiceberg CATALOG_FILE WAREHOUSE TABLE [COUNT]

It runs in the Python environment of the engine. With COUNT it creates a new table and appends that many rows, one commit each; from a thousand snapshots on,
the older ones exist only in the metadata, since an append reads the files of its parent only.
"""

import json
import sys
import time
import uuid
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa

MODULE_OF_SQL_CATALOG = {"icefloe": "icefloe.catalog.sql_catalog", "pyiceberg": "pyiceberg.catalog.sql"}
COMMITTED = 1_000  # largest number of snapshots that are created by commits
SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("amount", pa.float64())])


def row(number: int) -> pa.Table:
    """Return one row."""
    return pa.table({"id": [number], "name": [f"row {number}"], "amount": [number / 2]}, schema=SCHEMA)


def make_table(catalog: Any, name: str, count: int) -> None:
    """Create a table with `count` snapshots."""
    catalog.create_namespace_if_not_exists(name.split(".", maxsplit=1)[0])
    table = catalog.create_table(name, schema=SCHEMA)
    for number in range(min(count, COMMITTED)):
        table.append(row(number))
    if count > COMMITTED:
        file = Path(table.metadata_location.removeprefix("file://"))
        longer = file.with_name(f"{count:05}-{uuid.uuid4()}.metadata.json")
        longer.write_text(json.dumps(with_older_snapshots(json.loads(file.read_text()), count - COMMITTED), separators=(",", ":")))
        catalog.drop_table(name)
        catalog.register_table(name, f"file://{longer}")


def with_older_snapshots(metadata: dict[str, Any], more: int) -> dict[str, Any]:
    """Return table metadata with that many additional snapshots before its first one, which resemble the existing ones."""
    known = metadata["snapshots"]
    older: list[dict[str, Any]] = []
    for number in range(more):
        parent = {"parent-snapshot-id": older[-1]["snapshot-id"]} if older else {}
        changed = {
            "snapshot-id": number + 1,
            "sequence-number": number + 1,
            "timestamp-ms": known[0]["timestamp-ms"] - 1000 * (more - number),
        }
        older.append({**known[number % len(known)], **parent, **changed})
    older[0].pop("parent-snapshot-id", None)
    log = [{"snapshot-id": one["snapshot-id"], "timestamp-ms": one["timestamp-ms"]} for one in older]
    newer = [{**one, "sequence-number": one["sequence-number"] + more} for one in known]
    newer[0]["parent-snapshot-id"] = more
    return {
        **metadata,
        "last-sequence-number": metadata["last-sequence-number"] + more,
        "snapshots": older + newer,
        "snapshot-log": log + metadata["snapshot-log"],
    }


def append_on_request(catalog: Any, name: str) -> None:
    """Append once for each line of the input and print the time."""
    for number, _ in enumerate(sys.stdin):
        begin = time.perf_counter()
        table = catalog.load_table(name)
        loaded, before = time.perf_counter(), time.process_time()
        table.append(row(number))
        done, after = time.perf_counter(), time.process_time()
        print(json.dumps({"append": done - loaded, "cpu": after - before, "load": loaded - begin}), flush=True)


def main(engine: str, catalog_file: str, warehouse: str, name: str, count: str = "") -> None:
    """Create a table, or append to one; see the module."""
    catalog = import_module(MODULE_OF_SQL_CATALOG[engine]).SqlCatalog(
        "bench", uri=f"sqlite:///{catalog_file}", warehouse=f"file://{warehouse}"
    )
    if count:
        make_table(catalog, name, int(count))
        print(json.dumps({"snapshots": len(list(catalog.load_table(name).metadata.snapshots))}))
    else:
        append_on_request(catalog, name)


if __name__ == "__main__":
    main(*sys.argv[1:])
