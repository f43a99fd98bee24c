"""The demo's tables, written by Spark, read by DuckDB, PyIceberg and Java with equal rows at every snapshot."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.oracle.rows import comparable

from icefloe import SqlCatalog
from icefloe.table import Table

pytestmark = [pytest.mark.oracle, pytest.mark.spark]
Reader = Callable[..., list[dict[str, Any]]]


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo") / "warehouse"
    done = subprocess.run([Path(sys.executable).with_name("icefloe"), "demo", "--dir", folder], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


@pytest.fixture(scope="module", params=["demo.flights", "demo.events"])
def table(warehouse: Path, request: pytest.FixtureRequest) -> Table:
    return SqlCatalog("lake", uri=f"sqlite:///{warehouse}/catalog.db", warehouse=str(warehouse)).load_table(request.param)


def icefloe_rows(table: Table, snapshot_id: int) -> list[str]:
    return comparable(table.scan(snapshot_id=snapshot_id).to_arrow().to_pylist())


def test_duckdb_reads_equal_rows_at_every_snapshot(table: Table, duckdb_rows: Reader) -> None:
    for snapshot in table.snapshots():
        assert comparable(duckdb_rows(table.metadata_location, snapshot.snapshot_id)) == icefloe_rows(table, snapshot.snapshot_id)


def test_java_reads_equal_rows_at_every_snapshot(table: Table, java_rows: Reader) -> None:
    for snapshot in table.snapshots():
        assert comparable(java_rows(table.metadata_location, snapshot.snapshot_id)) == icefloe_rows(table, snapshot.snapshot_id)


def test_pyiceberg_reads_equal_rows_at_every_snapshot_of_the_same_catalog(
    table: Table, warehouse: Path, pyiceberg: Callable[..., str], tmp_path: Path
) -> None:
    pyiceberg(
        """
import json, sys
from pyiceberg.catalog.sql import SqlCatalog
table = SqlCatalog("lake", uri=f"sqlite:///{sys.argv[1]}/catalog.db", warehouse=sys.argv[1]).load_table(sys.argv[2])
for snapshot in table.snapshots():
    with open(f"{sys.argv[3]}/{snapshot.snapshot_id}", "w") as file:
        for row in table.scan(snapshot_id=snapshot.snapshot_id).to_arrow().to_pylist():
            print(json.dumps(row, default=str), file=file)
""",
        str(warehouse),
        ".".join(table.name()),
        str(tmp_path),
    )
    for snapshot in table.snapshots():
        duckdb_or_java_rows = [json.loads(line) for line in (tmp_path / str(snapshot.snapshot_id)).read_text().splitlines()]
        assert comparable(duckdb_or_java_rows) == icefloe_rows(table, snapshot.snapshot_id)
