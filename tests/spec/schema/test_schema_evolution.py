"""Schema evolution: the result of each change, the ids it assigns, and every refusal with its rule and the next step."""

from collections.abc import Sequence

import pytest

from icefloe.errors import InvalidInputError, InvalidSchemaError
from icefloe.spec.schema.schema import Schema
from icefloe.spec.schema.schema_change import (
    AddColumn,
    ColumnPosition,
    DeleteColumn,
    MoveColumn,
    RenameColumn,
    SchemaChange,
    SetIdentifierFields,
    UnionByName,
    UpdateColumn,
)
from icefloe.spec.schema.schema_evolution import SchemaUpdate, evolve_schema
from icefloe.spec.types import (
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
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
)

PLACE = StructType(NestedField(6, "lat", FloatType()), NestedField(7, "lon", FloatType(), required=True))
STOP = StructType(NestedField(10, "at", TimestampType()))
SCHEMA = Schema(
    NestedField(1, "id", IntegerType(), required=True),
    NestedField(2, "name", StringType(), doc="who"),
    NestedField(3, "place", PLACE, required=True),
    NestedField(4, "stops", ListType(element_id=8, element=STOP, element_required=False)),
    NestedField(
        5,
        "prices",
        MapType(
            key_id=11,
            key_type=StructType(NestedField(12, "code", IntegerType())),
            value_id=13,
            value_type=DecimalType(9, 2),
            value_required=True,
        ),
    ),
    schema_id=3,
    identifier_field_ids=(1,),
)
LAST = 20  # higher than any id in use, because columns were dropped


def after(*changes: SchemaChange, allow_incompatible: bool = False) -> Schema:
    return evolve_schema(SCHEMA, changes, LAST, allow_incompatible=allow_incompatible)[0]


def update(
    path: str | tuple[str, ...], field_type: IcebergType | None = None, required: bool | None = None, doc: str | None = None
) -> SchemaChange:
    return UpdateColumn(path=path, field_type=field_type, required=required, doc=doc)


def add(path: str | tuple[str, ...], kind: IcebergType | None = None, required: bool = False) -> SchemaChange:
    return AddColumn(path=path, field_type=kind or LongType(), required=required)


def test_without_changes_the_schema_is_the_same() -> None:
    assert evolve_schema(SCHEMA, (), LAST) == (SCHEMA, LAST)


def test_a_new_column_gets_the_next_id_and_is_last() -> None:
    schema, last = evolve_schema(SCHEMA, [AddColumn(path="note", field_type=StringType(), doc="free text")], LAST)
    assert schema.fields[-1] == NestedField(21, "note", StringType(), required=False, doc="free text")
    assert (last, schema.fields[:-1]) == (21, SCHEMA.fields)


def test_a_nested_new_type_gets_its_ids_level_by_level() -> None:
    kind = ListType(element_id=1, element=StructType(NestedField(1, "a", LongType()), NestedField(2, "b", PLACE)), element_required=True)
    schema, last = evolve_schema(SCHEMA, [add("deep", kind)], LAST)
    names_and_ids = [(name, schema.find_id(name)) for name in schema.column_names if name.startswith("deep")]
    assert names_and_ids == [
        ("deep", 21),
        ("deep.element", 22),
        ("deep.element.a", 23),
        ("deep.element.b", 24),
        ("deep.element.b.lat", 25),
        ("deep.element.b.lon", 26),
    ]
    assert last == 26


@pytest.mark.parametrize(
    ("path", "full_name"),
    [
        ("place.height", "place.height"),
        (("place", "height"), "place.height"),
        ("stops.gate", "stops.element.gate"),
        ("stops.element.gate", "stops.element.gate"),
    ],
)
def test_a_column_is_added_to_a_struct_inside_structs_and_lists(path: str, full_name: str) -> None:
    schema = after(add(path))
    assert schema.find_column_name(21) == full_name


def test_a_tuple_of_one_name_is_a_column_with_a_dot_in_it() -> None:
    schema = after(add(("x.y",)))
    assert schema.fields[-1].name == "x.y"
    assert after(add(("x.y",)), RenameColumn(path=("x.y",), new_name="z.y")).fields[-1].name == "z.y"


def test_a_renamed_column_keeps_its_id_and_everything_else() -> None:
    schema = after(RenameColumn(path="name", new_name="label"), RenameColumn(path="place.lat", new_name="latitude"))
    assert schema.find_field(2) == NestedField(2, "label", StringType(), doc="who")
    assert schema.find_column_name(6) == "place.latitude"


def test_a_column_renamed_by_an_earlier_change_is_still_found_by_its_old_name() -> None:
    schema = after(RenameColumn(path="name", new_name="label"), update("name", doc="label of it"))
    assert schema.find_field("label").doc == "label of it"


def test_a_deleted_column_may_be_added_again_and_is_another_column() -> None:
    schema, last = evolve_schema(SCHEMA, [DeleteColumn(path="name"), add("name")], LAST)
    assert schema.find_id("name") == last == 21
    assert 2 not in schema


def test_a_reused_name_refers_to_the_new_column() -> None:
    schema = after(RenameColumn(path="name", new_name="old"), add("name"), update("name", doc="new"))
    assert (schema.find_field("old").doc, schema.find_field("name").doc) == ("who", "new")


def test_the_last_id_never_decreases() -> None:
    assert evolve_schema(SCHEMA, [add("a"), DeleteColumn(path="a")], LAST) == (SCHEMA, 21)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("id", LongType()),
        ("place.lat", DoubleType()),
        ("prices.value", DecimalType(18, 2)),
        ("name", StringType()),
    ],
)
def test_a_type_may_be_promoted(path: str, kind: IcebergType) -> None:
    schema = after(update(path, kind))
    assert schema.find_type(path) == kind
    assert schema.field_ids == SCHEMA.field_ids


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("id", StringType()),
        ("id", DoubleType()),
        ("place.lat", IntegerType()),
        ("prices.value", DecimalType(9, 3)),
        ("prices.value", DecimalType(8, 2)),
        ("name", BinaryType()),
        ("stops.at", DateType()),
        ("place", LongType()),
        ("name", PLACE),
        ("place", StructType(NestedField(6, "lat", FloatType()))),
    ],
)
def test_any_other_change_of_type_is_refused_with_the_rule(path: str, kind: IcebergType) -> None:
    with pytest.raises(InvalidSchemaError, match=rf"column {path} cannot change from .* only widen") as refused:
        after(update(path, kind))
    assert "add a new column" in str(refused.value)


def test_required_columns_become_optional_and_an_element_too() -> None:
    schema = after(update("place.lon", required=False), update("prices.value", required=False), update("place", required=False))
    assert [schema.find_field(path).required for path in ("place.lon", "prices.value", "place")] == [False, False, False]


def test_making_a_column_required_must_be_allowed() -> None:
    with pytest.raises(InvalidInputError, match="name is optional and cannot be made required") as refused:
        after(update("name", required=True))
    assert "allow_incompatible_changes=True" in str(refused.value)
    assert after(update("name", required=True), allow_incompatible=True).find_field("name").required


def test_a_required_column_is_added_where_it_is_allowed() -> None:
    with pytest.raises(InvalidInputError, match="note cannot be added as required") as refused:
        after(add("note", required=True))
    assert "allow_incompatible_changes=True" in str(refused.value)
    assert after(add("note", required=True), allow_incompatible=True).find_field("note").required


@pytest.mark.parametrize(
    ("path", "place", "beside", "order"),
    [
        ("stops", ColumnPosition.FIRST, None, ["stops", "id", "name", "place", "prices"]),
        ("id", ColumnPosition.FIRST, None, ["id", "name", "place", "stops", "prices"]),
        ("prices", ColumnPosition.BEFORE, "name", ["id", "prices", "name", "place", "stops"]),
        ("id", ColumnPosition.BEFORE, "prices", ["name", "place", "stops", "id", "prices"]),
        ("id", ColumnPosition.AFTER, "prices", ["name", "place", "stops", "prices", "id"]),
        ("prices", ColumnPosition.AFTER, "id", ["id", "prices", "name", "place", "stops"]),
    ],
)
def test_a_column_moves_within_its_struct(path: str, place: ColumnPosition, beside: str | None, order: list[str]) -> None:
    schema = after(MoveColumn(path=path, place=place, beside=beside))
    assert schema.names == order
    assert {field.field_id: field for field in schema.fields} == {field.field_id: field for field in SCHEMA.fields}


def test_a_nested_column_moves_in_its_struct() -> None:
    assert [child.name for child in after(MoveColumn(path="place.lon", place=ColumnPosition.FIRST)).find_type("place").fields] == [
        "lon",
        "lat",
    ]  # type: ignore[attr-defined]


def test_identifier_fields_are_set_and_follow_a_rename() -> None:
    assert after(SetIdentifierFields(paths=())).identifier_field_ids == ()
    added = add("place.code", required=True)
    assert after(added, SetIdentifierFields(paths=("id", "place.code")), allow_incompatible=True).identifier_field_ids == (1, 21)
    assert after(RenameColumn(path="id", new_name="key")).identifier_field_ids == (1,)


REFUSED: Sequence[tuple[str, list[SchemaChange], str]] = [
    ("an unknown column", [DeleteColumn(path="nowhere")], "no column 'nowhere'"),
    ("an empty name", [RenameColumn(path="name", new_name="")], "renamed to an empty name"),
    ("a column without a name", [add("place.")], "needs a name"),
    ("no path at all", [add(())], "needs a name"),
    ("a parent that is not there", [add("here.there")], r"here.there cannot be added.*'here'"),
    ("a parent without fields", [add("name.first")], "name.first cannot be added: name is string, and only a struct has fields"),
    ("a value of a map without fields", [add("prices.tax")], "prices is map"),
    ("a name that is taken", [add("name")], "two columns named name"),
    ("a nested name that is taken", [add("place.lat")], "two columns named place.lat"),
    ("a rename to a taken name", [RenameColumn(path="id", new_name="name")], "two columns named name"),
    ("a name that reads like a nested one", [add(("place.lat",))], "two columns named place.lat"),
    ("an element deleted", [DeleteColumn(path="stops.element")], "part of its list or map and cannot be deleted"),
    ("an element renamed", [RenameColumn(path="stops.element", new_name="x")], "part of its list or map and cannot be renamed"),
    ("a map's value moved", [MoveColumn(path="prices.value", place=ColumnPosition.FIRST)], "part of its list or map and cannot be moved"),
    ("a text for an element", [update("stops.element", doc="x")], "cannot have a doc of its own"),
    ("a field of a key deleted", [DeleteColumn(path="prices.key.code")], "keys never change"),
    ("a field added to a key", [add("prices.key.more")], "keys never change"),
    ("a key widened", [update("prices.key.code", LongType())], "keys never change"),
    ("an identifier field deleted", [DeleteColumn(path="id")], "column id is an identifier field"),
    ("an identifier field made optional", [update("id", required=False)], "identifier field is required"),
    ("an identifier of floats", [SetIdentifierFields(paths=("place.lon",))], "may not be of type float"),
    ("an optional identifier", [SetIdentifierFields(paths=("name",))], "identifier field is required"),
    ("an unknown identifier", [SetIdentifierFields(paths=("nowhere",))], "no column 'nowhere'"),
    (
        "a move out of the struct",
        [MoveColumn(path="place.lat", place=ColumnPosition.AFTER, beside="id")],
        "only among those of its own struct",
    ),
    ("a move beside itself", [MoveColumn(path="id", place=ColumnPosition.BEFORE, beside="id")], "not beside itself"),
    ("the last field of a struct deleted", [DeleteColumn(path="stops.at")], "struct without fields"),
    ("something that is not a type", [AddColumn(path="x", field_type="long")], "not an Iceberg type"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("changes", "message"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_a_change_that_violates_a_rule_is_refused_with_a_next_step(changes: list[SchemaChange], message: str) -> None:
    with pytest.raises(InvalidInputError, match="(?s)" + message) as refused:
        after(*changes)
    assert refused.value.next_step


def test_all_fields_of_a_struct_may_be_replaced_in_one_update() -> None:
    names = after(DeleteColumn(path="stops.at"), add("stops.gate")).column_names
    assert [name for name in names if name.startswith("stops")] == ["stops", "stops.element", "stops.element.gate"]


def test_an_identifier_field_may_be_deleted_after_others_were_set() -> None:
    schema = after(DeleteColumn(path="id"), SetIdentifierFields(paths=()))
    assert "id" not in schema.names


def test_without_case_sensitivity_names_are_found_and_stay_unique() -> None:
    schema, _ = evolve_schema(
        SCHEMA, [RenameColumn(path="NAME", new_name="Label"), update("PLACE.Lat", DoubleType())], LAST, case_sensitive=False
    )
    assert (schema.find_column_name(2), schema.find_type(6)) == ("Label", DoubleType())
    with pytest.raises(InvalidSchemaError, match="two columns named name"):
        evolve_schema(SCHEMA, [add("NAME")], LAST, case_sensitive=False)
    assert after(add("NAME")).find_id("NAME") == 21


def test_a_refused_change_changes_nothing() -> None:
    state = SchemaUpdate(SCHEMA, LAST)
    other = Schema(NestedField(1, "extra", LongType()), NestedField(2, "name", StringType()))
    state.apply(UnionByName(schema=other))
    for change in (UnionByName(schema=Schema(NestedField(1, "more", LongType()), NestedField(2, "id", StringType()))), add("name")):
        with pytest.raises(InvalidSchemaError):
            state.apply(change)
    assert state.build().names == [*SCHEMA.names, "extra"]
    assert state.last_column_id == 21


def test_a_union_adds_promotes_and_makes_optional() -> None:
    other = Schema(
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "fresh", IntegerType(), required=True, doc="new"),
        NestedField(3, "place", StructType(NestedField(4, "lon", DoubleType()), NestedField(5, "height", IntegerType())), required=True),
        NestedField(6, "stops", ListType(element_id=7, element=StructType(NestedField(8, "gate", StringType())), element_required=False)),
        NestedField(9, "name", StringType(), doc="whose"),
    )
    schema, last = evolve_schema(SCHEMA, [UnionByName(schema=other)], LAST)
    assert last == 23
    assert schema.find_type("id") == LongType()
    assert schema.find_field("fresh") == NestedField(23, "fresh", IntegerType(), required=False, doc="new")
    assert schema.find_field("place.lon") == NestedField(7, "lon", DoubleType(), required=False)
    assert schema.find_id("place.height") == 21
    assert schema.find_id("stops.element.gate") == 22
    assert schema.find_field("name").doc == "whose"
    assert schema.find_field("prices") == SCHEMA.find_field("prices")


def test_a_union_with_itself_or_with_narrower_types_changes_nothing() -> None:
    wide = after(update("id", LongType()), update("place.lat", DoubleType()))
    assert evolve_schema(SCHEMA, [UnionByName(schema=SCHEMA)], LAST) == (SCHEMA, LAST)
    assert evolve_schema(wide, [UnionByName(schema=SCHEMA)], LAST) == (wide, LAST)


def test_a_union_lists_the_columns_that_cannot_be_joined() -> None:
    other = Schema(
        NestedField(1, "id", StringType(), required=True),
        NestedField(2, "place", ListType(element_id=3, element=LongType()), required=True),
        NestedField(4, "prices", MapType(key_id=5, key_type=StringType(), value_id=6, value_type=DecimalType(9, 2))),
    )
    with pytest.raises(InvalidSchemaError, match=r"id, place, prices\.key") as refused:
        after(UnionByName(schema=other))
    assert "cast those columns" in str(refused.value)
