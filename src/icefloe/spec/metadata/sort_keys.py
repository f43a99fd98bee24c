"""Parsers of partition transforms and sort keys in SQL, such as `bucket(16, id)` and `days(ts) DESC NULLS LAST`; and the text of sort orders.

Spec: Partition Transforms; Sorting.
"""

import re
from dataclasses import dataclass

from icefloe.errors import InvalidPartitionSpecError
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.partitioning.sort_order import NullOrder, SortDirection, SortField, SortOrder
from icefloe.spec.partitioning.transforms import parse_transform
from icefloe.spec.schema.schema import Schema
from icefloe.spec.sql_tokens import Tokens

# For each of Spark's names of transforms, the name in the specification. Both are accepted.
FROM_SPARK = {"years": "year", "months": "month", "days": "day", "hours": "hour", "date": "day", "date_hour": "hour"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformCall:
    """A column, or a transform of a column, as it is written in SQL.

    Attributes:
        transform: its name in the specification, such as `bucket[16]`.
        column: the column's dotted name.
    """

    transform: str
    column: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SortKey:
    """One key of a sort order in SQL: a column or its transform, the direction, and the position of nulls."""

    call: TransformCall
    direction: SortDirection
    nulls: NullOrder


def transform_call(tokens: Tokens) -> TransformCall:
    """Read a column, or a transform of a column, such as `bucket(16, id)` or `bucket(id, 16)`. Raises `InvalidPartitionSpecError` for other arguments."""
    start = tokens.position
    name = tokens.dotted_name()
    if not tokens.take("("):
        return TransformCall(transform="identity", column=".".join(name))
    columns, numbers = [], []
    while True:
        if tokens.is_number():
            numbers.append(tokens.number())
        else:
            columns.append(".".join(tokens.dotted_name()))
        if not tokens.take(","):
            break
    tokens.expect(")")
    if len(columns) != 1 or len(numbers) > 1:
        text = tokens.text[start : tokens.position].strip()
        raise InvalidPartitionSpecError(f"{text} is not a transform", next_step="give a transform one column: bucket(16, c)")
    function = FROM_SPARK.get(name[0].lower(), name[0].lower())
    function = "truncate" if function == "trunc" else function
    return TransformCall(transform=f"{function}[{numbers[0]}]" if numbers else function, column=columns[0])


def sort_keys(tokens: Tokens) -> tuple[SortKey, ...]:
    """Read sort keys separated by commas, with or without parentheses around them."""
    in_brackets = tokens.take("(")
    keys = [_sort_key(tokens)]
    while tokens.take(","):
        keys.append(_sort_key(tokens))
    if in_brackets:
        tokens.expect(")")
    return tuple(keys)


def _sort_key(tokens: Tokens) -> SortKey:
    call = transform_call(tokens)
    is_descending = tokens.take("DESC") or (tokens.take("ASC") and False)
    nulls = NullOrder.NULLS_LAST if is_descending else NullOrder.NULLS_FIRST
    if tokens.take("NULLS"):
        nulls = NullOrder.NULLS_FIRST if tokens.one_of("FIRST", "LAST") == "FIRST" else NullOrder.NULLS_LAST
    return SortKey(call=call, direction=SortDirection.DESC if is_descending else SortDirection.ASC, nulls=nulls)


def sort_order_of(text: str, schema: Schema) -> SortOrder:
    """Return the sort order of a text such as `id ASC NULLS FIRST, bucket(4, x) DESC`.

    Raises:
        StatementSyntaxError: the text has a wrong token.
        InvalidSchemaError: the table has no such column.
        InvalidInputError: a transform does not exist.
    """
    tokens = Tokens(text)
    keys = sort_keys(tokens)
    tokens.end()
    return SortOrder(
        *(
            SortField(schema.find_field(key.call.column).field_id, parse_transform(key.call.transform), key.direction, key.nulls)
            for key in keys
        )
    )


def sort_order_text(metadata: TableMetadata) -> str:
    """Return the table's sort order as a text that `sort_order_of` can parse."""
    return ", ".join(_key_text(key, metadata.schema()) for key in metadata.sort_order().fields)


def _key_text(key: SortField, schema: Schema) -> str:
    column = ".".join(map(quote_name, schema.path_of(key.source_id) or (str(key.source_id),)))
    name, _, number = str(key.transform).partition("[")
    call = column if name == "identity" else f"{name}({number.rstrip(']')}, {column})" if number else f"{name}({column})"
    nulls = "NULLS FIRST" if key.null_order is NullOrder.NULLS_FIRST else "NULLS LAST"
    return f"{call} {key.direction.upper()} {nulls}"


def quote_name(name: str) -> str:
    """Return a name as SQL needs it: in backticks unless it is a plain word."""
    return name if re.fullmatch(r"[A-Za-z_]\w*", name) else "`" + name.replace("`", "``") + "`"
