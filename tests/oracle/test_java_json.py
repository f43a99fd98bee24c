"""Filters and name mappings as JSON, beside Java's own reader, writer and updates of them."""

import json
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from icefloe.spec.expressions.bind import bind
from icefloe.spec.expressions.expression_json import expression_from_json, expression_to_json
from icefloe.spec.expressions.filter_parser import parse_filter
from icefloe.spec.expressions.predicate import (
    And,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNaN,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    NotEqualTo,
    NotIn,
    NotNaN,
    NotNull,
    NotStartsWith,
    Or,
    StartsWith,
)
from icefloe.spec.schema.name_mapping import NameMapping, mapping_for, mapping_from_json, mapping_to_json, updated_mapping
from icefloe.spec.schema.schema import Schema, assign_fresh_ids
from icefloe.spec.schema.schema_change import AddColumn, DeleteColumn, RenameColumn, SchemaChange, UpdateColumn
from icefloe.spec.schema.schema_evolution import evolve_schema
from icefloe.spec.schema.schema_json import schema_to_json
from icefloe.spec.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

pytestmark = pytest.mark.oracle

SCHEMA = Schema(
    NestedField(1, "i", IntegerType()),
    NestedField(2, "l", LongType()),
    NestedField(3, "f", FloatType()),
    NestedField(4, "x", DoubleType()),
    NestedField(5, "m", DecimalType(9, 2)),
    NestedField(6, "s", StringType()),
    NestedField(7, "d", DateType()),
    NestedField(8, "t", TimeType()),
    NestedField(9, "ts", TimestampType()),
    NestedField(10, "tz", TimestamptzType()),
    NestedField(11, "u", UUIDType()),
    NestedField(12, "y", BinaryType()),
    NestedField(13, "h", FixedType(2)),
    NestedField(14, "b", BooleanType()),
    NestedField(15, "o", StructType(NestedField(16, "z", LongType()))),
)
STAMP = datetime(2017, 11, 16, 22, 31, 8, 123456)
VALUES: dict[str, list[Any]] = {
    "i": [-5, 2**31 - 1],
    "l": [2**40, 0],
    "f": [0.5, -1.25],
    "x": [0.1, 1e300],
    "m": [Decimal("14.20"), Decimal("-0.01")],
    "s": ["", "Grüße 'n\""],
    "d": [date(2017, 11, 16), date(1969, 12, 31)],
    "t": [time(22, 31, 8, 123456), time(0)],
    "ts": [STAMP, STAMP.replace(microsecond=0)],
    "tz": [STAMP.replace(tzinfo=UTC), datetime(1969, 1, 1, tzinfo=UTC)],
    "u": [UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7"), UUID(int=1)],
    "y": [b"", b"\x00\xff"],
    "h": [b"\x00\xff", b"ab"],
    "b": [True, False],
    "o.z": [7, -7],
}
READ_AND_WRITE = """
parser = spark._jvm.org.apache.iceberg.expressions.ExpressionParser
schema = spark._jvm.org.apache.iceberg.SchemaParser.fromJson(open(sys.argv[1] + "/schema.json").read())
for line in open(sys.argv[1] + "/filters.json"):
    print("JSON " + parser.toJson(parser.fromJson(line, schema), False))
"""


def every_filter() -> list[BooleanExpression]:
    comparisons = (EqualTo, NotEqualTo, LessThan, LessThanOrEqual, GreaterThan, GreaterThanOrEqual)
    found: list[BooleanExpression] = []
    for column, values in VALUES.items():
        found += [IsNull(column), NotNull(column), In(column, values), NotIn(column, values)]
        found += [kind(column, value) for kind in comparisons for value in values]
    found += [IsNaN("x"), NotNaN("f"), StartsWith("s", "Gr"), NotStartsWith("s", "Gr")]
    found += [And(*found[:3]), Or(*found[5:9]), Not(And(found[0], found[7])), parse_filter("i = 1 and (s like 'a%' or not x < 2.5)")]
    return found


def test_java_reads_the_filters_of_icefloe_as_they_are_and_icefloe_reads_what_it_writes(
    java_script: Callable[..., str], tmp_path: Path
) -> None:
    bound = [bind(one, SCHEMA) for one in every_filter()]
    unbound = every_filter()[:-1]  # the last has a decimal for a double, which only binding makes one
    written = [expression_to_json(one) for one in (*bound, *unbound)]
    (tmp_path / "schema.json").write_text(json.dumps(schema_to_json(SCHEMA)))
    (tmp_path / "filters.json").write_text("".join(json.dumps(one) + "\n" for one in written))
    printed = java_script(READ_AND_WRITE, str(tmp_path))
    theirs = [json.loads(line.removeprefix("JSON ")) for line in printed.splitlines() if line.startswith("JSON ")]
    assert len(theirs) == len(written) > 400
    for ours, read in zip([*bound, *bound[:-1]], theirs, strict=True):
        assert str(bind(expression_from_json(read, SCHEMA), SCHEMA)) == str(ours)


BEFORE = assign_fresh_ids(
    Schema(
        NestedField(1, "id", IntegerType()),
        NestedField(2, "place", StructType(NestedField(3, "x", IntegerType()), NestedField(4, "y", StringType()))),
        NestedField(5, "items", ListType(element_id=6, element=StructType(NestedField(7, "x", IntegerType())), element_required=False)),
        NestedField(8, "scores", MapType(key_id=9, key_type=StringType(), value_id=10, value_type=IntegerType(), value_required=False)),
        NestedField(11, "note", StringType()),
    )
)
INNER = StructType(NestedField(1, "k", LongType()))
# One commit each: Icefloe's changes, and Java's calls for them.
COMMITS: list[tuple[list[SchemaChange], str]] = [
    ([RenameColumn(path="place.x", new_name="ex")], 'u.renameColumn("place.x", "ex")'),
    (
        [AddColumn(path="items.more", field_type=LongType()), AddColumn(path="extra", field_type=INNER)],
        'u.addColumn("items", "more", long).addColumn("extra", t.StructType.of([t.NestedField.optional(1, "k", long)]))',
    ),
    ([DeleteColumn(path="note")], 'u.deleteColumn("note")'),
    ([AddColumn(path="note", field_type=LongType())], 'u.addColumn("note", long)'),
    (
        [RenameColumn(path="id", new_name="key"), UpdateColumn(path="scores.value", field_type=LongType())],
        'u.renameColumn("id", "key").updateColumn("scores.value", long)',
    ),
    (
        [DeleteColumn(path="key"), AddColumn(path="id", field_type=StringType())],
        'u.deleteColumn("key").addColumn("id", t.StringType.get())',
    ),
    (
        [UpdateColumn(path="place.y", doc="text"), RenameColumn(path="extra", new_name="more")],
        'u.updateColumnDoc("place.y", "text").renameColumn("extra", "more")',
    ),
]
EVOLVE = """
sc = spark.sparkContext
java = spark._jvm.org.apache.iceberg
class t: pass
for name in ("StructType", "NestedField", "StringType"):
    setattr(t, name, getattr(java.types.Types, name))
t = java.types.Types
long = t.LongType.get()
spark.sql("CREATE TABLE j.db.t (id int, place struct<x: int, y: string>, items array<struct<x: int>>, scores map<string, int>, note string) USING iceberg")
table = java.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, "j.db.t")
mapping = java.mapping.NameMappingParser.toJson(java.mapping.MappingUtil.create(table.schema()))
print("JSON " + mapping.replace(chr(10), ""))
table.updateProperties().set("schema.name-mapping.default", mapping).commit()
for text in open(sys.argv[1] + "/calls.txt"):
    u = table.updateSchema()
    eval(text)
    u.commit()
    print("JSON " + table.properties().get("schema.name-mapping.default").replace(chr(10), ""))
"""


def as_sets(mapping: NameMapping) -> dict[tuple[int | None, ...], frozenset[str]]:
    """Return the names of every mapped field by the ids on the path to it, since the order of names and fields has no meaning."""
    found = {}
    stack = [((), mapping.fields)]
    while stack:
        above, fields = stack.pop()
        for field in fields:
            found[*above, field.field_id] = frozenset(field.names)
            stack.append(((*above, field.field_id), field.fields))
    return found


def test_a_name_mapping_follows_the_schema_as_in_java(java_script: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "calls.txt").write_text("".join(f"{calls}\n" for _, calls in COMMITS))
    printed = java_script(EVOLVE, str(tmp_path))
    theirs = [as_sets(mapping_from_json(line.removeprefix("JSON "))) for line in printed.splitlines() if line.startswith("JSON ")]
    schema, last_id, mapping = BEFORE, BEFORE.highest_field_id, mapping_for(BEFORE)
    ours = [as_sets(mapping)]
    for changes, _ in COMMITS:
        new, last_id = evolve_schema(schema, changes, last_id)
        mapping, schema = mapping_from_json(mapping_to_json(updated_mapping(mapping, schema, new))), new
        ours.append(as_sets(mapping))
    assert theirs == ours
