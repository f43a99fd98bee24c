"""Rows all of whose columns, or all fields of a struct, are of unknown type: written, counted, deleted, compacted and given a type, in every format."""

from pathlib import Path

import pyarrow as pa
import pytest
from tests.combinations import combinations

from icefloe import LongType, SqlCatalog, Table
from icefloe.errors import UnsupportedTypeError

FORMATS = ["parquet", "orc", "avro"]
DEEP = pa.schema(
    [
        ("a", pa.null()),
        ("s", pa.struct([("x", pa.null()), ("t", pa.struct([("y", pa.null())]))])),
        ("l", pa.list_(pa.struct([("z", pa.null())]))),
        ("m", pa.map_(pa.string(), pa.struct([("w", pa.null())]))),
    ]
)
ROWS = [
    {"a": None, "s": {"x": None, "t": {"y": None}}, "l": [{"z": None}, None], "m": [("k", {"w": None})]},
    {"a": None, "s": {"x": None, "t": None}, "l": [], "m": []},
    {"a": None, "s": None, "l": None, "m": [("k", None)]},
]


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    found = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    found.create_namespace("db")
    return found


def make(catalog: SqlCatalog, schema: pa.Schema, data_format: str, **properties: str) -> Table:
    return catalog.create_table("db.t", schema, properties={"format-version": "3", "write.format.default": data_format} | properties)


@pytest.mark.parametrize(("data_format", "mode"), combinations([*FORMATS], ["copy-on-write", "merge-on-read"]))
def test_rows_without_a_stored_column(catalog: SqlCatalog, data_format: str, mode: str) -> None:
    table = make(catalog, pa.schema([("a", pa.null()), ("b", pa.null())]), data_format, **{"write.delete.mode": mode})
    for count in (2, 3):
        assert table.append(pa.table({"a": pa.nulls(count)})).added_records == count
    assert table.scan().to_arrow().to_pylist() == [{"a": None, "b": None}] * 5
    assert (table.scan().count(), table.scan("a IS NULL").count(), table.scan("a IS NOT NULL").count()) == (5, 5, 0)
    assert sorted(table.scan().select("_pos").to_arrow()["_pos"].to_pylist()) == [0, 0, 1, 1, 2]
    assert table.delete("a IS NOT NULL").snapshot_id is None
    assert table.maintenance.rewrite_data_files(options={"min-input-files": "2", "rewrite-all": "true"}).added_files == 1
    assert table.scan().count() == 5
    with table.update_schema() as update:
        update.update_column("a", field_type=LongType())
    table.append(pa.table({"a": pa.array([7], pa.int64())}))
    assert sorted(map(str, table.scan().to_arrow()["a"].to_pylist())) == ["7", *["None"] * 5]
    assert table.delete("a = 7").deleted_records == 1
    assert table.delete("a IS NULL").deleted_records == 5
    assert not table.inspect.validate(data=True, values=True).findings


@pytest.mark.parametrize("data_format", FORMATS)
def test_structs_without_a_stored_field(catalog: SqlCatalog, data_format: str) -> None:
    table = make(catalog, DEEP, data_format)
    table.append(pa.Table.from_pylist(ROWS, schema=DEEP))
    assert table.scan().to_arrow().to_pylist() == ROWS
    assert table.scan("s IS NULL").count() == 1
    with table.update_schema() as update:
        update.add_column(("s", "n"), LongType())
    table.append(pa.Table.from_pylist([{"s": {"n": 5}}], schema=pa.schema([("s", pa.struct([("n", pa.int64())]))])))
    assert sorted(str(row and row["n"]) for row in table.scan().to_arrow()["s"].to_pylist()) == ["5", "None", "None", "None"]
    assert not table.inspect.validate(data=True, values=True).findings


@pytest.mark.parametrize("kind", [pa.list_(pa.null()), pa.map_(pa.string(), pa.null())])
def test_items_of_unknown_type_are_refused_before_the_commit(catalog: SqlCatalog, kind: pa.DataType) -> None:
    table = make(catalog, pa.schema([("c", kind)]), "parquet")
    with pytest.raises(UnsupportedTypeError, match=r"'c' has elements or values of unknown type.*\n.*give them a type"):
        table.append(pa.table({"c": pa.nulls(1, kind)}))
    assert table.current_snapshot() is None
