"""Files of every format and kind in one table: Spark returns the rows of the in-process reader, and a warning states why Spark's own scan is not used."""

import datetime as dt
import logging
import struct
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import NullType
from tests.spark.comparing import in_order, plan_of, same_rows
from tests.spark.merge_on_read import add_file, delete_positions

from icefloe import (
    DateType,
    DecimalType,
    FixedType,
    GeographyType,
    GeometryType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    Schema,
    SqlCatalog,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimeType,
    UnknownType,
    UUIDType,
    VariantType,
)
from icefloe.errors import UnsupportedTypeError
from icefloe.spark import attach
from icefloe.spark.types.spark_types import SPARK_TIME, struct_to_schema
from icefloe.spec.types import IcebergType
from icefloe.table import Table

pytestmark = pytest.mark.spark


def test_files_of_other_formats_are_read_by_tasks_and_parquet_by_sparks_own_scan(
    spark: SparkSession, lake: SqlCatalog, caplog: pytest.LogCaptureFixture
) -> None:
    rows = pa.table({"id": pa.array(range(10), pa.int64()), "name": [f"n{number}" for number in range(10)]})
    table = lake.create_table("db.t", rows.schema, properties={"format-version": "3"})
    for form in ("parquet", "orc", "avro"):
        table.set_properties({"write.format.default": form})
        table.append(rows)
    delete_positions(table, {task.file.file_path: [1, 8] for task in table.scan().plan_files()})
    with caplog.at_level(logging.WARNING, "icefloe.spark"):
        frame = same_rows(table, "id > 2", "*", "_pos", "_row_id", "_deleted", "_file")
    assert frame.count() == 21
    assert caplog.text.count("2 files of") == 1
    assert "no Parquet file" in caplog.text
    assert plan_of(frame).count("FileScan parquet") == 1


POINT = b"\x01\x01" + bytes(3) + struct.pack("<2d", 30.0, 10.0)
VERSION_3 = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "v", VariantType()),
    NestedField(3, "g", GeometryType()),
    NestedField(4, "h", GeographyType()),
    NestedField(5, "u", UnknownType()),
    NestedField(6, "vs", ListType(element_id=7, element=VariantType(), element_required=False)),
)


def test_the_types_of_version_3_are_written_and_read(spark: SparkSession, lake: SqlCatalog, caplog: pytest.LogCaptureFixture) -> None:
    table = lake.create_table("db.types", VERSION_3, properties={"format-version": "3"})
    frame = spark.range(3).selectExpr(
        "id",
        """case when id < 2 then parse_json(concat('{"a": ', id, ', "b": [1.5, null, "x"]}')) end as v""",
        f"X'{POINT.hex()}' as g",
        "cast(null as binary) as h",
        "null as u",
        "array(parse_json('1'), null, parse_json('[true]')) as vs",
    )
    for form in ("parquet", "avro"):
        table.set_properties({"write.format.default": form})
        table.append(frame)
    assert struct_to_schema(frame.schema).find_type(2) == VariantType()
    with caplog.at_level(logging.WARNING, "icefloe.spark"):
        scan = same_rows(table, "id >= 0")
    assert "g (geometry)" in caplog.text
    texts = scan.selectExpr("id", "to_json(v) as v", "to_json(vs[2]) as last").orderBy("id").collect()
    assert [tuple(row) for row in texts[::2]] == [
        (0, '{"a":0,"b":[1.5,null,"x"]}', "[true]"),
        (1, '{"a":1,"b":[1.5,null,"x"]}', "[true]"),
        (2, None, "[true]"),
    ]
    assert scan.schema["u"].dataType == NullType()
    caplog.clear()
    table.set_properties({"write.format.default": "parquet"})
    only = lake.create_table("db.unknown", VERSION_3.select("id", "u"), properties={"format-version": "3"})
    only.append(frame.select("id", "u"))
    with caplog.at_level(logging.WARNING, "icefloe.spark"):
        same_rows(only)
        same_rows(only, "u IS NULL AND id > 0", "u")
        assert same_rows(only, "u IS NOT NULL").count() == 0
    assert not caplog.records  # a column of unknown type need not be read


def test_nanoseconds_are_written_exactly_and_a_read_by_spark_is_refused(spark: SparkSession, lake: SqlCatalog) -> None:
    schema = Schema(
        NestedField(1, "id", LongType()), NestedField(2, "at", TimestampNanoType()), NestedField(3, "utc", TimestamptzNanoType())
    )
    table = lake.create_table("db.nanos", schema, partition_spec=["day(at)"], properties={"format-version": "3"})
    table.append(
        spark.sql("select 1L as id, timestamp_ntz'2024-01-02 03:04:05.678901' as at, timestamp'2024-01-02 03:04:05.678901Z' as utc")
    )
    assert table.scan().to_arrow()["at"].cast(pa.int64()).to_pylist() == [1704164645678901000]
    with pytest.raises(UnsupportedTypeError, match=r"(?s)scan\(\)\.to_arrow\(\), or other columns with.*--cast-nanos") as raised:
        table.scan().to_spark()
    assert [row.id for row in table.scan(selected_fields=("id",)).to_spark().collect()] == [1]
    assert [problem.where for problem in raised.value.problems] == ["at", "utc"]
    assert same_rows(table, "at > '2024-01-02'", "id").count() == 1


def test_defaults_replace_columns_that_a_file_lacks_and_not_nulls_that_it_has(
    spark: SparkSession, lake: SqlCatalog, caplog: pytest.LogCaptureFixture
) -> None:
    inner = StructType(NestedField(3, "a", LongType()))
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "s", inner))
    table = lake.create_table("db.defaults", schema, properties={"format-version": "3"})
    table.append(pa.table({"id": pa.array([1, 2, 3], pa.int64()), "s": [{"a": 1}, None, {"a": 3}]}))
    with table.update_schema() as update:
        update.add_column("n", IntegerType(), default_value=7)
        update.add_column("day", DateType(), default_value=dt.date(2024, 2, 29))
        update.add_column("at", TimestampType(), default_value=dt.datetime(2024, 2, 29, 1, 2, 3, 4))
        update.add_column("price", DecimalType(9, 2), default_value=Decimal("1.50"))
        update.add_column("text", StringType(), default_value="it's")
        update.add_column("data", FixedType(2), default_value=b"ab")
    table.append(spark.sql("select 4L as id, named_struct('a', 4L) as s, cast(null as int) as n, 'own' as text"))
    delete_positions(table, {task.file.file_path: [0] for task in table.scan().plan_files() if task.file.record_count == 3})
    with caplog.at_level(logging.WARNING, "icefloe.spark"):
        frame = same_rows(table)
        same_rows(table, "n = 7 AND text = 'it''s'", "id", "_pos")
        assert [row["id"] for row in same_rows(table, "n IS NULL").collect()] == [4]
    assert not caplog.records
    assert plan_of(frame).count("FileScan parquet") == 2
    written = table.scan("id = 4").to_arrow().to_pylist()[0]
    assert (written["n"], written["price"], written["data"]) == (None, Decimal("1.50"), b"ab")  # what is left out has its default
    with table.update_schema() as update:
        update.add_column(("s", "b"), LongType(), default_value=9)
    with caplog.at_level(logging.WARNING, "icefloe.spark"):
        same_rows(table)
    assert "lacks b inside s" in caplog.text


def test_files_without_field_ids_are_read_by_the_name_mapping_beside_others(
    spark: SparkSession, lake: SqlCatalog, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = pa.table({"id": pa.array([1, 2], pa.int64()), "name": ["a", "b"]})
    mapping = '[{"field-id": 1, "names": ["id", "number"]}, {"field-id": 2, "names": ["name"]}]'
    table = lake.create_table("db.mapped", rows.schema, properties={"schema.name-mapping.default": mapping})
    table.append(rows)
    path = tmp_path / "old.parquet"
    pq.write_table(rows.rename_columns(["number", "name"]), path)
    add_file(table, str(path), rows.num_rows, path.stat().st_size)
    with caplog.at_level(logging.WARNING, "icefloe.spark"):
        frame = same_rows(table)
    assert frame.count() == 4
    assert "1 files of" in caplog.text
    assert "no field ids" in caplog.text
    assert plan_of(frame).count("FileScan parquet") == 1


@pytest.mark.skipif(SPARK_TIME is None, reason="this Spark has no TIME type")
def test_uuids_and_times_are_read_by_sparks_own_scan(spark: SparkSession, lake: SqlCatalog, caplog: pytest.LogCaptureFixture) -> None:
    attach(spark, "lake", lake)
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "u", UUIDType()), NestedField(3, "t", TimeType()))
    table = lake.create_table("db.t", schema, partition_spec=["t"], properties={"format-version": "3"})
    table.append(uuids_and_times(0, 6))
    with table.update_schema() as update:
        update.add_column("late", UUIDType(), default_value=uuid.UUID(int=9)).add_column("at", TimeType(), default_value=dt.time(4, 5))
        update.rename_column("u", "key")
    table.refresh()
    table.append(uuids_and_times(6, 4).rename_columns(["id", "key", "t"]))
    delete_positions(table, {task.file.file_path: [0] for task in table.scan().plan_files() if task.file.record_count > 1})
    spark.conf.set("spark.sql.timeType.enabled", "true")
    try:
        with caplog.at_level(logging.WARNING, "icefloe.spark"):
            found = spark.sql("SELECT id, key, CAST(t AS STRING), late, CAST(at AS STRING) FROM lake.db.t").collect()
            assert [row[0] for row in spark.sql(f"SELECT id FROM lake.db.t WHERE key = '{uuid.UUID(int=3)}'").collect()] == [3]
            assert [
                row[0] for row in spark.sql("SELECT id FROM lake.db.t WHERE t = TIME'01:00:00' AND key IS NOT NULL ORDER BY id").collect()
            ] == [4, 7]
    finally:
        spark.conf.unset("spark.sql.timeType.enabled")
    assert not caplog.records
    rows = table.scan().to_arrow().to_pylist()
    assert len(rows) == 6

    def text(value: Any) -> str | None:
        return None if value is None else str(uuid.UUID(bytes=value) if isinstance(value, bytes) else value)

    assert in_order([tuple(row) for row in found]) == in_order(
        [(row["id"], *(text(row[name]) for name in ("key", "t", "late", "at"))) for row in rows]
    )


def test_uuids_inside_of_columns_are_read_by_sparks_own_scan(
    spark: SparkSession, lake: SqlCatalog, caplog: pytest.LogCaptureFixture
) -> None:
    attach(spark, "lake", lake)

    def of_place(first: int) -> StructType:
        fields = (NestedField(first, "u", UUIDType()), NestedField(first + 1, "n", IntegerType()))
        return StructType(*fields, NestedField(first + 2, "inner", StructType(NestedField(first + 3, "w", UUIDType()))))

    schema = Schema(
        NestedField(1, "id", LongType()),
        NestedField(2, "s", of_place(20)),
        NestedField(3, "l", ListType(30, UUIDType(), element_required=False)),
        NestedField(4, "p", ListType(40, of_place(41), element_required=False)),
        NestedField(5, "m", MapType(50, UUIDType(), 51, of_place(52), value_required=False)),
    )
    table = lake.create_table("db.t", schema)
    table.append(rows_with_uuids(table, 0))
    with table.update_schema() as update:
        update.rename_column("s.u", "v").rename_column("p.element.inner", "within").add_column("s.late", UUIDType())
    table.append(rows_with_uuids(table, 10))
    delete_positions(table, {task.file.file_path: [3] for task in table.scan().plan_files()})
    with caplog.at_level(logging.WARNING, "icefloe.spark"):
        found = [row.asDict(recursive=True) for row in spark.sql("SELECT * FROM lake.db.t").collect()]
        wanted = f"SELECT id, s.inner.w, l[0], p[0].u, m[s.v].n FROM lake.db.t WHERE s.v = '{uuid.UUID(int=12)}'"
        chosen = [tuple(row) for row in spark.sql(wanted).collect()]
    assert not caplog.records
    text = str(uuid.UUID(int=12))
    assert chosen == [(12, text, text, text, 12)]
    rows = [
        {field.name: with_texts(field.field_type, row[field.name]) for field in table.schema().fields}
        for row in table.scan().to_arrow().to_pylist()
    ]
    assert in_order(found) == in_order(rows)
    assert len(rows) == 18


def rows_with_uuids(table: Table, first: int) -> pa.Table:
    """Return ten rows; each fourth one has nulls in the place of structs, and each fifth one in the place of uuids."""
    schema = table.schema().as_arrow()

    def value(kind: pa.DataType, number: int) -> Any:
        if pa.types.is_struct(kind):
            return None if number % 4 == 1 else {field.name: value(field.type, number) for field in kind}
        if pa.types.is_map(kind):
            return [(uuid.UUID(int=number).bytes, value(kind.item_type, number)), (uuid.UUID(int=100).bytes, None)]
        if pa.types.is_list(kind):
            return [value(kind.value_type, number), None]
        return number if pa.types.is_integer(kind) else None if number % 5 == 0 else uuid.UUID(int=number).bytes

    kinds = [with_bytes(field.type) for field in schema]
    return pa.table([pa.array([value(kind, number) for number in range(first, first + 10)], kind) for kind in kinds], names=schema.names)


def with_bytes(kind: pa.DataType) -> pa.DataType:
    if isinstance(kind, pa.UuidType):
        return pa.binary(16)
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, with_bytes(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(with_bytes(kind.key_type), with_bytes(kind.item_type))
    return pa.list_(with_bytes(kind.value_type)) if pa.types.is_list(kind) else kind


def with_texts(kind: IcebergType, value: Any) -> Any:
    """Return a value of Arrow as Spark returns it, with texts in the place of uuids."""
    if value is None:
        return None
    if isinstance(kind, UUIDType):
        return str(uuid.UUID(bytes=value) if isinstance(value, bytes) else value)
    if isinstance(kind, StructType):
        return {field.name: with_texts(field.field_type, value[field.name]) for field in kind.fields}
    if isinstance(kind, ListType):
        return [with_texts(kind.element_type, one) for one in value]
    return {with_texts(kind.key_type, key): with_texts(kind.value_type, one) for key, one in value} if isinstance(kind, MapType) else value


def uuids_and_times(first: int, count: int) -> pa.Table:
    ids = range(first, first + count)
    uuids = pa.array([uuid.UUID(int=i).bytes if i % 5 else None for i in ids], pa.binary(16))
    return pa.table({"id": pa.array(ids, pa.int64()), "u": uuids, "t": pa.array([dt.time(i % 3) for i in ids], pa.time64("us"))})
