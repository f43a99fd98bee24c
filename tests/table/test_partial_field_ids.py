"""Data files with field ids on only some columns: the others are null to every reader, `add_files` refuses them, and `validate` names them."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.table.test_add_files import make

from icefloe.errors import SchemaMismatchError

PAIR = pa.struct([("x", pa.int64()), ("y", pa.int64())])
SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.string()), ("s", PAIR), ("l", pa.list_(PAIR)), ("m", pa.map_(pa.string(), PAIR))])
ROW: dict[str, Any] = {"a": 1, "b": "x", "s": {"x": 1, "y": 2}, "l": [{"x": 3, "y": 4}], "m": [("k", {"x": 5, "y": 6})]}
IDS = {"a": 1, "b": 2, "s": 3, "l": 4, "m": 5, "s.x": 6, "s.y": 7, "l.element": 8, "l.element.x": 9, "l.element.y": 10}
IDS |= {"m.key": 11, "m.value": 12, "m.value.x": 13, "m.value.y": 14}


def with_some_ids(path: Path, without: frozenset[str]) -> str:
    """Write the row with the field ids of the table, but none on the columns `without` and on one that is not the table's."""

    def field(name: str, kind: pa.DataType, outer: str = "") -> pa.Field:
        path = f"{outer}{name}"
        if pa.types.is_struct(kind):
            kind = pa.struct([field(inner.name, inner.type, f"{path}.") for inner in kind.fields])
        elif pa.types.is_map(kind):
            key, value = field("key", kind.key_type, f"{path}."), field("value", kind.item_type, f"{path}.")
            kind = pa.map_(key.with_nullable(False), value)
        elif pa.types.is_list(kind):
            kind = pa.list_(field("element", kind.value_type, f"{path}."))
        return pa.field(name, kind, metadata=None if path in without or path not in IDS else {"PARQUET:field_id": str(IDS[path])})

    columns = [field(column.name, column.type) for column in (*SCHEMA, pa.field("other", pa.int64()))]
    pq.write_table(pa.Table.from_pylist([{**ROW, "other": 9}], pa.schema(columns)), path)
    return str(path)


@pytest.mark.filterwarnings("ignore::icefloe.errors.FormatWarning")  # of another size than its entry states
@pytest.mark.parametrize(
    ("without", "read"),
    [
        ([], {}),
        (["b"], {"b": None}),
        (["s.y"], {"s": {"x": 1, "y": None}}),
        (["l.element.x"], {"l": [{"x": None, "y": 4}]}),
        (["m.value.y"], {"m": [("k", {"x": 5, "y": None})]}),
    ],
)
def test_columns_without_ids_are_null_named_by_validate_and_not_added(tmp_path: Path, without: list[str], read: dict[str, Any]) -> None:
    table = make(tmp_path, schema=SCHEMA)
    assert {table.schema().find_column_name(field_id): field_id for field_id in IDS.values()} == IDS
    path = with_some_ids(tmp_path / "in.parquet", frozenset(without))
    if not without:
        table.add_files([path])
        assert table.scan().to_arrow().to_pylist() == [ROW]
        assert table.inspect.validate(values=True).findings == ()
        return
    with pytest.raises(SchemaMismatchError, match=f"none on '{without[0]}'"):
        table.add_files([path])
    table.append(pa.Table.from_pylist([ROW], SCHEMA))
    (task,) = table.scan().plan_files()
    with_some_ids(Path(task.file.file_path), frozenset(without))
    assert table.scan().to_arrow().to_pylist() == [ROW | read]
    named = [finding for finding in table.inspect.validate(data=True).findings if finding.rule == "field-ids-missing"]
    assert [finding.where for finding in named] == without
