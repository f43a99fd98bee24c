"""Parsing of a filter from the text of a SQL WHERE clause.

`sqlglot` parses the SQL. This module accepts the forms that Iceberg can evaluate on metrics, and refuses other forms with an error that names them. `bind.py`
checks names and types later. Identifiers may be in double quotes or backticks. Strings are in single quotes; a single quote in a string is doubled.
"""

import operator
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from sqlglot import exp, tokens
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import SqlglotError

from icefloe.errors import InvalidFilterError
from icefloe.spec.dates_and_times import parse_date, parse_timestamp
from icefloe.spec.expressions.literal_lists import without_lists
from icefloe.spec.expressions.predicate import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNaN,
    IsNull,
    LessThan,
    LessThanOrEqual,
    NotEqualTo,
    NotNull,
    Or,
    StartsWith,
    negation,
)

ALLOWED = (
    "a filter consists of column =, !=, <>, <, <=, >, >=, <=> literal, [NOT] IN (...), [NOT] BETWEEN, IS [NOT] NULL, IS [NOT] NAN, "
    "[NOT] LIKE 'prefix%', AND, OR, NOT, parentheses, TRUE and FALSE; literals are numbers, 'text', X'00', DATE '...', TIMESTAMP '...'"
)


class FilterDialect(Dialect):  # type: ignore[misc]  # sqlglot has no types here
    """The SQL dialect of filters: identifiers may be in double quotes or backticks, and a backslash in a string is an ordinary character."""

    class Tokenizer(tokens.Tokenizer):  # type: ignore[misc]  # as above
        """The tokenizer of the dialect, which defines the quotes of identifiers and strings."""

        IDENTIFIERS = ['"', "`"]  # noqa: RUF012 - sqlglot reads these as class settings
        QUOTES = ["'"]  # noqa: RUF012
        STRING_ESCAPES = ["'"]  # noqa: RUF012
        HEX_STRINGS = [("X'", "'"), ("x'", "'")]  # noqa: RUF012


_COMPARISONS: Mapping[type, tuple[type[Any], type[Any], Callable[[Any, Any], bool]]] = {
    # the predicate; the predicate if the literal is on the left; the test of two literals
    exp.EQ: (EqualTo, EqualTo, operator.eq),
    exp.NEQ: (NotEqualTo, NotEqualTo, operator.ne),
    exp.LT: (LessThan, GreaterThan, operator.lt),
    exp.LTE: (LessThanOrEqual, GreaterThanOrEqual, operator.le),
    exp.GT: (GreaterThan, LessThan, operator.gt),
    exp.GTE: (GreaterThanOrEqual, LessThanOrEqual, operator.ge),
}


# The key under which a parameter's node has the values of the list that was cut out of the text.
_VALUES = "icefloe.values"


class _RefusedError(Exception):
    """The error for SQL that filters do not support. `parse_filter` replaces it by an `InvalidFilterError` with the whole text."""


def parse_filter(text: str) -> BooleanExpression:
    """Parse a WHERE clause, without the word WHERE; columns and types are not checked yet.

    Raises:
        InvalidFilterError: The text is not SQL, or has a form that filters do not support; the message names the form.
    """
    cut = without_lists(text, _number, _timestamp)

    def parse() -> list[Any]:
        trees = [tree for tree in FilterDialect().parse_into(exp.Condition, cut.text) if tree is not None]
        for parameter in [node for tree in trees for node in tree.find_all(exp.Placeholder)] if cut.lists else ():
            if parameter.name in cut.lists:
                parameter.meta[_VALUES] = cut.lists[parameter.name]
        return trees

    return _parse_filter(text, parse, cut.restore_message)


def filter_of_condition(condition: Any, text: str) -> BooleanExpression:
    """Return the filter of a condition that sqlglot has parsed as part of a statement.

    Args:
        condition: The tree of the condition; a name in it is the name of a column.
        text: The text of the condition, for errors.

    Raises:
        InvalidFilterError: The condition has a form that filters do not support.
    """
    return _parse_filter(text, lambda: [condition])


def _parse_filter(text: str, parse: Callable[[], list[Any]], restored: Callable[[str], str] = str) -> BooleanExpression:
    try:
        trees = parse()
        if len(trees) != 1:
            raise _RefusedError("it is more than one statement" if trees else "it is empty")
        return _expression(trees[0])
    except _RefusedError as refused:
        reason = str(refused)
    except SqlglotError as error:
        highlight = (getattr(error, "errors", None) or [{}])[0].get("highlight")
        reason = "it is not a SQL condition" + (f" (see {highlight!r})" if highlight else "")
    except RecursionError:
        reason = "it is nested too deeply"
    shown = text if len(text) <= 500 else text[:500] + "..."
    raise InvalidFilterError(f"cannot parse the filter {shown!r}: {restored(reason)}", next_step=ALLOWED)


def _expression(tree: Any) -> BooleanExpression:
    kind = type(tree)
    if kind in _COMPARISONS:
        return _comparison(tree)
    reader = _READERS.get(kind)
    if reader is None:
        raise _RefusedError(f"{_sql(tree)!r} is not a condition on a column")
    return reader(tree)


def _sql(tree: Any) -> str:
    return str(tree.sql(dialect=FilterDialect))


def _comparison(tree: Any) -> BooleanExpression:
    as_written, mirrored, compare = _COMPARISONS[type(tree)]
    left, right = _unwrap(tree.this), _unwrap(tree.expression)
    if _is_column(left) or _is_column(right):
        kind, column, literal = (as_written, left, right) if _is_column(left) else (mirrored, right, left)
        predicate: BooleanExpression = kind(_column(column), _literal(literal))
        return predicate
    first, second = _literal(left), _literal(right)
    if isinstance(first, str) != isinstance(second, str):
        raise _RefusedError(f"{_sql(tree)!r} compares two literals of different types")
    return AlwaysTrue() if compare(first, second) else AlwaysFalse()


def _null_safe_equal(tree: Any) -> BooleanExpression:
    left, right = _unwrap(tree.this), _unwrap(tree.expression)
    column, literal = (left, right) if _is_column(left) else (right, left)
    if isinstance(literal, exp.Null):
        return IsNull(_column(column))
    # The test for NOT NULL is explicit, so that the negation matches nulls, as `NOT (a <=> 1)` does.
    return And(NotNull(_column(column)), EqualTo(_column(column), _literal(literal)))


def _is(tree: Any) -> BooleanExpression:
    column, test = _column(tree.this), tree.expression
    if isinstance(test, exp.Null):
        return IsNull(column)
    if isinstance(test, exp.Boolean):
        return And(NotNull(column), EqualTo(column, bool(test.this)))
    if isinstance(test, exp.Column) and test.name.lower() == "nan":
        return IsNaN(column)
    raise _RefusedError(f"IS takes NULL, NAN, TRUE or FALSE, not {_sql(test)!r}")


def _in(tree: Any) -> BooleanExpression:
    if tree.args.get("query") is not None or tree.args.get("unnest") is not None or tree.args.get("field") is not None:
        raise _RefusedError("IN takes a list of literals")
    first = tree.expressions[0] if tree.expressions else None
    values = None if first is None else first.meta.get(_VALUES)
    return In(_column(tree.this), [_literal(item) for item in tree.expressions] if values is None else values)


def _between(tree: Any) -> BooleanExpression:
    if tree.args.get("symmetric"):
        raise _RefusedError("BETWEEN SYMMETRIC is not supported")
    column = _column(tree.this)
    return And(GreaterThanOrEqual(column, _literal(tree.args["low"])), LessThanOrEqual(column, _literal(tree.args["high"])))


def _like(tree: Any) -> BooleanExpression:
    column, pattern = _column(tree.this), _literal(tree.expression)
    predicate = _prefix(column, pattern)
    return negation(predicate) if tree.args.get("negate") else predicate


def _prefix(column: str, pattern: Any) -> BooleanExpression:
    """Return a LIKE as a test of a prefix. In the pattern a backslash escapes the next character, as in Spark."""
    if not isinstance(pattern, str):
        raise _RefusedError("LIKE takes a string")
    plain, position = "", 0
    while position < len(pattern):
        character = pattern[position]
        if character == "\\" and pattern[position + 1 : position + 2] in ("\\", "%", "_"):
            position += 1
            character = pattern[position]
        elif character == "%" and not pattern[position:].strip("%"):
            return StartsWith(column, plain)
        elif character in "%_":
            raise _RefusedError(f"LIKE {pattern!r}: a wildcard may only be one % at the end (put a backslash before a literal {character})")
        plain += character
        position += 1
    return EqualTo(column, plain)


def _starts_with(tree: Any) -> BooleanExpression:
    return StartsWith(_column(tree.this), _literal(tree.expression))


def _constant(tree: Any) -> BooleanExpression:
    return AlwaysTrue() if tree.this else AlwaysFalse()


_READERS: Mapping[type, Callable[[Any], BooleanExpression]] = {
    exp.And: lambda tree: And(*map(_expression, tree.flatten())),
    exp.Or: lambda tree: Or(*map(_expression, tree.flatten())),
    exp.Not: lambda tree: negation(_expression(tree.this)),
    exp.Paren: lambda tree: _expression(tree.this),
    exp.Boolean: _constant,
    exp.Column: lambda tree: EqualTo(_column(tree), True),
    exp.Dot: lambda tree: EqualTo(_column(tree), True),
    exp.Is: _is,
    exp.IsNan: lambda tree: IsNaN(_column(tree.this)),
    exp.In: _in,
    exp.Between: _between,
    exp.Like: _like,
    exp.StartsWith: _starts_with,
    exp.NullSafeEQ: _null_safe_equal,
}


def _unwrap(tree: Any) -> Any:
    return tree.unnest() if isinstance(tree, exp.Paren) else tree


def _is_column(tree: Any) -> bool:
    return isinstance(tree, exp.Column | exp.Dot)


def _column(tree: Any) -> str:
    tree = _unwrap(tree)
    if isinstance(tree, exp.Dot) and isinstance(tree.expression, exp.Identifier):
        return f"{_column(tree.this)}.{tree.expression.name}"
    if not isinstance(tree, exp.Column) or not all(isinstance(part, exp.Identifier) for part in tree.parts):
        raise _RefusedError(f"{_sql(tree)!r} is not a column name")
    return ".".join(part.name for part in tree.parts)


def _literal(tree: Any) -> Any:
    """Return the Python value of a literal: int, Decimal (1.5), float (1e5), str, bool, bytes, date, datetime, time."""
    tree = _unwrap(tree)
    if isinstance(tree, exp.Neg):
        value = _literal(tree.this)
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
            raise _RefusedError(f"{_sql(tree)!r} is not a number")
        return value.copy_negate() if isinstance(value, Decimal) else -value  # unary minus would round a Decimal to 28 digits
    if isinstance(tree, exp.Literal):
        return str(tree.this) if tree.is_string else _convert_tree(tree, _number, str(tree.this))
    if isinstance(tree, exp.Boolean):
        return bool(tree.this)
    if isinstance(tree, exp.HexString):
        return _convert_tree(tree, bytes.fromhex, str(tree.this))
    if isinstance(tree, exp.Null):
        raise _RefusedError("no value equals NULL; write IS NULL or IS NOT NULL")
    if isinstance(tree, exp.Cast) and isinstance(tree.this, exp.Literal):
        return _cast(tree)
    if _is_column(tree):
        raise _RefusedError(
            f"{_sql(tree)!r} is a column where a literal is expected (put text in single quotes; two columns cannot be compared)"
        )
    raise _RefusedError(f"{_sql(tree)!r} is not a literal")


def _number(text: str) -> int | float | Decimal:
    if text.isdigit():
        return int(text)
    return float(text) if "e" in text.lower() else Decimal(text)


def _date(text: str) -> date | str:
    """Return a date; the text itself if Python's `date` does not support the year. Binding parses the text then."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        parse_date(text)
        return text


def _timestamp(text: str) -> datetime | str:
    """Return a datetime; the text itself if Python's `datetime` does not support the year or the precision. Binding parses the text then."""
    try:
        timestamp = datetime.fromisoformat(text)
    except ValueError:
        parse_timestamp(text, utc=True, nanos=True)
        return text
    return text if _FINER_THAN_MICROS.search(text) else timestamp


def _time(text: str) -> time | str:
    time_of_day = time.fromisoformat(text)
    return text if _FINER_THAN_MICROS.search(text) else time_of_day


# Python drops fraction digits after the sixth.
_FINER_THAN_MICROS = re.compile(r"[.,]\d{7}")
# The types that a literal may be cast to, each with the function that parses the literal's text.
_CASTS: Mapping[Any, Callable[[str], Any]] = {
    exp.DataType.Type.DATE: _date,
    exp.DataType.Type.TIMESTAMP: _timestamp,
    exp.DataType.Type.TIMESTAMPTZ: _timestamp,
    exp.DataType.Type.TIMESTAMPNTZ: _timestamp,
    exp.DataType.Type.DATETIME: _timestamp,
    exp.DataType.Type.TIMESTAMP_NS: _timestamp,
    exp.DataType.Type.TIME: _time,
    exp.DataType.Type.FLOAT: float,
    exp.DataType.Type.DOUBLE: float,
    exp.DataType.Type.INT: int,
    exp.DataType.Type.BIGINT: int,
    exp.DataType.Type.DECIMAL: Decimal,
    exp.DataType.Type.VARCHAR: str,
    exp.DataType.Type.TEXT: str,
    exp.DataType.Type.UUID: str,
}


def _cast(tree: Any) -> Any:
    convert = _CASTS.get(tree.to.this)
    if convert is None:
        raise _RefusedError(f"{_sql(tree)!r}: a literal cannot be cast to {_sql(tree.to)}")
    return _convert_tree(tree, convert, str(tree.this.this))


def _convert_tree(tree: Any, convert: Callable[[str], Any], text: str) -> Any:
    try:
        return convert(text)
    except (ValueError, ArithmeticError) as error:
        raise _RefusedError(f"{_sql(tree)!r} is not a value of its type") from error
