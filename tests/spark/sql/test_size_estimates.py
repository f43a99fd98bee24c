"""The sizes that Spark's optimizer receives count what filters keep, and joins of tables have sizes: joins are broadcast where little remains."""

from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.spark.merge_on_read import delete_keys, delete_positions

from icefloe import SqlCatalog
from icefloe.spark.scan.pushed_scan import PushedScan
from icefloe.spark.scan.scan_plans import ScanPlans
from icefloe.spark.scan.spark_scan import SparkScan
from icefloe.spark.scan.table_selector import TableSelection
from icefloe.spark.types.spark_types import schema_to_struct
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import LongType, NestedField

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("sql")]

SETTING = "spark.sql.iceberg.size-estimation.enabled"
LIMIT = "spark.sql.autoBroadcastJoinThreshold"
ORDERS, CUSTOMERS = 20_000, 1_000


@pytest.fixture
def shop(spark: SparkSession, lake: SqlCatalog) -> Iterator[SqlCatalog]:
    """Return a catalog with orders, three of each customer's twenty on one day, and their lines, two for each order; Spark broadcasts none of them whole."""
    customers = pa.table({"customer": pa.array(range(CUSTOMERS), pa.int64()), "name": [f"name {row}" for row in range(CUSTOMERS)]})
    orders = pa.table(
        {
            "id": pa.array([row * 4 for row in range(ORDERS)], pa.int64()),
            "by": pa.array([row % CUSTOMERS for row in range(ORDERS)], pa.int64()),
            "day": pa.array([row % 100 for row in range(ORDERS)], pa.int32()),
        }
    )
    lines = pa.table({"order": pa.array([row // 2 * 4 for row in range(2 * ORDERS)], pa.int64()), "price": [1.5] * (2 * ORDERS)})
    for name, rows in {"customers": customers, "orders": orders, "lines": lines}.items():
        lake.create_table(f"db.{name}", rows.schema).append(rows)
    yield lake
    for setting in (LIMIT, SETTING):
        spark.conf.unset(setting)


def bytes_of(spark: SparkSession, text: str) -> int:
    """Return the size of the optimized plan, in which Spark's own scan has replaced that of the table."""
    return int(spark.sql(text)._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())


def joins(spark: SparkSession, text: str) -> list[str]:
    plan = spark.sql(text)._jdf.queryExecution().executedPlan().toString()
    return [join for line in plan.splitlines() for join in ("SortMergeJoin", "BroadcastHashJoin") if join in line]


@pytest.mark.usefixtures("shop")
def test_the_size_of_a_scan_counts_the_rows_that_filters_keep(spark: SparkSession) -> None:
    whole = bytes_of(spark, "SELECT * FROM lake.db.orders")
    assert bytes_of(spark, "SELECT * FROM lake.db.orders WHERE day < 30") == pytest.approx(0.3 * whole, rel=0.01)
    assert bytes_of(spark, "SELECT * FROM lake.db.orders WHERE day >= 20 AND day < 40") == pytest.approx(0.2 * whole, rel=0.01)
    assert bytes_of(spark, "SELECT * FROM lake.db.orders WHERE day = 3") == pytest.approx(0.1 * whole, rel=0.01)
    spark.conf.set(SETTING, "false")
    assert bytes_of(spark, "SELECT * FROM lake.db.orders WHERE day < 30") == whole


def test_the_size_of_a_scan_counts_rows_deleted_by_position_and_not_keys(spark: SparkSession, shop: SqlCatalog) -> None:
    whole, table = bytes_of(spark, "SELECT * FROM lake.db.orders"), shop.load_table("db.orders")
    (task,) = table.scan().plan_files()
    delete_positions(table, {task.file.file_path: range(ORDERS // 4)})
    assert bytes_of(spark, "SELECT * FROM lake.db.orders") == pytest.approx(0.75 * whole, rel=0.01)
    delete_keys(table, pa.table({"id": pa.array(range(ORDERS), pa.int64())}), ["id"])
    assert bytes_of(spark, "SELECT * FROM lake.db.orders") == pytest.approx(0.75 * whole, rel=0.01)


def test_numbers_of_distinct_values_count_for_texts(spark: SparkSession, shop: SqlCatalog) -> None:
    text = "SELECT * FROM lake.db.customers WHERE name = 'name 7'"
    whole = bytes_of(spark, "SELECT * FROM lake.db.customers")
    assert bytes_of(spark, text) == whole
    shop.load_table("db.customers").compute_statistics(["name"])
    assert bytes_of(spark, text) == pytest.approx(0.1 * whole, rel=0.01)


@pytest.mark.usefixtures("shop")
def test_a_table_is_broadcast_by_the_size_of_what_a_filter_keeps(spark: SparkSession) -> None:
    text = "SELECT count(*) FROM lake.db.lines JOIN lake.db.orders ON order = id WHERE day < 15"
    spark.conf.set(LIMIT, str(bytes_of(spark, "SELECT id FROM lake.db.orders") // 5))
    assert joins(spark, text) == ["BroadcastHashJoin"]
    assert spark.sql(text).first() == (6000,)
    spark.conf.set(SETTING, "false")
    assert joins(spark, text) == ["SortMergeJoin"]
    assert spark.sql(text).first() == (6000,)


@pytest.mark.parametrize(("cost_based", "rows"), [(True, ORDERS), (False, ORDERS * 3 // 10)])
def test_a_cost_based_optimizer_counts_a_filter_once(spark: SparkSession, shop: SqlCatalog, cost_based: bool, rows: int) -> None:
    table = shop.load_table("db.orders")
    day = {"kind": "reference", "parts": ["day"]}
    thirty = {"kind": "literal", "type": '"integer"', "value": "30"}
    query = {
        "options": {},
        "zone": "UTC",
        "settings": {},
        "operation": None,
        "uses_statistics": cost_based,
        "filters": [{"kind": "Predicate", "name": "<", "children": [day, thirty]}],
        "schema": schema_to_struct(table.schema(), field_ids=False).json(),
    }
    scan = SparkScan(PushedScan(spark=spark, selected=TableSelection(table=table), query=query, plans=ScanPlans(spark, table)))
    assert scan.estimate_statistics()["numRows"] == rows


JOINED = "SELECT count(*), sum(price) FROM lake.db.customers JOIN lake.db.orders ON customer = by JOIN lake.db.lines ON id = order WHERE day < 15"


def limit_between(spark: SparkSession) -> int:
    """Return a limit of broadcasts above 0.4 times the keys of the orders, and below the lines."""
    limit = int(bytes_of(spark, "SELECT id, by FROM lake.db.orders") * 0.4)
    assert limit < bytes_of(spark, "SELECT order, price FROM lake.db.lines")
    return limit


@pytest.mark.usefixtures("shop")
def test_a_join_by_a_key_is_broadcast_by_its_estimated_size(spark: SparkSession) -> None:
    spark.conf.set(LIMIT, str(limit_between(spark)))
    assert joins(spark, JOINED) == ["BroadcastHashJoin", "BroadcastHashJoin"]
    assert spark.sql(JOINED).first() == (6000, 9000.0)
    for setting, value in ((SETTING, "false"), (LIMIT, "-1")):
        spark.conf.set(setting, value)
        assert "SortMergeJoin" in joins(spark, JOINED), setting
        assert spark.sql(JOINED).first() == (6000, 9000.0)


@pytest.mark.parametrize("kind", ["required", "identifier", "counted"])
def test_keys_are_unique_that_are_dense_or_declared_or_counted(spark: SparkSession, shop: SqlCatalog, kind: str) -> None:
    shop.drop_table("db.customers")
    step = 1 if kind == "required" else 1000
    keys = [row * step for row in range(CUSTOMERS)]
    schema = pa.schema([pa.field("customer", pa.int64(), nullable=False)])
    identified = Schema(NestedField(1, "customer", LongType(), required=True), identifier_field_ids=[1])
    table = shop.create_table("db.customers", identified if kind == "identifier" else schema)
    table.append(pa.table({"customer": keys}, schema=schema))
    spark.conf.set(LIMIT, str(limit_between(spark)))
    if kind == "counted":
        assert "SortMergeJoin" in joins(spark, JOINED)
        shop.load_table("db.customers").compute_statistics(["customer"])
    assert joins(spark, JOINED) == ["BroadcastHashJoin", "BroadcastHashJoin"]


@pytest.mark.usefixtures("shop")
def test_a_join_of_which_much_remains_is_not_broadcast(spark: SparkSession) -> None:
    spark.conf.set(LIMIT, str(limit_between(spark)))
    assert "SortMergeJoin" in joins(spark, JOINED.replace("day < 15", "day < 90"))


def test_numbers_with_one_value_in_most_rows_are_no_key(spark: SparkSession, shop: SqlCatalog) -> None:
    # A join by them has many times the rows of the other side: a broadcast of it would not fit into memory.
    most = CUSTOMERS - CUSTOMERS // 10
    keys = [0] * most + list(range(1, CUSTOMERS - most + 1))[:-1] + [CUSTOMERS + CUSTOMERS // 10]
    skewed = pa.table({"customer": pa.array(keys, pa.int64())})
    shop.create_table("db.skewed", skewed.schema).append(skewed)
    spark.conf.set(LIMIT, str(limit_between(spark)))
    assert "SortMergeJoin" in joins(spark, JOINED.replace("customers", "skewed"))


def test_a_join_without_a_column_that_is_unique_has_no_estimate(spark: SparkSession, shop: SqlCatalog) -> None:
    twice = pa.table({"customer": pa.array([row // 2 for row in range(2 * CUSTOMERS)], pa.int64())})
    shop.create_table("db.twice", twice.schema).append(twice)
    spark.conf.set(LIMIT, str(limit_between(spark)))
    text = JOINED.replace("customers", "twice")
    assert "SortMergeJoin" in joins(spark, text)
    assert spark.sql(text).first() == (12_000, 18_000.0)


@pytest.mark.usefixtures("shop")
def test_a_hint_of_the_query_is_kept(spark: SparkSession) -> None:
    spark.conf.set(LIMIT, str(limit_between(spark)))
    assert joins(spark, JOINED.replace("SELECT", "SELECT /*+ MERGE(lines) */", 1))[0] == "SortMergeJoin"


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("SELECT count(*) FROM lake.db.lines l LEFT JOIN (SELECT id FROM lake.db.orders JOIN lake.db.customers ON by = customer WHERE day < 15) o "
         "ON l.order = o.id", 40_000),
        ("SELECT count(*) FROM lake.db.lines l LEFT SEMI JOIN (SELECT id FROM lake.db.orders JOIN lake.db.customers ON by = customer "
         "WHERE day < 15) o ON l.order = o.id", 6000),
        ("SELECT count(*) FROM lake.db.lines l LEFT ANTI JOIN (SELECT id FROM lake.db.orders JOIN lake.db.customers ON by = customer "
         "WHERE day < 15) o ON l.order = o.id", 34_000),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("shop")
def test_joins_of_other_kinds_broadcast_the_side_that_they_can(spark: SparkSession, text: str, rows: int) -> None:
    spark.conf.set(LIMIT, str(limit_between(spark)))
    assert joins(spark, text) == ["BroadcastHashJoin", "BroadcastHashJoin"]
    assert spark.sql(text).first() == (rows,)


@pytest.mark.usefixtures("shop")
def test_a_join_that_must_keep_its_small_side_is_not_broadcast(spark: SparkSession) -> None:
    spark.conf.set(LIMIT, str(limit_between(spark)))
    text = (
        "SELECT count(*) FROM (SELECT id FROM lake.db.orders JOIN lake.db.customers ON by = customer WHERE day < 15) o "
        "LEFT JOIN lake.db.lines l ON l.order = o.id"
    )
    assert joins(spark, text)[0] == "SortMergeJoin"
    assert spark.sql(text).first() == (6000,)
