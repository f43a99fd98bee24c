"""Residuals: the part of a filter that must still be tested on the rows of one partition, after the partition value decided the rest.

Spec: Scan Planning. JAVA: ResidualEvaluator.
"""

from collections.abc import Callable
from typing import Any

from icefloe.errors import InvalidFilterError
from icefloe.kernel.expressions.bind import BoundPredicate, predicates
from icefloe.kernel.expressions.metrics_evaluator import ColumnRange, may_match, must_match, range_of_values, tree_mask
from icefloe.kernel.expressions.predicate import AlwaysFalse, AlwaysTrue, And, BooleanExpression, Or, all_of, any_of
from icefloe.kernel.expressions.projections import inclusive_projection, strict_projection
from icefloe.kernel.partitioning.partition_spec import PartitionSpec
from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.values import physical_array


def residual_for(bound: BooleanExpression, spec: PartitionSpec, schema: Schema, partition: tuple[Any, ...]) -> BooleanExpression:
    """Replace every predicate that the partition value decides by a constant, and simplify.

    Args:
        bound: The bound filter.
        spec: The partition spec.
        schema: The schema that the filter is bound to.
        partition: Physical values in the order of the spec's fields.

    Returns:
        A filter that a row of the partition matches exactly where it matches `bound`.

    Raises:
        InvalidFilterError: The filter is not bound, or the tuple does not fit the spec.
    """
    if len(partition) != len(spec.fields):
        raise InvalidFilterError(f"a partition of {len(partition)} values does not fit the partition spec {spec}")
    values = {field.field_id: value for field, value in zip(spec.fields, partition, strict=True)}
    ranges: dict[int, ColumnRange] = {}

    def partition_range(predicate: BoundPredicate) -> ColumnRange:
        field_id = predicate.field.field_id
        if field_id not in ranges:
            ranges[field_id] = range_of_values(predicate.kind, physical_array(predicate.kind, [values[field_id]]))
        return ranges[field_id]

    def decide(predicate: BoundPredicate) -> bool | None:
        if tree_mask(strict_projection(predicate, spec, schema), 1, lambda test: must_match(test, partition_range(test)))[0]:
            return True
        possible = tree_mask(inclusive_projection(predicate, spec, schema), 1, lambda test: may_match(test, partition_range(test)))[0]
        return None if possible else False

    return simplify(bound, {predicate: decide(predicate) for predicate in predicates(bound)}.get)


def simplify(bound: BooleanExpression, decided: Callable[[BoundPredicate], bool | None]) -> BooleanExpression:
    """Replace the decided predicates of a bound filter by constants.

    Args:
        bound: The bound filter.
        decided: Returns the constant of a predicate, or None to keep it.
    """
    if isinstance(bound, And):
        return all_of(simplify(term, decided) for term in bound.terms)
    if isinstance(bound, Or):
        return any_of(simplify(term, decided) for term in bound.terms)
    if isinstance(bound, BoundPredicate):
        outcome = decided(bound)
        return bound if outcome is None else AlwaysTrue() if outcome else AlwaysFalse()
    return bound
