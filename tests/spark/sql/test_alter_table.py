"""ALTER TABLE in Spark SQL: each kind of change, on rows that are there, in one commit; and refusals that change nothing."""

import pyspark
import pytest
from pyspark.errors import AnalysisException
from tests.named_case import named
from tests.spark.sql.conftest import InsertOfSome, Run, append

from icefloe import SqlCatalog
from icefloe.spec.types import DoubleType, LongType

pytestmark = pytest.mark.spark

CREATE = """CREATE TABLE lake.db.t (id BIGINT NOT NULL, n INT, s STRUCT<a: INT, l: ARRAY<STRUCT<q: INT>>>)
            USING iceberg TBLPROPERTIES ('format-version' = '3')"""


@pytest.fixture
def altered(sql: Run, lake: SqlCatalog) -> Run:
    sql(CREATE)
    append(lake, [(1, 10, {"a": 5, "l": [{"q": 6}]})])
    return sql


def test_columns_are_added_at_any_position_with_comment_and_default(altered: Run, lake: SqlCatalog) -> None:
    before = len(lake.load_table("db.t").metadata.metadata_log)
    altered(
        "ALTER TABLE lake.db.t ADD COLUMNS (a STRING COMMENT 'first of all' FIRST, b DECIMAL(9, 2) DEFAULT 1.5 AFTER id, c DATE DEFAULT DATE'2024-02-03')"
    )
    assert len(lake.load_table("db.t").metadata.metadata_log) == before + 1
    altered("ALTER TABLE lake.db.t ADD COLUMN s.z DOUBLE FIRST")
    altered("ALTER TABLE lake.db.t ADD COLUMN s.l.element.r INT")
    schema = lake.load_table("db.t").schema()
    assert schema.names == ["a", "id", "b", "n", "s", "c"]
    assert schema.find_field("a").doc == "first of all"
    assert schema.find_type("s.z") == DoubleType()
    rows = altered("SELECT a, id, CAST(b AS STRING), n, s.z, s.a, s.l[0].q, s.l[0].r, CAST(c AS STRING) FROM lake.db.t")
    assert rows == [(None, 1, "1.50", 10, None, 5, 6, None, "2024-02-03")]


def test_a_column_is_renamed_widened_moved_described_and_dropped(altered: Run, lake: SqlCatalog) -> None:
    altered("ALTER TABLE lake.db.t RENAME COLUMN n TO m")
    altered("ALTER TABLE lake.db.t ALTER COLUMN m TYPE BIGINT")
    altered("ALTER TABLE lake.db.t ALTER COLUMN m COMMENT 'em'")
    altered("ALTER TABLE lake.db.t ALTER COLUMN m FIRST")
    altered("ALTER TABLE lake.db.t ALTER COLUMN id AFTER s")
    altered("ALTER TABLE lake.db.t ALTER COLUMN id DROP NOT NULL")
    field = lake.load_table("db.t").schema().find_field("m")
    assert (field.field_type, field.doc) == (LongType(), "em")
    assert lake.load_table("db.t").schema().names == ["m", "s", "id"]
    assert not lake.load_table("db.t").schema().find_field("id").required
    assert altered("SELECT m, id FROM lake.db.t") == [(10, 1)]
    altered("ALTER TABLE lake.db.t DROP COLUMN IF EXISTS nothing")
    altered("ALTER TABLE lake.db.t DROP COLUMNS (m, s.l)")
    assert altered("SELECT * FROM lake.db.t") == [((5,), 1)]


def test_new_columns_take_the_place_of_all_others(altered: Run, lake: SqlCatalog) -> None:
    old = lake.load_table("db.t").schema().find_field("n").field_id
    altered("ALTER TABLE lake.db.t REPLACE COLUMNS (n INT, more STRING)")
    assert altered("SELECT * FROM lake.db.t") == [(None, None)]
    assert lake.load_table("db.t").schema().find_field("n").field_id > old


def test_defaults_are_set_used_and_dropped(altered: Run, insert_of_some: InsertOfSome) -> None:
    altered("ALTER TABLE lake.db.t ALTER COLUMN n SET DEFAULT 90 + 9")
    altered("INSERT INTO lake.db.t VALUES (2, DEFAULT, NULL)")
    insert_of_some("INSERT INTO lake.db.t (s, id) VALUES (NULL, 3)", "INSERT INTO lake.db.t (s, n, id) VALUES (NULL, DEFAULT, 3)")
    altered("ALTER TABLE lake.db.t ALTER COLUMN n DROP DEFAULT")
    altered("INSERT INTO lake.db.t VALUES (4, DEFAULT, NULL)")
    assert sorted(altered("SELECT id, n FROM lake.db.t")) == [(1, 10), (2, 99), (3, 99), (4, None)]


def test_properties_location_version_and_snapshot(altered: Run, lake: SqlCatalog) -> None:
    first = lake.load_table("db.t").metadata.current_snapshot_id
    append(lake, [(2, None, None)])
    altered("ALTER TABLE lake.db.t SET TBLPROPERTIES ('a' = 'b', 'c' = 'd')")
    altered("ALTER TABLE lake.db.t UNSET TBLPROPERTIES ('a')")
    altered("COMMENT ON TABLE lake.db.t IS 'a table'")
    folder = lake.load_table("db.t").location() + "-elsewhere"
    altered(f"ALTER TABLE lake.db.t SET LOCATION '{folder}'")
    altered(f"ALTER TABLE lake.db.t SET TBLPROPERTIES ('current-snapshot-id' = '{first}')")
    table = lake.load_table("db.t")
    assert dict(table.properties) == {"c": "d", "comment": "a table"}
    assert table.location() == folder
    assert altered("SELECT id FROM lake.db.t") == [(1,)]
    altered("CREATE TABLE lake.db.old (id INT) USING iceberg TBLPROPERTIES ('format-version' = '1')")
    altered("ALTER TABLE lake.db.old SET TBLPROPERTIES ('format-version' = '3')")
    assert lake.load_table("db.old").metadata.format_version == 3


@pytest.mark.parametrize("new", ["lake.db.u", "db.u"])
def test_a_table_is_renamed(altered: Run, new: str) -> None:
    altered(f"ALTER TABLE lake.db.t RENAME TO {new}")
    assert altered("SELECT id FROM lake.db.u") == [(1,)]
    assert [row[1] for row in altered("SHOW TABLES IN lake.db")] == ["u"]


NEW_NAMES = [
    ("TABLE lake.db.t RENAME TO lake.nowhere.t", "SCHEMA_NOT_FOUND.*`nowhere`"),
    ("TABLE lake.db.t RENAME TO db.u", "ALREADY_EXISTS.*db.u"),
    ("TABLE lake.db.none RENAME TO db.u", "NOT_FOUND.*none"),
    ("VIEW lake.db.v RENAME TO lake.nowhere.v", "SCHEMA_NOT_FOUND.*`nowhere`"),
    ("VIEW lake.db.v RENAME TO lake.db.t", "ALREADY_EXISTS.*db.t"),
    ("VIEW lake.db.none RENAME TO lake.db.t", "NOT_FOUND.*none"),
]


def test_a_refused_new_name_is_named_in_the_error(altered: Run) -> None:
    altered("CREATE TABLE lake.db.u (id INT)")
    altered("CREATE VIEW lake.db.v AS SELECT 1 AS x")
    for statement, words in NEW_NAMES:
        with named(statement), pytest.raises(AnalysisException, match=words):
            altered(f"ALTER {statement}")
    assert [row[1] for row in altered("SHOW TABLES IN lake.db")] == ["t", "u"]


IMPOSSIBLE = [
    ("ALTER COLUMN s.a TYPE STRING", "a type may only widen"),
    ("ALTER COLUMN n SET NOT NULL", "nullable column to non-nullable"),
    ("ADD COLUMN x INT NOT NULL", "cannot be added as required|NOT NULL"),
    ("ADD COLUMN x TIMESTAMP DEFAULT current_timestamp()", "the value of current_timestamp changes"),
    ("ALTER COLUMN n SET DEFAULT 'no number'", "(?i)default"),
    ("RENAME COLUMN nothing TO x", "FIELD_NOT_FOUND|UNRESOLVED_COLUMN|nothing"),
    ("SET TBLPROPERTIES ('sort-order' = 'id')", "WRITE ORDERED BY"),
    ("SET TBLPROPERTIES ('current-snapshot-id' = 'x')", "it is a snapshot's id"),
    ("CLUSTER BY (id)", "ClusterBy"),
    ("SET TBLPROPERTIES ('format-version' = '2')", "cannot go back"),
    ("ADD CONSTRAINT c CHECK (n > 0)", r"lake\.db\.t cannot have the constraint CHECK \(n > 0\): Iceberg tables have no constraints"),
    (
        "ADD CONSTRAINT c CHECK (s.a > 100 OR id IS NULL)",
        r"lake\.db\.t cannot have the constraint CHECK \(s.a > 100 OR id IS NULL\): Iceberg tables",
    ),
    ("ADD CONSTRAINT c PRIMARY KEY (id)", "does not support table constraint"),
    ("ADD CONSTRAINT c FOREIGN KEY (id) REFERENCES other (id)", "does not support table constraint"),
    ("DROP CONSTRAINT c", "does not support table constraint"),
]


def test_an_impossible_change_is_refused_and_changes_nothing(altered: Run, lake: SqlCatalog) -> None:
    before = lake.load_table("db.t").metadata_location
    for statement, words in IMPOSSIBLE:
        # Spark 4.0 does not have the statements with CONSTRAINT.
        is_unknown = "CONSTRAINT" in statement and pyspark.__version__ < "4.1"
        with named(statement), pytest.raises(Exception, match="(?i)syntax|CONSTRAINT" if is_unknown else words):
            altered(f"ALTER TABLE lake.db.t {statement}")
        assert lake.load_table("db.t").metadata_location == before, statement


def test_a_table_of_version_2_refuses_a_default(sql: Run, lake: SqlCatalog) -> None:
    sql("CREATE TABLE lake.db.two (id INT) USING iceberg")
    with pytest.raises(Exception, match="format-version"):
        sql("ALTER TABLE lake.db.two ADD COLUMN s STRING DEFAULT 'x'")
    assert lake.load_table("db.two").schema().names == ["id"]
