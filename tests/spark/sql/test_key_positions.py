"""Rows that equality deletes delete are left out by kept positions from the second scan on; the rows stay those of a plain model."""

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.combinations import repetitions
from tests.repetitions import ALL
from tests.spark.merge_on_read import add_equality_deletes, delete_keys, delete_positions
from tests.spark.sql.conftest import Run

from icefloe import SqlCatalog
from icefloe.bounded_cache import BoundedCache
from icefloe.spark.scan import key_positions, scan_plans
from icefloe.table import Table

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("id", pa.int64()), ("key", pa.int32()), ("name", pa.string())])
Row = tuple[int, int | None, str | None]


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of files in which deleted rows are searched for."""
    counts: list[int] = []
    deleted_positions = key_positions.deleted_positions

    def counted(spark: SparkSession, request: Any, tasks: Any) -> Any:
        counts.append(len(tasks))
        return deleted_positions(spark, request, tasks)

    monkeypatch.setattr(key_positions, "deleted_positions", counted)
    return counts


def append(table: Table, rows: list[Row]) -> None:
    columns = zip(*rows, strict=True)
    table.append(pa.table([pa.array(values, field.type) for values, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA))


@pytest.mark.parametrize(("split", "seed"), repetitions([(split, seed) for split in (False, True) for seed in range(3)], (True, 1)))
def test_random_keys_delete_the_rows_of_a_plain_model(
    lake: SqlCatalog, sql: Run, spark: SparkSession, searches: list[int], seed: int, split: bool
) -> None:
    chosen = random.Random(seed)
    properties = {"format-version": "23"[seed % 2], "write.parquet.row-group-size-bytes": "20000", "write.parquet.page-row-limit": "100"}
    table = lake.create_table("db.k", SCHEMA, properties=properties)
    live: list[Row] = []
    for start in range(0, 9000, 3000):
        rows = [
            (number, chosen.choice([None, *range(50)]), chosen.choice([None, f"n{number % 40}"])) for number in range(start, start + 3000)
        ]
        append(table, rows)
        live += rows
        keys = [chosen.randrange(50) for _ in range(3)] + ([None] if chosen.random() < 0.5 else [])
        delete_keys(table, pa.table({"key": pa.array(keys, pa.int32())}), ["key"])
        live = [row for row in live if row[1] not in keys]
        if seed:
            pairs = [(f"n{chosen.randrange(40)}", chosen.randrange(50)), (None, 7)]
            deleted = pa.table({"name": [name for name, _ in pairs], "key": pa.array([key for _, key in pairs], pa.int32())})
            delete_keys(table, deleted, ["name", "key"])
            live = [row for row in live if (row[2], row[1]) not in pairs]
    file = table.scan().plan_files()[0].file
    first = (
        table.scan().select("id", "_file", "_pos").to_arrow().filter(pa.compute.field("_file") == file.file_path).slice(5, 1).to_pylist()[0]
    )
    delete_positions(table, {file.file_path: [first["_pos"]]})
    live = [row for row in live if row[0] != first["id"]]
    low = chosen.randrange(8000)
    wanted = {
        "id >= 0": live,
        f"id BETWEEN {low} AND {low + 300}": [row for row in live if low <= row[0] <= low + 300],
        "key IS NULL OR name = 'n7'": [row for row in live if row[1] is None or row[2] == "n7"],
    }
    spark.conf.set("spark.sql.files.maxPartitionBytes", "20000" if split else "128m")
    try:
        for _ in range(3):
            before = len(searches)
            for text, rows in wanted.items():
                assert sql(f"SELECT id, key, name FROM lake.db.k WHERE {text} ORDER BY id") == rows, text
                if ALL or "BETWEEN" in text:
                    assert sql(f"SELECT count(name) FROM lake.db.k WHERE {text}") == [(sum(row[2] is not None for row in rows),)]
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")
    assert 0 < before == len(searches)  # all in the first two rounds


def test_later_scans_read_no_key_column_and_find_nothing_again(
    lake: SqlCatalog, sql: Run, spark: SparkSession, searches: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_positions, "MOST_SEARCHES", 1)  # the positions of the last search are kept too
    table = lake.create_table("db.k", SCHEMA)
    append(table, [(number, number % 10, "x") for number in range(100)])
    delete_keys(table, pa.table({"key": pa.array([3], pa.int32())}), ["key"])
    text = "SELECT sum(id) FROM lake.db.k"

    def plan() -> str:
        return str(spark.sql(text)._jdf.queryExecution().executedPlan().toString())

    assert "BitSet" in plan()  # a lookup
    assert not searches
    for _ in range(3):
        assert "BitSet" not in plan()
        assert "key" not in plan().split("ReadSchema")[1]
        assert sql(text) == [(4950 - sum(range(3, 100, 10)),)]
    assert searches == [1]
    delete_keys(table, pa.table({"key": pa.array([4], pa.int32())}), ["key"])
    for _ in range(3):
        assert sql(text) == [(4950 - sum(range(3, 100, 10)) - sum(range(4, 100, 10)),)]
    assert searches == [1, 1]


def test_positions_that_are_too_large_to_keep_are_not_found_for_ever(
    lake: SqlCatalog, sql: Run, searches: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lake.create_table("db.k", SCHEMA)
    append(table, [(number, number * 7919 % 1000, "x") for number in range(5000)])
    delete_keys(table, pa.table({"key": pa.array(range(300), pa.int32())}), ["key"])
    small = BoundedCache[object, Any](most_cost=700)
    monkeypatch.setattr(scan_plans.ScanPlans, "deletes", property(lambda plans: small))
    for columns in (["id"], ["key"], ["name"], ["id", "key"], ["id", "name"], ["key", "name"], ["id", "key", "name"]):
        counts = ", ".join(f"count({column})" for column in columns)
        assert sql(f"SELECT {counts} FROM lake.db.k") == [(3500,) * len(columns)]
    assert len(searches) == key_positions.MOST_SEARCHES


def test_another_name_mapping_finds_the_keys_of_delete_files_without_field_ids_again(lake: SqlCatalog, sql: Run, tmp_path: Path) -> None:
    table = lake.create_table("db.k", SCHEMA)
    append(table, [(number, number % 10, "x") for number in range(100)])
    path = tmp_path / "keys.parquet"
    pq.write_table(pa.table({"first": pa.array([3], pa.int32()), "second": pa.array([4], pa.int32())}), path)
    add_equality_deletes(table, str(path), rows=1, size=path.stat().st_size, equality_ids=[2])
    for name, key in (("first", 3), ("second", 4)):
        mapping = json.dumps([{"field-id": 2, "names": ["key", name]}])
        sql(f"ALTER TABLE lake.db.k SET TBLPROPERTIES ('schema.name-mapping.default' = '{mapping}')")
        for _ in range(3):
            assert sql("SELECT sum(id) FROM lake.db.k") == [(4950 - sum(range(key, 100, 10)),)]
