"""Times in ORC files: what Java's readers would take for another time is refused, at every level of a column."""

import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc

from icefloe import SqlCatalog
from icefloe.datafile.orc.orc_timestamps import time_zone_of
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


@pytest.mark.parametrize(("block_bytes", "chunks"), [(0, 1), (1 << 30, 2)])
def test_a_stripe_footer_that_would_fill_the_memory_is_refused(tmp_path: Path, block_bytes: int, chunks: int) -> None:
    """A limit of no bytes, by the file's own claim or because the first chunk took all, is no limit to zlib."""
    orc.write_table(pa.table({"t": pa.array([0], pa.timestamp("ns"))}), tmp_path / "1.orc")
    written = orc.ORCFile(tmp_path / "1.orc")
    compressor = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    bomb = compressor.compress(bytes(80 * 1024 * 1024)) + compressor.flush()
    content = ((len(bomb) << 1).to_bytes(3, "little") + bomb) * chunks
    claims = SimpleNamespace(compression="ZLIB", compression_size=block_bytes, reader=written.reader)
    source = SimpleNamespace(seek=lambda _: None, read=lambda _: content)
    with pytest.raises(ValueError, match="a stripe footer of more than 67,108,864 bytes"):
        time_zone_of(claims, source)
