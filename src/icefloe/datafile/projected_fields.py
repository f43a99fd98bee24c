"""Which of a schema's fields a read needs: those of the projection and those that a filter tests, inside the structs they lie in.

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
    """The field ids of the columns that a bound filter tests."""
    if isinstance(row_filter, BoundPredicate):
        return {row_filter.field.field_id}
    if isinstance(row_filter, And | Or):
        return set().union(*(filter_field_ids(term) for term in row_filter.terms))
    return set()


def fields_to_read(schema: Schema, projection: Schema, row_filter: BooleanExpression) -> tuple[NestedField, ...]:
    """The part of the schema that holds the projection and what the filter tests, in the schema's order."""
    return kept_fields(schema.fields, {*_ends(projection.fields), *filter_field_ids(row_filter)})


def kept_fields(fields: tuple[NestedField, ...], wanted: AbstractSet[int]) -> tuple[NestedField, ...]:
    """The fields with these ids, whole; a struct of which only members are wanted is cut to them."""
    found = []
    for field in fields:
        if field.field_id in wanted:
            found.append(field)
        elif isinstance(field.field_type, StructType) and (inner := kept_fields(field.field_type.fields, wanted)):
            found.append(replace(field, field_type=StructType(*inner)))
    return tuple(found)


def _ends(fields: Iterable[NestedField]) -> Iterator[int]:
    """The fields at which a projection stops cutting: everything that is not a struct with members."""
    for field in fields:
        if isinstance(field.field_type, StructType) and field.field_type.fields:
            yield from _ends(field.field_type.fields)
        else:
            yield field.field_id
