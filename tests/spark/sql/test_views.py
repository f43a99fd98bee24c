"""Views in Spark SQL: created, read with pushdown, changed, described and dropped; a view means the same in every current namespace."""

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession
from tests.named_case import named
from tests.spark.sql.conftest import Run, append

from icefloe import SqlCatalog
from icefloe.errors import NoSuchViewError
from icefloe.view.view import View

pytestmark = pytest.mark.spark


def own_properties(view: View) -> dict[str, str]:
    """Return the properties that the engine did not set."""
    return {key: value for key, value in view.properties.items() if not key.endswith("engine_version")}


@pytest.fixture
def made(sql: Run, lake: SqlCatalog) -> Run:
    sql("CREATE TABLE lake.db.t (id BIGINT, k BIGINT, s STRING) USING iceberg PARTITIONED BY (k)")
    append(lake, [(number, number % 3, str(number)) for number in range(30)])
    sql("""CREATE VIEW lake.db.v (x COMMENT "it's x", y) COMMENT 'my view' TBLPROPERTIES ('a' = 'b')
           AS SELECT id + 1, k FROM lake.db.t WHERE id > 3""")
    return sql


def test_a_query_of_a_view_is_planned_by_its_tables(made: Run, lake: SqlCatalog) -> None:
    assert made("SELECT count(*), sum(x) FROM lake.db.v WHERE y = 1") == [(9, 153)]
    plan = made("EXPLAIN SELECT x FROM lake.db.v WHERE y = 1")[0][0]
    assert "PlannedFiles(1 paths)" in plan
    assert "GreaterThan(id,3)" in plan
    view = lake.load_view("db.v")
    assert (view.schema().names, view.schema().find_field("x").doc) == (["x", "y"], "it's x")
    assert own_properties(view) == {"a": "b", "comment": "my view", "spark.query-column-names": "(id + 1),k"}
    assert view.sql_for("spark").sql == "SELECT id + 1, k FROM lake.db.t WHERE id > 3"


@pytest.mark.usefixtures("no_temporary_views")
def test_names_in_a_view_are_resolved_where_it_was_created(made: Run) -> None:
    made("USE lake.db")
    try:
        made("CREATE VIEW w AS SELECT v.x, t.s FROM v JOIN t ON v.x = t.id")
        assert made("SHOW VIEWS") == [("db", "v", False), ("db", "w", False)]
    finally:
        made("USE spark_catalog.default")
    assert made("SELECT count(*), min(s) FROM lake.db.w") == [(25, "10")]
    assert sorted(made("SELECT a.x FROM lake.db.w a JOIN lake.db.v b ON a.x = b.x WHERE a.x < 7")) == [(5,), (6,)]
    made("USE lake")  # the catalog without a namespace
    try:
        made("CREATE VIEW db.u AS SELECT count(*) AS n FROM db.t")
        made("CREATE OR REPLACE VIEW db.u AS SELECT count(*) + 1 AS n FROM db.w")
    finally:
        made("USE spark_catalog.default")
    assert made("SELECT n FROM lake.db.u") == [(26,)]


READING_ITSELF = [
    "CREATE OR REPLACE VIEW lake.db.v AS SELECT * FROM lake.db.v",
    "CREATE OR REPLACE VIEW lake.db.v AS SELECT x FROM lake.db.u WHERE x > 3",
    "ALTER VIEW lake.db.v AS SELECT id AS x, k AS y FROM lake.db.t WHERE id IN (SELECT x FROM lake.db.w)",
]


def test_a_view_that_would_read_itself_is_refused(made: Run, lake: SqlCatalog) -> None:
    made("CREATE VIEW lake.db.u AS SELECT x, y FROM lake.db.v")
    made("CREATE VIEW lake.db.w AS WITH a AS (SELECT * FROM lake.db.u) SELECT max(x) AS x FROM a")
    before = lake.load_view("db.v").metadata
    for statement in READING_ITSELF:
        with named(statement), pytest.raises(AnalysisException, match=r"RECURSIVE_VIEW.*cycle: `lake`.`db`.`v` -> .*`lake`.`db`.`v`\)"):
            made(statement)
        assert lake.load_view("db.v").metadata == before, statement
    made("CREATE OR REPLACE VIEW lake.db.u AS SELECT u.x FROM lake.db.v AS u")
    assert made("SELECT count(*) FROM lake.db.u") == [(26,)]


@pytest.mark.usefixtures("no_temporary_views")
def test_a_view_is_changed_renamed_and_dropped(made: Run, lake: SqlCatalog) -> None:
    made("CREATE OR REPLACE VIEW lake.db.v AS SELECT s FROM lake.db.t WHERE id = 2")
    assert made("SELECT * FROM lake.db.v") == [("2",)]
    made("ALTER VIEW lake.db.v AS SELECT k, s FROM lake.db.t WHERE id = 3")
    assert made("SELECT * FROM lake.db.v") == [(0, "3")]
    made("ALTER VIEW lake.db.v SET TBLPROPERTIES ('p' = 'q')")
    made("ALTER VIEW lake.db.v UNSET TBLPROPERTIES ('a')")
    assert own_properties(lake.load_view("db.v")) == {"p": "q", "comment": "my view", "spark.query-column-names": "k,s"}
    made("ALTER VIEW lake.db.v RENAME TO lake.db.w")
    assert made("SHOW VIEWS IN lake.db LIKE 'w*'") == [("db", "w", False)]
    made("DROP VIEW lake.db.w")
    made("DROP VIEW IF EXISTS lake.db.w")
    with pytest.raises(NoSuchViewError):
        lake.load_view("db.w")
    with pytest.raises(AnalysisException, match="VIEW_NOT_FOUND"):
        made("DROP VIEW lake.db.w")
    with pytest.raises(AnalysisException, match="SCHEMA_NOT_FOUND"):
        made("SHOW VIEWS IN lake.nowhere")


def test_a_view_is_described_and_created_again_from_its_text(made: Run, lake: SqlCatalog) -> None:
    assert made("DESCRIBE lake.db.v")[:2] == [("x", "bigint", "it's x"), ("y", "bigint", "")]
    assert made("SHOW COLUMNS IN lake.db.v") == [("x",), ("y",)]
    assert made("SHOW TBLPROPERTIES lake.db.v ('a')") == [("a", "b")]
    before = lake.load_view("db.v")
    text = made("SHOW CREATE TABLE lake.db.v")[0][0]
    made("DROP VIEW lake.db.v")
    made(text)
    after = lake.load_view("db.v")
    assert (after.schema().fields, dict(after.properties)) == (before.schema().fields, dict(before.properties))
    assert after.sql_for("spark").sql == before.sql_for("spark").sql


INVALID = [
    ("CREATE VIEW lake.db.v AS SELECT 1 AS x", "VIEW_ALREADY_EXISTS"),
    ("CREATE VIEW lake.db.t AS SELECT 1 AS x", "VIEW_ALREADY_EXISTS"),
    ("CREATE VIEW lake.db.n AS SELECT nothing FROM lake.db.t", "UNRESOLVED_COLUMN"),
    ("CREATE VIEW lake.db.n (a, b) AS SELECT id FROM lake.db.t", "(?s)NOT_ENOUGH_DATA_COLUMNS.*View columns: a, b.*Data columns: id"),
    ("CREATE VIEW lake.db.n (a) AS SELECT id, k FROM lake.db.t", "(?s)TOO_MANY_DATA_COLUMNS.*View columns: a.*Data columns: id, k"),
    ("CREATE VIEW lake.db.n AS SELECT id, id FROM lake.db.t", "The column `id` already exists"),
    ("CREATE VIEW lake.db.n AS SELECT nothing()", "UNRESOLVED_ROUTINE"),
    ("INSERT INTO lake.db.v VALUES (1, 2)", "EXPECT_TABLE_NOT_VIEW"),
    ("SELECT * FROM lake.db.v VERSION AS OF 3", "has no snapshots"),
]


def test_invalid_views_are_refused(made: Run, lake: SqlCatalog) -> None:
    for statement, words in INVALID:
        with named(statement), pytest.raises(PySparkException, match=words):
            made(statement)
        assert [name[-1] for name in lake.list_views("db")] == ["v"], statement


def test_a_query_that_no_longer_runs_raises_the_error_of_spark_s_analyzer(made: Run, spark: SparkSession) -> None:
    made("ALTER TABLE lake.db.t RENAME COLUMN id TO number")
    with pytest.raises(AnalysisException, match=r"(?s)UNRESOLVED_COLUMN.*`id`.*`lake`\.`db`\.`v`"):
        spark.sql("SELECT * FROM lake.db.v")


def test_create_table_like_copies_the_definition(made: Run, lake: SqlCatalog) -> None:
    made("ALTER TABLE lake.db.t WRITE ORDERED BY id")
    made("CREATE TABLE lake.db.l LIKE lake.db.t TBLPROPERTIES ('mine' = 'yes')")
    known, found = lake.load_table("db.t").metadata, lake.load_table("db.l").metadata
    assert [field.name for field in found.schema().fields] == ["id", "k", "s"]
    assert (len(found.spec().fields), found.sort_order().is_unsorted) == (1, False)
    assert dict(found.properties) == {**known.properties, "mine": "yes"}
    assert made("SELECT count(*) FROM lake.db.l") == [(0,)]


def test_a_view_keeps_the_columns_it_was_created_with(sql: Run, lake: SqlCatalog) -> None:
    sql("CREATE TABLE lake.db.t (id BIGINT, kind STRING) USING iceberg")
    append(lake, [(1, "a")])
    sql("CREATE VIEW lake.db.v (x, y) AS SELECT * FROM lake.db.t")
    sql("ALTER TABLE lake.db.t ADD COLUMN first STRING FIRST")
    assert sql("SELECT x, y FROM lake.db.v") == [(1, "a")]
    sql("ALTER TABLE lake.db.t DROP COLUMN kind")
    with pytest.raises(PySparkException, match=r"(?s)INCOMPATIBLE_VIEW_SCHEMA_CHANGE.*`lake`.`db`.`v`.*kind"):
        sql("SELECT x FROM lake.db.v")
    assert "spark.query-column-names" not in sql("SHOW CREATE TABLE lake.db.v")[0][0]


def test_temporary_views_work_with_a_current_iceberg_catalog(made: Run) -> None:
    made("USE lake.db")
    try:
        made("CREATE TEMPORARY VIEW v AS SELECT 1 AS one")
        made("ALTER VIEW v AS SELECT 2 AS two")
        assert made("SELECT * FROM v") == [(2,)]
        made("ALTER VIEW v RENAME TO passing")
        made("DROP VIEW passing")
        made("CREATE GLOBAL TEMPORARY VIEW everywhere AS SELECT 1 AS one")
        made("DROP VIEW global_temp.everywhere")
        assert made("SELECT count(*) FROM v") == [(26,)]
    finally:
        made("USE spark_catalog.default")


def test_property_values_of_views_are_kept_as_written(made: Run, lake: SqlCatalog) -> None:
    made("CREATE VIEW lake.db.w TBLPROPERTIES ('a' = 1.5, 'b' = TRUE, c.d = 7, 'e' 'f') AS SELECT 1 AS one")
    found = lake.load_view("db.w").properties
    assert [found[key] for key in ("a", "b", "c.d", "e")] == ["1.5", "true", "7", "f"]


def test_reserved_properties_of_a_view_cannot_be_set(made: Run) -> None:
    for key in ("format-version", "spark.query-column-names", "location"):  # the last one is refused by Spark
        with pytest.raises(PySparkException, match=f"Cannot set reserved property: '{key}'|{key} is a reserved"):
            made(f"ALTER VIEW lake.db.v SET TBLPROPERTIES ('{key}' = '7')")
    with pytest.raises(AnalysisException, match="Cannot remove property that is not set: 'nothing'"):
        made("ALTER VIEW lake.db.v UNSET TBLPROPERTIES ('nothing')")
    made("ALTER VIEW lake.db.v UNSET TBLPROPERTIES IF EXISTS ('nothing', 'a')")


def test_create_view_if_not_exists_does_nothing_if_a_table_has_the_name(made: Run) -> None:
    made("CREATE VIEW IF NOT EXISTS lake.db.t AS SELECT 1 AS one")
    assert made("SELECT count(*) FROM lake.db.t") == [(30,)]


def test_a_view_that_spark_cannot_parse_raises_the_error_of_spark(made: Run) -> None:
    with pytest.raises(PySparkException, match="DUPLICATE_CLAUSES"):
        made("CREATE VIEW lake.db.w COMMENT 'a' COMMENT 'b' AS SELECT 1 AS one")
    with pytest.raises(PySparkException, match=r"(?s)PARSE_SYNTAX_ERROR.*CREATE VIEW lake.db.w"):
        made("CREATE VIEW lake.db.w AS SELEC 1 AS one")


def test_views_compensate_for_other_types_and_nothing_else(made: Run) -> None:
    made("CREATE VIEW lake.db.w WITH SCHEMA COMPENSATION AS SELECT 1 AS one")
    made("ALTER VIEW lake.db.w WITH SCHEMA COMPENSATION")
    for binding in ("BINDING", "TYPE EVOLUTION", "EVOLUTION"):
        with pytest.raises(PySparkException, match="WITH SCHEMA COMPENSATION"):
            made(f"CREATE OR REPLACE VIEW lake.db.w WITH SCHEMA {binding} AS SELECT 1 AS one")
        with pytest.raises(PySparkException, match="WITH SCHEMA COMPENSATION"):
            made(f"ALTER VIEW lake.db.w WITH SCHEMA {binding}")
