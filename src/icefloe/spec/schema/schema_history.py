"""Conclusions about data files from the table's current and former schemas. Each data file was written with one of these schemas.

No file is opened here. Spec: Schema Evolution.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce

from icefloe.spec.schema.metadata_columns import is_reserved
from icefloe.spec.schema.schema import Fields, Schema, edit_field, walk
from icefloe.spec.types import NestedField, children


def is_complete_history(history: Sequence[Schema]) -> bool:
    """Return True if the history has every schema id from 0 to the highest one. Unused schemas may have been removed from the table."""
    schema_ids = {schema.schema_id for schema in history}
    return bool(schema_ids) and schema_ids == set(range(max(schema_ids) + 1))


def relax_required_fields(fields: Fields, history: Sequence[Schema]) -> Fields:
    """Return the fields with every required field, at any level, made optional if it was optional in a schema of the history.

    Removed schemas cannot be checked: it is assumed that required columns were never optional in them. Readers refuse files that lack a required column, see
    `required_fields_absent_from_files`.
    """
    once_optional = (field.field_id for _, field in walk(fields) if field.required and _was_optional(field.field_id, history))
    return reduce(lambda relaxed, field_id: edit_field(relaxed, field_id, _optional), once_optional, fields)


def _was_optional(field_id: int, history: Sequence[Schema]) -> bool:
    return any(field_id in schema and not schema.find_field(field_id).required for schema in history)


def required_fields_absent_from_files(fields: Fields, history: Sequence[Schema]) -> frozenset[int]:
    """Return the ids of required fields without a default, at every level, that are missing in at least one schema of the history.

    A file that was written with such a schema has no value for the field, so it must be refused.
    """
    return frozenset(_absent(fields, history, [True] * len(history)))


def _absent(fields: Fields, history: Sequence[Schema], has_parent: Sequence[bool]) -> Iterator[int]:
    """Yield the ids for `required_fields_absent_from_files`. A schema that also lacks the parent of a field does not count for the field."""
    for field in fields:
        has_field = [field.field_id in schema for schema in history]
        is_absent = any(parent and not present for parent, present in zip(has_parent, has_field, strict=True))
        if is_absent and field.required and field.initial_default is None and not is_reserved(field.field_id):
            yield field.field_id
        yield from _absent(children(field.field_type), history, has_field)


def _optional(field: NestedField) -> NestedField:
    return replace(field, required=False)
