"""DESCRIBE, SHOW CREATE TABLE, SHOW TBLPROPERTIES and SHOW VIEWS of Iceberg views, with the rows that Spark's connector for Java shows."""

from collections.abc import Iterator

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from tests.combinations import repetitions
from tests.spark.sql.conftest import Run

from icefloe import SqlCatalog
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import IntegerType, NestedField

pytestmark = pytest.mark.spark
QUERY = "SELECT id, data FROM lake.db.t WHERE id <= 3"


@pytest.fixture
def made(sql: Run) -> Iterator[Run]:
    sql("CREATE TABLE lake.db.t (id INT, data STRING) USING iceberg")
    sql(f"CREATE VIEW lake.db.v (new_id COMMENT 'ID', new_data) COMMENT 'view comment' TBLPROPERTIES ('key1' = 'val1') AS {QUERY}")
    yield sql
    sql("USE spark_catalog.default")


@pytest.mark.parametrize("words", repetitions(["DESCRIBE", "DESC", "DESCRIBE TABLE"], "DESC"))
def test_a_view_is_described_by_its_columns(made: Run, words: str) -> None:
    assert made(f"{words} lake.db.v") == [("new_id", "int", "ID"), ("new_data", "string", "")]
    made("USE lake.db")
    assert made(f"{words} v") == [("new_id", "int", "ID"), ("new_data", "string", "")]


@pytest.mark.parametrize(
    "words", repetitions(["DESCRIBE EXTENDED", "DESC FORMATTED", "DESCRIBE TABLE EXTENDED"], "DESCRIBE TABLE EXTENDED")
)
def test_a_view_is_described_with_its_details(made: Run, lake: SqlCatalog, spark: SparkSession, words: str) -> None:
    location = lake.load_view("db.v").location()
    assert made(f"{words} lake.db.v") == [
        ("new_id", "int", "ID"),
        ("new_data", "string", ""),
        ("", "", ""),
        ("# Detailed View Information", "", ""),
        ("Comment", "view comment", ""),
        ("View Catalog and Namespace", "lake.db", ""),
        ("View Query Output Columns", "[id, data]", ""),
        ("View Properties", f"['format-version' = '1', 'key1' = 'val1', 'location' = '{location}', 'provider' = 'iceberg']", ""),
        ("Created By", f"Spark {spark.version}", ""),
    ]


def test_a_view_whose_query_fails_is_described_and_dropped(made: Run, lake: SqlCatalog) -> None:
    lake.create_view("db.broken", "SELECT gone FROM nowhere", Schema(NestedField(0, "gone", IntegerType())))
    assert made("DESCRIBE lake.db.broken") == [("gone", "int", "")]
    assert ("View Query Output Columns", "[]", "") in made("DESCRIBE EXTENDED lake.db.broken")
    assert "SELECT gone FROM nowhere" in made("SHOW CREATE TABLE lake.db.broken")[0][0]
    made("DROP VIEW lake.db.broken")


def test_properties_of_a_view_are_shown(made: Run, lake: SqlCatalog) -> None:
    location = lake.load_view("db.v").location()
    shown = [("format-version", "1"), ("key1", "val1"), ("location", location), ("provider", "iceberg")]
    assert made("SHOW TBLPROPERTIES lake.db.v") == shown
    assert made("SHOW TBLPROPERTIES lake.db.v (provider)") == [("provider", "iceberg")]
    assert made("SHOW TBLPROPERTIES lake.db.v ('key1')") == [("key1", "val1")]
    assert made("SHOW TBLPROPERTIES lake.db.v (non.existing)") == [("non.existing", "View lake.db.v does not have property: non.existing")]


def test_show_create_table_of_a_view_creates_the_same_view(made: Run, lake: SqlCatalog) -> None:
    before = lake.load_view("db.v")
    expected = (
        "CREATE VIEW lake.db.v (\n  new_id COMMENT 'ID',\n  new_data)\nCOMMENT 'view comment'\nTBLPROPERTIES (\n"
        f"  'format-version' = '1',\n  'key1' = 'val1',\n  'location' = '{before.location()}',\n  'provider' = 'iceberg')\nAS\n{QUERY}\n"
    )
    assert made("SHOW CREATE TABLE lake.db.v") == [(expected,)]
    made("DROP VIEW lake.db.v")
    made(expected)
    after = lake.load_view("db.v")
    assert (dict(after.properties), after.location(), after.schema()) == (dict(before.properties), before.location(), before.schema())


def test_a_view_is_created_at_a_location(made: Run, lake: SqlCatalog, tmp_path: object) -> None:
    made(f"CREATE VIEW lake.db.w TBLPROPERTIES ('location' = '{tmp_path}/elsewhere') AS {QUERY}")
    assert lake.load_view("db.w").location() == f"{tmp_path}/elsewhere"


@pytest.mark.usefixtures("no_temporary_views")
def test_views_are_listed_with_temporary_ones(made: Run, lake: SqlCatalog) -> None:
    made(f"CREATE VIEW lake.db.prefix_w AS {QUERY}")
    made("CREATE TEMPORARY VIEW passing AS SELECT 1 AS one")
    made("CREATE GLOBAL TEMPORARY VIEW everywhere AS SELECT 1 AS one")
    lake.create_namespace("other")
    try:
        v, w, passing = ("db", "v", False), ("db", "prefix_w", False), ("", "passing", True)
        assert sorted(made("SHOW VIEWS IN lake.db")) == sorted([v, w, passing])
        assert made("SHOW VIEWS IN lake.other") == [passing]
        assert made("SHOW VIEWS IN lake") == [passing]
        made("USE lake.db")
        assert sorted(made("SHOW VIEWS")) == sorted([v, w, passing])
        assert made("SHOW VIEWS LIKE 'pref*'") == [w]
        assert sorted(made("SHOW VIEWS LIKE 'PREF*|v'")) == sorted([v, w])
        assert made("SHOW VIEWS LIKE 'none'") == []
        assert made("SHOW VIEWS IN spark_catalog.default") == [passing]
        assert made("SHOW VIEWS IN global_temp") == [("global_temp", "everywhere", True), passing]
        with pytest.raises(AnalysisException, match="SCHEMA_NOT_FOUND"):
            made("SHOW VIEWS IN lake.nowhere")
    finally:
        made("DROP VIEW passing")
        made("DROP VIEW global_temp.everywhere")


def test_a_view_is_renamed_into_other_namespaces_of_its_catalog_only(made: Run, lake: SqlCatalog) -> None:
    lake.create_namespace("other")
    made("ALTER VIEW lake.db.v RENAME TO lake.other.w")
    assert made("SELECT count(*) FROM lake.other.w") == [(0,)]
    made("CREATE TABLE lake.other.taken (id INT) USING iceberg")
    with pytest.raises(AnalysisException, match="VIEW_ALREADY_EXISTS"):
        made("ALTER VIEW lake.other.w RENAME TO lake.other.taken")
    with pytest.raises(AnalysisException, match="Cannot move view between catalogs: from=lake and to=spark_catalog"):
        made("ALTER VIEW lake.other.w RENAME TO spark_catalog.default.w")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        made("ALTER VIEW lake.other.nothing RENAME TO lake.other.x")
    assert lake.list_views("other") == [("other", "w")]


def test_replacing_a_view_sets_properties_and_keeps_its_history(made: Run, lake: SqlCatalog) -> None:
    made(
        "CREATE OR REPLACE VIEW lake.db.v (only COMMENT 'one') COMMENT 'newer' TBLPROPERTIES ('key2' = 'val2') AS SELECT id FROM lake.db.t"
    )
    view = lake.load_view("db.v")
    assert [(field.name, field.doc) for field in view.schema().fields] == [("only", "one")]
    assert [view.properties[key] for key in ("comment", "key2", "spark.query-column-names")] == ["newer", "val2", "id"]
    assert [entry.version_id for entry in view.history()] == [1, 2]


def test_a_query_in_another_dialect_is_not_run_and_not_replaced(made: Run, lake: SqlCatalog) -> None:
    schema = Schema(NestedField(0, "one", IntegerType()))
    lake.create_view("db.trino", {"trino": "SELECT 1 AS one"}, schema)
    with pytest.raises(Exception, match="has no query in Spark's SQL"):
        made("SELECT * FROM lake.db.trino")
    with pytest.raises(Exception, match="trino"):
        made("CREATE OR REPLACE VIEW lake.db.trino AS SELECT 2 AS one")
    assert lake.load_view("db.trino").sql_for("spark").sql == "SELECT 1 AS one"
    made("CREATE OR REPLACE VIEW lake.db.trino TBLPROPERTIES ('replace.drop-dialect.allowed' = 'true') AS SELECT 2 AS one")
    assert made("SELECT * FROM lake.db.trino") == [(2,)]
