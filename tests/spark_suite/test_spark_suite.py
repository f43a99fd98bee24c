"""How the run of Spark's own tests reads files of SQL and compares results; the run itself is `make test-spark-suite`."""

from pathlib import Path

import pytest
from tests.jvm_suite.differences import Difference, Outcome, unused
from tests.spark_suite.compared import compared, read_golden, unlike_golden
from tests.spark_suite.sql_file import VIEW, read_sql_file, uses_tables

FILE = """
--SET spark.sql.a=1, spark.sql.b=x
--CONFIG_DIM1 spark.sql.c=first
--CONFIG_DIM1 spark.sql.c=second
--IMPORT common.sql
-- A comment; with a semicolon.
CREATE TABLE t AS SELECT 1;
SELECT '\\;'
FROM t; -- what it returned
--QUERY-DELIMITER-START
BEGIN
  SELECT 1;
  SELECT 2;
END;
--QUERY-DELIMITER-END
SELECT 3
"""


def test_a_file_has_the_statements_and_settings_of_its_imports(tmp_path: Path) -> None:
    (tmp_path / "common.sql").write_text("--SET spark.sql.a=0,spark.sql.d=4\nSELECT 0;\n")
    (tmp_path / "all.sql").write_text(FILE)
    file = read_sql_file(tmp_path, "all.sql")
    assert file.statements == (
        "SELECT 0",
        "CREATE TABLE t AS SELECT 1",
        "SELECT '\\;'\nFROM t",
        "BEGIN\n  SELECT 1;\n  SELECT 2;\nEND",
        "SELECT 3",
    )
    assert file.settings == {"spark.sql.a": "1", "spark.sql.b": "x", "spark.sql.c": "first", "spark.sql.d": "4"}
    assert uses_tables(tmp_path, "all.sql")
    assert not uses_tables(tmp_path, "common.sql")


@pytest.mark.parametrize(
    ("sql", "parts"),
    [
        ("create or replace temporary view v as values (1)", ("v", None, "values (1)")),
        ("CREATE TEMP VIEW v(a, b) AS\nSELECT 1, 2", ("v", "(a, b)", "SELECT 1, 2")),
        ("create global temporary view v as select 1", None),
        ("create view v as select 1", None),
    ],
)
def test_temporary_views_are_recognised(sql: str, parts: tuple[str, str | None, str] | None) -> None:
    found = VIEW.fullmatch(sql)
    assert (found and (found["name"], found["columns"], found["query"])) == parts


def _result(**values: object) -> dict[str, object]:
    return {
        "method": "1",
        "seconds": 0.0,
        "sql": "SELECT a FROM t",
        "schema": "struct<a:int>",
        "rows": ["1", "2"],
        "sorted": False,
        **values,
    }


@pytest.mark.parametrize(
    ("judge", "result", "status"),
    [
        ({}, {"rows": ["2", "1"]}, "passed"),
        ({"sorted": True}, {"rows": ["2", "1"]}, "failed"),
        ({}, {"rows": ["1", "3"]}, "failed"),
        ({}, {"rows": ["1"]}, "failed"),
        ({}, {"schema": "struct<a:bigint>"}, "failed"),
        ({}, {"error": "E", "message": ""}, "failed"),
        ({"error": "E", "message": "one"}, {"error": "E", "message": "other"}, "passed"),
        ({"error": "E", "message": ""}, {"error": "F", "message": ""}, "failed"),
        ({"error": "E", "message": ""}, {}, "failed"),
        ({"error": "E.F", "message": ""}, {"error": "a.SparkException", "message": "a.SparkException: [E.F] it failed"}, "passed"),
        ({"error": "E.F", "message": ""}, {"error": "a.SparkException", "message": "a.SparkException: [E.G] it failed"}, "failed"),
        ({"error": "ArithmeticException", "message": ""}, {"error": "java.lang.ArithmeticException", "message": "it failed"}, "passed"),
        ({"schema": "struct<>", "rows": []}, {"schema": "struct<num_affected_rows:bigint>", "rows": ["1"]}, "passed"),
        ({"sql": "DESC t", "rows": ["a   \tint \t  "]}, {"sql": "DESC t", "rows": ["a\tint\t"]}, "passed"),
        ({"sql": "DESC t", "rows": ["a   \tint \t  "]}, {"sql": "DESC t", "rows": ["a\tbigint\t"]}, "failed"),
        ({"sql": "SHOW VIEWS", "rows": ["v"]}, {"sql": "SHOW VIEWS", "rows": ["n\tv\tfalse"]}, "passed"),
        ({"sql": "SHOW VIEWS", "rows": ["v"]}, {"sql": "SHOW VIEWS", "rows": ["v\tw\tfalse"]}, "failed"),
        ({"schema": "struct<outer(spark_catalog.default.t.a):int>"}, {"schema": "struct<outer(lake.default.t.a):int>"}, "passed"),
    ],
)
def test_results_are_compared(judge: dict[str, object], result: dict[str, object], status: str) -> None:
    assert compared("f.sql", [_result(**judge)], [_result(**result)])["f.sql.1"].status == status


GOLDEN = """-- Automatically generated
-- !query
SELECT a
FROM t
-- !query schema
struct<a:int>
-- !query output
1
2


-- !query
SELECT b FROM t
-- !query schema
struct<>
-- !query output
org.apache.spark.sql.AnalysisException
{
  "errorClass" : "UNRESOLVED_COLUMN.WITH_SUGGESTION",
  "sqlState" : "42703"
}


-- !query
SELECT c FROM t
-- !query schema
struct<>
-- !query output
java.lang.ArithmeticException
Overflow


-- !query
INSERT INTO t VALUES (3)
-- !query schema
struct<>
-- !query output

"""


def test_results_that_spark_expects_need_no_other_judge() -> None:
    golden = read_golden(GOLDEN)
    assert [one["method"] for one in golden] == ["1", "2", "3", "4"]
    failed = {"method": "2", "sql": "SELECT b FROM t", "error": "UNRESOLVED_COLUMN.WITH_SUGGESTION", "message": ""}
    computed = {"method": "3", "sql": "SELECT c FROM t", "error": "ArithmeticException", "message": "Overflow"}
    inserted = {"method": "4", "sql": "INSERT INTO t VALUES (3)", "schema": "struct<num_affected_rows:bigint>", "rows": ["1"]}
    assert not unlike_golden(golden, [_result(rows=["2", "1"]), failed, computed, inserted])
    others = [_result(rows=["2", "3"]), {**failed, "error": "OTHER"}, _result(method="3"), {**inserted, "sql": "INSERT"}]
    assert unlike_golden(golden, others) == {"1", "2", "3", "4"}
    assert unlike_golden(golden, [_result(method="5")]) == {"5"}


def test_a_statement_that_only_one_of_the_two_ran_differs() -> None:
    assert compared("f.sql", [], [_result()])["f.sql.1"].status == "failed"
    assert compared("f.sql", [_result()], [{"method": "1", "seconds": 0.0, "reason": "the JVM ended"}])["f.sql.1"].status == "failed"
    assert compared("f.sql", [_result()], [])["f.sql.1"].status == "failed"


def test_entries_of_the_list_that_differ_no_more_are_found() -> None:
    listed = [Difference(method, "spark", "", sometimes=False) for method in ("a.sql.1", "a.sql.2", "a.sql.9", "b.sql.1", "*.sql.7")]
    found = {f"a.sql.{number}": Outcome(f"a.sql.{number}", status) for number, status in ((1, "failed"), (2, "passed"))}
    assert unused(listed, found, lambda method: method.rpartition(".")[0], every_class=False) == ["a.sql.2", "a.sql.9"]
    assert unused(listed, found, lambda method: method.rpartition(".")[0], every_class=True) == ["a.sql.2", "a.sql.9", "*.sql.7"]
