"""Schemas as values: names, ids, fresh ids, and invalid schemas."""

import pickle

import pytest

from icefloe.errors import InvalidSchemaError
from icefloe.spec.schema.metadata_columns import MAX_USER_FIELD_ID
from icefloe.spec.schema.schema import Schema, assign_fresh_ids
from icefloe.spec.types import DoubleType, IntegerType, ListType, LongType, MapType, NestedField, StringType, StructType

NESTED = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(
        2, "points", ListType(element_id=3, element=StructType(NestedField(4, "x", DoubleType()), NestedField(5, "y", DoubleType())))
    ),
    NestedField(6, "tags", MapType(key_id=7, key_type=StringType(), value_id=8, value_type=StructType(NestedField(9, "n", IntegerType())))),
    NestedField(10, "place", StructType(NestedField(11, "City", StringType()))),
)


def test_a_nested_field_is_found_by_its_full_name() -> None:
    assert NESTED.find_id("points.element.x") == 4
    assert NESTED.find_id("tags.value.n") == 9
    assert NESTED.find_column_name(11) == "place.City"


@pytest.mark.parametrize(("prefix", "above"), [("", None), ("s.", "struct"), ("l.element.", "list"), ("l.", "list"), ("m.value.", "map")])
@pytest.mark.parametrize("names", [("a", "A", "ab"), ("ab", "A", "a")])
def test_a_name_in_any_case_is_first_that_of_the_field_with_exactly_this_name(
    prefix: str, above: str | None, names: tuple[str, ...]
) -> None:
    fields = tuple(NestedField(number, name, LongType()) for number, name in enumerate(names, 10))
    outer = {
        "struct": StructType(*fields),
        "list": ListType(2, StructType(*fields)),
        "map": MapType(2, StringType(), 3, StructType(*fields)),
    }
    schema = Schema(*fields) if above is None else Schema(NestedField(1, prefix[0], outer[above]))
    for number, name in enumerate(names, 10):
        assert schema.find_id(prefix + name, case_sensitive=False) == number
    assert schema.find_id(f"{prefix}AB", case_sensitive=False) == 10 + names.index("ab")
    if above is not None:  # the upper part is spelled as none of the two is
        with pytest.raises(InvalidSchemaError, match="2 fields that differ by case: "):
            schema.find_id(f"{prefix.upper()}A", case_sensitive=False)


def test_element_and_value_may_be_left_out_of_a_name() -> None:
    assert NESTED.find_id("points.x") == 4
    assert NESTED.find_id("tags.n") == 9


def test_a_column_named_value_or_element_keeps_its_name() -> None:
    schema = Schema(NestedField(1, "value", LongType()), NestedField(2, "element", StructType(NestedField(3, "x", LongType()))))
    assert schema.find_id("value") == 1
    assert schema.find_id("element.x") == 3
    assert schema.find_id("") is None
    assert schema.find_id("x") is None


def test_names_are_case_sensitive_by_default() -> None:
    assert NESTED.find_id("PLACE.city") is None
    assert NESTED.find_id("PLACE.city", case_sensitive=False) == 11


def test_an_unknown_name_is_refused_with_a_list_of_the_names() -> None:
    with pytest.raises(InvalidSchemaError, match="'nope'") as caught:
        NESTED.find_field("nope")
    assert "place.City" in str(caught.value)


def test_select_keeps_only_the_selected_fields_in_the_tables_order() -> None:
    cut = NESTED.select("place.City", "id")
    assert cut.column_names == ["id", "place", "place.City"]


def test_the_classes_of_types_include_those_of_inner_columns() -> None:
    inner = StructType(NestedField(3, "n", IntegerType()))
    schema = Schema(NestedField(1, "places", ListType(2, inner, element_required=False)), NestedField(4, "name", StringType()))
    assert schema.type_classes == {ListType, StructType, IntegerType, StringType}


def test_every_problem_of_a_schema_is_listed_at_once() -> None:
    with pytest.raises(InvalidSchemaError) as caught:
        Schema(
            NestedField(1, "a", LongType()),
            NestedField(1, "b", LongType()),
            NestedField(2, "a", LongType()),
            NestedField(MAX_USER_FIELD_ID + 1, "c", LongType()),
        )
    text = str(caught.value)
    assert "field id 1 is also that of a" in text
    assert "two columns have this name" in text
    assert "is reserved" in text


@pytest.mark.parametrize(
    ("field", "identifier"),
    [
        (NestedField(1, "a", LongType()), 1),
        (NestedField(1, "a", DoubleType(), required=True), 1),
        (NestedField(1, "a", StructType(NestedField(2, "b", LongType(), required=True))), 2),
        (NestedField(1, "a", ListType(element_id=2, element=LongType()), required=True), 2),
        (NestedField(1, "a", LongType(), required=True), 9),
    ],
    ids=["optional", "double", "in an optional struct", "in a list", "absent"],
)
def test_an_invalid_identifier_field_is_refused(field: NestedField, identifier: int) -> None:
    with pytest.raises(InvalidSchemaError):
        Schema(field, identifier_field_ids=[identifier])


def test_fresh_ids_are_assigned_level_by_level_as_in_java() -> None:
    fresh = assign_fresh_ids(NESTED)
    assert [(name, fresh.find_id(name)) for name in fresh.column_names] == [
        ("id", 1),
        ("points", 2),
        ("points.element", 5),
        ("points.element.x", 6),
        ("points.element.y", 7),
        ("tags", 3),
        ("tags.key", 8),
        ("tags.value", 9),
        ("tags.value.n", 10),
        ("place", 4),
        ("place.City", 11),
    ]


def test_fresh_ids_follow_identifier_fields() -> None:
    schema = Schema(NestedField(7, "a", LongType()), NestedField(9, "b", LongType(), required=True), identifier_field_ids=[9])
    assert assign_fresh_ids(schema).identifier_field_ids == (2,)


def test_a_schema_can_be_pickled_after_its_names_were_looked_up() -> None:
    assert NESTED.find_id("points.x") == 4
    assert pickle.loads(pickle.dumps(NESTED)) == NESTED
