"""The diff of two snapshots of a table, which have 75,000 files each, 50,000 of them in common, beside planning a scan of all 100,000 files.

Each in a new process. The diff reads every manifest once, and compares files, partitions and the statistics of 20 columns, or without these.
"""

import json
from functools import partial
from pathlib import Path

import fastavro

from benchmarks import measure, planning_table
from benchmarks.measure import Comparison, child, interleaved, say, seconds
from benchmarks.planning import compared, megabytes

REPEATS = 3


def run() -> list[Comparison]:
    """Measure both forms of the diff and the plan in turn."""
    say("comparing: the table of 100,000 files (made once, half a minute)")
    whole = str(planning_table.metadata_path(measure.BUILD / "planning"))
    two = str(with_two_snapshots(Path(whole)))
    sides = {
        "diff": partial(child, "icefloe", "comparing_child.py", two, "statistics"),
        "without": partial(child, "icefloe", "comparing_child.py", two, "files"),
        "plan": partial(child, "icefloe", "validating_child.py", whole, "plan"),
    }
    taken = interleaved(REPEATS, sides)
    counts = {one["files"] for side in taken.values() for one in side}
    if len(counts) != 1:
        raise SystemExit(f"the diffs and the plan see different files: {counts}")
    lines = []
    for side, title in (("diff", "with the statistics of 20 columns"), ("without", "without column statistics")):
        what = f"diff of two snapshots over {counts.copy().pop():,} files, {title}, compared with planning a scan of them"
        lines += [
            compared(f"{what}: CPU time", "cpu", taken[side], taken["plan"], seconds, "<= 3" if side == "diff" else "<= 2"),
            compared(f"{what}: time", "wall", taken[side], taken["plan"], seconds, ""),
            compared(f"{what}: peak memory of the process", "peak", taken[side], taken["plan"], megabytes, ""),
        ]
    return lines


def with_two_snapshots(whole: Path) -> Path:
    """Return metadata of the same manifests with two snapshots: the first has the first three quarters of them, the second the last three."""
    document = json.loads(whole.read_text())
    (snapshot,) = document["snapshots"]
    with Path(snapshot["manifest-list"]).open("rb") as stream:
        reader = fastavro.reader(stream)
        schema, rows = reader.writer_schema, list(reader)
    quarter = len(rows) // 4
    snapshots = []
    for number, chosen in enumerate((rows[:-quarter], rows[quarter:])):
        path = whole.with_name(f"snap-{number}-two.avro")
        planning_table.write_avro(path, schema, chosen, {})
        snapshots.append({**snapshot, "snapshot-id": snapshot["snapshot-id"] + number, "manifest-list": str(path)})
    ref = {"snapshot-id": snapshots[1]["snapshot-id"], "type": "branch"}
    log = [{"timestamp-ms": one["timestamp-ms"], "snapshot-id": one["snapshot-id"]} for one in snapshots]
    two = {**document, "snapshots": snapshots, "current-snapshot-id": ref["snapshot-id"], "refs": {"main": ref}, "snapshot-log": log}
    target = whole.with_name("00002-two.metadata.json")
    target.write_text(json.dumps(two))
    return target
