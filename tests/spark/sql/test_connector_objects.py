"""Objects of Spark's connector that are implemented in Python: equality, results, unsupported methods, errors, threads."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException, UnsupportedOperationException
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import SparkSession
from tests.spark.sql.conftest import Run, append

from icefloe import SqlCatalog
from icefloe.spark.bridge.callback import PythonCallback, connector_method
from icefloe.spark.bridge.gateway import java_array, jvm_of
from icefloe.spark.catalog.spark_table import SparkTable
from icefloe.spark.scan.spark_scan import SparkScan

pytestmark = pytest.mark.spark


def loaded(spark: SparkSession, name: str = "t") -> Any:
    """Return the connector table of a plan, an object of Java."""
    plan = spark.table(f"lake.db.{name}")._jdf.queryExecution().analyzed()
    while not hasattr(plan, "table") or plan.nodeName() == "SubqueryAlias":
        plan = plan.child()
    return plan.table()


@pytest.fixture
def table(sql: Run, lake: SqlCatalog) -> str:
    sql("CREATE TABLE lake.db.t (id bigint, kind string) PARTITIONED BY (kind, bucket(4, id), truncate(2, kind))")
    append(lake, [(1, "a"), (2, "b")])
    return "lake.db.t"


@pytest.mark.usefixtures("table")
def test_two_loads_of_the_same_table_state_are_equal(sql: Run, lake: SqlCatalog, spark: SparkSession) -> None:
    one, other = loaded(spark), loaded(spark)
    assert one.equals(other)
    assert one.hashCode() == other.hashCode()
    assert one.toString() == "lake.db.t"
    assert not one.equals("lake.db.t")
    append(lake, [(3, "c")])
    assert not one.equals(loaded(spark))


@pytest.mark.usefixtures("table")
def test_results_of_python_have_the_types_that_spark_declares(spark: SparkSession) -> None:
    found = loaded(spark)
    assert [transform.toString() for transform in found.partitioning()] == ["identity(kind)", "bucket(4, id)", "truncate(2, kind)"]
    assert found.schema().simpleString() == "struct<id:bigint,kind:string>"
    assert [one.name() for one in found.columns()] == ["id", "kind"]  # a default method of Spark, over the schema
    assert found.capabilities().size() == (8 if spark.version < "4.1" else 9)  # Spark 4.1 added one
    file = found.metadataColumns()[0]
    assert (file.name(), file.dataType().simpleString()) == ("_file", "string")


@pytest.mark.usefixtures("table")
def test_a_method_that_python_lacks_is_refused_by_its_name(spark: SparkSession) -> None:
    plan = spark.sql("SELECT id FROM lake.db.t")._jdf.queryExecution().analyzed()
    scan = loaded(spark).newScanBuilder(plan.child().child().options()).build()
    with pytest.raises(UnsupportedOperationException, match="SupportsReportStatistics does not implement filter"):
        scan.filter(None)


@pytest.mark.usefixtures("table")
def test_constant_results_of_a_table_need_no_call_of_python(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark reads some of them dozens of times for one query, and each call of Python is a round trip between processes."""
    table = loaded(spark)

    def unreachable(*_: Any) -> Any:
        raise AssertionError("Java called Python")

    monkeypatch.setattr(PythonCallback, "apply", unreachable)
    assert table.name() == "lake.db.t"
    assert table.schema().simpleString() == "struct<id:bigint,kind:string>"
    assert table.capabilities().size() >= 6
    assert table.properties().get("provider") == "iceberg"


@pytest.mark.usefixtures("table")
def test_methods_with_and_without_parameters_are_both_found(sql: Run, spark: SparkSession) -> None:
    assert loaded(spark).truncateTable()
    assert sql("SELECT * FROM lake.db.t") == []


@pytest.mark.usefixtures("table")
def test_errors_of_spark_keep_their_class_where_a_write_computes_rows(
    sql: Run, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`AnalysisException` is a checked exception of Java: one that a method does not declare must not be wrapped in another."""

    def failing(*_: Any) -> Any:
        return spark.sql("SELECT no_such_column FROM lake.db.t")

    with pytest.raises(AnalysisException, match="Invalid view name"):
        sql("CALL lake.system.create_changelog_view(table => 'db.t', changelog_view => 'no name')")
    monkeypatch.setattr(SparkTable, "row_level", failing)
    with pytest.raises(AnalysisException, match="UNRESOLVED_COLUMN"):
        sql("UPDATE lake.db.t SET id = 4 WHERE id = 1")
    monkeypatch.setattr(SparkTable, "write", failing)
    with pytest.raises(AnalysisException, match="UNRESOLVED_COLUMN"):
        sql("INSERT INTO lake.db.t VALUES (4, 'd')")


@pytest.mark.usefixtures("table")
def test_errors_of_spark_keep_their_message_and_condition_everywhere(
    sql: Run, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: Any) -> Any:
        return spark.sql("SELECT no_such_column FROM lake.db.t")

    monkeypatch.setattr(SparkScan, "constants", failing)
    with pytest.raises(AnalysisException, match="no_such_column"):
        sql("SELECT id FROM lake.db.t")
    monkeypatch.setattr(SparkTable, "partitioning", failing)
    with pytest.raises(IllegalArgumentException, match="no_such_column") as caught:
        loaded(spark).partitioning()
    error: CapturedException = caught.value
    assert str(error.getCondition()).startswith("UNRESOLVED_COLUMN")


def options_of(spark: SparkSession) -> Any:
    """Return the options of a read that has none."""
    return jvm_of(spark).org.apache.spark.sql.util.CaseInsensitiveStringMap.empty()


def predicate(spark: SparkSession, name: str, column: str) -> Any:
    """Return a predicate of Spark's connector on a column."""
    expressions = jvm_of(spark).org.apache.spark.sql.connector.expressions
    operands = java_array(spark, "org.apache.spark.sql.connector.expressions.Expression", [expressions.FieldReference.column(column)])
    return expressions.filter.Predicate(name, operands)


def predicates(spark: SparkSession, *members: Any) -> Any:
    """Return an array of predicates."""
    return java_array(spark, "org.apache.spark.sql.connector.expressions.filter.Predicate", members)


@pytest.mark.usefixtures("table")
def test_threads_that_share_a_table_get_their_own_replies(spark: SparkSession) -> None:
    """Calls with arguments replace the kept results that other threads read at the same time, and each call resolves indexes by its own arguments."""
    table = loaded(spark)

    def read_partitioning() -> bool:
        return all(table.partitioning()[0].toString() == "identity(kind)" for _ in range(200))

    def push(name: str, column: str) -> bool:
        for _ in range(60):
            builder = table.newScanBuilder(options_of(spark))
            builder.pushPredicates(predicates(spark, predicate(spark, name, column)))
            if [found.toString() for found in builder.pushedPredicates()] != [predicate(spark, name, column).toString()]:
                return False
        return True

    def delete_condition(name: str, column: str) -> bool:
        array = predicates(spark, predicate(spark, name, column))
        return all(table.canDeleteWhere(array) for _ in range(60))

    with ThreadPoolExecutor(6) as pool:
        running = [pool.submit(read_partitioning) for _ in range(2)]
        running += [pool.submit(push, name, column) for name, column in (("IS_NULL", "id"), ("IS_NOT_NULL", "kind"))]
        running += [pool.submit(delete_condition, name, column) for name, column in (("IS_NULL", "kind"), ("IS_NOT_NULL", "id"))]
        assert [future.result(timeout=120) for future in running] == [True] * 6


@pytest.mark.usefixtures("table")
def test_a_result_from_before_another_threads_change_is_not_kept(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    table = loaded(spark)
    computed, released = threading.Event(), threading.Event()
    real = SparkTable.partitioning
    calls: list[int] = []

    def slow(self: SparkTable) -> Any:
        partitioning = real(self)
        calls.append(1)
        if not computed.is_set():
            computed.set()
            assert released.wait(60)
        return partitioning

    monkeypatch.setattr(SparkTable, "partitioning", slow)
    with ThreadPoolExecutor(1) as pool:
        early = pool.submit(lambda: len(table.partitioning()))
        assert computed.wait(60)
        table.canDeleteWhere(predicates(spark, predicate(spark, "IS_NULL", "id")))
        released.set()
        count = early.result(timeout=60)
    for _ in range(2):
        assert len(table.partitioning()) == count
    assert len(calls) == 2


@pytest.mark.usefixtures("table")
def test_a_slow_method_keeps_no_other_method_waiting(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    scan = loaded(spark).newScanBuilder(options_of(spark)).build()
    entered, released = threading.Event(), threading.Event()
    calls: list[int] = []

    def slow(_: SparkScan) -> str:
        calls.append(1)
        entered.set()
        assert released.wait(60)
        return "slow"

    monkeypatch.setattr(SparkScan, "description", slow)
    with ThreadPoolExecutor(4) as pool:
        descriptions = [pool.submit(scan.description) for _ in range(3)]
        assert entered.wait(60)
        assert len(pool.submit(scan.filterAttributes).result(timeout=60)) == 2
        released.set()
        assert [future.result(timeout=60) for future in descriptions] == ["slow"] * 3
    assert len(calls) == 1


class Returning(PythonCallback):
    """A callback whose reply is a new object of Java."""

    def __init__(self, spark: SparkSession) -> None:
        self.jvm = jvm_of(spark)

    @connector_method
    def rows(self) -> Any:
        """Return an object that nothing else refers to."""
        return self.jvm.java.util.ArrayList()


@pytest.mark.usefixtures("table")
def test_an_object_of_java_that_a_callback_returns_reaches_java(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    client: Any = spark.sparkContext._gateway._gateway_client  # type: ignore[union-attr]
    drop = client.garbage_collect_object
    # Py4J has the JVM drop objects in a thread of its own, which at times is faster than the reply. That thread calls this method too, by position.
    monkeypatch.setattr(client, "garbage_collect_object", lambda target_id, _enqueue=True: drop(target_id, False))
    names = jvm_of(spark).java.util.HashMap()
    names.put("call", "rows")
    assert str(names.merge("call", "null", Returning(spark))) == "[]"
