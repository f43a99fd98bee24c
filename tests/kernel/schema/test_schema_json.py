"""Schemas as JSON: the spec's forms, and every fault named by its path."""

from typing import Any

import pytest

from icefloe.errors import MetadataFormatError, UnsupportedTypeError
from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.schema.schema_json import schema_from_json, schema_to_json, type_from_json, type_to_json
from icefloe.kernel.types import DecimalType, FixedType, LongType, NestedField, StringType


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


def test_every_fault_is_told_with_its_path() -> None:
    found = problems_of(
        schema_of(
            field(),
            field(id="2", name="b"),
            field(id=3, name="c", type="lonk"),
            field(id=4, name="d", type={"type": "list", "element-id": 5, "element": {"type": "struct", "fields": [field(id=6, type=7)]}}),
            {"id": 8},
        )
    )
    assert found == {
        "$.schemas[0].fields[1].id": "expected a 32-bit integer, found the string '2'",
        "$.schemas[0].fields[2].type": "'lonk' is not the name of a type",
        "$.schemas[0].fields[3].type.element-required": "is required, and is missing",
        "$.schemas[0].fields[3].type.element.fields[0].type": "expected a type, found the number 7",
        "$.schemas[0].fields[4].name": "is required, and is missing",
        "$.schemas[0].fields[4].required": "is required, and is missing",
        "$.schemas[0].fields[4].type": "is required, and is missing",
    }


@pytest.mark.parametrize("value", [None, 5, "long", [], {"fields": []}, {"type": "list", "fields": []}, {"type": "struct"}])
def test_what_is_no_schema_is_refused(value: object) -> None:
    assert problems_of(value)


def test_a_repeated_field_id_is_a_fault_of_the_schema() -> None:
    found = problems_of(schema_of(field(), field(name="b")))
    assert found == {"$.schemas[0] (b)": "field id 1 is also that of a"}


@pytest.mark.parametrize("text", ["fixed[0]", "decimal(39,2)", "decimal(5,6)", "varchar(5)", "Long", ""])
def test_a_text_that_names_no_type_is_a_fault(text: str) -> None:
    assert list(problems_of(schema_of(field(type=text)))) == ["$.schemas[0].fields[0].type"]


@pytest.mark.parametrize(
    "text", ["timestamp_ns", "timestamptz_ns", "variant", "unknown", "geometry", "geometry(srid:4326)", "geography(srid:4326, spherical)"]
)
def test_a_type_of_version_3_is_refused_with_the_column_named(text: str) -> None:
    nested = {"type": "list", "element-id": 2, "element-required": False, "element": text}
    with pytest.raises(UnsupportedTypeError, match=r"column outer\.element has type") as caught:
        schema_from_json(schema_of(field(name="outer", type=nested)))
    assert text in str(caught.value)
