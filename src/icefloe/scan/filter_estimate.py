"""Estimate of the share of rows that a filter keeps, from the bounds and counts of the data files in a plan.

The estimate assumes that values are spread evenly between the bounds of each file, and that columns are independent of each other. A predicate that no bound or
count describes, such as LIKE, or equality with a text if the number of distinct values is unknown, counts as true for all rows. So, apart from the two
assumptions, the share is too high rather than too low. It is exact for files that match entirely, and for predicates whose rows were counted, such as IS NULL.
Spec: Data File Fields; Table Statistics.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.scan.scan_plan import ScanPlan
from icefloe.spec.arrow_values import fill_nulls, numpy_of
from icefloe.spec.expressions.bind import BoundPredicate, PredicateOperator
from icefloe.spec.expressions.metrics_evaluator import is_float
from icefloe.spec.expressions.predicate import AlwaysFalse, And, BooleanExpression, Or
from icefloe.spec.manifest.manifest_columns import ManifestColumns, statistic_column
from icefloe.spec.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    PrimitiveType,
    TimestampType,
    TimestamptzType,
)
from icefloe.spec.values import bounds_to_array

# The least share that is returned. If one wrong date stretches the bounds of a column, a range that matches nearly all rows seems to match almost none. An
# engine that broadcasts tables up to some estimated size then broadcasts at most ten times that size.
LEAST_SHARE = 0.1
# Types whose values are multiples of a step, 1 or for decimals a power of 10, and types whose values are continuous.
_DISCRETE = (BooleanType, IntegerType, LongType, DateType, TimestampType, TimestamptzType, DecimalType)
_CONTINUOUS = (FloatType, DoubleType)
_LOWER_LIMITS = (PredicateOperator.GT, PredicateOperator.GT_EQ)
_RANGES = (*_LOWER_LIMITS, PredicateOperator.LT, PredicateOperator.LT_EQ)
_NEGATED = (PredicateOperator.NOT_EQ, PredicateOperator.NOT_IN)
_OF_LITERALS = (PredicateOperator.EQ, PredicateOperator.IN, *_NEGATED)

Shares = NDArray[np.float64]


def kept_share(plan: ScanPlan, distinct: Mapping[int, int]) -> float:
    """Estimate the share of the rows in planned files that the plan's filter keeps: at least `LEAST_SHARE`, at most 1.

    Args:
        plan: The plan, with the statistics of the columns in its filter.
        distinct: The number of distinct values of a column, by field id, for the columns where it is known.
    """
    total = kept_rows = 0.0
    for part in plan.parts:
        columns = ManifestColumns(part.entries)
        records, shares = _numbers(columns, "record_count")[0], kept_shares(columns, plan.row_filter, distinct)
        total += float(records.sum())
        kept_rows += float((records * (shares if part.covered is None else np.where(part.covered, 1.0, shares))).sum())
    return min(1.0, max(LEAST_SHARE, kept_rows / total)) if total else 1.0


def kept_shares(columns: ManifestColumns, bound: BooleanExpression, distinct: Mapping[int, int]) -> Shares:
    """Estimate the share of the rows of each file that a filter keeps. Unlike the result of `kept_share`, it may be below `LEAST_SHARE`.

    Args:
        columns: The files, with the statistics of the columns in the filter. Missing statistics count as unknown.
        bound: The bound filter.
        distinct: The number of distinct values of a column, by field id, for the columns where it is known.

    Returns:
        One number from 0 to 1 for each file. A further term of an AND never raises it, and a further term of an OR never lowers it.
    """
    return _Estimator(columns, distinct).share(bound)


class _Estimator:
    """An evaluator of filters. `share` estimates the share of rows that a filter keeps, as one number for each file."""

    def __init__(self, columns: ManifestColumns, distinct: Mapping[int, int]) -> None:
        self._columns, self._distinct = columns, distinct
        records, _ = _numbers(columns, "record_count")
        self._records = np.maximum(records, 1.0)

    def share(self, expression: BooleanExpression) -> Shares:
        if isinstance(expression, BoundPredicate):
            return self._of_column([expression])
        if isinstance(expression, Or):
            total: Shares = np.sum([self.share(term) for term in expression.terms], axis=0)
            return np.minimum(1.0, total)
        if isinstance(expression, And):
            return self._of_all(expression)
        return np.full(len(self._columns), 0.0 if isinstance(expression, AlwaysFalse) else 1.0)

    def _of_all(self, expression: And) -> Shares:
        """Return the shares of an AND: predicates on the same column are combined into one condition, and the shares of different columns are multiplied.

        The share of a term that is not a predicate, such as an OR, is not multiplied, because the term may test the same columns. The result is the smallest of
        the product and the shares of such terms.
        """
        leaves: dict[int, list[BoundPredicate]] = {}
        others = []
        for term in expression.terms:
            if isinstance(term, BoundPredicate):
                leaves.setdefault(term.field.field_id, []).append(term)
            else:
                others.append(self.share(term))
        product = np.prod([self._of_column(tests) for tests in leaves.values()], axis=0) if leaves else np.ones(len(self._columns))
        least: Shares = np.min([product, *others], axis=0)
        return least

    def _of_column(self, tests: Sequence[BoundPredicate]) -> Shares:
        """Return the shares of rows for which all of these predicates, on the same column, are true."""
        field_id = tests[0].field.field_id
        nulls, nans = self._share_of_count("null_value_count", field_id), self._share_of_count("nan_value_count", field_id)
        shares = [self._of_counts(test.operation, nulls, nans) for test in tests]
        not_null, kind, distinct = 1.0 - np.nan_to_num(nulls), tests[0].field.field_type, self._distinct.get(field_id)
        if isinstance(kind, _DISCRETE + _CONTINUOUS):
            values = _Values(self._columns, field_id, kind, distinct)
            has_value = not_null - np.nan_to_num(nans)
            ranges = [test for test in tests if test.operation in _RANGES]
            if ranges:
                within = has_value * values.within(ranges)
                # NaN is greater than all numbers, so it is in ranges without an upper limit.
                has_nan = is_float(kind) and all(test.operation in _LOWER_LIMITS for test in ranges)
                shares.append(np.where(np.isnan(nans), 1.0, within + nans) if has_nan else within)
            for test in (test for test in tests if test.operation in _OF_LITERALS):
                equal = has_value * values.equal(test.values)
                if is_float(kind) and test.operation in _NEGATED:
                    equal += 0.0 * nans  # makes the share NaN, that is unknown, where the number of NaNs is unknown
                shares.append(_of_literals(test, equal, not_null))
        elif distinct is not None:
            for test in (test for test in tests if test.operation in _OF_LITERALS):
                shares.append(_of_literals(test, not_null * min(1.0, len(test.values) / max(1, distinct)), not_null))
        least: Shares = np.min(shares, axis=0)
        return np.clip(least, 0.0, 1.0)

    def _of_counts(self, operation: PredicateOperator, nulls: Shares, nans: Shares) -> Shares:
        """Return the greatest share of rows that can pass an operation, given only the shares of nulls and NaNs; 1 if these are unknown."""
        if operation is PredicateOperator.IS_NULL:
            shares = nulls
        elif operation is PredicateOperator.IS_NAN:
            shares = nans
        elif operation is PredicateOperator.NOT_NAN:
            shares = 1.0 - nans
        else:
            shares = 1.0 - nulls
        return np.where(np.isnan(shares), 1.0, shares)

    def _share_of_count(self, statistic: str, field_id: int) -> Shares:
        """Return a count, such as that of nulls, as a share of the rows of each file; NaN if it is unknown."""
        counts, is_known = _numbers(self._columns, statistic_column(statistic, field_id))
        return np.where(is_known & (counts <= self._records), counts / self._records, np.nan)


class _Values:
    """Estimates for the non-null values of one column in each file, which are assumed to be spread evenly between the bounds."""

    def __init__(self, columns: ManifestColumns, field_id: int, kind: PrimitiveType, distinct: int | None) -> None:
        self._scale = 10**kind.scale if isinstance(kind, DecimalType) else 1
        self._step = 1.0 if isinstance(kind, _DISCRETE) else 0.0
        lower, upper = (self._bounds(columns, f"{name}_bound", field_id, kind) for name in ("lower", "upper"))
        with np.errstate(over="ignore", invalid="ignore"):
            is_range = (lower <= upper) & np.isfinite(upper - lower)
        self._lower, self._upper = np.where(is_range, lower, np.nan), np.where(is_range, upper, np.nan)
        self._width = self._upper - self._lower + self._step
        self._distinct = distinct

    def within(self, tests: Sequence[BoundPredicate]) -> Shares:
        """Return the share of values that satisfy all of these range predicates; 1 if the bounds are unknown."""
        lower, upper = self._lower, self._upper
        for test in tests:
            limit = self._number(test.value)
            if test.operation in _LOWER_LIMITS:
                lower = np.maximum(lower, limit + self._step if test.operation is PredicateOperator.GT else limit)
            else:
                upper = np.minimum(upper, limit - self._step if test.operation is PredicateOperator.LT else limit)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = (upper - lower + self._step) / self._width
        single = np.where(lower <= upper, 1.0, 0.0)
        share = np.where(self._width == 0, single, share)
        return np.where(np.isnan(self._width), 1.0, np.clip(share, 0.0, 1.0))

    def equal(self, literals: Sequence[Any]) -> Shares:
        """Return the share of values that equal one of the literals; NaN if it is unknown."""
        numbers = np.sort(np.array([self._number(value) for value in literals], np.float64))
        inside = np.searchsorted(numbers, self._upper, "right") - np.searchsorted(numbers, self._lower, "left")
        with np.errstate(divide="ignore", invalid="ignore"):
            of_one = np.where(self._step > 0, 1.0 / self._width, np.where(self._width == 0, 1.0, np.nan))
        if self._distinct:  # a file has at most as many distinct values as the table
            of_one = np.fmax(of_one, 1.0 / self._distinct)
            inside = np.where(np.isnan(self._width), len(numbers), inside)
        shares: Shares = np.minimum(1.0, inside * of_one)
        return shares

    def _bounds(self, columns: ManifestColumns, statistic: str, field_id: int, kind: PrimitiveType) -> Shares:
        name = statistic_column(statistic, field_id)
        if name not in columns.entries.column_names:
            return np.full(len(columns), np.nan)
        bounds = bounds_to_array(kind, columns.entries[name])
        if isinstance(kind, BooleanType):
            bounds = bounds.cast(pa.int8())
        return numpy_of(fill_nulls(bounds.cast(pa.float64(), safe=False), float("nan"))) * self._scale

    def _number(self, literal: Any) -> float:
        return float(literal) * self._scale


def _of_literals(test: BoundPredicate, equal: Shares, not_null: Shares) -> Shares:
    """Return the shares of an EQ, IN, NOT_EQ or NOT_IN predicate; all rows without null if the share is unknown.

    Args:
        test: The predicate.
        equal: The share of rows whose value equals one of the literals; NaN if unknown.
        not_null: The share of rows whose value is not null.
    """
    shares = not_null - equal if test.operation in _NEGATED else equal
    return np.where(np.isnan(shares), not_null, shares)


def _numbers(columns: ManifestColumns, name: str) -> tuple[Shares, NDArray[np.bool_]]:
    """Return a column of counts, and a mask of the known counts."""
    if name not in columns.entries.column_names:
        return np.full(len(columns), np.nan), np.zeros(len(columns), np.bool_)
    counts = numpy_of(fill_nulls(columns.entries[name], -1)).astype(np.float64)
    return counts, counts >= 0
