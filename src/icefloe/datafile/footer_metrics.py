"""`footer_metrics`: sizes, counts, bounds and extremes of a file's columns, from the Parquet footer of any writer.

`footer_bounds.py` converts the values of a footer; `file_metrics.py` computes the metrics of files that Icefloe writes.
Spec: Data File Fields (column_sizes to split_offsets); Parquet, parquet.thrift (Statistics).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from icefloe.datafile.file_metrics import BoundsInBytes, FileMetrics, MetricsMode, bounds_in_bytes, split_offsets
from icefloe.datafile.footer_bounds import Extremes, conversion, is_exact
from icefloe.datafile.footer_columns import StoredLeaf
from icefloe.spec.types import DoubleType, FloatType


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnReading:
    """The definition of the metrics that are read for one column from each footer of files with equal columns.

    Attributes:
        field_id: The column's field id.
        place: Its index in a row group.
        counts: Whether sizes and counts are read.
        bounds: The function that serializes its bounds; None if no bounds are read.
        extremes: Whether its `Extremes` are read.
        convert: The function from `footer_bounds.conversion`; None if bounds and extremes are not needed, or cannot be read.
        floats: Whether it is a float or double column.
        only_nulls: Whether it has Arrow's null type, for which footers have no statistics.
    """

    field_id: int
    place: int
    counts: bool
    bounds: BoundsInBytes | None
    extremes: bool
    convert: Callable[[Any], Any] | None
    floats: bool
    only_nulls: bool = False


class _NullStatistics:
    """A replacement for the statistics of a column chunk of Arrow's null type, which footers lack: all of its values are null."""

    has_null_count = True
    has_min_max = False

    def __init__(self, values: int) -> None:
        self.null_count = values


def column_reading(stored: StoredLeaf, mode: MetricsMode, column: Any, *, extremes: bool) -> ColumnReading | None:
    """Return the definition of the metrics to read for a column; None if there are no metrics to read.

    Args:
        stored: The column.
        mode: The metrics that the table's properties require.
        column: Its `pyarrow.parquet.ColumnSchema`.
        extremes: Whether its `Extremes` are needed.
    """
    leaf = stored.leaf
    bounds = bounds_in_bytes(leaf.kind, mode.width) if mode.bounds else None
    convert = None if leaf.repeated or not (extremes or bounds) else conversion(leaf.kind, stored.arrow, column)
    if convert is None and not mode.counts:
        return None
    return ColumnReading(
        field_id=leaf.field_id,
        place=leaf.place,
        counts=mode.counts,
        bounds=bounds,
        extremes=extremes,
        convert=convert,
        floats=isinstance(leaf.kind, FloatType | DoubleType),
        only_nulls=pa.types.is_null(stored.arrow),
    )


def footer_metrics(footer: Any, columns: Sequence[ColumnReading]) -> tuple[FileMetrics, dict[int, Extremes]]:
    """Return the metrics of a file, and the requested extremes by field id. Columns without statistics in one of the row groups are left out.

    `footer` is a `pyarrow.parquet.FileMetaData`. NaNs are not counted, because footers do not count them.
    """
    sizes: dict[int, int] = {}
    metrics = FileMetrics(
        record_count=footer.num_rows,
        column_sizes=sizes,
        value_counts={},
        null_value_counts={},
        nan_value_counts={},
        lower_bounds={},
        upper_bounds={},
        split_offsets=split_offsets(footer),
    )
    extremes: dict[int, Extremes] = {}
    groups = [(group, group.num_rows) for group in map(footer.row_group, range(footer.num_row_groups))]
    for column in columns:
        _read_column(column, groups, metrics, sizes, extremes)
    return metrics, extremes


# A single loop reads all metrics of a column: it runs for every column of every file, and most of its time is spent in Arrow's accessors.
def _read_column(
    column: ColumnReading, groups: Sequence[tuple[Any, int]], metrics: FileMetrics, sizes: dict[int, int], extremes: dict[int, Extremes]
) -> None:
    place, convert = column.place, column.convert
    size = values = nulls = 0
    low = high = None
    counts_nulls, is_known, exact = True, convert is not None, True
    for group, rows in groups:
        chunk = group.column(place)
        size += chunk.total_compressed_size
        values += chunk.num_values
        statistics: Any = _NullStatistics(chunk.num_values) if column.only_nulls else chunk.statistics
        if statistics is None or not statistics.has_null_count:
            counts_nulls = is_known = False
            continue
        nulls_of_group = statistics.null_count
        nulls += nulls_of_group
        if convert is None or not is_known:
            continue
        if statistics.has_min_max:
            least, greatest = convert(statistics.min_raw), convert(statistics.max_raw)
            is_known = least is not None and greatest is not None
            if is_known:
                low = least if low is None or least < low else low
                high = greatest if high is None or greatest > high else high
                exact = exact and (not column.extremes or is_exact(statistics))
        else:
            is_known = nulls_of_group >= rows
    if column.counts:
        sizes[column.field_id] = size
        metrics.value_counts[column.field_id] = values
        if counts_nulls:
            metrics.null_value_counts[column.field_id] = nulls
    if not is_known:
        return
    if column.floats:
        # The minimum and maximum in footers do not distinguish 0.0 and -0.0.
        low, high = -0.0 if low == 0 else low, 0.0 if high == 0 else high
    if column.bounds is not None and low is not None:
        _set_bounds(column.field_id, column.bounds(low, high), metrics)
    if column.extremes:
        values_in_file = None if low is None else (low, high)
        extremes[column.field_id] = Extremes(values_in_file, nulls, sum(rows for _, rows in groups), exact, column.floats)


def _set_bounds(field_id: int, bounds: tuple[bytes, bytes | None], metrics: FileMetrics) -> None:
    lower, upper = bounds
    metrics.lower_bounds[field_id] = lower
    if upper is not None:
        metrics.upper_bounds[field_id] = upper
