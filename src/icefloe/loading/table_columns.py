"""Columns of files beside those of a table: the table's types where it has a column, and the columns that it does not have."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import count

from icefloe.kernel.schema.schema import Schema, renumbered_type
from icefloe.kernel.types import IcebergType, ListType, NestedField, StructType


def schema_of(fields: Iterable[NestedField]) -> Schema:
    """Return the fields as a schema with ids from 1, whatever their ids are."""
    numbers = count(1)
    return Schema(
        *(
            replace(field, field_id=next(numbers), field_type=renumbered_type(field.field_type, lambda: next(numbers), {}))
            for field in fields
        )
    )


def with_table_types(fields: Sequence[NestedField], table_fields: Sequence[NestedField]) -> list[NestedField]:
    """Return the fields of files with the table's types, also within structs; fields that the table does not have stay as they are."""
    known = {field.name: field for field in table_fields}
    return [
        replace(
            field, field_type=_joined(known[field.name].field_type, field.field_type, only_known=True), required=known[field.name].required
        )
        if field.name in known
        else field
        for field in fields
    ]


def with_new_columns(table_fields: Sequence[NestedField], fields: Sequence[NestedField]) -> list[NestedField]:
    """Return the table's fields, unchanged, followed by those of files that the table does not have, which are optional; also within structs."""
    given = {field.name: field for field in fields}
    old = [
        replace(field, field_type=_joined(field.field_type, given[field.name].field_type, only_known=False))
        if field.name in given
        else field
        for field in table_fields
    ]
    known = {field.name for field in table_fields}
    return [*old, *(replace(field, required=False) for field in fields if field.name not in known)]


def _joined(table_type: IcebergType, file_type: IcebergType, *, only_known: bool) -> IcebergType:
    if isinstance(table_type, StructType) and isinstance(file_type, StructType):
        join = (
            with_table_types(file_type.fields, table_type.fields) if only_known else with_new_columns(table_type.fields, file_type.fields)
        )
        return StructType(*join)
    if isinstance(table_type, ListType) and isinstance(file_type, ListType):
        return replace(table_type, element=_joined(table_type.element, file_type.element, only_known=only_known))
    return table_type
