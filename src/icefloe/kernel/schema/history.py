"""What every schema that a table has had tells of its data files, whichever of them a file was written with.

Files are not opened here. Floor: kernel.schema. Spec: Schema Evolution.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from icefloe.kernel.schema.field_edits import Fields, edited_fields
from icefloe.kernel.schema.schema import Schema, walk
from icefloe.kernel.types import NestedField


def is_whole(history: Sequence[Schema]) -> bool:
    """Whether no schema between the first and the last is missing, as after unused ones were removed."""
    known = {schema.schema_id for schema in history}
    return bool(known) and known == set(range(max(known) + 1))


def as_files_hold(fields: Fields, history: Sequence[Schema]) -> Fields:
    """The fields, at every level, required only where no schema of the history let files be without values: a column may have been added, or made required,
    after they were written. What schemas allowed that were removed since is not known; then the word of whoever made the column required is taken.
    """
    doubted = [field.field_id for _, field in walk(fields) if field.required and _may_lack_values(field, history)]
    return reduce(lambda found, field_id: edited_fields(found, field_id, _optional), doubted, fields)


def _may_lack_values(field: NestedField, history: Sequence[Schema]) -> bool:
    has_it = [schema for schema in history if field.field_id in schema]
    is_new_to_some = 0 < len(has_it) < len(history) and field.initial_default is None
    return is_new_to_some or any(not schema.find_field(field.field_id).required for schema in has_it)


def _optional(field: NestedField) -> NestedField:
    return replace(field, required=False)
