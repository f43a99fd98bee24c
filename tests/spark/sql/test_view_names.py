"""The resolution of names in a view's query, and views that were not created by SQL."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession
from tests.named_case import named
from tests.spark.sql.conftest import Run, append

from icefloe import SqlCatalog
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import IntegerType, LongType, NestedField, StringType

pytestmark = pytest.mark.spark

ID = Schema(NestedField(0, "id", LongType()))


@pytest.fixture
def made(sql: Run, lake: SqlCatalog) -> Run:
    sql("CREATE TABLE lake.db.t (id BIGINT, s STRING) USING iceberg")
    append(lake, [(number, str(number)) for number in range(10)])
    return sql


@pytest.fixture
def temporary(made: Run, spark: SparkSession) -> Iterator[Run]:
    made("CREATE OR REPLACE TEMPORARY VIEW passing AS SELECT 1L AS id")
    made("CREATE OR REPLACE GLOBAL TEMPORARY VIEW passing AS SELECT 1L AS id")
    spark.udf.register("passing_by", lambda x: x, "bigint")
    yield made
    made("DROP VIEW passing")
    made("DROP VIEW global_temp.passing")
    made("DROP TEMPORARY FUNCTION passing_by")


OF_ONE_COLUMN = [
    "SELECT id FROM t WHERE id > 7",
    "SELECT id AS other FROM t WHERE id > 7 -- the last ones",
    "WITH a AS (SELECT id AS n FROM t) SELECT n FROM a WHERE n > 7 ORDER BY n;\n",
    "SELECT count(*) + 7 FROM t",
]


def test_a_view_of_one_column_from_the_api_is_read_by_position(made: Run, lake: SqlCatalog) -> None:
    for number, query in enumerate(OF_ONE_COLUMN):
        lake.create_view(f"db.v{number}", query, ID, default_namespace="db")
        assert sorted(made(f"SELECT id FROM lake.db.v{number}")) == ([(17,)] if "count" in query else [(8,), (9,)]), query


def test_columns_of_a_view_from_the_api_are_cast_to_its_types(made: Run, lake: SqlCatalog, spark: SparkSession) -> None:
    schema = Schema(NestedField(0, "a", StringType()), NestedField(1, "b", IntegerType()))
    lake.create_view("db.v", "SELECT id, s FROM t WHERE id = 3", schema, default_namespace="db")
    assert made("SELECT * FROM lake.db.v") == [("3", 3)]
    assert made("SELECT v.b, db.v.a FROM lake.db.v") == [(3, "3")]
    if spark.version >= "4.2":  # before, Spark qualifies the columns of every view by its own catalog
        assert made("SELECT lake.db.v.b FROM lake.db.v") == [(3,)]


FUNCTIONS = {"bucket(100, 'a')": 50, "system.bucket(100, 'a')": 50, "lake.system.bucket(100, 'a')": 50, "length(trim('  abc  '))": 3}


def test_functions_in_a_view_are_resolved_in_its_default_namespace(made: Run, lake: SqlCatalog) -> None:
    for number, call in enumerate(FUNCTIONS):
        schema = Schema(NestedField(0, "x", IntegerType()))
        lake.create_view(f"db.v{number}", f"SELECT {call} AS x", schema, default_namespace="system")
    views = " UNION ALL ".join(f"SELECT {number}, x FROM lake.db.v{number}" for number in range(len(FUNCTIONS)))
    assert sorted(made(views)) == [*enumerate(FUNCTIONS.values())]


OF_TEMPORARY = [
    ("SELECT id FROM passing", "`passing` of the type VIEW"),
    ("SELECT id FROM global_temp.passing", "`global_temp`.`passing` of the type VIEW"),
    ("WITH a AS (SELECT id FROM passing) SELECT id FROM a", "`passing` of the type VIEW"),
    ("SELECT id FROM lake.db.t WHERE id = (SELECT max(id) FROM passing)", "`passing` of the type VIEW"),
    ("SELECT passing_by(id) AS id FROM lake.db.t", "`passing_by` of the type FUNCTION"),
    ("SELECT id FROM lake.db.t WHERE id IN (SELECT passing_by(id) FROM lake.db.t)", "`passing_by` of the type FUNCTION"),
]


def test_a_view_of_a_temporary_view_or_function_is_refused(temporary: Run, lake: SqlCatalog) -> None:
    for (query, temporary_object), create in product(OF_TEMPORARY, ("CREATE VIEW", "CREATE OR REPLACE VIEW")):
        refusal = rf"INVALID_TEMP_OBJ_REFERENCE.*`lake`.`db`.`n`.*{temporary_object}"
        with named(f"{create} {query}"), pytest.raises(AnalysisException, match=refusal):
            temporary(f"{create} lake.db.n AS {query}")
        assert lake.list_views("db") == [], query


def test_a_name_that_the_query_defines_itself_is_not_temporary(temporary: Run) -> None:
    temporary("CREATE VIEW lake.db.v AS WITH passing AS (SELECT 5L AS id) SELECT id FROM passing")
    assert temporary("SELECT * FROM lake.db.v") == [(5,)]


def test_a_view_from_the_api_sees_no_temporary_views_or_functions(temporary: Run, lake: SqlCatalog, spark: SparkSession) -> None:
    queries = ("SELECT id FROM passing", "SELECT id FROM global_temp.passing", "SELECT passing_by(1L) AS id")
    for number, query in enumerate(queries):
        lake.create_view(f"db.v{number}", query, ID, default_namespace="db")
        with named(query), pytest.raises(AnalysisException, match=r"(TABLE_OR_VIEW|ROUTINE)_NOT_FOUND|UNRESOLVED_ROUTINE"):
            spark.sql(f"SELECT * FROM lake.db.v{number}")
    temporary("USE lake.db")
    try:
        temporary("CREATE TEMPORARY VIEW t AS SELECT 100L AS id")
        lake.create_view("db.w", "SELECT id FROM t WHERE id < 2", ID, default_namespace="db")
        assert temporary("SELECT count(*) FROM w") == [(2,)]
    finally:
        temporary("DROP VIEW t")
        temporary("USE spark_catalog.default")


def test_a_query_that_cannot_run_raises_the_error_of_spark(made: Run, lake: SqlCatalog, spark: SparkSession) -> None:
    for query, words in (
        ("SELECT id FROM nowhere", "TABLE_OR_VIEW_NOT_FOUND.*`nowhere`"),
        ("no query", "PARSE_SYNTAX_ERROR|INVALID_VIEW_TEXT"),
        ("SELECT 1) UNION (SELECT 2", "PARSE_SYNTAX_ERROR|INVALID_VIEW_TEXT"),
        ("SELECT gone FROM t", "`gone`"),
    ):
        lake.create_view("db.v", query, ID, default_namespace="db")
        with pytest.raises(AnalysisException, match=words):
            spark.sql("SELECT * FROM lake.db.v")
        made("DROP VIEW lake.db.v")


def test_views_that_read_each_other_are_an_error_and_not_an_endless_loop(made: Run, lake: SqlCatalog) -> None:
    lake.create_view("db.a", "SELECT id FROM b", ID, default_namespace="db")
    lake.create_view("db.b", "SELECT id FROM a", ID, default_namespace="db")
    with pytest.raises(PySparkException, match="VIEW_EXCEED_MAX_NESTED_DEPTH"):
        made("SELECT * FROM lake.db.a")


def test_properties_of_a_view_do_not_change_what_its_query_sees(temporary: Run, lake: SqlCatalog, spark: SparkSession) -> None:
    names = {f"view.referred{kind}Names": '[["passing"]]' for kind in ("TempViews", "TempView", "TempFunctions")}
    lake.create_view("db.v", "SELECT id FROM passing", ID, default_namespace="db", properties={**names, "view.query.out.numCols": "7"})
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.sql("SELECT * FROM lake.db.v")


def test_a_statement_that_spark_cannot_parse_raises_the_error_of_spark(made: Run) -> None:
    with pytest.raises(AnalysisException, match=r"PARAMETER"):
        made("CREATE VIEW lake.db.v AS SELECT * FROM lake.db.t WHERE id = :x")


def test_a_view_is_read_with_the_settings_of_the_session(made: Run, spark: SparkSession) -> None:
    made("CREATE VIEW lake.db.v AS SELECT CAST(TIMESTAMP'2024-01-01 00:00:00Z' AS STRING) AS s")
    before = spark.conf.get("spark.sql.session.timeZone")
    try:
        for zone, text in (("UTC", "2024-01-01 00:00:00"), ("Asia/Tokyo", "2024-01-01 09:00:00")):
            spark.conf.set("spark.sql.session.timeZone", str(zone))
            assert made("SELECT * FROM lake.db.v") == [(text,)]
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(before))


@pytest.mark.usefixtures("no_temporary_views")
def test_views_are_in_nested_namespaces_and_have_columns_with_dots(made: Run, lake: SqlCatalog) -> None:
    lake.create_namespace(("db", "inner"))
    made("CREATE VIEW lake.db.`inner`.`odd name` (`x.y` COMMENT 'dotted') AS SELECT id FROM lake.db.t WHERE id = 1")
    assert made("SELECT `x.y`, `odd name`.`x.y` FROM lake.db.`inner`.`odd name`") == [(1, 1)]
    assert made("SHOW VIEWS IN lake.db.`inner`") == [("db.inner", "odd name", False)]
    with pytest.raises(AnalysisException, match="RECURSIVE_VIEW"):
        made("CREATE OR REPLACE VIEW lake.db.inner.`odd name` AS SELECT * FROM lake.db.inner.`odd name`")
    made("ALTER VIEW lake.db.`inner`.`odd name` RENAME TO db.`odd name`")
    assert made("SELECT * FROM lake.db.`odd name`") == [(1,)]
    made("DROP VIEW lake.db.`odd name`")
    assert lake.list_views("db") == []
    with pytest.raises(PySparkException, match="is not allowed in a name"):  # nor do tables have such names
        made("CREATE VIEW lake.db.`v.w` AS SELECT 1 AS one")


def test_a_view_is_read_as_a_dataframe(made: Run, spark: SparkSession) -> None:
    made("CREATE VIEW lake.db.v AS SELECT id FROM lake.db.t WHERE id < 3")
    found: Any = spark.table("lake.db.v")
    assert sorted(row.id for row in found.where("id > 0").collect()) == [1, 2]
    assert spark.catalog.tableExists("lake.db.v")
    made("CACHE TABLE lake.db.v")
    made("INSERT INTO lake.db.t VALUES (0, 'again')")
    assert made("SELECT count(*) FROM lake.db.v") == [(4,)]
    made("UNCACHE TABLE lake.db.v")
    with pytest.raises(PySparkException, match=r"lake.db.v is a view.*\n.*spark.table\("):
        spark.read.format("icefloe").load("lake.db.v")
