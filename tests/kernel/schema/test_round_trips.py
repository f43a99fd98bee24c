"""Any schema survives JSON, and Arrow as far as Arrow can tell its types apart; any rows survive a cast to their own schema."""

import json
from collections.abc import Iterator
from itertools import count
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
from hypothesis import given, settings

from icefloe.kernel.schema.arrow import schema_from_arrow, schema_to_arrow
from icefloe.kernel.schema.cast import cast_to_schema
from icefloe.kernel.schema.schema import Schema, assign_fresh_ids
from icefloe.kernel.schema.schema_json import schema_from_json, schema_to_json
from icefloe.kernel.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
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
    StringType,
    BinaryType,
)
ARROW_PRIMITIVES = st.one_of(
    st.sampled_from([kind() for kind in PLAIN]),
    st.builds(FixedType, st.integers(1, 20)),
    st.integers(1, 38).flatmap(lambda precision: st.builds(DecimalType, st.just(precision), st.integers(0, precision))),
)
PRIMITIVES = st.one_of(ARROW_PRIMITIVES, st.just(UUIDType()))


def schemas(primitives: st.SearchStrategy[Any]) -> st.SearchStrategy[Schema]:
    """Schemas of up to three levels, with fresh ids, docs, and required and optional fields."""

    @st.composite
    def build(draw: st.DrawFn) -> Schema:
        numbers = count(1)
        return Schema(*assign_fresh_ids(Schema(*fields(draw, numbers, 2))).fields, schema_id=draw(st.integers(0, 9)))

    def fields(draw: st.DrawFn, numbers: Iterator[int], depth: int) -> list[NestedField]:
        names = draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
        doc = st.none() | st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5)
        return [NestedField(next(numbers), name, kind(draw, numbers, depth), draw(st.booleans()), draw(doc)) for name in names]

    def kind(draw: st.DrawFn, numbers: Iterator[int], depth: int) -> IcebergType:
        form = draw(st.sampled_from(["primitive", "primitive", "struct", "list", "map"])) if depth else "primitive"
        if form == "struct":
            return StructType(*fields(draw, numbers, depth - 1))
        if form == "list":
            inner = kind(draw, numbers, depth - 1)
            return ListType(element_id=next(numbers), element=inner, element_required=draw(st.booleans()))
        if form == "map":
            key, value = draw(primitives), kind(draw, numbers, depth - 1)
            return MapType(key_id=next(numbers), key_type=key, value_id=next(numbers), value_type=value, value_required=draw(st.booleans()))
        found: IcebergType = draw(primitives)
        return found

    return build()


@settings(max_examples=40, deadline=None)
@given(schemas(PRIMITIVES))
def test_a_schema_comes_back_from_json_as_it_was(schema: Schema) -> None:
    text = json.dumps(schema_to_json(schema))
    assert schema_from_json(json.loads(text)) == schema


@settings(max_examples=40, deadline=None)
@given(schemas(ARROW_PRIMITIVES))
def test_a_schema_comes_back_from_arrow_with_its_ids(schema: Schema) -> None:
    back = schema_from_arrow(schema_to_arrow(schema), keep_ids=True)
    assert back.fields == schema.fields


@settings(max_examples=40, deadline=None)
@given(schemas(ARROW_PRIMITIVES))
def test_without_ids_a_schema_comes_back_with_the_ids_a_new_table_gives(schema: Schema) -> None:
    bare = pa.schema(schema_to_arrow(schema))
    assert schema_from_arrow(bare, keep_ids=False).fields == schema.fields  # these schemas are numbered as a new table is


def value(draw: st.DrawFn, kind: IcebergType, required: bool) -> Any:
    """A Python value of a type, None at times where that is allowed."""
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
    return {StringType: "text", BinaryType: b"bytes", BooleanType: True}.get(type(kind), 0)  # type: ignore[call-overload]


@st.composite
def schemas_with_rows(draw: st.DrawFn) -> tuple[Schema, list[dict[str, Any]]]:
    schema = draw(schemas(PRIMITIVES))
    rows = [{field.name: value(draw, field.field_type, field.required) for field in schema.fields} for _ in range(draw(st.integers(0, 4)))]
    return schema, rows


def without_required(kind: pa.DataType) -> pa.DataType:
    """The type as rows from elsewhere have it: everything nullable, no ids, large strings and lists."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(kind.field(at).name, without_required(kind.field(at).type)) for at in range(kind.num_fields)])
    if pa.types.is_list(kind):
        return pa.large_list(without_required(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(without_required(kind.key_type), without_required(kind.item_type))
    return pa.large_string() if pa.types.is_string(kind) else kind


@settings(max_examples=60, deadline=None)
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
