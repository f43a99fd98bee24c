"""Pruning of row groups: a task reads only those of its split, without those that its filter excludes by the statistics in the Parquet footer.

Spec: Scan Planning (inclusive evaluation of bounds), applied to row groups.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from icefloe.datafile.parquet.parquet_footer import CheckedFooter
from icefloe.datafile.projection import FileColumn
from icefloe.spec.expressions.bind import BoundPredicate
from icefloe.spec.expressions.metrics_evaluator import Mask, may_match, range_of_bounds, tree_mask
from icefloe.spec.expressions.predicate import AlwaysTrue, BooleanExpression
from icefloe.spec.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
)
from icefloe.spec.values import decimal_bytes, from_bytes, physical_array

# Arrow types for which the raw statistic in a footer is the physical value. All others are never pruned: other units of time, dates that became timestamps,
# unsigned numbers, UUIDs, geometries and int96 have no statistics, or their statistics are not in the order of the values.
_MICROS = (pa.timestamp("us"), pa.timestamp("us", "UTC"))
_NANOS = (pa.timestamp("ns"), pa.timestamp("ns", "UTC"))
_COMPARABLE_TYPES: Mapping[type[PrimitiveType], tuple[Any, ...]] = {
    BooleanType: (pa.bool_(),),
    IntegerType: (pa.int32(),),
    LongType: (pa.int32(), pa.int64()),
    FloatType: (pa.float32(),),
    DoubleType: (pa.float32(), pa.float64()),
    DateType: (pa.date32(),),
    TimeType: (pa.time64("us"), pa.int64()),
    TimestampType: _MICROS,
    TimestamptzType: _MICROS,
    TimestampNanoType: _NANOS,
    TimestamptzNanoType: _NANOS,
    StringType: (pa.string(),),
    BinaryType: (pa.binary(),),
}


# Types without values that are outside of bounds, as NaN is.
_ORDERED = (IntegerType, LongType, DateType, TimeType, TimestampType, TimestamptzType, TimestampNanoType, TimestamptzNanoType, StringType)


def row_groups_between(footer: CheckedFooter, start: int, end: int) -> list[int]:
    """Return the row groups whose first byte is in the range from `start` to before `end`: each belongs to exactly one split of a file."""
    if not len(footer.metadata.schema):
        return list(range(footer.metadata.num_row_groups)) if start <= 0 < end else []
    return [index for index, first in enumerate(row_group_starts(footer)) if start <= first < end]


def row_group_starts(footer: CheckedFooter) -> list[int]:
    """Return the position of the first byte of each row group; none if the file has no columns."""
    chunks = [footer.column(index, 0) for index in range(footer.metadata.num_row_groups if len(footer.metadata.schema) else 0)]
    return [chunk.dictionary_page_offset or chunk.data_page_offset for chunk in chunks]


def row_groups_that_may_match(
    footer: CheckedFooter,
    indexes: Sequence[int],
    row_filter: BooleanExpression,
    root: FileColumn,
    other_values: frozenset[int] = frozenset(),
) -> list[int]:
    """Return the row groups that may contain a row matching a bound filter; all of them if the footer has no statistics.

    `other_values` are the indexes of leaves whose statistics differ from the values that are read.
    """
    if isinstance(row_filter, AlwaysTrue) or not indexes:
        return list(indexes)

    def leaf(predicate: BoundPredicate) -> Mask:
        column = find_leaf(root, predicate.field.field_id)
        kind = predicate.field.field_type
        is_known = column is not None and column.first_leaf not in other_values
        if column is None or not is_known or not isinstance(kind, PrimitiveType) or not _is_comparable(column, kind):
            return np.ones(len(indexes), dtype=bool)
        chunks = [footer.column(index, column.first_leaf) for index in indexes]
        return _mask(predicate, kind, chunks, [footer.metadata.row_group(index).num_rows for index in indexes])

    mask = tree_mask(row_filter, len(indexes), leaf)
    return [index for index, may_match_filter in zip(indexes, mask, strict=True) if may_match_filter]


def ordered_bounds(
    footer: CheckedFooter, fields: Iterable[NestedField], root: FileColumn, other_values: frozenset[int], most: int
) -> Mapping[int, Sequence[tuple[Any, Any]]]:
    """Return the bounds that the footer states for each row group, by field id, for columns that have them in all row groups, and whose values have an order.

    Args:
        footer: The footer.
        fields: The columns.
        root: The columns of the file.
        other_values: The indexes of leaves whose statistics differ from the values that are read.
        most: The greatest number of columns whose statistics are read.
    """
    indexes = range(footer.metadata.num_row_groups)
    by_field: dict[int, Sequence[tuple[Any, Any]]] = {}
    for field in fields:
        column, kind = find_leaf(root, field.field_id), field.field_type
        is_ordered = isinstance(kind, _ORDERED) and column is not None and column.first_leaf not in other_values
        if (
            len(by_field) == most
            or not is_ordered
            or column is None
            or not isinstance(kind, PrimitiveType)
            or not _is_comparable(column, kind)
        ):
            continue
        bounds = [_bounds(kind, footer.column(index, column.first_leaf).statistics) for index in indexes]
        if all(low is not None and high is not None for low, high in bounds):
            by_field[field.field_id] = bounds
    return by_field


def find_leaf(root: FileColumn, field_id: int) -> FileColumn | None:
    """Find the column with a field id at the top level or inside structs; None if there is no such column."""
    for column in root.inner:
        if column.field_id == field_id:
            return column
        if pa.types.is_struct(column.arrow.type):
            leaf = find_leaf(column, field_id)
            if leaf is not None:
                return leaf
    return None


def _is_comparable(column: FileColumn, kind: PrimitiveType) -> bool:
    stored = column.arrow.type
    if isinstance(kind, DecimalType):
        return bool(pa.types.is_decimal(stored)) and stored.scale == kind.scale
    return stored in _COMPARABLE_TYPES.get(type(kind), ())


def _mask(predicate: BoundPredicate, kind: PrimitiveType, chunks: Sequence[Any], rows: Sequence[int]) -> Mask:
    """Return a mask of the column chunks in which a row may match the predicate. `rows` has the number of rows of each chunk."""
    # Older writers compared decimals in byte arrays as text.
    is_ordered = not isinstance(kind, DecimalType) or all(chunk.physical_type != "BYTE_ARRAY" for chunk in chunks)
    statistics = [chunk.statistics if is_ordered else None for chunk in chunks]
    bounds = [_bounds(kind, statistic) for statistic in statistics]
    nulls = [statistic.null_count if statistic is not None and statistic.has_null_count else None for statistic in statistics]
    value_range = range_of_bounds(
        kind,
        physical_array(kind, [low for low, _ in bounds]),
        physical_array(kind, [high for _, high in bounds]),
        may_have_null=np.array([count is None or count > 0 for count in nulls], dtype=bool),
        may_have_nan=np.ones(len(rows), dtype=bool),  # footers do not count NaN
        may_have_value=np.array([count != total for count, total in zip(nulls, rows, strict=True)], dtype=bool),
    )
    return may_match(predicate, value_range)


def _bounds(kind: PrimitiveType, statistic: Any) -> tuple[Any, Any]:
    """Return the lower and upper bound as physical values; both are None if the statistic has no comparable bounds."""
    if statistic is None or not statistic.has_min_max:
        return None, None
    low, high = statistic.min_raw, statistic.max_raw
    if isinstance(kind, DecimalType):
        # The statistic of a decimal is its unscaled value: a whole number, or two's complement bytes if it is longer than 64 bits.
        low, high = (from_bytes(kind, raw if isinstance(raw, bytes) else decimal_bytes(raw)) for raw in (low, high))
    if isinstance(kind, StringType):
        # A truncated statistic may end within a character; then the row group is not pruned.
        try:
            return str(low, "utf-8"), str(high, "utf-8")
        except UnicodeDecodeError:
            return None, None
    return low, high
