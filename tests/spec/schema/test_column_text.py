"""Columns as text: the accepted forms, and the errors for others."""

import pytest

from icefloe.errors import InvalidSchemaError
from icefloe.spec.schema.column_text import columns_from_text, type_from_text
from icefloe.spec.types import DecimalType, LongType, StringType


@pytest.mark.parametrize(
    ("text", "types"),
    [
        ("id long, name string", ["long", "string"]),
        ("id: long,name:string", ["long", "string"]),
        ("a bigint, b INTEGER, c varchar(20), d text, e bool", ["long", "int", "string", "string", "boolean"]),
        ("a timestamp, b timestamptz, c timestamp_ntz, d timestamp_ltz", ["timestamp", "timestamptz", "timestamp", "timestamptz"]),
        (
            "a decimal(9, 2), b fixed[16], c timestamp_ns, d geometry(srid:4326)",
            ["decimal(9, 2)", "fixed[16]", "timestamp_ns", "geometry(srid:4326)"],
        ),
        ("a list<string>, b array<int>, c map<string, list<long>>", ["list<string>", "list<int>", "map<string, list<long>>"]),
    ],
)
def test_types_have_the_names_of_the_format_or_of_sql(text: str, types: list[str]) -> None:
    assert [str(field.field_type) for field in columns_from_text(text).fields] == types


def test_a_column_may_be_required_and_have_a_comment() -> None:
    first, second = columns_from_text("id long NOT NULL, name string comment 'the owner''s, if any'").fields
    assert (first.required, first.doc) == (True, None)
    assert (second.required, second.doc) == (False, "the owner's, if any")


def test_names_may_be_quoted_and_structs_nested() -> None:
    schema = columns_from_text('`a b` long, "c,d" struct<x: double not null, y: struct<z: int>>')
    assert schema.names == ("a b", "c,d") or list(schema.names) == ["a b", "c,d"]
    assert schema.find_field("c,d.x").required
    assert str(schema.find_type(schema.find_field("c,d.y.z").field_id)) == "int"


def test_every_field_has_an_id_of_its_own() -> None:
    schema = columns_from_text("a struct<b: list<int>, c: map<int, int>>, d long")
    assert len(schema.column_names) == len({schema.find_field(name).field_id for name in schema.column_names})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "the name of a column is missing at the end"),
        ("id", "a type is missing at the end"),
        ("id lang", "there is no type 'lang'"),
        ("id long,", "the name of a column is missing at the end"),
        ("id long, id string", "id"),
        ("id long hidden", "'hidden' is neither NOT NULL nor COMMENT 'text'"),
        ("p struct<a double>", "':' is missing after the name 'a'"),
        ("p list<string", "'>' is missing"),
        ("p map<string>", "',' is missing"),
        ("x decimal(99,2)", "there is no type 'decimal(99,2)'"),
        ("x 'a", "is not understood"),
        ("p " + "list<" * 300, "nested too deeply"),
    ],
)
def test_another_form_is_refused_with_the_place(text: str, reason: str) -> None:
    with pytest.raises(InvalidSchemaError) as caught:
        columns_from_text(text)
    assert reason in str(caught.value)


def test_one_type_is_parsed_alone() -> None:
    assert type_from_text("decimal(12,2)") == DecimalType(12, 2)
    assert (type_from_text("bigint"), type_from_text("varchar")) == (LongType(), StringType())
    with pytest.raises(InvalidSchemaError, match="not expected"):
        type_from_text("long string")
