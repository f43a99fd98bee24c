"""One field of a schema replaced or taken out, at whatever depth, and everything around it kept.

Which edits are right is `schema_evolution.py`. Spec: Schema Evolution.
"""

from collections.abc import Callable
from dataclasses import replace

from icefloe.kernel.types import IcebergType, ListType, MapType, NestedField, StructType, children

Fields = tuple[NestedField, ...]


def edited_fields(fields: Fields, field_id: int, edit: Callable[[NestedField], NestedField | None]) -> Fields:
    """The fields with the one of that id, at whatever depth, replaced, or left out where `edit` gives None."""
    found: list[NestedField] = []
    for field in fields:
        changed = (
            edit(field) if field.field_id == field_id else replace(field, field_type=_typeedited_fields(field.field_type, field_id, edit))
        )
        if changed is not None:
            found.append(changed)
    return tuple(found)


def _typeedited_fields(kind: IcebergType, field_id: int, edit: Callable[[NestedField], NestedField | None]) -> IcebergType:
    inner = edited_fields(children(kind), field_id, edit)
    if isinstance(kind, StructType):
        return StructType(*inner)
    if isinstance(kind, ListType):
        return replace(kind, element=inner[0].field_type, element_required=inner[0].required)
    if isinstance(kind, MapType):
        return replace(kind, value_type=inner[1].field_type, value_required=inner[1].required)
    return kind
