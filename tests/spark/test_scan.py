"""Planned scans on Spark, against the rows that the files hold."""

import datetime as dt
import logging
import uuid
from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.spark.planned import Part, request, write_file

from icefloe.io.file_io_by_scheme import SchemeFileIO
from icefloe.operations.engine import ScanRequest
from icefloe.spark.connect import parquet_reader
from icefloe.spark.scan import read_strategy
from icefloe.spark.scan.native_scan import schemes_without_file_system
from icefloe.spark.scan.read_strategy import read
from icefloe.spark.types.spark_types import SPARK_TIME
from icefloe.spec.partitioning.partition_spec import PartitionField, PartitionSpec
from icefloe.spec.partitioning.transforms import IdentityTransform, MonthTransform
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

pytestmark = pytest.mark.spark

UTC = dt.UTC
TWO = Schema(NestedField(1, "a", LongType()), NestedField(2, "b", LongType()))


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.collect())


def plan_of(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


def test_every_type_is_read_as_it_was_written(spark: SparkSession, tmp_path: Path) -> None:
    point = StructType(NestedField(21, "x", DoubleType()), NestedField(22, "tags", ListType(element_id=23, element=StringType())))
    schema = Schema(
        NestedField(1, "bool", BooleanType()),
        NestedField(2, "int", IntegerType()),
        NestedField(3, "long", LongType(), required=True),
        NestedField(4, "float", FloatType()),
        NestedField(5, "double", DoubleType()),
        NestedField(6, "decimal", DecimalType(25, 3)),
        NestedField(7, "date", DateType()),
        NestedField(8, "ntz", TimestampType()),
        NestedField(9, "utc", TimestamptzType()),
        NestedField(10, "string", StringType()),
        NestedField(11, "fixed", FixedType(3)),
        NestedField(12, "binary", BinaryType()),
        NestedField(13, "point", point),
        NestedField(14, "map", MapType(key_id=24, key_type=StringType(), value_id=25, value_type=LongType(), value_required=False)),
    )
    # The dates are older than the Gregorian calendar and the times older than time zones: Spark may not shift them.
    first = (
        *(True, 7, 2**40, 0.5, 0.1, Decimal("-1.500"), dt.date(1, 1, 1), dt.datetime(1500, 6, 7, 8, 9, 10, 11)),
        *(dt.datetime(1850, 1, 1, 0, 0, 0, 1, tzinfo=UTC), "é", b"abc", b"", {"x": 1.5, "tags": ["p", "q"]}, {"k": 1, "n": None}),
    )
    second = (None, None, 1, *([None] * 11))
    path = write_file(tmp_path / "1.parquet", schema, {field.name: [first[n], second[n]] for n, field in enumerate(schema.fields)})
    frame = read(spark, request(schema, Part([(path, ())])))
    assert "FileScan parquet" in plan_of(frame)
    found = frame.orderBy("long", ascending=False).collect()
    assert found[1].asDict(recursive=True) == dict(zip(schema.names, second, strict=True))
    got = found[0].asDict(recursive=True)
    got["utc"] = got["utc"].astimezone(UTC)
    assert got == dict(zip(schema.names, first, strict=True))
    assert [field.nullable for field in frame.schema.fields[:3]] == [True, True, False]
    assert spark.version < "4.1" or all(field.metadata == {} for field in frame.schema.fields)


def test_columns_are_found_by_id_and_come_in_the_projection_s_order(spark: SparkSession, tmp_path: Path) -> None:
    path = write_file(tmp_path / "1.parquet", TWO, {"a": [1, 2], "b": [3, 4]})
    renamed = Schema(NestedField(2, "first", LongType()), NestedField(9, "new", StringType()), NestedField(1, "second", LongType()))
    frame = read(spark, request(renamed, Part([(path, ())]), schemas=(TWO, renamed)))
    assert frame.columns == ["first", "new", "second"]
    assert rows(frame) == [(3, None, 1), (4, None, 2)]
    narrow = read(spark, request(renamed, Part([(path, ())]), columns=("second",), row_filter="first = 4"))
    assert (narrow.columns, rows(narrow)) == (["second"], [(2,)])
    assert "ReadSchema: struct<second" in plan_of(read(spark, request(renamed, Part([(path, ())]), columns=("second",))))


@pytest.mark.parametrize("schema_ids", [(0, 1), (1, 2), ()], ids=["whole history", "history with a gap", "no history"])
def test_columns_that_swapped_their_names_are_not_filtered_by_each_other_s_statistics(
    spark: SparkSession, tmp_path: Path, schema_ids: tuple[int, ...]
) -> None:
    old_id, new_id = schema_ids or (0, 0)
    old = Schema(*TWO.fields, schema_id=old_id)
    swapped = Schema(NestedField(2, "a", LongType()), NestedField(1, "b", LongType()), schema_id=new_id)
    schemas = {(0, 1): (old, swapped), (1, 2): (swapped,), (): ()}[schema_ids]
    path = write_file(tmp_path / "1.parquet", old, {"a": list(range(10)), "b": list(range(100, 110))})
    frame = read(spark, request(swapped, Part([(path, ())]), row_filter="a >= 105", schemas=schemas))
    assert rows(frame) == [(n, n - 100) for n in range(105, 110)]
    everything = read(spark, request(swapped, Part([(path, ())]), schemas=schemas))
    assert rows(everything.where("b < 3").select("b")) == [(0,), (1,), (2,)]


def test_a_name_used_again_for_a_new_column_finds_its_nulls_in_old_files(spark: SparkSession, tmp_path: Path) -> None:
    old = Schema(*TWO.fields, schema_id=0)
    now = Schema(NestedField(1, "a", LongType()), NestedField(3, "B", LongType()), schema_id=1)
    path = write_file(tmp_path / "1.parquet", old, {"a": [1, 2], "b": [3, 4]})
    assert rows(read(spark, request(now, Part([(path, ())]), row_filter="B IS NULL", schemas=(old, now)))) == [(1, None), (2, None)]


def test_a_name_that_always_meant_one_column_is_filtered_inside_files(spark: SparkSession, tmp_path: Path) -> None:
    path = write_file(tmp_path / "1.parquet", TWO, {"a": [1, 2], "b": [3, 4]})
    frame = read(spark, request(TWO, Part([(path, ())]), row_filter="a > 1"))
    assert "GreaterThan(a,1)" in plan_of(frame)
    assert rows(frame) == [(2, 4)]


def test_members_of_structs_that_swapped_names_are_found_by_id(spark: SparkSession, tmp_path: Path) -> None:
    def schema(schema_id: int, first: str, second: str) -> Schema:
        members = StructType(NestedField(2, first, LongType()), NestedField(3, second, LongType()))
        return Schema(NestedField(1, "s", members), schema_id=schema_id)

    old, now = schema(0, "x", "y"), schema(1, "y", "x")
    path = write_file(tmp_path / "1.parquet", old, {"s": [{"x": n, "y": n + 100} for n in range(5)]})
    frame = read(spark, request(now, Part([(path, ())]), row_filter="s.x > 102", schemas=(old, now)))
    assert [row["s"].asDict() for row in frame.orderBy("s.x").collect()] == [{"y": 3, "x": 103}, {"y": 4, "x": 104}]


def test_older_files_of_narrower_types_are_widened(spark: SparkSession, tmp_path: Path) -> None:
    def schema(schema_id: int, *kinds: IcebergType) -> Schema:
        return Schema(*(NestedField(n + 1, f"c{n}", kind) for n, kind in enumerate(kinds)), schema_id=schema_id)

    old = schema(0, IntegerType(), FloatType(), DecimalType(5, 2), DecimalType(18, 2))
    now = schema(1, LongType(), DoubleType(), DecimalType(12, 2), DecimalType(30, 2))
    narrow = {"c0": [1, -5], "c1": [0.5, 2.5], "c2": [Decimal("1.25"), None], "c3": [Decimal("3.00"), Decimal("-7.10")]}
    wide = {"c0": [2**40], "c1": [1e300], "c2": [Decimal("9999999999.99")], "c3": [Decimal(10) ** 27]}
    files = [(write_file(tmp_path / "1.parquet", old, narrow), ()), (write_file(tmp_path / "2.parquet", now, wide), ())]
    whole = [
        (-5, 2.5, None, Decimal("-7.10")),
        (1, 0.5, Decimal("1.25"), Decimal("3.00")),
        (2**40, 1e300, Decimal("9999999999.99"), Decimal(10) ** 27),
    ]
    assert rows(read(spark, request(now, Part(files), schemas=(old, now)))) == whole
    for row_filter, kept in (("c0 < 0", 1), ("c0 > 4000000000", 1), ("c1 <= 0.5", 1), ("c2 > 1.20", 2), ("c3 < 0", 1), ("c0 = 1", 1)):
        assert read(spark, request(now, Part(files), schemas=(old, now), row_filter=row_filter)).count() == kept, row_filter


def test_identity_columns_are_constants_of_files_and_others_are_read(spark: SparkSession, tmp_path: Path) -> None:
    schema = Schema(
        NestedField(1, "id", LongType()),
        NestedField(2, "kind", StringType()),
        NestedField(3, "day", DateType()),
        NestedField(4, "at", TimestamptzType()),
    )
    day = dt.date(2024, 2, 29)
    at = dt.datetime(2024, 2, 29, 12, tzinfo=UTC)
    by_kind = PartitionSpec(
        PartitionField(2, 1000, IdentityTransform(), "kind"), PartitionField(3, 1001, IdentityTransform(), "day"), spec_id=1
    )
    by_month = PartitionSpec(PartitionField(3, 1002, MonthTransform(), "day_month"), spec_id=2)
    without = Schema(schema.fields[0], schema.fields[3])
    # The first two files do not hold the columns they are partitioned by, as files taken over from Hive do not.
    files = [
        (write_file(tmp_path / "a.parquet", without, {"id": [1, 2], "at": [at, at]}), ("a", 19782)),
        (write_file(tmp_path / "null.parquet", without, {"id": [3], "at": [at]}), (None, None)),
    ]
    written = {"id": [4, 5], "kind": ["a", "b"], "day": [day, None], "at": [None, at]}
    other = write_file(tmp_path / "c.parquet", schema, written)
    parts = (Part(files, by_kind), Part([(other, (649,))], by_month))
    frame = read(spark, request(schema, *parts)).select("id", "kind", "day")
    assert {tuple(row) for row in frame.collect()} == {(1, "a", day), (2, "a", day), (3, None, None), (4, "a", day), (5, "b", None)}
    for row_filter, expected in (
        ("kind = 'a'", {1, 2, 4}),
        ("kind IS NULL", {3}),
        ("day = '2024-02-29' AND id > 1", {2, 4}),
        ("kind = 'b' OR day IS NULL", {3, 5}),
        ("at >= '2024-02-29T12:00:00Z' AND kind != 'a'", {5}),
    ):
        found = read(spark, request(schema, *parts, row_filter=row_filter, columns=("id",)))
        assert {row["id"] for row in found.collect()} == expected, row_filter


def test_a_part_of_a_struct_is_read_alone_and_filtered_by_the_rest(spark: SparkSession, tmp_path: Path) -> None:
    members = StructType(NestedField(2, "x", LongType()), NestedField(3, "y", LongType()), NestedField(4, "z", LongType()))
    schema = Schema(NestedField(1, "s", members), NestedField(5, "id", LongType()))
    path = write_file(tmp_path / "1.parquet", schema, {"s": [{"x": 1, "y": 2, "z": 3}, None, {"x": None, "y": 5, "z": 6}], "id": [1, 2, 3]})
    frame = read(spark, request(schema, Part([(path, ())]), columns=("s.x", "id"), row_filter="s.y > 1 OR id = 2"))
    assert frame.schema["s"].dataType.simpleString() == "struct<x:bigint>"
    found = {row["id"]: row["s"] and row["s"]["x"] for row in frame.collect()}
    assert found == {1: 1, 2: None, 3: None}
    assert [row["s"] is None for row in frame.orderBy("id").collect()] == [False, True, False]
    assert "z" not in plan_of(frame).partition("ReadSchema")[2]


def test_a_limit_is_applied(spark: SparkSession, tmp_path: Path) -> None:
    path = write_file(tmp_path / "1.parquet", TWO, {"a": list(range(50)), "b": list(range(50))})
    assert read(spark, request(TWO, Part([(path, ())]), limit=7)).count() == 7


def test_an_empty_plan_is_an_empty_dataframe_of_the_right_schema(spark: SparkSession) -> None:
    schema = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "u", UUIDType()))
    frame = read(spark, request(schema))
    assert frame.count() == 0
    assert frame.schema.simpleString() == "struct<id:bigint,u:string>"


def test_a_uuid_is_text_inside_of_columns_too_and_spark_reads_it(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    inner = StructType(NestedField(4, "u", UUIDType()), NestedField(5, "f", FixedType(2)))
    inners = ListType(element_id=6, element=inner, element_required=False)
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "u", UUIDType()), NestedField(3, "s", inners))
    values = [uuid.UUID(int=n << 70) for n in range(4)]
    data = {
        "id": [0, 1, 2, 3, 4],
        "u": [*(value.bytes for value in values), None],
        "s": [[{"u": value.bytes, "f": b"ab"}, None] for value in values] + [None],
    }
    files = [(write_file(tmp_path / f"{n}.parquet", schema, data), ()) for n in range(2)]
    with caplog.at_level(logging.WARNING, logger="icefloe"):
        frame = read(spark, request(schema, Part(files), row_filter=f"u >= '{values[1]}'"))
    found = frame.orderBy("id").collect()
    assert [row["u"] for row in found] == [str(value) for value in values[1:] for _ in range(2)]
    assert [(row["s"][0]["u"], bytes(row["s"][0]["f"]), row["s"][1]) for row in found[:2]] == [(str(values[1]), b"ab", None)] * 2
    assert read(spark, request(schema, Part(files), columns=("id",))).count() == 10
    frame = read(spark, request(schema, Part(files), row_filter=f"u >= '{values[1]}'", columns=("id", "u")))
    assert sorted(tuple(row) for row in frame.collect()) == sorted((n, str(value)) for n, value in enumerate(values) if n for _ in range(2))
    assert caplog.text == ""


@pytest.mark.skipif(SPARK_TIME is None, reason="this Spark has no TIME type")
def test_a_time_keeps_its_microseconds(spark: SparkSession, tmp_path: Path) -> None:
    schema = Schema(NestedField(1, "t", TimeType()))
    times = [dt.time(0, 0), dt.time(23, 59, 59, 999999), None]
    path = write_file(tmp_path / "1.parquet", schema, {"t": times})
    frame = read(spark, request(schema, Part([(path, ())])))
    assert [row[0] for row in frame.selectExpr("cast(t as string)").collect()] == ["00:00:00", "23:59:59.999999", None]


def test_a_file_without_field_ids_is_an_error_with_any_setting_of_the_session(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "1.parquet"
    pq.write_table(pa.table({"a": [1], "b": [2]}), path)
    settings = ("spark.sql.parquet.fieldId.read.ignoreMissing", "spark.sql.files.ignoreCorruptFiles", "spark.sql.files.ignoreMissingFiles")
    frame = read(spark, request(TWO, Part([(path, ())])))
    try:
        for name in settings:
            spark.conf.set(name, "true")
        with pytest.raises(Exception, match=r"(?i)field ?id"):
            frame.collect()
        path.unlink()
        with pytest.raises(Exception, match=r"1\.parquet"):
            frame.collect()
    finally:
        for name in settings:
            spark.conf.unset(name)


def test_schemes_that_spark_has_no_file_system_for_are_returned(spark: SparkSession) -> None:
    assert schemes_without_file_system(spark, ["file", "nowhere"]) == ["nowhere"]


class VendedAccess:
    """A catalog that gives access to the files of one bucket, and none elsewhere."""

    def vends_any(self, locations: Iterable[str]) -> bool:
        return any(location.startswith("s3://vended/") for location in locations)

    def secrets(self) -> list[str]:
        return []


def request_in_store(folder: Path, bucket: str, access: VendedAccess | None) -> ScanRequest:
    """Return a scan of a file in a store, to which a catalog gives access or not."""
    path = write_file(folder / "1.parquet", TWO, {"a": [1], "b": [2]})
    asked = request(TWO, Part([(path, ())]))
    (part,) = asked.plan.parts
    column = part.entries.schema.get_field_index("file_path")
    moved = replace(part, entries=part.entries.set_column(column, "file_path", pa.array([f"s3://{bucket}/1.parquet"])))
    return replace(asked, plan=replace(asked.plan, parts=(moved,)), io=SchemeFileIO(access=access))


def test_files_to_which_the_catalog_gives_access_are_read_through_python_though_spark_has_a_file_system(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_strategy, "schemes_without_file_system", lambda spark, schemes: [])
    monkeypatch.setattr(read_strategy, "check_locations", lambda io, locations: None)

    def reason_of(bucket: str, access: VendedAccess | None) -> str:
        _, groups, _ = read_strategy.grouped_files(spark, request_in_store(tmp_path, bucket, access), 1.0, None)
        return groups[0].reason

    assert reason_of("vended", VendedAccess()) == read_strategy.VENDED_ACCESS
    assert reason_of("other", VendedAccess()) == ""
    assert reason_of("vended", None) == ""


def test_the_public_parquet_reader_of_a_connect_session_does_not_open_files_to_which_the_catalog_gives_access(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_reader, "check_locations", lambda io, locations: None)
    with pytest.raises(parquet_reader.NotReadableByParquet, match="the catalog gives access"):
        parquet_reader.read_by_parquet(spark, request_in_store(tmp_path, "vended", VendedAccess()))
