"""`parse` under the module name of PyIceberg: `from icefloe.expressions.parser import parse`."""

from icefloe.spec.expressions.predicate import BooleanExpression
from icefloe.spec.expressions.row_filter import to_expression

__all__ = ["parse"]


def parse(expr: str) -> BooleanExpression:
    """Parse a filter.

    Args:
        expr: The text of the filter, such as `"age > 5 AND city IN ('Oslo', 'Rome')"`.

    Returns:
        The filter, not yet bound to a schema.

    Raises:
        InvalidFilterError: The text cannot be parsed as a filter.
    """
    return to_expression(expr)
