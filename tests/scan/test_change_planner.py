"""Files that are removed, added again or listed several times: the changes between two snapshots are those of their rows."""

import random
from collections import Counter
from dataclasses import replace
from itertools import combinations
from typing import Any

import pyarrow as pa
import pytest

from icefloe import InMemoryCatalog
from icefloe.spec.manifest.data_file import DataFile
from icefloe.table import Table

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string())])
MODES = ("none", "dropCarryovers", "netChanges")


def rows_at(table: Table, snapshot_id: int) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in table.scan(snapshot_id=snapshot_id).to_arrow().to_pylist())


def live_files(table: Table) -> list[DataFile]:
    return [replace(task.file, first_row_id=None) for task in table.scan().plan_files()]


def step(table: Table, chance: random.Random, removed: list[DataFile]) -> str:
    """Apply one random change to the table. Files that it removes are added to `removed`, from which they are added again."""
    live = live_files(table)
    base = table.current_snapshot()
    kind = chance.choice(["append", "remove", "add again", "add twice", "delete rows", "delete keys", "replace"])
    if kind == "append" or not live or base is None:
        first = chance.randrange(1000)
        table.append(pa.table({"id": range(first, first + 4), "part": [chance.choice("ab")] * 4}, schema=SCHEMA))
    elif kind == "delete rows":
        if len({file.file_path for file in live}) < len(live):
            return f"no {kind}"  # positions in a file that a snapshot has twice are refused
        table.delete(f"id in ({', '.join(map(str, some_ids(table, chance)))})")
    elif kind == "delete keys":
        if table.format_version > 1:
            table.delete_keys(pa.table({"id": pa.array(some_ids(table, chance), pa.int64())}), ["id"])
    else:
        gone = chance.sample(live, 1) if kind in ("remove", "replace") else []
        back = {"add twice": live[:1], "add again": removed[-1:], "replace": removed[-1:]}.get(kind, [])
        back = [file for file in back if file.file_path not in {one.file_path for one in gone}]
        change = table.update_snapshot().overwrite().validate_from_snapshot(base.snapshot_id)
        for one in gone:
            change.delete_file(one)
        for one in back:
            change.add_file(one)
        change.commit()
        table.refresh()
        removed += gone
    return kind


def some_ids(table: Table, chance: random.Random) -> list[int]:
    ids = table.scan().select("id").to_arrow()["id"].to_pylist() or [0]
    return [chance.choice(ids), chance.choice(ids)]


@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 40))])
def test_files_that_are_added_again_have_the_changes_of_their_rows(seed: int) -> None:
    chance = random.Random(seed)
    catalog = InMemoryCatalog(f"again{seed}")
    catalog.create_namespace("db")
    version, mode = [(3, "merge-on-read"), (2, "merge-on-read"), (1, "copy-on-write")][seed % 3]
    properties = {
        "format-version": str(version),
        "write.delete.mode": mode,
        "commit.manifest.min-count-to-merge": chance.choice(["2", "100"]),
    }
    table = catalog.create_table("db.t", SCHEMA, properties=properties)
    removed: list[DataFile] = []
    steps = [step(table, chance, removed) for _ in range(9)]
    line = [snapshot.snapshot_id for snapshot in table.ancestors()][::-1]
    pairs = list(combinations(line, 2))
    for start, end in chance.sample(pairs, min(len(pairs), 6)):
        before, after = rows_at(table, start), rows_at(table, end)
        last = table.metadata.snapshot_by_id(end)
        assert last is not None
        changes = table.changes(start, end, deduplication_mode=chance.choice(MODES))
        # The same as one commit, which removes files and adds them again.
        of_one_commit = replace(changes, snapshots=(replace(last, parent_snapshot_id=start),))
        for scan in (changes, of_one_commit):
            result = Counter(before)
            for row in scan.to_arrow().to_pylist():
                result[row["id"], row["part"]] += 1 if row["_change_type"] == "INSERT" else -1
            assert +result == after, (steps, scan)
            assert min(result.values(), default=0) >= 0, (steps, scan)
