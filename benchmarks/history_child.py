"""Child process that creates the tables of `history.py`, and appends one row for each line of its input.

    history_child.py icefloe FOLDER TABLE [SNAPSHOTS BRANCHES CODEC]

With SNAPSHOTS it brings the table back to that many snapshots. The metadata file is created once; a hard link keeps it when a commit deletes the file.
"""

import json
import os
import sys
import time
import uuid
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from icefloe import SqlCatalog
from icefloe.spec.metadata.metadata_writer import write_table_metadata
from icefloe.spec.metadata.snapshot_ref import SnapshotRef
from icefloe.spec.metadata.table_history import SnapshotLogEntry
from icefloe.spec.metadata.table_metadata import TableMetadata

COMMITTED = 10  # snapshots that are created by commits
SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("amount", pa.float64())])
# Without it the processes would leave gigabytes behind.
PROPERTIES = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "2"}


def row(number: int) -> pa.Table:
    """Return one row."""
    return pa.table({"id": [number], "name": [f"row {number}"], "amount": [number / 2]}, schema=SCHEMA)


def restore(catalog: SqlCatalog, folder: Path, name: str, snapshots: int, branches: int, codec: str) -> None:
    """Create the table, or bring it back to the kept metadata file."""
    kept = folder / f"{name}-kept.metadata.json"
    location = folder / f"{name}-location.txt"
    if not location.exists():
        table = catalog.create_table(name, schema=SCHEMA, properties={**PROPERTIES, "write.metadata.compression-codec": codec})
        for number in range(COMMITTED):
            table.append(row(number))
        longer = with_older_snapshots(table.metadata, snapshots - COMMITTED, branches)
        kept.write_bytes(write_table_metadata(longer, gzip=codec == "gzip"))
        location.write_text(table.metadata_location.removeprefix("file://"))
    if catalog.table_exists(name):
        catalog.drop_table(name)
    current = Path(location.read_text())
    for old in current.parent.glob("*.metadata.json"):
        old.unlink()
    os.link(kept, current)
    catalog.register_table(name, f"file://{current}")


def with_older_snapshots(metadata: TableMetadata, more: int, branches: int) -> TableMetadata:
    """Return table metadata with that many additional snapshots before its first one, and with branches at the current snapshot."""
    known = list(metadata.snapshots)
    older = [
        replace(
            known[number % len(known)],
            snapshot_id=number + 1,
            sequence_number=number + 1,
            timestamp_ms=known[0].timestamp_ms - 1000 * (more - number),
            parent_snapshot_id=number or None,
            manifest_list=f"{metadata.location}/metadata/snap-{number + 1}-0-{uuid.uuid4()}.avro",
        )
        for number in range(more)
    ]
    newer = [replace(snapshot, sequence_number=snapshot.sequence_number + more) for snapshot in known]
    if older:
        newer[0] = replace(newer[0], parent_snapshot_id=older[-1].snapshot_id)
    log = [SnapshotLogEntry(snapshot.timestamp_ms, snapshot.snapshot_id) for snapshot in older]
    heads = {f"branch_{number}": SnapshotRef(snapshot_id=newer[-1].snapshot_id) for number in range(1, branches)}
    return replace(
        metadata,
        last_sequence_number=metadata.last_sequence_number + more,
        snapshots=(*older, *newer),  # type: ignore[arg-type]
        snapshot_log=(*log, *metadata.snapshot_log),  # type: ignore[arg-type]
        refs={**metadata.refs, **heads},
    )


def append_on_request(catalog: SqlCatalog, name: str) -> None:
    """Append twice for each line of the input, to the table that was kept from the line before and to one loaded now; print the times."""
    table = catalog.load_table(name)
    branches = list(table.metadata.refs)
    for number, _ in enumerate(sys.stdin):
        rows, branch = row(number), branches[number % len(branches)]
        begin = clocks()
        table.append(rows, branch=branch)
        appended = clocks()
        table = catalog.load_table(name)
        loaded = clocks()
        table.append(rows, branch=branch)
        end = clocks()
        taken = {}
        for part, (since, until) in {"append": (begin, appended), "load": (appended, loaded), "loaded": (loaded, end)}.items():
            taken[part], taken[f"{part}_cpu"] = until[0] - since[0], until[1] - since[1]
        print(json.dumps(taken), flush=True)


def clocks() -> tuple[float, float]:
    """Return the seconds of the clock and of the processor."""
    return time.perf_counter(), time.process_time()


def main(_engine: str, folder_name: str, name: str, *new: str) -> None:
    """Restore a table, or append to one; see the module."""
    folder = Path(folder_name)
    catalog = SqlCatalog("bench", uri=f"sqlite:///{folder / 'catalog.db'}", warehouse=f"file://{folder / 'warehouse'}")
    if new:
        snapshots, branches, codec = new
        catalog.create_namespace_if_not_exists(name.split(".", maxsplit=1)[0])
        restore(catalog, folder, name, int(snapshots), int(branches), codec)
        print(json.dumps({"snapshots": len(catalog.load_table(name).metadata.snapshots)}))
    else:
        append_on_request(catalog, name)


if __name__ == "__main__":
    main(*sys.argv[1:])
