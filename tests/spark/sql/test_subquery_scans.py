"""Scalar subqueries over one table: those with the same filter are read by one scan, whatever they aggregate, and each returns what it returns alone."""

import random
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from tests.combinations import repetitions

from icefloe import SqlCatalog
from icefloe.spark import attach

pytestmark = pytest.mark.spark

COLUMNS = "id INT, n BIGINT, price DECIMAL(7, 2), name STRING, place STRUCT<x: INT, y: STRING>, kind STRING"
AGGREGATES = (
    "count(*)", "sum(n)", "avg(price)", "max(name)", "min(place.x)", "max(place.y)", "max(place)", "count(DISTINCT kind)", "min(kind)", "sum(id)",
    "sum(price) FILTER (WHERE n > 5)", "max(id + n)",
)  # fmt: skip
FILTERS = (
    "",
    "WHERE id BETWEEN 3 AND 40",
    "WHERE n < 12",
    "WHERE place.x > 3",
    "WHERE kind = 'k1' AND price > 10",
    "WHERE name IS NOT NULL",
    "WHERE id > 999",
)
TABLES = ("plain", "deleted", "partitioned", "plain VERSION AS OF 'before'")


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> Iterator[SparkSession]:
    """Return a session that compares the types of all columns of a plan after each rule, as Spark's own tests do."""
    spark.conf.set("spark.sql.planChangeValidation", "true")
    yield spark
    spark.conf.unset("spark.sql.planChangeValidation")


@pytest.fixture
def tables(session: SparkSession, lake: SqlCatalog) -> SparkSession:
    """Create three tables of the same rows; 'before' is an earlier state of the first."""
    attach(session, "lake", lake)
    rows = """SELECT id, id % 17, CAST(id * 1.37 AS DECIMAL(7, 2)), nullif(concat('n', id % 23), 'n7'),
        nullif(named_struct('x', id % 9, 'y', concat('y', id % 5)), named_struct('x', 4, 'y', 'y4')), concat('k', id % 3) FROM RANGE(60)"""
    for name in ("plain", "deleted", "partitioned"):
        by = "PARTITIONED BY (kind)" if name == "partitioned" else ""
        session.sql(
            f"CREATE TABLE lake.db.{name} ({COLUMNS}) USING iceberg {by} TBLPROPERTIES ('format-version' = '3', 'write.delete.mode' = 'merge-on-read')"
        )
        session.sql(f"INSERT INTO lake.db.{name} {rows}")
    session.sql("ALTER TABLE lake.db.plain CREATE TAG before")
    session.sql("ALTER TABLE lake.db.plain RENAME COLUMN name TO title")
    session.sql("ALTER TABLE lake.db.plain ADD COLUMN name STRING")
    session.sql(f"INSERT INTO lake.db.plain SELECT *, 'new' FROM ({rows})")
    session.sql("DELETE FROM lake.db.deleted WHERE id % 7 = 3")
    return session


def _scans(spark: SparkSession, query: str) -> int:
    """Return the number of different scans in the plan of a query. Spark runs equal subqueries once, and their plans have the same ids of columns."""
    plan = spark.sql(query)._jdf.queryExecution().optimizedPlan().toString()
    return len({line[line.index("Relation [") :] for line in plan.splitlines() if "Relation [" in line})


@pytest.mark.parametrize("table", ["plain", "deleted", "partitioned"])
def test_subqueries_with_one_filter_are_one_scan(tables: SparkSession, table: str) -> None:
    def scans(*aggregates: str) -> int:
        return _scans(tables, f"SELECT {', '.join(f'(SELECT {one} FROM lake.db.{table} WHERE id BETWEEN 3 AND 40)' for one in aggregates)}")

    assert scans("count(*)", "sum(n)", "avg(price)", "min(place.x)", "count(name)") == 1
    # The scans read other fields of the struct.
    assert scans("sum(n)", "min(place.x)", "count(place.y)", "avg(price)") == 2


def test_subqueries_of_other_rows_stay_apart(tables: SparkSession) -> None:
    subqueries = [
        "SELECT sum(n) FROM lake.db.plain WHERE id > 3",
        "SELECT max(price) FROM lake.db.plain VERSION AS OF 'before' WHERE id > 3",
        "SELECT max(price) FROM lake.db.deleted WHERE id > 3",
    ]
    assert _scans(tables, f"SELECT {', '.join(f'({subquery})' for subquery in subqueries)}") == 3


@pytest.mark.parametrize("seed", repetitions(range(6), 0))
def test_subqueries_return_what_they_return_alone(tables: SparkSession, seed: int) -> None:
    chance = random.Random(seed)
    subqueries = [
        f"SELECT {chance.choice(AGGREGATES)} FROM lake.db.{table} {where}"
        for table, where in [(chance.choice(TABLES), chance.choice(FILTERS)) for _ in range(2)]
        for _ in range(3)
    ]
    together = tables.sql(f"SELECT {', '.join(f'({subquery}) AS c{i}' for i, subquery in enumerate(subqueries))}").collect()[0]
    assert list(together) == [tables.sql(subquery).collect()[0][0] for subquery in subqueries]
