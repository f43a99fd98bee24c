"""Interpretation of a column's minimum and maximum in a Parquet footer of any writer: values of the Iceberg type, or None if they are ambiguous.

`footer_metrics.py` reads the footers.

Spec: Data File Fields (lower_bounds, upper_bounds); Parquet, parquet.thrift (Statistics).
"""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from icefloe.spec.types import (
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    GeographyType,
    GeometryType,
    IntegerType,
    PrimitiveType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UnknownType,
    VariantType,
)

_NANO_TYPES = (TimestampNanoType, TimestamptzNanoType)
_TIMESTAMPS = (TimestampType, TimestamptzType, *_NANO_TYPES)
_MICROS_PER_DAY = 86_400_000_000
# Nanoseconds in each time unit of Parquet.
_NANOS = {"milliseconds": 1_000_000, "microseconds": 1_000, "nanoseconds": 1}


@dataclass(frozen=True, slots=True)
class Extremes:
    """The statistics of a column in a file.

    Attributes:
        values: The minimum and the maximum, as `set_bounds` takes them; None if the column has only nulls.
        nulls: The number of nulls.
        rows: The number of rows.
        exact: Whether the minimum and maximum are values in the file; False if they may be only bounds.
        may_be_nan: Whether there may be NaN values, which the minimum and maximum ignore.
    """

    values: tuple[Any, Any] | None
    nulls: int
    rows: int
    exact: bool = True
    may_be_nan: bool = False


def is_exact(statistics: Any) -> bool:
    """Return True if the minimum and maximum are values in the file. Writers that do not set the flags truncate only texts of 64 or more bytes."""
    flags = [getattr(statistics, name, None) for name in ("is_min_value_exact", "is_max_value_exact")]
    if None not in flags:
        return all(flags)
    return not any(isinstance(raw, bytes) and len(raw) >= 64 for raw in (statistics.min_raw, statistics.max_raw))


def conversion(kind: PrimitiveType, arrow: Any, column: Any) -> Callable[[Any], Any] | None:
    """Return a function that converts a footer's raw minimum or maximum to a value of the table's type.

    The function returns None for an ambiguous value. There is no function, and None is returned, if the column's statistics cannot be used.

    Args:
        kind: The column's type in the table.
        arrow: Its Arrow type in the file.
        column: Its `pyarrow.parquet.ColumnSchema`.
    """
    if isinstance(kind, GeometryType | GeographyType | UnknownType | VariantType) or column.physical_type == "INT96":
        return None
    if pa.types.is_null(arrow):
        return lambda _: None  # the column has no value
    if isinstance(kind, FloatType | DoubleType):
        return None if pa.types.is_float16(arrow) else lambda raw: None if math.isnan(raw) else raw
    if isinstance(kind, DecimalType):
        return lambda raw: int.from_bytes(raw, "big", signed=True) if isinstance(raw, bytes) else raw
    if isinstance(kind, _TIMESTAMPS) and pa.types.is_date(arrow):
        scale = _MICROS_PER_DAY * (1000 if isinstance(kind, _NANO_TYPES) else 1)
        return lambda raw: raw * scale
    if isinstance(kind, (TimeType, *_TIMESTAMPS)):
        unit = json.loads(column.logical_type.to_json()).get("timeUnit")
        if unit not in _NANOS:
            return None
        return _rescaler(_NANOS[unit], 1 if isinstance(kind, _NANO_TYPES) else 1000)
    if isinstance(kind, DateType) and not pa.types.is_date32(arrow) and column.physical_type != "INT32":
        return None
    if pa.types.is_uint32(arrow) or pa.types.is_uint64(arrow):
        return _unsigned_converter(arrow.bit_width, 31 if isinstance(kind, IntegerType) else 63)
    return lambda raw: raw


def _unsigned_converter(width: int, most_bits: int) -> Callable[[int], int | None]:
    """Return a function that converts an unsigned number, which footers store as a signed one. It returns None for a number beyond the table's type."""

    def convert(raw: int) -> int | None:
        value = raw & (1 << width) - 1
        return value if value >> most_bits == 0 else None

    return convert


def _rescaler(nanos: int, step: int) -> Callable[[int], int | None]:
    """Return a function that converts a count of `nanos` nanoseconds to a count of `step` nanoseconds, or to None if there is a remainder."""

    def convert(raw: int) -> int | None:
        whole, rest = divmod(raw * nanos, step)
        return None if rest else whole

    return convert
