"""Storage-partitioned joins: scans that report their partitions, so that joins by partition fields need no shuffle."""

from collections.abc import Iterator
from datetime import date
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import IllegalArgumentException
from pyspark.sql import SparkSession
from tests.spark.sql.conftest import Run

from icefloe import SqlCatalog
from icefloe.table import Table

pytestmark = pytest.mark.spark

SETTINGS = {
    "spark.sql.sources.v2.bucketing.enabled": "true",
    "spark.sql.iceberg.planning.preserve-data-grouping": "true",
    "spark.sql.requireAllClusterKeysForCoPartition": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.adaptive.enabled": "false",
}
SHUFFLES_ONE_SIDE = "spark.sql.sources.v2.bucketing.shuffle.enabled"
JOIN = "SELECT l.id, l.name, r.name FROM lake.db.left l JOIN lake.db.right r ON l.id = r.id WHERE l.id % 7 = 0 ORDER BY l.id"


@pytest.fixture
def joined_by_storage(spark: SparkSession) -> Iterator[None]:
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    yield
    for name in (*SETTINGS, SHUFFLES_ONE_SIDE, "spark.sql.sources.v2.bucketing.partiallyClusteredDistribution.enabled"):
        spark.conf.unset(name)


def exchanges(sql: Run, text: str) -> int:
    """Return the number of shuffles by hash in a query's plan."""
    return str(sql(f"EXPLAIN {text}")[0][0]).count("hashpartitioning")


def tables(sql: Run, lake: SqlCatalog, partition: str) -> tuple[Table, Table]:
    """Create and fill two tables of one partitioning."""
    for name, step in (("left", 1), ("right", 2)):
        sql(f"CREATE TABLE lake.db.{name} (id BIGINT, day DATE, name STRING) USING iceberg PARTITIONED BY ({partition})")
        ids = range(0, 1000, step)
        days = [date(2024, 1, 1 + number % 4) for number in ids]
        lake.load_table(f"db.{name}").append(
            pa.table({"id": pa.array(ids, pa.int64()), "day": days, "name": [f"{name} {number}" for number in ids]})
        )
    return lake.load_table("db.left"), lake.load_table("db.right")


def expected() -> list[tuple[Any, ...]]:
    return [(number, f"left {number}", f"right {number}") for number in range(0, 1000, 14)]


@pytest.mark.usefixtures("joined_by_storage")
def test_tables_by_the_same_buckets_are_joined_without_a_shuffle(spark: SparkSession, sql: Run, lake: SqlCatalog) -> None:
    tables(sql, lake, "bucket(4, id)")
    assert exchanges(sql, JOIN) == 0
    assert sql(JOIN) == expected()
    spark.conf.set("spark.sql.iceberg.planning.preserve-data-grouping", "false")
    assert exchanges(sql, JOIN) == 2
    assert sql(JOIN) == expected()


@pytest.mark.usefixtures("joined_by_storage")
def test_partially_clustered_partitions_are_joined_without_a_shuffle(spark: SparkSession, sql: Run, lake: SqlCatalog) -> None:
    left, _ = tables(sql, lake, "bucket(4, id)")
    left.append(pa.table({"id": pa.array([5000], pa.int64()), "day": [date(2024, 1, 1)], "name": ["more"]}))
    spark.conf.set("spark.sql.sources.v2.bucketing.partiallyClusteredDistribution.enabled", "true")
    assert exchanges(sql, JOIN) == 0
    assert sql(JOIN) == expected()


@pytest.mark.usefixtures("joined_by_storage")
@pytest.mark.parametrize("partition", ["day", "days(day)", "months(day)", "day, bucket(4, id)"])
def test_tables_by_values_and_times_are_joined_without_a_shuffle(sql: Run, lake: SqlCatalog, partition: str) -> None:
    tables(sql, lake, partition)
    text = "SELECT l.name, l.day, r.id FROM lake.db.left l JOIN lake.db.right r ON l.day = r.day AND l.id = r.id WHERE l.id % 7 = 0 ORDER BY r.id"
    assert exchanges(sql, text) == 0
    assert sql(text) == [(f"left {number}", date(2024, 1, 1 + number % 4), number) for number in range(0, 1000, 14)]


@pytest.mark.usefixtures("joined_by_storage")
@pytest.mark.parametrize("partition", ["bucket(4, id)", "days(day)", "day, bucket(4, id)"])
def test_a_side_with_other_partitions_is_shuffled_by_those_of_the_other(
    spark: SparkSession, sql: Run, lake: SqlCatalog, partition: str
) -> None:
    tables(sql, lake, partition)
    sql("CREATE TABLE lake.db.whole USING iceberg AS SELECT * FROM lake.db.right")
    spark.conf.set(SHUFFLES_ONE_SIDE, "true")
    text = "SELECT l.id, l.name, r.name FROM lake.db.left l JOIN lake.db.whole r ON l.id = r.id AND l.day = r.day WHERE l.id % 7 = 0 ORDER BY l.id"
    assert sql(text) == expected()


@pytest.mark.usefixtures("joined_by_storage")
def test_other_buckets_deletes_and_single_tables_are_read_as_before(sql: Run, lake: SqlCatalog) -> None:
    left, right = tables(sql, lake, "bucket(4, id)")
    right.update_spec().remove_field("id_bucket").add_field("id", "bucket[8]", "id_bucket_8").commit()
    assert sql(JOIN) == expected()
    left.delete("id = 14")
    assert sql(JOIN) == [row for row in expected() if row[0] != 14]
    assert sql("SELECT count(*), min(name) FROM lake.db.left WHERE day = DATE'2024-01-02'") == [(250, "left 1")]


@pytest.mark.usefixtures("joined_by_storage")
def test_a_null_key_and_an_aggregate_by_the_key(sql: Run, lake: SqlCatalog) -> None:
    left, _ = tables(sql, lake, "bucket(4, id)")
    left.append(pa.table({"id": pa.array([None], pa.int64()), "day": [date(2024, 1, 1)], "name": ["none"]}))
    assert sql(JOIN) == expected()
    assert sql("SELECT count(*) FROM (SELECT id, count(*) FROM lake.db.left GROUP BY id)") == [(1001,)]


@pytest.mark.usefixtures("joined_by_storage")
def test_columns_are_found_by_id_where_the_session_reads_by_name(spark: SparkSession, sql: Run, lake: SqlCatalog) -> None:
    tables(sql, lake, "bucket(4, id)")
    sql("ALTER TABLE lake.db.left DROP COLUMN name")
    sql("ALTER TABLE lake.db.left ADD COLUMN name STRING")
    sql("ALTER TABLE lake.db.right RENAME COLUMN name TO old")
    spark.conf.set("spark.sql.parquet.fieldId.read.enabled", "false")
    try:
        text = JOIN.replace("r.name", "r.old")
        assert exchanges(sql, text) == 0
        assert sql(text) == [(number, None, name) for number, _, name in expected()]
    finally:
        spark.conf.set("spark.sql.parquet.fieldId.read.enabled", "true")


@pytest.mark.usefixtures("joined_by_storage")
def test_zeros_of_both_signs_are_joined_across_their_partitions(sql: Run, lake: SqlCatalog) -> None:
    for name, zero in (("left", 0.0), ("right", -0.0)):
        sql(f"CREATE TABLE lake.db.{name} (x DOUBLE) USING iceberg PARTITIONED BY (x)")
        lake.load_table(f"db.{name}").append(pa.table({"x": [zero, 1.0]}))
    assert sql("SELECT count(*) FROM lake.db.left l JOIN lake.db.right r ON l.x = r.x") == [(2,)]


@pytest.mark.usefixtures("joined_by_storage")
@pytest.mark.parametrize("size", ["0", "-1"])
def test_a_split_size_by_which_a_file_would_have_splits_without_end_is_refused(
    spark: SparkSession, sql: Run, lake: SqlCatalog, size: str
) -> None:
    tables(sql, lake, "bucket(4, id)")
    assert exchanges(sql, JOIN) == 0
    spark.conf.set("spark.sql.files.maxPartitionBytes", size)
    try:
        with pytest.raises(IllegalArgumentException, match=r"maxPartitionBytes is \S+ bytes, and a split of a file has at least 1"):
            sql(JOIN)
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")
