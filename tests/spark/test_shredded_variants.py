"""Variants that Spark shredded into typed columns of Parquet: read here, by Spark over the table, and after copies, as Spark reads its own file."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icefloe import LongType, NestedField, Schema, SqlCatalog, Table, VariantType, variant_to_python

pytestmark = pytest.mark.spark
SHREDDING = "spark.sql.variant.forceShreddingSchemaForTest"
TYPED = "a int, b string, c struct<d: decimal(9,2), e: array<bigint>>, g double"
# Values that fit the typed columns completely, in part and not at all, and values besides them.
DOCUMENTS = [
    '{"a":1,"b":"x","c":{"d":1.25,"e":[1,2,null]},"g":1e10}',
    '{"a":"text","b":null,"z":[1,{"q":true}]}',
    "17",
    '"top"',
    "[1,2]",
    "{}",
    '{"a":99999999999,"c":{"d":"no","e":{"x":1}}}',
    '{"c":{"d":12345678901.5,"e":["s",3]},"b":"é"}',
    "null",
    '{"a":null,"c":null,"g":2e-3,"c2":{"d":1}}',
]


def documents(found: pa.Table) -> dict[int, Any]:
    """Return each row's value as JSON, by id; "no row" where the column is null, which differs from a variant that contains null."""
    values = {row["id"]: row["v"] for row in found.to_pylist()}
    return {
        number: "no row"
        if value is None
        else json.loads(json.dumps(variant_to_python(value["metadata"], value["value"]), default=number_of))
        for number, value in values.items()
    }


def number_of(value: Any) -> float:
    assert isinstance(value, Decimal)
    return float(value)


@pytest.fixture(scope="module")
def shredded(spark, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[int, Any]]:
    """Return a file that Spark wrote, and the values that Spark reads in it."""
    if spark.version < "4.1":
        pytest.skip("Spark 4.0 writes shredded variants and does not read them")
    folder = tmp_path_factory.mktemp("shredded")
    rows = [*enumerate(DOCUMENTS), (len(DOCUMENTS), None)]
    settings = {SHREDDING: TYPED, "spark.sql.variant.writeShredding.enabled": "true", "spark.sql.variant.inferShreddingSchema": "false"}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        given = spark.createDataFrame(rows, "id bigint, text string").selectExpr("id", "parse_json(text) AS v")
        given.coalesce(1).write.parquet(str(folder / "file"))
    finally:
        for name in settings:
            spark.conf.unset(name)
    (file,) = (folder / "file").glob("*.parquet")
    if "Decimal(precision=9, scale=2)" not in str(pq.ParquetFile(file).schema):
        pytest.skip("this Spark ignores the setting to shred")
    read = spark.read.parquet(str(file)).selectExpr("id", "to_json(v) AS text").collect()
    return file, {row["id"]: "no row" if row["text"] is None else json.loads(row["text"]) for row in read}


@pytest.fixture
def table(shredded: tuple[Path, dict[int, Any]], tmp_path: Path) -> Table:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "v", VariantType()))
    made = catalog.create_table("db.t", schema, properties={"format-version": "3"})
    made.add_files([str(shredded[0])])
    return made


def test_a_shredded_file_is_read_as_spark_reads_it(table: Table, shredded: tuple[Path, dict[int, Any]]) -> None:
    expected = shredded[1]
    assert len(expected) == len(DOCUMENTS) + 1
    assert documents(table.scan().to_arrow()) == expected
    by_spark = table.scan().to_spark().selectExpr("id", "to_json(v) AS text").collect()
    assert {row["id"]: "no row" if row["text"] is None else json.loads(row["text"]) for row in by_spark} == expected
    assert [row["id"] for row in table.scan("v IS NULL").to_arrow().to_pylist()] == [len(DOCUMENTS)]


def test_a_copy_of_a_shredded_file_holds_the_same_values_unshredded(table: Table, shredded: tuple[Path, dict[int, Any]], spark) -> None:
    table.delete("id = 3")
    expected = {number: value for number, value in shredded[1].items() if number != 3}
    assert documents(table.scan().to_arrow()) == expected
    (task,) = table.scan().plan_files()
    assert "typed_value" not in str(pq.ParquetFile(task.file.file_path).schema)
    read = spark.read.parquet(task.file.file_path).selectExpr("id", "to_json(v) AS text").collect()
    assert {row["id"]: "no row" if row["text"] is None else json.loads(row["text"]) for row in read} == expected
