"""Tables replaced through the catalog: UUID, history and field ids are kept, rows are removed; new rows are committed with the replacement, or nothing is."""

from pathlib import Path

import pyarrow as pa
import pytest

from icefloe import SqlCatalog
from icefloe.errors import CommitConflictError, InvalidPartitionSpecError, InvalidSchemaError, NoSuchTableError

FIRST = pa.schema([("id", pa.int64()), ("k", pa.string()), ("s", pa.struct([("a", pa.int32()), ("b", pa.string())]))])
ROWS = pa.table({"id": [1, 2], "k": ["x", "y"], "s": [{"a": 1, "b": "p"}, None]}, FIRST)


@pytest.fixture
def lake(tmp_path: Path) -> SqlCatalog:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"))
    catalog.create_namespace("db")
    catalog.create_table("db.t", FIRST, partition_spec=["k"], properties={"keep": "1", "both": "old"}).append(ROWS)
    return catalog


def test_a_replaced_table_keeps_its_uuid_history_and_field_ids_and_has_no_rows(lake: SqlCatalog) -> None:
    before = lake.load_table("db.t")
    new_schema = pa.schema([("s", pa.struct([("b", pa.string()), ("c", pa.int32())])), ("k", pa.int64()), ("id", pa.int64())])
    after = lake.replace_table("db.t", new_schema, partition_spec=["bucket(4, id)"], properties={"both": "new"})
    assert after.metadata.table_uuid == before.metadata.table_uuid
    assert (after.metadata.current_snapshot_id, len(after.metadata.snapshots)) == (None, 1)
    ids = {name: after.schema().find_field(name).field_id for name in ("s", "s.b", "id")}
    assert ids == {name: before.schema().find_field(name).field_id for name in ids}
    assert after.schema().find_field("k").field_id > before.metadata.last_column_id  # another type, so another column
    assert dict(after.properties) == {"keep": "1", "both": "new"}
    assert after.location() == before.location()
    assert after.scan().to_arrow().num_rows == 0
    assert after.scan(snapshot_id=before.metadata.current_snapshot_id).to_arrow().num_rows == 2
    after.append(pa.table({"s": [{"b": "z", "c": 3}], "k": [5], "id": [9]}, new_schema))
    assert lake.load_table("db.t").scan().to_arrow().to_pylist() == [{"s": {"b": "z", "c": 3}, "k": 5, "id": 9}]


def test_a_replacement_and_its_new_rows_are_one_commit(lake: SqlCatalog, tmp_path: Path) -> None:
    files = sorted(path for path in (tmp_path / "warehouse").rglob("*") if path.is_file())
    tx = lake.transaction()
    tx.replace_table("db.t", FIRST).append(ROWS)
    tx.give_up()
    assert sorted(path for path in (tmp_path / "warehouse").rglob("*") if path.is_file()) == files
    with lake.transaction() as tx:
        tx.replace_table("db.t", FIRST).append(ROWS.slice(0, 1))
    table = lake.load_table("db.t")
    assert table.scan().to_arrow().num_rows == 1
    assert table.metadata.current_snapshot().parent_snapshot_id is None
    assert len(table.metadata.metadata_log) == 2


def test_a_replacement_removes_concurrent_rows_and_conflicts_with_a_concurrent_schema_change(lake: SqlCatalog) -> None:
    with lake.transaction() as tx:
        tx.replace_table("db.t", FIRST).append(ROWS.slice(0, 1))
        lake.load_table("db.t").append(ROWS)
    assert lake.load_table("db.t").scan().to_arrow().num_rows == 1
    tx = lake.transaction()
    tx.replace_table("db.t", FIRST).append(ROWS)
    with lake.load_table("db.t").update_schema() as update:
        update.delete_column("s")
    with pytest.raises(CommitConflictError):
        tx.commit_transaction()
    assert lake.load_table("db.t").schema().names == ["id", "k"]


def test_create_or_replace_creates_a_missing_table(lake: SqlCatalog) -> None:
    assert lake.create_or_replace_table("db.new", FIRST, properties={"a": "b"}).schema().names == ["id", "k", "s"]
    again = lake.create_or_replace_table("db.new", pa.schema([("id", pa.int32())]))
    assert (again.schema().names, dict(again.properties)) == (["id"], {"a": "b"})
    with pytest.raises(NoSuchTableError):
        lake.replace_table("db.nothing", FIRST)


def test_a_replacement_may_raise_the_format_version_and_refuses_changes_that_its_version_lacks(lake: SqlCatalog) -> None:
    assert lake.replace_table("db.t", FIRST, properties={"format-version": "3"}).metadata.format_version == 3
    lake.create_table("db.one", FIRST, partition_spec=["k"], properties={"format-version": "1"})
    with pytest.raises(InvalidPartitionSpecError, match="upgrade it to format version 2"):
        lake.replace_table("db.one", FIRST, partition_spec=["id"])
    before = lake.load_table("db.one").metadata_location
    with pytest.raises(InvalidSchemaError):
        lake.replace_table("db.one", pa.schema([("t", pa.timestamp("ns"))]), partition_spec=[])
    assert lake.load_table("db.one").metadata_location == before
