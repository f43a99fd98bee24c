"""Texts that explain why no row of a file or manifest can match: they name the bound or count that decided.

Spec: Scan Planning.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc

from icefloe.spec.expressions.bind import BoundPredicate, PredicateOperator
from icefloe.spec.expressions.metrics_evaluator import ColumnRange, Mask
from icefloe.spec.expressions.predicate import And, BooleanExpression, Or
from icefloe.spec.types import BinaryType, FixedType, FloatType, PrimitiveType, StringType
from icefloe.spec.values import physical_list

# How many terms of an OR, or values of a list, an explanation shows. Of the others it gives only the number.
MAX_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class PredicateOutcome:
    """The test of one predicate on the ranges of files or manifests, from which `explanation` makes texts.

    Attributes:
        predicate: The bound predicate that was tested.
        column: The range of the column or partition field in each file or manifest.
        subject: Name of the column or partition field in the explanation.
        bound: The noun for a limit: `bound` for columns (`upper bound 9`), empty for partitions (`upper 2013-03`).
        exact: True if all rows of a file have the same value, so that there is a value instead of bounds.
        human: Formats a value for people.
    """

    predicate: BoundPredicate
    column: ColumnRange
    subject: str
    bound: str
    exact: bool
    human: Callable[[PrimitiveType, Any], str]

    def explanation(self, index: int) -> str:
        """Return a text that explains why the file or manifest at `index` has no matching row."""
        if self.exact:
            value = self._value(self.column.lower, index)
            shown = ("NaN" if self.column.may_have_nan[index] else "null") if value is None else self._text(value)
            return f"{self.subject} is {shown}, required: {self._requirement()}"
        return f"{self.subject}: {self._fact(index)}"

    def _requirement(self) -> str:
        operation = self.predicate.operation
        if not self.predicate.values:
            return operation.value
        texts = [self._text(value) for value in self.predicate.values]
        if operation in (PredicateOperator.IN, PredicateOperator.NOT_IN):
            return f"{operation.value} ({_shorten(texts)})"
        if operation in (PredicateOperator.STARTS_WITH, PredicateOperator.NOT_STARTS_WITH):
            return ("" if operation is PredicateOperator.STARTS_WITH else "not ") + f"a text that starts with {texts[0]}"
        return f"{operation.value} {texts[0]}"

    def _fact(self, index: int) -> str:
        unary = {
            PredicateOperator.IS_NULL: "no nulls",
            PredicateOperator.NOT_NULL: "only nulls",
            PredicateOperator.IS_NAN: "no NaN",
            PredicateOperator.NOT_NAN: "only NaN",
        }.get(self.predicate.operation)
        if unary is not None:
            return unary
        if self.predicate.operation in (PredicateOperator.NOT_EQ, PredicateOperator.NOT_IN):
            return f"every value is {self._text(self._value(self.column.lower, index))}"
        if self.predicate.operation is PredicateOperator.NOT_STARTS_WITH:
            return f"every value starts with {self._text(self.predicate.value)}"
        if not self.column.may_have_value[index]:
            return "only nulls" if self.column.may_have_null[index] else "only NaN"
        return self._limit(index)

    def _limit(self, index: int) -> str:
        """Return the text of the bound that excludes every value that the predicate accepts."""
        lower, upper = self._value(self.column.lower, index), self._value(self.column.upper, index)
        least, most = self.predicate.values[0], self.predicate.values[-1]
        suffix = f" {self.bound}" if self.bound else ""
        operation = self.predicate.operation
        if upper is not None and operation not in (PredicateOperator.LT, PredicateOperator.LT_EQ):
            strictly_more = operation is PredicateOperator.GT
            if upper < least or (strictly_more and upper == least):
                return f"upper{suffix} {self._text(upper)} {'<=' if strictly_more else '<'} {self._text(least)}"
        if lower is not None and operation is PredicateOperator.IN and lower <= most:
            return f"{self._text(lower)} to {self._text(upper)} contains none of {_shorten([self._text(value) for value in self.predicate.values])}"
        if operation is PredicateOperator.STARTS_WITH:
            return f"lower{suffix} {self._text(lower)} is above every text that starts with {self._text(least)}"
        return f"lower{suffix} {self._text(lower)} {'>=' if operation is PredicateOperator.LT else '>'} {self._text(most)}"

    def _value(self, array: Any, index: int) -> Any:
        """Return an element of an array as a Python value that can be compared with the predicate's literals; None if it is unknown."""
        kind = self.predicate.kind
        element = array.slice(index, 1)
        if isinstance(kind, FloatType):
            return pc.cast(element, "double")[0].as_py()
        return physical_list(kind, element)[0]

    def _text(self, value: Any) -> str:
        kind = self.predicate.kind
        if value is None:
            return "unknown"
        if isinstance(kind, StringType):
            return f"'{value}'"
        if isinstance(kind, BinaryType | FixedType):
            return f"X'{value.hex().upper()}'"
        return self.human(kind, value)


def explain_predicate(
    expression: BooleanExpression, mask: Callable[[BooleanExpression], Mask], leaf: Callable[[BoundPredicate], str], index: int
) -> str:
    """Explain why a bound filter cannot be true at `index`: by the first term of an AND that cannot be true, or by every term of an OR.

    Args:
        expression: The filter.
        mask: Returns the mask of a subexpression of the filter.
        leaf: Returns the explanation of one predicate.
        index: The index of a file or manifest that the filter excludes.
    """
    if isinstance(expression, BoundPredicate):
        return leaf(expression)
    if isinstance(expression, And):
        deciding = next((term for term in expression.terms if not mask(term)[index]), None)
        return "" if deciding is None else explain_predicate(deciding, mask, leaf, index)
    if isinstance(expression, Or):
        explanations = [explain_predicate(term, mask, leaf, index) for term in expression.terms[:MAX_SHOWN]]
        more = len(expression.terms) - len(explanations)
        return " and ".join(dict.fromkeys(explanations)) + (f" and {more} more" if more else "")
    return ""


def _shorten(texts: list[str]) -> str:
    return ", ".join(texts[:MAX_SHOWN]) + (f", and {len(texts) - MAX_SHOWN} more" if len(texts) > MAX_SHOWN else "")
