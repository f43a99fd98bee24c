"""Metrics of a Parquet file that was just written: sizes, counts and bounds of its columns, from its footer and from observations of its rows.

`metrics_modes.py` decides which metrics a column has; `footer_metrics.py` reads the footers of files of other writers.
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

# Bytes. If a minimum or maximum is longer, Arrow leaves both out of the footer (its `max_statistics_size`).
MAX_FOOTER_STATISTIC_BYTES = 4096

# The bytes of geometries have no order.
_WITHOUT_BOUNDS = (GeometryType, GeographyType)

# The minimum and maximum of a column as in a footer: bool, int, float or bytes. They have the order of the Iceberg type's values.
_Extremes = tuple[Any, Any]

# Function from the minimum and maximum of a column, as in a footer, to its bounds; the upper one is None if no value of the width is above the maximum.
BoundsInBytes = Callable[[Any, Any], tuple[bytes, bytes | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileMetrics:
    """The metrics of one file, by field id; sizes and offsets in bytes, None if the file format has none."""

    record_count: int
    column_sizes: dict[int, int] | None
    value_counts: dict[int, int]
    null_value_counts: dict[int, int]
    nan_value_counts: dict[int, int]
    lower_bounds: dict[int, bytes]
    upper_bounds: dict[int, bytes]
    split_offsets: tuple[int, ...] | None

    def as_fields(self) -> dict[str, Any]:
        """Return the metrics as keyword arguments of a `DataFile`."""
        return {each.name: getattr(self, each.name) for each in fields(self)}


@dataclass(slots=True)
class RowObservations:
    """Metrics that are collected while rows are written, because a footer lacks them: NaN counts, and the extremes of values too long for a footer."""

    columns: Sequence[tuple[Leaf, MetricsMode]]
    nan_counts: dict[int, int] = field(default_factory=dict)
    # (row group, field id) -> extremes
    extremes: dict[tuple[int, int], _Extremes] = field(default_factory=dict)
    row_groups: int = 0

    def update(self, table: Any) -> None:
        """Add the rows of the next row group, an Arrow table of the schema."""
        for leaf, mode in self.columns:
            if leaf.repeated or not mode.counts:
                continue
            if isinstance(leaf.kind, FloatType | DoubleType):
                self.nan_counts[leaf.field_id] = self.nan_counts.get(leaf.field_id, 0) + count_nans(leaf.column_of(table))
            elif mode.bounds and isinstance(leaf.kind, StringType | BinaryType | FixedType):
                self._update_long_values(leaf, leaf.column_of(table))
        self.row_groups += 1

    def _update_long_values(self, leaf: Leaf, column: Any) -> None:
        longest = pc.max(pc.binary_length(column)).as_py()
        if longest is not None and longest > MAX_FOOTER_STATISTIC_BYTES:
            extremes = pc.min_max(column.cast(pa.large_binary()))
            self.extremes[(self.row_groups, leaf.field_id)] = (extremes["min"].as_py(), extremes["max"].as_py())


def count_nans(column: Any) -> int:
    """Return the number of NaN values of an Arrow float column.

    The sum is NaN if any value is, so most columns need only the sum, at a fraction of the cost of testing each value.
    """
    total = pc.sum(column).as_py()
    if total is None or not math.isnan(total):
        return 0
    return int(pc.sum(pc.is_nan(column)).as_py() or 0)


def file_metrics(footer: Any, observations: RowObservations) -> FileMetrics:
    """Return the metrics of a file that was just written; `footer` is its `pyarrow.parquet.FileMetaData`."""
    sizes: dict[int, int] = {}
    metrics = FileMetrics(
        record_count=footer.num_rows,
        column_sizes=sizes,
        value_counts={},
        null_value_counts={},
        nan_value_counts=dict(observations.nan_counts),
        lower_bounds={},
        upper_bounds={},
        split_offsets=split_offsets(footer),
    )
    row_groups = [footer.row_group(index) for index in range(footer.num_row_groups)]
    for leaf, mode in observations.columns:
        if not mode.counts:
            continue
        chunks = [row_group.column(leaf.place) for row_group in row_groups]
        statistics = [chunk.statistics for chunk in chunks]
        sizes[leaf.field_id] = sum(chunk.total_compressed_size for chunk in chunks)
        metrics.value_counts[leaf.field_id] = sum(chunk.num_values for chunk in chunks)
        if all(statistic is not None and statistic.has_null_count for statistic in statistics):
            metrics.null_value_counts[leaf.field_id] = sum(statistic.null_count for statistic in statistics)
        if mode.bounds and not leaf.repeated and not isinstance(leaf.kind, _WITHOUT_BOUNDS):
            extremes = _extremes_of_file(leaf, statistics, observations)
            if extremes is not None:
                set_bounds(metrics, leaf, mode, extremes)
    return metrics


def split_offsets(footer: Any) -> tuple[int, ...]:
    """Return the offset of each row group: of its first column's dictionary page, or first data page if it has none."""
    first_columns = (footer.row_group(index).column(0) for index in range(footer.num_row_groups))
    return tuple(column.dictionary_page_offset or column.data_page_offset for column in first_columns)


def _extremes_of_file(leaf: Leaf, statistics: Iterable[Any], observations: RowObservations) -> _Extremes | None:
    """Return the extremes of all row groups; None if one has values without extremes, because a bound must be valid for every row."""
    extremes: list[_Extremes] = []
    for index, statistic in enumerate(statistics):
        observed = observations.extremes.get((index, leaf.field_id))
        if observed is not None:
            extremes.append(observed)
        elif statistic is not None and statistic.has_min_max:
            extremes.append((_comparable(leaf.kind, statistic.min_raw), _comparable(leaf.kind, statistic.max_raw)))
        elif statistic is None or (statistic.num_values > 0 and not isinstance(leaf.kind, FloatType | DoubleType)):
            # Floats without extremes are all NaN, which bounds ignore; the extremes of any other type are unknown.
            return None
    if not extremes:
        return None
    return min(low for low, _ in extremes), max(high for _, high in extremes)


def _comparable(kind: PrimitiveType, raw: Any) -> Any:
    """Return a footer's raw value in a form that sorts as the type does: decimals as unscaled integers, all others as they are."""
    if isinstance(kind, DecimalType) and isinstance(raw, bytes):
        return int.from_bytes(raw, "big", signed=True)
    return raw


def set_bounds(metrics: FileMetrics, leaf: Leaf, mode: MetricsMode, extremes: tuple[Any, Any]) -> None:
    """Set a column's bounds, truncated to the mode's width. Extremes are as in a footer: bool, int (decimals unscaled), float or bytes."""
    low, high = bounds_in_bytes(leaf.kind, mode.width)(*extremes)
    metrics.lower_bounds[leaf.field_id] = low
    if high is not None:
        metrics.upper_bounds[leaf.field_id] = high


def bounds_in_bytes(kind: PrimitiveType, width: int | None) -> BoundsInBytes:
    """Return the function from the minimum and maximum of a column, as in a footer, to its bounds. See `set_bounds`."""
    if width is None or not isinstance(kind, StringType | BinaryType | FixedType):
        return lambda low, high: (_serialized(kind, _value_of(kind, low)), _serialized(kind, _value_of(kind, high)))

    def truncate(low: Any, high: Any) -> tuple[bytes, bytes | None]:
        lower = truncate_lower_bound(kind, _value_of(kind, low), width)
        upper = truncate_upper_bound(kind, _value_of(kind, high), width)
        return _serialized(kind, lower), None if upper is None else _serialized(kind, upper)

    return truncate


def physical_value(kind: PrimitiveType, raw: Any) -> Any:
    """Return the physical value of a footer's raw value: bool, int (decimals unscaled), float or bytes."""
    return from_bytes(kind, _serialized(kind, _value_of(kind, raw)))


def _value_of(kind: PrimitiveType, raw: Any) -> Any:
    return str(raw, "utf-8") if isinstance(kind, StringType) else raw


def _serialized(kind: PrimitiveType, value: Any) -> bytes:
    """Return the single-value serialization of a footer's value. Decimals are unscaled integers and UUIDs bytes, so no `Decimal` or `UUID` is created."""
    if isinstance(kind, DecimalType):
        return decimal_bytes(value)
    if isinstance(kind, UUIDType):
        return bytes(value)
    return to_bytes(kind, value)
