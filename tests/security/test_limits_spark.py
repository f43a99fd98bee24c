"""Limits of the driver hold in Spark's tasks, and rows that are nested too deeply are refused by every write of Spark."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icefloe import InvalidSchemaError, Limits, SqlCatalog, set_limits
from icefloe.spark.runtime.start_session import active_session
from icefloe.spec.limits import limits

pytestmark = pytest.mark.spark
Run = Callable[[str], list[tuple[Any, ...]]]
ALLOWED = Limits().write_nesting


@pytest.fixture
def restored() -> Iterator[None]:
    before = limits()
    yield
    set_limits(before)
    active_session()


def type_of(kind: str, levels: int) -> tuple[str, str]:
    """Return Spark's name of a type that is so many levels deep, and an expression that makes a value of it."""
    name, value = "bigint", "cast(7 as bigint)"
    for _ in range(levels):
        if kind == "list":
            name, value = f"array<{name}>", f"array({value})"
        elif kind == "struct":
            name, value = f"struct<f:{name}>", f"named_struct('f', {value})"
        else:
            name, value = f"map<string,{name}>", f"map('k', {value})"
    return name, value


@pytest.mark.parametrize("kind", [*(pytest.param(kind, marks=pytest.mark.slow) for kind in ("list", "struct")), "map"])
def test_the_deepest_rows_that_spark_writes_are_read_back(spark: SparkSession, lake: SqlCatalog, sql: Run, kind: str) -> None:
    name, value = type_of(kind, ALLOWED)
    sql(f"CREATE TABLE lake.db.deep_{kind} (id bigint, c {name})")
    sql(f"INSERT INTO lake.db.deep_{kind} SELECT 1, {value}")
    table = lake.load_table(f"db.deep_{kind}")
    table.append(spark.sql(f"SELECT cast(2 as bigint) AS id, {value} AS c"))
    found = [spark.table(f"lake.db.deep_{kind}").orderBy("id").collect(), table.scan().to_spark().orderBy("id").collect()]
    assert [[row.id for row in rows] for rows in found] == [[1, 2], [1, 2]]
    assert table.scan().to_arrow().column("c").to_pylist()[0] is not None
    sql(f"DELETE FROM lake.db.deep_{kind} WHERE id = 1 AND c IS NOT NULL")
    assert [row[0] for row in sql(f"SELECT id FROM lake.db.deep_{kind}")] == [2]


@pytest.mark.parametrize("kind", ["list", "struct", "map"])
def test_a_deeper_column_is_refused_in_sql(lake: SqlCatalog, sql: Run, kind: str) -> None:
    name, value = type_of(kind, ALLOWED + 1)
    for statement in (f"CREATE TABLE lake.db.deeper (id bigint, c {name})", f"CREATE TABLE lake.db.deeper AS SELECT {value} AS c"):
        with pytest.raises(Exception, match=f"more than {ALLOWED} levels deep"):
            sql(statement)
    assert not lake.table_exists("db.deeper")
    sql(f"CREATE TABLE lake.db.flat_{kind} (id bigint)")
    with pytest.raises(Exception, match=f"more than {ALLOWED} levels deep"):
        sql(f"ALTER TABLE lake.db.flat_{kind} ADD COLUMN c {name}")


@pytest.mark.usefixtures("restored")
def test_rows_of_a_deeper_table_are_not_appended(spark: SparkSession, lake: SqlCatalog, sql: Run) -> None:
    name, value = type_of("struct", ALLOWED + 5)
    set_limits(Limits(write_nesting=100))
    sql(f"CREATE TABLE lake.db.deeper_already (c {name})")
    set_limits(Limits())
    with pytest.raises(Exception, match=f"more than {ALLOWED} levels deep"):
        sql(f"INSERT INTO lake.db.deeper_already SELECT {value}")
    with pytest.raises(InvalidSchemaError, match=f"more than {ALLOWED} levels deep"):
        lake.load_table("db.deeper_already").append(spark.sql(f"SELECT {value} AS c"))
    assert lake.load_table("db.deeper_already").current_snapshot() is None


@pytest.mark.usefixtures("restored")
def test_tasks_have_the_limits_of_the_driver(spark: SparkSession) -> None:
    def limits_of_task(_: int) -> Limits:  # in here, since tasks cannot import tests
        return limits()

    for given in (Limits(manifest_schema_types=3), Limits()):
        set_limits(given)
        active_session()  # as every job of Icefloe does
        seen = spark.sparkContext.parallelize([1], 1).map(limits_of_task).collect()
        assert seen == [given]
