"""Fields of structs inside lists, maps and structs: every path has the values of the same rows in plain Parquet files, which Spark reads without Icefloe."""

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.combinations import repetitions
from tests.repetitions import ALL

from icefloe import SqlCatalog
from icefloe.spark import attach
from icefloe.spec.schema.arrow_schema import schema_to_arrow
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
)
from icefloe.table import Table

pytestmark = pytest.mark.spark

LEAVES = (IntegerType(), LongType(), StringType(), DoubleType(), DecimalType(9, 2), DecimalType(20, 3), DateType(), BooleanType())
FORMATS = ("parquet", "parquet", "orc", "avro")


@pytest.fixture
def db(spark: SparkSession, lake: SqlCatalog) -> SqlCatalog:
    attach(spark, "lake", lake)
    return lake


@dataclass
class RandomRows:
    """Random types with structs inside lists and maps, rows of them, and paths into them."""

    chosen: random.Random
    next_id: int = 1

    def field(self, name: str, kind: IcebergType) -> NestedField:
        self.next_id += 1
        return NestedField(self.next_id - 1, name, kind)

    def kind(self, depth: int, key: bool = False) -> IcebergType:
        shape = self.chosen.choice(["struct", "struct", "list", "map"]) if depth else "leaf"
        if shape == "struct" or (key and depth):
            return StructType(
                *(self.field(name, self.kind(self.chosen.randrange(depth), key)) for name in "abcd"[: self.chosen.randint(2, 4)])
            )
        if shape == "list":
            element = self.field("element", self.kind(depth - 1))
            return ListType(element.field_id, element.field_type, element_required=False)
        if shape == "map":
            key_kind = self.kind(self.chosen.choice([0, 0, 1]) if depth > 1 else 0, key=True)
            key_field, value = self.field("key", key_kind), self.field("value", self.kind(depth - 1))
            return MapType(key_field.field_id, key_field.field_type, value.field_id, value.field_type, value_required=False)
        # -0.0 and 0.0 are one key to Spark
        return self.chosen.choice([leaf for leaf in LEAVES if not (key and isinstance(leaf, DoubleType | BooleanType))])

    def value(self, kind: IcebergType, arrow: Any, nullable: bool = True) -> Any:
        chosen = self.chosen
        if nullable and chosen.random() < 0.15:
            return None
        if isinstance(kind, StructType):
            return {f.name: self.value(f.field_type, a.type) for f, a in zip(kind.fields, arrow, strict=True)}
        if isinstance(kind, ListType):
            return [self.value(kind.element, arrow.value_type) for _ in range(chosen.randint(0, 3))]
        if isinstance(kind, MapType):
            keys = {
                repr(key): key for key in (self.value(kind.key_type, arrow.key_type, nullable=False) for _ in range(chosen.randint(0, 3)))
            }
            return [(key, self.value(kind.value_type, arrow.item_type)) for key in keys.values()]
        return (
            pa.scalar(chosen.randint(0, 999), pa.int64()).cast(pa.string()).cast(arrow).as_py()
            if _from_text(arrow)
            else _of_number(chosen, arrow)
        )

    def rows(self, schema: Schema, count: int) -> pa.Table:
        arrow = schema_to_arrow(schema)
        columns = [
            [self.value(f.field_type, a.type) for _ in range(count)] for f, a in zip(schema.fields[1:], list(arrow)[1:], strict=True)
        ]
        start = self.chosen.randrange(1000) * 1000
        return pa.table([pa.array(range(start, start + count), pa.int32()), *map(pa.array, columns, list(arrow.types)[1:])], schema=arrow)

    def path(self, kind: IcebergType, text: str) -> str:
        """Return an expression of a random part of a value, down to a value without parts."""
        if isinstance(kind, StructType):
            field = self.chosen.choice(kind.fields)
            return self.path(field.field_type, f"{text}.{field.name}")
        if isinstance(kind, ListType):
            if isinstance(kind.element, StructType) and self.chosen.random() < 0.5:
                field = self.chosen.choice(kind.element.fields)
                return self.path(ListType(0, field.field_type), f"{text}.{field.name}")
            return self.path(kind.element, f"get({text}, {self.chosen.randint(0, 1)})")
        if isinstance(kind, MapType):
            entries = self.chosen.choice([("map_keys", kind.key_type), ("map_values", kind.value_type), ("map_values", kind.value_type)])
            return self.path(ListType(0, entries[1]), f"{entries[0]}({text})")
        return text


def _from_text(arrow: Any) -> bool:
    return pa.types.is_string(arrow) or pa.types.is_large_string(arrow) or pa.types.is_decimal(arrow)


def _of_number(chosen: random.Random, arrow: Any) -> Any:
    if pa.types.is_boolean(arrow):
        return chosen.random() < 0.5
    return pa.scalar(chosen.randint(0, 999), pa.int32()).cast(arrow).as_py()


def same_as_parquet(spark: SparkSession, table: Table, paths: list[str], folder: Path, conditions: tuple[str, ...] = ("true",)) -> None:
    """Check each path, in a scan of its own, against the rows of this process in a Parquet file that Spark reads by itself."""
    pq.write_table(table.scan().to_arrow(), folder / "plain.parquet")
    spark.read.parquet(str(folder / "plain.parquet")).createOrReplaceTempView("plain_rows")

    def rows(source: str) -> list[Any]:
        each = [
            f"SELECT {number} AS n, id, to_json(struct({path} AS v)) AS v FROM {source} WHERE {conditions[number % len(conditions)]}"
            for number, path in enumerate(paths)
        ]
        found = spark.sql(" UNION ALL ".join(each)).collect()
        return sorted((paths[row.n], row.id, row.v) for row in found)

    assert rows(f"lake.{'.'.join(table.name())}") == rows("plain_rows")


@pytest.mark.parametrize("seed", repetitions(range(2), 0))
def test_every_path_into_random_types_has_the_values_of_plain_parquet(
    spark: SparkSession, db: SqlCatalog, seed: int, tmp_path: Path
) -> None:
    generator = RandomRows(random.Random(seed))
    columns = [generator.field("id", IntegerType()), *(generator.field(f"c{number}", generator.kind(3)) for number in range(3))]
    table = db.create_table("db.t", Schema(*columns), properties={"format-version": "2", "write.delete.mode": "merge-on-read"})
    for form in FORMATS[seed:]:
        table.set_properties({"write.format.default": form})
        table.append(generator.rows(table.schema(), 12))
    with table.update_schema() as update:
        for number, field in enumerate(columns[1:]):
            if isinstance(field.field_type, StructType):
                update.add_column((field.name, f"new{number}"), StringType())
            elif isinstance(field.field_type, ListType) and isinstance(field.field_type.element, StructType):
                update.add_column((field.name, "element", "late"), IntegerType())
            elif isinstance(field.field_type, MapType) and isinstance(field.field_type.value_type, StructType):
                update.add_column((field.name, "value", "late"), IntegerType())
    table.set_properties({"write.format.default": "parquet"})
    table.append(generator.rows(table.schema(), 12))
    spark.sql("DELETE FROM lake.db.t WHERE id % 5 = 1")
    table.refresh()
    fields = table.schema().fields[1:]
    paths = sorted({generator.path(field.field_type, field.name) for _ in range(5 if ALL else 2) for field in fields})
    same_as_parquet(spark, table, paths, tmp_path, ("true", *(f"{field.name} IS NOT NULL" for field in fields)))
