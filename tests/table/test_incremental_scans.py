"""Scans of the rows that were appended between two snapshots, compared with the rows of each append."""

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.metadata_tables.tables import SCHEMA, new_catalog, rows

from icefloe.errors import InvalidFilterError, InvalidInputError, NoSuchSnapshotError
from icefloe.spec.metadata.table_history import ancestors
from icefloe.spec.types import LongType
from icefloe.table import Table


def ids(found: Any) -> Counter[int]:
    return Counter(found["id"].to_pylist())


def changed(folder: Path, seed: int) -> tuple[Table, dict[int, list[int]]]:
    """Return a table after ten random operations, and the ids of the rows of each write, by its snapshot id."""
    chance = random.Random(seed)
    mode = chance.choice(["merge-on-read", "copy-on-write"])
    properties = {
        "format-version": str(2 + seed % 2),
        "write.delete.mode": mode,
        "commit.manifest.min-count-to-merge": "2",
        "commit.manifest-merge.enabled": chance.choice(["true", "false"]),
    }
    table = new_catalog(folder).create_table("db.t", SCHEMA, partition_spec=["part"], properties=properties)
    given: dict[int, list[int]] = {}
    for step in range(10):
        low = chance.randrange(40)
        match chance.randrange(6):
            case 0 | 1 | 2:
                table.append(rows(low, 5))
                given[table.refs()["main"].snapshot_id] = list(range(low, low + 5))
            case 3:
                table.delete(f"id >= {low} and id < {low + 5}")
            case 4:
                table.overwrite(rows(low, 3), f"id >= {low} and id < {low + 3}")
                given[table.refs()["main"].snapshot_id] = list(range(low, low + 3))
            case 5 if step > 2:
                table.rewrite_manifests()
            case _:
                table.delete("part = 'a'")
    return table, given


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 8))])
def test_an_incremental_scan_has_the_rows_of_the_appends_in_the_range(seed: int, tmp_path: Path) -> None:
    table, written = changed(tmp_path, seed)
    snapshots = list(ancestors(table.metadata, table.metadata.current_snapshot_id))[::-1]
    line = [snapshot.snapshot_id for snapshot in snapshots]
    # An overwrite that replaces no row is an append.
    given = {one.snapshot_id: written[one.snapshot_id] for one in snapshots if one.operation == "append"}
    for begin in range(-1, len(line)):
        for end in range(max(begin, 0), len(line)):
            expected = Counter(number for snapshot_id in line[begin + 1 : end + 1] for number in given.get(snapshot_id, ()))
            scan = table.incremental_append_scan(
                from_snapshot_id_exclusive=None if begin < 0 else line[begin], to_snapshot_id_inclusive=line[end]
            )
            assert ids(scan.to_arrow()) == expected, (begin, end)
            assert scan.count() == expected.total()
            few = scan.filter("id < 20 and part = 'b'").to_arrow()
            assert ids(few) == Counter({number: many for number, many in expected.items() if number < 20 and number % 2})
    assert ids(table.incremental_append_scan().to_arrow()) == Counter(number for numbers in given.values() for number in numbers)


def test_an_incremental_scan_has_the_current_columns_of_the_table(tmp_path: Path) -> None:
    table = new_catalog(tmp_path).create_table("db.t", SCHEMA, properties={"format-version": "3"})
    table.append(rows(0, 2))
    table.append(rows(2, 3))
    first, second = (snapshot.snapshot_id for snapshot in table.snapshots())
    with table.update_schema() as update:
        update.rename_column("id", "number")
        update.add_column("more", LongType())
    table.delete("number = 3")
    scan = table.incremental_append_scan(selected_fields=["number", "more", "_pos", "_row_id"], from_snapshot_id_exclusive=first)
    assert scan.to_arrow().to_pylist() == [{"number": 2 + place, "more": None, "_pos": place, "_row_id": 2 + place} for place in range(3)]
    assert table.incremental_append_scan("number > 3", limit=1).to_arrow()["number"].to_pylist() == [4]
    assert table.incremental_append_scan(from_snapshot_id_exclusive=second).to_arrow().num_rows == 0
    with pytest.raises(InvalidFilterError):
        table.incremental_append_scan("nothing = 1").to_arrow()


def test_a_range_begins_at_an_ancestor_of_its_end_even_if_it_is_expired(tmp_path: Path) -> None:
    table = new_catalog(tmp_path).create_table("db.t", SCHEMA)
    assert table.incremental_append_scan().to_arrow().num_rows == 0
    for first in (0, 3, 6):
        table.append(rows(first, 3))
    one, two, three = (snapshot.snapshot_id for snapshot in table.snapshots())
    with pytest.raises(InvalidInputError, match=f"snapshot {three} of .* is no ancestor of snapshot {two}"):
        table.incremental_append_scan(from_snapshot_id_exclusive=three, to_snapshot_id_inclusive=two)
    with pytest.raises(InvalidInputError, match=r"snapshot 7 of .* is no ancestor"):
        table.incremental_append_scan(from_snapshot_id_exclusive=7)
    with pytest.raises(NoSuchSnapshotError, match="no snapshot 7"):
        table.incremental_append_scan(to_snapshot_id_inclusive=7)
    table.manage_snapshots().create_branch(branch_name="side", snapshot_id=one).commit()
    table.append(rows(20, 1), branch="side")
    side = table.refs()["side"].snapshot_id
    with pytest.raises(InvalidInputError, match="no ancestor"):
        table.incremental_append_scan(from_snapshot_id_exclusive=two, to_snapshot_id_inclusive=side)
    assert ids(table.scan(branch="side").appended_after(one).to_arrow()) == Counter([20])
    table.manage_snapshots().remove_branch(branch_name="side").commit()
    table.expire_snapshots(snapshot_ids=[one])
    assert ids(table.incremental_append_scan(from_snapshot_id_exclusive=one).to_arrow()) == Counter(range(3, 9))


def test_an_incremental_scan_of_a_branch_without_commits_has_no_rows(tmp_path: Path) -> None:
    table = new_catalog(tmp_path).create_table("db.t", pa.schema([("id", pa.int64())]))
    assert table.incremental_append_scan().count() == 0
