"""Iceberg as Spark's session catalog: a name is an Iceberg table's first, else that of a table of Spark."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession
from tests.spark.sql.conftest import Run

from icefloe import SqlCatalog
from icefloe.catalog.file_system_catalog import FileSystemCatalog
from icefloe.errors import InvalidInputError
from icefloe.spark.attach_catalog import SESSION_CATALOG_CLASS, attach

pytestmark = pytest.mark.spark
SETTING = "spark.sql.catalog.spark_catalog"


@pytest.fixture
def session(spark: SparkSession, lake: SqlCatalog, tmp_path: Path) -> Iterator[SparkSession]:
    """A session of its own with Icefloe as session catalog; its database is in a temporary folder."""
    own = spark.newSession()
    own.sql(f"CREATE DATABASE mixed LOCATION '{tmp_path}/mixed'")
    assert own.catalog.currentCatalog() == "spark_catalog"  # it was used before it is replaced
    attach(own, "spark_catalog", lake)
    own.sql("USE mixed")
    yield own
    own.sql("DROP DATABASE mixed CASCADE")


@pytest.fixture
def sql(session: SparkSession) -> Run:
    return lambda text: [tuple(row) for row in session.sql(text).collect()]


def test_a_namespace_has_iceberg_tables_and_others(sql: Run, lake: SqlCatalog) -> None:
    sql("CREATE TABLE t (id BIGINT, s STRING) USING iceberg PARTITIONED BY (s)")
    sql("CREATE TABLE p (id BIGINT, s STRING) USING parquet PARTITIONED BY (s)")
    sql("CREATE TABLE c USING csv AS SELECT 7 AS x")
    assert lake.list_tables("mixed") == [("mixed", "t")]
    for name in ("t", "p"):
        sql(f"INSERT INTO {name} VALUES (1, 'a'), (2, 'b')")
        assert sorted(sql(f"SELECT * FROM {name}")) == [(1, "a"), (2, "b")]
        assert sql(f"SHOW PARTITIONS {name}") == [("s=a",), ("s=b",)]
        assert sql(f"DESCRIBE {name}")[0][:2] == ("id", "bigint")
        assert f"USING {'iceberg' if name == 't' else 'parquet'}" in sql(f"SHOW CREATE TABLE {name}")[0][0]
    assert sql("SELECT * FROM spark_catalog.mixed.c JOIN mixed.t ON id = 2") == [(7, 2, "b")]
    assert sql("SELECT count(*) FROM mixed.t.snapshots") == [(1,)]
    assert {name for _, name, _ in sql("SHOW TABLES")} == {"t", "p", "c"}
    assert {name for _, name, _ in sql("SHOW TABLES IN spark_catalog.mixed LIKE 't|c'")} == {"t", "c"}
    sql("UPDATE t SET s = 'c' WHERE id = 1")
    sql("MERGE INTO t USING (SELECT 3L AS id, 'x' AS s) q ON t.id = q.id WHEN NOT MATCHED THEN INSERT *")
    sql("DELETE FROM t WHERE id = 2")
    assert sorted(sql("SELECT * FROM t")) == [(1, "c"), (3, "x")]
    with pytest.raises(PySparkException, match="UPDATE"):
        sql("UPDATE p SET s = 'c' WHERE id = 1")


def test_the_iceberg_tables_of_a_statement_are_loaded_by_one_call(sql: Run, lake: SqlCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("t", "u"):
        sql(f"CREATE TABLE {name} USING iceberg AS SELECT id FROM range(3)")
    sql("CREATE TABLE p USING parquet AS SELECT id FROM range(2)")
    load, load_all, loads = lake.store.load, lake.store.load_all, []
    monkeypatch.setattr(lake.store, "load", lambda name: (loads.append([name]), load(name))[1])
    monkeypatch.setattr(lake.store, "load_all", lambda names: (loads.append(list(names)), load_all(names))[1])
    assert sql("SELECT count(*) FROM t JOIN mixed.u USING (id)") == [(3,)]
    assert loads == [[("mixed", "t"), ("mixed", "u")]]
    assert sql("SELECT count(*) FROM t JOIN u USING (id) JOIN p USING (id)") == [(2,)]  # one by one, as one is a table of Spark


def test_the_format_iceberg_is_written_in_any_case_of_letters(session: SparkSession, sql: Run, lake: SqlCatalog) -> None:
    sql("CREATE TABLE t (id BIGINT) USING ICEBERG")
    sql("CREATE TABLE u USING Iceberg AS SELECT 1L AS id")
    session.table("u").write.format("ICEBERG").saveAsTable("v")
    session.table("u").write.format("iceBERG").mode("append").save("spark_catalog.mixed.v")
    assert sorted(lake.list_tables("mixed")) == [("mixed", "t"), ("mixed", "u"), ("mixed", "v")]
    assert session.read.format("ICEBERG").load("spark_catalog.mixed.v").count() == 2
    sql("CREATE OR REPLACE TABLE u USING ICEBERG AS SELECT 2L AS id")
    assert sql("SELECT * FROM u") == [(2,)]


def test_tables_of_both_kinds_are_changed_renamed_and_dropped(sql: Run, lake: SqlCatalog) -> None:
    sql("CREATE TABLE t (id BIGINT) USING iceberg")
    sql("CREATE TABLE p (id BIGINT) USING parquet")
    for name in ("t", "p"):
        sql(f"ALTER TABLE {name} ADD COLUMNS (n INT)")
        assert [row[0] for row in sql(f"SHOW COLUMNS IN {name}")] == ["id", "n"]
        sql(f"ALTER TABLE {name} RENAME TO {name}2")
    sql("ALTER TABLE t2 ADD PARTITION FIELD bucket(4, id)")
    assert sql("CALL spark_catalog.system.ancestors_of('mixed.t2')") == []
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
        sql("ALTER TABLE t2 RENAME TO p2")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
        sql("ALTER TABLE p2 RENAME TO t2")
    sql("CREATE TABLE t3 LIKE t2")
    sql("CREATE TABLE p3 LIKE p2")
    assert lake.list_tables("mixed") == [("mixed", "t2"), ("mixed", "t3")]
    for name in ("t2", "t3", "p2", "p3"):
        sql(f"DROP TABLE {name}")
    assert sql("SHOW TABLES") == []
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        sql("DROP TABLE t2")


def test_no_table_is_created_with_the_name_of_another_kind(sql: Run, session: SparkSession) -> None:
    sql("CREATE TABLE t USING iceberg AS SELECT 1 AS x")
    sql("CREATE TABLE p USING parquet AS SELECT 2 AS x")
    for name in ("t", "p"):
        for provider in ("USING iceberg", "USING parquet", ""):
            for definition in ("(x INT) {}", "{} AS SELECT 3 AS x"):
                with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
                    sql(f"CREATE TABLE {name} {definition.format(provider)}")
                sql(f"CREATE TABLE IF NOT EXISTS {name} {definition.format(provider)}")
    assert (sql("SELECT * FROM t"), sql("SELECT * FROM p")) == ([(1,)], [(2,)])
    sql("CREATE OR REPLACE TABLE t USING iceberg AS SELECT 4 AS x")
    for statement in (
        "CREATE OR REPLACE TABLE p USING iceberg AS SELECT 4 AS x",
        "CREATE OR REPLACE TABLE t USING parquet AS SELECT 4 AS x",
    ):
        with pytest.raises(PySparkException, match=r"is not an Iceberg table|cannot be replaced by a table USING|UNSUPPORTED_FEATURE"):
            sql(statement)
    assert (sql("SELECT * FROM t"), sql("SELECT * FROM p")) == ([(4,)], [(2,)])
    assert len(sql("SHOW TABLES")) == 2


def test_views_and_functions_are_those_of_spark(sql: Run, session: SparkSession) -> None:
    sql("CREATE TABLE t USING iceberg AS SELECT id FROM range(3)")
    sql("CREATE VIEW v AS SELECT count(*) AS n FROM t")
    assert (sql("SELECT * FROM v"), sql("SHOW VIEWS")) == ([(3,)], [("mixed", "v", False)])
    sql("ALTER VIEW v SET TBLPROPERTIES ('a' = 'b')")
    sql("ALTER VIEW v AS SELECT 1 AS one")
    assert sql("SELECT * FROM v") == [(1,)]
    assert sql("DESCRIBE v")[0][0] == "one"
    sql("DROP VIEW v")
    sql("CREATE TEMPORARY VIEW passing AS SELECT * FROM t")
    assert sql("SELECT count(*) FROM passing") == [(3,)]
    sql("CREATE FUNCTION own AS 'no.such.Class'")
    assert sql("SHOW USER FUNCTIONS IN mixed") == [("spark_catalog.mixed.own",)]
    sql("DROP FUNCTION own")


def test_a_namespace_is_created_and_dropped_in_both_catalogs(sql: Run, lake: SqlCatalog, tmp_path: Path) -> None:
    sql(f"CREATE NAMESPACE other COMMENT 'of both' LOCATION '{tmp_path}/other'")
    assert lake.namespace_exists("other")
    assert {name for (name,) in sql("SHOW NAMESPACES")} >= {"default", "mixed", "other", "db"}  # one that the catalog had before
    assert ("Comment", "of both") in sql("DESCRIBE NAMESPACE other")
    with pytest.raises(AnalysisException, match="SCHEMA_ALREADY_EXISTS"):
        sql("CREATE NAMESPACE other")
    sql("CREATE TABLE other.t (id INT) USING iceberg")
    sql("CREATE TABLE other.p (id INT) USING parquet")
    for left in ("p", "t"):
        with pytest.raises(AnalysisException, match="SCHEMA_NOT_EMPTY"):
            sql("DROP NAMESPACE other")
        sql(f"DROP TABLE other.{left}")
    sql("DROP NAMESPACE other")
    assert not lake.namespace_exists("other")
    sql(f"CREATE NAMESPACE other LOCATION '{tmp_path}/other2'")
    sql("CREATE TABLE other.t (id INT) USING iceberg")
    sql("CREATE TABLE other.p (id INT) USING parquet")
    sql("DROP NAMESPACE other CASCADE")
    assert (lake.namespace_exists("other"), ("other",) in sql("SHOW NAMESPACES")) == (False, False)


def test_the_properties_of_a_namespace_are_kept_by_both_catalogs(sql: Run, lake: SqlCatalog, tmp_path: Path) -> None:
    sql(f"CREATE NAMESPACE other COMMENT 'of both' LOCATION '{tmp_path}/other' WITH DBPROPERTIES ('stage' = 'raw')")
    own = lake.load_namespace_properties("other")
    assert (own["stage"], own["comment"]) == ("raw", "of both")
    assert own.get("location") != f"{tmp_path}/other"  # of Spark's tables
    sql("ALTER NAMESPACE other SET DBPROPERTIES ('stage' = 'clean', 'since' = '2026')")
    sql(f"ALTER NAMESPACE other SET LOCATION '{tmp_path}/elsewhere'")
    own = lake.load_namespace_properties("other")
    assert (own["stage"], own["since"]) == ("clean", "2026")
    assert own.get("location") != f"{tmp_path}/elsewhere"
    assert "(since,2026), (stage,clean)" in str(sql("DESCRIBE NAMESPACE EXTENDED other"))
    sql("DROP NAMESPACE other")


def test_a_namespace_of_a_catalog_of_folders_has_the_properties_that_spark_keeps(spark: SparkSession, tmp_path: Path) -> None:
    own = spark.newSession()
    attach(own, "spark_catalog", FileSystemCatalog("folders", warehouse=f"{tmp_path}/folders"))
    own.sql(f"CREATE NAMESPACE beside LOCATION '{tmp_path}/beside' WITH DBPROPERTIES ('stage' = 'raw')")
    try:
        own.sql("ALTER NAMESPACE beside SET DBPROPERTIES ('stage' = 'clean')")
        own.sql("CREATE TABLE beside.t USING iceberg AS SELECT 1 AS one")
        assert "(stage,clean)" in str(own.sql("DESCRIBE NAMESPACE EXTENDED beside").collect())
    finally:
        own.sql("DROP NAMESPACE beside CASCADE")


def test_a_branch_is_cached_and_refreshed_by_its_name(sql: Run, lake: SqlCatalog) -> None:
    sql("CREATE TABLE t USING iceberg AS SELECT 1L AS id")
    sql("ALTER TABLE t CREATE BRANCH b")
    sql("CACHE TABLE mixed.t.branch_b")
    assert sql("SELECT * FROM mixed.t.branch_b") == [(1,)]
    lake.load_table("mixed.t").append(pa.table({"id": [2]}), branch="b")  # by others
    sql("REFRESH TABLE mixed.t.branch_b")
    assert sorted(sql("SELECT * FROM mixed.t.branch_b")) == [(1,), (2,)]
    sql("MERGE INTO mixed.t.branch_b t USING (SELECT 3L AS id) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *")
    assert sorted(sql("SELECT * FROM mixed.t.branch_b")) == [(1,), (2,), (3,)]
    assert sql("SELECT * FROM t") == [(1,)]
    sql("UNCACHE TABLE mixed.t.branch_b")


def test_dataframes_write_tables_of_both_kinds(session: SparkSession, sql: Run, lake: SqlCatalog) -> None:
    session.range(3).write.format("parquet").saveAsTable("p")
    session.range(3).write.format("iceberg").saveAsTable("t")
    session.range(2).writeTo("w").using("iceberg").create()
    session.range(2).write.format("iceberg").mode("append").save("t")
    assert [sql(f"SELECT count(*) FROM {name}")[0][0] for name in "ptw"] == [3, 5, 2]
    assert session.read.format("iceberg").load("mixed.t").count() == 5
    assert {table.name for table in session.catalog.listTables("mixed")} == {"p", "t", "w"}
    assert lake.list_tables("mixed") == [("mixed", "t"), ("mixed", "w")]


def test_a_path_is_not_taken_for_a_table_name(session: SparkSession, tmp_path: Path) -> None:
    folders = FileSystemCatalog("folders", warehouse=f"{tmp_path}/folders")
    folders.create_namespace("db")
    folders.create_table("db.t", pa.schema([("id", pa.int64())]))
    session.createDataFrame([(1,)], "id bigint").write.format("iceberg").mode("append").save(f"{tmp_path}/folders/db/t")
    assert [tuple(row) for row in session.read.format("iceberg").load(f"{tmp_path}/folders/db/t").collect()] == [(1,)]


def test_other_sessions_keep_their_session_catalog(spark: SparkSession, sql: Run) -> None:
    sql("CREATE TABLE t (id INT) USING iceberg")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.sql("SELECT * FROM spark_catalog.mixed.t")


def test_the_session_catalog_is_configured_by_settings(spark: SparkSession, lake: SqlCatalog) -> None:
    own = spark.newSession()
    own.conf.set(SETTING, "icefloe")
    for key, value in lake.properties.items():
        own.conf.set(f"{SETTING}.{key}", str(value))
    attach(own, "lake", lake)  # another one first: the setting stays
    assert own.conf.get(SETTING) == "icefloe"
    found = attach(own)
    assert (sorted(found), own.conf.get(SETTING)) == (["spark_catalog"], SESSION_CATALOG_CLASS)
    own.sql("CREATE TABLE default.configured USING iceberg AS SELECT 1 AS one")
    assert found["spark_catalog"].list_tables("default") == [("default", "configured")]
    assert own.table("configured").count() == 1


def test_a_session_catalog_of_another_vendor_is_not_replaced(spark: SparkSession, lake: SqlCatalog) -> None:
    own = spark.newSession()
    own.conf.set(SETTING, "org.example.Catalog")
    with pytest.raises(InvalidInputError, match=r"another catalog under the name 'spark_catalog': org\.example\.Catalog"):
        attach(own, "spark_catalog", lake)
