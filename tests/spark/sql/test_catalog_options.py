"""Catalog properties in session settings that apply to its tables: defaults, overrides, the default namespace, unique locations."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from icefloe.catalog import Catalog
from icefloe.spark.attach_catalog import attach

pytestmark = pytest.mark.spark

PREFIX = "spark.sql.catalog.house"
OPTIONS = {
    "default-namespace": "first.inner",
    "unique-table-location": "true",
    "table-default.write.format.default": "orc",
    "table-default.my_own": "1",
    "table-override.write.wap.enabled": "true",
}


@pytest.fixture
def house(spark: SparkSession, tmp_path: Path) -> Iterator[tuple[SparkSession, Catalog]]:
    """A session of its own, whose settings attach a catalog."""
    other = spark.newSession()
    other.conf.set(PREFIX, "icefloe")
    own = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": str(tmp_path / "warehouse")}
    for name, value in {**own, **OPTIONS}.items():
        other.conf.set(f"{PREFIX}.{name}", value)
    catalog = attach(other)["house"]
    catalog.create_namespace(("first",))
    catalog.create_namespace(("first", "inner"))
    yield other, catalog
    spark.createDataFrame([(1,)], "id INT")  # makes its session the active one again


def test_use_of_the_catalog_chooses_its_default_namespace(house: tuple[SparkSession, Catalog]) -> None:
    spark, catalog = house
    spark.sql("USE house")
    assert spark.sql("SELECT current_catalog(), current_schema()").first() == ("house", "first.inner")
    spark.sql("CREATE TABLE t (id BIGINT) USING iceberg")
    spark.sql("INSERT INTO t VALUES (1)")
    assert catalog.list_tables(("first", "inner")) == [("first", "inner", "t")]
    assert spark.table("t").count() == 1
    assert [row.tableName for row in spark.sql("SHOW TABLES").collect()] == ["t"]
    spark.sql("CREATE TABLE house.first.other AS SELECT * FROM t")
    assert catalog.load_table("first.other").scan().count() == 1


def test_defaults_and_overrides_apply_to_every_statement_that_creates_a_table(house: tuple[SparkSession, Catalog]) -> None:
    spark, catalog = house
    expected = {"write.format.default": "orc", "my_own": "1", "write.wap.enabled": "true"}
    spark.sql("CREATE TABLE house.first.a (id BIGINT) USING iceberg")
    spark.sql("CREATE TABLE house.first.b USING iceberg AS SELECT 1 AS id")
    spark.sql("CREATE OR REPLACE TABLE house.first.a (n INT) USING iceberg TBLPROPERTIES ('write.format.default' = 'avro')")
    spark.range(3).writeTo("house.first.c").tableProperty("write.wap.enabled", "false").create()
    assert catalog.load_table("first.a").properties.items() >= {**expected, "write.format.default": "avro"}.items()
    for name in ("b", "c"):
        table = catalog.load_table(("first", name))
        assert table.properties.items() >= expected.items(), name
        assert table.location().rsplit("/", 1)[1].startswith(f"{name}-")
        assert {file.file_format.name for file in (task.file for task in table.scan().plan_files())} == {"ORC"}
