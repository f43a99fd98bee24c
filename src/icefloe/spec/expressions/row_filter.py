"""`to_expression`: converts a filter argument, which is text, an expression or None, to an expression. The parser is imported when a text is first used."""

from typing import TYPE_CHECKING

from icefloe.errors import InvalidFilterError
from icefloe.lazy_imports import lazy_module
from icefloe.spec.expressions.predicate import AlwaysTrue, BooleanExpression

if TYPE_CHECKING:
    from icefloe.spec.expressions import filter_parser
else:
    filter_parser = lazy_module("icefloe.spec.expressions.filter_parser")


def to_expression(row_filter: str | BooleanExpression | None) -> BooleanExpression:
    """Return a filter as an expression. The filter may be text, an expression, or None, which matches every row.

    Raises:
        InvalidFilterError: The text cannot be parsed, or the argument has another type.
    """
    if row_filter is None:
        return AlwaysTrue()
    if isinstance(row_filter, BooleanExpression):
        return row_filter
    if isinstance(row_filter, str):
        return filter_parser.parse_filter(row_filter)
    raise InvalidFilterError(f"a filter is SQL text or an expression, not a {type(row_filter).__name__}", next_step=filter_parser.ALLOWED)
