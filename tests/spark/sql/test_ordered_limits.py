"""ORDER BY with LIMIT: the scan reads only the files that may have one of the first rows."""

import math
import re
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.spark.merge_on_read import delete_keys_everywhere, delete_positions
from tests.spark.sql.conftest import Run, append
from tests.spark.sql_tab import executions, metrics_since, of_nodes

from icefloe import SqlCatalog
from icefloe.table import Table

pytestmark = pytest.mark.spark

FILES = 6


def of_six_files(lake: SqlCatalog) -> Table:
    """Create a table of ids from 0 to 59 in six files, with a text, a number with NaN and null, and a value that every file has."""
    schema = pa.schema([("id", pa.int64()), ("name", pa.string()), ("x", pa.float64()), ("kind", pa.string())])
    table = lake.create_table("db.t", schema, properties={"format-version": "3"})
    for start in range(0, 10 * FILES, 10):
        ids = range(start, start + 10)
        special = {20: math.nan, 30: None, 31: None}
        rows = {"id": ids, "name": [f"{number:03}" + "x" * 20 for number in ids], "x": [special.get(number, number / 2) for number in ids]}
        table.append(pa.table({**rows, "kind": ["a", "b"] * 5}))
    return table


def skipped_and_rows(spark: SparkSession, text: str) -> tuple[int, list[tuple[Any, ...]]]:
    """Return the number of files that a query skips by its order, as its plan shows it, and the rows."""
    frame = spark.sql(text)
    plan = frame._jdf.queryExecution().executedPlan().toString()
    skipped = re.search(r"FileScan parquet lake\.db\.t \((\d+) files skipped by ORDER BY and LIMIT\)", plan)
    return int(skipped[1]) if skipped else 0, [tuple(row) for row in frame.collect()]


QUERIES: list[tuple[str, int, list[int]]] = [
    ("SELECT id FROM lake.db.t ORDER BY id LIMIT 3", 5, [0, 1, 2]),
    ("SELECT id FROM lake.db.t ORDER BY id DESC LIMIT 11", 4, [*range(59, 48, -1)]),
    ("SELECT id FROM lake.db.t ORDER BY name DESC, kind LIMIT 2", 5, [59, 58]),
    ("SELECT id FROM lake.db.t ORDER BY id LIMIT 2 OFFSET 19", 3, [19, 20]),
    # A page after the last row of the page before it.
    ("SELECT id FROM lake.db.t WHERE id > 34 ORDER BY id LIMIT 3", 1, [35, 36, 37]),
    # The filter may match no row of a file, and then none of its rows counts.
    ("SELECT id FROM lake.db.t WHERE kind = 'b' ORDER BY id LIMIT 3", 0, [1, 3, 5]),
    ("SELECT id FROM lake.db.t WHERE id % 2 = 1 ORDER BY id LIMIT 3", 0, [1, 3, 5]),
    ("SELECT id FROM lake.db.t ORDER BY x NULLS FIRST, id LIMIT 2", 5, [30, 31]),
    ("SELECT id FROM lake.db.t ORDER BY x DESC, id LIMIT 2", 4, [20, 59]),
    ("SELECT id FROM lake.db.t ORDER BY -id LIMIT 2", 0, [59, 58]),
    ("SELECT n FROM (SELECT id AS n, kind FROM lake.db.t WHERE id >= 10) WHERE n < 55 ORDER BY n DESC LIMIT 2", 3, [54, 53]),
    ("(SELECT id FROM lake.db.t ORDER BY id LIMIT 1) UNION ALL (SELECT max(id) FROM lake.db.t WHERE kind = 'a')", 5, [0, 58]),
]


def test_a_query_reads_the_files_with_its_first_rows(spark: SparkSession, sql: Run, lake: SqlCatalog) -> None:
    of_six_files(lake)
    for query, skipped, rows in QUERIES:
        assert skipped_and_rows(spark, query) == (skipped, [(row,) for row in rows]), query
    assert sql("SELECT record_count FROM lake.db.t.files ORDER BY file_path LIMIT 1") == [(10,)]
    by_options = spark.read.format("icefloe").option("where", "id > 12").load("lake.db.t").orderBy("id").limit(1)
    assert by_options.select("id").collect() == [(13,)]


def test_rows_that_may_be_deleted_are_not_counted(spark: SparkSession, sql: Run, lake: SqlCatalog) -> None:
    table = of_six_files(lake)
    first_file = next(task.file.file_path for task in table.scan("id = 0").plan_files())
    delete_positions(table, {first_file: range(8)})
    assert skipped_and_rows(spark, "SELECT id FROM lake.db.t ORDER BY id LIMIT 2") == (5, [(8,), (9,)])
    assert skipped_and_rows(spark, "SELECT id FROM lake.db.t ORDER BY id LIMIT 3") == (4, [(8,), (9,), (10,)])
    delete_keys_everywhere(table, pa.table({"id": pa.array([9], pa.int64())}), ["id"])
    assert skipped_and_rows(spark, "SELECT id FROM lake.db.t ORDER BY id LIMIT 2") == (4, [(8,), (10,)])
    append(lake, [(number, "new", None, "c") for number in range(-5, 0)])
    assert skipped_and_rows(spark, "SELECT id FROM lake.db.t ORDER BY id LIMIT 2") == (6, [(-5,), (-4,)])


def test_partition_values_are_bounds_and_columns_are_found_by_id(spark: SparkSession, sql: Run, lake: SqlCatalog) -> None:
    sql(
        "CREATE TABLE lake.db.t (day INT, old INT) USING iceberg PARTITIONED BY (day) "
        "TBLPROPERTIES ('format-version'='3', 'write.metadata.metrics.default'='none')"
    )
    append(lake, [(day, row) for day in (3, 1, None, 2) for row in range(4)])
    sql("ALTER TABLE lake.db.t RENAME COLUMN day TO date")
    assert skipped_and_rows(spark, "SELECT date FROM lake.db.t ORDER BY date DESC LIMIT 4") == (3, [(3,)] * 4)
    assert skipped_and_rows(spark, "SELECT date, old FROM lake.db.t ORDER BY date, old DESC LIMIT 5") == (
        2,
        [(None, 3), (None, 2), (None, 1), (None, 0), (1, 3)],
    )
    assert skipped_and_rows(spark, "SELECT old FROM lake.db.t ORDER BY old LIMIT 1") == (0, [(0,)])  # there are no bounds


def test_the_sql_tab_shows_the_files_that_an_order_skips(spark: SparkSession, sql: Run, lake: SqlCatalog) -> None:
    of_six_files(lake)
    before = executions(spark)
    sql("SELECT id FROM lake.db.t WHERE id < 45 ORDER BY id DESC LIMIT 7")
    (scan,) = of_nodes(metrics_since(spark, before), "Scan")
    # One file is skipped by its bounds. The file with 45 has matching and other rows, so that the file before it has the rows that count.
    skipped = {name: scan[f"number of data files skipped by {name}"] for name in ("column statistics", "ORDER BY and LIMIT")}
    assert (skipped, scan["number of files read"]) == ({"column statistics": "1", "ORDER BY and LIMIT": "3"}, "2")
