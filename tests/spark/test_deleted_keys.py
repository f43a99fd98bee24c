"""Rows deleted by a key that is a number or a time: looked up or joined, the rows left are those of a plain model and of the in-process reader."""

import logging
import random
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from tests.combinations import repetitions
from tests.spark.comparing import plan_of, same_rows
from tests.spark.merge_on_read import delete_keys, delete_keys_everywhere, delete_positions

from icefloe import DateType, IntegerType, LongType, NestedField, Schema, SqlCatalog, TimestampType, TimestamptzType
from icefloe.spark.scan import deleted_keys, equality_deletes
from icefloe.spark.scan.deleted_keys import DeletedKeys, KeyList
from icefloe.spec.schema.arrow_schema import schema_to_arrow
from icefloe.spec.types import IcebergType

pytestmark = pytest.mark.spark

LEAST, MOST = -(2**63), 2**63 - 1
# Each type with a value for a whole number.
KINDS: list[tuple[IcebergType, pa.DataType, Any]] = [
    (IntegerType(), pa.int32(), lambda number: number * 1000),
    (LongType(), pa.int64(), lambda number: [LEAST, MOST, -1, 0, 1][number + 5] if number < 0 else number << 40),
    (DateType(), pa.date32(), lambda number: date(1970, 1, 1) + timedelta(days=number)),
    (TimestampType(), pa.timestamp("us"), lambda number: datetime(1970, 1, 1) + timedelta(seconds=number)),
    (TimestamptzType(), pa.timestamp("us", "UTC"), lambda number: datetime(2024, 3, 31, tzinfo=UTC) + timedelta(minutes=number)),
]


@pytest.mark.parametrize("kind", range(len(KINDS)), ids=[str(kind) for kind, *_ in KINDS])
def test_a_key_is_looked_up_in_the_deletes_of_its_own_file(
    spark: SparkSession, lake: SqlCatalog, caplog: pytest.LogCaptureFixture, kind: int
) -> None:
    chosen = random.Random(kind)
    _, arrow, value = KINDS[kind]

    def rows(count: int) -> pa.Table:
        keys = [None if chosen.random() < 0.1 else value(chosen.randint(-5, 20)) for _ in range(count)]
        return pa.table({"key": pa.array(keys, arrow), "x": pa.array([chosen.randint(0, 9) for _ in keys], pa.int64())})

    spec = [[], ["key"], ["x"], [], ["bucket(3, x)"]][kind]
    table = lake.create_table("db.t", rows(1).schema, partition_spec=spec)
    for step in range(4):
        table.append(rows(40))
        if step != 2:
            delete_keys_everywhere(table, rows(4 if step else 1).select(["key"]), ["key"])
    delete_positions(table, {table.scan().plan_files()[0].file.file_path: [0]})
    with caplog.at_level(logging.WARNING, "icefloe.spark"):
        text = plan_of(same_rows(table, "TRUE", "x", "_file", "_pos"))
        same_rows(table, "key IS NOT NULL AND x < 7", "x")
    assert not caplog.records
    assert "BitSet" in text  # keys
    assert "icefloe deleted" not in text  # the reader leaves deleted positions out
    assert "LeftAnti" not in text
    assert len(text) < 8000  # the plan contains no key


@pytest.mark.parametrize("bits", repetitions([2**10, 2**23], 2**10))
def test_lookups_find_the_keys_of_a_plain_model(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, bits: int) -> None:
    monkeypatch.setattr(deleted_keys, "_LEAST_BITS", bits)
    monkeypatch.setattr(deleted_keys, "_MOST_BITS", bits)
    chosen = np.random.default_rng(bits)
    for scale in (1, 1000, 2**33, 2**62):
        known = np.concatenate([chosen.integers(-3000, 3000, 3000) * scale, [LEAST, MOST, 0]])  # wraps around
        asked = [*np.concatenate([known, known + 1, chosen.integers(-3000, 3000, 3000) * scale]).tolist(), None, None]
        places = chosen.integers(0, 3, len(asked)).tolist()
        lists = [
            KeyList.of([pa.array([*part.tolist(), None][: len(part) + number % 2])])
            for number, part in enumerate(np.split(known, [0, 1500]))
        ]
        frame = spark.createDataFrame(pa.table({"key": pa.array(asked, pa.int64()), "place": pa.array(places, pa.int32())}))
        is_not_deleted = DeletedKeys(LongType(), tuple(lists)).is_not_deleted(spark, F.col("key"), F.col("place"))
        rows = frame.select(is_not_deleted.alias("kept")).toArrow()["kept"].to_pylist()
        sets = [{*one.numbers.tolist(), *([None] if one.has_null else [])} for one in lists]
        assert rows == [key not in sets[place] for key, place in zip(asked, places, strict=True)]
        one = DeletedKeys(LongType(), (KeyList.union(lists),)).is_not_deleted(spark, F.col("key"), None)
        rows = frame.select(one.alias("kept")).toArrow()["kept"].to_pylist()
        assert rows == [key not in set().union(*sets) for key in asked]


@pytest.mark.parametrize(("name", "required"), [("MOST_KEYS", True), ("MOST_FILES_READ", False)])
def test_more_keys_than_a_lookup_may_have_are_joined(
    spark: SparkSession, lake: SqlCatalog, monkeypatch: pytest.MonkeyPatch, name: str, required: bool
) -> None:
    monkeypatch.setattr(equality_deletes, name, 1)
    schema = Schema(NestedField(1, "key", LongType(), required), NestedField(2, "x", LongType()))
    table = lake.create_table("db.t", schema)
    nothing = None if not required else 4

    def rows(*keys: int | None) -> pa.Table:
        return pa.table({"key": pa.array(keys, pa.int64()), "x": range(len(keys))}, schema=schema_to_arrow(schema))

    table.append(rows(1, 2, 3, nothing))
    for key in (1, 3):
        delete_keys(table, rows(key).select(["key"]), ["key"])
    text = plan_of(same_rows(table))
    assert "LeftAnti" in text
    assert "icefloe group" not in text  # all deletes apply to every file
    assert ("BroadcastHashJoin [key" in text) == required
    table.append(rows(1, 2, nothing))
    delete_keys(table, rows(2, nothing).select(["key"]), ["key"])
    text = plan_of(same_rows(table))
    assert ("isnull(key" in text) != required
    assert "icefloe group" in text


def test_keys_are_looked_up_only_in_rows_that_match_the_filter(spark: SparkSession, lake: SqlCatalog) -> None:
    table = lake.create_table("db.t", pa.schema([("key", pa.int64()), ("x", pa.int64())]), properties={"format-version": "3"})
    table.append(pa.table({"key": range(100), "x": range(100)}))
    delete_keys(table, pa.table({"key": [50]}), ["key"])
    delete_positions(table, {table.scan().plan_files()[0].file.file_path: [51]})
    text = plan_of(same_rows(table, "x BETWEEN 49 AND 53"))
    conditions = next(line for line in text.splitlines() if "Filter" in line)
    assert conditions.index("x#") < conditions.index("BitSet")
    assert "named_struct" not in text  # the position of a row is not packed into a struct
