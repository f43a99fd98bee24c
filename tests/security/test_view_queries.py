"""The query of a view that others wrote reads tables: it runs no commands, calls no methods of Java and shows nothing of this machine."""

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tests.combinations import combinations

from icefloe.catalog import load_catalog
from icefloe.catalog.catalog import Catalog
from icefloe.spark import attach
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import LongType, NestedField, StringType

pytestmark = pytest.mark.spark
COLUMNS = Schema(NestedField(1, "x", StringType(), False))
CALL = "reflect('java.lang.System', 'getProperty', 'user.name')"


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    folder = tmp_path_factory.mktemp("views")
    catalog = load_catalog("hostile", uri=f"sqlite:///{folder}/c.db", warehouse=str(folder))
    catalog.create_namespace("db")
    attach(spark, "hostile", catalog)
    catalog.create_table("db.t", pa.schema([("id", pa.int64())])).append(pa.table({"id": [1]}))
    return catalog


@pytest.mark.parametrize(
    ("query", "place"),
    combinations(
        [
            "SELECT TRANSFORM(id) USING 'id' AS (x string) FROM hostile.db.t",
            "FROM hostile.db.t MAP id USING 'id' AS x",
            "SELECT x FROM (FROM hostile.db.t REDUCE id USING 'id' AS x)",
            f"SELECT {CALL} AS x",
            f"SELECT system.builtin.{CALL} AS x",
            "SELECT java_method('java.lang.System', 'setProperty', 'icefloe.hostile', 'x') AS x",
            "SELECT Try_Reflect('java.lang.System', 'getProperty', 'user.name') AS x",
            "SELECT IDENTIFIER('ref' || 'lect')('java.lang.System', 'getProperty', 'user.name') AS x",
            f"SELECT string(col) AS x FROM IDENTIFIER('exp' || 'lode')(array({CALL}))",
            f"SELECT (SELECT {CALL}) AS x",
            f"WITH a AS (SELECT {CALL} AS x) SELECT x FROM a",
            f"SELECT * FROM VALUES ({CALL}) AS v(x)",
            f"SELECT string(col) AS x FROM explode(array({CALL}))",
            f"SELECT v.x FROM hostile.db.t, LATERAL (SELECT {CALL} AS x) v",
            f"SELECT string(sum(1) OVER w) AS x FROM hostile.db.t WINDOW w AS (ORDER BY {CALL})",
            "SELECT value AS x FROM text.`/etc/hostname`",
            "SELECT value AS x FROM text.`secrets.txt`",
            "SELECT value AS x FROM `org.apache.spark.sql.execution.datasources.v2.text.TextDataSourceV2`.`http://127.0.0.1:9/x`",
        ],
        [None, "spark_catalog"],
    ),
)
def test_a_view_that_does_more_than_read_tables_is_refused(spark: SparkSession, lake: Catalog, query: str, place: str | None) -> None:
    lake.create_or_replace_view("db.v", query, COLUMNS, default_catalog=place, default_namespace=("default",) if place else ("db",))
    with pytest.raises(PySparkException, match="does more than read tables"):
        spark.sql("SELECT * FROM hostile.db.v").collect()


def test_a_statement_cannot_make_such_a_view(spark: SparkSession, lake: Catalog) -> None:
    with pytest.raises(PySparkException, match="does more than read tables: reflect"):
        spark.sql(f"CREATE VIEW hostile.db.made AS SELECT {CALL} AS x")
    assert not lake.view_exists("db.made")


def test_a_view_shows_no_variable_of_the_machine(spark: SparkSession, lake: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "${env:HOME}${system:user.name}${spark.app.id}"
    lake.create_or_replace_view("db.variables", f"SELECT '{text}' AS x", COLUMNS, default_namespace=("db",))
    assert spark.sql("SELECT x FROM hostile.db.variables").collect() == [(text,)]


def test_the_maker_of_a_view_may_use_variables(spark: SparkSession, lake: Catalog) -> None:
    spark.sql("SET icefloe.test.variable=seven")
    spark.sql("CREATE OR REPLACE VIEW hostile.db.named AS SELECT '${icefloe.test.variable}' AS x")
    spark.sql("SET icefloe.test.variable=eight")
    assert spark.sql("SELECT x FROM hostile.db.named").collect() == [("seven",)]


@pytest.mark.parametrize("text", ["\\", "'", "\\' || user() || '", "x\n;--", "${env:HOME}"])
@pytest.mark.parametrize("escaped", ["true", "false"])
def test_a_default_is_the_same_text_however_spark_reads_literals(spark: SparkSession, lake: Catalog, text: str, escaped: str) -> None:
    lake.drop_table("db.defaults") if lake.table_exists("db.defaults") else None
    columns = Schema(
        NestedField(1, "id", LongType(), False), NestedField(2, "x", StringType(), False, initial_default=text, write_default=text)
    )
    lake.create_table("db.defaults", columns, properties={"format-version": "3"})
    # Spark 4.0 fills no column that an INSERT leaves out; DEFAULT inserts the same literal.
    row = "(id) VALUES (1)" if spark.version >= "4.1" else "(id, x) VALUES (1, DEFAULT)"
    spark.conf.set("spark.sql.parser.escapedStringLiterals", escaped)
    try:
        spark.sql(f"INSERT INTO hostile.db.defaults {row}")
    finally:
        spark.conf.unset("spark.sql.parser.escapedStringLiterals")
    assert lake.load_table("db.defaults").scan().to_arrow()["x"].to_pylist() == [text]
