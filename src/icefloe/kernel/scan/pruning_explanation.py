"""The explanation that nothing in a stretch of rows can match: which bound or count decided, in words.

Spec: Scan Planning.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc

from icefloe.kernel.expressions.bind import BoundPredicate, Operation
from icefloe.kernel.expressions.metrics_evaluator import ColumnRange, Mask
from icefloe.kernel.expressions.predicate import And, BooleanExpression, Or
from icefloe.kernel.types import BinaryType, FixedType, FloatType, PrimitiveType, StringType
from icefloe.kernel.values import physical_list, to_human

# An OR of more tests than this is told by its first ones.
MAX_TOLD = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class PredicateOutcome:
    """One predicate with what it was tested against, and the outcome: `mask` is False where no row can match.

    `subject` names the column or partition field; `bound` is the noun for a limit (`upper bound` of a column, `upper` of a partition); `exact` says that each
    stretch has one value.
    """

    predicate: BoundPredicate
    column: ColumnRange
    mask: Mask
    subject: str
    bound: str
    exact: bool
    human: Callable[[PrimitiveType, Any], str]

    def explanation(self, index: int) -> str:
        """Why the stretch at `index`, which the mask rules out, has no matching row."""
        if self.exact:
            value = self._value(self.column.lower, index)
            shown = ("NaN" if self.column.may_have_nan[index] else "null") if value is None else self._text(value)
            return f"{self.subject} is {shown}, wanted {self._wanted()}"
        return f"{self.subject}: {self._fact(index)}"

    def _wanted(self) -> str:
        operation = self.predicate.operation
        if not self.predicate.values:
            return operation.value
        texts = [self._text(value) for value in self.predicate.values]
        if operation in (Operation.IN, Operation.NOT_IN):
            return f"{operation.value} ({_shortened(texts)})"
        if operation in (Operation.STARTS_WITH, Operation.NOT_STARTS_WITH):
            return ("" if operation is Operation.STARTS_WITH else "not ") + f"a text that starts with {texts[0]}"
        return f"{operation.value} {texts[0]}"

    def _fact(self, index: int) -> str:
        unary = {
            Operation.IS_NULL: "no nulls",
            Operation.NOT_NULL: "only nulls",
            Operation.IS_NAN: "no NaN",
            Operation.NOT_NAN: "only NaN",
        }.get(self.predicate.operation)
        if unary is not None:
            return unary
        if self.predicate.operation in (Operation.NOT_EQ, Operation.NOT_IN):
            return f"every value is {self._text(self._value(self.column.lower, index))}"
        if self.predicate.operation is Operation.NOT_STARTS_WITH:
            return f"every value starts with {self._text(self.predicate.value)}"
        if not self.column.may_have_value[index]:
            return "only nulls" if self.column.may_have_null[index] else "only NaN"
        return self._limit(index)

    def _limit(self, index: int) -> str:
        """The bound that lies beyond what is wanted."""
        lower, upper = self._value(self.column.lower, index), self._value(self.column.upper, index)
        least, most = self.predicate.values[0], self.predicate.values[-1]
        suffix = f" {self.bound}" if self.bound else ""
        operation = self.predicate.operation
        if upper is not None and operation not in (Operation.LT, Operation.LT_EQ):
            strictly_more = operation is Operation.GT
            if upper < least or (strictly_more and upper == least):
                return f"upper{suffix} {self._text(upper)} {'<=' if strictly_more else '<'} {self._text(least)}"
        if lower is not None and operation is Operation.IN and lower <= most:
            return f"{self._text(lower)} to {self._text(upper)} holds none of {_shortened([self._text(value) for value in self.predicate.values])}"
        if operation is Operation.STARTS_WITH:
            return f"lower{suffix} {self._text(lower)} is above every text that starts with {self._text(least)}"
        return f"lower{suffix} {self._text(lower)} {'>=' if operation is Operation.LT else '>'} {self._text(most)}"

    def _value(self, array: Any, index: int) -> Any:
        """One element in the form of the predicate's literals."""
        kind = self.predicate.kind
        found = array.slice(index, 1)
        if isinstance(kind, FloatType):
            found = pc.cast(found, "double")
            return found[0].as_py()
        return physical_list(kind, found)[0]

    def _text(self, value: Any) -> str:
        kind = self.predicate.kind
        if value is None:
            return "unknown"
        if isinstance(kind, StringType):
            return f"'{value}'"
        if isinstance(kind, BinaryType | FixedType):
            return f"X'{value.hex().upper()}'"
        return self.human(kind, value)


def column_text(kind: PrimitiveType, value: Any) -> str:
    """A column's value in words."""
    return to_human(kind, value)


def explain_predicate(
    expression: BooleanExpression, mask: Callable[[BooleanExpression], Mask], leaf: Callable[[BoundPredicate], str], index: int
) -> str:
    """Why a bound filter cannot be true at `index`: of an AND the first term that cannot, of an OR all of them.

    `mask` gives the mask of any part of the filter, `leaf` the explanation against one predicate.
    """
    if isinstance(expression, BoundPredicate):
        return leaf(expression)
    if isinstance(expression, And):
        deciding = next((term for term in expression.terms if not mask(term)[index]), None)
        return "" if deciding is None else explain_predicate(deciding, mask, leaf, index)
    if isinstance(expression, Or):
        told = [explain_predicate(term, mask, leaf, index) for term in expression.terms[:MAX_TOLD]]
        more = len(expression.terms) - len(told)
        return " and ".join(dict.fromkeys(told)) + (f" and {more} more" if more else "")
    return ""


def _shortened(texts: list[str]) -> str:
    return ", ".join(texts[:MAX_TOLD]) + (f", and {len(texts) - MAX_TOLD} more" if len(texts) > MAX_TOLD else "")
