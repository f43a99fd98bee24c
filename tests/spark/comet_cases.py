"""Tests that `test_comet.py` runs in a process of its own, whose Spark session has Apache DataFusion Comet.

Each reads a table three times: with Comet, with Comet off, and in this process.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from math import nan
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.spark.comparing import in_order, plain
from tests.spark.merge_on_read import delete_keys, delete_positions
from tests.spark.sql_tab import executions, metrics_since, of_nodes

from icefloe import DecimalType, DoubleType, IntegerType, LongType, SqlCatalog, StringType, StructType, TimeType, UUIDType
from icefloe.spark import attach
from icefloe.spark.bridge.accelerators import accelerator_of
from icefloe.spec.schema.arrow_schema import schema_to_arrow
from icefloe.spec.types import NestedField
from icefloe.table import Table

pytestmark = pytest.mark.spark

NATIVE = "CometNativeScan"
PLACE = pa.struct([("x", pa.int32()), ("y", pa.string())])
COLUMNS = pa.schema(
    [
        ("id", pa.int64()),
        ("kind", pa.string()),
        ("n", pa.int32()),
        ("ratio", pa.float32()),
        ("price", pa.decimal128(9, 2)),
        ("wide", pa.decimal128(38, 10)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us")),
        ("seen", pa.timestamp("us", "UTC")),
        ("flag", pa.bool_()),
        ("bytes", pa.binary()),
        ("fixed", pa.binary(4)),
        ("place", PLACE),
        ("tags", pa.list_(pa.string())),
        ("items", pa.list_(PLACE)),
        ("props", pa.map_(pa.string(), PLACE)),
    ]
)
EPOCH = datetime(1969, 12, 31, 23, 59, 59, 123456)


@pytest.fixture
def db(spark: SparkSession, lake: SqlCatalog) -> SqlCatalog:
    attach(spark, "lake", lake)
    return lake


def value(kind: pa.DataType, number: int) -> Any:
    """Return a value of a type, or null for each seventh number."""
    if number % 7 == 3:
        return None
    if pa.types.is_struct(kind):
        return {field.name: value(field.type, number + index) for index, field in enumerate(kind)}
    if pa.types.is_map(kind):
        return [(f"k{key}", value(kind.item_type, number + key)) for key in range(number % 3)]
    if pa.types.is_list(kind):
        return [value(kind.value_type, number + index) for index in range(number % 4)]
    if pa.types.is_floating(kind):
        return (nan, -0.0, 0.0)[number % 5] if number % 5 < 3 else number / 4
    if pa.types.is_decimal(kind):
        return Decimal(number * 25 - 100).scaleb(-2)
    if pa.types.is_timestamp(kind):
        return (EPOCH if kind.tz is None else EPOCH.replace(tzinfo=UTC)) + timedelta(days=number * 400 - 8000)
    if pa.types.is_fixed_size_binary(kind):
        return bytes([number % 256] * kind.byte_width)
    if pa.types.is_binary(kind):
        return bytes([0, 255, number % 256])
    if pa.types.is_boolean(kind):
        return number % 2 == 0
    if pa.types.is_date(kind):
        return date(1582, 1, 1) + timedelta(days=number * 3000)
    return number if pa.types.is_integer(kind) else f"{'abc'[number % 3]} %2F é"


def rows(table: Table, start: int, stop: int) -> pa.Table:
    """Return rows in the table's present columns; `id` has the numbers."""
    schema = schema_to_arrow(table.schema())
    columns = [
        pa.array(range(start, stop), field.type)
        if field.name == "id"
        else pa.array([value(field.type, number) for number in range(start, stop)], field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


@dataclass(frozen=True)
class Read:
    """The rows of a query, and the plan that Spark has executed."""

    rows: list[Any]
    plan: str


def read(spark: SparkSession, text: str) -> Read:
    frame = spark.sql(text)
    found = [
        {f"{index} {name}": plain(one) for index, (name, one) in enumerate(row.asDict(recursive=True).items())} for row in frame.collect()
    ]
    return Read(in_order(found), frame._jdf.queryExecution().executedPlan().toString().partition("== Initial Plan ==")[0])


@contextmanager
def settings(spark: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    before = {name: spark.conf.get(name, None) for name in values}
    for name, text in values.items():
        spark.conf.set(name, text)
    try:
        yield
    finally:
        for name, old in before.items():
            spark.conf.unset(name) if old is None else spark.conf.set(name, old)


def same(spark: SparkSession, text: str, native: int | None = 1) -> Read:
    """Read with Comet and without, compare the rows, and the number of native scans unless it is None."""
    accelerated = read(spark, text)
    with settings(spark, {"spark.comet.enabled": "false"}):
        ordinary = read(spark, text)
    assert NATIVE not in ordinary.plan
    assert [repr(row) for row in accelerated.rows] == [repr(row) for row in ordinary.rows], text
    if native is not None:
        assert accelerated.plan.count(NATIVE) == native, f"{text}\n{accelerated.plan}"
    return accelerated


def same_as_in_process(spark: SparkSession, table: Table, native: int | None = 1) -> None:
    found = same(spark, f"SELECT * FROM {table.full_name}", native)
    expected = [{f"{index} {name}": one for index, (name, one) in enumerate(row.items())} for row in _as_spark_reads(table)]
    assert [repr(row) for row in found.rows] == [repr(row) for row in in_order(expected)]


def _as_spark_reads(table: Table) -> list[dict[str, Any]]:
    def converted(kind: pa.DataType, one: Any) -> Any:
        if one is None:
            return None
        if pa.types.is_map(kind):
            return {key: converted(kind.item_type, inner) for key, inner in one}
        if pa.types.is_struct(kind):
            return {field.name: converted(field.type, one[field.name]) for field in kind}
        if pa.types.is_list(kind):
            return [converted(kind.value_type, inner) for inner in one]
        # Spark's rows have times of the machine's zone, without a zone.
        return one.astimezone().replace(tzinfo=None) if pa.types.is_timestamp(kind) and kind.tz is not None else one

    found = table.scan().to_arrow()
    return [{field.name: converted(field.type, row[field.name]) for field in found.schema} for row in found.to_pylist()]


def _rename(table: Table) -> None:
    with table.update_schema() as update:
        update.rename_column("kind", "sort").rename_column("place.x", "ex").rename_column("items.element.y", "why").rename_column(
            "props.value.x", "ex"
        )


def _drop(table: Table) -> None:
    with table.update_schema() as update:
        update.delete_column("n").delete_column("place.x").delete_column("items.element.x").delete_column("props.value.y")


def _add_again(table: Table) -> None:
    _drop(table)
    with table.update_schema() as update:
        update.add_column("n", IntegerType()).add_column("place.x", IntegerType()).add_column("items.element.x", StringType())
        update.delete_column("flag")
    with table.update_schema() as update:
        update.add_column("flag", StringType())


def _swap(table: Table) -> None:
    for old, new in (("kind", "other"), ("place.x", "other")), (("n", "kind"), ("place.y", "x")), (("other", "n"), ("place.other", "y")):
        with table.update_schema() as update:
            for path, name in (old, new) if isinstance(old, tuple) else ((old, new),):
                update.rename_column(path, name)


def _promote(table: Table) -> None:
    with table.update_schema() as update:
        update.update_column("n", LongType()).update_column("ratio", DoubleType()).update_column("price", DecimalType(20, 2))
        update.update_column("place.x", LongType()).update_column("items.element.x", LongType()).update_column("props.value.x", LongType())


def _reorder(table: Table) -> None:
    with table.update_schema() as update:
        update.move_first("place").move_after("id", "tags").move_first("place.y").move_first("items.element.y")


def _add(table: Table) -> None:
    with table.update_schema() as update:
        update.add_column("new", LongType()).add_column("place.new", StringType()).add_column("items.element.new", LongType())
        update.add_column("inner", StructType(NestedField(100, "a", LongType()), NestedField(101, "b", StringType())))


def _default(table: Table) -> None:
    with table.update_schema() as update:
        update.add_column("number", LongType(), default_value=5).add_column("text", StringType(), default_value="é")
        update.add_column("amount", DecimalType(9, 2), default_value=Decimal("1.25"))


def _respecify(table: Table) -> None:
    with table.update_spec() as update:
        update.add_field("kind", "identity").add_field("n", "bucket[3]")


EVOLUTIONS: Mapping[str, Callable[[Table], None]] = {
    "none": lambda table: None,
    "rename": _rename,
    "drop": _drop,
    "add again": _add_again,
    "swap": _swap,
    "promote": _promote,
    "reorder": _reorder,
    "add": _add,
    "default": _default,
    "respecify": _respecify,
}
DELETES = ("none", "vectors", "positions", "keys")
# Filters on every kind of column: those on floating-point numbers must find NaN, and zeros of both signs.
FILTERS = (
    "ratio > 5",
    "ratio = 0.0",
    "ratio < 1 AND id > 4",
    "seen > TIMESTAMP '1965-01-01'",
    "price > 0.5",
    "day IS NULL",
    "place.y IS NULL",
    "size(tags) > 1",
)


def make_table(lake: SqlCatalog, evolution: str, deletes: str) -> Table:
    """Make a table with rows before and after a change of its schema, of which the first ones are deleted."""
    version = "3" if deletes == "vectors" or evolution == "default" else "2"
    table = lake.create_table("db.t", COLUMNS, properties={"format-version": version})
    table.append(rows(table, 0, 20))
    if deletes == "keys":
        delete_keys(table, pa.table({"id": pa.array([1, 5], pa.int64())}), ["id"])
    EVOLUTIONS[evolution](table)
    if deletes in ("vectors", "positions"):
        (task,) = table.scan().plan_files()
        delete_positions(table, {task.file.file_path: [1, 5]})
    table.append(rows(table, 20, 40))
    return table


@pytest.mark.parametrize("deletes", DELETES)
@pytest.mark.parametrize("evolution", EVOLUTIONS)
def test_comet_reads_what_spark_and_this_process_read(spark: SparkSession, db: SqlCatalog, evolution: str, deletes: str) -> None:
    table = make_table(db, evolution, deletes)
    # The file with deleted positions is read by Spark, the other one by Comet. Files of several specs, or with defaults, are scans of their own.
    native = {"default": 2 if deletes == "none" else 1, "respecify": None}.get(evolution, 1) if deletes != "keys" else None
    same_as_in_process(spark, table, native)
    assert len(table.scan().to_arrow()) == (40 if deletes == "none" else 38)
    names = [field.name for field in table.schema().fields]
    same(spark, "SELECT place.y, count(*), min(id), max(at), sum(price) FROM lake.db.t GROUP BY place.y", None)
    same(spark, "SELECT _file, _pos, id FROM lake.db.t", 0)
    inner = {"rename": "get(items.why, 0), props['k1'].ex"}.get(evolution, "get(items.y, 0), props['k1'].x")
    same(spark, f"SELECT {inner}, _file, _spec_id FROM lake.db.t", None)
    filters = [*FILTERS, *(f"`{name}` IS NOT NULL" for name in names)]
    same(spark, " UNION ALL ".join(f"SELECT {number}, id FROM lake.db.t WHERE {text}" for number, text in enumerate(filters)), None)


def test_the_plan_names_the_table_and_why_comet_does_not_read_it(spark: SparkSession, db: SqlCatalog) -> None:
    table = make_table(db, "rename", "none")
    assert f"{NATIVE} parquet lake.db.t" in same(spark, "SELECT id FROM lake.db.t").plan
    plan = same(spark, "SELECT id, _pos FROM lake.db.t", 0).plan
    assert "FileScan parquet lake.db.t (Comet does not read it: the query reads positions of rows)" in plan
    with settings(spark, {"spark.sql.parquet.fieldId.read.enabled": "false"}):
        plan = same(spark, "SELECT sort FROM lake.db.t", 0).plan
        assert "(Comet does not read it: spark.sql.parquet.fieldId.read.enabled is not true)" in plan
        same_as_in_process(spark, table, 0)
    table.set_properties({"write.delete.mode": "merge-on-read"})
    table.delete("id = 3")
    plan = same(spark, "SELECT id FROM lake.db.t").plan
    assert "(Comet does not read it: rows are deleted by position)" in plan


def test_variants_and_times_are_read_by_spark_and_uuids_by_comet(spark: SparkSession, db: SqlCatalog) -> None:
    with settings(spark, {"spark.sql.timeType.enabled": "true"}):
        properties = "TBLPROPERTIES ('format-version'='3', 'write.delete.mode'='merge-on-read')"
        spark.sql(f"CREATE TABLE lake.db.t (id BIGINT, v VARIANT, s STRUCT<t: TIME(6), n: INT>) {properties}")
        with db.load_table("db.t").update_schema() as update:
            update.add_column("u", UUIDType()).add_column("at", TimeType(), default_value=time(4, 5))
        values = """id, parse_json('{"a": ' || id || ', "b": "x"}'), named_struct('t', TIME'01:02:03.000004', 'n', CAST(id AS INT))"""
        spark.sql(f"INSERT INTO lake.db.t SELECT {values}, '0000000a-0000-4000-8000-00000000000' || id, NULL FROM range(9)")
        reasons = {"variant": "the column v has values of the type variant", "time": "the column s has values of the type time(6)"}
        columns = {"v": "variant", "variant_get(v, '$.a', 'int')": "variant", "s": "time", "s.t": "time", "u": "", "s.n": ""}
        for column, kind in columns.items():
            plan = same(spark, f"SELECT id, {column} FROM lake.db.t WHERE id > 1", 0 if kind else 1).plan
            assert f"lake.db.t (Comet does not read it: {reasons[kind]})" in plan if kind else "does not read" not in plan, plan
        spark.sql("DELETE FROM lake.db.t WHERE id = 3")
        same(spark, "SELECT id, to_json(v), variant_get(v, '$.a', 'int'), s, u, at FROM lake.db.t WHERE id > 1", 0)


def test_files_with_deletes_do_not_drag_the_query_out_of_comet(spark: SparkSession, db: SqlCatalog) -> None:
    make_table(db, "none", "vectors")
    plan = same(spark, "SELECT kind, sum(n) FROM lake.db.t WHERE n > 2 GROUP BY kind").plan
    assert "CometSparkColumnarToColumnar" in plan
    assert re.search(r"(- |\) )(HashAggregate|Filter|Project|Union)\b", plan) is None, plan


def test_comet_that_has_turned_itself_off_is_named(spark: SparkSession, db: SqlCatalog) -> None:
    make_table(db, "none", "none")
    with settings(spark, {"spark.sql.parquet.int96TimestampConversion": "true"}):
        accelerator = accelerator_of(spark)
        assert accelerator is not None
        assert "it has turned itself off" in str(accelerator.obstacle)
        found = read(spark, "SELECT id FROM lake.db.t")
        assert "Comet does not read it: it has turned itself off" in found.plan
        assert NATIVE not in found.plan


@pytest.fixture
def events(db: SqlCatalog) -> Table:
    """A table partitioned by the identity of a column whose values need escapes in paths, and by days."""
    schema = pa.schema([("id", pa.int64()), ("kind", pa.string()), ("day", pa.date32()), ("v", pa.int64())])
    table = db.create_table("db.events", schema, partition_spec=["kind"], properties={"format-version": "3"})
    for number, kind in enumerate(["a b", "c%2Fd", "é+#?", None, "x=y/z"]):
        ids = range(number * 10, number * 10 + 10)
        days = [date(2024, 1, 1 + number)] * 10
        table.append(
            pa.table(
                {"id": pa.array(ids, pa.int64()), "kind": pa.array([kind] * 10, pa.string()), "day": days, "v": pa.array(ids, pa.int64())}
            )
        )
    return table


def test_partition_columns_come_from_the_manifests(spark: SparkSession, db: SqlCatalog, events: Table, tmp_path: Path) -> None:
    same_as_in_process(spark, events)
    folder = tmp_path / "in" / "kind=from path"
    folder.mkdir(parents=True)
    fields = [field for field in schema_to_arrow(events.schema()) if field.name != "kind"]  # which the file lacks
    pq.write_table(pa.table([[100], [date(2024, 2, 1)], [None]], schema=pa.schema(fields)), folder / "a.parquet")
    events.add_files([str(folder / "a.parquet")])
    same_as_in_process(spark, events)
    assert len(same(spark, "SELECT id, kind FROM lake.db.events WHERE kind = 'from path'").rows) == 1
    same(spark, "SELECT kind, count(*), sum(v) FROM lake.db.events GROUP BY kind")
    same(spark, "SELECT _file, _partition, _spec_id, _row_id, id FROM lake.db.events", None)


def test_snapshots_and_branches_are_read_in_one_query(spark: SparkSession, db: SqlCatalog, events: Table) -> None:
    first = events.snapshots()[0].snapshot_id
    spark.sql("ALTER TABLE lake.db.events CREATE BRANCH side")
    spark.sql("INSERT INTO lake.db.events.branch_side VALUES (900, 'a b', DATE '2024-01-01', 9)")
    old = f"lake.db.events VERSION AS OF {first}"
    same(spark, f"SELECT * FROM {old}")
    same(spark, f"SELECT count(*), sum(id) FROM {old} UNION ALL SELECT count(*), sum(id) FROM lake.db.events", 2)
    same(spark, f"SELECT n.id, o.v FROM lake.db.events n LEFT JOIN {old} o ON n.id = o.id", 2)
    same(spark, "SELECT n.id FROM lake.db.events.branch_side n LEFT ANTI JOIN lake.db.events o ON n.id = o.id", 2)
    with settings(spark, {"spark.sql.autoBroadcastJoinThreshold": "-1", "spark.sql.adaptive.enabled": "false"}):
        same(spark, f"SELECT n.id, o.v FROM lake.db.events n JOIN {old} o ON n.id = o.id", 2)
        same(spark, f"SELECT 1 FROM {old} CROSS JOIN lake.db.events", 2)


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_joins_prune_partitions_at_run_time(spark: SparkSession, db: SqlCatalog, events: Table, adaptive: str) -> None:
    kinds = pa.table({"kind": ["a b", "é+#?"], "name": ["one", "two"]})
    db.create_table("db.kinds", kinds.schema).append(kinds)
    text = "SELECT e.id, k.name FROM lake.db.events e JOIN lake.db.kinds k ON e.kind = k.kind WHERE k.name = 'two'"
    with settings(spark, {"spark.sql.adaptive.enabled": adaptive}):
        found = same(spark, text, None)
        assert len(found.rows) == 10
        assert "dynamicpruning" in found.plan


def test_joins_by_partitions_and_by_transforms_stay_right(spark: SparkSession, db: SqlCatalog) -> None:
    schema = pa.schema([("id", pa.int64()), ("v", pa.int64())])
    for name in ("left", "right"):
        table = db.create_table(f"db.{name}", schema, partition_spec=["bucket(4, id)"])
        table.append(pa.table({"id": pa.array(range(50), pa.int64()), "v": pa.array(range(50), pa.int64())}))
    text = "SELECT l.id, r.v FROM lake.db.left l JOIN lake.db.right r ON l.id = r.id WHERE r.v < 9"
    same(spark, text, None)
    grouping = {"spark.sql.sources.v2.bucketing.enabled": "true", "spark.sql.iceberg.planning.preserve-data-grouping": "true"}
    with settings(spark, {**grouping, "spark.sql.autoBroadcastJoinThreshold": "-1"}):
        assert "hashpartitioning" not in same(spark, text, None).plan


@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
def test_statements_change_the_same_rows(spark: SparkSession, db: SqlCatalog, mode: str) -> None:
    statements = (
        "MERGE INTO lake.db.t t USING lake.db.s s ON t.id = s.id WHEN MATCHED AND s.id < 5 THEN DELETE WHEN MATCHED THEN UPDATE SET n = s.n "
        "WHEN NOT MATCHED THEN INSERT *",
        "UPDATE lake.db.t SET ratio = 2.5, kind = concat(kind, 'x') WHERE n > 3",
        "DELETE FROM lake.db.t WHERE id IN (SELECT id FROM lake.db.s WHERE n = 12)",
        "INSERT INTO lake.db.t SELECT * FROM lake.db.s WHERE n > 20",
        "INSERT OVERWRITE lake.db.t SELECT * FROM lake.db.t WHERE id > 2",
    )
    outcomes = []
    for enabled in ("true", "false"):
        properties = {f"write.{action}.mode": mode for action in ("merge", "update", "delete")}
        target = db.create_table("db.t", COLUMNS, properties={"format-version": "3", **properties})
        source = db.create_table("db.s", COLUMNS)
        target.append(rows(target, 0, 20))
        source.append(rows(source, 10, 30))
        with settings(spark, {"spark.comet.enabled": enabled}):
            for text in statements:
                spark.sql(text)
                target.refresh()
                outcomes.append(repr(in_order(target.scan().to_arrow().to_pylist())))
        for name in ("db.t", "db.s"):
            db.drop_table(name)
    assert outcomes[: len(statements)] == outcomes[len(statements) :]


UNSIGNED = pa.schema(
    [pa.field("n", pa.uint64(), metadata={"PARQUET:field_id": "1"}), pa.field("i", pa.uint32(), metadata={"PARQUET:field_id": "2"})]
)


def test_unsigned_integers_of_other_writers_are_read_or_refused(spark: SparkSession, db: SqlCatalog, tmp_path: Path) -> None:
    table = db.create_table("db.t", pa.schema([("n", pa.int64()), ("i", pa.int32())]))
    pq.write_table(pa.table([[1, 2**63 - 1], [1, 2**31 - 1]], schema=UNSIGNED), tmp_path / "fits.parquet")
    table.add_files([str(tmp_path / "fits.parquet")])
    same_as_in_process(spark, table, None)
    same(spark, "SELECT n FROM lake.db.t WHERE n > 5 AND i > 5", None)
    pq.write_table(pa.table([[7, 2**63 + 5], [7, 2**31 + 5]], schema=UNSIGNED), tmp_path / "beyond.parquet")
    table.add_files([str(tmp_path / "beyond.parquet")])
    for column in ("n", "i"):
        with pytest.raises(Exception, match=str(2**63 + 5 if column == "n" else 2**31 + 5)):
            spark.sql(f"SELECT {column} FROM lake.db.t").collect()


def test_a_query_that_comet_refuses_reads_unsigned_integers_too(spark: SparkSession, db: SqlCatalog, tmp_path: Path) -> None:
    table = db.create_table("db.t", pa.schema([("n", pa.int64()), ("i", pa.int32())]))
    pq.write_table(pa.table([[7, 2**63 + 5], [7, 2**31 + 5]], schema=UNSIGNED), tmp_path / "beyond.parquet")
    table.add_files([str(tmp_path / "beyond.parquet")])
    with pytest.raises(Exception, match=str(2**63 + 5)):
        spark.sql("SELECT input_file_name(), n FROM lake.db.t").collect()


def test_the_nodes_of_comet_show_what_the_plan_read_and_skipped(spark: SparkSession, db: SqlCatalog) -> None:
    table = db.create_table("db.t", pa.schema([("id", pa.int64()), ("kind", pa.string())]), partition_spec=["kind"])
    for start in range(0, 40, 10):
        table.append(pa.table({"id": range(start, start + 10), "kind": ["a", "b"] * 5}))
    # The plan of a query without a shuffle is made before the SQL tab has the query, that of a stage afterwards.
    for text in (
        "SELECT id FROM lake.db.t WHERE kind = 'a' AND id < 15",
        "SELECT count(DISTINCT id) FROM lake.db.t WHERE kind = 'a' AND id < 15",
    ):
        before = executions(spark)
        spark.sql(text).collect()
        (scan,) = of_nodes(metrics_since(spark, before), NATIVE)
        assert (scan["number of scanned data manifests"], scan["number of result data files"], scan["number of files read"]) == (
            "4",
            "2",
            "2",
        )
        assert (scan["number of data files skipped by partition"], scan["number of data files skipped by column statistics"]) == ("4", "2")
        assert scan["total data file size"] == scan["size of files read"]
