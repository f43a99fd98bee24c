"""`overlapping`: which files of a plan have a range of the sort key that overlaps with those of many other files, so that a sort separates them.

Spec: Sorting; Data File Fields (`lower_bounds`, `upper_bounds`).
"""

from collections import defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.kernel.arrow_values import numbers_array, numpy_of
from icefloe.kernel.expressions.metrics_evaluator import valid_bounds
from icefloe.kernel.manifest.manifest_columns import ManifestColumns
from icefloe.kernel.partitioning.sort_order import SortOrder
from icefloe.kernel.partitioning.transforms import IdentityTransform
from icefloe.kernel.scan.pruning import column_bounds
from icefloe.kernel.scan.scan_plan import PlannedFiles
from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.types import BinaryType, PrimitiveType, StringType

# A file is sorted again if its range overlaps with those of so many files of its partition, itself included. Neighbours share at most the values between them.
LEAST_DEPTH = 4
# Texts from this length on may be cut: then neighbours seem to overlap, whatever the order of their rows.
_CUT_LENGTH = 16


def overlapping(part: PlannedFiles, *, order: SortOrder, schema: Schema) -> NDArray[np.bool_]:
    """Return a mask of the files whose range of the first sort key overlaps with those of `LEAST_DEPTH` files of their partition.

    Files without bounds, or with bounds that may be cut, are not among them, and none if the key is a transform of the column. Ranges that only touch do not
    overlap, so that sorted files with many rows of one value do not count.

    Args:
        part: Planned files with their statistics.
        order: The sort order.
        schema: The schema of the scan.
    """
    mask = np.zeros(len(part), dtype=bool)
    if not isinstance(order.fields[0].transform, IdentityTransform):
        return mask  # files that are sorted by a bucket or a day overlap in the column itself
    field_id = order.fields[0].source_id
    kind = schema.find_type(field_id)
    if not isinstance(kind, PrimitiveType) or field_id not in part.statistics:
        return mask
    columns = ManifestColumns(part.entries)
    lower, upper = valid_bounds(kind, *(column_bounds(columns, statistic, field_id, kind) for statistic in ("lower_bound", "upper_bound")))
    known = pc.and_(pc.is_valid(lower), pc.is_valid(upper))
    if isinstance(kind, StringType | BinaryType):
        for bound in (lower, upper):
            known = pc.and_(known, pc.less(pc.fill_null(pc.binary_length(bound.cast(pa.binary())), _CUT_LENGTH), _CUT_LENGTH))
    rows = np.flatnonzero(numpy_of(known))
    low, high = _ranks(lower.take(numbers_array(rows, pa.int64())), upper.take(numbers_array(rows, pa.int64())))
    by_partition: dict[str, list[int]] = defaultdict(list)
    for place, partition in enumerate(part.partitions(part.entries.take(numbers_array(rows, pa.int64())))):
        by_partition[repr(partition)].append(place)  # NaN is not equal to itself; its text is
    for places in by_partition.values():
        lows, highs = low[places], high[places]
        depth = np.searchsorted(np.sort(lows), highs, "left") - np.searchsorted(np.sort(highs), lows, "right")
        mask[rows[np.array(places)[depth >= LEAST_DEPTH]]] = True
    return mask


def _ranks(lower: Any, upper: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the bounds as numbers of the same order."""
    ranks = numpy_of(pc.rank(pa.concat_arrays([lower, upper]), tiebreaker="dense").cast(pa.int64()))
    return ranks[: len(lower)], ranks[len(lower) :]
