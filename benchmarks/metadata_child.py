"""Child process of `metadata.py`: `metadata_child.py ENGINE FILE` prints the median seconds of each task as JSON."""

import importlib
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

REPEATS = 5
NEW_SNAPSHOT_ID, LATER_MS = 4711, 10_000


def icefloe(content: bytes) -> tuple[Callable[[], Any], Callable[[Any], int], Callable[[Any], bytes]]:
    """Return the tasks with Icefloe: read the file, visit every snapshot, write it with one more."""
    read = importlib.import_module("icefloe.spec.metadata.metadata_reader").read_table_metadata
    write = importlib.import_module("icefloe.spec.metadata.metadata_writer").write_table_metadata
    snapshot = importlib.import_module("icefloe.spec.metadata.snapshot").Snapshot
    add = importlib.import_module("icefloe.spec.metadata.snapshot_updates").AddSnapshot

    def written(metadata: Any) -> bytes:
        now_ms = metadata.last_updated_ms + LATER_MS
        new = snapshot(
            snapshot_id=NEW_SNAPSHOT_ID,
            sequence_number=metadata.next_sequence_number,
            timestamp_ms=now_ms,
            manifest_list="s3://bucket/new.avro",
            summary={"operation": "append"},
        )
        return bytes(write(add(new).apply(metadata, now_ms)))

    return lambda: read(content, "file"), lambda metadata: sum(1 for one in metadata.snapshots if one.operation == "append"), written


def pyiceberg(content: bytes) -> tuple[Callable[[], Any], Callable[[Any], int], Callable[[Any], bytes]]:
    """Return the same tasks with PyIceberg."""
    parse = importlib.import_module("pyiceberg.table.metadata").TableMetadataUtil.parse_raw
    snapshots = importlib.import_module("pyiceberg.table.snapshots")
    updates = importlib.import_module("pyiceberg.table.update")

    def written(metadata: Any) -> bytes:
        new = snapshots.Snapshot(
            snapshot_id=NEW_SNAPSHOT_ID,
            parent_snapshot_id=metadata.current_snapshot_id,
            sequence_number=metadata.last_sequence_number + 1,
            timestamp_ms=metadata.last_updated_ms + LATER_MS,
            manifest_list="s3://bucket/new.avro",
            summary=snapshots.Summary(snapshots.Operation.APPEND),
        )
        after = updates.update_table_metadata(metadata, (updates.AddSnapshotUpdate(snapshot=new),))
        return bytes(after.model_dump_json().encode())

    def looked(metadata: Any) -> int:
        return sum(1 for one in metadata.snapshots if one.summary.operation == snapshots.Operation.APPEND)

    return lambda: parse(content.decode()), looked, written


def main(engine: str, path: str) -> None:
    """Run each task several times; the first run loads imports and caches and is not counted."""
    content = Path(path).read_bytes()
    read, look, write = {"icefloe": icefloe, "pyiceberg": pyiceberg}[engine](content)
    taken: dict[str, list[float]] = {"read": [], "look": [], "write": []}
    for _ in range(REPEATS + 1):
        started = time.perf_counter()
        metadata = read()
        read_at = time.perf_counter()
        snapshots = look(metadata)
        looked_at = time.perf_counter()
        fresh = read()
        fresh_at = time.perf_counter()
        written = write(fresh)
        ended = time.perf_counter()
        taken["read"].append(read_at - started)
        taken["look"].append(looked_at - started)
        taken["write"].append(ended - fresh_at)
        if len(json.loads(written)["snapshots"]) != snapshots + 1:
            raise SystemExit(f"{engine} wrote {len(json.loads(written)['snapshots'])} snapshots")
    print(json.dumps({name: statistics.median(times[1:]) for name, times in taken.items()} | {"snapshots": snapshots}))


if __name__ == "__main__":
    main(*sys.argv[1:])
