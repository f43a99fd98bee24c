"""What every schema that a table has had tells of its data files, whichever of them a file was written with.

Files are not opened here. Spec: Schema Evolution.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce

from icefloe.kernel.schema.metadata_columns import is_reserved
from icefloe.kernel.schema.schema import Fields, Schema, edit_field, walk
from icefloe.kernel.types import NestedField, children


def is_complete_history(history: Sequence[Schema]) -> bool:
    """Whether no schema between the first and the last is missing, as after unused ones were removed."""
    known = {schema.schema_id for schema in history}
    return bool(known) and known == set(range(max(known) + 1))


def relax_required_fields(fields: Fields, history: Sequence[Schema]) -> Fields:
    """Return the fields, at every level, required only where no schema that files were written with made them optional.

    What schemas allowed that were removed since is not known; then a required column is one without nulls. A file that lacks a required column is refused by
    its readers, see `required_fields_absent_from_files`.
    """
    doubted = (field.field_id for _, field in walk(fields) if field.required and _was_optional(field.field_id, history))
    return reduce(lambda found, field_id: edit_field(found, field_id, _optional), doubted, fields)


def _was_optional(field_id: int, history: Sequence[Schema]) -> bool:
    return any(field_id in schema and not schema.find_field(field_id).required for schema in history)


def required_fields_absent_from_files(fields: Fields, history: Sequence[Schema]) -> frozenset[int]:
    """Return the ids of required fields, at every level, that have no default and came after one of the schemas that files were written with.

    A file of such a schema has no value for the field, and none can be made up: it must be refused.
    """
    return frozenset(_late(fields, history, [True] * len(history)))


def _late(fields: Fields, history: Sequence[Schema], has_parent: Sequence[bool]) -> Iterator[int]:
    """Yield the ids; where a file lacks the struct around a field, that is missing and not the field."""
    for field in fields:
        has_it = [field.field_id in schema for schema in history]
        is_late = any(here and not has for here, has in zip(has_parent, has_it, strict=True))
        if is_late and field.required and field.initial_default is None and not is_reserved(field.field_id):
            yield field.field_id
        yield from _late(children(field.field_type), history, has_it)


def _optional(field: NestedField) -> NestedField:
    return replace(field, required=False)
