"""Variants that Spark's own Parquet scan reads: nested, shredded, with deletes, after changes of the schema; and those that Python reads instead."""

import datetime as dt
import logging
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.combinations import repetitions
from tests.spark.comparing import in_order, plain, plan_of, same_rows
from tests.spark.merge_on_read import delete_keys_everywhere, delete_positions

from icefloe import (
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    Schema,
    SqlCatalog,
    StringType,
    StructType,
    Table,
    VariantType,
    variant_from_python,
    variant_to_python,
)
from icefloe.spark import attach
from icefloe.spec.schema.arrow_schema import schema_to_arrow

pytestmark = pytest.mark.spark
V3 = {"format-version": "3"}
NESTED = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "v", VariantType()),
    NestedField(3, "s", StructType(NestedField(4, "a", IntegerType()), NestedField(5, "v", VariantType()))),
    NestedField(6, "l", ListType(element_id=7, element=VariantType(), element_required=False)),
    NestedField(8, "m", MapType(key_id=9, key_type=StringType(), value_id=10, value_type=VariantType(), value_required=False)),
)
EXTRACT = "SELECT id, variant_get(v, '$.a', 'int'), to_json(s.v), to_json(l[0]), to_json(m['k']) FROM lake.db.t"
FILTERED = f"{EXTRACT} WHERE variant_get(v, '$.b', 'string') = 'x1'"


def variant(value: Any) -> dict[str, bytes]:
    metadata, data = variant_from_python(value)
    return {"metadata": metadata, "value": data}


def rows(first: int, count: int, schema: Schema = NESTED) -> pa.Table:
    """Return rows in which every fifth variant and every seventh struct is null."""
    values = {
        "id": range(first, first + count),
        "v": [variant({"a": i, "b": f"x{i % 3}"}) if i % 5 else None for i in range(first, first + count)],
        "s": [{"a": i, "v": variant([i])} if i % 7 else None for i in range(first, first + count)],
        "l": [[variant(i), None] for i in range(first, first + count)],
        "m": [[("k", variant(None))] for _ in range(count)],
    }
    arrow = schema_to_arrow(schema)
    return pa.table([pa.array(values[field.name], field.type) for field in arrow], schema=arrow)


def assert_same(found: list[Any], table: Table) -> None:
    """Compare Spark's rows of variants with those of this process. Bytes may differ: Spark may choose other widths of numbers in what it reassembles."""

    def decoded(row: dict[str, Any]) -> Any:
        value = row["v"]
        return row["id"], None if value is None else ("variant", variant_to_python(value["metadata"], value["value"]))

    of_spark = [decoded({name: plain(value) for name, value in row.asDict().items()}) for row in found]
    assert in_order(of_spark) == in_order([decoded(row) for row in table.scan().to_arrow().to_pylist()])


def expected(*ids: int, kept: str = "") -> list[tuple[Any, ...]]:
    """Return the rows of `EXTRACT`, in order; of `FILTERED` for a text."""
    found = [
        (i, i if i % 5 else None, f"[{i}]" if i % 7 else None, str(i), "null") for i in ids if not kept or (i % 5 and f"x{i % 3}" == kept)
    ]
    return in_order(found)


@pytest.fixture
def lake(spark: SparkSession, lake: SqlCatalog) -> SqlCatalog:
    if spark.version < "4.1":
        pytest.skip("the Parquet library of Spark 4.0 cannot open files with variants")
    attach(spark, "lake", lake)
    return lake


def test_parts_of_variants_are_extracted_by_sparks_own_scan(
    spark: SparkSession, lake: SqlCatalog, caplog: pytest.LogCaptureFixture
) -> None:
    table = lake.create_table("db.t", NESTED, properties=V3)
    table.append(rows(0, 12))
    with caplog.at_level(logging.WARNING, "icefloe.spark"):
        frame = spark.sql(FILTERED)
        assert in_order([tuple(row) for row in frame.collect()]) == expected(*range(12), kept="x1")
        assert "v:struct<0:variant,1:string>" in plan_of(frame)
        # The files with deletes are another scan; parts of variants are extracted by both.
        table.append(rows(20, 5))
        first = min(table.scan().plan_files(), key=lambda task: -task.file.record_count)
        delete_positions(table, {first.file.file_path: [1, 4]})
        frame = spark.sql(FILTERED)
        assert in_order([tuple(row) for row in frame.collect()]) == expected(*{*range(12), *range(20, 25)} - {1, 4}, kept="x1")
        assert plan_of(frame).count("v:struct<0:variant,1:string>") == 2
        same_rows(table, "TRUE", "id", "v", "s", "l")
    assert not caplog.records


def test_the_scan_extracts_text_of_every_value_below_a_filter(spark: SparkSession, lake: SqlCatalog) -> None:
    values = [
        1,
        "text",
        None,
        {"x": [1]},
        [2, {"y": None}],
        True,
        1.5,
        Decimal("1.25"),
        b"ab",
        dt.date(2024, 1, 2),
        dt.datetime(2024, 1, 2, 3, tzinfo=dt.UTC),
    ]
    schema = NESTED.select("id", "v")
    table = lake.create_table("db.t", schema, properties=V3)
    stored = [{"id": i, "v": variant({"a": value})} for i, value in enumerate(values)]
    table.append(pa.Table.from_pylist(stored, schema=schema_to_arrow(schema)))
    text = "SELECT id, variant_get(v, '$.a', 'string'), v:a::string, CAST(v AS STRING) FROM lake.db.t WHERE id >= 0"
    frame = spark.sql(text)
    assert "v:struct<0:string,1:variant,2:string>" in plan_of(frame)  # of `v:a::string`, Spark extracts a variant
    found = in_order([tuple(row) for row in frame.collect()])
    assert [row[1] for row in found if row[0] in (3, 4)] == ['{"x":[1]}', '[2,{"y":null}]']
    spark.conf.set("spark.sql.variant.pushVariantIntoScan", "false")
    try:
        assert in_order([tuple(row) for row in spark.sql(text).collect()]) == found
    finally:
        spark.conf.unset("spark.sql.variant.pushVariantIntoScan")


@pytest.mark.parametrize("deletes", repetitions(["positions", "keys", "none"], "positions", "none"))
def test_a_value_that_cannot_be_cast_fails_only_queries_for_its_row(deletes: str, spark: SparkSession, lake: SqlCatalog) -> None:
    schema = NESTED.select("id", "v", "s")
    table = lake.create_table("db.t", schema, properties=V3)
    values = [variant({"a": value}) for value in (1, "text", 3)]
    stored = [{"id": i, "v": value, "s": {"a": i, "v": value}} for i, value in enumerate(values)]
    table.append(pa.Table.from_pylist(stored, schema=schema_to_arrow(schema)))
    if deletes == "positions":
        delete_positions(table, {next(iter(table.scan().plan_files())).file.file_path: [1]})
    elif deletes == "keys":
        delete_keys_everywhere(table, pa.table({"id": pa.array([1], pa.int64())}), ["id"])
    where = "WHERE id <> 1" if deletes == "none" else ""
    frame = spark.sql(f"SELECT id, variant_get(v, '$.a', 'int'), v:a::int, variant_get(s.v, '$.a', 'int') FROM lake.db.t {where}")
    assert sorted(map(tuple, frame.collect())) == [(0, 1, 1, 1), (2, 3, 3, 3)]
    assert "v:struct<0:variant" in plan_of(frame)
    if deletes == "none":
        with pytest.raises(Exception, match="INVALID_VARIANT_CAST"):
            spark.sql("SELECT variant_get(v, '$.a', 'int') FROM lake.db.t").collect()


def test_variants_are_found_by_id_after_changes_of_the_schema(
    spark: SparkSession, lake: SqlCatalog, caplog: pytest.LogCaptureFixture
) -> None:
    table = lake.create_table("db.t", NESTED, properties=V3)
    table.append(rows(0, 8))
    with table.update_schema() as update:
        update.rename_column("v", "w").rename_column("s.v", "x").add_column("v", VariantType()).add_column(("s", "v"), VariantType())
    table.refresh()
    arrow = schema_to_arrow(table.schema())
    added = [{"id": 50, "w": variant({"b": "x1", "a": 5}), "v": variant("new"), "s": {"a": 1, "x": variant(2), "v": variant(3)}}]
    table.append(pa.Table.from_pylist(added, schema=arrow))
    with caplog.at_level(logging.WARNING, "icefloe.spark"):
        same_rows(table, "TRUE", "id", "v", "w", "s", "l")
        found = spark.sql(
            "SELECT id, to_json(v), variant_get(w, '$.a', 'int'), s.v IS NULL, to_json(s.x), s IS NULL FROM lake.db.t"
        ).collect()
        # A struct whose only field in the file is a variant that is not read is not null.
        assert [row[0] for row in spark.sql("SELECT id FROM lake.db.t WHERE s.v IS NULL AND s IS NOT NULL").collect()] == [*range(1, 7)]
    assert not caplog.records
    old = [(i, None, i if i % 5 else None, True, f"[{i}]" if i % 7 else None, i % 7 == 0) for i in range(8)]
    assert in_order([tuple(row) for row in found]) == in_order([*old, (50, '"new"', 5, False, "2", False)])


def add_shredded(lake: SqlCatalog, folder: Path, typed: pa.DataType, values: list[tuple[bytes | None, Any] | None], *names: str) -> Table:
    """Create a table of one file with a shredded variant for each value and typed value; None for null. The metadata has the names."""
    kind = pa.struct([pa.field("metadata", pa.binary(), nullable=False), ("value", pa.binary()), ("typed_value", typed)])
    metadata = variant_from_python(dict.fromkeys(names, 0))[0]
    stored = [None if value is None else {"metadata": metadata, "value": value[0], "typed_value": value[1]} for value in values]
    arrow = pa.schema(
        [pa.field(name, kind, metadata={"PARQUET:field_id": str(i)}) for i, (name, kind) in enumerate((("id", pa.int64()), ("v", kind)), 1)]
    )
    pq.write_table(pa.table([pa.array(range(len(values)), pa.int64()), pa.array(stored, kind)], schema=arrow), folder / "file.parquet")
    table = lake.create_table("db.t", NESTED.select("id", "v"), properties=V3)
    table.add_files([str(folder / "file.parquet")])
    return table


def test_shredded_variants_are_read_by_sparks_own_scan(
    spark: SparkSession, lake: SqlCatalog, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    part = pa.struct([("value", pa.binary()), ("typed_value", pa.int64())])
    typed = pa.struct([pa.field("a", part, nullable=False), pa.field("b", part, nullable=False)])
    missing = {"value": None, "typed_value": None}
    only_c = bytes([2, 1, 2, 0, 2, 0x0C, 5])  # an object of the field with id 2, an int8
    values: list[tuple[bytes | None, Any] | None] = [
        (None, {"a": {"value": None, "typed_value": 1}, "b": missing}),
        (only_c, {"a": {"value": b"\x00", "typed_value": None}, "b": missing}),
        (variant_from_python([1])[1], None),
        None,
    ]
    table = add_shredded(lake, tmp_path, typed, values, "a", "b", "c")
    with caplog.at_level(logging.WARNING, "icefloe.spark"):
        assert_same(spark.sql("SELECT * FROM lake.db.t").collect(), table)
        frame = spark.sql("SELECT id, variant_get(v, '$.a', 'int'), variant_get(v, '$.c', 'int'), v IS NULL FROM lake.db.t")
        assert sorted(map(tuple, frame.collect())) == [
            (0, 1, None, False),
            (1, None, 5, False),
            (2, None, None, False),
            (3, None, None, True),
        ]
    assert "v:struct<0:int,1:int>" in plan_of(frame)
    assert not caplog.records


@pytest.mark.parametrize(
    ("typed", "value", "reason"),
    repetitions(
        [
            (pa.time64("us"), dt.time(1, 2), "time values"),
            (pa.list_(pa.struct([("typed_value", pa.timestamp("ns"))])), [{"typed_value": 5}], "nanosecond values"),
            (pa.binary(16), bytes(16), "uuid values"),
        ],
        (pa.list_(pa.struct([("typed_value", pa.timestamp("ns"))])), [{"typed_value": 5}], "nanosecond values"),
    ),
)
def test_types_that_sparks_variants_lack_are_read_through_python(
    typed: pa.DataType, value: Any, reason: str, spark: SparkSession, lake: SqlCatalog, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = add_shredded(lake, tmp_path, typed, [(None, value), (variant_from_python("x")[1], None), None])
    with caplog.at_level(logging.WARNING, "icefloe.spark"):
        assert_same(spark.sql("SELECT * FROM lake.db.t").collect(), table)
    assert reason in caplog.text


def test_columns_of_a_file_are_read_again_where_another_file_has_its_name(spark: SparkSession, lake: SqlCatalog, tmp_path: Path) -> None:
    query = "SELECT to_json(v) FROM lake.db.t"
    add_shredded(lake, tmp_path, pa.int64(), [(None, 5)])
    assert [tuple(row) for row in spark.sql(query).collect()] == [("5",)]
    lake.drop_table("db.t")
    table = add_shredded(lake, tmp_path, pa.binary(16), [(None, bytes(16)), (None, bytes(16))])
    assert_same(spark.sql("SELECT * FROM lake.db.t").collect(), table)


def test_settings_that_change_what_spark_reads_of_variants_change_no_rows(
    spark: SparkSession, lake: SqlCatalog, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    typed = pa.timestamp("us")
    add_shredded(lake, tmp_path, typed, [(None, dt.datetime(2020, 1, 1)), (variant_from_python("x")[1], None)])
    query = "SELECT id, to_json(v), schema_of_variant(v) FROM lake.db.t ORDER BY id"
    before = spark.sql(query).collect()
    assert before[0][2] == "TIMESTAMP_NTZ"
    for setting, value in {
        "parquet.inferTimestampNTZ.enabled": "false",
        "parquet.binaryAsString": "true",
        "variant.allowReadingShredded": "false",
    }.items():
        spark.conf.set(f"spark.sql.{setting}", value)
        try:
            with caplog.at_level(logging.WARNING, "icefloe.spark"):
                assert spark.sql(query).collect() == before
        finally:
            spark.conf.unset(f"spark.sql.{setting}")
        assert setting in caplog.text


def test_spark_writes_shredded_variants_by_property_option_and_setting_and_reads_them(
    spark: SparkSession, lake: SqlCatalog, caplog: pytest.LogCaptureFixture
) -> None:
    table = lake.create_table("db.t", NESTED.select("id", "v"), properties={**V3, "write.parquet.shred-variants": "true"})
    given = spark.range(20).selectExpr("id", """if(id = 3, null, parse_json(concat('{"a":', id, ',"b":"x', id % 3, '"}'))) AS v""")
    given.coalesce(1).writeTo("lake.db.t").append()
    spark.conf.set("spark.sql.iceberg.shred-variants", "false")
    try:
        given.coalesce(1).writeTo("lake.db.t").append()
        given.coalesce(1).writeTo("lake.db.t").option("shred-variants", "true").append()
    finally:
        spark.conf.unset("spark.sql.iceberg.shred-variants")
    table.refresh()
    types = [pq.ParquetFile(task.file.file_path).schema_arrow.field("v").type for task in table.scan().plan_files()]
    assert sorted(kind.num_fields for kind in types) == [2, 3, 3]
    with caplog.at_level(logging.WARNING, "icefloe.spark"):
        frame = spark.sql("SELECT id, variant_get(v, '$.a', 'int') FROM lake.db.t WHERE variant_get(v, '$.b', 'string') = 'x1'")
        assert sorted(map(tuple, frame.collect())) == sorted([(i, i) for i in range(20) if i % 3 == 1] * 3)
        assert_same(spark.sql("SELECT * FROM lake.db.t").collect(), table)
    assert not caplog.records
