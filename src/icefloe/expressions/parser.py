"""`parse` under the module name of PyIceberg: `from icefloe.expressions.parser import parse`."""

from icefloe.spec.expressions.predicate import BooleanExpression
from icefloe.spec.expressions.row_filter import to_expression

__all__ = ["parse"]


def parse(expr: str) -> BooleanExpression:
    """Return the filter of a text.

    Args:
        expr: the text, such as `"age > 5 AND city IN ('Oslo', 'Rome')"`.

    Raises:
        InvalidFilterError: the text is no filter.
    """
    return to_expression(expr)
