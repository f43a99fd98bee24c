"""Objects of Spark's connector that are implemented in Python: equality, results, unsupported methods, errors, threads."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException, UnsupportedOperationException
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import SparkSession
from tests.spark.sql.conftest import Run

from icefloe.spark.bridge.callback import PythonCallback
from icefloe.spark.bridge.gateway import jvm_of
from icefloe.spark.catalog.spark_table import SparkTable
from icefloe.spark.scan.pushed_scan import SparkScan

pytestmark = pytest.mark.spark


def loaded(spark: SparkSession, name: str = "t") -> Any:
    """Return the connector table of a plan, an object of Java."""
    plan = spark.table(f"lake.db.{name}")._jdf.queryExecution().analyzed()
    while not hasattr(plan, "table") or plan.nodeName() == "SubqueryAlias":
        plan = plan.child()
    return plan.table()


@pytest.fixture
def table(sql: Run) -> str:
    sql("CREATE TABLE lake.db.t (id bigint, kind string) PARTITIONED BY (kind, bucket(4, id), truncate(2, kind))")
    sql("INSERT INTO lake.db.t VALUES (1, 'a'), (2, 'b')")
    return "lake.db.t"


@pytest.mark.usefixtures("table")
def test_two_loads_of_the_same_table_state_are_equal(sql: Run, spark: SparkSession) -> None:
    one, other = loaded(spark), loaded(spark)
    assert one.equals(other)
    assert one.hashCode() == other.hashCode()
    assert one.toString() == "lake.db.t"
    assert not one.equals("lake.db.t")
    sql("INSERT INTO lake.db.t VALUES (3, 'c')")
    assert not one.equals(loaded(spark))


@pytest.mark.usefixtures("table")
def test_results_of_python_have_the_types_that_spark_declares(spark: SparkSession) -> None:
    found = loaded(spark)
    assert [one.toString() for one in found.partitioning()] == ["identity(kind)", "bucket(4, id)", "truncate(2, kind)"]
    assert found.schema().simpleString() == "struct<id:bigint,kind:string>"
    assert [one.name() for one in found.columns()] == ["id", "kind"]  # a default method of Spark, over the schema
    assert found.capabilities().size() == (6 if spark.version < "4.1" else 7)  # Spark 4.1 added one
    file = found.metadataColumns()[0]
    assert (file.name(), file.dataType().simpleString()) == ("_file", "string")


@pytest.mark.usefixtures("table")
def test_a_method_that_python_lacks_is_refused_by_its_name(spark: SparkSession) -> None:
    plan = spark.sql("SELECT id FROM lake.db.t")._jdf.queryExecution().analyzed()
    scan = loaded(spark).newScanBuilder(plan.child().child().options()).build()
    with pytest.raises(UnsupportedOperationException, match="SupportsReportStatistics has no answer to filter"):
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

    monkeypatch.setattr(SparkScan, "says", failing)
    with pytest.raises(IllegalArgumentException, match="no_such_column") as caught:
        sql("SELECT id FROM lake.db.t")
    error: CapturedException = caught.value
    assert str(error.getCondition()).startswith("UNRESOLVED_COLUMN")


@pytest.mark.usefixtures("table")
def test_an_object_returns_its_results_to_several_threads(spark: SparkSession) -> None:
    """The proxy keeps a result until another method is called; a thread that reads it meanwhile still gets it."""
    found, options = loaded(spark), jvm_of(spark).org.apache.spark.sql.util.CaseInsensitiveStringMap.empty()
    with ThreadPoolExecutor(4) as pool:
        builders = [pool.submit(lambda: [found.newScanBuilder(options) for _ in range(100)]) for _ in range(2)]
        parts = [pool.submit(lambda: [len(found.partitioning()) for _ in range(500)]) for _ in range(2)]
    assert all(one.result() == [3] * 500 for one in parts)
    assert all(None not in one.result() for one in builders)
