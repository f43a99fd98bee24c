"""Parquet files whose columns are annotated as unsigned, as PyIceberg and Polars append them: read, pruned, deleted from and compacted where all values fit."""

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.combinations import combinations
from tests.table.test_add_files import live, make

from icefloe.datafile.field_ids import inner_fields
from icefloe.datafile.projection import Projector
from icefloe.errors import DataFileFormatError, SchemaMismatchError
from icefloe.spec.schema.arrow_schema import schema_to_arrow
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import IcebergType, ListType, LongType, MapType, NestedField, StringType, StructType, children


def put(path: Path, values: list[int | None], kind: pa.DataType) -> str:
    items = pa.array([[value] for value in values], pa.list_(kind))
    pq.write_table(pa.table({"n": pa.array(values, kind), "l": items}), path)
    return str(path)


@pytest.mark.parametrize(("kind", "target"), combinations([pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()], [pa.int32(), pa.int64()]))
def test_unsigned_values_that_fit_are_read(tmp_path: Path, kind: pa.DataType, target: pa.DataType) -> None:
    table = make(tmp_path, schema=pa.schema([("n", target), ("l", pa.list_(target))]))
    most = 2 ** min(kind.bit_width, target.bit_width - 1) - 1
    path = put(tmp_path / "1.parquet", [0, None, most], kind)
    if (kind, target) == (pa.uint64(), pa.int32()):
        with pytest.raises(SchemaMismatchError, match="stored as uint64"):
            table.add_files([path])
        return
    table.add_files([path])
    rows = table.scan().to_arrow()
    assert rows.schema.field("n").type == target
    assert (rows["n"].to_pylist(), rows["l"].to_pylist()) == ([0, None, most], [[0], [None], [most]])
    assert (table.scan(f"n = {most}").count(), table.scan(f"n > {most}").count() if most < 2**31 - 1 else 0) == (1, 0)
    is_as_wide = kind.bit_width == target.bit_width
    found = [(finding.rule, finding.field_id) for finding in table.inspect.validate(values=True).findings]
    assert sorted(found) == ([("column-unsigned", 1), ("column-unsigned", 3)] if is_as_wide else [])
    table.delete("n = 0")
    table.maintenance.rewrite_data_files(options={"rewrite-all": "true"})
    newest = [task.file.file_path for task in table.scan().plan_files()]
    assert [pq.read_schema(path).field("n").type for path in newest] == [target]
    assert table.scan().to_arrow()["n"].to_pylist() == [None, most]


@pytest.mark.parametrize(("kind", "target", "value"), [(pa.uint32(), pa.int32(), 2**31), (pa.uint64(), pa.int64(), 2**63)])
def test_an_unsigned_value_that_does_not_fit_is_an_error_that_names_it(
    tmp_path: Path, kind: pa.DataType, target: pa.DataType, value: int
) -> None:
    table = make(tmp_path, schema=pa.schema([("n", target), ("l", pa.list_(target))]))
    table.add_files([put(tmp_path / "1.parquet", [1, value], kind)])
    assert 1 not in (live(table)[0].lower_bounds or {})
    for where in ("n = 1", "n < 0", "n > 5"):
        with pytest.raises(DataFileFormatError, match=str(value)):
            table.scan(where).to_arrow()


def test_an_error_names_the_whole_path_of_a_nested_value(tmp_path: Path) -> None:
    inner = pa.struct([("n", pa.int64())])
    table = make(
        tmp_path,
        schema=pa.schema([("l", pa.list_(pa.int64())), ("s", pa.struct([("l", pa.list_(inner))])), ("m", pa.map_(pa.string(), inner))]),
    )
    most, unsigned = 2**63, pa.struct([("n", pa.uint64())])
    columns = {
        "l": pa.array([[1, most]], pa.list_(pa.uint64())),
        "s": pa.array([{"l": [{"n": most}]}], pa.struct([("l", pa.list_(unsigned))])),
        "m": pa.array([[("k", {"n": most})]], pa.map_(pa.string(), unsigned)),
    }
    pq.write_table(pa.table(columns), tmp_path / "1.parquet")
    table.add_files([str(tmp_path / "1.parquet")])
    for column, path in {"l": "l.element", "s": "s.l.element.n", "m": "m.value.n"}.items():
        with pytest.raises(DataFileFormatError, match=rf"column '{re.escape(path)}' of \S*/1\.parquet contains a value that is not a long"):
            table.scan(selected_fields=(column,)).to_arrow()


@pytest.mark.parametrize("path", ["l.element", "s.n", "m.key", "m.value"])
def test_an_error_of_a_type_or_of_a_missing_field_names_the_whole_path(path: str) -> None:
    column, _, last = path.partition(".")
    number, text = NestedField(2, last, LongType(), required=True), StringType()
    kind = {
        "l": ListType(2, LongType()),
        "s": StructType(number),
        "m": MapType(2, LongType(), 3, text) if last == "key" else MapType(3, text, 2, LongType()),
    }[column]
    stored = {"l": pa.list_(pa.string()), "s": pa.struct([("n", pa.string())]), "m": pa.map_(pa.string(), pa.string())}[column]
    field = NestedField(1, column, kind)
    target = schema_to_arrow(Schema(field)).field(0).type
    with pytest.raises(DataFileFormatError, match=rf"column '{re.escape(path)}' \(field id 2\) of a\.parquet is stored as string"):
        Projector("a.parquet", {}).array(pa.nulls(1, stored), with_ids(stored, kind), field, target)
    if column == "s":
        empty = pa.struct([("other", pa.string())])
        with pytest.raises(DataFileFormatError, match=r"a\.parquet lacks the required column 's\.n' \(field id 2\)"):
            Projector("a.parquet", {}).array(pa.nulls(1, empty), pa.field("s", empty), field, target)


def with_ids(stored: pa.DataType, kind: IcebergType) -> pa.Field:
    """Return a field of a file whose inner fields have the ids of the type's."""
    numbered = [
        pa.field(inner.name, inner.type, metadata={b"PARQUET:field_id": str(child.field_id).encode()})
        for inner, child in zip(inner_fields(stored), children(kind), strict=True)
    ]
    if pa.types.is_list(stored):
        return pa.field("l", pa.list_(numbered[0]))
    if pa.types.is_map(stored):
        return pa.field("m", pa.map_(numbered[0].with_nullable(False), numbered[1]))
    return pa.field("s", pa.struct(numbered))
