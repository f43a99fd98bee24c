"""CREATE and REPLACE TABLE in Spark SQL, with a query and without: the definition, one commit, and no files after a failure."""

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import DateType, LongType, StringType, StructField, StructType
from tests.combinations import repetitions
from tests.spark.sql.conftest import InsertOfSome, Run

from icefloe import SqlCatalog

pytestmark = pytest.mark.spark


def files_below(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_a_table_has_the_definition_of_its_statement(sql: Run, insert_of_some: InsertOfSome, lake: SqlCatalog, tmp_path: Path) -> None:
    sql(f"""CREATE TABLE lake.db.t (id BIGINT NOT NULL COMMENT 'key', n INT DEFAULT 7, b BOOLEAN DEFAULT true, x DOUBLE DEFAULT 1.5D,
             s STRING DEFAULT 'it\\'s',
             d DATE DEFAULT DATE'2024-02-03', ts TIMESTAMP DEFAULT TIMESTAMP'2024-02-03 01:02:03.4',
             nt TIMESTAMP_NTZ DEFAULT TIMESTAMP_NTZ'2024-02-03 01:02:03',
             m DECIMAL(9, 2) DEFAULT 2.25, y BINARY DEFAULT X'0aff')
             USING iceberg PARTITIONED BY (days(ts), bucket(4, id)) COMMENT 'the table' LOCATION '{tmp_path}/own'
             TBLPROPERTIES ('format-version' = '3', 'a.b' = 'c')""")
    table = lake.load_table("db.t")
    # Spark names the file system of a location that a statement gives.
    assert (table.location().removeprefix("file:"), table.metadata.format_version, dict(table.properties)) == (
        f"{tmp_path}/own",
        3,
        {"a.b": "c", "comment": "the table"},
    )
    assert [str(field.transform) for field in table.spec().fields] == ["day", "bucket[4]"]
    assert (table.schema().find_field("id").required, table.schema().find_field("id").doc) == (True, "key")
    insert_of_some("INSERT INTO lake.db.t (id) VALUES (1)", f"INSERT INTO lake.db.t VALUES (1{', DEFAULT' * 9})")
    rows = sql("SELECT n, b, x, s, CAST(d AS STRING), CAST(ts AS STRING), CAST(nt AS STRING), CAST(m AS STRING), hex(y) FROM lake.db.t")
    assert rows == [(7, True, 1.5, "it's", "2024-02-03", "2024-02-03 01:02:03.4", "2024-02-03 01:02:03", "2.25", "0AFF")]


def test_providers_are_iceberg_or_a_file_format(sql: Run, lake: SqlCatalog) -> None:
    sql("CREATE TABLE lake.db.a (id INT)")
    sql("CREATE TABLE lake.db.b (id INT) USING icefloe")
    sql("CREATE TABLE lake.db.c (id INT) USING orc")
    assert dict(lake.load_table("db.a").properties) == {}
    assert dict(lake.load_table("db.b").properties) == {}
    assert dict(lake.load_table("db.c").properties) == {"write.format.default": "orc"}
    with pytest.raises(Exception, match="USING csv does not create an Iceberg table"):
        sql("CREATE TABLE lake.db.d (id INT) USING csv")


def test_create_table_as_select_is_one_commit(sql: Run, lake: SqlCatalog) -> None:
    sql("CREATE TABLE lake.db.t USING iceberg PARTITIONED BY (k) AS SELECT id, id % 2 AS k FROM range(5)")
    table = lake.load_table("db.t")
    assert (len(table.metadata.snapshots), len(table.metadata.metadata_log)) == (1, 0)
    assert sorted(sql("SELECT id, k FROM lake.db.t")) == [(0, 0), (1, 1), (2, 0), (3, 1), (4, 0)]
    with pytest.raises(Exception, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
        sql("CREATE TABLE lake.db.t AS SELECT 1 AS x")
    sql("CREATE TABLE IF NOT EXISTS lake.db.t AS SELECT 1 AS x")
    assert sql("SELECT count(*) FROM lake.db.t") == [(5,)]


def test_a_table_is_replaced_by_a_query_of_itself(sql: Run, lake: SqlCatalog) -> None:
    sql("CREATE TABLE lake.db.t USING iceberg PARTITIONED BY (k) TBLPROPERTIES ('keep' = 'me') AS SELECT id, id % 2 AS k FROM range(5)")
    before = lake.load_table("db.t")
    sql(
        "REPLACE TABLE lake.db.t USING iceberg TBLPROPERTIES ('new' = 'too') AS SELECT CAST(id AS STRING) AS k, id FROM lake.db.t WHERE id > 2"
    )
    after = lake.load_table("db.t")
    assert sql("SELECT k, id FROM lake.db.t ORDER BY id") == [("3", 3), ("4", 4)]
    assert after.metadata.table_uuid == before.metadata.table_uuid
    assert len(after.metadata.metadata_log) == len(before.metadata.metadata_log) + 1
    assert dict(after.properties) == {"keep": "me", "new": "too"}
    assert after.spec().is_unpartitioned()
    assert after.schema().find_field("id").field_id == before.schema().find_field("id").field_id
    assert after.metadata.current_snapshot().parent_snapshot_id is None
    old = before.metadata.current_snapshot_id
    assert sql(f"SELECT count(*), sum(k) FROM lake.db.t VERSION AS OF {old}") == [(5, 2)]


def test_a_definition_without_a_query_creates_or_replaces_a_table(sql: Run, lake: SqlCatalog) -> None:
    sql("CREATE OR REPLACE TABLE lake.db.t (id INT) USING iceberg")
    sql("INSERT INTO lake.db.t VALUES (1)")
    sql("CREATE OR REPLACE TABLE lake.db.t (id INT, k STRING) USING iceberg PARTITIONED BY (k)")
    assert sql("SELECT * FROM lake.db.t") == []
    assert len(lake.load_table("db.t").metadata.snapshots) == 1
    with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
        sql("REPLACE TABLE lake.db.nothing (id INT) USING iceberg")


@pytest.mark.parametrize(
    "words",
    repetitions(
        ["CREATE TABLE lake.db.t", "CREATE OR REPLACE TABLE lake.db.t", "CREATE OR REPLACE TABLE lake.db.there"],
        "CREATE OR REPLACE TABLE lake.db.there",
    ),
)
def test_a_query_that_fails_leaves_no_table_and_no_files(sql: Run, lake: SqlCatalog, tmp_path: Path, words: str) -> None:
    sql("CREATE TABLE lake.db.there USING iceberg AS SELECT id FROM range(3)")
    before = files_below(tmp_path / "warehouse")
    query = "SELECT /*+ REPARTITION(4) */ id, if(id = 90, CAST(raise_error('stop') AS INT), 1) AS x FROM range(100)"
    with pytest.raises(Exception, match="stop"):
        sql(f"{words} USING iceberg AS {query}")
    assert files_below(tmp_path / "warehouse") == before
    assert sql("SELECT count(*) FROM lake.db.there") == [(3,)]
    assert [row[1] for row in sql("SHOW TABLES IN lake.db")] == ["there"]


@pytest.mark.parametrize("what", repetitions(["rows", "none"], "rows"))
def test_the_statement_of_show_create_table_creates_the_same_table(sql: Run, lake: SqlCatalog, what: str) -> None:
    sql("""CREATE TABLE lake.db.t (id BIGINT NOT NULL COMMENT 'it\\'s', k STRING, n INT DEFAULT 7, s STRUCT<a: INT COMMENT 'aa', m: MAP<STRING, ARRAY<DATE>>>)
           USING iceberg PARTITIONED BY (k, truncate(3, k), bucket(4, id)) COMMENT 'c' TBLPROPERTIES ('format-version' = '3', 'x' = 'y')""")
    if what == "rows":
        sql("INSERT INTO lake.db.t VALUES (1, 'a', 1, NULL)")
    before = lake.load_table("db.t").metadata
    text = sql("SHOW CREATE TABLE lake.db.t")[0][0]
    sql("DROP TABLE lake.db.t")
    sql(text)
    after = lake.load_table("db.t").metadata
    assert after.schema().fields == before.schema().fields
    assert after.spec().is_equivalent(before.spec())
    assert (after.format_version, after.properties) == (before.format_version, before.properties)
    assert after.location.removeprefix("file:") == before.location


def test_defaults_of_a_query_are_left_out_in_version_2_and_those_of_a_definition_are_refused(sql: Run, lake: SqlCatalog) -> None:
    sql("CREATE TABLE lake.db.source (n INT DEFAULT 7) USING iceberg TBLPROPERTIES ('format-version' = '3')")
    sql("INSERT INTO lake.db.source VALUES (DEFAULT)")
    sql("CREATE TABLE lake.db.t AS SELECT n FROM lake.db.source")
    sql("CREATE OR REPLACE TABLE lake.db.t AS SELECT n FROM lake.db.source")
    assert sql("SELECT n FROM lake.db.t") == [(7,)]
    before = lake.load_table("db.t").metadata_location
    with pytest.raises(Exception, match="the table has version 2"):
        sql("CREATE OR REPLACE TABLE lake.db.t (n INT DEFAULT 7) USING iceberg")
    assert lake.load_table("db.t").metadata_location == before


def test_a_table_of_a_query_has_the_latest_defaults_of_its_columns(sql: Run, spark: SparkSession) -> None:
    fields = [
        StructField("n", LongType(), metadata={"EXISTS_DEFAULT": "1L", "CURRENT_DEFAULT": "9L"}),
        StructField("s", StringType(), metadata={"CURRENT_DEFAULT": "'it' || '\\'s'"}),
        StructField("d", DateType(), metadata={"CURRENT_DEFAULT": "DATE'2024-02-03'"}),
        StructField("id", LongType()),
    ]
    spark.createDataFrame([(2, "x", None, 1)], StructType(fields)).createOrReplaceTempView("with_defaults")
    sql("CREATE TABLE lake.db.t TBLPROPERTIES ('format-version' = '3') AS SELECT * FROM with_defaults")
    sql("INSERT INTO lake.db.t (id) VALUES (2)")
    assert sql("SELECT n, s, CAST(d AS STRING), id FROM lake.db.t ORDER BY id") == [(2, "x", None, 1), (9, "it's", "2024-02-03", 2)]


@pytest.mark.parametrize(
    "default",
    repetitions(
        ["uuid()", "current_user()", "java_method('java.lang.System', 'lineSeparator')", "(SELECT max(name) FROM names)", "id", "1) + (id"],
        "current_user()",
        "java_method('java.lang.System', 'lineSeparator')",
        "(SELECT max(name) FROM names)",
        "1) + (id",
    ),
)
def test_a_default_in_the_metadata_of_a_file_is_computed_only_if_it_is_constant(
    sql: Run, spark: SparkSession, tmp_path: Path, default: str
) -> None:
    spark.createDataFrame([("secret",)], "name STRING").createOrReplaceTempView("names")
    column = StructField("s", StringType(), metadata={"CURRENT_DEFAULT": default})
    spark.createDataFrame([("x",)], StructType([column])).write.parquet(f"{tmp_path}/hostile")
    with pytest.raises(Exception, match=r"column s cannot have the default " + re.escape(default)):
        sql(f"CREATE TABLE lake.db.u TBLPROPERTIES ('format-version' = '3') AS SELECT * FROM parquet.`{tmp_path}/hostile`")
    assert not spark.catalog.tableExists("lake.db.u")
