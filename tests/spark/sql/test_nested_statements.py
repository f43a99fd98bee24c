"""Statements that read fields of structs inside lists and maps, and fields whose names other fields had: what they return, and what they store."""

import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.combinations import repetitions
from tests.spark.sql.conftest import append

from icefloe import SqlCatalog
from icefloe.spark import attach
from icefloe.spark.scan import spark_scan
from icefloe.spec.schema.schema import Schema

pytestmark = pytest.mark.spark

COLUMNS = "id INT, l ARRAY<STRUCT<a: INT, b: INT>>, m MAP<STRING, STRUCT<a: INT, c: STRING>>, k MAP<STRUCT<x: INT, y: INT>, INT>"
# Each with its rows for the ids 1, 2 and 3.
QUERIES = {
    "SELECT id, aliased.b FROM (SELECT id, l[0] AS aliased FROM {0})": [(1, 10), (2, 20), (3, 30)],
    "SELECT id, transform(l.b, v -> v + 1)[0] FROM {0}": [(1, 11), (2, 21), (3, 31)],
    "SELECT id, transform(l, v -> v.b)[0] FROM {0}": [(1, 10), (2, 20), (3, 30)],
    "SELECT id, map_entries(m).value[0].c FROM {0}": [(1, "c1"), (2, "c2"), (3, "c3")],
    "SELECT id, e.value.c FROM {0} LATERAL VIEW explode(map_entries(m)) AS e": [(1, "c1"), (2, "c2"), (3, "c3")],
    "SELECT id, v.c FROM {0} LATERAL VIEW explode(m) AS n, v": [(1, "c1"), (2, "c2"), (3, "c3")],
    "SELECT id, map_keys(k).y[0] FROM {0}": [(1, 1), (2, 2), (3, 3)],
    "SELECT id, q.b FROM {0} LATERAL VIEW posexplode(l) AS p, q WHERE q.b > 10": [(2, 20), (3, 30)],
    "SELECT id, (SELECT max(i.l[0].b) FROM {0} i WHERE i.id = o.id) FROM {0} o": [(1, 10), (2, 20), (3, 30)],
    "SELECT o.id, i.m['k'].c FROM {0} o JOIN {0} i ON o.l[0].b = i.l[0].b": [(1, "c1"), (2, "c2"), (3, "c3")],
    "SELECT id, sum(l[0].b) OVER (ORDER BY id) FROM {0}": [(1, 10), (2, 30), (3, 60)],
    "SELECT id, l[0].b FROM {0} WHERE l IS NOT NULL AND l[0].b IN (20, 30)": [(2, 20), (3, 30)],
    "SELECT id, l[0].b FROM {0} VERSION AS OF 'before' WHERE m['k'].c = 'c2'": [(2, 20)],
    "SELECT DISTINCT id, l[0].b FROM {0}.changes WHERE l[0].b = 20": [(2, 20)],
    "SELECT 1, size(partition_summaries.upper_bound) FROM {0}.manifests": [(1, 0)],
    "SELECT min(readable_metrics.id.lower_bound), max(readable_metrics.id.upper_bound) FROM {0}.files": [(1, 3)],
}


@pytest.fixture
def db(spark: SparkSession, lake: SqlCatalog) -> Iterator[SqlCatalog]:
    """Return the catalog, in a session that compares the types of all columns of a plan after each rule, as Spark's own tests do."""
    attach(spark, "lake", lake)
    spark.conf.set("spark.sql.planChangeValidation", "true")
    yield lake
    spark.conf.unset("spark.sql.planChangeValidation")


def _create(spark: SparkSession, lake: SqlCatalog, name: str, **properties: str) -> None:
    texts = ", ".join(f"'{key}' = '{value}'" for key, value in {"format-version": "2", **properties}.items())
    spark.sql(f"CREATE TABLE lake.db.{name} ({COLUMNS}) USING iceberg TBLPROPERTIES ({texts})")
    append(lake, [(i, [{"a": 1, "b": 10 * i}], {"k": {"a": 2, "c": f"c{i}"}}, [({"x": 3, "y": i}, 4)]) for i in (1, 2, 3)], f"db.{name}")


def _rows(spark: SparkSession, query: str) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, spark.sql(query).collect()))


def test_queries_of_fields_inside_lists_and_maps(spark: SparkSession, db: SqlCatalog) -> None:
    _create(spark, db, "t")
    spark.sql("ALTER TABLE lake.db.t CREATE TAG before")
    found = {query: _rows(spark, query.format("lake.db.t")) for query in QUERIES}
    assert found == QUERIES
    spark.sql("CREATE VIEW lake.db.v AS SELECT id, l[0].b AS b, m['k'].c AS c FROM lake.db.t")
    assert _rows(spark, "SELECT id, b, c FROM lake.db.v WHERE b <> 20") == [(1, 10, "c1"), (3, 30, "c3")]
    spark.sql("CREATE TABLE lake.db.copy USING iceberg AS SELECT id, l[0].b AS b, k FROM lake.db.t")
    assert _rows(spark, "SELECT id, b, map_keys(k)[0].y FROM lake.db.copy") == [(1, 10, 1), (2, 20, 2), (3, 30, 3)]


def test_fields_are_found_by_id_where_spark_prunes_the_scan_of_files_itself(spark: SparkSession, db: SqlCatalog) -> None:
    """Spark optimizes correlated subqueries twice, and a frame of a scan has the scan of files in its plan: both prune without regard to ids."""
    columns = "id INT, s STRUCT<x: INT, a: DOUBLE, deep: STRUCT<p: INT, q: INT>>, l ARRAY<STRUCT<x: INT, a: DOUBLE>>, m MAP<STRING, STRUCT<p: INT, q: INT>>"
    spark.sql(f"CREATE TABLE lake.db.t ({columns}) USING iceberg")
    spark.sql(
        "INSERT INTO lake.db.t SELECT id, named_struct('x', 1, 'a', 0.5D + id, 'deep', named_struct('p', 2, 'q', 10 * id)), "
        "array(named_struct('x', 3, 'a', 0.25D + id)), map('k', named_struct('p', 4, 'q', 20 * id)) FROM range(1, 3)"
    )
    spark.sql("ALTER TABLE lake.db.t RENAME COLUMN m TO renamed")
    spark.sql("ALTER TABLE lake.db.t RENAME COLUMN renamed.value.q TO also_renamed")
    paths = ["s.a", "s.deep.q", "l[0].a", "renamed['k'].also_renamed"]
    right = [(1, 1.5, 10, 1.25, 20), (2, 2.5, 20, 2.25, 40)]
    subqueries = ", ".join(f"(SELECT max(i.{path}) FROM lake.db.t i WHERE i.id = o.id)" for path in paths)
    assert _rows(spark, f"SELECT id, {subqueries} FROM lake.db.t o") == right
    assert sorted(map(tuple, db.load_table("db.t").scan().to_spark().selectExpr("id", *paths).collect())) == right


def test_a_filter_on_a_struct_that_has_a_name_with_a_backtick(spark: SparkSession, db: SqlCatalog) -> None:
    spark.sql("CREATE TABLE lake.db.ticks (c STRUCT<n: INT, `back``tick`: STRING>)")
    spark.sql("INSERT INTO lake.db.ticks VALUES (named_struct('n', 1, 'back`tick', 'a')), (named_struct('n', 2, 'back`tick', 'b'))")
    for condition, rows in (("c.n < 9", ["a", "b"]), ("c.n < 2", ["a"]), ("c IS NOT NULL AND c.n IS NOT NULL", ["a", "b"])):
        selected = spark.sql(f"SELECT c.`back``tick` AS v FROM lake.db.ticks WHERE {condition}")
        assert sorted(row.v for row in selected.collect()) == rows


def test_files_that_spark_writes_from_a_query_have_no_field_ids_of_the_table(spark: SparkSession, db: SqlCatalog, tmp_path: Path) -> None:
    _create(spark, db, "t")
    spark.sql("SELECT * FROM lake.db.t").coalesce(1).write.parquet(str(tmp_path / "out"))
    (file,) = (tmp_path / "out").glob("*.parquet")
    assert re.findall(r"field_id=\d+", str(pq.ParquetFile(file).schema)) == []
    assert spark.read.parquet(str(file)).selectExpr("sum(l[0].b)").collect() == [(60,)]


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_statements_change_the_rows_that_their_nested_condition_is_true_of(spark: SparkSession, db: SqlCatalog, mode: str) -> None:
    _create(spark, db, "t", **{f"write.{operation}.mode": mode for operation in ("delete", "update", "merge")})
    spark.sql("DELETE FROM lake.db.t WHERE l[0].b = 1 OR m['k'].c = '2' OR map_keys(k)[0].y = 3000")
    assert _rows(spark, "SELECT id FROM lake.db.t") == [(1,), (2,), (3,)]
    spark.sql("MERGE INTO lake.db.t t USING (SELECT l[0].b AS b FROM lake.db.t) s ON t.l[0].b = s.b AND s.b = 20 WHEN MATCHED THEN DELETE")
    assert _rows(spark, "SELECT id FROM lake.db.t") == [(1,), (3,)]
    spark.sql("UPDATE lake.db.t SET id = l[0].b WHERE m['k'].c IN (SELECT m['k'].c FROM lake.db.t WHERE map_keys(k)[0].y = 3)")
    spark.sql("DELETE FROM lake.db.t WHERE l[0].b = 10")
    assert _rows(spark, "SELECT id, l[0].b, m['k'].c, map_keys(k)[0].y FROM lake.db.t") == [(30, 30, "c3", 3)]


def test_a_scan_with_other_columns_than_requested_is_refused(spark: SparkSession, db: SqlCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    _create(spark, db, "t")
    monkeypatch.setattr(
        spark_scan, "projection_of", lambda scan, struct: Schema(*(scan.schema().find_field(name) for name in struct.names))
    )
    with pytest.raises(Exception, match=r"lake.db.t have the column l as .* requested .*\n.*Next: "):
        spark.sql("SELECT l[0].b FROM lake.db.t").collect()


REUSES = {
    "renamed": ["RENAME COLUMN {0}.a TO aa", "ADD COLUMN {0}.a DECIMAL(9,4)"],
    "dropped": ["DROP COLUMN {0}.a", "ADD COLUMN {0}.a STRING", "RENAME COLUMN {0}.b TO aa"],
    "swapped": ["RENAME COLUMN {0}.a TO aa", "RENAME COLUMN {0}.b TO a"],
    "in another case": ["RENAME COLUMN {0}.a TO aa", "ADD COLUMN {0}.A BIGINT"],
}


@pytest.mark.parametrize("reuse", repetitions(list(REUSES), "dropped", "in another case"))
def test_a_name_that_another_field_had(spark: SparkSession, db: SqlCatalog, reuse: str) -> None:
    inner = "STRUCT<a: DECIMAL(5,2), b: DOUBLE>"
    spark.sql(
        f"CREATE TABLE lake.db.t (id INT, s {inner}, l ARRAY<{inner}>, m MAP<STRING, {inner}>) USING iceberg "
        "TBLPROPERTIES ('format-version' = '2', 'write.delete.mode' = 'merge-on-read', 'write.update.mode' = 'copy-on-write')"
    )
    values = [(number, {"a": Decimal(number) + Decimal("0.25"), "b": number / 2}) for number in range(1, 5)]
    for part in (values[:2], values[2:]):
        append(db, [(number, value, [value, None], {"k": value}) for number, value in part])
    for path in ("s", "l.element", "m.value"):
        for change in REUSES[reuse]:
            spark.sql(f"ALTER TABLE lake.db.t {change.format(path)}")
    spark.sql("ALTER TABLE lake.db.t RENAME COLUMN s TO renamed")
    table = db.load_table("db.t")
    spark.sql("DELETE FROM lake.db.t WHERE id = 2")
    table.refresh()
    names = ("a", "aa")
    expected = {row["id"]: row for row in table.scan().to_arrow().to_pylist()}
    selected = ", ".join(f"renamed.{name}, l.{name}, m['k'].{name}" for name in names)
    rows = _rows(spark, f"SELECT id, _pos, {selected} FROM lake.db.t WHERE renamed IS NOT NULL")
    assert [row[:2] for row in rows] == [(1, 0), (3, 0), (4, 1)]
    for row in rows:
        of_row = {name.lower(): value for name, value in expected[row[0]]["renamed"].items()}
        assert row[2:] == tuple(v for name in names for v in (of_row[name], [of_row[name], None], of_row[name]))
    spark.sql("UPDATE lake.db.t SET id = id + 100 WHERE renamed.aa > 1.5 OR id = 3")
    table.refresh()
    stored = {row["id"] % 100: {**row, "id": row["id"] % 100} for row in table.scan().to_arrow().to_pylist()}
    assert stored == expected
