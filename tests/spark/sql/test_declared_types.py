"""Types that a statement declares and an Iceberg table cannot keep: collations, texts of a length and, on Spark 4.3, timestamps in nanoseconds."""

import logging
from collections.abc import Callable, Iterator

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tests.spark.sql.conftest import Run

from icefloe import SqlCatalog

pytestmark = pytest.mark.spark

LENGTH, COLLATION = "no texts of a bounded length", "no collations"
# Types, with the path of the part that is refused, and why.
REFUSED = {
    "VARCHAR(3)": ("x", LENGTH),
    "ARRAY<CHAR(2)>": ("x.element", LENGTH),
    "STRUCT<a: MAP<STRING, VARCHAR(2)>>": ("x.a.value", LENGTH),
    "STRING COLLATE UTF8_LCASE": ("x", COLLATION),
    "STRUCT<a: ARRAY<STRING COLLATE UNICODE>>": ("x", COLLATION),
    "MAP<INT, STRING COLLATE UNICODE_CI>": ("x", COLLATION),
}
PLACES = {
    "CREATE": "CREATE TABLE lake.db.new (id INT, x {}) USING iceberg",
    "REPLACE": "CREATE OR REPLACE TABLE lake.db.t (x {}) USING iceberg",
    "ADD": "ALTER TABLE lake.db.t ADD COLUMN x {}",
    "ADD inside": "ALTER TABLE lake.db.t ADD COLUMN s.x {}",
}
AS_STRING = "spark.sql.legacy.charVarcharAsString"


def error_of(run: Callable[[], object]) -> str:
    with pytest.raises(PySparkException) as raised:
        run()
    return str(raised.value)


@pytest.fixture
def made(sql: Run) -> Run:
    sql("CREATE TABLE lake.db.t (id INT, x0 STRING, s STRUCT<a: INT>) USING iceberg")
    return sql


@pytest.fixture
def spark_table(spark: SparkSession) -> Iterator[str]:
    """Return the name of a table of Spark itself with texts of a length."""
    name = "spark_catalog.default.texts_of_a_length"
    spark.sql(f"CREATE TABLE {name} (v VARCHAR(3), c CHAR(4)) USING parquet")
    spark.sql(f"INSERT INTO {name} VALUES ('abc', 'x')")
    yield name
    spark.sql(f"DROP TABLE {name}")


def test_a_type_that_the_table_cannot_keep_is_refused_by_name_wherever_it_is_declared(made: Run, lake: SqlCatalog) -> None:
    before = lake.load_table("db.t").schema()
    for place, statement in PLACES.items():
        for declared, (path, rule) in REFUSED.items():
            error = error_of(lambda statement=statement, declared=declared: made(statement.format(declared)))
            assert f"{'s.' if place == 'ADD inside' else ''}{path}: type " in error, (place, declared, error)
            assert rule in error, (place, declared, error)
            assert "Next: declare the column as STRING" in error, (place, declared, error)
    assert lake.load_table("db.t").schema() == before
    assert not lake.table_exists("db.new")


def test_a_query_with_such_columns_makes_no_table_and_no_view(made: Run, spark: SparkSession, lake: SqlCatalog, spark_table: str) -> None:
    collated = "SELECT 'a' COLLATE UTF8_LCASE AS x"
    made("ALTER TABLE lake.db.t SET TBLPROPERTIES ('write.spark.accept-any-schema' = 'true')")
    for run, rule in [
        (lambda: made(f"CREATE TABLE lake.db.new USING iceberg AS {collated}"), COLLATION),
        (lambda: made(f"CREATE TABLE lake.db.new USING iceberg AS SELECT * FROM {spark_table}"), LENGTH),
        (lambda: spark.table(spark_table).writeTo("lake.db.new").create(), LENGTH),
        (lambda: spark.table(spark_table).write.format("iceberg").saveAsTable("lake.db.new"), LENGTH),
        (lambda: made(f"CREATE VIEW lake.db.new AS {collated}"), "collate UTF8_LCASE"),
        (
            lambda: spark.sql(f"SELECT 1 AS id, {collated[7:]}").writeTo("lake.db.t").option("merge-schema", "true").append(),
            "collate UTF8_LCASE",
        ),
    ]:
        assert rule in error_of(run)
    assert not lake.table_exists("db.new")
    made(f"CREATE TABLE lake.db.new USING iceberg AS SELECT CAST(v AS STRING) AS v FROM {spark_table}")
    made("INSERT INTO lake.db.t (id, x0, s) SELECT 1, 'a' COLLATE UTF8_LCASE, null")  # a column is what it is, whatever the rows are
    assert made("SELECT x0 FROM lake.db.t WHERE x0 = 'A'") == []


def test_a_default_collation_is_refused_but_that_by_bytes(made: Run, spark: SparkSession, lake: SqlCatalog) -> None:
    if spark.version < "4.1":
        pytest.skip("this Spark has no default collations of tables of a connector")
    made("CREATE TABLE lake.db.by_bytes (id INT, x STRING COLLATE UTF8_BINARY) USING iceberg DEFAULT COLLATION UTF8_BINARY")
    made("ALTER TABLE lake.db.by_bytes DEFAULT COLLATION UTF8_BINARY")
    assert "collation" not in lake.load_table("db.by_bytes").properties
    for statement in (
        "CREATE TABLE lake.db.new (id INT) USING iceberg DEFAULT COLLATION UTF8_LCASE",
        "CREATE OR REPLACE TABLE lake.db.t (id INT, x STRING) USING iceberg DEFAULT COLLATION UTF8_LCASE",
        "ALTER TABLE lake.db.t DEFAULT COLLATION UNICODE",
    ):
        assert COLLATION in error_of(lambda statement=statement: made(statement)), statement
    assert not lake.table_exists("db.new")


def test_a_session_may_take_texts_of_a_length_for_strings(
    made: Run, spark: SparkSession, lake: SqlCatalog, spark_table: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        made(f"CALL lake.system.snapshot('{spark_table}', 'db.snapshot')")
    assert "CHAR(n) or VARCHAR(n): v, c" in caplog.text
    spark.conf.set(AS_STRING, "true")
    try:
        made("CREATE TABLE lake.db.new (v VARCHAR(3), l ARRAY<CHAR(2)>) USING iceberg")
        made("ALTER TABLE lake.db.new ADD COLUMN c CHAR(4)")
        made(f"CREATE TABLE lake.db.copy USING iceberg AS SELECT * FROM {spark_table}")
    finally:
        spark.conf.unset(AS_STRING)
    types = {
        name: [str(field.field_type) for field in lake.load_table(f"db.{name}").schema().fields] for name in ("new", "copy", "snapshot")
    }
    assert types == {"new": ["string", "list<string>", "string"], "copy": ["string", "string"], "snapshot": ["string", "string"]}


def test_a_comparison_under_a_collation_loses_no_row(sql: Run) -> None:
    sql("CREATE TABLE lake.db.t (x STRING, n INT) USING iceberg")
    sql("INSERT INTO lake.db.t VALUES ('A', 1)")
    sql("INSERT INTO lake.db.t VALUES ('b', 2)")
    for condition in ("x = 'a' COLLATE UTF8_LCASE", "x COLLATE UTF8_LCASE IN ('a', 'z')", "startswith(x COLLATE UTF8_LCASE, 'a')"):
        assert sql(f"SELECT n FROM lake.db.t WHERE {condition}") == [(1,)], condition
    sql("DELETE FROM lake.db.t WHERE x = 'a' COLLATE UTF8_LCASE")
    assert sql("SELECT n FROM lake.db.t") == [(2,)]


def test_nanoseconds_of_spark_have_an_error_that_names_the_column(made: Run, spark: SparkSession, lake: SqlCatalog) -> None:
    if spark.version < "4.3":
        pytest.skip("this Spark has no such type")
    value = "CAST('2024-01-01 00:00:00.123456789' AS TIMESTAMP_NTZ(9))"
    spark.conf.set("spark.sql.timestampNanosTypes.enabled", "true")
    try:
        for statement, path in [
            (
                "CREATE TABLE lake.db.new (id INT, x ARRAY<TIMESTAMP_LTZ(7)>) USING iceberg TBLPROPERTIES ('format-version' = '3')",
                "x.element",
            ),
            (f"CREATE TABLE lake.db.new USING iceberg TBLPROPERTIES ('format-version' = '3') AS SELECT {value} AS x", "x"),
            ("ALTER TABLE lake.db.t ADD COLUMN s.x TIMESTAMP_NTZ(9)", "s.x"),
        ]:
            error = error_of(lambda statement=statement: made(statement))
            assert f"{path}: type timestamp_" in error, error
            assert "Next: declare the column as TIMESTAMP_NTZ" in error, error
    finally:
        spark.conf.unset("spark.sql.timestampNanosTypes.enabled")
    assert not lake.table_exists("db.new")


def test_an_exception_of_sparks_parser_is_the_one_that_it_threw(spark: SparkSession, sql: Run) -> None:
    """Spark's parser throws other checked exceptions than its interface declares, such as for the name of a collation."""
    sql("SELECT 1")
    for run in (
        lambda: sql("SELECT CAST('a' AS STRING COLLATE NOPE)"),
        lambda: sql("EXPLAIN SELECT CAST('a' AS STRING COLLATE NOPE)"),
        lambda: spark.range(1).selectExpr("CAST(id AS STRING COLLATE NOPE)"),
        lambda: spark.read.schema("a STRING COLLATE NOPE").json("/nowhere"),
    ):
        with pytest.raises(Exception, match="COLLATION_INVALID_NAME") as raised:
            run()
        assert "UndeclaredThrowable" not in str(raised.value)
