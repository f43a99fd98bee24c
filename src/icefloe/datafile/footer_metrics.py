"""`footer_metrics`: sizes, counts, bounds and extremes of a file's columns by the footer of a Parquet file of any writer.

What its values stand for is `footer_bounds.py`; metrics of files that are written here are `file_metrics.py`.
Spec: Data File Fields (column_sizes to split_offsets); Parquet, parquet.thrift (Statistics).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from icefloe.datafile.file_metrics import BoundsInBytes, FileMetrics, bounds_in_bytes, split_offsets
from icefloe.datafile.footer_bounds import Extremes, conversion, is_exact
from icefloe.datafile.footer_columns import StoredLeaf
from icefloe.datafile.metrics_modes import MetricsMode
from icefloe.kernel.types import DoubleType, FloatType


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnReading:
    """What is read of one column in every footer: `counts` its sizes and counts, `bounds` its bounds and how they are written, `extremes` its `Extremes`.

    `place` is its place in a row group; `convert` is as in `footer_bounds.conversion`, None also where neither bounds nor extremes are asked for.
    """

    field_id: int
    place: int
    counts: bool
    bounds: BoundsInBytes | None
    extremes: bool
    convert: Callable[[Any], Any] | None
    floats: bool


def column_reading(stored: StoredLeaf, mode: MetricsMode, column: Any, *, extremes: bool) -> ColumnReading | None:
    """How one column is read, `column` being its `pyarrow.parquet.ColumnSchema`; None where nothing of it is asked for."""
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
    )


def footer_metrics(footer: Any, columns: Sequence[ColumnReading]) -> tuple[FileMetrics, dict[int, Extremes]]:
    """The metrics of a file, and by field id the extremes of the columns for which they are asked, over all row groups; none where one does not tell.

    `footer` is a `pyarrow.parquet.FileMetaData`. NaNs are not counted: no footer tells.
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


# One loop for all that is asked: this runs for every column of every file, and most of its time goes into asking Arrow for one number after another.
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
        statistics = chunk.statistics
        if statistics is None or not statistics.has_null_count:
            counts_nulls = is_known = False
            continue
        found = statistics.null_count
        nulls += found
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
            is_known = found >= rows
    if column.counts:
        sizes[column.field_id] = size
        metrics.value_counts[column.field_id] = values
        if counts_nulls:
            metrics.null_value_counts[column.field_id] = nulls
    if not is_known:
        return
    if column.floats:
        # Footers do not tell the zeros of floats apart.
        low, high = -0.0 if low == 0 else low, 0.0 if high == 0 else high
    if column.bounds is not None and low is not None:
        _put_bounds(column.field_id, column.bounds(low, high), metrics)
    if column.extremes:
        found_values = None if low is None else (low, high)
        extremes[column.field_id] = Extremes(found_values, nulls, sum(rows for _, rows in groups), exact, column.floats)


def _put_bounds(field_id: int, bounds: tuple[bytes, bytes | None], metrics: FileMetrics) -> None:
    lower, upper = bounds
    metrics.lower_bounds[field_id] = lower
    if upper is not None:
        metrics.upper_bounds[field_id] = upper
