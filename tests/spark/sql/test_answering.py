"""Objects of Spark's connector that Python answers for, through the one class of Java's that stands for them: what is equal, kept, refused and raised."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException, UnsupportedOperationException
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import SparkSession
from tests.spark.sql.conftest import Run

from icefloe.spark.bridge.callback import PythonCallback, _asked
from icefloe.spark.bridge.gateway import jvm_of
from icefloe.spark.catalog.spark_table import SparkTable
from icefloe.spark.scan.pushed_scan import SparkScan

pytestmark = pytest.mark.spark


def loaded(spark: SparkSession, name: str = "t") -> Any:
    """The table as Spark has it."""
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
def test_two_loads_of_a_state_are_equal(sql: Run, spark: SparkSession) -> None:
    one, other = loaded(spark), loaded(spark)
    assert one.equals(other)
    assert one.hashCode() == other.hashCode()
    assert one.toString() == "lake.db.t"
    assert not one.equals("lake.db.t")
    sql("INSERT INTO lake.db.t VALUES (3, 'c')")
    assert not one.equals(loaded(spark))


@pytest.mark.usefixtures("table")
def test_answers_become_what_the_methods_of_spark_return(spark: SparkSession) -> None:
    found = loaded(spark)
    assert [one.toString() for one in found.partitioning()] == ["identity(kind)", "bucket(4, id)", "truncate(2, kind)"]
    assert found.schema().simpleString() == "struct<id:bigint,kind:string>"
    assert [one.name() for one in found.columns()] == ["id", "kind"]  # which Spark makes of the schema
    assert found.capabilities().size() == (6 if spark.version < "4.1" else 7)  # which knows one more
    file = found.metadataColumns()[0]
    assert (file.name(), file.dataType().simpleString()) == ("_file", "string")


@pytest.mark.usefixtures("table")
def test_what_is_not_answered_is_refused_by_its_name(spark: SparkSession) -> None:
    plan = spark.sql("SELECT id FROM lake.db.t")._jdf.queryExecution().analyzed()
    scan = loaded(spark).newScanBuilder(plan.child().child().options()).build()
    with pytest.raises(UnsupportedOperationException, match="SupportsReportStatistics has no answer to filter"):
        scan.filter(None)


def test_methods_of_one_name_are_told_apart_by_their_parameters() -> None:
    kind: Any = SparkTable
    assert {name for name in _asked(kind) if name.startswith(("deleteWhere", "truncateTable"))} == {"deleteWhere/1", "truncateTable/0"}


def test_a_query_asks_few_questions(sql: Run, spark: SparkSession, table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is a way to Python and back. What Spark asks dozens of times, such as for a table's schema, is said once."""
    counts: Counter[str] = Counter()
    real = PythonCallback.apply

    def counted(self: PythonCallback, question: str, argument: Any) -> Any:
        counts[f"{type(self).__name__}.{question}"] += 1
        return real(self, question, argument)

    monkeypatch.setattr(PythonCallback, "apply", counted)
    assert sql(f"SELECT id FROM {table} WHERE id > 1 AND kind = 'b'") == [(2,)]
    assert set(counts.values()) == {1}, counts
    assert len(counts) <= 11, counts
    counts.clear()
    sql(f"UPDATE {table} SET id = 5 WHERE id = 2")
    assert {name: count for name, count in counts.items() if name.startswith("RowLevelOperation")} == {
        "RowLevelOperation.describe": 1,
        "RowLevelOperation.new_scan_builder": 1,
        "RowLevelOperation.run": 1,
    }


@pytest.mark.usefixtures("table")
def test_errors_of_spark_keep_their_class_where_rows_are_computed(sql: Run, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's errors of analysis are checked ones for Java: one that a method does not declare must not be hidden."""

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
def test_errors_of_spark_keep_their_words_and_condition_everywhere(sql: Run, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: Any) -> Any:
        return spark.sql("SELECT no_such_column FROM lake.db.t")

    monkeypatch.setattr(SparkScan, "says", failing)
    with pytest.raises(IllegalArgumentException, match="no_such_column") as caught:
        sql("SELECT id FROM lake.db.t")
    error: CapturedException = caught.value
    assert str(error.getCondition()).startswith("UNRESOLVED_COLUMN")


@pytest.mark.usefixtures("table")
def test_an_object_that_threads_share_answers_each(spark: SparkSession) -> None:
    """What was answered is forgotten at another call: a thread that asks meanwhile still gets its answer."""
    found, options = loaded(spark), jvm_of(spark).org.apache.spark.sql.util.CaseInsensitiveStringMap.empty()
    with ThreadPoolExecutor(4) as pool:
        builders = [pool.submit(lambda: [found.newScanBuilder(options) for _ in range(100)]) for _ in range(2)]
        parts = [pool.submit(lambda: [len(found.partitioning()) for _ in range(500)]) for _ in range(2)]
    assert all(one.result() == [3] * 500 for one in parts)
    assert all(None not in one.result() for one in builders)
