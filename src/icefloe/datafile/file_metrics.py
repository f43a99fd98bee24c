"""A written file's metrics: sizes, counts and bounds per column, from the Parquet footer and from the few things a footer does not tell.

Which columns get which metrics is `metrics_modes.py`.
Spec: Data File Fields (column_sizes to split_offsets); Appendix D; Field-level Metrics and Statistics.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icefloe.datafile.leaves import Leaf
from icefloe.datafile.metrics_modes import MetricsMode
from icefloe.kernel.bounds import truncate_lower_bound, truncate_upper_bound
from icefloe.kernel.types import (
    BinaryType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
    PrimitiveType,
    StringType,
    UUIDType,
)
from icefloe.kernel.values import decimal_bytes, from_bytes, to_bytes

# Bytes. Arrow leaves a minimum or maximum longer than this out of a footer (its `max_statistics_size`), and the whole pair with it.
LONGEST_FOOTER_STATISTIC = 4096

# The bytes of a shape order nothing.
_WITHOUT_BOUNDS = (GeometryType, GeographyType)

# A column's least and greatest value in the form the footer holds them: bool, int, float or bytes. They order as Iceberg orders the type's values.
_Extremes = tuple[Any, Any]

# A column's least and greatest value, as a footer holds them, to its bounds; no upper one where none of the width is above the value.
BoundsInBytes = Callable[[Any, Any], tuple[bytes, bytes | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileMetrics:
    """The metrics of one file, by field id; sizes and offsets in bytes, None where the format tells none."""

    record_count: int
    column_sizes: dict[int, int] | None
    value_counts: dict[int, int]
    null_value_counts: dict[int, int]
    nan_value_counts: dict[int, int]
    lower_bounds: dict[int, bytes]
    upper_bounds: dict[int, bytes]
    split_offsets: tuple[int, ...] | None

    def as_fields(self) -> dict[str, Any]:
        """The same as fields of a `DataFile`, whose names these are."""
        return {each.name: getattr(self, each.name) for each in fields(self)}


@dataclass(slots=True)
class Observations:
    """What is seen in the rows on their way to a file because its footer will not tell: NaN counts, and extremes of values too long for a footer."""

    columns: Sequence[tuple[Leaf, MetricsMode]]
    nan_counts: dict[int, int] = field(default_factory=dict)
    # (row group, field id) -> extremes
    extremes: dict[tuple[int, int], _Extremes] = field(default_factory=dict)
    row_groups: int = 0

    def see(self, table: Any) -> None:
        """Takes note of the rows of the next row group, an Arrow table of the schema."""
        for leaf, mode in self.columns:
            if leaf.repeated or not mode.counts:
                continue
            if isinstance(leaf.kind, FloatType | DoubleType):
                found = count_nans(leaf.column_of(table))
                self.nan_counts[leaf.field_id] = self.nan_counts.get(leaf.field_id, 0) + found
            elif mode.bounds and isinstance(leaf.kind, StringType | BinaryType | FixedType):
                self._see_long_values(leaf, leaf.column_of(table))
        self.row_groups += 1

    def _see_long_values(self, leaf: Leaf, column: Any) -> None:
        longest = pc.max(pc.binary_length(column)).as_py()
        if longest is not None and longest > LONGEST_FOOTER_STATISTIC:
            found = pc.min_max(column.cast(pa.large_binary()))
            self.extremes[(self.row_groups, leaf.field_id)] = (found["min"].as_py(), found["max"].as_py())


def count_nans(column: Any) -> int:
    """How many values of an Arrow float column are NaN.

    The sum is NaN whenever a value is, so it answers for most columns at a fraction of the cost of looking at each value.
    """
    total = pc.sum(column).as_py()
    if total is None or not math.isnan(total):
        return 0
    return int(pc.sum(pc.is_nan(column)).as_py() or 0)


def file_metrics(footer: Any, observed: Observations) -> FileMetrics:
    """The metrics of a file that was just written.

    `footer` is its `pyarrow.parquet.FileMetaData`.
    """
    sizes: dict[int, int] = {}
    metrics = FileMetrics(
        record_count=footer.num_rows,
        column_sizes=sizes,
        value_counts={},
        null_value_counts={},
        nan_value_counts=dict(observed.nan_counts),
        lower_bounds={},
        upper_bounds={},
        split_offsets=split_offsets(footer),
    )
    row_groups = [footer.row_group(index) for index in range(footer.num_row_groups)]
    for leaf, mode in observed.columns:
        if not mode.counts:
            continue
        chunks = [row_group.column(leaf.place) for row_group in row_groups]
        statistics = [chunk.statistics for chunk in chunks]
        sizes[leaf.field_id] = sum(chunk.total_compressed_size for chunk in chunks)
        metrics.value_counts[leaf.field_id] = sum(chunk.num_values for chunk in chunks)
        if all(found is not None and found.has_null_count for found in statistics):
            metrics.null_value_counts[leaf.field_id] = sum(found.null_count for found in statistics)
        if mode.bounds and not leaf.repeated and not isinstance(leaf.kind, _WITHOUT_BOUNDS):
            extremes = _extremes_of_file(leaf, statistics, observed)
            if extremes is not None:
                set_bounds(metrics, leaf, mode, extremes)
    return metrics


def split_offsets(footer: Any) -> tuple[int, ...]:
    """Where each row group begins: its first column's dictionary page, or first data page where it has none."""
    first_columns = (footer.row_group(index).column(0) for index in range(footer.num_row_groups))
    return tuple(column.dictionary_page_offset or column.data_page_offset for column in first_columns)


def _extremes_of_file(leaf: Leaf, statistics: Iterable[Any], observed: Observations) -> _Extremes | None:
    """The extremes over all row groups, or None where one of them holds values but tells no extremes (a bound must hold for every row)."""
    found: list[_Extremes] = []
    for index, statistic in enumerate(statistics):
        seen = observed.extremes.get((index, leaf.field_id))
        if seen is not None:
            found.append(seen)
        elif statistic is not None and statistic.has_min_max:
            found.append((_comparable(leaf.kind, statistic.min_raw), _comparable(leaf.kind, statistic.max_raw)))
        elif statistic is None or (statistic.num_values > 0 and not isinstance(leaf.kind, FloatType | DoubleType)):
            # Floats without extremes are all NaN, which bounds leave out; of any other type nothing is known.
            return None
    if not found:
        return None
    return min(low for low, _ in found), max(high for _, high in found)


def _comparable(kind: PrimitiveType, raw: Any) -> Any:
    """A footer's raw value in a form that orders as the type does: decimals as their unscaled whole number, the rest as they stand."""
    if isinstance(kind, DecimalType) and isinstance(raw, bytes):
        return int.from_bytes(raw, "big", signed=True)
    return raw


def set_bounds(metrics: FileMetrics, leaf: Leaf, mode: MetricsMode, extremes: tuple[Any, Any]) -> None:
    """Puts a column's bounds among the metrics, cut to the mode's width. Extremes are as a footer holds them: bool, int (decimals unscaled), float, bytes."""
    low, high = bounds_in_bytes(leaf.kind, mode.width)(*extremes)
    metrics.lower_bounds[leaf.field_id] = low
    if high is not None:
        metrics.upper_bounds[leaf.field_id] = high


def bounds_in_bytes(kind: PrimitiveType, width: int | None) -> BoundsInBytes:
    """What makes bounds of the least and greatest value of a column, as a footer holds them. See `set_bounds`."""
    if width is None or not isinstance(kind, StringType | BinaryType | FixedType):
        return lambda low, high: (_serialized(kind, _value_of(kind, low)), _serialized(kind, _value_of(kind, high)))

    def cut(low: Any, high: Any) -> tuple[bytes, bytes | None]:
        lower = truncate_lower_bound(kind, _value_of(kind, low), width)
        upper = truncate_upper_bound(kind, _value_of(kind, high), width)
        return _serialized(kind, lower), None if upper is None else _serialized(kind, upper)

    return cut


def physical_value(kind: PrimitiveType, raw: Any) -> Any:
    """The physical value of what a footer holds: bool, int (decimals unscaled), float, bytes."""
    return from_bytes(kind, _serialized(kind, _value_of(kind, raw)))


def _value_of(kind: PrimitiveType, raw: Any) -> Any:
    return str(raw, "utf-8") if isinstance(kind, StringType) else raw


def _serialized(kind: PrimitiveType, value: Any) -> bytes:
    """Decimals stay whole numbers and UUIDs bytes: both are what the single-value form holds, so no `Decimal` or `UUID` is made for nothing."""
    if isinstance(kind, DecimalType):
        return decimal_bytes(value)
    if isinstance(kind, UUIDType):
        return bytes(value)
    return to_bytes(kind, value)
