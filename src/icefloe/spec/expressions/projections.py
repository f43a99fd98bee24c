"""Projection of a bound filter through a partition spec: from a test of rows to a test of partition values.

The inclusive projection is true for every partition that may contain a matching row; the strict projection only for partitions whose rows all match.
A projected predicate is bound to a field of the partition type, by partition field id. `metrics_evaluator.py` tests partitions against it.
Spec: Scan Planning; Partition Transforms. JAVA: Projections.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from icefloe.errors import InvalidFilterError
from icefloe.spec.expressions.bind import BoundPredicate, PredicateOperator
from icefloe.spec.expressions.predicate import AlwaysFalse, AlwaysTrue, And, BooleanExpression, Or, all_of, any_of
from icefloe.spec.literals import INTEGER_RANGES
from icefloe.spec.partitioning.partition_spec import PartitionField, PartitionSpec
from icefloe.spec.partitioning.transforms import BucketTransform, IdentityTransform, TimeTransform, TruncateTransform
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import BinaryType, DateType, DecimalType, IntegerType, LongType, NestedField, StringType
from icefloe.spec.values import decimal_of, unscaled_value

_NULL_TESTS = (PredicateOperator.IS_NULL, PredicateOperator.NOT_NULL)
_EQUALITIES = (PredicateOperator.EQ, PredicateOperator.IN)
_INEQUALITIES = (PredicateOperator.NOT_EQ, PredicateOperator.NOT_IN)
_PREFIX_TESTS = (PredicateOperator.STARTS_WITH, PredicateOperator.NOT_STARTS_WITH)


def inclusive_projection(bound: BooleanExpression, spec: PartitionSpec, schema: Schema) -> BooleanExpression:
    """Return a test that is true for every partition with a matching row; `AlwaysTrue` if partition values exclude nothing.

    Raises:
        InvalidFilterError: The filter is not bound.
    Spec: Scan Planning, inclusive projection.
    """
    return _map(bound, lambda predicate: all_of(projected.inclusive() for projected in _projections(predicate, spec, schema)))


def strict_projection(bound: BooleanExpression, spec: PartitionSpec, schema: Schema) -> BooleanExpression:
    """Return a test that is true only for partitions whose rows all match; `AlwaysFalse` if partition values do not determine that.

    Raises:
        InvalidFilterError: The filter is not bound.
    Spec: Scan Planning, strict projection.
    """
    return _map(bound, lambda predicate: any_of(projected.strict() for projected in _projections(predicate, spec, schema)))


def is_decided(predicate: BoundPredicate, spec: PartitionSpec, schema: Schema) -> bool:
    """Return True if a partition field decides the predicate: for every non-null value of the field, either all rows match or no row matches.

    For example, a partition by day decides `ts >= '2024-03-01'`, but not `ts >= '2024-03-01 12:00'`. The metrics of files cannot prune further for a decided
    predicate.
    """
    return any(_is_exact(projected.inclusive(), projected.strict()) for projected in _projections(predicate, spec, schema))


def _is_exact(inclusive_test: BooleanExpression, strict_test: BooleanExpression) -> bool:
    if not isinstance(inclusive_test, BoundPredicate) or not isinstance(strict_test, BoundPredicate):
        return False
    return _with_closed_bounds(inclusive_test) == _with_closed_bounds(strict_test)


def _with_closed_bounds(test: BoundPredicate) -> BoundPredicate:
    """Return an equivalent test with `<=` or `>=` instead of `<` or `>`, for columns whose values are whole numbers."""
    step = {PredicateOperator.LT: -1, PredicateOperator.GT: 1}.get(test.operation)
    if step is None or not isinstance(test.kind, IntegerType | LongType | DateType):
        return test
    operation = PredicateOperator.LT_EQ if step < 0 else PredicateOperator.GT_EQ
    return replace(test, operation=operation, values=(test.value + step,))


def _map(bound: BooleanExpression, replace: Callable[[BoundPredicate], BooleanExpression]) -> BooleanExpression:
    if isinstance(bound, And | Or):
        combine: Callable[[Iterable[BooleanExpression]], BooleanExpression] = all_of if isinstance(bound, And) else any_of
        return combine(_map(term, replace) for term in bound.terms)
    if isinstance(bound, AlwaysTrue | AlwaysFalse):
        return bound
    if not isinstance(bound, BoundPredicate):
        raise InvalidFilterError(f"{bound} is not bound to a schema")
    return replace(bound)


def _projections(predicate: BoundPredicate, spec: PartitionSpec, schema: Schema) -> Iterator["_Projection"]:
    """Yield a projection for each partition field of the predicate's column, except fields with a void or unknown transform."""
    if predicate.field.field_id not in schema or not predicate.field.field_type.is_primitive:
        return
    for field in spec.by_source_id.get(predicate.field.field_id, ()):
        if not field.transform.can_transform(predicate.kind):
            continue
        if isinstance(field.transform, IdentityTransform):
            yield _Projection(predicate, field)
        elif isinstance(field.transform, BucketTransform):
            yield _BucketProjection(predicate, field)
        elif isinstance(field.transform, TruncateTransform):
            is_text = isinstance(predicate.kind, StringType | BinaryType)
            yield _TextProjection(predicate, field) if is_text else _NumberProjection(predicate, field)
        elif isinstance(field.transform, TimeTransform):
            yield _TimeProjection(predicate, field)


@dataclass(frozen=True, slots=True)
class _Projection:
    """The projection of one predicate to one partition field. This base class is for the identity transform: the test of the values stays the same."""

    predicate: BoundPredicate
    field: PartitionField

    def inclusive(self) -> BooleanExpression:
        """Return the inclusive projection of the predicate."""
        return self._test(self.predicate.operation, self.predicate.values)

    def strict(self) -> BooleanExpression:
        """Return the strict projection of the predicate."""
        return self._test(self.predicate.operation, self.predicate.values)

    def _test(self, operation: PredicateOperator, values: Sequence[Any] = ()) -> BooleanExpression:
        """Build a predicate on the partition field. A set with one value becomes a comparison."""
        distinct = tuple(sorted(set(values)))
        if len(distinct) == 1 and operation is PredicateOperator.IN:
            operation = PredicateOperator.EQ
        elif len(distinct) == 1 and operation is PredicateOperator.NOT_IN:
            operation = PredicateOperator.NOT_EQ
        kind = self.field.transform.result_type(self.predicate.kind)
        return BoundPredicate(operation, NestedField(self.field.field_id, self.field.name, kind), (self.field.name,), distinct)

    def _results(self) -> list[Any]:
        return [self.field.transform.apply(self.predicate.kind, value) for value in self.predicate.values]


class _BucketProjection(_Projection):
    """The projection for the bucket transform. Only equalities can be projected, because buckets do not keep the order of values."""

    __slots__ = ()

    def inclusive(self) -> BooleanExpression:
        if self.predicate.operation in _NULL_TESTS:
            return self._test(self.predicate.operation)
        return self._test(PredicateOperator.IN, self._results()) if self.predicate.operation in _EQUALITIES else AlwaysTrue()

    def strict(self) -> BooleanExpression:
        if self.predicate.operation in _NULL_TESTS:
            return self._test(self.predicate.operation)
        return self._test(PredicateOperator.NOT_IN, self._results()) if self.predicate.operation in _INEQUALITIES else AlwaysFalse()


class _OrderedProjection(_Projection):
    """The projection for a transform T that preserves order: a < b implies T(a) <= T(b)."""

    __slots__ = ()

    def inclusive(self) -> BooleanExpression:
        value = self.predicate.values[0] if self.predicate.values else None
        match self.predicate.operation:
            case PredicateOperator.IS_NULL | PredicateOperator.NOT_NULL:
                return self._test(self.predicate.operation)
            case PredicateOperator.EQ | PredicateOperator.IN:
                return self._is_one_of(self._results())
            case PredicateOperator.LT:
                return self._at_most(self._floor(self._adjacent(value, -1)))
            case PredicateOperator.LT_EQ:
                return self._at_most(self._floor(value))
            case PredicateOperator.GT:
                return self._at_least(self._floor(self._adjacent(value, 1)))
            case PredicateOperator.GT_EQ:
                return self._at_least(self._floor(value))
            case _:
                return AlwaysTrue()

    def strict(self) -> BooleanExpression:
        value = self.predicate.values[0] if self.predicate.values else None
        match self.predicate.operation:
            case PredicateOperator.IS_NULL | PredicateOperator.NOT_NULL:
                return self._test(self.predicate.operation)
            case PredicateOperator.NOT_EQ | PredicateOperator.NOT_IN:
                return self._is_none_of(self._results())
            case PredicateOperator.LT:
                return self._below(self._floor(value))
            case PredicateOperator.LT_EQ:
                return self._below(self._floor(self._adjacent(value, 1)))
            case PredicateOperator.GT:
                return self._above(self._floor(value))
            case PredicateOperator.GT_EQ:
                return self._above(self._floor(self._adjacent(value, -1)))
            case _:
                return AlwaysFalse()

    def _adjacent(self, value: Any, step: int) -> Any:
        """Return the next or previous value, if values are whole numbers or decimals. Otherwise return the value itself, which only weakens the projection."""
        kind = self.predicate.kind
        if isinstance(kind, DecimalType):
            return decimal_of(unscaled_value(value, kind.scale) + step, kind.scale)
        return value + step if isinstance(value, int) else value

    def _floor(self, value: Any) -> Any:
        """Return the transform's exact result; None if the result type would overflow."""
        return self.field.transform.apply(self.predicate.kind, value)

    def _is_one_of(self, results: list[Any]) -> BooleanExpression:
        return AlwaysTrue() if None in results else self._test(PredicateOperator.IN, results)

    def _is_none_of(self, results: list[Any]) -> BooleanExpression:
        return AlwaysFalse() if None in results else self._test(PredicateOperator.NOT_IN, results)

    def _at_most(self, result: Any) -> BooleanExpression:
        return AlwaysTrue() if result is None else self._test(PredicateOperator.LT_EQ, [result])

    def _at_least(self, result: Any) -> BooleanExpression:
        return AlwaysTrue() if result is None else self._test(PredicateOperator.GT_EQ, [result])

    def _below(self, result: Any) -> BooleanExpression:
        return AlwaysFalse() if result is None else self._test(PredicateOperator.LT, [result])

    def _above(self, result: Any) -> BooleanExpression:
        return AlwaysFalse() if result is None else self._test(PredicateOperator.GT, [result])


class _TimeProjection(_OrderedProjection):
    """The projection of the transforms year, month, day and hour.

    Early versions of Java rounded times before 1970 toward zero, so a manifest may contain the next higher value instead of a negative result. Such tables
    still exist, so every comparison accepts both values.
    """

    __slots__ = ()

    def _floor(self, value: Any) -> Any:
        low, high = INTEGER_RANGES[type(self.predicate.kind)]
        transform = self.field.transform
        return (
            transform.ordered_result(self.predicate.kind, value) if isinstance(transform, TimeTransform) and low <= value <= high else None
        )

    def _is_one_of(self, results: list[Any]) -> BooleanExpression:
        return self._test(PredicateOperator.IN, [*results, *(result + 1 for result in results if result < 0)])

    def _is_none_of(self, results: list[Any]) -> BooleanExpression:
        return self._test(PredicateOperator.NOT_IN, [*results, *(result + 1 for result in results if result < 0)])

    def _at_most(self, result: Any) -> BooleanExpression:
        return AlwaysTrue() if result is None else self._test(PredicateOperator.LT_EQ, [result + (result < 0)])

    def _above(self, result: Any) -> BooleanExpression:
        return AlwaysFalse() if result is None else self._test(PredicateOperator.GT, [result + (result < 0)])


class _NumberProjection(_OrderedProjection):
    """The projection of truncated numbers. Truncating the smallest ints and longs overflows to one large result, which breaks the order."""

    __slots__ = ()

    @property
    def _width(self) -> int:
        return int(getattr(self.field.transform, "width", 1))

    def _floor(self, value: Any) -> Any:
        kind = self.predicate.kind
        if isinstance(kind, DecimalType):
            number = unscaled_value(value, kind.scale)
            fits = abs(number - number % self._width) < 10**kind.precision
            return self.field.transform.apply(kind, value) if fits else None
        low, high = INTEGER_RANGES[type(kind)]
        result = value - value % self._width
        return result if low <= result <= high else None

    def _results(self) -> list[Any]:
        if isinstance(self.predicate.kind, DecimalType):
            return [self._floor(value) for value in self.predicate.values]
        return _OrderedProjection._results(self)

    @property
    def _wrapped_result(self) -> Any:
        transform, kind = self.field.transform, self.predicate.kind
        return (
            transform.wrapped_result(kind)
            if isinstance(transform, TruncateTransform) and isinstance(kind, IntegerType | LongType)
            else None
        )

    def _at_most(self, result: Any) -> BooleanExpression:
        ordered = _OrderedProjection._at_most(self, result)
        return ordered if self._wrapped_result is None else any_of((ordered, self._test(PredicateOperator.EQ, [self._wrapped_result])))

    def _above(self, result: Any) -> BooleanExpression:
        ordered = _OrderedProjection._above(self, result)
        return ordered if self._wrapped_result is None else all_of((ordered, self._test(PredicateOperator.NOT_EQ, [self._wrapped_result])))


class _TextProjection(_OrderedProjection):
    """The projection of strings and binary values truncated to their first `width` code points or bytes."""

    __slots__ = ()

    def inclusive(self) -> BooleanExpression:
        if self.predicate.operation in _PREFIX_TESTS:
            return self._prefix(self.predicate.operation is PredicateOperator.STARTS_WITH, AlwaysTrue())
        return _OrderedProjection.inclusive(self)

    def strict(self) -> BooleanExpression:
        if self.predicate.operation in _PREFIX_TESTS:
            return self._prefix(self.predicate.operation is PredicateOperator.NOT_STARTS_WITH, AlwaysFalse())
        return _OrderedProjection.strict(self)

    def _prefix(self, can_be_cut: bool, unknown: BooleanExpression) -> BooleanExpression:
        """Project a test of a prefix. A prefix that fits in the width is tested exactly. A longer one is cut if `can_be_cut`, else `unknown` is returned."""
        prefix, width = self.predicate.value, int(getattr(self.field.transform, "width", 0))
        if len(prefix) < width:
            return self._test(self.predicate.operation, [prefix])
        if len(prefix) > width and not can_be_cut:
            return unknown
        return self._test(
            PredicateOperator.EQ if self.predicate.operation is PredicateOperator.STARTS_WITH else PredicateOperator.NOT_EQ,
            [prefix[:width]],
        )
