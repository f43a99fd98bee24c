"""Name mappings: the example of the spec, names found level by level, problems with their path, and updates after any change of the schema."""

import json

import hypothesis.strategies as st
import pytest
from hypothesis import given

from icefloe.errors import InvalidSchemaError, MetadataFormatError
from icefloe.spec.schema.name_mapping import MappedField, NameMapping, mapping_for, mapping_from_json, mapping_to_json, updated_mapping
from icefloe.spec.schema.schema import Schema, walk
from icefloe.spec.schema.schema_change import AddColumn, ColumnPosition, DeleteColumn, MoveColumn, RenameColumn, SchemaChange, UpdateColumn
from icefloe.spec.schema.schema_evolution import evolve_schema
from icefloe.spec.types import IntegerType, ListType, LongType, MapType, NestedField, StringType, StructType

# Spec: Appendix C, Name Mapping Serialization.
EXAMPLE = """
[ { "field-id": 1, "names": ["id", "record_id"] },
   { "field-id": 2, "names": ["data"] },
   { "field-id": 3, "names": ["location"], "fields": [
       { "field-id": 4, "names": ["latitude", "lat"] },
       { "field-id": 5, "names": ["longitude", "long"] }
     ] } ]
"""
SCHEMA = Schema(
    NestedField(1, "id", IntegerType()),
    NestedField(2, "place", StructType(NestedField(3, "x", IntegerType()), NestedField(4, "y", StringType()))),
    NestedField(5, "items", ListType(element_id=6, element=StructType(NestedField(7, "x", IntegerType())), element_required=False)),
    NestedField(
        8, "marks", MapType(key_id=9, key_type=StringType(), value_id=10, value_type=StructType(NestedField(11, "x", IntegerType())))
    ),
)


def test_the_example_of_the_spec_is_read() -> None:
    mapping = mapping_from_json(EXAMPLE)
    assert mapping.fields[0] == MappedField(names=("id", "record_id"), field_id=1)
    found = {
        path: mapping.find_id(path.split("/")) for path in ("id", "record_id", "data", "location/lat", "location/long", "lat", "other")
    }
    assert found == {"id": 1, "record_id": 1, "data": 2, "location/lat": 4, "location/long": 5, "lat": None, "other": None}


def test_a_dot_is_part_of_a_name() -> None:
    mapping = mapping_from_json(
        '[{"field-id": 1, "names": ["a.b"]}, {"field-id": 2, "names": ["a"], "fields": [{"field-id": 3, "names": ["b"]}]}]'
    )
    assert (mapping.find_id(["a.b"]), mapping.find_id(["a", "b"])) == (1, 3)


def test_a_field_without_id_or_names_is_kept() -> None:
    text = '[{"names": ["gone"], "fields": [{"names": ["x"]}]}, {"field-id": 4, "names": []}, {"field-id": 5}]'
    mapping = mapping_from_json(text)
    assert mapping.find(["gone", "x"]) == MappedField(names=("x",))
    assert mapping.find_id(["gone"]) is None
    assert [field.names for field in mapping.fields[1:]] == [(), ()]
    assert json.loads(mapping_to_json(mapping))[:2] == json.loads(text)[:2]


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("{", ["$"]),
        ("{}", ["$"]),
        ("[1]", ["$[0]"]),
        ('[{"names": "a"}, {"names": [1]}]', ["$[0].names", "$[1].names"]),
        ('[{"names": ["a"], "field-id": "1"}]', ["$[0].field-id"]),
        ('[{"names": ["a"], "field-id": 4294967296}]', ["$[0].field-id"]),
        ('[{"names": ["a"], "fields": {}}]', ["$[0].fields"]),
        ('[{"names": ["a"], "fields": [{"names": ["b"]}, {"names": ["c", "b"]}]}]', ["$[0].fields[1].names"]),
        ("[" * 100_000, ["$"]),
    ],
)
def test_every_problem_is_listed_with_its_path(text: str, where: list[str]) -> None:
    with pytest.raises(MetadataFormatError, match="the name mapping") as caught:
        mapping_from_json(text)
    assert [problem.where for problem in caught.value.problems] == where


def test_the_mapping_of_a_schema_has_element_key_and_value() -> None:
    mapping = mapping_for(SCHEMA)
    assert {path: mapping.find_id(path) for path, _ in walk(SCHEMA.fields)} == {path: field.field_id for path, field in walk(SCHEMA.fields)}
    assert mapping.find_id(("marks", "value", "x")) == 11


NAMES = st.text(min_size=1, max_size=3)


def levels(children: st.SearchStrategy[tuple[MappedField, ...]]) -> st.SearchStrategy[tuple[MappedField, ...]]:
    """Return fields of one level, no two of which share a name."""
    members = st.tuples(st.lists(NAMES, max_size=3), st.none() | st.integers(0, 50), children)

    def apart(found: list[tuple[list[str], int | None, tuple[MappedField, ...]]]) -> tuple[MappedField, ...]:
        seen: set[str] = set()
        fields = []
        for names, field_id, inner in found:
            unique_names = tuple(dict.fromkeys(name for name in names if name not in seen))
            seen.update(unique_names)
            fields.append(MappedField(names=unique_names, field_id=field_id, fields=inner))
        return tuple(fields)

    return st.lists(members, max_size=3).map(apart)


MAPPINGS = st.recursive(st.just(()), levels, max_leaves=8).map(NameMapping)


@given(MAPPINGS)
def test_any_mapping_survives_json(mapping: NameMapping) -> None:
    assert mapping_from_json(mapping_to_json(mapping)) == mapping


def changed(*changes: SchemaChange) -> NameMapping:
    new, _ = evolve_schema(SCHEMA, changes, 11)
    return updated_mapping(mapping_for(SCHEMA), SCHEMA, new)


def test_a_renamed_column_keeps_its_old_name_and_gets_the_new_one() -> None:
    mapping = changed(RenameColumn(path="place.x", new_name="ex"))
    assert mapping.find(("place", "ex")) == mapping.find(("place", "x")) == MappedField(names=("x", "ex"), field_id=3)


def test_a_new_column_is_added_with_everything_inside_it() -> None:
    mapping = changed(AddColumn(path="items.more", field_type=ListType(element_id=1, element=LongType(), element_required=False)))
    assert (mapping.find_id(("items", "element", "more")), mapping.find_id(("items", "element", "more", "element"))) == (12, 13)


def test_a_deleted_column_stays_mapped_until_another_column_takes_its_name() -> None:
    assert changed(DeleteColumn(path="id")).find_id(["id"]) == 1
    mapping = changed(DeleteColumn(path="id"), AddColumn(path="id", field_type=LongType()))
    assert mapping.find_id(["id"]) == 12
    assert mapping.fields[0] == MappedField(names=(), field_id=1)


def test_columns_that_swap_their_names_swap_them_in_the_mapping() -> None:
    mapping = changed(
        RenameColumn(path="place.x", new_name="-"), RenameColumn(path="place.y", new_name="x"), RenameColumn(path="place.-", new_name="y")
    )
    assert (mapping.find_id(("place", "x")), mapping.find_id(("place", "y")), mapping.find_id(("items", "element", "x"))) == (4, 3, 7)


def test_columns_that_a_mapping_lacks_stay_unmapped() -> None:
    """A child of a column that is not mapped is not added; a mapped column that is not in the schema is kept."""
    sparse = mapping_from_json('[{"names": ["old"], "fields": [{"field-id": 3, "names": ["x"]}]}, {"field-id": 5, "names": ["list"]}]')
    new, _ = evolve_schema(SCHEMA, [AddColumn(path="place.z", field_type=LongType()), AddColumn(path="items.z", field_type=LongType())], 11)
    assert updated_mapping(sparse, SCHEMA, new) == sparse


CHANGE = st.tuples(
    st.sampled_from(["rename", "add", "add struct", "delete", "move", "doc", "make optional"]), st.integers(0, 30), st.sampled_from("abcxy")
)


def as_change(schema: Schema, what: str, position: int, name: str) -> SchemaChange:
    paths = [path for path, _ in walk(schema.fields)]
    path = paths[position % len(paths)]
    inside = isinstance(schema.find_type(".".join(path)), StructType)
    match what:
        case "rename":
            return RenameColumn(path=path, new_name=name)
        case "add":
            return AddColumn(path=(*path, name) if inside else (name,), field_type=LongType())
        case "add struct":
            return AddColumn(path=(name,), field_type=StructType(NestedField(1, "x", LongType())))
        case "delete":
            return DeleteColumn(path=path)
        case "move":
            return MoveColumn(path=path, place=ColumnPosition.FIRST)
        case "doc":
            return UpdateColumn(path=path, doc=name)
    return UpdateColumn(path=path, required=False)


def owned(schema: Schema) -> dict[int, tuple[int | None, NestedField]]:
    """Return every field by id, with the id of the field right above it."""
    by_path = dict(walk(schema.fields))
    return {field.field_id: (by_path[path[:-1]].field_id if path[:-1] else None, field) for path, field in by_path.items()}


@given(st.lists(st.lists(CHANGE, min_size=1, max_size=3), min_size=1, max_size=6))
def test_a_mapping_follows_any_changes(commits: list[list[tuple[str, int, str]]]) -> None:
    """Compare with a flat model: under each field, the last column that took a name has it."""
    schema, last_id, mapping = SCHEMA, 11, mapping_for(SCHEMA)
    model = {(owner, field.name): field_id for field_id, (owner, field) in owned(SCHEMA).items()}
    for commit in commits:
        try:
            new, last_id = evolve_schema(schema, [as_change(schema, *members) for members in commit], last_id)
        except InvalidSchemaError:
            continue
        mapping = updated_mapping(mapping, schema, new)
        before = owned(schema)
        for field_id, (owner, field) in owned(new).items():
            was = before.get(field_id)
            if was is None or (was[1].name, was[1].doc, was[1].required) != (field.name, field.doc, field.required):
                model[owner, field.name] = field_id
        schema = new
        assert {path: mapping.find_id(path) for path, _ in walk(schema.fields)} == {
            path: field.field_id for path, field in walk(schema.fields)
        }
    found = {}
    stack: list[tuple[int | None, tuple[MappedField, ...]]] = [(None, mapping.fields)]
    while stack:
        owner, fields = stack.pop()
        for field in fields:
            found |= {(owner, name): field.field_id for name in field.names}
            stack.append((field.field_id, field.fields))
    assert found == model
