"""Metadata columns: their ids and names are those of the spec, and a table's own schema may not have them."""

import pytest

from icefloe.errors import InvalidSchemaError, MetadataFormatError
from icefloe.spec.schema import metadata_columns as columns
from icefloe.spec.schema.schema import Schema
from icefloe.spec.schema.schema_json import schema_from_json
from icefloe.spec.types import IntegerType, ListType, LongType, NestedField, StructType

ID = NestedField(1, "id", LongType())
# The table of the spec, "Reserved Field IDs".
SPEC = {
    2147483646: ("_file", "string"),
    2147483645: ("_pos", "long"),
    2147483644: ("_deleted", "boolean"),
    2147483643: ("_spec_id", "int"),
    2147483642: ("_partition", None),
    2147483546: ("file_path", "string"),
    2147483545: ("pos", "long"),
    2147483544: ("row", None),
    2147483543: ("_change_type", "string"),
    2147483542: ("_change_ordinal", "int"),
    2147483541: ("_commit_snapshot_id", "long"),
    2147483540: ("_row_id", "long"),
    2147483539: ("_last_updated_sequence_number", "long"),
}


def test_ids_names_and_types_are_those_of_the_spec() -> None:
    assert {field_id: name for field_id, (name, _) in SPEC.items()} == columns.RESERVED_FIELD_IDS
    # Only results of the change feed have the time of a commit: the specification has no id for it.
    fields = [value for value in vars(columns).values() if isinstance(value, NestedField) and value != columns.COMMIT_TIMESTAMP]
    assert columns.COMMIT_TIMESTAMP.field_id not in SPEC
    assert {field.field_id: (field.name, str(field.field_type)) for field in fields} == {
        field_id: named for field_id, named in SPEC.items() if named[1] is not None
    }


def test_a_projection_may_have_metadata_columns_and_partition_fields_with_the_ids_of_columns() -> None:
    partition = StructType(NestedField(1000, "id_bucket", IntegerType()))
    schema = Schema(ID, NestedField(1000, "wide", LongType()), columns.POS, columns.partition_column(partition))
    assert schema.column_names == ["id", "wide", "_pos", "_partition"]
    assert schema.find_field(1000).name == "wide"


@pytest.mark.parametrize(
    "field",
    [
        NestedField(columns.MAX_USER_FIELD_ID + 1, "x", LongType()),
        NestedField(2, "x", StructType(columns.POS)),
        NestedField(2, "x", ListType(element_id=columns.POS.field_id, element=LongType())),
    ],
    ids=["no metadata column's id", "inside a struct", "inside a list"],
)
def test_other_reserved_ids_are_refused(field: NestedField) -> None:
    with pytest.raises(InvalidSchemaError, match="is reserved"):
        Schema(ID, field)


@pytest.mark.parametrize("field_id", SPEC)
def test_a_tables_schema_with_a_reserved_id_is_refused(field_id: int) -> None:
    document = {"type": "struct", "fields": [{"id": field_id, "name": "mine", "required": False, "type": "long"}]}
    with pytest.raises((MetadataFormatError, InvalidSchemaError), match="reserved"):
        schema_from_json(document)


def test_lineage_columns_are_renamed_where_a_column_has_their_name() -> None:
    assert [field.name for field in columns.with_lineage((ID,))] == ["id", "_row_id", "_last_updated_sequence_number"]
    mine = NestedField(2, "_row_id", LongType())
    schema = Schema(*columns.with_lineage((mine,)))
    assert schema.names == ["_row_id", "_row_id_2147483540", "_last_updated_sequence_number"]
    assert schema.find_field(2147483540).name == "_row_id_2147483540"
