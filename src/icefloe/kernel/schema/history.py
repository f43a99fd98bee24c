"""What every schema that a table has had tells of its data files, whichever of them a file was written with.

Files are not opened here. Floor: kernel.schema. Spec: Schema Evolution.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from icefloe.kernel.schema.field_edits import Fields, edited_fields
from icefloe.kernel.schema.metadata_columns import is_reserved
from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.types import NestedField, children


def is_whole(history: Sequence[Schema]) -> bool:
    """Whether no schema between the first and the last is missing, as after unused ones were removed."""
    known = {schema.schema_id for schema in history}
    return bool(known) and known == set(range(max(known) + 1))


def as_files_hold(fields: Fields, history: Sequence[Schema]) -> Fields:
    """The fields, at every level, required only where no schema that files were written with let them be without values: a column may have been added, or made
    required, later. What schemas allowed that were removed since is not known; then the word of whoever made the column required is taken.
    """
    doubted = _doubted(fields, history, [True] * len(history))
    return reduce(lambda found, field_id: edited_fields(found, field_id, _optional), doubted, fields)


def _doubted(fields: Fields, history: Sequence[Schema], has_parent: Sequence[bool]) -> list[int]:
    """The ids of required fields that a file may lack, or hold null in; where a file lacks the struct around a field, that is null and not the field."""
    found = []
    for field in fields:
        has_it = [field.field_id in schema for schema in history]
        is_new_to_some = any(here and not has for here, has in zip(has_parent, has_it, strict=True))
        was_optional = any(has and not schema.find_field(field.field_id).required for schema, has in zip(history, has_it, strict=True))
        if field.required and (was_optional or (is_new_to_some and field.initial_default is None and not is_reserved(field.field_id))):
            found.append(field.field_id)
        found += _doubted(children(field.field_type), history, has_it)
    return found


def _optional(field: NestedField) -> NestedField:
    return replace(field, required=False)
