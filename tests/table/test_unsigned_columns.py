"""Parquet files whose columns are annotated as unsigned, as PyIceberg and Polars append them: read, pruned, deleted from and compacted where all values fit."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.table.test_add_files import live, make

from icefloe.errors import DataFileFormatError, SchemaMismatchError


def put(path: Path, values: list[int | None], kind: pa.DataType) -> str:
    items = pa.array([[value] for value in values], pa.list_(kind))
    pq.write_table(pa.table({"n": pa.array(values, kind), "l": items}), path)
    return str(path)


@pytest.mark.parametrize("target", [pa.int32(), pa.int64()])
@pytest.mark.parametrize("kind", [pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()])
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
    assert table.inspect.validate(values=True).findings == ()
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
