"""Any schema survives JSON, and Arrow as far as Arrow distinguishes its types; any rows survive a cast to their own schema."""

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
from hypothesis import given, settings
from tests.repetitions import examples

from icefloe.spec.literals import INTEGER_RANGES
from icefloe.spec.nested_values import ALWAYS_NULL_BY_DEFAULT
from icefloe.spec.schema.arrow_schema import schema_from_arrow, schema_to_arrow
from icefloe.spec.schema.schema import Schema, assign_fresh_ids
from icefloe.spec.schema.schema_cast import cast_to_schema
from icefloe.spec.schema.schema_json import schema_from_json, schema_to_json
from icefloe.spec.types import (
    EDGE_ALGORITHMS,
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
    VariantType,
)
from icefloe.spec.values import decimal_of
from icefloe.spec.variant import variant_from_python
from icefloe.spec.wkb import wkb_of_text

# Arrow cuts a name at a NUL.
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=6)
PLAIN = (
    BooleanType,
    IntegerType,
    LongType,
    FloatType,
    DoubleType,
    DateType,
    TimeType,
    TimestampType,
    TimestamptzType,
    TimestampNanoType,
    TimestamptzNanoType,
    StringType,
    BinaryType,
)
ARROW_PRIMITIVES = st.one_of(
    st.sampled_from([kind() for kind in PLAIN]),
    st.builds(FixedType, st.integers(1, 20)),
    st.integers(1, 38).flatmap(lambda precision: st.builds(DecimalType, st.just(precision), st.integers(0, precision))),
)
PRIMITIVES = st.one_of(ARROW_PRIMITIVES, st.just(UUIDType()))
CRS = st.sampled_from(["OGC:CRS84", "srid:4326", "EPSG:3857", "projjson:mine", "ogc:crs84"])
# Types that may be anywhere except in the keys of a map, which are required and must be comparable.
MORE = st.one_of(
    st.just(VariantType()),
    st.just(UnknownType()),
    st.builds(GeometryType, CRS),
    st.builds(GeographyType, CRS, st.sampled_from(EDGE_ALGORITHMS)),
)


def schemas(primitives: st.SearchStrategy[Any]) -> st.SearchStrategy[Schema]:
    """Generate schemas of up to three levels, with fresh ids, docs, and required and optional fields."""

    @st.composite
    def build(draw: st.DrawFn) -> Schema:
        numbers = count(1)
        return Schema(*assign_fresh_ids(Schema(*fields(draw, numbers, 2))).fields, schema_id=draw(st.integers(0, 9)))

    def fields(draw: st.DrawFn, numbers: Iterator[int], depth: int) -> list[NestedField]:
        names = draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
        doc = st.none() | st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5)
        found = []
        for name in names:
            number, inner = next(numbers), kind(draw, numbers, depth)
            defaults = [draw(st.none() | to_default_value(inner)) for _ in range(2)]
            found.append(NestedField(number, name, inner, draw(st.booleans()) and inner != UnknownType(), draw(doc), *defaults))
        return found

    def kind(draw: st.DrawFn, numbers: Iterator[int], depth: int) -> IcebergType:
        form = draw(st.sampled_from(["primitive", "primitive", "struct", "list", "map"])) if depth else "primitive"
        if form == "struct":
            return StructType(*fields(draw, numbers, depth - 1))
        if form == "list":
            inner = kind(draw, numbers, depth - 1)
            required = draw(st.booleans()) and inner != UnknownType()
            return ListType(element_id=next(numbers), element=inner, element_required=required)
        if form == "map":
            key, value = draw(primitives), kind(draw, numbers, depth - 1)
            required = draw(st.booleans()) and value != UnknownType()
            return MapType(key_id=next(numbers), key_type=key, value_id=next(numbers), value_type=value, value_required=required)
        found: IcebergType = draw(st.one_of(primitives, primitives, MORE))
        return found

    return build()


def to_default_value(kind: IcebergType) -> st.SearchStrategy[Any]:
    """Generate physical values that a column of a type may have by default."""
    if isinstance(kind, ALWAYS_NULL_BY_DEFAULT):
        return st.none()
    if isinstance(kind, StructType):
        return st.just(())
    return single_value(kind)


def single_value(kind: IcebergType) -> st.SearchStrategy[Any]:
    """Generate physical values of a type that have a form in JSON; only null for a type without such values."""
    if isinstance(kind, PrimitiveType) and not isinstance(kind, ALWAYS_NULL_BY_DEFAULT):
        if isinstance(kind, DateType):
            return st.integers(-(10**6), 10**6)
        if isinstance(kind, FixedType):
            return st.binary(min_size=kind.length, max_size=kind.length)
        if isinstance(kind, DecimalType):
            return st.integers(-(10**kind.precision) + 1, 10**kind.precision - 1).map(lambda number: decimal_of(number, kind.scale))
        simple = {
            BooleanType: st.booleans(),
            StringType: st.text(max_size=4),
            BinaryType: st.binary(max_size=4),
            UUIDType: st.uuids(),
            FloatType: st.floats(width=32, allow_nan=False, allow_infinity=False),
            DoubleType: st.floats(allow_nan=False, allow_infinity=False),
        }
        return simple[type(kind)] if type(kind) in simple else st.integers(*INTEGER_RANGES[type(kind)])
    if isinstance(kind, ListType):
        inner = single_value(kind.element) if kind.element_required else st.none() | single_value(kind.element)
        return st.just(()) if inner.is_empty else st.lists(inner, max_size=2).map(tuple)
    if isinstance(kind, MapType):
        keys = single_value(kind.key_type)
        of_value = single_value(kind.value_type) if kind.value_required else st.none() | single_value(kind.value_type)
        if keys.is_empty or of_value.is_empty:
            return st.just(())
        return st.dictionaries(keys, of_value, max_size=2).map(lambda pairs: tuple(pairs.items()))
    if isinstance(kind, StructType):
        members = [
            st.tuples(
                st.just(field.field_id), single_value(field.field_type) if field.required else st.none() | single_value(field.field_type)
            )
            for field in kind.fields
        ]
        return st.tuples(*members)
    return st.nothing()


@settings(max_examples=examples(40))
@given(schemas(PRIMITIVES))
def test_a_schema_comes_back_from_json_as_it_was(schema: Schema) -> None:
    text = json.dumps(schema_to_json(schema))
    assert schema_from_json(json.loads(text)) == schema


def without_defaults(schema: Schema) -> Schema:
    """Return the schema without what Arrow cannot represent."""

    def fields(found: tuple[NestedField, ...]) -> tuple[NestedField, ...]:
        return tuple(NestedField(member.field_id, member.name, kind(member.field_type), member.required, member.doc) for member in found)

    def kind(found: IcebergType) -> IcebergType:
        if isinstance(found, StructType):
            return StructType(*fields(found.fields))
        if isinstance(found, ListType):
            return replace(found, element=kind(found.element))
        return replace(found, value_type=kind(found.value_type)) if isinstance(found, MapType) else found

    return Schema(*fields(schema.fields))


@settings(max_examples=examples(40))
@given(schemas(ARROW_PRIMITIVES))
def test_a_schema_comes_back_from_arrow_with_its_ids(schema: Schema) -> None:
    back = schema_from_arrow(schema_to_arrow(schema), keep_ids=True)
    assert back.fields == without_defaults(schema).fields


@settings(max_examples=examples(40))
@given(schemas(ARROW_PRIMITIVES))
def test_without_ids_a_schema_comes_back_with_the_ids_of_a_new_table(schema: Schema) -> None:
    bare = pa.schema(schema_to_arrow(schema))
    assert pa.ipc.read_schema(bare.serialize()).equals(bare, check_metadata=True)  # the names of extension types survive serialization
    assert schema_from_arrow(bare, keep_ids=False).fields == without_defaults(schema).fields  # these schemas are numbered like a new table


def value(draw: st.DrawFn, kind: IcebergType, required: bool) -> Any:
    """Generate a Python value of a type, sometimes None where that is allowed."""
    if not required and draw(st.integers(0, 2)) == 0:
        return None
    if isinstance(kind, StructType):
        return {field.name: value(draw, field.field_type, field.required) for field in kind.fields}
    if isinstance(kind, ListType):
        return [value(draw, kind.element, kind.element_required) for _ in range(draw(st.integers(0, 2)))]
    if isinstance(kind, MapType):
        return [
            (value(draw, kind.key_type, True), value(draw, kind.value_type, kind.value_required)) for _ in range(draw(st.integers(0, 2)))
        ]
    if isinstance(kind, FixedType | UUIDType):
        return bytes(kind.length if isinstance(kind, FixedType) else 16)
    if isinstance(kind, UnknownType):
        return None
    if isinstance(kind, VariantType):
        return variant_from_python(draw(st.sampled_from([None, 5, {"a": [True]}])))._asdict()
    if isinstance(kind, GeometryType | GeographyType):
        return wkb_of_text(draw(st.sampled_from(["POINT (1 2)", "LINESTRING Z EMPTY"])))
    return {StringType: "text", BinaryType: b"bytes", BooleanType: True}.get(type(kind), 0)  # type: ignore[call-overload]


@st.composite
def schemas_with_rows(draw: st.DrawFn) -> tuple[Schema, list[dict[str, Any]]]:
    schema = draw(schemas(PRIMITIVES))
    rows = [{field.name: value(draw, field.field_type, field.required) for field in schema.fields} for _ in range(draw(st.integers(0, 4)))]
    return schema, rows


def without_required(kind: pa.DataType) -> pa.DataType:
    """Return the type as in rows of other programs: everything nullable, no ids, large strings and lists."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(kind.field(at).name, without_required(kind.field(at).type)) for at in range(kind.num_fields)])
    if pa.types.is_list(kind):
        return pa.large_list(without_required(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(without_required(kind.key_type), without_required(kind.item_type))
    return pa.large_string() if pa.types.is_string(kind) else kind


@settings(max_examples=examples(60))
@given(schemas_with_rows(), st.integers(0, 3))
def test_rows_of_nullable_columns_are_cast_to_any_schema_they_fit(schema_and_rows: tuple[Schema, list[dict[str, Any]]], start: int) -> None:
    schema, rows = schema_and_rows
    target = schema_to_arrow(schema)
    loose = pa.schema([pa.field(field.name, without_required(field.type)) for field in target])
    table = pa.Table.from_pylist(rows, schema=loose).slice(start)
    cast = cast_to_schema(table, schema)
    cast.validate(full=True)
    assert cast.schema.equals(target, check_metadata=True)
    assert cast.to_pylist() == table.to_pylist()
