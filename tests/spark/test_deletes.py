"""Tables with deletes and metadata columns: Spark's rows are those of the in-process reader, and files with deletes are read by Spark's own scan."""

import logging

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.combinations import combinations
from tests.spark.comparing import plan_of, same_rows
from tests.spark.merge_on_read import delete_keys, delete_keys_everywhere, delete_positions

from icefloe import GeometryType, LongType, NestedField, Schema, SqlCatalog, StringType, UUIDType, VariantType
from icefloe.spark.scan import position_deletes
from icefloe.table import Table

pytestmark = pytest.mark.spark

PLACE = ("_file", "_pos", "_spec_id", "_partition")
LINEAGE = ("_row_id", "_last_updated_sequence_number")


def rows(start: int, count: int) -> pa.Table:
    ids = np.arange(start, start + count)
    return pa.table({"id": ids, "kind": [f"kind {number % 3}" for number in ids], "amount": ids / 4})


def made(lake: SqlCatalog, version: int, *, partitioned: bool = False, files: int = 3, count: int = 100) -> Table:
    spec = ["kind"] if partitioned else []
    table = lake.create_table("db.t", rows(0, 1).schema, partition_spec=spec, properties={"format-version": str(version)})
    for number in range(files):
        table.append(rows(number * count, count))
    return table


def paths(table: Table) -> list[str]:
    return [task.file.file_path for task in table.scan().plan_files()]


@pytest.mark.parametrize(("version", "partitioned"), combinations([2, 3], [False, True]))
def test_rows_deleted_by_position_are_left_out_by_sparks_own_scan(
    spark: SparkSession, lake: SqlCatalog, caplog: pytest.LogCaptureFixture, version: int, partitioned: bool
) -> None:
    table = made(lake, version, partitioned=partitioned)
    first, second, *_ = paths(table)
    delete_positions(table, {first: [0, 5, 7, 30], second: range(10, 20)})
    delete_positions(table, {first: [6]})
    with caplog.at_level(logging.WARNING, "icefloe.spark"):
        frame = same_rows(table)
        same_rows(table, "id > 30 AND kind != 'kind 1'")
        same_rows(table, "TRUE", "kind")
        same_rows(table, "TRUE", "amount", *PLACE, *LINEAGE)
        same_rows(table, "id < 50", "id", "_deleted", "_pos")
        same_rows(table, "id = 5", "_row_id")
    assert not caplog.records
    assert frame.count() == 300 - 15
    assert table.scan().count() == 285
    # Files with deletes and files without are two scans.
    assert plan_of(frame).count("FileScan parquet") == 2
    assert "TaskReader" not in plan_of(frame)


def test_positions_are_found_in_bitmaps_of_every_form(spark: SparkSession, lake: SqlCatalog) -> None:
    table = made(lake, 3, files=3, count=200_000)
    chosen = np.random.default_rng(5)
    # Sparse, dense and in runs: the three forms that a part of a bitmap may have.
    deleted = [chosen.choice(200_000, 300, replace=False), chosen.choice(200_000, 60_000, replace=False), np.arange(1000, 150_000)]
    delete_positions(table, dict(zip(paths(table), deleted, strict=True)))
    frame = table.scan().to_spark()
    assert frame.count() == 600_000 - 300 - 60_000 - 149_000
    found = np.sort(np.asarray(frame.select("id").toArrow()["id"]))
    assert np.array_equal(found, np.sort(np.asarray(table.scan().select("id").to_arrow()["id"])))
    text = plan_of(frame)
    assert "TaskReader" not in text
    assert len(text) < 5000  # no bitmap is spelled out


def test_too_many_bytes_of_deletes_are_read_by_tasks_with_a_warning(
    spark: SparkSession, lake: SqlCatalog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    table = made(lake, 3)
    delete_positions(table, {paths(table)[0]: [1, 2, 3]})
    monkeypatch.setattr(position_deletes, "MOST_DELETE_BYTES", 10)
    with caplog.at_level(logging.WARNING, "icefloe.spark"):
        same_rows(table, "TRUE", "*", *PLACE, *LINEAGE, "_deleted")
    assert "1 files of" in caplog.text
    assert "over 10 bytes" in caplog.text


def test_deletes_apply_to_a_wide_table_whose_rows_are_not_read_in_batches(spark: SparkSession, lake: SqlCatalog) -> None:
    wide = pa.table({f"c{number}": np.arange(50) + number for number in range(120)})
    table = lake.create_table("db.wide", wide.schema, properties={"format-version": "3"})
    table.append(wide)
    delete_positions(table, {paths(table)[0]: [3, 4, 49]})
    assert "Batched: false" in plan_of(same_rows(table))


def test_a_column_called_like_sparks_own_metadata_is_read_beside_it(spark: SparkSession, lake: SqlCatalog) -> None:
    own = pa.table({"_metadata": [1, 2, 3], "icefloe group": [4, 5, 6], "_pos": ["x", "y", "z"]})
    table = lake.create_table("db.own", own.schema, properties={"format-version": "3"})
    table.append(own)
    delete_positions(table, {paths(table)[0]: [1]})
    same_rows(table)
    same_rows(table, "_metadata = 3", "_pos", "_row_id")


def test_a_column_called_like_sparks_own_position_is_read_beside_positions(
    spark: SparkSession, lake: SqlCatalog, caplog: pytest.LogCaptureFixture
) -> None:
    own = pa.table({"id": [1, 2, 3], "_tmp_metadata_row_index": [7, 8, 9]})
    table = lake.create_table("db.own", own.schema, properties={"format-version": "3"})
    table.append(own)
    same_rows(table, "_tmp_metadata_row_index > 7")
    assert not caplog.records
    same_rows(table, "TRUE", "id", "_pos", "_row_id")
    delete_positions(table, {paths(table)[0]: [1]})
    same_rows(table)
    same_rows(table, "_tmp_metadata_row_index > 7", "id", "_pos")
    with table.update_schema() as update:
        update.delete_column("_tmp_metadata_row_index")
    same_rows(table)
    assert all("_tmp_metadata_row_index" in message for message in caplog.messages)
    assert caplog.messages


@pytest.mark.parametrize("kind", [pa.int64(), pa.string()])
def test_null_keys_stay_deleted_once_their_column_is_required(spark: SparkSession, lake: SqlCatalog, kind: pa.DataType) -> None:
    table = lake.create_table("db.t", pa.schema([("key", kind), ("x", pa.int64())]))
    table.append(pa.table({"key": pa.array([None, None, 5 if kind == pa.int64() else "5"], kind), "x": [1, 2, 3]}))
    delete_keys(table, pa.table({"key": pa.array([None], kind)}), ["key"])
    with table.update_schema(allow_incompatible_changes=True) as update:
        update.update_column("key", required=True)
    assert same_rows(table).count() == 1


def test_rows_deleted_by_key_are_not_read(spark: SparkSession, lake: SqlCatalog) -> None:
    table = made(lake, 2)
    delete_keys(table, pa.table({"id": [3, 150]}), ["id"])
    table.append(rows(3, 1))
    assert same_rows(table).count() == 299


def test_equality_deletes_apply_to_older_files_only_and_null_equals_null(
    spark: SparkSession, lake: SqlCatalog, caplog: pytest.LogCaptureFixture
) -> None:
    nulls = pa.table({"id": pa.array([1, 2, None, None], pa.int64()), "kind": ["a", None, None, "b"], "amount": [1.0, 2.0, 3.0, 4.0]})
    table = lake.create_table("db.keys", nulls.schema, partition_spec=["bucket(2, id)"])
    table.append(nulls)
    delete_keys_everywhere(table, pa.table({"kind": pa.array([None], pa.string())}), ["kind"])
    table.append(nulls)
    delete_keys_everywhere(table, nulls.slice(2), ["id", "kind"])
    table.append(nulls.slice(3))
    delete_positions(table, {paths(table)[-1]: [0]})
    with caplog.at_level(logging.WARNING, "icefloe.spark"):
        frame = same_rows(table)
        same_rows(table, "amount > 1", "amount")
        same_rows(table, "kind is null", "id", *PLACE, *LINEAGE)
    assert not caplog.records
    assert "KeyReader" in plan_of(frame)
    assert "TaskReader" not in plan_of(frame)
    assert "LeftAnti" in plan_of(frame)
    with caplog.at_level(logging.WARNING, "icefloe.spark"):
        same_rows(table, "TRUE", "id", "_deleted")
    assert "the query reads _deleted" in caplog.text


def test_keys_inside_structs_and_dropped_key_columns_still_delete_rows(
    spark: SparkSession, lake: SqlCatalog, caplog: pytest.LogCaptureFixture
) -> None:
    points = [{"x": number, "y": f"y{number}"} for number in range(6)]
    data = pa.table({"id": pa.array(range(6), pa.int32()), "point": [*points[:5], None], "gone": [f"g{number}" for number in range(6)]})
    table = lake.create_table("db.nested", data.schema)
    table.append(data)
    delete_keys(table, pa.table({"point": [{"x": 1}, None]}), ["point.x"])
    delete_keys(table, pa.table({"gone": ["g3"]}), ["gone"])
    with table.update_schema() as update:
        update.delete_column("gone")
        update.rename_column("id", "number")
        update.update_column("number", LongType())
        update.add_column("gone", StringType())
    table.append(pa.table({"number": pa.array([3], pa.int64()), "point": [points[1]], "gone": ["g3"]}))
    with caplog.at_level(logging.WARNING, "icefloe.spark"):
        found = same_rows(table).select("number").toArrow()["number"].to_pylist()
        same_rows(table, "number > 1", "point.y")
    assert sorted(found) == [0, 2, 3, 4]
    assert not caplog.records


def test_keys_that_spark_compares_differently_are_looked_up_in_tasks(
    spark: SparkSession, lake: SqlCatalog, caplog: pytest.LogCaptureFixture
) -> None:
    data = pa.table({"id": pa.array([1, 2], pa.int64()), "code": pa.array([b"0123456789abcdef", None], pa.binary(16))})
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "code", UUIDType()))
    table = lake.create_table("db.codes", schema)
    table.append(data)
    delete_keys(table, data.slice(0, 1).select(["code"]), ["code"])
    with caplog.at_level(logging.WARNING, "icefloe.spark"):
        assert same_rows(table, "TRUE", "id").count() == 1
    assert "code (uuid)" in caplog.text


def test_columns_beside_variants_and_shapes_are_read(spark: SparkSession, lake: SqlCatalog, caplog: pytest.LogCaptureFixture) -> None:
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "v", VariantType()), NestedField(3, "g", GeometryType()))
    table = lake.create_table("db.t", schema, properties={"format-version": "3"})
    parts = pa.struct([pa.field("metadata", pa.binary(), nullable=False), pa.field("value", pa.binary(), nullable=False)])
    variant = pa.array([{"metadata": b"\x01\x00\x00", "value": b"\x0c\x05"}, None], parts)
    table.append(
        pa.table(
            {"id": [1, 2], "v": variant, "g": pa.array([None, bytes.fromhex("010100000000000000000008400000000000001040")], pa.binary())}
        )
    )
    assert same_rows(table, "id > 1", "id").count() == 1
    assert bool(caplog.records) == (spark.version < "4.1")  # its Parquet library cannot open the file
