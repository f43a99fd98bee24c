"""Copies of tables at another place: Java and DuckDB read the rows that Icefloe read from the original, which does not exist any more."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.maintenance.test_rewrite_table_path import registered, with_history
from tests.oracle.rows import comparable

from icefloe.table import Table

pytestmark = [pytest.mark.oracle, pytest.mark.slow]
Reader = Callable[..., list[dict[str, Any]]]


def own_rows(table: Table, snapshot_id: int) -> list[str]:
    return comparable(table.scan(snapshot_id=snapshot_id).to_arrow().to_pylist())


def copied(folder: Path, version: int, *, more: bool) -> tuple[Table, dict[int, Any]]:
    """Return a copy whose original is gone, and the rows of each snapshot of the original; with `more` the copy was continued once."""
    for name in ("from", "to"):
        (folder / name).mkdir()
    table = with_history(folder / "from", version, 11, 4)
    target = str(folder / "to/t")
    result = table.maintenance.rewrite_table_path(table.location(), target, copy=True, verify=True)
    if more:
        start = table.metadata_location
        table.append(pa.table({"id": [70, 71], "kind": ["a", "b"]}))
        table.delete("id = 70")
        table.rewrite_manifests()
        result = table.maintenance.rewrite_table_path(table.location(), target, start_version=start, copy=True, verify=True)
    rows = {snapshot.snapshot_id: own_rows(table, snapshot.snapshot_id) for snapshot in table.snapshots()}
    shutil.rmtree(folder / "from/db")
    return registered(folder / "to", result.metadata_location), rows


@pytest.mark.parametrize("version", [1, 2, 3])
def test_java_reads_a_copy_at_every_snapshot(java_script: Callable[..., str], tmp_path: Path, version: int) -> None:
    copy, rows = copied(tmp_path, version, more=True)
    script = f"""
import json
for snapshot in {list(rows)}:
    found = spark.read.format("iceberg").option("snapshot-id", snapshot).load({copy.metadata_location!r}).collect()
    print("READING " + json.dumps([snapshot, [row.asDict(recursive=True) for row in found]], default=str))
"""
    printed = java_script(script, str(tmp_path))
    found = dict(json.loads(line.removeprefix("READING ")) for line in printed.splitlines() if line.startswith("READING "))
    assert {snapshot: comparable(java) for snapshot, java in found.items()} == rows


@pytest.mark.parametrize("version", [2, 3])
def test_duckdb_reads_a_copy(duckdb_rows: Reader, tmp_path: Path, version: int) -> None:
    copy, rows = copied(tmp_path, version, more=False)
    snapshot = copy.current_snapshot()
    assert snapshot is not None
    assert comparable(duckdb_rows(copy.metadata_location)) == rows[snapshot.snapshot_id]
