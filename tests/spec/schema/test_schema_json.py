"""Schemas as JSON: the forms of the spec, and every problem with its path."""

from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from icefloe.errors import MetadataFormatError
from icefloe.spec.schema.schema import Schema
from icefloe.spec.schema.schema_json import schema_from_json, schema_to_json, type_from_json, type_to_json
from icefloe.spec.types import (
    DecimalType,
    FixedType,
    GeographyType,
    GeometryType,
    IcebergType,
    LongType,
    NestedField,
    StringType,
    TimestampNanoType,
    TimestamptzNanoType,
    UnknownType,
    VariantType,
)


def field(**changes: Any) -> dict[str, Any]:
    return {"id": 1, "name": "a", "required": False, "type": "long", **changes}


def schema_of(*fields: object) -> dict[str, Any]:
    return {"type": "struct", "schema-id": 3, "fields": list(fields)}


def problems_of(value: object) -> dict[str, str]:
    with pytest.raises(MetadataFormatError) as caught:
        schema_from_json(value, "$.schemas[0]")
    return {problem.where: problem.what for problem in caught.value.problems}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("decimal(9,2)", DecimalType(9, 2)),
        ("decimal( 9 , 2 )", DecimalType(9, 2)),
        ("fixed[16]", FixedType(16)),
        ("string", StringType()),
    ],
)
def test_type_text_is_read_with_and_without_blanks(text: str, kind: object) -> None:
    assert type_from_json(text) == kind


def test_a_decimal_is_written_as_java_writes_it() -> None:
    assert type_to_json(DecimalType(9, 2)) == "decimal(9, 2)"


def test_a_schema_is_written_with_its_id_and_docs() -> None:
    schema = Schema(NestedField(1, "a", LongType(), True, "the first"), schema_id=4, identifier_field_ids=[1])
    assert schema_to_json(schema) == {
        "type": "struct",
        "schema-id": 4,
        "identifier-field-ids": [1],
        "fields": [{"id": 1, "name": "a", "required": True, "type": "long", "doc": "the first"}],
    }


def test_a_schema_without_an_id_is_schema_0() -> None:
    assert schema_from_json({"type": "struct", "fields": []}).schema_id == 0


def test_every_problem_is_listed_with_its_path() -> None:
    problems = problems_of(
        schema_of(
            field(),
            field(id="2", name="b"),
            field(id=3, name="c", type="lonk"),
            field(id=4, name="d", type={"type": "list", "element-id": 5, "element": {"type": "struct", "fields": [field(id=6, type=7)]}}),
            {"id": 8},
        )
    )
    assert problems == {
        "$.schemas[0].fields[1].id": "expected a 32-bit integer, found the string '2'",
        "$.schemas[0].fields[2].type": "'lonk' is not the name of a type",
        "$.schemas[0].fields[3].type.element-required": "is required, and is missing",
        "$.schemas[0].fields[3].type.element.fields[0].type": "expected a type, found the number 7",
        "$.schemas[0].fields[4].name": "is required, and is missing",
        "$.schemas[0].fields[4].required": "is required, and is missing",
        "$.schemas[0].fields[4].type": "is required, and is missing",
    }


@pytest.mark.parametrize("value", [None, 5, "long", [], {"fields": []}, {"type": "list", "fields": []}, {"type": "struct"}])
def test_a_value_that_is_not_a_schema_is_refused(value: object) -> None:
    assert problems_of(value)


def test_a_repeated_field_id_is_a_problem_of_the_schema() -> None:
    problems = problems_of(schema_of(field(), field(name="b")))
    assert problems == {"$.schemas[0] (b)": "field id 1 is also that of a"}


@pytest.mark.parametrize("text", ["fixed[0]", "decimal(39,2)", "decimal(5,6)", "varchar(5)", "Long", ""])
def test_a_text_that_names_no_type_is_refused(text: str) -> None:
    assert list(problems_of(schema_of(field(type=text)))) == ["$.schemas[0].fields[0].type"]


@pytest.mark.parametrize(
    ("text", "kind", "written"),
    [
        ("timestamp_ns", TimestampNanoType(), "timestamp_ns"),
        ("timestamptz_ns", TimestamptzNanoType(), "timestamptz_ns"),
        ("unknown", UnknownType(), "unknown"),
        ("variant", VariantType(), "variant"),
        ("geometry", GeometryType(), "geometry"),
        ("geometry(OGC:CRS84)", GeometryType(), "geometry"),
        ("geometry( srid:4326 )", GeometryType("srid:4326"), "geometry(srid:4326)"),
        ("geometry('EPSG:4326')", GeometryType("EPSG:4326"), "geometry(EPSG:4326)"),  # as PyIceberg writes it
        ("geography", GeographyType(), "geography"),
        ("geography(srid:4326)", GeographyType("srid:4326"), "geography(srid:4326)"),
        ("geography(OGC:CRS84, spherical)", GeographyType(), "geography"),
        ("geography ( srid:4326 ,karney )", GeographyType("srid:4326", "karney"), "geography(srid:4326, karney)"),
        ("geography('srid:4326', 'karney')", GeographyType("srid:4326", "karney"), "geography(srid:4326, karney)"),
    ],
)
def test_the_types_of_version_3_are_read_and_written(text: str, kind: IcebergType, written: str) -> None:
    assert type_from_json(text) == kind
    assert type_to_json(kind) == written
    nested = {"type": "list", "element-id": 2, "element-required": False, "element": text}
    assert schema_from_json(schema_of(field(type=nested))).find_type("a.element") == kind


@pytest.mark.parametrize(
    "text", ["geometry()", "geography(a, b)", "geography(a,)", 'geometry({"x":1})', "geometry(a))", "variant(1)", "timestamp_ns(9)"]
)
def test_an_invalid_text_of_a_type_of_version_3_is_refused(text: str) -> None:
    assert list(problems_of(schema_of(field(type=text)))) == ["$.schemas[0].fields[0].type"]


def test_names_of_reference_systems_are_equal_in_any_letter_case() -> None:
    assert GeometryType("epsg:4326") == GeometryType("EPSG:4326") != GeometryType()
    assert {GeographyType("ogc:crs84"): 1}[GeographyType()] == 1


POINT = {"type": "struct", "fields": [field(id=5, name="x", type="int", **{"initial-default": 0}), field(id=6, name="y", type="int")]}
NUMBERS = {"type": "list", "element-id": 7, "element-required": False, "element": "long"}
NAMED = {"type": "map", "key-id": 8, "key": "string", "value-id": 9, "value-required": True, "value": "date"}


@pytest.mark.parametrize(
    ("kind", "default", "physical"),
    [
        ("long", 34, 34),
        ("decimal(9, 2)", "14.20", Decimal("14.20")),
        ("timestamp_ns", "2017-11-16T22:31:08.123456789", 1510871468123456789),
        ("uuid", "f79c3e09-677c-4bbd-a479-3f349cb785e7", UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")),
        (POINT, {}, ()),
        (NUMBERS, [1, None, 3], (1, None, 3)),
        (NAMED, {"keys": ["a"], "values": ["1970-01-02"]}, (("a", 1),)),
    ],
)
def test_defaults_are_read_and_written(kind: object, default: object, physical: object) -> None:
    given = schema_of(field(type=kind, **{"initial-default": default, "write-default": default}))
    schema = schema_from_json(given)
    assert schema.fields[0].initial_default == schema.fields[0].write_default == physical
    assert schema_to_json(schema) == given
    assert hash(schema)  # a default can be hashed, so a schema can


@pytest.mark.parametrize(
    ("kind", "default", "fault"),
    [
        ("int", "1", "not a int"),
        ("int", 2**31, "the range is"),
        ("variant", 1, "no default except null"),
        ("unknown", 1, "no default except null"),
        ("geometry", "POINT (30 10)", "no default except null"),
        (POINT, {"5": 1}, "defaults of their own"),
        (POINT, 1, "not a struct"),
        (NUMBERS, {"keys": []}, "not a list"),
        (NAMED, {"keys": ["a"], "values": []}, "not a map"),
        (NAMED, {"keys": ["a"], "values": [None]}, "null is not allowed as the value"),
        (NAMED, {"keys": [None], "values": ["1970-01-02"]}, "null is not allowed as the key"),
    ],
)
@pytest.mark.parametrize("key", ["initial-default", "write-default"])
def test_an_invalid_default_is_listed_with_its_path(kind: object, default: object, fault: str, key: str) -> None:
    problems = problems_of(schema_of(field(type=kind, **{key: default})))
    assert list(problems) == [f"$.schemas[0].fields[0].{key}"]
    assert fault in problems[f"$.schemas[0].fields[0].{key}"]


def test_a_required_unknown_column_is_refused() -> None:
    assert list(problems_of(schema_of(field(type="unknown", required=True)))) == ["$.schemas[0] (a)"]
