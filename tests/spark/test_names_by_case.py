"""Fields whose names differ by case alone, which Spark finds ambiguous by its defaults: columns, and fields of structs at every depth."""

from collections.abc import Callable
from functools import reduce

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from icefloe import SqlCatalog, Table
from icefloe.spec.types import LongType

INNER = pa.struct([("y", pa.int64()), ("Y", pa.int64())])
OUTER = pa.struct([("x", pa.int64()), ("X", INNER)])
SCHEMA = pa.schema([("a", pa.int64()), ("A", pa.int64()), ("s", OUTER)])
ROWS = [
    {"a": 1, "A": 10, "s": {"x": 1, "X": {"y": 5, "Y": 50}}},
    {"a": 2, "A": 20, "s": {"x": 2, "X": {"y": 6, "Y": 60}}},
    {"a": 3, "A": 1, "s": None},
    {"a": 4, "A": 2, "s": {"x": 60, "X": None}},
]
FILTERS = {
    "s.x = 1": [1],
    "s.X.y = 6": [2],
    "s.X.Y = 60": [2],
    "s.X.Y IS NULL": [3, 4],
    "s.X.y > 0 AND A > 10": [2],
    "s.x = 60 OR (s.X.Y = 50 AND a = 1)": [1, 4],
    "A = 1": [3],
}


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Table]:
    folder = tmp_path_factory.mktemp("case")
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder))
    catalog.create_namespace("db")
    found = {}
    for kind, properties in {
        "parquet": {},
        "orc": {"write.format.default": "orc"},
        "evolved": {},
        "deleted": {"format-version": "3"},
        "keys": {},
    }.items():
        table = found[kind] = catalog.create_table(f"db.{kind}", SCHEMA, properties=properties)
        table.append(pa.Table.from_pylist(ROWS, SCHEMA))
        if kind == "evolved":
            with table.update_schema() as update:
                update.rename_column("s.X.y", "z")
                update.add_column(("s", "X", "Z"), LongType())
                update.rename_column("a", "b")
            with table.update_schema() as update:
                update.rename_column("b", "a")
                update.rename_column("s.X.z", "y")
        if kind == "deleted":
            table.append(pa.Table.from_pylist([{**ROWS[0], "a": 9}], SCHEMA))
            table.delete("a = 9")
    return found


@pytest.mark.parametrize("kind", ["parquet", "orc", "evolved", "deleted"])
def test_a_filter_selects_by_exact_names(tables: dict[str, Table], kind: str) -> None:
    frames = [tables[kind].scan(where).to_spark().toDF("n", "m", "s").select("n") for where in FILTERS]
    rows = reduce(DataFrame.unionAll, frames).collect()
    assert sorted(row.n for row in rows) == sorted(number for numbers in FILTERS.values() for number in numbers)


def test_a_selected_field_is_the_one_of_its_name_beside_a_filter_by_the_other(tables: dict[str, Table]) -> None:
    cases: list[tuple[str, str, Callable[[DataFrame], list[object]], list[object]]] = [
        ("s.x = 1", "s.X.Y", lambda frame: [row.s.X.Y for row in frame.collect()], [50]),
        ("s.X.y = 6", "s.x", lambda frame: [row.s.x for row in frame.collect()], [2]),
        ("s.X.Y = 60", "s.X.y", lambda frame: [row.s.X.y for row in frame.collect()], [6]),
        ("a = 2", "A", lambda frame: [row.A for row in frame.collect()], [20]),
    ]
    for where, selected, values, expected in cases:
        assert values(tables["parquet"].scan(where).select(selected).to_spark()) == expected, where


def test_rows_are_deleted_by_keys_that_differ_by_case(tables: dict[str, Table]) -> None:
    table = tables["keys"]
    for keys, rows, expected in (
        (["s.X.Y"], {"s": [{"X": {"Y": 60}}]}, [1, 3, 4]),  # a few numbers are looked up
        (["s.X.Y", "a"], {"s": [{"X": {"Y": 50}}], "a": [1]}, [3, 4]),  # several columns are joined
    ):
        table.delete_keys(pa.table(rows), keys)
        found = [row.n for row in table.scan().to_spark().toDF("n", "m", "s").collect()]
        assert sorted(found) == sorted(table.scan().to_arrow()["a"].to_pylist()) == expected, keys
