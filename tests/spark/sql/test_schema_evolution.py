"""MERGE and INSERT WITH SCHEMA EVOLUTION: columns are added and widened in the commit of the rows, and not at all if the statement fails."""

from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from itertools import product
from typing import Any

import pyarrow as pa
import pytest
from pyspark import __version__
from pyspark.errors import AnalysisException, IllegalArgumentException, PySparkException, UnsupportedOperationException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 Spark's users know it by this letter
from tests.combinations import repetitions
from tests.spark.sql.conftest import Run, append

from icefloe import SqlCatalog
from icefloe.spark.catalog import spark_catalog
from icefloe.spec.types import StringType
from icefloe.table.table import Table

SPARK = tuple(map(int, __version__.split(".")[:2]))
FORMS = list(product((2, 3), ("copy-on-write", "merge-on-read")))
MERGE = "MERGE WITH SCHEMA EVOLUTION INTO lake.db.t USING s ON t.id = s.id"
BOTH = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"

pytestmark = pytest.mark.spark
evolves = pytest.mark.skipif(SPARK < (4, 1), reason="Spark 4.0 runs the statement as if the words were not there")
inserts = pytest.mark.skipif(SPARK < (4, 2), reason="INSERT WITH SCHEMA EVOLUTION is of Spark 4.2")


def made(sql: Run, version: int = 2, mode: str = "merge-on-read", columns: str = "id INT, kind STRING", more: str = "") -> None:
    sql(
        f"CREATE TABLE lake.db.t ({columns}) USING iceberg TBLPROPERTIES ('format-version' = '{version}', 'write.merge.mode' = '{mode}'{more})"
    )


def source(spark: SparkSession, query: str) -> None:
    spark.sql(query).createOrReplaceTempView("s")


def types(table: Table) -> dict[str, str]:
    return {field.name: str(field.field_type) for field in table.refresh().schema().fields}


def row_ids(sql: Run) -> dict[Any, Any]:
    return dict(sql("SELECT id, _row_id FROM lake.db.t"))  # type: ignore[arg-type]


@evolves
@pytest.mark.parametrize(("version", "mode"), repetitions(FORMS, (2, "copy-on-write"), (3, "merge-on-read")))
def test_columns_nested_fields_and_wider_types_are_in_the_commit_of_the_rows(
    spark: SparkSession, sql: Run, lake: SqlCatalog, version: int, mode: str
) -> None:
    made(sql, version, mode, "id INT, n INT, f FLOAT, d DECIMAL(6, 2), p STRUCT<x: INT>, l ARRAY<STRUCT<a: INT>>, m MAP<STRING, INT>")
    sql(
        "INSERT INTO lake.db.t SELECT id, id, id, id, named_struct('x', id), array(named_struct('a', id)), map('k', id) FROM VALUES (1), (2) AS v(id)"
    )
    source(
        spark,
        """SELECT id, 10000000000 + id AS n, CAST(0.1 AS DOUBLE) AS f, CAST(12345678.9 AS DECIMAL(12, 2)) AS d, named_struct('x', id, 'y', 'y') AS p,
           array(named_struct('a', id, 'b', true)) AS l, map('k', 10000000000) AS m, DATE'2024-01-01' AS day FROM VALUES (2), (3) AS v(id)""",
    )
    table, ids = lake.load_table("db.t"), row_ids(sql)
    versions = len(table.metadata.metadata_log)
    sql(f"{MERGE} {BOTH}")
    assert sorted(sql("SELECT id, n, f, CAST(d AS STRING), p.x, p.y, l[0].a, l[0].b, m['k'], CAST(day AS STRING) FROM lake.db.t")) == [
        (1, 1, 1.0, "1.00", 1, None, 1, None, 1, None),
        (2, 10000000002, 0.1, "12345678.90", 2, "y", 2, True, 10000000000, "2024-01-01"),
        (3, 10000000003, 0.1, "12345678.90", 3, "y", 3, True, 10000000000, "2024-01-01"),
    ]
    assert {name: kind for name, kind in types(table).items() if name in "nfd"} == {"n": "long", "f": "double", "d": "decimal(12, 2)"}
    assert len(table.metadata.metadata_log) == versions + 1  # columns and rows are one version of the table
    assert len(table.snapshots()) == 2
    assert table.current_snapshot().schema_id == table.schema().schema_id
    assert row_ids(sql)[2] == ids[2]
    assert version == 2 or row_ids(sql)[3] not in ids.values()
    assert table.scan().to_arrow().sort_by("id").column("n").to_pylist() == [1, 10000000002, 10000000003]


@evolves
def test_a_source_with_fewer_columns_does_not_change_the_others(spark: SparkSession, sql: Run, lake: SqlCatalog) -> None:
    made(sql, columns="id INT, kind STRING, pay INT")
    append(lake, [(1, "a", 100), (2, "b", 200)])
    source(spark, "SELECT * FROM VALUES (1, 'new'), (3, 'c') AS v(id, kind)")
    sql(f"{MERGE} {BOTH}")
    assert sorted(sql("SELECT * FROM lake.db.t")) == [(1, "new", 100), (2, "b", 200), (3, "c", None)]


@evolves
def test_only_columns_that_are_assigned_are_added(spark: SparkSession, sql: Run, lake: SqlCatalog) -> None:
    made(sql)
    append(lake, [(1, "a")])
    source(spark, "SELECT 1 AS id, 'b' AS kind, 5 AS n, 6 AS other")
    sql(f"{MERGE} WHEN MATCHED AND s.other = 6 THEN UPDATE SET n = s.n")
    assert sql("SELECT * FROM lake.db.t") == [(1, "a", 5)]


@evolves
def test_a_statement_that_is_explained_or_fails_changes_no_columns(spark: SparkSession, sql: Run, lake: SqlCatalog) -> None:
    made(sql)
    append(lake, [(1, "a"), (2, "b")])
    table = lake.load_table("db.t")
    before = table.metadata_location
    source(spark, "SELECT 1 AS id, 'b' AS kind, 5 AS n UNION ALL SELECT 1, 'c', 6")
    sql(f"EXPLAIN {MERGE} {BOTH}")
    with pytest.raises(PySparkException, match="MERGE_CARDINALITY_VIOLATION"):
        sql(f"{MERGE} {BOTH}")
    source(spark, "SELECT 1 AS id, 'b' AS kind, raise_error('no') AS n")
    with pytest.raises(PySparkException, match="no"):
        sql(f"{MERGE} {BOTH}")
    source(spark, "SELECT 1 AS id, 'b' AS kind, INTERVAL 1 DAY AS span")
    with pytest.raises(PySparkException, match=r"no counterpart|UNSUPPORTED"):
        sql(f"{MERGE} {BOTH}")
    assert table.refresh().metadata_location == before
    sql("MERGE INTO lake.db.t USING s ON t.id = s.id WHEN MATCHED THEN DELETE")  # nothing is kept for the statements after it
    assert sql("SELECT * FROM lake.db.t") == [(2, "b")]


@evolves
def test_a_narrower_source_is_cast_to_the_column_s_type(spark: SparkSession, sql: Run, lake: SqlCatalog) -> None:
    made(sql, columns="id BIGINT, n DOUBLE, i INT, j INT")
    append(lake, [(1, 1, 1, 1)])
    source(spark, "SELECT CAST(1 AS INT) AS id, CAST(2.5 AS FLOAT) AS n, CAST(2 AS SMALLINT) AS i, CAST(3 AS TINYINT) AS j, 'x' AS more")
    if SPARK < (4, 2):
        with pytest.raises((AnalysisException, IllegalArgumentException), match="id"):
            sql(f"{MERGE} {BOTH}")
        assert list(types(lake.load_table("db.t"))) == ["id", "n", "i", "j"]
    else:
        sql(f"{MERGE} {BOTH}")
        assert sql("SELECT * FROM lake.db.t") == [(1, 2.5, 2, 3, "x")]
        assert types(lake.load_table("db.t")) == {"id": "long", "n": "double", "i": "int", "j": "int", "more": "string"}


@evolves
def test_a_table_property_turns_schema_evolution_off(spark: SparkSession, sql: Run, lake: SqlCatalog) -> None:
    made(sql, more=", 'write.spark.auto-schema-evolution.enabled' = 'false'")
    append(lake, [(1, "a")])
    source(spark, "SELECT 1 AS id, 'b' AS kind, 5 AS n")
    sql(f"{MERGE} {BOTH}")
    assert sql("SELECT * FROM lake.db.t") == [(1, "b")]


@evolves
def test_rows_for_a_branch_add_columns_to_the_table(spark: SparkSession, sql: Run, lake: SqlCatalog) -> None:
    made(sql)
    append(lake, [(1, "a")])
    sql("ALTER TABLE lake.db.t CREATE BRANCH b")
    source(spark, "SELECT 1 AS id, 'b' AS kind, 5 AS n")
    sql(f"MERGE WITH SCHEMA EVOLUTION INTO lake.db.t.branch_b AS t USING s ON t.id = s.id {BOTH}")
    assert sql("SELECT * FROM lake.db.t.branch_b") == [(1, "b", 5)]
    assert sql("SELECT * FROM lake.db.t") == [(1, "a", None)]


@evolves
def test_merge_into_of_a_dataframe_evolves_the_schema(spark: SparkSession, sql: Run, lake: SqlCatalog) -> None:
    made(sql)
    append(lake, [(1, "a")])
    rows = spark.sql("SELECT 1 AS id, 'b' AS kind, 5 AS n").alias("s")
    rows.mergeInto("lake.db.t", F.expr("s.id = t.id")).withSchemaEvolution().whenMatched().updateAll().whenNotMatched().insertAll().merge()
    assert sql("SELECT * FROM lake.db.t") == [(1, "b", 5)]


@evolves
@pytest.mark.parametrize("other", ["rows", "columns"])
def test_with_a_concurrent_writer_the_statement_is_committed_or_refused_as_a_whole(
    spark: SparkSession, sql: Run, lake: SqlCatalog, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    made(sql, more=", 'write.merge.isolation-level' = 'snapshot', 'commit.retry.min-wait-ms' = '1'")
    append(lake, [(1, "a")])
    source(spark, "SELECT 1 AS id, 'b' AS kind, 5 AS n")
    commit = spark_catalog.commit

    def after_another(*given: Any) -> Any:
        with lake.load_table("db.t").transaction() as transaction:
            if other == "rows":
                transaction.append(pa.table({"id": pa.array([2], pa.int32()), "kind": ["c"]}))
            else:
                transaction.update_schema().add_column("theirs", StringType()).commit()
        return commit(*given)

    monkeypatch.setattr(spark_catalog, "commit", after_another)
    if other == "rows":
        sql(f"{MERGE} {BOTH}")
        assert sorted(sql("SELECT * FROM lake.db.t")) == [(1, "b", 5), (2, "c", None)]
    else:
        with pytest.raises(PySparkException, match="schema"):
            sql(f"{MERGE} {BOTH}")
        assert sql("SELECT * FROM lake.db.t") == [(1, "a", None)]
        assert list(types(lake.load_table("db.t"))) == ["id", "kind", "theirs"]


@evolves
@inserts
@pytest.mark.parametrize("how", ["INSERT {} INTO lake.db.t BY NAME", "INSERT {} OVERWRITE lake.db.t BY NAME", "INSERT {} INTO lake.db.t"])
def test_insert_adds_columns_in_the_commit_of_its_rows(spark: SparkSession, sql: Run, lake: SqlCatalog, how: str) -> None:
    made(sql)
    append(lake, [(1, "a")])
    table = lake.load_table("db.t")
    versions = len(table.metadata.metadata_log)
    sql(f"{how.format('WITH SCHEMA EVOLUTION')} SELECT 10000000000 AS id, 'b' AS kind, 5 AS n")
    kept = [] if "OVERWRITE" in how else [(1, "a", None)]
    assert sorted(sql("SELECT * FROM lake.db.t")) == [*kept, (10000000000, "b", 5)]
    assert len(table.refresh().metadata.metadata_log) == versions + 1


@pytest.fixture
def completed(spark: SparkSession) -> Iterator[None]:
    """Let Spark complete structs, and compare the types of all columns of a plan after each rule, as Spark's own tests do."""
    names = [
        f"spark.sql.{name}" for name in ("planChangeValidation", "insertNestedTypeCoercion.enabled", "mergeNestedTypeCoercion.enabled")
    ]
    for name in names:
        spark.conf.set(name, "true")
    yield
    for name in names:
        spark.conf.unset(name)


@evolves
@pytest.mark.usefixtures("completed")
@pytest.mark.parametrize("mode", repetitions(["copy-on-write", "merge-on-read"], "copy-on-write"))
def test_structs_without_a_field_get_its_default(spark: SparkSession, sql: Run, mode: str) -> None:
    columns = """id INT, s STRUCT<a: INT, x: INT, e: STRUCT<b: INT, x: STRING>>, l ARRAY<STRUCT<a: INT, x: DECIMAL(6, 2)>>,
        m MAP<STRING, STRUCT<a: INT, x: DATE>>, n ARRAY<ARRAY<STRUCT<a: INT, x: BIGINT>>>"""
    made(sql, 3, mode, columns)
    for field, default in {
        "s.x": "7",
        "s.e.x": "'it\\'s'",
        "l.element.x": "1.5",
        "m.value.x": "DATE'2024-02-03'",
        "n.element.element.x": "8",
    }.items():
        sql(f"ALTER TABLE lake.db.t ALTER COLUMN {field} SET DEFAULT {default}")
    without = """named_struct('a', id, 'e', named_struct('b', id)) AS s, array(named_struct('a', id), NULL) AS l, map('k', named_struct('a', id)) AS m,
        array(array(named_struct('a', id))) AS n"""
    default_row = lambda id: (  # noqa: E731 a row beside its query
        id, (id, 7, (id, "it's")), [(id, Decimal("1.50")), None], {"k": (id, date(2024, 2, 3))}, [[(id, 8)]]
    )  # fmt: skip
    # Rows with every field, and nulls, stay as they are.
    sql(
        "INSERT INTO lake.db.t VALUES (1, named_struct('a', 0, 'x', NULL, 'e', named_struct('b', 0, 'x', 'own')), NULL, NULL, NULL),"
        " (2, NULL, NULL, NULL, NULL)"
    )
    source(spark, f"SELECT id, {without} FROM VALUES (1), (3) AS v(id)")
    sql(f"{MERGE} {BOTH}")
    expected = {
        1: (1, (1, None, (1, "own")), *default_row(1)[2:]),  # an update keeps the fields of a struct that the source lacks
        2: (2, None, None, None, None),
        3: default_row(3),
    }
    if SPARK >= (4, 2):
        sql(f"INSERT WITH SCHEMA EVOLUTION INTO lake.db.t BY NAME SELECT id, {without} FROM VALUES (4) AS v(id)")
        expected[4] = default_row(4)
    assert {row[0]: row for row in sql("SELECT * FROM lake.db.t")} == expected
    # Fields that are added later have their initial default in older rows, at every depth, and the later default in new rows.
    for field in ("s.e.y", "l.element.y", "m.value.y", "n.element.element.y"):
        sql(f"ALTER TABLE lake.db.t ADD COLUMN {field} INT DEFAULT 70")
        sql(f"ALTER TABLE lake.db.t ALTER COLUMN {field} SET DEFAULT 71")
    source(spark, f"SELECT id, {without} FROM VALUES (6) AS v(id)")
    sql(f"{MERGE} {BOTH}")
    rows = sql("SELECT id, s.e.y, l[0].y, l.y, m['k'].y, n[0][0].y FROM lake.db.t WHERE id IN (2, 3, 6) ORDER BY id")
    assert rows == [(2, None, None, None, None, None), (3, 70, 70, [70, None], 70, 70), (6, 71, 71, [71, None], 71, 71)]


@pytest.mark.skipif(SPARK > (4, 0), reason="Spark 4.1 and later know the words")
def test_spark_4_0_refuses_schema_evolution(spark: SparkSession, sql: Run, lake: SqlCatalog) -> None:
    made(sql)
    source(spark, "SELECT 1 AS id, 'b' AS kind, 5 AS n")
    for text in (MERGE, MERGE.replace("lake.db.t", "lake.db.t AS t"), f"WITH w AS (SELECT 1) {MERGE}"):
        with pytest.raises(UnsupportedOperationException, match="MERGE WITH SCHEMA EVOLUTION"):
            sql(f"{text} {BOTH}")
    assert sql("SELECT * FROM lake.db.t") == []
