"""Pushing NOT down to the predicates, so that whoever evaluates meets only AND, OR, predicates and constants.

In SQL's three-valued logic `NOT (a = 1)` is `a != 1`, which is null for a null: neither matches it.
"""

from icefloe.errors import InvalidFilterError
from icefloe.kernel.expressions.predicate import And, BooleanExpression, Not, Or, all_of, any_of, negation


def rewrite_not(expression: BooleanExpression) -> BooleanExpression:
    """The same filter without any `Not`.

    Raises:
        InvalidFilterError: a predicate under a `Not` has no opposite (it is bound already).
    """
    return _rewrite(expression, negated=False)


def _rewrite(expression: BooleanExpression, *, negated: bool) -> BooleanExpression:
    if isinstance(expression, Not):
        return _rewrite(expression.child, negated=not negated)
    if isinstance(expression, And | Or):
        combine = all_of if isinstance(expression, And) != negated else any_of
        return combine(_rewrite(term, negated=negated) for term in expression.terms)
    if not negated:
        return expression
    opposite = negation(expression)
    if isinstance(opposite, Not):
        raise InvalidFilterError(f"cannot negate {expression}", next_step="negate a filter before it is bound to a schema")
    return opposite
