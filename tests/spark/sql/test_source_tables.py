"""`add_files` from tables of Spark's session catalog, by their names."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from icefloe import SqlCatalog
from icefloe.spark import attach

pytestmark = pytest.mark.spark


@pytest.fixture
def spark_with_sources(spark: SparkSession, lake: SqlCatalog, tmp_path: Path) -> Iterator[SparkSession]:
    attach(spark, "lake", lake)
    spark.sql(f"CREATE TABLE plain_source (id BIGINT, kind STRING) USING parquet LOCATION '{tmp_path}/plain'")
    spark.sql("INSERT INTO plain_source VALUES (1, 'a'), (2, 'b')")
    spark.sql(
        f"CREATE TABLE divided_source (id BIGINT, kind STRING) USING parquet PARTITIONED BY (kind) LOCATION '{tmp_path}/divided'",
    )
    spark.sql("INSERT INTO divided_source SELECT * FROM VALUES (1, 'a'), (2, 'b c'), (3, 'b c') AS v(id, kind) DISTRIBUTE BY kind")
    spark.sql(f"CREATE TABLE text_source (line STRING) USING text LOCATION '{tmp_path}/text'")
    yield spark
    for name in ("plain_source", "divided_source", "text_source"):
        spark.sql(f"DROP TABLE {name}")


def test_files_of_a_table_of_the_session_catalog_are_added_by_its_name(spark_with_sources: SparkSession) -> None:
    sql = spark_with_sources.sql
    sql("CREATE TABLE lake.db.added (id BIGINT, kind STRING) USING iceberg")
    sql("CALL lake.system.add_files('db.added', 'plain_source')")
    sql("CREATE TABLE lake.db.all_parts (id BIGINT, kind STRING) USING iceberg PARTITIONED BY (kind)")
    assert sql("CALL lake.system.add_files('db.all_parts', 'spark_catalog.default.divided_source')").collect()[0][0] == 2
    sql("CREATE TABLE lake.db.one_part (id BIGINT, kind STRING) USING iceberg PARTITIONED BY (kind)")
    sql("CALL lake.system.add_files('db.one_part', 'default.divided_source', map('KIND', 'b c'))")
    rows = {
        name: [tuple(row) for row in sql(f"SELECT * FROM lake.db.{name} ORDER BY id").collect()]
        for name in ("added", "all_parts", "one_part")
    }
    assert rows == {"added": [(1, "a"), (2, "b")], "all_parts": [(1, "a"), (2, "b c"), (3, "b c")], "one_part": [(2, "b c"), (3, "b c")]}


def test_a_partition_without_files_adds_nothing(spark_with_sources: SparkSession, tmp_path: Path) -> None:
    sql = spark_with_sources.sql
    sql(f"ALTER TABLE divided_source ADD PARTITION (kind = 'none') LOCATION '{tmp_path}/nowhere'")
    (tmp_path / "nowhere").rmdir() if (tmp_path / "nowhere").is_dir() else None
    sql("CREATE TABLE lake.db.empty (id BIGINT, kind STRING) USING iceberg PARTITIONED BY (kind)")
    assert sql("CALL lake.system.add_files('db.empty', 'divided_source', map('kind', 'none'))").collect()[0][0] == 0


def test_a_partition_at_a_folder_of_another_value_is_refused(spark_with_sources: SparkSession, tmp_path: Path) -> None:
    sql = spark_with_sources.sql
    sql(f"ALTER TABLE divided_source ADD PARTITION (kind = 'x') LOCATION '{tmp_path}/elsewhere/kind=y'")
    sql("CREATE TABLE lake.db.parts (id BIGINT, kind STRING) USING iceberg PARTITIONED BY (kind)")
    for statement in ("add_files('db.parts', 'divided_source')", "snapshot('divided_source', 'db.snapshotted')"):
        with pytest.raises(PySparkException, match=r"kind='x' in the catalog"):
            sql(f"CALL lake.system.{statement}")


def test_partition_values_of_added_files_are_those_that_spark_reads(spark_with_sources: SparkSession) -> None:
    sql = spark_with_sources.sql
    values = ["null", "a+b", "a b", "50%", "x=y", "a/b:c", "größe", "{}", None, "__", "tab\there", "%2B", "q?*\"'"]
    rows = spark_with_sources.createDataFrame(list(enumerate(values)), "id BIGINT, kind STRING")
    rows.write.mode("append").insertInto("divided_source")
    sql("CREATE TABLE lake.db.odd (id BIGINT, kind STRING) USING iceberg PARTITIONED BY (kind)")
    sql("CALL lake.system.add_files('db.odd', 'divided_source')")
    sql("CALL lake.system.snapshot('divided_source', 'db.odd_snapshot')")
    expected = sorted(map(tuple, sql("SELECT id, kind FROM divided_source").collect()), key=repr)
    assert {value for _, value in expected} >= set(values)
    for name in ("odd", "odd_snapshot"):
        assert sorted(map(tuple, sql(f"SELECT id, kind FROM lake.db.{name}").collect()), key=repr) == expected
    path = sql("DESCRIBE FORMATTED divided_source").where("col_name = 'Location'").head()[1]
    sql("CREATE TABLE lake.db.odd_folder (id BIGINT, kind STRING) USING iceberg PARTITIONED BY (kind)")
    sql(f"CALL lake.system.add_files('db.odd_folder', 'parquet.`{path}`')")
    assert sorted(map(tuple, sql("SELECT id, kind FROM lake.db.odd_folder").collect()), key=repr) == expected
    assert sql(f"CALL lake.system.add_files('db.odd_folder', 'parquet.`{path}`', map('kind', 'a+b'), false)").head()[0] == 1


def test_wrong_partition_filters_and_formats_are_refused(spark_with_sources: SparkSession) -> None:
    sql = spark_with_sources.sql
    sql("CREATE TABLE lake.db.refused (id BIGINT, kind STRING) USING iceberg PARTITIONED BY (kind)")
    for source, given, said in (
        ("divided_source", "map('other', 'b')", "not partitioned by other"),
        ("divided_source", "map('kind', 'c')", "no partition kind=c"),
        ("plain_source", "map('kind', 'c')", "its partition columns are: none"),
        ("text_source", "null", "format is text"),
    ):
        with pytest.raises(PySparkException, match=said):
            sql(f"CALL lake.system.add_files('db.refused', '{source}', {given})")
