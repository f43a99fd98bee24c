"""Names with dots, spaces and backticks in all Spark SQL statements; and names that two columns would have."""

from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.functions import col
from tests.spark.sql.conftest import Run, append

from icefloe import SqlCatalog

pytestmark = pytest.mark.spark


@pytest.fixture
def dotted(sql: Run, lake: SqlCatalog) -> Run:
    sql("""CREATE TABLE lake.db.t (id BIGINT, `a.b` STRING, `sp ace` INT, s STRUCT<`x.y`: INT, z: STRING>, `back``tick` INT)
           USING iceberg PARTITIONED BY (`a.b`, bucket(4, `sp ace`)) TBLPROPERTIES ('format-version' = '3')""")
    append(lake, [(1, "k", 5, {"x.y": 1, "z": "q"}, 7), (2, "l", 6, {"x.y": 2, "z": "r"}, 8)])
    return sql


def test_rows_are_selected_and_filtered_by_unusual_names(dotted: Run) -> None:
    assert dotted("SELECT `a.b`, s.`x.y`, `sp ace`, `back``tick` FROM lake.db.t ORDER BY id") == [("k", 1, 5, 7), ("l", 2, 6, 8)]
    for condition in ("`a.b` = 'l'", "s.`x.y` = 2", "`sp ace` = 6", "`back``tick` > 7", "`a.b` IN ('l', 'm')", "`a.b` LIKE 'l%'"):
        assert dotted(f"SELECT id FROM lake.db.t WHERE {condition}") == [(2,)], condition
    assert dotted("SELECT max(`a.b`), min(s.`x.y`), max(`sp ace`) FROM lake.db.t") == [("l", 1, 6)]


def test_a_filter_of_a_partition_field_with_an_unusual_name_prunes_files(dotted: Run, spark: SparkSession) -> None:
    assert dotted("SELECT DISTINCT `_partition`.`a.b` FROM lake.db.t WHERE `a.b` = 'k'") == [("k",)]
    assert len(spark.table("lake.db.t").where(col("`a.b`") == "k").inputFiles()) == 1


def test_columns_with_unusual_names_are_added_renamed_changed_and_dropped(dotted: Run, lake: SqlCatalog) -> None:
    for change in (
        "ADD COLUMN `c.d` INT",
        "ADD COLUMN s.`n.m` INT AFTER `x.y`",
        "ADD COLUMN `e.f` INT AFTER `a.b`",
        "RENAME COLUMN `c.d` TO `c.e`",
        "ALTER COLUMN `c.e` TYPE BIGINT",
        "ALTER COLUMN `c.e` FIRST",
        "DROP COLUMN `e.f`",
    ):
        dotted(f"ALTER TABLE lake.db.t {change}")
    assert lake.load_table("db.t").schema().column_names == ["c.e", "id", "a.b", "sp ace", "s", "s.x.y", "s.n.m", "s.z", "back`tick"]


def test_a_table_whose_name_no_table_can_have_is_not_there_for_drop(dotted: Run) -> None:
    dotted("DROP TABLE IF EXISTS lake.db.`with.dots`")
    dotted("DROP TABLE IF EXISTS lake.db.`with.dots` PURGE")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        dotted("DROP TABLE lake.db.`with.dots`")
    with pytest.raises(PySparkException, match=r"'\.' is not allowed in a name"):
        dotted("CREATE TABLE lake.db.`with.dots` (id INT) USING iceberg")


def test_rows_are_changed_by_unusual_names(dotted: Run) -> None:
    dotted("UPDATE lake.db.t SET `sp ace` = 9 WHERE `a.b` = 'k'")
    dotted("""MERGE INTO lake.db.t t USING (SELECT 'l' AS `a.b`, 10 AS `o.p`) s ON t.`a.b` = s.`a.b`
              WHEN MATCHED THEN UPDATE SET t.`sp ace` = s.`o.p`""")
    assert sorted(dotted("SELECT id, `sp ace` FROM lake.db.t")) == [(1, 9), (2, 10)]
    dotted("INSERT OVERWRITE lake.db.t PARTITION (`a.b` = 'k') SELECT 3, 1, NULL, NULL")
    dotted("DELETE FROM lake.db.t WHERE `a.b` = 'l' AND `sp ace` = 10")
    assert dotted("SELECT id, `a.b` FROM lake.db.t") == [(3, "k")]


def test_partition_fields_have_unusual_names(dotted: Run, lake: SqlCatalog) -> None:
    dotted("ALTER TABLE lake.db.t ADD PARTITION FIELD bucket(3, s.`x.y`)")
    dotted("ALTER TABLE lake.db.t ADD PARTITION FIELD truncate(2, `a.b`) AS `my.field`")
    dotted("INSERT INTO lake.db.t VALUES (3, 'm', 1, NULL, NULL)")
    names = [field.name for field in lake.load_table("db.t").spec().fields]
    assert names == ["a.b", "sp ace_bucket", "s.x.y_bucket_3", "my.field"]
    assert dotted("SELECT partition.`my.field` FROM lake.db.t.partitions WHERE partition.`a.b` = 'm'") == [("m",)]
    parts = [row for row in dotted("DESCRIBE TABLE EXTENDED lake.db.t") if row[0].startswith("Part ")]
    assert [row[1] for row in parts] == ["`a.b`", "bucket(4, `sp ace`)", "bucket(3, s.`x.y`)", "truncate(2, `a.b`)"]
    assert "PARTITIONED BY (`a.b`, bucket(4, `sp ace`), bucket(3, s.`x.y`)" in dotted("SHOW CREATE TABLE lake.db.t")[0][0]
    dotted("ALTER TABLE lake.db.t DROP PARTITION FIELD bucket(3, s.`x.y`)")
    dotted("ALTER TABLE lake.db.t DROP PARTITION FIELD `my.field`")
    assert [field.name for field in lake.load_table("db.t").spec().fields] == ["a.b", "sp ace_bucket"]


def test_queries_and_writers_create_tables_partitioned_by_unusual_names(sql: Run, spark: SparkSession) -> None:
    sql("""CREATE TABLE lake.db.c USING iceberg PARTITIONED BY (days(`t.s`), `p.a`)
           AS SELECT timestamp'2020-01-01 00:00:00' AS `t.s`, 'x' AS `p.a`""")
    assert sql("SELECT `p.a` FROM lake.db.c WHERE `t.s` >= '2020-01-01' AND `p.a` = 'x'") == [("x",)]
    frame = spark.createDataFrame([(datetime(2020, 1, 2), "y")], "`t.s` timestamp, `p.a` string")
    frame.writeTo("lake.db.c").append()
    frame.writeTo("lake.db.c").overwrite(col("`p.a`") == "x")
    frame.writeTo("lake.db.d").using("iceberg").partitionedBy(col("`p.a`")).create()
    assert sql("SELECT `p.a` FROM lake.db.c") == [("y",), ("y",)]
    assert sql("SELECT `p.a` FROM lake.db.d") == [("y",)]


def test_entries_of_manifests_are_sorted_by_fields_with_unusual_names(dotted: Run, lake: SqlCatalog) -> None:
    append(lake, [(3, "m", 1, None, None)])
    with pytest.raises(PySparkException, match="no partition field 'id' in partition spec 0"):
        dotted("CALL lake.system.rewrite_manifests(table => 'db.t', sort_by => array('id'))")
    with pytest.raises(PySparkException, match="names no partition field"):
        dotted("CALL lake.system.rewrite_manifests(table => 'db.t', sort_by => array())")
    assert dotted("CALL lake.system.rewrite_manifests(table => 'db.t', sort_by => array('sp ace_bucket', 'a.b'))") == [(2, 1)]


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE lake.db.f (`foo.bar` INT, foo STRUCT<bar: INT>) USING iceberg",
        "CREATE TABLE lake.db.f USING iceberg AS SELECT 1 AS `foo.bar`, named_struct('bar', 2) AS foo",
        "ALTER TABLE lake.db.g ADD COLUMN `foo.bar` INT",
        "ALTER TABLE lake.db.g RENAME COLUMN n TO `foo.bar`",
        "CREATE OR REPLACE TABLE lake.db.g (`foo.bar` INT, foo STRUCT<bar: INT>) USING iceberg",
    ],
)
def test_no_statement_creates_two_columns_of_one_name(sql: Run, statement: str) -> None:
    sql("CREATE TABLE lake.db.g (foo STRUCT<bar: INT>, n INT) USING iceberg")
    with pytest.raises(PySparkException, match=r"foo\.bar"):
        sql(statement)
    assert sql("SHOW TABLES IN lake.db") == [("db", "g", False)]
    assert [row[0] for row in sql("DESCRIBE lake.db.g")][:2] == ["foo", "n"]


def test_required_columns_without_a_default_are_not_added(sql: Run) -> None:
    sql("CREATE TABLE lake.db.g (n INT) USING iceberg TBLPROPERTIES ('format-version' = '3')")
    with pytest.raises(PySparkException, match="cannot be added as required"):
        sql("ALTER TABLE lake.db.g ADD COLUMN m INT NOT NULL")
    sql("ALTER TABLE lake.db.g ADD COLUMN m INT NOT NULL DEFAULT 5")


def test_a_dropped_column_of_an_identity_field_is_added_again(sql: Run, lake: SqlCatalog) -> None:
    sql("CREATE TABLE lake.db.r (id BIGINT NOT NULL, category STRING, data STRING) USING iceberg PARTITIONED BY (category)")
    append(lake, [(0, "books", "z")], "db.r")
    sql("ALTER TABLE lake.db.r DROP PARTITION FIELD category")
    sql("ALTER TABLE lake.db.r DROP COLUMN category")
    sql("ALTER TABLE lake.db.r ADD COLUMN category STRING")
    sql("INSERT INTO lake.db.r (id, category, data) VALUES (1, 'books', 'a')")
    assert sorted(sql("SELECT id, category, data FROM lake.db.r")) == [(0, None, "z"), (1, "books", "a")]
    assert sql("SELECT id FROM lake.db.r WHERE category = 'books'") == [(1,)]


def test_two_columns_of_one_name_from_another_writer_are_never_confused(
    sql: Run, lake: SqlCatalog, caplog: pytest.LogCaptureFixture
) -> None:
    foo = pa.struct([("bar", pa.int64())])
    table = lake.create_table("db.made", pa.schema([("foo_bar", pa.int64()), ("foo", foo), ("id", pa.int64())]))
    changed = Path(table.metadata_location).with_name("00009-changed.metadata.json")
    changed.write_text(Path(table.metadata_location).read_text().replace('"foo_bar"', '"foo.bar"'))
    lake.register_table("db.t", str(changed))
    sql("INSERT INTO lake.db.t VALUES (1, named_struct('bar', 2), 1), (2, named_struct('bar', 3), 2)")
    assert sql("SELECT `foo.bar`, foo.bar FROM lake.db.t WHERE `foo.bar` = 2") == [(2, 3)]
    assert sql("SELECT `foo.bar`, foo.bar FROM lake.db.t WHERE foo.bar = 2") == [(1, 2)]
    assert sql("SELECT max(`foo.bar`), min(foo.bar), count(`foo.bar`) FROM lake.db.t") == [(2, 2, 2)]
    assert "columns of one name" in caplog.text
    sql("UPDATE lake.db.t SET `foo.bar` = 7 WHERE foo.bar = 3")
    sql("DELETE FROM lake.db.t WHERE `foo.bar` = 7")
    assert sql("SELECT `foo.bar`, foo.bar FROM lake.db.t") == [(1, 2)]
    sql("ALTER TABLE lake.db.t RENAME COLUMN `foo.bar` TO plain")
    assert sql("SELECT plain, foo.bar FROM lake.db.t WHERE plain = 1") == [(1, 2)]
    assert sql("SELECT plain FROM lake.db.t WHERE foo.bar = 1") == []
