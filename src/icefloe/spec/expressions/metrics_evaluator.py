"""Evaluation of a bound predicate on bounds and counts: whether a row may match (inclusive), and whether every row matches (strict).

An element of a `ColumnRange` is a data file with its bounds and counts, a manifest with a partition summary, or a file with its exact partition value. Many
elements are evaluated at once, from arrays to a mask. If something is unknown, an element is True in an inclusive mask and False in a strict mask.
`icefloe.scan` provides the bounds and counts. In strict masks, nulls do not match `!=`, as in SQL. In inclusive masks, nulls may match `!=`, NOT IN and NOT
LIKE, because they do in other engines.
Spec: Scan Planning; Appendix D (the order of values). JAVA: InclusiveMetricsEvaluator, StrictMetricsEvaluator, ManifestEvaluator.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.errors import InvalidFilterError
from icefloe.spec.arrow_values import array_of_chunks, fill_nulls, numpy_of, scalar_of
from icefloe.spec.expressions.bind import BoundPredicate, PredicateOperator
from icefloe.spec.expressions.predicate import AlwaysFalse, AlwaysTrue, And, BooleanExpression, Or
from icefloe.spec.types import DoubleType, FloatType, PrimitiveType

# If an IN has more literals than this, only the smallest and the largest are compared with bounds.
MAX_SET_PRUNED = 200

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnRange:
    """The values of one column in each of n files, manifests or partitions; every array has length n.

    Attributes:
        lower: The lower bounds as an Arrow array of physical values; null if unknown. A bound need not be the value of a row, and does not cover nulls and NaN.
        upper: The upper bounds, as `lower`.
        may_have_null: A mask of the elements that may have nulls.
        may_have_nan: A mask of the elements that may have NaN.
        may_have_value: A mask of the elements that may have other values.
    """

    lower: Any
    upper: Any
    may_have_null: Mask
    may_have_nan: Mask
    may_have_value: Mask

    def __len__(self) -> int:
        return len(self.may_have_null)


def is_float(kind: PrimitiveType) -> bool:
    """Return True for float and double, the types that have NaN."""
    return isinstance(kind, FloatType | DoubleType)


def comparison_array(kind: PrimitiveType, array: Any) -> Any:
    """Return physical values in the Arrow type in which they are compared with literals: floats as doubles, so that no literal is rounded."""
    plain = array_of_chunks(array)
    return plain.cast(pa.float64()) if isinstance(kind, FloatType) else plain


def valid_bounds(kind: PrimitiveType, lower: Any, upper: Any) -> tuple[Any, Any]:
    """Return the bounds as `comparison_array` does, with null for bounds that are NaN, and for both bounds of an element that contradict each other.

    A lower bound above its upper bound was written with a different order of values: Java compares the halves of a UUID as signed numbers.
    """
    low, high = comparison_array(kind, lower), comparison_array(kind, upper)
    unknown = scalar_of(None, low.type)
    if is_float(kind):
        low = pc.if_else(pc.is_nan(low), unknown, low)
        high = pc.if_else(pc.is_nan(high), unknown, high)
    crossed = fill_nulls(pc.greater(low, high), False)
    if pc.any(crossed).as_py():
        low, high = pc.if_else(crossed, unknown, low), pc.if_else(crossed, unknown, high)
    return low, high


def range_of_bounds(
    kind: PrimitiveType, lower: Any, upper: Any, *, may_have_null: Mask, may_have_nan: Mask, may_have_value: Mask
) -> ColumnRange:
    """Build a `ColumnRange` from bounds that are not validated yet.

    If an element has a bound, it may have values, even if its counts contradict that.
    """
    low, high = valid_bounds(kind, lower, upper)
    has_bound = _mask(pc.or_(pc.is_valid(low), pc.is_valid(high)))
    nan = may_have_nan if is_float(kind) else np.zeros(len(may_have_null), dtype=bool)
    return ColumnRange(lower=low, upper=high, may_have_null=may_have_null, may_have_nan=nan, may_have_value=may_have_value | has_bound)


def range_of_values(kind: PrimitiveType, values: Any) -> ColumnRange:
    """Build a `ColumnRange` of elements in which all rows have the same value, null or NaN. Inclusive and strict masks are exact for it."""
    plain = comparison_array(kind, values)
    null = _mask(pc.is_null(plain))
    nan = np.zeros(len(null), dtype=bool)
    if is_float(kind):
        nan = _mask(pc.is_nan(plain))
        plain = pc.if_else(pc.is_nan(plain), scalar_of(None, plain.type), plain)
    return ColumnRange(lower=plain, upper=plain, may_have_null=null, may_have_nan=nan, may_have_value=~(null | nan))


def after_prefix(prefix: str) -> str | None:
    """Return the least string, in the order of code points, that is greater than all strings with this prefix; None if there is none."""
    for end in range(len(prefix), 0, -1):
        point = ord(prefix[end - 1]) + 1
        if 0xD800 <= point <= 0xDFFF:
            point = 0xE000  # skips the surrogates, which are not characters
        if point <= 0x10FFFF:
            return prefix[: end - 1] + chr(point)
    return None


def may_match(predicate: BoundPredicate, column: ColumnRange) -> Mask:  # noqa: PLR0912 - one case for each operation
    """Return a mask of the elements that may have a matching row. It is False only if no row can match.

    Spec: Scan Planning, inclusive evaluation of bounds and counts.
    """
    null, nan, value = column.may_have_null, column.may_have_nan, column.may_have_value
    test = _Comparer(predicate, column)
    match predicate.operation:
        case PredicateOperator.IS_NULL:
            return null.copy()
        case PredicateOperator.NOT_NULL:
            return value | nan
        case PredicateOperator.IS_NAN:
            return nan.copy()
        case PredicateOperator.NOT_NAN:
            return null | value
        case PredicateOperator.EQ:
            return value & ~test.upper_below() & ~test.lower_above()
        case PredicateOperator.LT:
            return value & ~test.lower_above(or_equal=True)
        case PredicateOperator.LT_EQ:
            return value & ~test.lower_above()
        case PredicateOperator.GT:
            return nan | (value & ~test.upper_below(or_equal=True))
        case PredicateOperator.GT_EQ:
            return nan | (value & ~test.upper_below())
        case PredicateOperator.IN:
            return value & test.may_contain_literal()
        case PredicateOperator.NOT_EQ | PredicateOperator.NOT_IN:
            return null | nan | ~test.is_single_literal()
        case PredicateOperator.STARTS_WITH:
            return value & ~test.never_has_prefix()
        case PredicateOperator.NOT_STARTS_WITH:
            return null | ~test.always_has_prefix()


def must_match(predicate: BoundPredicate, column: ColumnRange) -> Mask:  # noqa: PLR0912 - one case for each operation
    """Return a mask of the elements in which all rows match. It is True only if that is certain.

    Spec: Scan Planning, strict evaluation.
    """
    no_null, no_nan, no_value = ~column.may_have_null, ~column.may_have_nan, ~column.may_have_value
    test = _Comparer(predicate, column)
    match predicate.operation:
        case PredicateOperator.IS_NULL:
            return no_value & no_nan
        case PredicateOperator.NOT_NULL:
            return no_null
        case PredicateOperator.IS_NAN:
            return no_null & no_value
        case PredicateOperator.NOT_NAN:
            return no_nan
        case PredicateOperator.EQ | PredicateOperator.IN:
            return no_null & no_nan & test.is_single_literal()
        case PredicateOperator.LT:
            return no_null & no_nan & test.upper_below()
        case PredicateOperator.LT_EQ:
            return no_null & no_nan & test.upper_below(or_equal=True)
        case PredicateOperator.GT:
            return no_null & (no_value | test.lower_above())
        case PredicateOperator.GT_EQ:
            return no_null & (no_value | test.lower_above(or_equal=True))
        case PredicateOperator.NOT_EQ:
            return no_null & (no_value | test.upper_below() | test.lower_above())
        case PredicateOperator.NOT_IN:
            return no_null & (no_value | ~test.may_contain_literal())
        case PredicateOperator.STARTS_WITH:
            return no_null & test.always_has_prefix()
        case PredicateOperator.NOT_STARTS_WITH:
            return no_null & (no_value | test.never_has_prefix())


def tree_mask(expression: BooleanExpression, length: int, leaf: Callable[[BoundPredicate], Mask]) -> Mask:
    """Return the mask of a whole bound filter from the masks of its predicates, inclusive or strict.

    Args:
        expression: The bound filter.
        length: Number of elements.
        leaf: Returns the mask of one predicate.

    Raises:
        InvalidFilterError: The filter is not bound.
    """
    if isinstance(expression, BoundPredicate):
        return leaf(expression)
    if isinstance(expression, And | Or):
        combine = np.logical_and if isinstance(expression, And) else np.logical_or
        mask = tree_mask(expression.terms[0], length, leaf)
        for term in expression.terms[1:]:
            mask = combine(mask, tree_mask(term, length, leaf))
        return mask
    if not isinstance(expression, AlwaysTrue | AlwaysFalse):
        raise InvalidFilterError(f"{expression} is not bound to a schema")
    return np.full(length, isinstance(expression, AlwaysTrue))


class _Comparer:
    """A comparer of the bounds of files with the literals of a predicate. Each mask is True only if the result is certain."""

    def __init__(self, predicate: BoundPredicate, column: ColumnRange) -> None:
        self._lower, self._upper = column.lower, column.upper
        self._values = predicate.values
        # If the column was promoted after the filter's schema, the bounds have the wider type.
        self._literals: Any = predicate.literals.cast(column.lower.type) if predicate.values else None

    def _literal(self, index: int) -> Any:
        return self._literals[index]

    def upper_below(self, index: int = 0, *, or_equal: bool = False) -> Mask:
        """Return a mask of the elements whose upper bound is below literal number `index`, or with `or_equal` not above it."""
        compare = pc.less_equal if or_equal else pc.less
        return _mask(compare(self._upper, self._literal(index)))

    def lower_above(self, index: int = 0, *, or_equal: bool = False) -> Mask:
        """Return a mask of the elements whose lower bound is above literal number `index`, or with `or_equal` not below it."""
        compare = pc.greater_equal if or_equal else pc.greater
        return _mask(compare(self._lower, self._literal(index)))

    def is_single_literal(self) -> Mask:
        """Return a mask of the elements whose bounds both equal the same literal, so that all values other than null and NaN equal it."""
        single = _mask(pc.equal(self._lower, self._upper))
        if single.any():
            single &= _mask(pc.is_in(_without_negative_zero(self._lower), value_set=self._literals))
        return single

    def may_contain_literal(self) -> Mask:
        """Return a mask of the elements that have a literal between their bounds."""
        last = len(self._values) - 1
        within = ~(self.lower_above(last) | self.upper_below(0))
        if last < MAX_SET_PRUNED and within.any():
            contains_literal = np.zeros(len(within), dtype=bool)
            for index in range(last + 1):
                contains_literal |= ~(self.lower_above(index) | self.upper_below(index))
            within &= contains_literal
        return within

    def always_has_prefix(self) -> Mask:
        """Return a mask of the elements in which every value other than null starts with the literal."""
        within = self.lower_above(or_equal=True)
        end = after_prefix(self._values[0])
        return within if end is None else within & _mask(pc.less(self._upper, scalar_of(end, self._upper.type)))

    def never_has_prefix(self) -> Mask:
        """Return a mask of the elements in which, by their bounds, no value starts with the literal."""
        outside = self.upper_below()
        end = after_prefix(self._values[0])
        return outside if end is None else outside | _mask(pc.greater_equal(self._lower, scalar_of(end, self._lower.type)))


def _without_negative_zero(array: Any) -> Any:
    return pc.add(array, scalar_of(0.0, array.type)) if pa.types.is_floating(array.type) else array


def _mask(array: Any) -> Mask:
    """Return a Boolean Arrow array as a numpy mask, in which null is False."""
    return numpy_of(fill_nulls(array, False))
