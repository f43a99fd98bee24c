"""`MetricsCollector`: collects counts and bounds of ORC and Avro columns while rows are written, because Arrow does not return them from their footers.

`file_metrics.py` decides which metrics a column has, and reads the metrics of Parquet files from the footer. As in Java, columns inside lists and maps have no
metrics.
Spec: Data File Fields (value_counts to upper_bounds); Appendix D.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icefloe.datafile.file_metrics import FileMetrics, Leaf, MetricsMode, count_nans, set_bounds
from icefloe.spec.types import (
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
from icefloe.spec.values import physical_arrow_type, unscaled_value

# Geometries have no bounds, because their bytes have no order.
_WITHOUT_BOUNDS = (GeometryType, GeographyType)


@dataclass(slots=True)
class MetricsCollector:
    """A collector of the metrics of one file: `update` adds rows that were written, and `metrics` returns the result."""

    columns: Sequence[tuple[Leaf, MetricsMode]]
    rows: int = 0
    nulls: dict[int, int] = field(default_factory=dict)
    nans: dict[int, int] = field(default_factory=dict)
    lows: dict[int, Any] = field(default_factory=dict)
    highs: dict[int, Any] = field(default_factory=dict)

    def update(self, table: Any) -> None:
        """Add the next rows, an Arrow table of the schema."""
        self.rows += table.num_rows
        for leaf, mode in self.columns:
            if leaf.repeated or not mode.counts:
                continue
            column = leaf.column_of(table)
            self.nulls[leaf.field_id] = self.nulls.get(leaf.field_id, 0) + column.null_count
            if isinstance(leaf.kind, FloatType | DoubleType):
                nans = count_nans(column)
                self.nans[leaf.field_id] = self.nans.get(leaf.field_id, 0) + nans
                if nans:
                    column = column.filter(pc.invert(pc.is_nan(column)))
            if mode.bounds and not isinstance(leaf.kind, _WITHOUT_BOUNDS):
                self._update_extremes(leaf, column)

    def _update_extremes(self, leaf: Leaf, column: Any) -> None:
        extremes = pc.min_max(_ordered_column(leaf.kind, column))
        low, high = extremes["min"].as_py(), extremes["max"].as_py()
        if low is None:
            return
        self.lows[leaf.field_id] = min(low, self.lows.get(leaf.field_id, low))
        self.highs[leaf.field_id] = max(high, self.highs.get(leaf.field_id, high))

    def metrics(self, split_offsets: tuple[int, ...]) -> FileMetrics:
        """Return the metrics of the file after its last row; column sizes are not among them."""
        counted = [leaf.field_id for leaf, mode in self.columns if mode.counts and not leaf.repeated]
        metrics = FileMetrics(
            record_count=self.rows,
            column_sizes=None,
            value_counts=dict.fromkeys(counted, self.rows),
            null_value_counts={number: self.nulls.get(number, 0) for number in counted},
            nan_value_counts=dict(self.nans),
            lower_bounds={},
            upper_bounds={},
            split_offsets=split_offsets or None,
        )
        for leaf, mode in self.columns:
            if leaf.field_id in self.lows:
                set_bounds(
                    metrics,
                    leaf,
                    mode,
                    (_as_bound(leaf.kind, self.lows[leaf.field_id], -0.0), _as_bound(leaf.kind, self.highs[leaf.field_id], 0.0)),
                )
        return metrics


def _ordered_column(kind: PrimitiveType, column: Any) -> Any:
    """Convert the column to an Arrow type with the order of the Iceberg type: text to bytes, times to integers."""
    if isinstance(kind, StringType | BinaryType | FixedType | UUIDType):
        return (
            column.cast(pa.large_binary())
            if not pa.types.is_fixed_size_binary(column.type)
            else column.cast(pa.binary()).cast(pa.large_binary())
        )
    return column if isinstance(kind, DecimalType) else column.cast(physical_arrow_type(kind))


def _as_bound(kind: PrimitiveType, value: Any, zero: float) -> Any:
    """Convert a minimum or maximum to a bound. A float zero becomes `zero`, whose sign covers both zeros; a decimal becomes its unscaled value."""
    if isinstance(kind, FloatType | DoubleType) and value == 0:
        return zero
    return unscaled_value(value, kind.scale) if isinstance(kind, DecimalType) else value
