"""The metadata table `changes`: replayed up to a snapshot, its rows equal a scan of the snapshot."""

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.metadata_tables.tables import BEGIN, SCHEMA, evolved, new_catalog, rows, with_deletes

from icefloe.errors import InvalidInputError, NoSuchSnapshotError
from icefloe.metadata_tables.changes import changes
from icefloe.metadata_tables.metadata_table_registry import metadata_table
from icefloe.spec.metadata.table_history import ancestors
from icefloe.table import Table

OWN = ("_change_type", "_change_ordinal", "_commit_snapshot_id")
REMOVED, ADDED = ("DELETE", "UPDATE_BEFORE"), ("INSERT", "UPDATE_AFTER")


def key(row: dict[str, Any]) -> str:
    """Return the values of a row as text, because NaN does not equal itself."""
    return repr(sorted((name, value) for name, value in row.items() if name not in OWN))


def scanned(table: Table, snapshot_id: int, text: str | None = None) -> Counter[str]:
    """Return the rows of a snapshot in the columns of the newest schema."""
    rows = table.scan(text, snapshot_id=snapshot_id).to_arrow().to_pylist()
    names = {field.field_id: field.name for field in table.schema().fields}
    own = {field.name: names[field.field_id] for field in table.scan(snapshot_id=snapshot_id).schema().fields if field.field_id in names}
    return Counter(key(dict.fromkeys(names.values()) | {own[name]: value for name, value in row.items() if name in own}) for row in rows)


def check_replay(table: Table, **options: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = changes(table, **options).to_pylist()
    current = table.current_snapshot()
    assert current is not None
    line = list(ancestors(table.metadata, current.snapshot_id))[::-1]
    ordinals = {row["_commit_snapshot_id"]: row["_change_ordinal"] for row in found}
    assert list(ordinals.values()) == sorted(ordinals.values())
    live: Counter[str] = Counter()
    for snapshot in line:
        of_it = [row for row in found if row["_commit_snapshot_id"] == snapshot.snapshot_id]
        for row in of_it:
            if row["_change_type"] in REMOVED:
                live[key(row)] -= 1
        assert min(live.values(), default=0) >= 0
        live.update(key(row) for row in of_it if row["_change_type"] in ADDED)
        assert +live == scanned(table, snapshot.snapshot_id), snapshot.operation
    return found


@pytest.mark.parametrize("make", [with_deletes, evolved])
@pytest.mark.parametrize("options", [{}, {"carry_overs": False}, {"identifier_columns": ["id"]}])
def test_replayed_changes_equal_the_table(make: Any, options: dict[str, Any], tmp_path: Path) -> None:
    changed_rows = check_replay(make(tmp_path), **options)
    assert {"INSERT", "DELETE"} <= {row["_change_type"] for row in changed_rows}


@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 6))])
def test_replayed_changes_of_random_writes_equal_the_table(seed: int, mode: str, tmp_path: Path) -> None:
    chance = random.Random(seed)
    properties = {"format-version": str(2 + seed % 2), "write.delete.mode": mode, "write.update.mode": mode}
    table = new_catalog(tmp_path).create_table("db.t", SCHEMA, partition_spec=["part"], properties=properties)
    table.append(rows(0, 12))
    for step in range(8):
        low = chance.randrange(40)
        match chance.randrange(5):
            case 0:
                table.append(rows(chance.randrange(30), 8))
            case 1:
                table.delete(f"id >= {low} and id < {low + 5}")
            case 2:
                table.delete_keys(pa.table({"id": [low, low + 1]}), ["id"])
            case 3:
                changed = rows(low, 4).set_column(3, SCHEMA.field("value"), pa.array([float(step)] * 4))
                table.overwrite(changed, f"id >= {low} and id < {low + 4}")
            case 4:
                table.delete("part = 'a'" if chance.random() < 0.3 else f"id = {low}")
    check_replay(table)
    changed_rows = check_replay(table, carry_overs=False)
    removed = Counter((row["_change_ordinal"], key(row)) for row in changed_rows if row["_change_type"] == "DELETE")
    added = Counter((row["_change_ordinal"], key(row)) for row in changed_rows if row["_change_type"] == "INSERT")
    assert not removed & added


def test_copied_rows_are_changes_unless_carry_overs_is_false(tmp_path: Path) -> None:
    table = new_catalog(tmp_path).create_table("db.t", SCHEMA, properties={"write.delete.mode": "copy-on-write"})
    table.append(rows(0, 5))
    start = table.snapshots()[0].snapshot_id
    table.delete("id = 3")
    kinds = Counter(changes(table, start_snapshot_id=start)["_change_type"].to_pylist())
    assert kinds == {"DELETE": 5, "INSERT": 4}
    assert [(row["id"], row["_change_type"]) for row in changes(table, start_snapshot_id=start, carry_overs=False).to_pylist()] == [
        (3, "DELETE")
    ]


def test_a_removed_and_an_added_row_with_equal_identifiers_are_an_update(tmp_path: Path) -> None:
    table = new_catalog(tmp_path).create_table("db.t", SCHEMA)
    table.append(rows(0, 5))
    start = table.snapshots()[0].snapshot_id
    new = [{"id": 2, "part": "z", "time": BEGIN, "value": 1.0}, {"id": 9, "part": "z", "time": BEGIN, "value": 1.0}]
    table.overwrite(pa.Table.from_pylist(new, schema=SCHEMA), "id in (2, 3)")
    found = changes(table, start_snapshot_id=start, identifier_columns=["id"], columns=["id", "part", "_change_type"]).to_pylist()
    assert sorted((row["id"], row["part"], row["_change_type"]) for row in found) == [
        (2, "a", "UPDATE_BEFORE"),
        (2, "z", "UPDATE_AFTER"),
        (3, "b", "DELETE"),
        (9, "z", "INSERT"),
    ]
    table.overwrite(pa.Table.from_pylist([row | {"value": 2.0} for row in new], schema=SCHEMA), "id in (2, 9)")
    with pytest.raises(InvalidInputError, match="several rows with part = z"):
        changes(table, identifier_columns=["part"])


def test_a_filter_keeps_matching_rows(tmp_path: Path) -> None:
    table = with_deletes(tmp_path)
    every = changes(table).to_pylist()
    found = changes(table, row_filter="id < 8 and part = 'b'").to_pylist()
    assert sorted(map(repr, found)) == sorted(repr(row) for row in every if row["id"] < 8 and row["part"] == "b")
    assert {row["_change_type"] for row in found} == {"INSERT", "DELETE"}


def test_a_range_excludes_its_start_and_includes_its_end(tmp_path: Path) -> None:
    table = with_deletes(tmp_path)
    ids = [snapshot.snapshot_id for snapshot in table.snapshots()]
    middle = changes(table, start_snapshot_id=ids[1], end_snapshot_id=ids[3])
    assert set(middle["_commit_snapshot_id"].to_pylist()) == set(ids[2:4])
    assert sorted(middle["id"].to_pylist()) == [7, 9, 13]
    up_to = metadata_table(table, "changes").to_arrow(snapshot_id=ids[2])
    assert set(up_to["_commit_snapshot_id"].to_pylist()) == set(ids[:3])
    with pytest.raises(InvalidInputError, match="not an ancestor"):
        changes(table, start_snapshot_id=ids[3], end_snapshot_id=ids[1])
    with pytest.raises(NoSuchSnapshotError):
        changes(table, start_snapshot_id=1)
    with pytest.raises(InvalidInputError, match="no column 'nothing'"):
        changes(table, columns=["nothing"])


def test_changes_of_the_oldest_remaining_snapshot_are_its_added_rows_and_removed_ones_are_refused(tmp_path: Path) -> None:
    table = new_catalog(tmp_path).create_table("db.t", SCHEMA)
    table.append(rows(0, 5))
    table.append(rows(5, 3))
    table.append(rows(8, 2))
    table.delete("id = 1")
    ids = [snapshot.snapshot_id for snapshot in table.snapshots()]
    table.expire_snapshots(snapshot_ids=ids[:1])
    assert sorted(changes(table, end_snapshot_id=ids[2])["id"].to_pylist()) == [5, 6, 7, 8, 9]
    table.expire_snapshots(snapshot_ids=ids[1:3])
    with pytest.raises(InvalidInputError, match="which was expired"):
        changes(table)
    assert len(changes(table, start_snapshot_id=ids[3])) == 0
