"""What the least and greatest value of a column in the footer of a Parquet file of any writer stand for; none where the footer leaves a doubt.

The loop over footers is `footer_metrics.py`.

Spec: Data File Fields (lower_bounds, upper_bounds); Parquet, parquet.thrift (Statistics).
"""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from icefloe.kernel.types import (
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    GeographyType,
    GeometryType,
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
# Nanoseconds of each unit that Parquet has.
_NANOS = {"milliseconds": 1_000_000, "microseconds": 1_000, "nanoseconds": 1}


@dataclass(frozen=True, slots=True)
class Extremes:
    """A column of one file: its least and greatest value in the form of `set_bounds`, None where there is none; how many nulls, of how many rows.

    `exact` where the values themselves stand in the file, not only bounds of them; `may_be_nan` where values that no bound tells of may be there too.
    """

    values: tuple[Any, Any] | None
    nulls: int
    rows: int
    exact: bool = True
    may_be_nan: bool = False


def is_exact(statistics: Any) -> bool:
    """Whether the minimum and maximum are values of the file. Writers that say nothing do not cut them, but for texts of more than 64 bytes."""
    flags = [getattr(statistics, name, None) for name in ("is_min_value_exact", "is_max_value_exact")]
    if None not in flags:
        return all(flags)
    return not any(isinstance(raw, bytes) and len(raw) >= 64 for raw in (statistics.min_raw, statistics.max_raw))


def conversion(kind: PrimitiveType, arrow: Any, column: Any) -> Callable[[Any], Any] | None:
    """What makes a footer's raw value one of the table's type, None of one that leaves a doubt; None itself where bounds mean nothing for the type.

    `arrow` is the column's type in the file, `column` its `pyarrow.parquet.ColumnSchema`.
    """
    if isinstance(kind, GeometryType | GeographyType | UnknownType | VariantType) or column.physical_type == "INT96":
        return None
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
        return _rescaled(_NANOS[unit], 1 if isinstance(kind, _NANO_TYPES) else 1000)
    if isinstance(kind, DateType) and not pa.types.is_date32(arrow) and column.physical_type != "INT32":
        return None
    if pa.types.is_uint32(arrow):
        return lambda raw: raw & 0xFFFFFFFF
    return lambda raw: raw


def _rescaled(nanos: int, step: int) -> Callable[[int], int | None]:
    """Whole units of `nanos` nanoseconds each, as such of `step`; None where that leaves a part over."""

    def convert(raw: int) -> int | None:
        whole, rest = divmod(raw * nanos, step)
        return None if rest else whole

    return convert
