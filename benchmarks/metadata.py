"""A metadata file of 10,000 snapshots: reading it, visiting every snapshot, and writing it with one more, compared with PyIceberg.

The standard library writes the file as the specification defines it. Each engine runs in its own processes, which take turns.
"""

import json
from functools import partial
from typing import Any

from benchmarks import measure
from benchmarks.measure import Comparison, child, interleaved, median, say, seconds

SNAPSHOTS, REPEATS = 10_000, 3
START_MS = 1_700_000_000_000


def run() -> list[Comparison]:
    """Measure reading and writing, which every load and commit needs, and visiting every snapshot, which expiring needs."""
    file = measure.BUILD / "metadata" / "00001-ten-thousand.metadata.json"
    if not file.exists():
        say(f"metadata: a file of {SNAPSHOTS:,} snapshots (made once)")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(document(), separators=(",", ":")))
    say(f"metadata: {file.stat().st_size / 2**20:.1f} MB, read and written in turns")
    taken = interleaved(REPEATS, {engine: partial(child, engine, "metadata_child.py", str(file)) for engine in ("icefloe", "pyiceberg")})
    counts = {one["snapshots"] for side in taken.values() for one in side}
    if counts != {SNAPSHOTS}:
        raise SystemExit(f"the engines read other snapshots than the file has: {counts}")
    lines = []
    for title, part, goal in (
        ("read", "read", "<= 0.1"),
        ("read, with every snapshot looked at", "look", ""),
        ("written with one snapshot more", "write", "<= 0.1"),
    ):
        ours, theirs = (median([one[part] for one in taken[engine]]) for engine in ("icefloe", "pyiceberg"))
        lines.append(Comparison(f"metadata of {SNAPSHOTS:,} snapshots, {title}", seconds(ours), seconds(theirs), ours / theirs, goal))
    return lines


def document() -> dict[str, Any]:
    """Return table metadata with a long history: one schema of ten columns, one spec, a tag at every thousandth snapshot."""
    names = [f"column_{number}" for number in range(1, 11)]
    columns = [{"id": number, "name": name, "required": False, "type": "long"} for number, name in enumerate(names, start=1)]
    return {
        "format-version": 2,
        "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
        "location": "s3://bucket/warehouse/db/t",
        "last-sequence-number": SNAPSHOTS,
        "last-updated-ms": START_MS + SNAPSHOTS * 1000,
        "last-column-id": len(columns),
        "current-schema-id": 0,
        "schemas": [{"type": "struct", "schema-id": 0, "fields": columns}],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": [{"source-id": 1, "field-id": 1000, "transform": "bucket[16]", "name": "b"}]}],
        "last-partition-id": 1000,
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": {"owner": "bench"},
        "current-snapshot-id": snapshot_id(SNAPSHOTS),
        "refs": {
            "main": {"snapshot-id": snapshot_id(SNAPSHOTS), "type": "branch"},
            **{f"tag-{number}": {"snapshot-id": snapshot_id(number), "type": "tag"} for number in range(1000, SNAPSHOTS, 1000)},
        },
        "snapshots": [snapshot(number) for number in range(1, SNAPSHOTS + 1)],
        "statistics": [],
        "partition-statistics": [],
        "snapshot-log": [
            {"timestamp-ms": START_MS + number * 1000, "snapshot-id": snapshot_id(number)} for number in range(1, SNAPSHOTS + 1)
        ],
        "metadata-log": [
            {"timestamp-ms": START_MS + number * 1000, "metadata-file": f"s3://bucket/warehouse/db/t/metadata/{number:05d}-x.metadata.json"}
            for number in range(SNAPSHOTS - 100, SNAPSHOTS)
        ],
    }


def snapshot(number: int) -> dict[str, Any]:
    """Return a snapshot of an append with the summary that Java writes."""
    found: dict[str, Any] = {
        "sequence-number": number,
        "snapshot-id": snapshot_id(number),
        "timestamp-ms": START_MS + number * 1000,
        "summary": {
            "operation": "append",
            "added-data-files": "4",
            "added-records": "40000",
            "added-files-size": "1234567",
            "changed-partition-count": "4",
            "total-records": str(40000 * number),
            "total-files-size": str(1234567 * number),
            "total-data-files": str(4 * number),
            "total-delete-files": "0",
            "total-position-deletes": "0",
            "total-equality-deletes": "0",
        },
        "manifest-list": f"s3://bucket/warehouse/db/t/metadata/snap-{snapshot_id(number)}-1-0db3e2a8-9d1d-42b9-aa7b-74ebe558dceb.avro",
        "schema-id": 0,
    }
    return found if number == 1 else {**found, "parent-snapshot-id": snapshot_id(number - 1)}


def snapshot_id(number: int) -> int:
    """Return an id; the ids of successive numbers are spread over the positive longs like random ids."""
    return number * 0x9E3779B97F4A7C15 % (2**63 - 25)
