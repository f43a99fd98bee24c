"""The least and greatest value of a column by the footer of a Parquet file of any writer; none where the footer leaves a doubt.

Floor: datafile. Spec: Data File Fields (lower_bounds, upper_bounds); Parquet, parquet.thrift (Statistics).
"""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from icefloe.datafile.footer_columns import StoredLeaf
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


def footer_extremes(footer: Any, stored: StoredLeaf) -> Extremes | None:
    """The extremes over all row groups; None where one of them does not tell."""
    kind, leaf = stored.leaf.kind, stored.leaf
    column = footer.schema.column(leaf.place)
    convert = _conversion(kind, stored.arrow, column)
    if convert is None:
        return None
    lows, highs, nulls, rows, exact = [], [], 0, 0, True
    for index in range(footer.num_row_groups):
        group = footer.row_group(index)
        statistics = group.column(leaf.place).statistics
        rows += group.num_rows
        if statistics is None or not statistics.has_null_count:
            return None
        nulls += statistics.null_count
        if statistics.has_min_max:
            low, high = convert(statistics.min_raw), convert(statistics.max_raw)
            if low is None or high is None:
                return None
            lows.append(low)
            highs.append(high)
            exact = exact and _is_exact(statistics)
        elif statistics.null_count < group.num_rows:
            return None
    floats = isinstance(kind, FloatType | DoubleType)
    values = (_zero(min(lows), -0.0), _zero(max(highs), 0.0)) if lows else None
    return Extremes(values=values, nulls=nulls, rows=rows, exact=exact, may_be_nan=floats)


def _is_exact(statistics: Any) -> bool:
    """Whether the minimum and maximum are values of the file. Writers that say nothing do not cut them, but for texts of more than 64 bytes."""
    flags = [getattr(statistics, name, None) for name in ("is_min_value_exact", "is_max_value_exact")]
    if None not in flags:
        return all(flags)
    return not any(isinstance(raw, bytes) and len(raw) >= 64 for raw in (statistics.min_raw, statistics.max_raw))


def _zero(value: Any, zero: float) -> Any:
    """Footers do not tell the zeros of floats apart."""
    return zero if isinstance(value, float) and value == 0 else value


def _conversion(kind: PrimitiveType, arrow: Any, column: Any) -> Callable[[Any], Any] | None:
    """What makes a footer's raw value one of the table's type; None where bounds mean nothing for it."""
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
