"""Files of every format and kind in one table: Spark's rows are those of the in-process reader, and the reason is told where Spark's own scan is not used."""

import logging
import struct

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import NullType
from tests.spark.comparing import plan_of, same_rows
from tests.spark.merge_on_read import delete_positions

from icefloe import (
    GeographyType,
    GeometryType,
    ListType,
    LongType,
    NestedField,
    Schema,
    SqlCatalog,
    TimestampNanoType,
    TimestamptzNanoType,
    UnknownType,
    VariantType,
)
from icefloe.errors import UnsupportedTypeError
from icefloe.spark.types import struct_to_schema

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
        found = same_rows(table, "id >= 0")
    assert "v (variant)" in caplog.text
    texts = found.selectExpr("id", "to_json(v) as v", "to_json(vs[2]) as last").orderBy("id").collect()
    assert [tuple(row) for row in texts[::2]] == [
        (0, '{"a":0,"b":[1.5,null,"x"]}', "[true]"),
        (1, '{"a":1,"b":[1.5,null,"x"]}', "[true]"),
        (2, None, "[true]"),
    ]
    assert found.schema["u"].dataType == NullType()
    caplog.clear()
    table.set_properties({"write.format.default": "parquet"})
    only = lake.create_table("db.unknown", VERSION_3.select("id", "u"), properties={"format-version": "3"})
    only.append(frame.select("id", "u"))
    with caplog.at_level(logging.WARNING, "icefloe.spark"):
        same_rows(only)
        same_rows(only, "u IS NULL AND id > 0", "u")
        assert same_rows(only, "u IS NOT NULL").count() == 0
    assert not caplog.records  # a column of unknown type need not be read


def test_nanoseconds_are_written_whole_and_refused_where_spark_would_cut_them(spark: SparkSession, lake: SqlCatalog) -> None:
    schema = Schema(
        NestedField(1, "id", LongType()), NestedField(2, "at", TimestampNanoType()), NestedField(3, "utc", TimestamptzNanoType())
    )
    table = lake.create_table("db.nanos", schema, partition_spec=["day(at)"], properties={"format-version": "3"})
    table.append(
        spark.sql("select 1L as id, timestamp_ntz'2024-01-02 03:04:05.678901' as at, timestamp'2024-01-02 03:04:05.678901Z' as utc")
    )
    assert table.scan().to_arrow()["at"].cast(pa.int64()).to_pylist() == [1704164645678901000]
    with pytest.raises(UnsupportedTypeError, match="select the other columns") as raised:
        table.scan().to_spark()
    assert [problem.where for problem in raised.value.problems] == ["at", "utc"]
    assert same_rows(table, "at > '2024-01-02'", "id").count() == 1
