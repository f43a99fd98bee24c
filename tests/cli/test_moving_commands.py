"""The commands `rewrite-table-path` and `snapshot`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cli.conftest import Command

from icefloe import SqlCatalog

JsonCommand = Callable[..., Any]


@pytest.fixture
def lake(tmp_path: Path) -> SqlCatalog:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    return catalog


def test_a_table_is_copied_verified_and_registered(icefloe: Command, as_json: JsonCommand, lake: SqlCatalog, tmp_path: Path) -> None:
    table = lake.create_table("db.t", pa.schema([("n", pa.int64())]))
    table.append(pa.table({"n": [1, 2]}))
    place = ("--warehouse", tmp_path)
    words = ("rewrite-table-path", "db.t", table.location(), tmp_path / "elsewhere/t", *place)
    planned = as_json(*words, "--copy", "--verify", "--dry-run")
    assert (planned["dry_run"], planned["copied_files"], planned["files"]) == (True, None, 5)
    assert not (tmp_path / "elsewhere").exists()
    done = as_json(*words, "--copy", "--verify")
    assert (done["copied_files"], done["verified_rows"], done["staging_location"]) == (5, 2, None)
    assert "equal" in icefloe(*words, "--verify").stdout
    assert icefloe("register", "db.copy", done["metadata_location"], *place).exit_code == 0
    assert lake.load_table("db.copy").scan().count() == 2
    refused = icefloe("rewrite-table-path", "db.t", tmp_path / "other", tmp_path / "x", *place)
    assert refused.exit_code == 1
    assert "source prefix" in refused.stderr
    staged = as_json(*words, "--staging", tmp_path / "staged", "--no-file-list")
    assert (staged["file_list_location"], staged["staging_location"]) == (None, f"{tmp_path}/staged/")


def test_a_folder_becomes_a_table(icefloe: Command, as_json: JsonCommand, lake: SqlCatalog, tmp_path: Path) -> None:
    (tmp_path / "files/day=1").mkdir(parents=True)
    pq.write_table(pa.table({"n": [1, 2]}), tmp_path / "files/day=1/x.parquet")
    words = ("snapshot", tmp_path / "files", "db.t", "--warehouse", tmp_path)
    planned = as_json(*words, "--dry-run")
    assert (planned["imported_records"], planned["columns"]) == (2, [["n", "long"], ["day", "int"]])
    assert lake.list_tables("db") == []
    assert "partitioned by" in icefloe(*words, "--property", "a=b").stdout
    table = lake.load_table("db.t")
    assert (table.scan().count(), table.properties["a"]) == (2, "b")
    refused = icefloe(*words)
    assert refused.exit_code == 1
    assert "exists" in refused.stderr


def test_a_folder_becomes_a_table_in_its_place(icefloe: Command, as_json: JsonCommand, lake: SqlCatalog, tmp_path: Path) -> None:
    (tmp_path / "files/day=1").mkdir(parents=True)
    pq.write_table(pa.table({"n": [1, 2]}), tmp_path / "files/day=1/x.parquet")
    words = ("migrate", tmp_path / "files", "db.t", "--warehouse", tmp_path)
    planned = as_json(*words, "--dry-run")
    assert (planned["action"], planned["imported_records"], planned["location"]) == ("migrate", 2, str(tmp_path / "files"))
    assert lake.list_tables("db") == []
    assert "partitioned by" in icefloe(*words, "--property", "a=b").stdout
    table = lake.load_table("db.t")
    assert (table.scan().count(), table.location(), table.properties["migrated"]) == (2, str(tmp_path / "files"), "true")
    refused = icefloe(*words)
    assert refused.exit_code == 1
    assert "metadata of an Iceberg table" in refused.stderr
