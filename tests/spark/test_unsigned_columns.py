"""Parquet files with field ids whose columns are unsigned, as PyIceberg and Polars append them: Spark's own scan reads what fits, and refuses the rest."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from icefloe import SqlCatalog
from icefloe.spark import attach
from icefloe.spark.scan import native_scan, read_strategy
from icefloe.spec.schema.arrow_schema import schema_to_arrow
from icefloe.table import Table

pytestmark = pytest.mark.spark

ITEM = pa.struct([("x", pa.int64()), ("y", pa.int32()), ("text", pa.string())])
SCHEMA = pa.schema(
    [
        ("n", pa.int64()),
        ("i", pa.int32()),
        ("wide", pa.int64()),
        ("b", pa.int32()),
        ("h", pa.int32()),
        ("l", pa.list_(pa.int64())),
        ("m", pa.map_(pa.int32(), pa.int64())),
        ("s", ITEM),
        ("ls", pa.list_(ITEM)),
        ("double", pa.float64()),
    ]
)
# The types of the columns above in files; the same name has the same type inside other columns.
STORED = {"n": pa.uint64(), "i": pa.uint32(), "wide": pa.uint32(), "b": pa.uint8(), "h": pa.uint16(), "x": pa.uint64(), "y": pa.uint32()}
MOST, MOST_INT = 2**63 - 1, 2**31 - 1
ROWS: list[dict[str, Any]] = [
    {"n": MOST, "i": MOST_INT, "wide": 2**32 - 1, "b": 255, "h": 65535, "l": [MOST, None, 0], "m": [(MOST_INT, MOST)], "double": 0.5},
    {"s": {"x": MOST, "y": MOST_INT, "text": "a"}, "ls": [{"x": MOST, "y": MOST_INT, "text": "b"}, None, {"x": 1}], "n": 0},
    {"n": 7, "i": 7, "l": [], "m": [], "ls": [], "s": {"x": None, "y": 0, "text": None}, "double": -0.0},
]
BEYOND: Mapping[str, tuple[dict[str, Any], str]] = {
    "n": ({"n": 2**64 - 1}, str(2**64 - 1)),
    "i": ({"i": 2**31}, str(2**31)),
    "l.element": ({"l": [1, 2**63]}, str(2**63)),
    "m.key": ({"m": [(2**31, 1)]}, str(2**31)),
    "m.value": ({"m": [(1, 2**63)]}, str(2**63)),
    "s.y": ({"s": {"y": 2**32 - 1}}, str(2**32 - 1)),
    "ls.element.x": ({"ls": [None, {"x": 2**63 + 5}]}, str(2**63 + 5)),
}
_NAMES = count()


@pytest.fixture
def db(spark: SparkSession, lake: SqlCatalog) -> SqlCatalog:
    attach(spark, "lake", lake)
    return lake


def stored(field: pa.Field) -> pa.Field:
    """Return a field with its id, and with unsigned types inside."""
    kind = field.type
    if pa.types.is_struct(kind):
        kind = pa.struct([stored(inner) for inner in kind])
    elif pa.types.is_map(kind):
        key = kind.key_field.with_type(pa.uint32())
        kind = pa.map_(key, kind.item_field.with_type(pa.uint64()))
    elif pa.types.is_list(kind):
        element = kind.value_field
        kind = pa.list_(stored(element) if pa.types.is_struct(element.type) else element.with_type(pa.uint64()))
    return field.with_type(STORED.get(field.name, kind))


def add(table: Table, folder: Path, rows: list[dict[str, Any]], **options: Any) -> None:
    """Add a file of the rows with unsigned columns and the table's ids."""
    schema = pa.schema([stored(field) for field in schema_to_arrow(table.schema())])
    path = folder / f"in/{next(_NAMES)}.parquet"
    path.parent.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema), path, **options)
    table.add_files([str(path)])


def rows_of(frame: Any) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in frame.collect()]


def in_process(table: Table, where: str = "TRUE") -> list[dict[str, Any]]:
    rows = table.scan(where).to_arrow().to_pylist()
    return [{**row, "m": None if row["m"] is None else dict(row["m"])} for row in rows]


@contextmanager
def conf(spark: SparkSession, **settings: str) -> Iterator[None]:
    for name, value in settings.items():
        spark.conf.set(f"spark.sql.{name.replace('__', '.')}", value)
    try:
        yield
    finally:
        for name in settings:
            spark.conf.unset(f"spark.sql.{name.replace('__', '.')}")


READERS: Mapping[str, dict[str, str]] = {
    "vectorised": {},
    "rows of wide schemas": {"codegen__maxFields": "2"},
    "row by row": {"parquet__enableVectorizedReader": "false"},
    "row by row where nested": {"parquet__enableNestedColumnVectorizedReader": "false"},
}


@pytest.mark.parametrize("options", [{}, {"use_dictionary": False}], ids=["dictionary", "plain"])
def test_spark_reads_unsigned_values_that_fit_as_this_process_does(
    db: SqlCatalog, spark: SparkSession, tmp_path: Path, options: dict[str, Any]
) -> None:
    table = db.create_table("db.t", SCHEMA, properties={"write.delete.mode": "merge-on-read"})
    add(table, tmp_path, ROWS, **options)
    for settings in READERS.values():
        with conf(spark, **settings):
            assert rows_of(spark.table("lake.db.t")) == in_process(table)
    assert rows_of(spark.sql(f"SELECT n FROM lake.db.t WHERE n = {MOST} AND i > 5")) == [{"n": MOST}]
    # Filters on row groups, parts of structs, and the metadata columns, which another reader fills in.
    assert [tuple(row) for row in spark.sql("SELECT s.y, ls.x, _pos FROM lake.db.t WHERE wide IS NULL AND n < 7").collect()] == [
        (MOST_INT, [MOST, None, 1], 1)
    ]
    assert spark.sql("SELECT max(n), min(i), sum(wide), max(h), max(double) FROM lake.db.t").first() == (
        MOST,
        7,
        2**32 - 1,
        65535,
        0.5,
    )
    spark.sql("DELETE FROM lake.db.t WHERE n = 0")
    table.refresh()
    for settings in READERS.values():
        with conf(spark, **settings):
            assert rows_of(spark.table("lake.db.t")) == in_process(table)
    spark.sql("UPDATE lake.db.t SET b = 1 WHERE n = 7")
    table.refresh()
    assert in_process(table, "n = 7")[0]["l"] == []


@pytest.mark.parametrize("column", BEYOND)
def test_a_value_beyond_the_type_fails_the_query_and_names_it(db: SqlCatalog, spark: SparkSession, tmp_path: Path, column: str) -> None:
    table = db.create_table("db.t", SCHEMA)
    row, value = BEYOND[column]
    add(table, tmp_path, [{"b": 1}, row], use_dictionary=False)
    add(table, tmp_path, [row])
    top = column.partition(".")[0]
    expected = rf"(?s)cannot read \S+\.parquet of lake\.db\.t: the column {column} has unsigned integers, and {value} is more than .*Next: "
    for name in READERS if column in ("n", "m.value") else ("vectorised",):
        with conf(spark, **READERS[name]), pytest.raises(Exception, match=expected):
            spark.sql(f"SELECT {top}, b FROM lake.db.t").collect()
    assert spark.sql("SELECT sum(b) FROM lake.db.t").first() == (1,)  # other columns are read


def test_files_are_read_through_python_where_executors_lack_the_reader(
    db: SqlCatalog, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = db.create_table("db.t", SCHEMA)
    add(table, tmp_path, ROWS)
    for module in (read_strategy, native_scan):
        monkeypatch.setattr(module, "executors_have_classes", lambda _: False)
    assert rows_of(table.scan().to_spark()) == in_process(table)
    assert [group.reason for group in groups_of(spark, table, "n")] == ["a file has unsigned integers of 64 bits in n"]
    assert [group.reason for group in groups_of(spark, table, "wide", "b", "h")] == [""]


def groups_of(spark: SparkSession, table: Table, *columns: str) -> list[native_scan.ScanFileGroup]:
    return read_strategy.grouped_files(spark, table.scan().select(*columns).request(), 1.0, None)[1]
