"""The schemas that a table has had, and what they imply for its data files, each of which was written with one of them.

No file is opened here. Spec: Schema Evolution.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce

from icefloe.spec.schema.metadata_columns import is_reserved
from icefloe.spec.schema.schema import Fields, Schema, edit_field, walk
from icefloe.spec.types import NestedField, children


def is_complete_history(history: Sequence[Schema]) -> bool:
    """Return True if no schema between the first and the last was removed, as unused ones may be."""
    schema_ids = {schema.schema_id for schema in history}
    return bool(schema_ids) and schema_ids == set(range(max(schema_ids) + 1))


def relax_required_fields(fields: Fields, history: Sequence[Schema]) -> Fields:
    """Return the fields, at every level, as required only where no schema that files were written with made them optional.

    Removed schemas are not known; a required column is then one without nulls. Readers refuse a file that lacks a required column, see
    `required_fields_absent_from_files`.
    """
    once_optional = (field.field_id for _, field in walk(fields) if field.required and _was_optional(field.field_id, history))
    return reduce(lambda relaxed, field_id: edit_field(relaxed, field_id, _optional), once_optional, fields)


def _was_optional(field_id: int, history: Sequence[Schema]) -> bool:
    return any(field_id in schema and not schema.find_field(field_id).required for schema in history)


def required_fields_absent_from_files(fields: Fields, history: Sequence[Schema]) -> frozenset[int]:
    """Return the ids of required fields without a default, at every level, that at least one schema of the files lacks.

    A file of such a schema has no value for the field, so it must be refused.
    """
    return frozenset(_absent(fields, history, [True] * len(history)))


def _absent(fields: Fields, history: Sequence[Schema], has_parent: Sequence[bool]) -> Iterator[int]:
    """Yield the ids; where a file lacks the struct around a field, the struct is missing and not the field."""
    for field in fields:
        has_field = [field.field_id in schema for schema in history]
        is_absent = any(parent and not present for parent, present in zip(has_parent, has_field, strict=True))
        if is_absent and field.required and field.initial_default is None and not is_reserved(field.field_id):
            yield field.field_id
        yield from _absent(children(field.field_type), history, has_field)


def _optional(field: NestedField) -> NestedField:
    return replace(field, required=False)
