"""Tables whose partition specs changed as Java and PyIceberg allow it: every later change is accepted."""

from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pytest

from icefloe import LongType, SqlCatalog, StringType, Table
from icefloe.errors import InvalidPartitionSpecError, InvalidSchemaError
from icefloe.inspect import metadata_table

NEW_YEAR = datetime(2020, 1, 1)
VERSIONS = pytest.mark.parametrize("version", [1, 2, 3])


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    return catalog


def make_table(catalog: SqlCatalog, schema: pa.Schema, version: int, *spec: str) -> Table:
    return catalog.create_table("db.t", schema, partition_spec=list(spec), properties={"format-version": str(version)})


@VERSIONS
def test_a_table_partitioned_by_day_and_hour_of_one_column_accepts_later_changes(catalog: SqlCatalog, version: int) -> None:
    table = make_table(catalog, pa.schema([("id", pa.int64()), ("ts", pa.timestamp("us"))]), version, "day(ts)")
    table.append(pa.table({"id": [1], "ts": [NEW_YEAR]}))
    with table.update_spec() as update:
        update.add_field("ts", "hour")
    table.append(pa.table({"id": [2], "ts": [NEW_YEAR]}))
    with table.update_schema() as schema:
        schema.add_column("extra", LongType())
        schema.rename_column("ts", "time")
    with table.update_spec() as update:
        update.add_field("id", "bucket[4]")
    table.append(pa.table({"id": [3], "time": [NEW_YEAR], "extra": [1]}))
    assert sorted(table.scan("time = '2020-01-01T00:00:00'").to_arrow()["id"].to_pylist()) == [1, 2, 3]
    with table.update_spec() as update:
        update.remove_field("ts_day")
    assert [field.name for field in table.spec().fields if str(field.transform) != "void"] == ["ts_hour", "id_bucket_4"]


@VERSIONS
def test_two_time_units_of_one_column_are_refused_in_one_change(catalog: SqlCatalog, version: int) -> None:
    schema = pa.schema([("id", pa.int64()), ("ts", pa.timestamp("us"))])
    with pytest.raises(InvalidPartitionSpecError, match="partitioned by time"):
        make_table(catalog, schema, version, "day(ts)", "hour(ts)")
    table = make_table(catalog, schema, version)
    with pytest.raises(InvalidPartitionSpecError, match="partitioned by time"), table.update_spec() as update:
        update.add_field("ts", "day").add_field("ts", "hour")
    if version > 1:
        with pytest.raises(InvalidPartitionSpecError, match="partitioned by time"):
            catalog.create_or_replace_table("db.t", schema, partition_spec=["day(ts)", "hour(ts)"])


@VERSIONS
def test_a_dropped_column_of_an_identity_field_is_added_again(catalog: SqlCatalog, version: int) -> None:
    schema = pa.schema([("id", pa.int64()), ("category", pa.string())])
    table = make_table(catalog, schema, version, "category")
    table.append(pa.table({"id": [1], "category": ["a"]}))
    with table.update_spec() as update:
        update.remove_field("category")
    renamed = table.update_schema().rename_column("category", "older").add_column("category", StringType())
    with pytest.raises(InvalidSchemaError, match="partition field"):
        renamed.commit()
    with table.update_schema() as change:
        change.delete_column("category")
    with table.update_schema() as change:
        change.add_column("category", StringType())
    table.append(pa.table({"id": [2], "category": ["a"]}))
    with table.update_spec() as update:
        update.add_identity("category")
    table.append(pa.table({"id": [3], "category": ["a"]}))

    assert sorted(table.scan("category = 'a'").to_arrow()["id"].to_pylist()) == [2, 3]
    assert table.scan("category is null").to_arrow()["id"].to_pylist() == [1], (
        "the value of the column that was dropped is not that of the new one"
    )
    parts = {row["id"]: row["_partition"] for row in table.scan().select("id", "_partition").to_arrow().to_pylist()}
    assert parts == {
        1: {"category_1000": "a", "category": None},
        2: {"category_1000": None, "category": None},
        3: {"category_1000": None, "category": "a"},
    }
    rows = metadata_table(table, "partitions").to_arrow(columns=["partition", "record_count"]).to_pylist()
    assert {row["partition"]["category"]: row["record_count"] for row in rows} == {None: 2, "a": 1}
    table.delete("category = 'a'")
    assert table.scan().to_arrow().to_pylist() == [{"id": 1, "category": None}]
