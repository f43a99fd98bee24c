"""The fields of a schema that a read needs: those of the projection and those that a filter tests, inside their structs.

Spec: Column Projection.
"""

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import replace

from icefloe.kernel.expressions.bind import BoundPredicate
from icefloe.kernel.expressions.predicate import And, BooleanExpression, Or
from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.types import NestedField, StructType


def filter_field_ids(row_filter: BooleanExpression) -> set[int]:
    """Return the field ids of the columns that a bound filter tests."""
    if isinstance(row_filter, BoundPredicate):
        return {row_filter.field.field_id}
    if isinstance(row_filter, And | Or):
        return set().union(*(filter_field_ids(term) for term in row_filter.terms))
    return set()


def fields_to_read(schema: Schema, projection: Schema, row_filter: BooleanExpression) -> tuple[NestedField, ...]:
    """Return the part of the schema with the projection and the columns of the filter, in the schema's order."""
    return select_fields(schema.fields, {*_ends(projection.fields), *filter_field_ids(row_filter)})


def select_fields(fields: tuple[NestedField, ...], field_ids: AbstractSet[int]) -> tuple[NestedField, ...]:
    """Return the fields with these ids, whole; a struct that only contains such fields is reduced to them."""
    selected = []
    for field in fields:
        if field.field_id in field_ids:
            selected.append(field)
        elif isinstance(field.field_type, StructType) and (inner := select_fields(field.field_type.fields, field_ids)):
            selected.append(replace(field, field_type=StructType(*inner)))
    return tuple(selected)


def _ends(fields: Iterable[NestedField]) -> Iterator[int]:
    """Yield the ids of the fields that a projection selects whole: all but structs with fields."""
    for field in fields:
        if isinstance(field.field_type, StructType) and field.field_type.fields:
            yield from _ends(field.field_type.fields)
        else:
            yield field.field_id
