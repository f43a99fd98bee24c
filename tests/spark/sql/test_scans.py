"""Scans and Spark's optimizer: filters that need no evaluation, aggregates from metadata, limits, sizes, and files pruned at run time."""

import re
import uuid
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import IllegalArgumentException, UnsupportedOperationException
from pyspark.sql import DataFrame, SparkSession
from tests.combinations import repetitions
from tests.repetitions import ALL
from tests.spark.sql.conftest import Run, append, create

import icefloe.inspect
from icefloe import LongType, NestedField, Schema, SqlCatalog, TimestampNanoType
from icefloe.errors import DataFileFormatError
from icefloe.io.file_io_by_scheme import SchemeFileIO
from icefloe.io.manifest_cache import clear_manifest_caches
from icefloe.spark.attach_catalog import attach
from icefloe.spark.jobs import map_job
from icefloe.spark.jobs.spark_jobs import run_job
from icefloe.spark.scan.pushed_scan import PushedScan
from icefloe.spark.scan.scan_plans import ScanPlans
from icefloe.spark.scan.spark_scan import SparkScan
from icefloe.spark.scan.table_selector import TableSelection
from icefloe.spark.types.spark_types import schema_to_struct
from icefloe.table import Table

pytestmark = pytest.mark.spark


def _plan(sql: Run, text: str) -> str:
    return str(sql(f"EXPLAIN EXTENDED {text}")[0][0])


def _rows_and_plan(spark: SparkSession, text: str) -> tuple[list[tuple[Any, ...]], str]:
    """Return the rows of a query and its physical plan."""
    frame = spark.sql(text)
    return [tuple(row) for row in frame.collect()], str(frame._jdf.queryExecution().executedPlan().toString())


def _physical(sql: Run, text: str) -> str:
    return _plan(sql, text).partition("== Physical Plan ==")[2]


def _files_read(spark: SparkSession, text: str) -> int:
    """Return the number of files that the scans of a query read."""
    frame = spark.sql(text)
    frame.collect()
    return sum(_numbers_of_files(frame._jdf.queryExecution().executedPlan()))


def _numbers_of_files(node: Any) -> list[int]:
    """Return the number of files of each scan below a node, from the metrics of its run."""
    name = node.getClass().getSimpleName()
    if name == "AdaptiveSparkPlanExec":
        return _numbers_of_files(node.executedPlan())
    if name.endswith("QueryStageExec"):
        return _numbers_of_files(node.plan())
    own = [int(node.metrics().apply("numFiles").value())] if name == "FileSourceScanExec" else []
    children = node.children()
    return own + [number for place in range(children.size()) for number in _numbers_of_files(children.apply(place))]


@pytest.fixture
def events(sql: Run, lake: SqlCatalog) -> Table:
    """Ten files of one day each."""
    table = lake.create_table(
        "db.events", pa.schema([("id", pa.int64()), ("day", pa.date32()), ("v", pa.float64())]), partition_spec=["day"]
    )
    days = [date(2024, 1, 1 + row // 100) for row in range(1000)]
    table.append(pa.table({"id": range(1000), "day": days, "v": [row / 4 + 1 for row in range(1000)]}))
    assert len(lake.load_table("db.events").scan().plan_files()) == 10
    return lake.load_table("db.events")


def test_a_table_without_files_has_no_rows(sql: Run, lake: SqlCatalog) -> None:
    sql("CREATE TABLE lake.db.without (id BIGINT) USING iceberg")
    assert sql("SELECT * FROM lake.db.without") == []
    append(lake, [(1,)], "db.without")
    assert sql("SELECT * FROM lake.db.without WHERE id > 7") == []


def test_a_column_without_nulls_has_a_null_test_in_the_plan(sql: Run, events: Table) -> None:
    query = "SELECT id, sum(v) FROM lake.db.events WHERE day >= DATE'2024-01-03' AND id < 500 GROUP BY id"
    (condition,) = re.findall(r"\+- Filter (.*)", _physical(sql, query))
    assert re.fullmatch(r"isnotnull\(id#\d+L?\)", condition)
    rows = sql(query)
    events.append(pa.table({"id": pa.array([None], pa.int64()), "day": [date(2024, 1, 3)], "v": [1.0]}))
    assert sorted(sql(query)) == sorted(rows)


def test_columns_that_a_filter_keeps_without_nulls_have_none_in_the_query(spark: SparkSession, sql: Run, lake: SqlCatalog) -> None:
    create(lake, "id BIGINT, other BIGINT, s STRUCT<a: BIGINT>", format_version="3", **{"write.delete.mode": "merge-on-read"})
    rows = [(number if number % 3 else None, number if number % 4 else None, {"a": number if number % 5 else None}) for number in range(60)]
    append(lake, rows[:30])
    sql("DELETE FROM lake.db.t WHERE id < 10")
    append(lake, rows[30:])  # a file without deleted rows
    frame = spark.sql("SELECT id, other, s, s.a FROM lake.db.t WHERE id IS NOT NULL AND s.a > 0 AND (other IS NOT NULL OR id > 20)")
    output = frame._jdf.queryExecution().optimizedPlan().output()
    assert {output.apply(place).name(): output.apply(place).nullable() for place in range(4)} == {
        "id": False,
        "other": True,
        "s": True,
        "a": True,
    }
    kept = [row for row in rows if row[0] is not None and row[0] >= 10 and row[2]["a"] and (row[1] is not None or row[0] > 20)]
    assert sorted((row.id, row.other, row.s.a, row.a) for row in frame.collect()) == sorted(
        (*row[:2], row[2]["a"], row[2]["a"]) for row in kept
    )
    joined = "SELECT count(*), count(t.other) FROM lake.db.t JOIN lake.db.t AS u ON t.other = u.id WHERE t.id > 30"
    ids = {row[0] for row in rows if row[0] is not None and row[0] >= 10}
    assert sql(joined) == [(number := sum(row[0] is not None and row[0] > 30 and row[1] in ids for row in rows), number)]


def test_a_filter_that_is_true_of_all_planned_rows_is_not_evaluated(sql: Run, events: Table) -> None:
    assert "+- Filter" not in _physical(sql, "SELECT sum(v) FROM lake.db.events WHERE day = DATE'2024-01-03'")
    assert "+- Filter" not in _physical(sql, "SELECT sum(v) FROM lake.db.events WHERE day >= DATE'2024-01-03' AND id < 500")
    assert "+- Filter" in _physical(sql, "SELECT sum(v) FROM lake.db.events WHERE day = DATE'2024-01-03' AND id < 250")
    assert sql("SELECT count(v), sum(id) FROM lake.db.events WHERE day >= DATE'2024-01-03' AND id < 500") == [(300, sum(range(200, 500)))]
    # For a null day the predicate `day <> d` is unknown.
    events.append(pa.table({"id": [1000], "day": pa.array([None], pa.date32()), "v": [1.0]}))
    assert sql("SELECT sum(id) FROM lake.db.events WHERE day <> DATE'2024-01-01'") == [(sum(range(100, 1000)),)]
    assert sql("SELECT sum(id) FROM lake.db.events WHERE NOT (day <=> DATE'2024-01-01')") == [(sum(range(100, 1001)),)]


AGGREGATES = {
    "count(*)": 1000,
    "count(id)": 1000,
    "min(id)": 0,
    "max(day)": date(2024, 1, 10),
    "max(v)": 250.75,
    "count(*) WHERE day < DATE'2024-01-03'": 200,
    "max(id) WHERE day < DATE'2024-01-03'": 199,
    "min(id) WHERE day > DATE'2030-01-01'": None,
}


def test_aggregates_of_whole_files_are_read_from_metadata(spark: SparkSession, events: Table) -> None:
    for query, expected in AGGREGATES.items():
        what, _, where = query.partition(" WHERE ")
        rows, plan = _rows_and_plan(spark, f"SELECT {what} FROM lake.db.events" + (f" WHERE {where}" if where else ""))
        assert rows == [(expected,)], query
        assert "FileScan" not in plan, query


def test_aggregates_of_every_type_with_exact_bounds_are_read_from_metadata(sql: Run, lake: SqlCatalog) -> None:
    kinds = {
        "i": pa.array([3, None, -7], pa.int32()),
        "f": pa.array([0.5, None, 2.25], pa.float32()),
        "n": pa.array([Decimal("1.50"), None, Decimal("-9999999.99")], pa.decimal128(9, 2)),
        "at": pa.array(
            [datetime(1969, 12, 31, 23, 59, 59, 999999, UTC), None, datetime(2024, 3, 31, 1, 30, tzinfo=UTC)], pa.timestamp("us", "UTC")
        ),
        "local": pa.array([datetime(1900, 1, 1), None, datetime(2024, 3, 31, 2, 30)], pa.timestamp("us")),
        "b": pa.array([True, None, False]),
        "none": pa.nulls(3, pa.int64()),
    }
    rows = pa.table(kinds)
    lake.create_table("db.t", rows.schema).append(rows)
    aggregates = ", ".join(f"min({name}), max({name}), count({name})" for name in kinds)
    ours = sql(f"SELECT {aggregates} FROM lake.db.t")
    assert "FileScan" not in _physical(sql, f"SELECT {aggregates} FROM lake.db.t")
    assert ours == sql(f"SELECT {aggregates} FROM (SELECT * FROM lake.db.t DISTRIBUTE BY i)")


COMPUTED = ("max(s.text)", "count(s)", "count(s.many)", "max(s.many[0])", "max(s.x + 1)", "count(s.deep)")


def test_aggregates_of_fields_of_structs_are_read_from_metadata(spark: SparkSession, sql: Run, lake: SqlCatalog) -> None:
    inner = pa.struct([("x", pa.int64()), ("text", pa.string()), ("many", pa.list_(pa.int64())), ("deep", pa.struct([("Y", pa.date32())]))])
    rows = pa.table(
        {
            "s": pa.array(
                [
                    {"x": 5, "text": "a", "many": [100], "deep": {"Y": date(2020, 1, 2)}},
                    None,
                    {"x": None, "text": "b", "many": None, "deep": None},
                    {"x": -3, "text": "c", "many": [1, 2], "deep": {"Y": None}},
                ],
                inner,
            ),
            "x": pa.array([1, 2, 3, 4], pa.int64()),
        }
    )
    table = lake.create_table("db.t", rows.schema)
    table.append(rows)
    table.append(rows.slice(1, 1))
    append(lake, [({"x": 8, "text": "d", "many": [9], "deep": {"Y": date(2021, 1, 1)}}, 9)])
    aggregates = "max(s.x), min(s.x), count(s.x), max(s.deep.y), min(S.deep.Y), count(s.deep.Y), count(s.text), max(x)"
    expected = [(8, -3, 3, date(2021, 1, 1), date(2020, 1, 2), 2, 4, 9)]
    assert sql(f"SELECT {aggregates} FROM lake.db.t") == expected
    assert sql(f"SELECT {aggregates} FROM (SELECT * FROM lake.db.t DISTRIBUTE BY x)") == expected
    assert "FileScan" not in _physical(sql, f"SELECT {aggregates} FROM lake.db.t")
    # A field that is required lacks a value where its struct does.
    required = pa.struct([pa.field("r", pa.int64(), nullable=False)])
    of_structs = pa.table({"s": pa.array([{"r": 4}, None, {"r": 9}, None], required)})
    lake.create_table("db.u", of_structs.schema).append(of_structs)
    assert sql("SELECT count(s.r), min(s.r), max(s.r), count(*) FROM lake.db.u") == [(2, 4, 9, 4)]
    computed = []
    for text in COMPUTED:
        rows, plan = _rows_and_plan(spark, f"SELECT {text} FROM lake.db.t")
        assert "FileScan" in plan, text
        computed.append(rows[0][0])
    texts = ", ".join(COMPUTED)
    assert tuple(computed) == sql(f"SELECT {texts} FROM (SELECT * FROM lake.db.t DISTRIBUTE BY x)")[0]


def test_aggregates_without_exact_metadata_are_computed_from_rows(sql: Run, lake: SqlCatalog) -> None:
    rows = pa.table({"s": ["a" * 40, "b"], "f": [float("nan"), 1.0], "z": [0.0, -0.0], "id": pa.array([1, 2], pa.int64())})
    table = lake.create_table("db.t", rows.schema, properties={"format-version": "2", "write.delete.mode": "merge-on-read"})
    table.append(rows)
    for text in ("max(s)", "min(f)", "max(z)", "sum(id)", "count(DISTINCT id)", "max(id + 1)", "min(id) FILTER (WHERE id > 1)"):
        assert "FileScan" in _physical(sql, f"SELECT {text} FROM lake.db.t"), text
    assert "FileScan" in _physical(sql, "SELECT s, max(id) FROM lake.db.t GROUP BY s")
    assert "FileScan" in _physical(sql, "SELECT count(*) FROM lake.db.t WHERE id > 1")
    assert sql("SELECT max(s), max(z), max(id) FROM lake.db.t WHERE id = 1") == [("a" * 40, 0.0, 1)]
    table.delete("id = 2")
    assert sql("SELECT count(*), max(id) FROM lake.db.t") == [(1, 1)]
    assert "FileScan" in _physical(sql, "SELECT count(*) FROM lake.db.t")


def test_counts_subtract_the_rows_of_deletion_vectors(sql: Run, lake: SqlCatalog) -> None:
    rows = pa.table({"id": pa.array(range(10), pa.int64())})
    table = lake.create_table("db.t", rows.schema, properties={"format-version": "3", "write.delete.mode": "merge-on-read"})
    table.append(rows)
    table.delete("id > 6")
    assert sql("SELECT count(*) FROM lake.db.t") == [(7,)]
    assert "FileScan" not in _physical(sql, "SELECT count(*) FROM lake.db.t")
    assert sql("SELECT max(id) FROM lake.db.t") == [(6,)]


def test_a_limit_plans_no_more_files_than_it_needs(spark: SparkSession, sql: Run, events: Table) -> None:
    assert len(sql("SELECT * FROM lake.db.events LIMIT 150")) == 150
    assert _files_read(spark, "SELECT * FROM lake.db.events LIMIT 150") == 2
    assert _files_read(spark, "SELECT * FROM lake.db.events WHERE v > 3 LIMIT 150") == 10


def _estimated_bytes(frame: DataFrame) -> int:
    """Return the size of a query's rows by which Spark chooses its joins."""
    return int(str(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))


@pytest.mark.usefixtures("sql")
def test_a_scan_has_the_estimated_size_of_a_scan_of_its_parquet_files(spark: SparkSession, lake: SqlCatalog) -> None:
    rows = pa.table(
        {
            "id": pa.array(range(2000), pa.int64()),
            "name": [f"name {row}" for row in range(2000)],
            "price": pa.array([Decimal(row).scaleb(-2) for row in range(2000)], pa.decimal128(15, 2)),
            "day": pa.array([date(2024, 1, 1 + row % 9) for row in range(2000)]),
            "s": pa.array([{"x": row, "y": str(row)} for row in range(2000)]),
            "tags": pa.array([[str(row)] for row in range(2000)]),
            "ok": pa.array([row % 2 == 0 for row in range(2000)]),
        }
    )
    lake.create_table("db.sized", rows.schema).append(rows)
    paths = [task.file.file_path for task in lake.load_table("db.sized").scan().plan_files()]
    plain = spark.read.parquet(*paths)
    for columns in (["*"], ["id"], ["id", "name"], ["price", "day"], ["s", "tags"]):
        ours = _estimated_bytes(spark.table("lake.db.sized").select(*columns))
        assert ours == pytest.approx(_estimated_bytes(plain.select(*columns)), rel=0.02), columns


def test_the_estimated_size_of_a_scan_follows_its_columns_and_files(spark: SparkSession, sql: Run, events: Table) -> None:
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", str(_estimated_bytes(spark.sql("SELECT id, v FROM lake.db.events")) // 2))
    try:
        joined = "SELECT count(e.v) FROM lake.db.events e JOIN lake.db.events o ON e.id = o.id"
        assert "SortMergeJoin" in _physical(sql, joined)
        assert "BroadcastHashJoin" in _physical(sql, f"{joined} WHERE o.day = DATE'2024-01-01'")
    finally:
        spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")


@pytest.mark.usefixtures("sql")
def test_deleted_rows_do_not_count_in_the_estimated_size_of_a_scan(spark: SparkSession, lake: SqlCatalog) -> None:
    rows = pa.table({"id": pa.array(range(10_000), pa.int64()), "name": [f"name {row}" for row in range(10_000)]})
    table = lake.create_table("db.t", rows.schema, properties={"format-version": "3", "write.delete.mode": "merge-on-read"})
    table.append(rows)
    before = _estimated_bytes(spark.table("lake.db.t"))
    table.delete("id >= 2500")
    assert _estimated_bytes(spark.table("lake.db.t")) == pytest.approx(before / 4, rel=0.1)


@pytest.mark.usefixtures("sql")
def test_a_small_dimension_is_broadcast_as_its_parquet_file_is(spark: SparkSession, lake: SqlCatalog) -> None:
    # The rows take more than the limit in Spark's memory, and less in the file: the strings repeat.
    facts = pa.table({"id": pa.array(range(100_000), pa.int64()), "part": pa.array([row % 5000 for row in range(100_000)], pa.int64())})
    parts = pa.table({"part": pa.array(range(5000), pa.int64()), "kind": [f"kind {row % 20}" for row in range(5000)]})
    paths = {}
    for name, rows in {"facts": facts, "parts": parts}.items():
        lake.create_table(f"db.{name}", rows.schema).append(rows)
        paths[name] = [task.file.file_path for task in lake.load_table(f"db.{name}").scan().plan_files()]
        spark.read.parquet(*paths[name]).createOrReplaceTempView(f"bare_{name}")
    limit = 2 * lake.load_table("db.parts").scan().plan_files()[0].file.file_size_in_bytes
    assert limit < 5000 * (20 + 8)
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", str(limit))
    try:
        text = "SELECT kind, count(*) FROM {0}facts f JOIN {0}parts p ON f.part = p.part GROUP BY kind"
        plans = [spark.sql(text.format(prefix))._jdf.queryExecution().executedPlan().toString() for prefix in ("lake.db.", "bare_")]
    finally:
        spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")
    assert ["BroadcastHashJoin" in plan for plan in plans] == [True, True]


def _fields_by_column(spark: SparkSession, lake: SqlCatalog, **settings: str) -> dict[str, dict[str, Any]]:
    """Return the statistics of columns that the scan of `db.t` reports to a cost-based optimizer."""
    table = lake.load_table("db.t")
    schema = schema_to_struct(table.schema(), field_ids=False).json()
    query = {
        "options": {},
        "zone": "UTC",
        "settings": settings,
        "operation": None,
        "uses_statistics": True,
        "filters": (),
        "schema": schema,
    }
    return dict(
        SparkScan(
            PushedScan(spark=spark, selected=TableSelection(table=table), query=query, plans=ScanPlans(spark, table))
        ).estimate_statistics()["columnStats"]
    )


def test_a_cost_based_optimizer_receives_what_manifests_and_statistics_files_know(spark: SparkSession, lake: SqlCatalog) -> None:
    rows = pa.table(
        {
            "id": pa.array([3, None, 9], pa.int64()),
            "at": pa.array([datetime(2024, 1, 1, tzinfo=UTC)] * 3, pa.timestamp("us", "UTC")),
            "day": [date(1970, 1, 11), date(1970, 1, 21), date(1970, 1, 11)],
            "price": pa.array([Decimal("-1.50"), Decimal("2.25"), None], pa.decimal128(9, 2)),
            "f": [1.0, float("nan"), 3.0],
            "name": ["x" * 40, "b", None],
        }
    )
    properties = {"format-version": "3", "write.delete.mode": "merge-on-read"}
    table = lake.create_table("db.t", rows.schema, partition_spec=["day"], properties=properties)
    table.append(rows)
    at = 1_704_067_200_000_000
    assert _fields_by_column(spark, lake) == {
        "id": {"nullCount": 1, "min": 3, "max": 9},
        "at": {"nullCount": 0, "min": at, "max": at},
        "day": {"nullCount": 0, "distinctCount": 2, "min": 10, "max": 20},
        "price": {"nullCount": 1, "min": -1.5, "max": 2.25},
        "f": {"nullCount": 0},  # a file of NaN alone has no bounds
        "name": {"nullCount": 1},
    }
    lake.load_table("db.t").compute_statistics(["id", "name"])
    counted = _fields_by_column(spark, lake)
    assert (counted["id"]["distinctCount"], counted["name"]["distinctCount"]) == (2, 2)
    lake.load_table("db.t").delete("id = 9")
    assert _fields_by_column(spark, lake)["id"]["max"] == 9  # a bound, which no result relies on
    assert _fields_by_column(spark, lake, **{"spark.sql.iceberg.report-column-stats": "false"}) == {}


def test_bounds_that_a_file_lacks_are_not_reported(spark: SparkSession, lake: SqlCatalog) -> None:
    rows = pa.table({"id": pa.array([1, 2], pa.int64()), "n": pa.array([None, None], pa.int32())})
    table = lake.create_table("db.t", rows.schema)
    table.append(rows)
    assert _fields_by_column(spark, lake) == {"id": {"nullCount": 0, "min": 1, "max": 2}, "n": {"nullCount": 2}}
    table.set_properties({"write.metadata.metrics.default": "none"})
    table.append(rows)
    assert _fields_by_column(spark, lake) == {}


@pytest.mark.parametrize("selective", ["first", "second"])
def test_a_cost_based_optimizer_orders_joins_by_statistics_of_columns(
    spark: SparkSession, sql: Run, lake: SqlCatalog, selective: str
) -> None:
    keys = pa.array(range(1000), pa.int64())
    for name, value in (("facts", "b"), ("first", "v"), ("second", "v")):
        rows = pa.table({"id": keys, value: keys})
        lake.create_table(f"db.{name}", rows.schema).append(rows)
        lake.load_table(f"db.{name}").compute_statistics()
    text = (
        "SELECT count(*) FROM lake.db.facts JOIN lake.db.first ON facts.id = first.id JOIN lake.db.second ON facts.b = second.id "
        f"WHERE first.v < 900 AND second.v < 900 AND {selective}.v < 10"
    )
    settings = {"spark.sql.cbo.enabled": "true", "spark.sql.cbo.joinReorder.enabled": "true"}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        assert sql(text) == [(10,)]
        # The innermost join is the first in the plan.
        joined = re.findall(r"FileScan parquet lake\.db\.(\w+)", _physical(sql, text))
    finally:
        for name in settings:
            spark.conf.unset(name)
    assert set(joined[:2]) == {"facts", selective}, joined


def test_a_plan_has_the_name_of_the_table_and_the_folder_of_the_files(spark: SparkSession, sql: Run, events: Table) -> None:
    spark.conf.set("spark.sql.maxMetadataStringLength", "1000")
    try:
        folder = f"file:{events.location()}/data"
        for text, location in (
            ("TRUE", f"(1 paths)[{folder}]"),
            ("id = 150", f"(1 paths)[{folder}/day=2024-01-02]"),
            ("id = -1", "(0 paths)[]"),
        ):
            plan = _physical(sql, f"SELECT v FROM lake.db.events WHERE {text}")
            assert "FileScan parquet lake.db.events[" in plan
            assert f"PlannedFiles{location}" in plan
        frame = events.scan(selected_fields=("id",)).to_spark()  # of no catalog in SQL
        assert "FileScan parquet lake.db.events[" in frame._jdf.queryExecution().executedPlan().toString()
    finally:
        spark.conf.unset("spark.sql.maxMetadataStringLength")


def test_a_join_prunes_files_at_run_time(spark: SparkSession, sql: Run, events: Table, lake: SqlCatalog) -> None:
    days = pa.table({"day": [date(2024, 1, 2), date(2024, 1, 9), date(2023, 1, 1)], "name": ["x", "x", "y"]})
    lake.create_table("db.days", days.schema).append(days)
    text = "SELECT sum(e.id) FROM lake.db.events e JOIN lake.db.days d ON e.day = d.day WHERE d.name = 'x'"
    assert "dynamicpruning" in _physical(sql, text).lower()
    assert sql(text) == [(sum(range(100, 200)) + sum(range(800, 900)),)]
    assert _files_read(spark, text) == 2 + 1
    # Files with deleted rows are read by a scan of their own; both scans are pruned.
    events.delete("id = 150")
    assert sql(text) == [(sum(range(100, 200)) + sum(range(800, 900)) - 150,)]
    assert _files_read(spark, text) == 2 + 1


def test_files_are_split_by_properties_and_options(spark: SparkSession, sql: Run, lake: SqlCatalog) -> None:
    rows = pa.table({"id": pa.array(range(100_000), pa.int64())})
    table = lake.create_table("db.t", rows.schema, properties={"write.parquet.row-group-size-bytes": "10000"})
    table.append(rows)
    size = lake.load_table("db.t").scan().plan_files()[0].file.file_size_in_bytes
    assert spark.table("lake.db.t").rdd.getNumPartitions() <= 2
    cut = spark.read.option("split-size", str(size // 8)).table("lake.db.t")
    assert cut.rdd.getNumPartitions() >= 8
    assert cut.count() == 100_000
    table.set_properties({"read.split.target-size": str(size // 8)})
    assert spark.table("lake.db.t").rdd.getNumPartitions() >= 8
    with pytest.raises(IllegalArgumentException, match="split-size"):
        spark.read.option("split-size", "many").table("lake.db.t").collect()


@pytest.mark.parametrize("setting", ["spark.icefloe.planning.mode", "spark.sql.iceberg.data-planning-mode"])
def test_manifests_are_read_by_a_job_in_distributed_mode(spark: SparkSession, sql: Run, lake: SqlCatalog, setting: str) -> None:
    rows = pa.schema([("id", pa.int64()), ("day", pa.int32())])
    table = lake.create_table(
        "db.t", rows, partition_spec=["day"], properties={"commit.manifest-merge.enabled": "false", "format-version": "2"}
    )
    for day in range(12):
        table.append(pa.table({"id": pa.array(range(day * 10, day * 10 + 10), pa.int64()), "day": pa.array([day % 4] * 10, pa.int32())}))
    text = "SELECT id, _file FROM lake.db.t WHERE day = 1 AND id > 60 ORDER BY id"
    local = sql(text)
    spark.conf.set(setting, "distributed")
    before = max(_jobs(spark), default=-1)
    try:
        assert sql(text) == local
        assert any("plan a scan" in description for job, description in _jobs(spark).items() if job > before)
    finally:
        spark.conf.unset(setting)
    with pytest.raises(IllegalArgumentException, match="planning-mode"):
        spark.read.option("planning-mode", "elsewhere").table("lake.db.t").collect()


def _jobs(spark: SparkSession) -> dict[int, str]:
    """Return the descriptions of the latest jobs of the session by their ids. Spark keeps the last thousand."""
    context = spark._jsparkSession.sparkContext()
    context.listenerBus().waitUntilEmpty()
    jobs = context.statusStore().jobsList(None)
    return {int(job.jobId()): str(job.description()) for job in (jobs.apply(place) for place in range(jobs.size()))}


ON_MOMENTS = [
    ("CAST(at AS DATE) = DATE'2024-03-02'", 1),
    ("CAST(at AS DATE) IN (DATE'2024-03-02', DATE'2025-07-01')", 2),
    ("CAST(at AS DATE) <=> DATE'2024-03-02'", 1),
    ("year(at) = 2024", 2),
    ("year(at) > 2024", 1),
    ("trunc(at, 'MM') = DATE'2024-03-01'", 1),
    ("trunc(at, 'MM') = DATE'2024-03-02'", 0),
    ("trunc(day, 'quarter') IN (DATE'2024-01-01')", 1),
    ("trunc(day, 'week') < DATE'2024-07-01'", 1),
    ("year(local) IN (2024, 2027)", 2),
    ("u = '80000000-0000-0000-0000-000000000000'", 1),
    ("u > '80000000-0000-0000-0000-000000000000'", 1),
]


def test_files_are_pruned_by_dates_of_timestamps_and_by_uuids(spark: SparkSession, lake: SqlCatalog) -> None:
    table = lake.create_table(
        "db.moments", pa.schema([("at", pa.timestamp("us", "UTC")), ("local", pa.timestamp("us")), ("day", pa.date32()), ("u", pa.uuid())])
    )
    keys = [uuid.UUID(int=number).bytes for number in (0, 1 << 127, (1 << 127) + 1)]
    for moment, key in zip((datetime(2024, 3, 2, 12), datetime(2024, 7, 1, 12), datetime(2025, 7, 1, 12)), keys, strict=True):
        keyed = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([key], pa.binary(16)))
        table.append(pa.table({"at": [moment.replace(tzinfo=UTC)], "local": [moment], "day": [moment.date()], "u": keyed}))
    attach(spark, "lake", lake)
    try:
        for zone, (predicate, files) in product(("UTC", "America/New_York"), ON_MOMENTS):
            # The zone matters where a moment becomes a date; the others have it in `make test-all`.
            if ALL or zone == "UTC" or "(at" in predicate:
                spark.conf.set("spark.sql.session.timeZone", zone)
                assert _files_read(spark, f"SELECT at, local, day FROM lake.db.moments WHERE {predicate}") == files, (zone, predicate)
    finally:
        spark.conf.unset("spark.sql.session.timeZone")


@pytest.mark.parametrize("kind", repetitions([pa.int64(), pa.string()], pa.int64()))
def test_nulls_of_a_column_that_became_required_are_found_and_can_be_deleted(
    sql: Run, spark: SparkSession, lake: SqlCatalog, kind: pa.DataType
) -> None:
    table = lake.create_table("db.late", pa.schema([("key", kind), ("x", pa.int64())]))
    table.append(pa.table({"key": pa.array([None, None, 5], pa.int64()).cast(kind), "x": [1, 2, 3]}))
    with table.update_schema(allow_incompatible_changes=True) as update:
        update.update_column("key", required=True)
    five = pa.array([5]).cast(kind)[0].as_py()
    assert sql("SELECT key, sum(x) FROM lake.db.late GROUP BY key ORDER BY key") == [(None, 3), (five, 3)]
    assert sql("SELECT count(key), count(*), max(key) FROM lake.db.late") == [(1, 3, five)]
    assert sorted(sql("SELECT x FROM lake.db.late WHERE key IS NULL")) == [(1,), (2,)]
    assert sql("SELECT x FROM lake.db.late WHERE key IS NOT NULL") == [(3,)]
    assert sorted(sql("SELECT a.x FROM lake.db.late a JOIN lake.db.late b ON a.key <=> b.key")) == [(1,), (1,), (2,), (2,), (3,)]
    options = {"columns": "key,x"}
    by_format = spark.read.format("icefloe").options(**options).load("lake.db.late")
    assert sorted(map(tuple, by_format.groupBy("key").sum("x").collect()), key=str) == sorted([(None, 3), (five, 3)], key=str)
    with pytest.raises(IllegalArgumentException, match="key: has 1 nulls"):
        sql("INSERT INTO lake.db.late SELECT * FROM lake.db.late WHERE x = 1")
    sql("DELETE FROM lake.db.late WHERE key IS NULL")
    sql("INSERT INTO lake.db.late SELECT * FROM lake.db.late")
    assert sql("SELECT * FROM lake.db.late") == [(five, 3), (five, 3)]


def test_a_file_that_lacks_a_required_column_is_refused(sql: Run, spark: SparkSession, lake: SqlCatalog) -> None:
    table = lake.create_table("db.lacks", pa.schema([("x", pa.int64()), ("at", pa.struct([("y", pa.int64())]))]))
    table.append(pa.table({"x": [1], "at": [{"y": 1}]}))
    (old,) = [task.file.file_path for task in table.scan().plan_files()]
    with table.update_schema(allow_incompatible_changes=True) as update:
        update.add_column("key", LongType(), required=True).add_column("at.z", LongType(), required=True)
    spark.sql("INSERT INTO lake.db.lacks VALUES (2, named_struct('y', 2L, 'z', 2L), 2)")
    for column, name in (("key", "key"), ("at.z", "at.z"), ("at", "at.z")):
        with pytest.raises(Exception, match=rf"{re.escape(old)} lacks the required column '{name}'(?s:.*)make the column optional"):
            sql(f"SELECT {column} FROM lake.db.lacks")
        with pytest.raises(DataFileFormatError, match=f"lacks the required column '{name}'"):
            table.refresh().scan(selected_fields=(column,)).to_arrow()
        with pytest.raises(DataFileFormatError, match=f"lacks the required column '{name}'"):
            table.scan(selected_fields=(column,)).to_spark().collect()
    assert sorted(sql("SELECT x, at.y FROM lake.db.lacks")) == [(1, 1), (2, 2)]
    assert sql("SELECT key FROM lake.db.lacks WHERE x = 2") == [(2,)]  # the other file is not read
    with table.update_schema() as update:
        update.make_column_optional("key")
    assert sorted(sql("SELECT x, key FROM lake.db.lacks")) == [(1, None), (2, 2)]


def test_required_columns_that_always_were_take_nullable_rows_and_are_shown(sql: Run, lake: SqlCatalog) -> None:
    """Also in a table that took another's place, and inside columns that came later: none of their files is older."""
    sql("CREATE TABLE lake.db.r (a BIGINT)")
    append(lake, [(1,)], "db.r")
    sql("CREATE OR REPLACE TABLE lake.db.r (key BIGINT NOT NULL, x BIGINT)")
    source = "(SELECT * FROM VALUES (7L), (CAST(NULL AS BIGINT)) AS t(k) WHERE k > 0 OR k IS NULL)"
    sql(f"INSERT INTO lake.db.r SELECT k, k FROM {source} WHERE k = 7")
    with pytest.raises(Exception, match=r"(?i)null"):
        sql(f"INSERT INTO lake.db.r SELECT k, k FROM {source}")
    assert "key BIGINT NOT NULL" in sql("SHOW CREATE TABLE lake.db.r")[0][0]
    sql("ALTER TABLE lake.db.r ADD COLUMNS (s STRUCT<a: BIGINT NOT NULL>)")
    sql(
        "INSERT INTO lake.db.r SELECT k, k, named_struct('a', k) FROM (SELECT max(k) AS k FROM lake.db.r LATERAL VIEW explode(array(key)) AS k)"
    )
    assert sql("SELECT key, s FROM lake.db.r ORDER BY s NULLS FIRST") == [(7, None), (7, (7,))]


def test_a_column_that_spark_has_no_type_for_is_refused_with_the_ways_to_read_the_others(
    sql: Run, spark: SparkSession, lake: SqlCatalog
) -> None:
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "at", TimestampNanoType()))
    table = lake.create_table("db.n", schema, properties={"format-version": "3"})
    table.append(pa.table({"id": [7], "at": pa.array([1], pa.timestamp("ns"))}))
    with pytest.raises(UnsupportedOperationException, match=r"\(table lake\.db\.n\)(?s:.)*at: type timestamp_ns") as refused:
        sql("SELECT id FROM lake.db.n")
    assert "table.scan(selected_fields=...).to_spark(), which createOrReplaceTempView() opens to SQL" in str(refused.value)
    table.scan(selected_fields=("id",)).to_spark().createOrReplaceTempView("of_other_columns")
    assert sql("SELECT id FROM of_other_columns") == [(7,)]
    with pytest.raises(UnsupportedOperationException, match=r"readable_metrics\.at\.lower_bound") as refused:
        sql("SELECT file_path FROM lake.db.n.files")
    assert 'icefloe.inspect.metadata_table(table, "files").to_arrow()' in str(refused.value)
    assert icefloe.inspect.metadata_table(table, "files").to_arrow().num_rows == 1
    assert sql("SELECT operation FROM lake.db.n.snapshots") == [("append",)]


@pytest.fixture
def manifests_read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The manifests that this process read, but not their lists."""
    locations: list[str] = []
    read = SchemeFileIO.read

    def noted(io: SchemeFileIO, location: str) -> bytes:
        if location.endswith(".avro") and "/snap-" not in location:
            locations.append(location)
        return read(io, location)

    monkeypatch.setattr(SchemeFileIO, "read", noted)
    return locations


def _of_many_manifests(lake: SqlCatalog) -> None:
    table = lake.create_table(
        "db.parts",
        pa.schema([("id", pa.int64())]),
        properties={"commit.manifest-merge.enabled": "false", "write.delete.mode": "merge-on-read"},
    )
    for number in range(8):
        table.append(pa.table({"id": pa.array(range(number * 10, number * 10 + 10), pa.int64())}))
    clear_manifest_caches()


def test_a_limit_reads_no_more_manifests_than_it_needs(spark: SparkSession, sql: Run, lake: SqlCatalog, manifests_read: list[str]) -> None:
    _of_many_manifests(lake)
    manifests_read.clear()
    assert len(spark.sql("SELECT * FROM lake.db.parts LIMIT 7").collect()) == 7
    assert len(manifests_read) == 1
    assert len(sql("SELECT id FROM lake.db.parts LIMIT 1000")) == 80


def test_counting_all_rows_reads_no_manifest(sql: Run, lake: SqlCatalog, manifests_read: list[str]) -> None:
    _of_many_manifests(lake)
    manifests_read.clear()
    assert sql("SELECT count(*), count(*) + 1 FROM lake.db.parts") == [(80, 81)]
    assert not manifests_read
    assert sql("SELECT count(*) FROM lake.db.parts WHERE id >= 30") == [(50,)]
    sql("DELETE FROM lake.db.parts WHERE id = 33")
    assert sql("SELECT count(*) FROM lake.db.parts") == [(79,)]


@pytest.mark.parametrize("size", repetitions(["0", "-1", "-5k"], "0", "-5k"))
def test_a_split_size_of_spark_that_reads_no_rows_is_refused(spark: SparkSession, sql: Run, lake: SqlCatalog, size: str) -> None:
    sql("CREATE TABLE lake.db.t (id BIGINT)")
    append(lake, [(number,) for number in range(10)])
    spark.conf.set("spark.sql.files.maxPartitionBytes", size)
    try:
        with pytest.raises(IllegalArgumentException, match=r"maxPartitionBytes is \S+ bytes, and a split of a file has at least 1"):
            sql("SELECT * FROM lake.db.t")
        # A size of Icefloe's replaces that of Spark.
        sql("ALTER TABLE lake.db.t SET TBLPROPERTIES ('read.split.target-size' = '1000000')")
        assert len(sql("SELECT * FROM lake.db.t")) == 10
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")


@pytest.mark.parametrize(("least", "of_a_processor"), [(1, 1), (3, 0), (200, 4)])
@pytest.mark.usefixtures("sql")
def test_a_job_of_planning_has_few_tasks_and_returns_only_files_that_may_match(
    spark: SparkSession, lake: SqlCatalog, monkeypatch: pytest.MonkeyPatch, least: int, of_a_processor: int
) -> None:
    _of_many_manifests(lake)
    rows_of_tasks: list[int] = []
    tasks: list[int] = []
    monkeypatch.setattr(map_job, "_LEAST_TASKS", least)
    monkeypatch.setattr(map_job, "_TASKS_OF_A_PROCESSOR", of_a_processor)
    parallelize = type(spark.sparkContext).parallelize

    def counted(context: Any, items: Any, slices: int) -> Any:
        tasks.append(slices)
        return parallelize(context, items, slices)

    def collected(session: SparkSession, description: str, action: Any) -> Any:
        results = run_job(session, description, action)
        rows_of_tasks.extend(result.live.entries.num_rows for result in results)
        return results

    monkeypatch.setattr(type(spark.sparkContext), "parallelize", counted)
    monkeypatch.setattr(map_job, "run_job", collected)
    read = spark.read.option("planning-mode", "distributed").table("lake.db.parts").where("id IN (33, 71)")
    assert sorted(row.id for row in read.collect()) == [33, 71]
    assert sum(rows_of_tasks) == 2
    assert tasks == [min(8, max(least, of_a_processor * spark.sparkContext.defaultParallelism))]


def test_the_error_of_a_missing_or_damaged_file_has_the_table_and_the_next_step(spark: SparkSession, sql: Run, lake: SqlCatalog) -> None:
    """Spark's own error has the file. Here its cause has the rest, and the error of the file system or of Parquet as its own cause."""
    create(lake, "id BIGINT, s STRING", **{"format-version": "3", "write.delete.mode": "merge-on-read"})
    append(lake, [(number, f"text {number}") for number in range(1000)])
    table = lake.load_table("db.t")
    (task,) = table.scan().plan_files()
    file = Path(task.file.file_path)
    whole = file.read_bytes()
    damages = {
        "FileNotFoundException": None,
        "is not a Parquet file": b"no file" * 100,
        "FAILED_READ_FILE": whole[:4] + bytes(len(whole) // 3) + whole[4 + len(whole) // 3 :],  # the pages
    }
    for deletes in (False, True):
        if deletes:
            table.delete("id = 5")
        for vectorised, (shown, content) in product(("true", "false"), damages.items()):
            spark.conf.set("spark.sql.parquet.enableVectorizedReader", vectorised)
            file.unlink() if content is None else file.write_bytes(content)
            try:
                with pytest.raises(Exception, match=f"(?s)FAILED_READ_FILE.*{file.name}") as caught:
                    sql("SELECT sum(id), max(s) FROM lake.db.t")
            finally:
                file.write_bytes(whole)
                spark.conf.unset("spark.sql.parquet.enableVectorizedReader")
            texts, java = [], getattr(caught.value, "java_exception", None) or caught.value._origin  # type: ignore[attr-defined]  # of PySpark
            while java is not None:
                texts.append(java.toString())
                java = java.getCause()
            described = next(place for place, text in enumerate(texts) if f"{file.name} of lake.db.t: " in text)
            assert "Next: restore the file from a copy" in texts[described]
            assert f"{file.name} of lake.db.t: " in str(caught.value), str(caught.value)
            assert described < len(texts) - 1
            assert shown in " ".join(texts)
    assert sql("SELECT count(*) FROM lake.db.t") == [(999,)]
