"""Metadata columns that a scan selects by name."""

from pathlib import Path

import pyarrow as pa
import pytest

from icefloe import SqlCatalog
from icefloe.errors import InvalidSchemaError
from icefloe.table import Table

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "kind": ["a", "b", "a"]})


def lake(folder: Path) -> SqlCatalog:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder))
    catalog.create_namespace("db")
    return catalog


@pytest.fixture
def table(tmp_path: Path) -> Table:
    table = lake(tmp_path).create_table("db.t", ROWS.schema, partition_spec=["kind"])
    table.append(ROWS)
    return table


def test_metadata_columns_follow_the_table_columns_and_a_star_omits_them(table: Table) -> None:
    assert table.scan().to_arrow().column_names == ["id", "kind"]
    result = table.scan(selected_fields=("_pos", "*", "_spec_id")).to_arrow()
    assert result.column_names == ["id", "kind", "_pos", "_spec_id"]
    assert sorted(result.to_pylist(), key=lambda row: row["id"]) == [
        {"id": 1, "kind": "a", "_pos": 0, "_spec_id": 0},
        {"id": 2, "kind": "b", "_pos": 0, "_spec_id": 0},
        {"id": 3, "kind": "a", "_pos": 1, "_spec_id": 0},
    ]
    files = {task.file.file_path for task in table.scan().plan_files()}
    alone = table.scan("id > 1").select("_file", "_row_id", "_last_updated_sequence_number").to_arrow()
    assert set(alone["_file"].to_pylist()) == files
    assert alone["_row_id"].to_pylist() == [None, None]  # version 2 has no row ids


def test_the_partition_has_the_fields_of_every_spec(table: Table) -> None:
    with table.update_spec() as update:
        update.remove_field("kind")
        update.add_field("id", "bucket[4]", "shard")
    table.append(ROWS.slice(0, 1))
    rows = table.scan().select("_partition", "_spec_id").to_arrow().to_pylist()
    old = [row["_partition"] for row in rows if row["_spec_id"] == 0]
    new = [row["_partition"] for row in rows if row["_spec_id"] != 0]
    assert sorted(row["kind"] for row in old) == ["a", "a", "b"]
    assert {row["shard"] for row in old} == {None}
    assert [row["kind"] for row in new] == [None]
    assert new[0]["shard"] in range(4)


def test_a_table_column_hides_a_metadata_column_of_its_name(tmp_path: Path) -> None:
    rows = pa.table({"_pos": ["mine", "too"]})
    table = lake(tmp_path).create_table("db.t", rows.schema)
    table.append(rows)
    assert table.scan().select("_pos").to_arrow()["_pos"].to_pylist() == ["mine", "too"]


def test_an_unknown_column_name_is_refused(table: Table) -> None:
    with pytest.raises(InvalidSchemaError, match="_change_type"):
        table.scan().select("id", "_change_type").to_arrow()
