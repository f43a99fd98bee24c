"""Schema evolution in format version 3: defaults, promotions, replaced schemas; and the changes that older versions refuse."""

from datetime import date
from decimal import Decimal
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from icefloe.errors import InvalidInputError, InvalidSchemaError
from icefloe.spec.schema.schema import Schema, walk
from icefloe.spec.schema.schema_change import (
    AddColumn,
    DeleteColumn,
    RenameColumn,
    ReplaceWith,
    SchemaChange,
    SetDefault,
    UnionByName,
    UpdateColumn,
)
from icefloe.spec.schema.schema_evolution import evolve_schema
from icefloe.spec.schema.schema_json import schema_from_json, schema_to_json
from icefloe.spec.types import (
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    GeometryType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    UnknownType,
    VariantType,
)

DAY = 86_400_000_000
SCHEMA = Schema(
    NestedField(1, "id", IntegerType(), True),
    NestedField(2, "day", DateType(), False, None, 3, 4),
    NestedField(3, "place", StructType(NestedField(4, "x", FloatType()), NestedField(5, "when", DateType()))),
    NestedField(6, "nothing", UnknownType()),
    NestedField(7, "items", ListType(element_id=8, element=UnknownType(), element_required=False)),
    identifier_field_ids=[1],
)


def after(*changes: SchemaChange, version: int = 3, **options: bool) -> Schema:
    return evolve_schema(SCHEMA, changes, 8, format_version=version, **options)[0]


# ---- defaults ----


@pytest.mark.parametrize(
    ("kind", "python_value", "physical"),
    [
        (IntegerType(), 7, 7),
        (DateType(), date(1970, 1, 3), 2),
        (DecimalType(5, 2), "1.5", Decimal("1.50")),
        (StringType(), "", ""),
        (BinaryType(), b"\x00", b"\x00"),
        (StructType(NestedField(1, "a", LongType())), {}, ()),
        (ListType(element_id=1, element=LongType(), element_required=False), [1, None], (1, None)),
        (MapType(key_id=1, key_type=StringType(), value_id=2, value_type=LongType()), {"a": 1}, (("a", 1),)),
    ],
)
def test_a_new_column_has_its_default_for_older_and_newer_rows(kind: IcebergType, python_value: Any, physical: Any) -> None:
    schema = after(AddColumn(path="new", field_type=kind, required=True, default=python_value))
    field = schema.find_field("new")
    assert (field.required, field.initial_default, field.write_default) == (True, physical, physical)
    assert schema_from_json(schema_to_json(schema)) == schema


def test_the_write_default_changes_and_the_initial_default_does_not() -> None:
    schema = after(SetDefault(path="day", default="2024-01-01"), SetDefault(path="place.x", default=1.5))
    assert [(field.initial_default, field.write_default) for field in (schema.find_field("day"), schema.find_field("place.x"))] == [
        (3, 19723),
        (None, 1.5),
    ]
    assert after(SetDefault(path="day", default=None)).find_field("day").write_default is None


def test_defaults_follow_a_promotion_and_a_rename() -> None:
    schema = after(UpdateColumn(path="day", field_type=TimestampType()), RenameColumn(path="day", new_name="at"))
    assert schema.find_field("at") == NestedField(2, "at", TimestampType(), False, None, 3 * DAY, 4 * DAY)
    far = SetDefault(path="day", default=200_000)
    with pytest.raises(InvalidSchemaError, match="outside of the range of timestamp_ns"):
        after(far, UpdateColumn(path="day", field_type=TimestampNanoType()))


def test_a_new_struct_has_a_default_and_its_fields_keep_theirs() -> None:
    inner = StructType(NestedField(1, "a", LongType(), True, None, 5, 6))
    schema = after(AddColumn(path="place.in", field_type=inner, default={}), AddColumn(path="place.n", field_type=LongType(), default=1))
    assert schema.find_field("place.in") == NestedField(
        9, "in", StructType(NestedField(10, "a", LongType(), True, None, 5, 6)), False, None, (), ()
    )
    assert schema.find_field("place.n").initial_default == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (AddColumn(path="n", field_type=LongType(), default="x"), "cannot have the default 'x'"),
        (AddColumn(path="n", field_type=IntegerType(), default=2**31), "cannot have the default"),
        (AddColumn(path="n", field_type=VariantType(), default=1), "cannot have the default"),
        (AddColumn(path="n", field_type=UnknownType(), default=1), "cannot have the default"),
        (AddColumn(path="n", field_type=GeometryType(), default="POINT (1 1)"), "no default except null"),
        (AddColumn(path="n", field_type=StructType(NestedField(1, "a", LongType())), default={"a": 1}), "null or {}"),
        (AddColumn(path="n", field_type=StructType(NestedField(1, "a", LongType(), True)), default={}), "its field a is required"),
        (SetDefault(path="items.element", default=None), "part of a list"),
        (SetDefault(path="none", default=1), "no column"),
        (SetDefault(path="id", default=None), ""),
    ],
)
def test_an_invalid_default_is_refused(change: SchemaChange, message: str) -> None:
    if not message:
        assert after(change).find_field("id").write_default is None
        return
    with pytest.raises(InvalidSchemaError, match=message):
        after(change)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    "change",
    [
        AddColumn(path="n", field_type=LongType(), default=1),
        SetDefault(path="id", default=1),
        AddColumn(path="n", field_type=TimestampNanoType()),
        AddColumn(path="n", field_type=StructType(NestedField(1, "a", VariantType()))),
        AddColumn(path="n", field_type=StructType(NestedField(1, "a", LongType(), False, None, 1, 1))),
        UpdateColumn(path="day", field_type=TimestampType()),
        UpdateColumn(path="nothing", field_type=LongType()),
    ],
)
def test_older_versions_refuse_what_version_3_allows(version: int, change: SchemaChange) -> None:
    after(change)
    with pytest.raises(InvalidSchemaError, match="version 3"):
        after(change, version=version)


def test_a_required_column_needs_a_default_or_permission() -> None:
    change = AddColumn(path="n", field_type=LongType(), required=True)
    with pytest.raises(InvalidInputError, match="give it a default value"):
        after(change)
    assert after(change, allow_incompatible=True).find_field("n").required
    added = AddColumn(path="n", field_type=LongType(), default=1)
    assert after(added, UpdateColumn(path="n", required=True)).find_field("n").required
    with pytest.raises(InvalidInputError, match="cannot be made required"):
        after(UpdateColumn(path="day", required=True))


# ---- promotions ----

# Spec: Schema Evolution, valid primitive type promotions; every other pair of these types is not a promotion.
V3 = {
    (IntegerType(), LongType()),
    (FloatType(), DoubleType()),
    (DateType(), TimestampType()),
    (DateType(), TimestampNanoType()),
    (DecimalType(5, 2), DecimalType(9, 2)),
}
KINDS: list[IcebergType] = [
    IntegerType(),
    LongType(),
    FloatType(),
    DoubleType(),
    DateType(),
    TimestampType(),
    TimestamptzType(),
    TimestampNanoType(),
    TimestamptzNanoType(),
    DecimalType(5, 2),
    DecimalType(9, 2),
    DecimalType(9, 3),
    StringType(),
    VariantType(),
    UnknownType(),
]


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("old", KINDS, ids=str)
def test_types_are_promoted_as_the_table_of_the_spec_allows(version: int, old: IcebergType) -> None:
    for new in KINDS:
        allowed = old == new or (old, new) in V3 or isinstance(old, UnknownType)
        if version < 3:
            allowed = old == new or ((old, new) in V3 and not isinstance(old, DateType))
        change = UpdateColumn(path="a", field_type=new)
        schema = Schema(NestedField(1, "a", old))
        if allowed:
            assert evolve_schema(schema, [change], 1, format_version=version)[0].find_type("a") == new
        else:
            with pytest.raises(InvalidSchemaError, match="may only widen"):
                evolve_schema(schema, [change], 1, format_version=version)


def test_an_unknown_column_becomes_a_nested_column_with_new_ids() -> None:
    struct = StructType(NestedField(1, "a", LongType()))
    schema, last = evolve_schema(
        SCHEMA,
        [UpdateColumn(path="nothing", field_type=struct), UpdateColumn(path="items.element", field_type=struct)],
        8,
        format_version=3,
    )
    assert (schema.find_id("nothing.a"), schema.find_id("items.element.a"), last) == (9, 10, 10)


# ---- union and replacement ----


def test_a_union_adds_types_and_defaults_of_version_3() -> None:
    other = Schema(
        NestedField(1, "day", TimestampType()),
        NestedField(2, "nothing", StringType(), False, None, None, "w"),
        NestedField(3, "items", ListType(element_id=6, element=LongType(), element_required=False)),
        NestedField(4, "note", StringType(), True, None, "i", "w"),
        NestedField(5, "any", VariantType()),
    )
    schema = after(UnionByName(schema=other))
    assert schema.find_field("day") == NestedField(2, "day", TimestampType(), False, None, 3 * DAY, 4 * DAY)
    assert schema.find_field("nothing") == NestedField(6, "nothing", StringType(), False, None, None, "w")
    assert schema.find_field("id") == NestedField(1, "id", IntegerType(), True)
    assert schema.find_field("note") == NestedField(9, "note", StringType(), False, None, "i", "w")
    assert schema.find_type("any") == VariantType()
    assert schema.find_field("items").field_type == ListType(element_id=8, element=LongType(), element_required=False)
    rows_of_nulls = Schema(NestedField(1, "day", UnknownType()))
    assert after(UnionByName(schema=rows_of_nulls)) == SCHEMA


def test_a_schema_is_replaced_and_columns_of_the_same_name_keep_their_ids() -> None:
    replacement = Schema(
        NestedField(10, "place", StructType(NestedField(11, "z", LongType()), NestedField(12, "x", DoubleType())), False, "where"),
        NestedField(13, "new", LongType(), True, None, 1, 2),
        NestedField(14, "id", LongType(), True),
        NestedField(15, "items", ListType(element_id=16, element=StringType(), element_required=False)),
        identifier_field_ids=[14],
    )
    schema, last = evolve_schema(SCHEMA, [ReplaceWith(schema=replacement)], 8, format_version=3)
    assert schema == Schema(
        NestedField(3, "place", StructType(NestedField(9, "z", LongType()), NestedField(4, "x", DoubleType())), False, "where"),
        NestedField(10, "new", LongType(), True, None, 1, 2),
        NestedField(1, "id", LongType(), True),
        NestedField(7, "items", ListType(element_id=8, element=StringType(), element_required=False)),
        identifier_field_ids=[1],
    )
    assert last == 10


def test_a_replacement_that_does_not_fit_is_refused_with_every_problem() -> None:
    replacement = Schema(
        NestedField(1, "id", StringType(), True),
        NestedField(2, "day", DateType(), True),
        NestedField(3, "place", StructType(NestedField(4, "x", LongType()))),
        NestedField(5, "more", LongType(), True),
    )
    with pytest.raises(InvalidSchemaError) as caught:
        after(ReplaceWith(schema=replacement))
    assert [problem.where for problem in caught.value.problems] == ["id", "day", "place.x", "more"]
    allowed = after(ReplaceWith(schema=replacement), allow_incompatible=True)
    assert [(field.field_id, ".".join(path)) for path, field in walk(allowed.fields)] == [
        (9, "id"),
        (2, "day"),
        (3, "place"),
        (10, "place.x"),
        (11, "more"),
    ]
    with pytest.raises(InvalidSchemaError, match="another initial default"):
        after(ReplaceWith(schema=Schema(NestedField(1, "day", DateType(), False, None, 9))), allow_incompatible=True)
    with pytest.raises(InvalidSchemaError, match="version 3"):
        after(ReplaceWith(schema=Schema(NestedField(1, "v", VariantType()))), version=2, allow_incompatible=True)


def test_a_map_whose_keys_change_is_another_column() -> None:
    def map_of(key: IcebergType, value: IcebergType) -> Schema:
        return Schema(NestedField(1, "m", MapType(key_id=2, key_type=key, value_id=3, value_type=value, value_required=False)))

    current = map_of(StructType(NestedField(4, "k", IntegerType())), IntegerType())
    wider = map_of(StructType(NestedField(9, "k", IntegerType())), LongType())
    found, _ = evolve_schema(current, [ReplaceWith(schema=wider)], 4, format_version=2)
    assert found == map_of(StructType(NestedField(4, "k", IntegerType())), LongType())
    with pytest.raises(InvalidSchemaError, match="because of m"):
        evolve_schema(current, [ReplaceWith(schema=map_of(StructType(NestedField(9, "k", LongType())), LongType()))], 4, format_version=3)


def test_replacing_a_schema_with_itself_changes_nothing() -> None:
    assert after(ReplaceWith(schema=SCHEMA)) == SCHEMA


# ---- any changes, against a plain model ----

NAMES = st.sampled_from("abcde")
ADDED = st.sampled_from([(IntegerType(), 1), (DateType(), 10), (StringType(), "d"), (FloatType(), 0.5), (UnknownType(), None)])
WIDER: dict[IcebergType, IcebergType] = {
    IntegerType(): LongType(),
    DateType(): TimestampType(),
    FloatType(): DoubleType(),
    UnknownType(): StringType(),
}
STEPS = st.lists(
    st.tuples(st.sampled_from(["add", "add with default", "rename", "delete", "widen", "set default"]), NAMES, NAMES, ADDED), max_size=12
)


def step_of(what: str, name: str, other: str, kind: IcebergType, default: Any, types: dict[str, IcebergType]) -> SchemaChange:
    match what:
        case "add":
            return AddColumn(path=name, field_type=kind)
        case "add with default":
            return AddColumn(path=name, field_type=kind, required=default is not None, default=default)
        case "rename":
            return RenameColumn(path=name, new_name=other)
        case "delete":
            return DeleteColumn(path=name)
        case "widen":
            return UpdateColumn(path=name, field_type=WIDER.get(types.get(name, StringType()), BinaryType()))
    return SetDefault(path=name, default=default)


@given(STEPS, st.sampled_from([1, 2, 3]))
def test_no_change_reuses_an_id_or_changes_an_initial_default(steps: list[tuple[str, str, str, Any]], version: int) -> None:
    """Compare with a model: the column of each id that was ever assigned, and the value of its older rows."""
    schema, last_id = Schema(NestedField(1, "a", IntegerType())), 1
    given_ids, initial = {1}, {1: None}
    for what, name, other, (kind, default) in steps:
        types = {field.name: field.field_type for field in schema.fields}
        change = step_of(what, name, other, kind, default, types)
        try:
            new, new_last = evolve_schema(schema, [change], last_id, format_version=version)
        except InvalidInputError:
            continue
        assert new_last >= max(last_id, new.highest_field_id)
        before = {field.field_id for field in schema.fields}
        for field in new.fields:
            if field.field_id not in before:
                assert field.field_id not in given_ids
                given_ids.add(field.field_id)
                initial[field.field_id] = field.initial_default
                assert field.initial_default == (default if what == "add with default" else None)
            known = initial[field.field_id]
            assert field.initial_default == (known * DAY if isinstance(field.field_type, TimestampType) and known is not None else known)
            assert version == 3 or (field.initial_default is None and field.write_default is None)
            assert version == 3 or not isinstance(field.field_type, UnknownType | TimestampType)
        if what == "set default":
            assert new.find_field(name).write_default == default
        schema, last_id = new, new_last
        assert schema_from_json(schema_to_json(schema)) == schema
