"""Lists and maps without any entry inside others: Spark 4.0 sends them without the one offset that Arrow requires."""

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from icefloe import SqlCatalog
from icefloe.spark.types.arrow_conversion import with_list_offsets

TEXTS = pa.list_(pa.string())


def without_offset(kind: Any) -> Any:
    """Return an array without entries, with the buffers that Spark 4.0 sends."""
    nothing = pa.py_buffer(b"")
    if pa.types.is_string(kind):
        return pa.Array.from_buffers(kind, 0, [None, nothing, nothing])
    return pa.Array.from_buffers(kind, 0, [None, nothing], children=[without_offset(kind.value_type)])


def offsets_of(array: Any) -> list[int]:
    return [0 if buffer is None else buffer.size for buffer in array.buffers()]


def test_arrays_without_entries_get_their_offset_and_others_are_unchanged() -> None:
    lists = pa.Array.from_buffers(
        pa.list_(TEXTS), 2, [None, pa.array([0, 0, 0], pa.int32()).buffers()[1]], children=[without_offset(TEXTS)]
    )
    entries = pa.StructArray.from_arrays([pa.array([], pa.int32()), without_offset(TEXTS)], names=["key", "value"])
    kind = pa.map_(pa.int32(), TEXTS)
    maps = pa.Array.from_buffers(kind, 2, [pa.py_buffer(b"\x01"), pa.array([0, 0, 0], pa.int32()).buffers()[1]], children=[entries])
    whole = pa.array([["a"], None], TEXTS)
    texts = pa.StructArray.from_arrays([lists, whole], names=["lists", "whole"])
    assert offsets_of(lists)[3] == 0
    mended = with_list_offsets(pa.record_batch({"texts": texts, "maps": maps, "whole": whole}))
    mended.validate(full=True)
    assert mended.column("texts").to_pylist() == [{"lists": [], "whole": ["a"]}, {"lists": [], "whole": None}]
    assert mended.column("maps").to_pylist() == [[], None]
    assert offsets_of(mended.column("texts").field(0))[3] == 4
    assert mended.column("maps").items.buffers()[1].size == 4
    sound = pa.record_batch({"whole": whole, "id": pa.array([1, 2])})
    assert with_list_offsets(sound) is sound


@pytest.mark.spark
def test_rows_with_only_empty_maps_and_lists_are_written(spark: SparkSession, lake: SqlCatalog) -> None:
    rows = spark.sql(
        "SELECT CAST(map() AS MAP<INT, ARRAY<STRING>>) AS m, CAST(array() AS ARRAY<ARRAY<ARRAY<INT>>>) AS a, 1 AS id"
    ).coalesce(1)
    table = lake.create_table("db.t", rows.toArrow().schema)
    table.append(rows)
    table.upsert(rows.union(rows.selectExpr("m", "a", "2 AS id")), ["id"])
    assert sorted((row["id"], row["m"], row["a"]) for row in table.scan().to_spark().collect()) == [(1, {}, []), (2, {}, [])]
