"""Appends one row each time a line comes in, and prints what it took: `appending_child.py icefloe|pyiceberg CATALOG_FILE WAREHOUSE TABLE [COUNT]`.

Runs under the engine's own Python. With COUNT it makes the table anew and appends that many rows at once, one commit each; of more than a thousand snapshots,
the older ones are written into the metadata alone, since an append reads the files of its parent only.
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
COMMITTED = 1_000  # the most snapshots that are made by commits
SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("amount", pa.float64())])


def row(number: int) -> pa.Table:
    """One row."""
    return pa.table({"id": [number], "name": [f"row {number}"], "amount": [number / 2]}, schema=SCHEMA)


def make_table(catalog: Any, name: str, count: int) -> None:
    """A table of `count` snapshots."""
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
    """Table metadata with as many snapshots more, which came before its first one and are like those that are there."""
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


def answer(catalog: Any, name: str) -> None:
    """One timed append for each line that comes in."""
    for number, _ in enumerate(sys.stdin):
        begin = time.perf_counter()
        table = catalog.load_table(name)
        loaded, before = time.perf_counter(), time.process_time()
        table.append(row(number))
        done, after = time.perf_counter(), time.process_time()
        print(json.dumps({"append": done - loaded, "cpu": after - before, "load": loaded - begin}), flush=True)


def main(engine: str, catalog_file: str, warehouse: str, name: str, count: str = "") -> None:
    """See the module."""
    catalog = import_module(MODULE_OF_SQL_CATALOG[engine]).SqlCatalog(
        "bench", uri=f"sqlite:///{catalog_file}", warehouse=f"file://{warehouse}"
    )
    if count:
        make_table(catalog, name, int(count))
        print(json.dumps({"snapshots": len(list(catalog.load_table(name).metadata.snapshots))}))
    else:
        answer(catalog, name)


if __name__ == "__main__":
    main(*sys.argv[1:])
