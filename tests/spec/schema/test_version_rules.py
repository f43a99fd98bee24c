"""The types and defaults that each format version allows: checked when a schema is added, not when a table is read."""

import pytest

from icefloe.errors import InvalidSchemaError
from icefloe.spec.metadata.layout_updates import AddSchema
from icefloe.spec.metadata.new_table import new_table_metadata
from icefloe.spec.schema.schema import Schema
from icefloe.spec.schema.version_rules import schema_version_problems
from icefloe.spec.types import (
    GeographyType,
    GeometryType,
    IcebergType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestamptzNanoType,
    UnknownType,
    VariantType,
)

OF_VERSION_3 = (TimestampNanoType(), TimestamptzNanoType(), UnknownType(), VariantType(), GeometryType("a"), GeographyType("a", "thomas"))


def schema_with(kind: IcebergType) -> Schema:
    """Return a schema with the type in a list in a struct in a map."""
    inner = StructType(NestedField(5, "x", ListType(element_id=6, element=kind, element_required=False)))
    return Schema(NestedField(1, "m", MapType(key_id=3, key_type=StringType(), value_id=4, value_type=inner)))


@pytest.mark.parametrize("kind", OF_VERSION_3, ids=str)
def test_a_type_of_version_3_is_refused_in_older_tables_with_the_column_named(kind: IcebergType) -> None:
    schema = schema_with(kind)
    assert [problem.where for problem in schema_version_problems(schema, 1)] == ["m.value.x.element"]
    assert [str(kind) in problem.what for problem in schema_version_problems(schema, 2)] == [True]
    assert schema_version_problems(schema, 3) == []
    with pytest.raises(InvalidSchemaError, match=r"format version 2 cannot have the columns m\.value\.x\.element"):
        new_table_metadata(location="mem://t", schema=schema, table_uuid="u", now_ms=1, format_version=2)


def test_an_initial_default_needs_version_3_and_a_write_default_does_not() -> None:
    schema = Schema(NestedField(1, "a", LongType(), initial_default=1, write_default=2))
    assert [problem.where for problem in schema_version_problems(schema, 2)] == ["a"]
    assert schema_version_problems(schema, 3) == []
    assert schema_version_problems(Schema(NestedField(1, "a", LongType(), write_default=2)), 1) == []


def test_a_schema_is_added_only_if_the_format_version_has_its_types() -> None:
    table = new_table_metadata(
        location="mem://t", schema=Schema(NestedField(1, "a", LongType())), table_uuid="u", now_ms=1, format_version=2
    )
    wider = AddSchema(Schema(NestedField(1, "a", LongType()), NestedField(2, "b", UnknownType())))
    with pytest.raises(InvalidSchemaError, match="format version 2"):
        wider.apply(table, 2)
    newer = new_table_metadata(
        location="mem://t", schema=Schema(NestedField(1, "a", LongType())), table_uuid="u", now_ms=1, format_version=3
    )
    assert wider.apply(newer, 2).schemas.get(1) is not None
