"""Which row groups of a Parquet file need not be read: those of another split, and those that a filter rules out by the footer's statistics.

Spec: Scan Planning (inclusive evaluation of bounds), applied to row groups.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from icefloe.datafile.projection import FileColumn
from icefloe.kernel.expressions.bind import BoundPredicate
from icefloe.kernel.expressions.metrics_evaluator import Mask, may_match, range_of_bounds, tree_mask
from icefloe.kernel.expressions.predicate import AlwaysTrue, BooleanExpression
from icefloe.kernel.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
)
from icefloe.kernel.values import decimal_bytes, from_bytes, physical_array

# Stored so, a footer's raw statistic is the physical value. Left out, hence never ruled out: other units of time, dates that became timestamps, unsigned
# numbers, UUIDs, shapes and int96, whose statistics are not or do not order as the values do.
_MICROS = (pa.timestamp("us"), pa.timestamp("us", "UTC"))
_NANOS = (pa.timestamp("ns"), pa.timestamp("ns", "UTC"))
_AS_STORED: Mapping[type[PrimitiveType], tuple[Any, ...]] = {
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


def row_groups_between(footer: Any, start: int, end: int) -> list[int]:
    """The row groups whose first byte lies from `start` up to, not with, `end`: each belongs to exactly one of a file's splits."""
    found = []
    for index in range(footer.num_row_groups):
        first = footer.row_group(index).column(0) if footer.num_columns else None
        offset = 0 if first is None else first.dictionary_page_offset or first.data_page_offset
        if start <= offset < end:
            found.append(index)
    return found


def row_groups_that_may_match(footer: Any, indexes: Sequence[int], row_filter: BooleanExpression, root: FileColumn) -> list[int]:
    """Those of the row groups in which a row may match a bound filter; all of them where the footer does not tell."""
    if isinstance(row_filter, AlwaysTrue) or not indexes:
        return list(indexes)
    row_groups = [footer.row_group(index) for index in indexes]

    def leaf(predicate: BoundPredicate) -> Mask:
        column = find_leaf(root, predicate.field.field_id)
        kind = predicate.field.field_type
        known = column is not None and isinstance(kind, PrimitiveType) and _is_known(column, kind)
        return _mask(predicate, kind, column, row_groups) if known else np.ones(len(indexes), dtype=bool)  # type: ignore[arg-type]

    mask = tree_mask(row_filter, len(indexes), leaf)
    return [index for index, kept in zip(indexes, mask, strict=True) if kept]


def find_leaf(root: FileColumn, field_id: int) -> FileColumn | None:
    """The column of a field id, looked for through structs alone."""
    for column in root.inner:
        if column.field_id == field_id:
            return column
        if pa.types.is_struct(column.arrow.type):
            found = find_leaf(column, field_id)
            if found is not None:
                return found
    return None


def _is_known(column: FileColumn, kind: PrimitiveType) -> bool:
    stored = column.arrow.type
    if isinstance(kind, DecimalType):
        return bool(pa.types.is_decimal(stored)) and stored.scale == kind.scale
    return stored in _AS_STORED.get(type(kind), ())


def _mask(predicate: BoundPredicate, kind: PrimitiveType, column: FileColumn, row_groups: Sequence[Any]) -> Mask:
    chunks = [row_group.column(column.first_leaf) for row_group in row_groups]
    # Decimals in bytes of any length were compared as text by writers of old.
    is_told = not isinstance(kind, DecimalType) or all(chunk.physical_type != "BYTE_ARRAY" for chunk in chunks)
    statistics = [chunk.statistics if is_told else None for chunk in chunks]
    bounds = [_bounds(kind, found) for found in statistics]
    nulls = [found.null_count if found is not None and found.has_null_count else None for found in statistics]
    rows = [row_group.num_rows for row_group in row_groups]
    known = range_of_bounds(
        kind,
        physical_array(kind, [low for low, _ in bounds]),
        physical_array(kind, [high for _, high in bounds]),
        may_have_null=np.array([count is None or count > 0 for count in nulls], dtype=bool),
        may_have_nan=np.ones(len(rows), dtype=bool),  # footers do not count NaN
        may_have_value=np.array([count != total for count, total in zip(nulls, rows, strict=True)], dtype=bool),
    )
    return may_match(predicate, known)


def _bounds(kind: PrimitiveType, statistic: Any) -> tuple[Any, Any]:
    if statistic is None or not statistic.has_min_max:
        return None, None
    low, high = statistic.min_raw, statistic.max_raw
    if isinstance(kind, DecimalType):
        # Unscaled: a whole number, or its bytes in two's complement where it is longer than 64 bits.
        low, high = (from_bytes(kind, raw if isinstance(raw, bytes) else decimal_bytes(raw)) for raw in (low, high))
    if isinstance(kind, StringType):
        # A statistic that was cut short may end within a character: less is known then, so nothing is said.
        try:
            return str(low, "utf-8"), str(high, "utf-8")
        except UnicodeDecodeError:
            return None, None
    return low, high
