"""The classes of errors of SQL statements: Spark's conditions where Spark has them, the names of Java's core for its errors, and next steps in SQL."""

from typing import Any

import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException, PySparkException
from pyspark.sql import SparkSession
from tests.named_case import named
from tests.spark.sql.conftest import Run, append

from icefloe import SqlCatalog
from icefloe.catalog.in_memory_catalog import InMemoryCatalog
from icefloe.errors import CommitConflictError, CommitInvalidatedError, CommitUnknownError, NoSuchFileError
from icefloe.procedures import procedure_names
from icefloe.spark.attach_catalog import register
from icefloe.spark.bridge.callback import connector_method
from icefloe.spark.bridge.java_compiler import EXCEPTIONS
from icefloe.spark.catalog.spark_catalog import SparkCatalog

pytestmark = pytest.mark.spark


@pytest.fixture
def made(sql: Run, lake: SqlCatalog) -> Run:
    sql("CREATE TABLE lake.db.t (id BIGINT, s STRING) USING iceberg")
    append(lake, [(1, "a")])
    return sql


CONDITIONS = [
    ("SELECT * FROM lake.db.nothing", "TABLE_OR_VIEW_NOT_FOUND"),
    ("DROP TABLE lake.db.nothing", "TABLE_OR_VIEW_NOT_FOUND"),
    ("CREATE TABLE lake.db.t (id INT) USING iceberg", "TABLE_OR_VIEW_ALREADY_EXISTS"),
    ("CREATE TABLE lake.nowhere.t (id INT) USING iceberg", "SCHEMA_NOT_FOUND"),
    ("CREATE NAMESPACE lake.db", "SCHEMA_ALREADY_EXISTS"),
    ("DROP NAMESPACE lake.db", "SCHEMA_NOT_EMPTY"),
    ("DROP VIEW lake.db.nothing", "VIEW_NOT_FOUND"),
    ("CREATE VIEW lake.db.t AS SELECT 1 AS one", "VIEW_ALREADY_EXISTS"),
    ("CREATE VIEW lake.db.v AS SELECT * FROM lake.db.nothing", "TABLE_OR_VIEW_NOT_FOUND"),
    ("CREATE OR REPLACE VIEW lake.db.v AS SELECT nothing FROM lake.db.t", "UNRESOLVED_COLUMN.WITH_SUGGESTION"),
    ("CALL lake.system.nothing()", "ROUTINE_NOT_FOUND"),
    ("CALL lake.elsewhere.expire_snapshots(table => 'db.t')", "ROUTINE_NOT_FOUND"),
    ("ALTER TABLE lake.db.t CREATE BRANCH", "PARSE_SYNTAX_ERROR"),
]


def test_an_error_with_a_condition_of_spark_is_an_analysis_error_with_that_condition(made: Run) -> None:
    for statement, condition in CONDITIONS:
        with named(statement), pytest.raises(AnalysisException) as caught:
            made(statement)
        assert caught.value.getCondition() == condition, statement


def test_the_error_of_an_unknown_procedure_lists_all_procedures(made: Run) -> None:
    with pytest.raises(AnalysisException, match=r"routine lake\.system\.nothing cannot be found") as caught:
        made("CALL lake.system.nothing()")
    assert all(name in str(caught.value) for name in (*procedure_names(), "create_changelog_view"))


@pytest.mark.parametrize(
    ("statement", "name", "words"),
    [
        ("SELECT * FROM lake.db.t VERSION AS OF 7", "ValidationException", "7"),
        ("CALL lake.system.rollback_to_snapshot('db.t', -1)", "ValidationException", "-1"),
        ("ALTER TABLE lake.db.t SET TBLPROPERTIES ('commit.retry.num-retries' = 'x')", None, "commit.retry.num-retries"),
        ("ALTER TABLE lake.db.t ADD PARTITION FIELD bucket(0, id)", None, "bucket"),
    ],
)
def test_errors_have_the_class_names_of_java_s_core(made: Run, statement: str, name: str | None, words: str) -> None:
    with pytest.raises(PySparkException, match=words) as caught:
        made(statement)
    assert "InvalidStatement" not in str(caught.value)
    if name is not None:
        assert isinstance(caught.value, IllegalArgumentException)
        origin: Any = caught.value._origin
        assert origin.getClass().getName() == f"org.apache.iceberg.exceptions.{name}"


class Failing(SparkCatalog):
    """A catalog method that raises the error it was created with."""

    def __init__(self, spark: SparkSession, error: Exception) -> None:
        super().__init__(spark, "failing", InMemoryCatalog("failing"))
        self._error = error

    @connector_method
    def load_table(self, _: Any) -> Any:
        raise self._error


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (CommitInvalidatedError("100% wrong", next_step="look at table.snapshots()"), "ValidationException"),
        (CommitConflictError("100% wrong", next_step="look at table.snapshots()"), "CommitFailedException"),
        (CommitUnknownError("100% wrong", next_step="look at table.snapshots()"), "CommitStateUnknownException"),
        (NoSuchFileError("100% wrong", next_step="look at table.snapshots()"), "NotFoundException"),
    ],
)
def test_each_failed_outcome_of_a_commit_has_its_own_exception(spark: SparkSession, sql: Run, error: Exception, name: str) -> None:
    register(spark, "failing", Failing(spark, error))
    with pytest.raises(IllegalArgumentException) as caught:
        sql("SELECT * FROM failing.db.t")
    origin: Any = caught.value._origin
    assert (name in EXCEPTIONS, origin.getClass().getName()) == (True, f"org.apache.iceberg.exceptions.{name}")
    assert str(origin.getMessage()) == "100% wrong\n  Next: look at the table .snapshots"


def test_the_next_step_of_a_refused_statement_is_a_statement(made: Run) -> None:
    with pytest.raises(PySparkException, match=r"(?s)Next: .*SET TBLPROPERTIES") as caught:
        made("ALTER TABLE lake.db.t ALTER COLUMN id SET DEFAULT 5")
    assert "set_properties" not in str(caught.value)
