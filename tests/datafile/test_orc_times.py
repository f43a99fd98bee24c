"""Times in ORC files: what Java's readers would take for another time is refused, at every level of a column."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from icefloe import SqlCatalog
from icefloe.errors import SchemaMismatchError

SECOND = 1_000_000
WHOLE = [-315_619_200 * SECOND, -SECOND, 0, 1, 10**15 + 500_000, None]
EARLY = [-315_619_200 * SECOND + 500_000, -1, -SECOND - 1, -999_999, -86_400 * SECOND + 1]


def shaped(kind: pa.DataType, shape: str, values: list[int | None]) -> pa.Table:
    times: Any = pa.array([None if value is None else value * (1_000 if kind.unit == "ns" else 1) for value in values], kind)
    offsets = pa.array(range(len(values) + 1), pa.int32())
    if shape == "struct":
        times = pa.StructArray.from_arrays([times], names=["t"])
    if shape == "list":
        times = pa.ListArray.from_arrays(offsets, times)
    if shape == "map":
        times = pa.MapArray.from_arrays(offsets, pa.array(range(len(values)), pa.int32()), pa.StructArray.from_arrays([times], names=["t"]))
    return pa.table({"id": range(len(values)), "c": times})


@pytest.mark.parametrize("shape", ["plain", "struct", "list", "map"])
@pytest.mark.parametrize("kind", [pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.timestamp("ns")], ids=str)
def test_fractions_of_a_second_before_1970_are_refused(tmp_path: Path, kind: pa.DataType, shape: str) -> None:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    rows = shaped(kind, shape, WHOLE)
    table = catalog.create_table("db.t", rows.schema, properties={"format-version": "3", "write.format.default": "orc"})
    table.append(rows)
    assert table.scan().to_arrow().select(["c"]).equals(rows.cast(table.scan().to_arrow().schema).select(["c"]))
    for value in EARLY:
        with pytest.raises(SchemaMismatchError, match=r"times before 1970 with a fraction of a second(.|\n)*c: has 19(.|\n)*parquet"):
            table.append(shaped(kind, shape, [0, value]))
    assert len(table.snapshots()) == 1
