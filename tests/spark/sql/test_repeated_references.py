"""What a statement pays for each reference to a table: one planning for equal filters on one state of a table, and few calls between the JVM and Python."""

from collections.abc import Callable
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.spark.sql.conftest import Run

from icefloe import SqlCatalog
from icefloe.kernel.expressions.predicate import AlwaysTrue
from icefloe.kernel.scan.scan_plan import ScanPlan
from icefloe.kernel.schema.schema import Schema
from icefloe.spark.catalog import attached_catalogs
from icefloe.spark.scan import spark_scan
from icefloe.spark.scan.spark_scan import SharedPlans
from icefloe.table import data_scan

pytestmark = pytest.mark.spark

ROWS = pa.table({"id": pa.array(range(100), pa.int64()), "name": [f"n{row}" for row in range(100)]})
TABLES = 8
# Calls of the JVM for each reference: the relation, its columns, and replies to callbacks that are Java objects.
MOST_CALLS = 4


@pytest.fixture
def tables(lake: SqlCatalog) -> SqlCatalog:
    for number in range(TABLES):
        table = lake.create_table(f"db.t{number}", ROWS.schema)
        table.append(ROWS.slice(0, 50))
        table.append(ROWS.slice(50))
    return lake


@pytest.fixture
def plannings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The filters of the scans that are planned."""
    planned: list[str] = []
    plan_scan = data_scan.plan_scan

    def counted(metadata: Any, snapshot: Any, row_filter: Any, *arguments: Any, **named: Any) -> ScanPlan:
        planned.append(str(row_filter))
        return plan_scan(metadata, snapshot, row_filter, *arguments, **named)

    monkeypatch.setattr(data_scan, "plan_scan", counted)
    return planned


def joined(names: list[str], condition: str = "id < 10") -> str:
    parts = [f"(SELECT id, name AS name{place} FROM {name} WHERE {condition}) r{place}" for place, name in enumerate(names)]
    joins = "".join(f" JOIN {part} ON r0.id = r{place}.id" for place, part in enumerate(parts) if place)
    return f"SELECT count(*), sum(r0.id) FROM {parts[0]}{joins}"


def test_a_table_is_planned_once_however_many_references_a_statement_has(tables: SqlCatalog, sql: Run, plannings: list[str]) -> None:
    assert sql(joined(["lake.db.t0"] * 8)) == [(10, 45)]
    assert len(plannings) == 1


def test_a_state_of_a_table_is_planned_once_for_many_statements(tables: SqlCatalog, sql: Run, plannings: list[str]) -> None:
    for _ in range(3):
        assert sql("SELECT count(name) FROM lake.db.t0 WHERE id < 10") == [(10,)]
    assert len(plannings) == 1
    sql("SELECT count(name) FROM lake.db.t0 WHERE id < 11")
    assert len(plannings) == 2


def test_a_new_state_of_a_table_is_planned_again(tables: SqlCatalog, sql: Run) -> None:
    count = "SELECT count(name) FROM lake.db.t0 WHERE id < 10"
    assert sql(count) == [(10,)]
    tables.load_table("db.t0").append(ROWS.slice(0, 5))
    assert sql(count) == [(15,)]
    sql("DELETE FROM lake.db.t0 WHERE id < 2")
    assert sql(count) == [(11,)]
    location = tables.load_table("db.t0").location()
    tables.drop_table("db.t0")
    tables.create_table("db.t0", ROWS.schema, location=location).append(ROWS.slice(0, 3))
    assert sql(count) == [(3,)]


def test_equal_numbers_of_different_types_have_plans_of_their_own(tables: SqlCatalog, sql: Run) -> None:
    rows = pa.table({"v": pa.array([-0.0, 0.0, 1.0], pa.float64())})
    tables.create_table("db.zeros", rows.schema).append(rows)
    for zero in ("0.0D", "-0.0D"):
        assert sql(f"SELECT count(v) FROM lake.db.zeros WHERE v = {zero}") == [(2,)]


def test_threads_that_run_one_query_get_its_rows(tables: SqlCatalog, spark: SparkSession) -> None:
    found: list[list[Any]] = []
    threads = [Thread(target=lambda: found.append(spark.sql(joined(["lake.db.t1", "lake.db.t2"])).collect())) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [[tuple(row) for row in rows] for rows in found] == [[(10, 45)]] * 6


def test_a_reference_costs_few_calls_of_the_jvm(tables: SqlCatalog, spark: SparkSession) -> None:
    client: Any = spark.sparkContext._gateway._gateway_client  # type: ignore[union-attr]
    text = joined([f"lake.db.t{number}" for number in range(TABLES)])
    spark.sql(text).collect()
    calls = counted_calls(client, lambda: spark.sql(text)._jdf.queryExecution().executedPlan())
    assert calls <= MOST_CALLS * TABLES + 8, f"{calls} calls for {TABLES} references"


def counted_calls(client: Any, action: Callable[[], object]) -> int:
    """Return the number of calls of the JVM, without those that release Java objects."""
    send, calls = client.send_command, 0

    def send_counted(command: str, *arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += not command.startswith("m\n")
        return send(command, *arguments, **named)

    client.send_command = send_counted
    try:
        action()
    finally:
        client.send_command = send
    return calls


def plan_of(files: int) -> ScanPlan:
    part: Any = SimpleNamespace(entries=pa.table({"n": pa.array(range(files), pa.int64())}))
    return ScanPlan(snapshot_id=files, schema=Schema(), row_filter=AlwaysTrue(), parts=(part,))


def test_shared_plans_are_bounded_and_those_not_used_for_longest_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_scan, "SHARED_BYTES", 30_000)
    plans = SharedPlans()
    for number in range(3):
        plans.put((number,), plan_of(1000))
    assert plans.get((0,)) is not None
    plans.put((3,), plan_of(1000))
    assert plans.get((1,)) is None
    assert all(plans.get((number,)) is not None for number in (0, 2, 3))
    plans.put((4,), plan_of(10_000))
    assert plans.get((4,)) is None
    assert plans.get((0,)) is not None


def test_catalogs_of_stopped_sessions_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    attached: dict[str, Any] = {"stopped": SimpleNamespace(is_stopped=True), "running": SimpleNamespace(is_stopped=False)}
    monkeypatch.setattr(attached_catalogs, "ATTACHED", attached)
    attached_catalogs.drop_stopped()
    assert list(attached) == ["running"]
