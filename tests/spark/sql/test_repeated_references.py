"""What a statement pays for each reference to a table: one planning for equal filters on one state of a table, and few calls between the JVM and Python."""

import time
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.combinations import repetitions
from tests.spark.sql.conftest import Run, append, stored

from icefloe import SqlCatalog
from icefloe.operations import data_scan
from icefloe.scan.scan_plan import ScanPlan
from icefloe.spark.attach_catalog import attach
from icefloe.spark.bridge.callback import ConnectorObject, PythonCallback
from icefloe.spark.bridge.gateway import has_accelerator, jvm_of, new_object
from icefloe.spark.catalog import attached_catalogs
from icefloe.spark.scan import pushed_scan, read_strategy, scan_plans, spark_scan
from icefloe.spark.scan.scan_plans import ScanCache
from icefloe.table.table import Table

pytestmark = pytest.mark.spark

ROWS = pa.table({"id": pa.array(range(100), pa.int64()), "name": [f"n{row}" for row in range(100)]})
TABLES = 4
# Calls of the JVM for each reference: the relation, its columns, and replies to callbacks that are Java objects.
MOST_CALLS = 4


@pytest.fixture
def tables(request: pytest.FixtureRequest, spark: SparkSession, lake: SqlCatalog) -> SqlCatalog:
    """Tables of a hundred rows in two files: `db.t0` alone, or as many as the parameter."""
    attach(spark, "lake", lake)
    for number in range(getattr(request, "param", 1)):
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
    assert sql(joined(["lake.db.t0"] * 4)) == [(10, 45)]
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


@pytest.mark.slow
@pytest.mark.parametrize("tables", [3], indirect=True)
def test_threads_that_run_one_query_get_its_rows(tables: SqlCatalog, spark: SparkSession) -> None:
    found: list[list[Any]] = []
    threads = [Thread(target=lambda: found.append(spark.sql(joined(["lake.db.t1", "lake.db.t2"])).collect())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [[tuple(row) for row in rows] for rows in found] == [[(10, 45)]] * 3


@pytest.mark.parametrize("tables", [TABLES], indirect=True)
def test_a_reference_costs_few_calls_of_the_jvm(tables: SqlCatalog, spark: SparkSession) -> None:
    client: Any = spark.sparkContext._gateway._gateway_client  # type: ignore[union-attr]
    text = joined([f"lake.db.t{number}" for number in range(TABLES)] * 2)
    spark.sql(text)._jdf.queryExecution().executedPlan()
    calls = counted_calls(client, lambda: spark.sql(text)._jdf.queryExecution().executedPlan())
    assert calls <= MOST_CALLS * TABLES * 2 + 8, f"{calls} calls for {TABLES * 2} references"
    assert counted_calls(client, lambda: has_accelerator(spark)) == 0


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The methods of Python that Java calls."""
    names: list[str] = []
    apply = PythonCallback.apply

    def counted(self: PythonCallback, method: str, message: Any) -> Any:
        names.append(method.split(" ", maxsplit=1)[0])
        return apply(self, method, message)

    monkeypatch.setattr(PythonCallback, "apply", counted)
    return names


@pytest.mark.parametrize("tables", [3], indirect=True)
def test_java_calls_python_once_for_the_tables_of_known_states(tables: SqlCatalog, sql: Run, called: list[str]) -> None:
    text = joined(["lake.db.t0", "lake.db.t1", "lake.db.t2"] * 2)
    rows = sql(text)
    called.clear()
    assert sql(text) == rows
    assert called == ["load_tables"]
    called.clear()
    tables.load_table("db.t0").append(ROWS.slice(0, 5))
    assert sql(text) != rows
    assert called == ["load_tables", "remaining_filters", "build_scan", "rows"]


@pytest.mark.parametrize("tables", [2], indirect=True)
def test_a_scan_that_java_has_kept_can_still_be_explained_and_narrowed(tables: SqlCatalog, sql: Run, spark: SparkSession) -> None:
    for _ in range(2):
        plan = spark.sql("SELECT name FROM lake.db.t0 WHERE id < 10")._jdf.queryExecution().explainString(explain_mode(spark))
        assert "t0" in plan
    # Spark reads the scan of the source and the one of the target, whose filters a MERGE narrows, by equal queries.
    merge = "MERGE INTO lake.db.t1 t USING lake.db.t1 s ON t.id = s.id + 1 WHEN MATCHED AND t.id < 3 THEN UPDATE SET name = s.name"
    assert sql("SELECT * FROM lake.db.t1 ORDER BY id LIMIT 3") == [(0, "n0"), (1, "n1"), (2, "n2")]
    sql(merge)
    assert stored(tables, "id", "name", name="db.t1")[:3] == [(0, "n0"), (1, "n0"), (2, "n1")]
    sql(merge)
    assert stored(tables, "id", "name", name="db.t1")[:3] == [(0, "n0"), (1, "n0"), (2, "n0")]


def explain_mode(spark: SparkSession) -> Any:
    """Return the mode of EXPLAIN EXTENDED."""
    return jvm_of(spark).org.apache.spark.sql.execution.ExplainMode.fromString("extended")


def test_python_drops_the_objects_that_java_has_released(tables: SqlCatalog, sql: Run, spark: SparkSession) -> None:
    returned = attached(spark, "lake").returned
    for number in range(15):
        spark.sql(f"SELECT name FROM lake.db.t0 WHERE id < {number}")._jdf.queryExecution().executedPlan()
    last = returned.keep(ConnectorObject())
    returned.release(last)
    assert last > 30  # a table and a scan for each statement
    deadline = time.monotonic() + 60
    while len(returned) > 20 and time.monotonic() < deadline:
        jvm_of(spark).System.gc()
        sql("SELECT 1 FROM lake.db.t0 LIMIT 1")
    assert len(returned) <= 20


def attached(spark: SparkSession, name: str) -> PythonCallback:
    """Return the connector object of a catalog."""
    return attached_catalogs.ATTACHED[spark.conf.get(f"spark.sql.catalog.{name}.icefloe") or ""]


@pytest.mark.parametrize("tables", [3], indirect=True)
def test_a_view_that_takes_the_name_of_a_known_table_has_its_own_rows(tables: SqlCatalog, sql: Run) -> None:
    for _ in range(2):
        assert sql("SELECT count(*) FROM lake.db.t0") == [(100,)]
    sql("DROP TABLE lake.db.t0")
    sql("CREATE VIEW lake.db.t0 AS SELECT * FROM lake.db.t1 WHERE id < 7")
    for _ in range(2):
        assert sql("SELECT count(*) FROM lake.db.t0") == [(7,)]
    sql("DROP VIEW lake.db.t0")
    other_process(tables).rename_table("db.t2", "db.t0")
    assert sql("SELECT count(*) FROM lake.db.t0") == [(100,)]


def test_properties_that_another_process_changed_are_seen_by_the_next_statement(tables: SqlCatalog, sql: Run) -> None:
    text = "SHOW TBLPROPERTIES lake.db.t0 ('owner-of-rows')"
    for owner in ("ann", "bob"):
        with other_process(tables).load_table("db.t0").transaction() as change:
            change.set_properties({"owner-of-rows": owner})
        for _ in range(2):
            assert sql(text) == [("owner-of-rows", owner)]


def test_a_catalog_that_takes_the_name_of_another_has_its_own_rows(
    tables: SqlCatalog, sql: Run, spark: SparkSession, tmp_path: Path
) -> None:
    text = "SELECT count(name), sum(id) FROM lake.db.t0 WHERE id >= 0"
    for _ in range(2):
        assert sql(text) == [(100, 4950)]
    folder = tmp_path / "other"
    folder.mkdir()
    other = SqlCatalog(tables.name, uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse")
    other.create_namespace("db")
    other.create_table("db.t0", ROWS.schema).append(ROWS.slice(0, 3))
    session = spark.newSession()
    attach(session, "lake", other)
    for _ in range(2):
        assert [tuple(row) for row in session.sql(text).collect()] == [(3, 3)]
        assert sql(text) == [(100, 4950)]
    attach(spark, "lake", other)
    assert sql(text) == [(3, 3)]


def test_each_statement_sees_the_commits_before_it_while_others_commit(tables: SqlCatalog, spark: SparkSession) -> None:
    text = "SELECT count(name) FROM lake.db.t0 WHERE id >= 0"
    committed, wrong, is_done = [100], list[tuple[int, int]](), Event()

    def read() -> None:
        while not is_done.is_set():
            least = committed[-1]
            (row,) = spark.sql(text).collect()
            # One append may end while the statement runs, and its number is noted a moment later.
            if not (least <= row[0] <= committed[-1] + 1):
                wrong.append((least, row[0]))

    threads = [Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    table = other_process(tables).load_table("db.t0")
    for number in range(12):
        table.append(ROWS.slice(number, 1))
        committed.append(committed[-1] + 1)
    is_done.set()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert [tuple(row) for row in spark.sql(text).collect()] == [(112,)]


@pytest.fixture
def native_plans(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tables for which a scan of files is built in the JVM."""
    built: list[str] = []
    native_plan = read_strategy.native_plan

    def counted(spark: SparkSession, request: Any, *arguments: Any) -> Any:
        built.append(request.table_name)
        return native_plan(spark, request, *arguments)

    monkeypatch.setattr(read_strategy, "native_plan", counted)
    return built


def test_a_scan_is_built_once_for_the_references_and_statements_that_read_a_state_alike(
    tables: SqlCatalog, sql: Run, native_plans: list[str]
) -> None:
    for _ in range(3):
        assert sql(joined(["lake.db.t0"] * 4)) == [(10, 45)]
    assert len(native_plans) == 1
    sql("SELECT name FROM lake.db.t0 WHERE id < 10")
    sql("SELECT name FROM lake.db.t0 WHERE id < 10 OR name IS NULL")
    assert len(native_plans) == 3


def test_rows_deleted_by_position_are_left_out_by_one_scan_for_all_references(
    tables: SqlCatalog, sql: Run, native_plans: list[str]
) -> None:
    properties = {"format-version": "3", "write.delete.mode": "merge-on-read"}
    table = tables.create_table("db.t", ROWS.schema, properties=properties)
    table.append(ROWS)
    table.delete("id IN (3, 5, 50)")
    for _ in range(2):
        assert sql(joined(["lake.db.t"] * 2)) == [(8, 37)]
        assert sql("SELECT count(name) FROM lake.db.t WHERE id >= 0") == [(97,)]
    assert len(native_plans) == 2
    table.delete("id = 4")
    assert sql(joined(["lake.db.t"] * 2)) == [(7, 33)]


@pytest.mark.parametrize("tables", [3], indirect=True)
def test_a_statement_without_new_state_computes_nothing_again(tables: SqlCatalog, sql: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("computed again")

    text = joined(["lake.db.t1", "lake.db.t2"])
    rows = sql(text)
    for module, name in (
        (pushed_scan, "true_of_all_rows"),
        (spark_scan, "stored_bytes"),
        (spark_scan, "constant_columns"),
        (spark_scan, "plan_of_rows"),
    ):
        monkeypatch.setattr(module, name, never)
    assert sql(text) == rows


CHANGES: dict[str, tuple[Callable[[Table], object], list[Any]]] = {
    "appended rows": (lambda table: table.append(ROWS.slice(0, 5)), [(65, "n9")]),
    "deleted rows": (lambda table: table.delete("id < 5"), [(55, "n9")]),
    "overwritten rows": (lambda table: table.overwrite(ROWS.slice(0, 2)), [(2, "n1")]),
    "a rollback": (lambda table: table.manage_snapshots().rollback_to_snapshot(table.snapshots()[0].snapshot_id).commit(), [(50, "n9")]),
}


def other_process(lake: SqlCatalog) -> SqlCatalog:
    """Open the catalog again, as another process does."""
    return SqlCatalog(lake.name, **lake.properties)


@pytest.mark.parametrize("change", repetitions(list(CHANGES), "overwritten rows", "a rollback"))
def test_a_commit_of_another_process_is_seen_by_the_next_statement(tables: SqlCatalog, sql: Run, change: str) -> None:
    text = "SELECT count(name), max(name) FROM lake.db.t0 WHERE id < 60"
    assert sql(text) == [(60, "n9")]
    commit, rows = CHANGES[change]
    commit(other_process(tables).load_table("db.t0"))
    assert sql(text) == rows
    assert sql(text) == rows


def test_columns_that_another_process_changed_are_seen_by_the_next_statement(tables: SqlCatalog, sql: Run) -> None:
    text = "SELECT * FROM lake.db.t0 WHERE id = 3"
    assert sql(text) == [(3, "n3")]
    with other_process(tables).load_table("db.t0").update_schema() as update:
        update.rename_column("name", "title").add_column("n", "int")
    assert sql(text) == [(3, "n3", None)]
    assert sql("SELECT title FROM lake.db.t0 WHERE id = 3") == [("n3",)]
    sql("ALTER TABLE lake.db.t0 DROP COLUMN title")
    assert sql(text) == [(3, None)]
    sql("ALTER TABLE lake.db.t0 ADD COLUMN title STRING")
    assert sql("SELECT title FROM lake.db.t0 WHERE id = 3") == [(None,)]


def test_branches_and_past_states_have_values_of_their_own(tables: SqlCatalog, sql: Run) -> None:
    table = tables.load_table("db.t0")
    first = table.snapshots()[0].snapshot_id
    table.manage_snapshots().create_branch(first, "b").create_tag(first, "t").commit()
    text = "SELECT count(name) FROM lake.db.t0{} WHERE id < 70"
    for _ in range(2):
        assert sql(text.format("")) == [(70,)]
        assert sql(text.format(f" VERSION AS OF {first}")) == [(50,)]
        assert sql(text.format(".branch_b")) == [(50,)]
        assert sql(text.format(".tag_t")) == [(50,)]
    table.refresh().append(ROWS.slice(0, 5), branch="b")
    for _ in range(2):
        assert sql(text.format(".branch_b")) == [(55,)]
        assert sql(text.format(".tag_t")) == [(50,)]
        assert sql(text.format("")) == [(70,)]


def test_a_table_that_is_created_again_under_a_name_has_its_own_rows_and_columns(tables: SqlCatalog, sql: Run, lake: SqlCatalog) -> None:
    text = "SELECT * FROM lake.db.t0 WHERE id < 2 ORDER BY id"
    assert sql(text) == [(0, "n0"), (1, "n1")]
    sql("DROP TABLE lake.db.t0")
    sql("CREATE TABLE lake.db.t0 (id BIGINT, name STRING, more INT)")
    append(lake, [(1, "other", 7)], "db.t0")
    for _ in range(2):
        assert sql(text) == [(1, "other", 7)]


def test_settings_of_the_session_that_change_a_scan_are_seen_by_the_next_statement(tables: SqlCatalog, spark: SparkSession) -> None:
    frame = "SELECT name FROM lake.db.t0"
    assert spark.sql(frame).rdd.getNumPartitions() > 1
    spark.conf.set("spark.sql.iceberg.read.adaptive-split-size.enabled", "false")
    try:
        assert spark.sql(frame).rdd.getNumPartitions() == 1
    finally:
        spark.conf.unset("spark.sql.iceberg.read.adaptive-split-size.enabled")
    assert spark.sql(frame).rdd.getNumPartitions() > 1


def test_references_that_share_a_scan_are_joined_and_united_as_tables_of_their_own(tables: SqlCatalog, sql: Run) -> None:
    part = "(SELECT id, name FROM lake.db.t0 WHERE id < 10)"
    assert sql(f"SELECT count(*) FROM {part} a JOIN {part} b ON a.id = b.id + 1 WHERE a.name <> b.name") == [(9,)]
    assert sql(f"SELECT count(*), count(DISTINCT id) FROM (SELECT * FROM {part} UNION ALL SELECT * FROM {part})") == [(20, 10)]
    assert sql(f"SELECT count(*) FROM {part} a WHERE a.id IN (SELECT max(id) FROM {part} b WHERE b.name = a.name)") == [(10,)]
    assert sql(f"SELECT count(*) FROM {part} a LEFT ANTI JOIN {part} b ON a.id = b.id + 1") == [(1,)]


def test_a_session_setting_that_is_no_setting_of_icefloe_is_that_of_the_statement_that_runs(
    tables: SqlCatalog, spark: SparkSession
) -> None:
    text = "SELECT count(name) FROM lake.db.t0 WHERE id < 10"
    for size in ("100", "134217728", "100"):
        spark.conf.set("spark.sql.files.maxPartitionBytes", size)
        spark.conf.set("spark.sql.files.openCostInBytes", "0")
        try:
            assert [tuple(row) for row in spark.sql(text).collect()] == [(10,)]
            partitions = spark.sql("SELECT name FROM lake.db.t0").rdd.getNumPartitions()
            assert (partitions > 10) == (size == "100")
        finally:
            spark.conf.unset("spark.sql.files.maxPartitionBytes")
            spark.conf.unset("spark.sql.files.openCostInBytes")


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


def test_kept_values_are_bounded_in_bytes_and_those_not_used_for_longest_are_dropped_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan_plans, "SHARED_BYTES", 30_000)
    values = ScanCache()
    for number in range(3):
        values.put((number,), f"value {number}", 10_000)
    assert values.get((0,)) == "value 0"
    values.put((3,), "value 3", 10_000)
    assert values.get((1,)) is None
    assert all(values.get((number,)) is not None for number in (0, 2, 3))
    values.put((4,), "too large", 30_001)
    assert values.get((4,)) is None
    assert values.get((0,)) is not None


def test_replies_that_java_keeps_are_bounded_in_bytes(spark: SparkSession) -> None:
    kept = new_object(spark, "KeptReplies")
    third = 2**26 // 3 - 1000
    for name in ("a", "b", "c"):
        kept.put(name, f"value {name}", third)
    assert kept.get("a") == "value a"
    kept.put("d", "value d", third)
    assert kept.get("b") is None
    assert [kept.get(name) for name in ("a", "c", "d")] == ["value a", "value c", "value d"]
    kept.put("a", "too large", 2**26 + 1)
    assert kept.get("a") is None
    kept.put("e" * 2**25, "a key counts too", 0)
    assert [kept.get(name) for name in ("c", "d")] == ["value c", "value d"]
    for _ in range(9):
        kept.put("f", "again", third)
    assert kept.get("d") == "value d"


def test_catalogs_of_stopped_sessions_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    attached: dict[str, Any] = {"stopped": SimpleNamespace(is_stopped=True), "running": SimpleNamespace(is_stopped=False)}
    monkeypatch.setattr(attached_catalogs, "ATTACHED", attached)
    attached_catalogs.drop_stopped()
    assert list(attached) == ["running"]


def test_the_keys_of_kept_values_count_as_their_bytes() -> None:
    kept, text = ScanCache(), "x" * 2**20
    for number in range(200):
        kept.put((number, text), number, 1)
    assert sum(kept.get((number, text)) is not None for number in range(200)) <= scan_plans.SHARED_BYTES // 2**20


def test_each_name_of_a_catalog_that_is_attached_twice_is_that_of_its_scans(
    spark: SparkSession, tables: SqlCatalog, sql: Run, plannings: list[str]
) -> None:
    """The names in EXPLAIN and in errors are those of statements, and not that of the catalog in Python. Plans are kept for each name by itself."""
    names = ("pond", "sea")
    for name in names:
        attach(spark, name, tables)
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    try:
        for name in names * 2:
            (explained,) = sql(f"EXPLAIN EXTENDED SELECT name FROM {name}.db.t0 WHERE id < 7")
            assert f"FileScan parquet {name}.db.t0[" in explained[0]
            assert not [other for other in (*names, tables.name) if other != name and f"{other}.db.t0" in explained[0]]
            assert len(sql(f"SELECT name FROM {name}.db.t0 WHERE id < 7")) == 7
        assert len(plannings) == len(names)
        (joined_plan,) = sql("EXPLAIN SELECT * FROM pond.db.t0 JOIN sea.db.t0 USING (id)")
        assert all(f"FileScan parquet {name}.db.t0[" in joined_plan[0] for name in names)
    finally:
        spark.conf.unset("spark.sql.adaptive.enabled")
    with pytest.raises(Exception, match=r"pond\.db\.t0 has no snapshot 7"):
        sql("SELECT * FROM pond.db.t0 VERSION AS OF 7")
