"""What is known about many stretches of rows at once, and whether a predicate may match a row of each (inclusive) or surely matches every row (strict).

A stretch is a data file with its bounds and counts, a manifest with a partition summary, or a file with its exact partition value; all are a `ColumnRange`:
arrays in, a mask out. What is not known keeps a stretch in an inclusive mask and out of a strict one. Where the numbers come from is kernel.scan.
Nulls: strict masks follow SQL, where no null matches `!=`; inclusive masks also keep nulls for `!=`, NOT IN and NOT LIKE, which other engines take to match.
Spec: Scan Planning; Appendix D (the order of values).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.errors import InvalidFilterError
from icefloe.kernel.arrow_values import array_of_chunks, filled, numpy_of, scalar_of
from icefloe.kernel.expressions.bind import BoundPredicate, Operation
from icefloe.kernel.expressions.predicate import AlwaysFalse, AlwaysTrue, And, BooleanExpression, Or
from icefloe.kernel.types import DoubleType, FloatType, PrimitiveType
from icefloe.kernel.values import physical_array

# Above this many literals, IN is pruned by the smallest and the largest alone.
MAX_SET_PRUNED = 200

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnRange:
    """One column over n stretches of rows; every array has length n.

    `lower` and `upper` are Arrow arrays of physical values, null where nothing is known; they need not be attained, and leave out null and NaN.
    The masks say what cannot be ruled out: nulls, NaN, ordinary values.
    """

    lower: Any
    upper: Any
    may_have_null: Mask
    may_have_nan: Mask
    may_have_value: Mask

    def __len__(self) -> int:
        return len(self.may_have_null)


def is_float(kind: PrimitiveType) -> bool:
    """Whether the type has NaN."""
    return isinstance(kind, FloatType | DoubleType)


def comparison_array(kind: PrimitiveType, array: Any) -> Any:
    """An Arrow array of physical values in the form literals are compared in: float as double, so that no literal is rounded."""
    plain = array_of_chunks(array)
    return plain.cast(pa.float64()) if isinstance(kind, FloatType) else plain


def literal_array(kind: PrimitiveType, values: tuple[Any, ...]) -> Any:
    """Physical literals as an Arrow array that compares with `comparison_array`."""
    return physical_array(DoubleType() if isinstance(kind, FloatType) else kind, values)


def valid_bounds(kind: PrimitiveType, lower: Any, upper: Any) -> tuple[Any, Any]:
    """The bounds in comparison form, both unknown where they contradict each other.

    NaN is no bound. A lower above its upper comes of a writer that sorts otherwise (Java compares the halves of a UUID as signed numbers): unsure means keep.
    """
    low, high = comparison_array(kind, lower), comparison_array(kind, upper)
    unknown = scalar_of(None, low.type)
    if is_float(kind):
        low = pc.if_else(pc.is_nan(low), unknown, low)
        high = pc.if_else(pc.is_nan(high), unknown, high)
    crossed = filled(pc.greater(low, high), False)
    if pc.any(crossed).as_py():
        low, high = pc.if_else(crossed, unknown, low), pc.if_else(crossed, unknown, high)
    return low, high


def range_of_bounds(
    kind: PrimitiveType, lower: Any, upper: Any, *, may_have_null: Mask, may_have_nan: Mask, may_have_value: Mask
) -> ColumnRange:
    """A `ColumnRange` of bounds that have not been checked. A bound that is there proves that there are values, whatever the counts say."""
    low, high = valid_bounds(kind, lower, upper)
    known = _mask(pc.or_(pc.is_valid(low), pc.is_valid(high)))
    nan = may_have_nan if is_float(kind) else np.zeros(len(may_have_null), dtype=bool)
    return ColumnRange(lower=low, upper=high, may_have_null=may_have_null, may_have_nan=nan, may_have_value=may_have_value | known)


def range_of_values(kind: PrimitiveType, values: Any) -> ColumnRange:
    """A `ColumnRange` of stretches whose rows all have the one value that is given (or null, or NaN): both masks are then exact."""
    plain = comparison_array(kind, values)
    null = _mask(pc.is_null(plain))
    nan = np.zeros(len(null), dtype=bool)
    if is_float(kind):
        nan = _mask(pc.is_nan(plain))
        plain = pc.if_else(pc.is_nan(plain), scalar_of(None, plain.type), plain)
    return ColumnRange(lower=plain, upper=plain, may_have_null=null, may_have_nan=nan, may_have_value=~(null | nan))


def after_prefix(prefix: str) -> str | None:
    """The first string, in the order of code points, after every string with this prefix; None where there is none."""
    for end in range(len(prefix), 0, -1):
        point = ord(prefix[end - 1]) + 1
        if 0xD800 <= point <= 0xDFFF:
            point = 0xE000  # surrogates are no characters
        if point <= 0x10FFFF:
            return prefix[: end - 1] + chr(point)
    return None


def may_match(predicate: BoundPredicate, column: ColumnRange) -> Mask:  # noqa: PLR0912 - one case an operation
    """Whether a row of each stretch can match: False only where none can.

    Spec: Scan Planning, inclusive evaluation of bounds and counts.
    """
    null, nan, value = column.may_have_null, column.may_have_nan, column.may_have_value
    test = _Comparer(predicate, column)
    match predicate.operation:
        case Operation.IS_NULL:
            return null.copy()
        case Operation.NOT_NULL:
            return value | nan
        case Operation.IS_NAN:
            return nan.copy()
        case Operation.NOT_NAN:
            return null | value
        case Operation.EQ:
            return value & ~test.upper_below() & ~test.lower_above()
        case Operation.LT:
            return value & ~test.lower_above(or_equal=True)
        case Operation.LT_EQ:
            return value & ~test.lower_above()
        case Operation.GT:
            return nan | (value & ~test.upper_below(or_equal=True))
        case Operation.GT_EQ:
            return nan | (value & ~test.upper_below())
        case Operation.IN:
            return value & test.may_hold_one()
        case Operation.NOT_EQ | Operation.NOT_IN:
            return null | nan | ~test.is_one()
        case Operation.STARTS_WITH:
            return value & ~test.beside_prefix()
        case Operation.NOT_STARTS_WITH:
            return null | ~test.within_prefix()


def must_match(predicate: BoundPredicate, column: ColumnRange) -> Mask:  # noqa: PLR0912 - one case an operation
    """Whether every row of each stretch matches: True only where each surely does.

    Spec: Scan Planning, strict evaluation.
    """
    no_null, no_nan, no_value = ~column.may_have_null, ~column.may_have_nan, ~column.may_have_value
    test = _Comparer(predicate, column)
    match predicate.operation:
        case Operation.IS_NULL:
            return no_value & no_nan
        case Operation.NOT_NULL:
            return no_null
        case Operation.IS_NAN:
            return no_null & no_value
        case Operation.NOT_NAN:
            return no_nan
        case Operation.EQ | Operation.IN:
            return no_null & no_nan & test.is_one()
        case Operation.LT:
            return no_null & no_nan & test.upper_below()
        case Operation.LT_EQ:
            return no_null & no_nan & test.upper_below(or_equal=True)
        case Operation.GT:
            return no_null & (no_value | test.lower_above())
        case Operation.GT_EQ:
            return no_null & (no_value | test.lower_above(or_equal=True))
        case Operation.NOT_EQ:
            return no_null & (no_value | test.upper_below() | test.lower_above())
        case Operation.NOT_IN:
            return no_null & (no_value | ~test.may_hold_one())
        case Operation.STARTS_WITH:
            return no_null & test.within_prefix()
        case Operation.NOT_STARTS_WITH:
            return no_null & (no_value | test.beside_prefix())


def tree_mask(expression: BooleanExpression, length: int, leaf: Callable[[BoundPredicate], Mask]) -> Mask:
    """The mask of a whole bound filter over `length` stretches, from the masks of its predicates; the same for inclusive and strict ones.

    Raises:
        InvalidFilterError: the filter is not bound.
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
    """Comparisons of bounds with a predicate's literals; each says True only where it is proven."""

    def __init__(self, predicate: BoundPredicate, column: ColumnRange) -> None:
        self._lower, self._upper = column.lower, column.upper
        self._values = predicate.values
        # Bounds of a column promoted since the filter's schema are of the wider type.
        self._literals: Any = literal_array(predicate.kind, predicate.values).cast(column.lower.type) if predicate.values else None

    def _literal(self, index: int) -> Any:
        return self._literals[index]

    def upper_below(self, index: int = 0, *, or_equal: bool = False) -> Mask:
        compare = pc.less_equal if or_equal else pc.less
        return _mask(compare(self._upper, self._literal(index)))

    def lower_above(self, index: int = 0, *, or_equal: bool = False) -> Mask:
        compare = pc.greater_equal if or_equal else pc.greater
        return _mask(compare(self._lower, self._literal(index)))

    def is_one(self) -> Mask:
        """Both bounds are the same literal, so every ordinary value is it."""
        single = _mask(pc.equal(self._lower, self._upper))
        if single.any():
            single &= _mask(pc.is_in(_without_negative_zero(self._lower), value_set=self._literals))
        return single

    def may_hold_one(self) -> Mask:
        """Whether a literal lies between the bounds."""
        last = len(self._values) - 1
        within = ~(self.lower_above(last) | self.upper_below(0))
        if last < MAX_SET_PRUNED and within.any():
            found = np.zeros(len(within), dtype=bool)
            for index in range(last + 1):
                found |= ~(self.lower_above(index) | self.upper_below(index))
            within &= found
        return within

    def within_prefix(self) -> Mask:
        """Every ordinary value starts with the literal."""
        within = self.lower_above(or_equal=True)
        end = after_prefix(self._values[0])
        return within if end is None else within & _mask(pc.less(self._upper, scalar_of(end, self._upper.type)))

    def beside_prefix(self) -> Mask:
        """No value starts with the literal."""
        beside = self.upper_below()
        end = after_prefix(self._values[0])
        return beside if end is None else beside | _mask(pc.greater_equal(self._lower, scalar_of(end, self._lower.type)))


def _without_negative_zero(array: Any) -> Any:
    return pc.add(array, scalar_of(0.0, array.type)) if pa.types.is_floating(array.type) else array


def _mask(array: Any) -> Mask:
    """A Boolean Arrow array as numpy, null as False."""
    return numpy_of(filled(array, False))
