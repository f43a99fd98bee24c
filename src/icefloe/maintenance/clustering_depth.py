"""Clustering depth: the number of files in a partition whose value ranges in a column overlap with a file's range, by the bounds in manifests.

The depth is about the number of files that a filter on one value of the column opens. Maintenance chooses files by their depth, and reports on a table's health
show it.
Spec: Data File Fields (`lower_bounds`, `upper_bounds`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.scan.pruning import column_bounds
from icefloe.scan.scan_plan import PlannedFiles
from icefloe.spec.arrow_values import array_of_chunks, numbers_array, numpy_of
from icefloe.spec.expressions.metrics_evaluator import valid_bounds
from icefloe.spec.manifest.manifest_columns import ManifestColumns, partition_column
from icefloe.spec.partitioning.curve_cells import CurveOrder
from icefloe.spec.partitioning.sort_order import SortOrder
from icefloe.spec.partitioning.transforms import IdentityTransform
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import BinaryType, PrimitiveType, StringType

# A file is sorted again if its range overlaps with the ranges of this many files of its partition, itself included. In sorted files, neighbours share at most
# their boundary values.
LEAST_DEPTH = 4
# For a curve, a file is misplaced if it overlaps with this share of its partition's files, as a mean over the curve's columns. Even along a curve a
# few files span most of a column, so that at least `LEAST_DEPTH` files, and a hundredth of the partition's files, must be misplaced.
_UNCLUSTERED_SHARE, _LEAST_SHARE_OF_FILES = 0.95, 0.01
# Texts from this length on may be truncated in bounds, so that neighbours seem to overlap although their rows are sorted.
_CUT_LENGTH = 16


@dataclass(frozen=True, slots=True)
class ClusteringDepths:
    """The clustering of planned files by one column; the arrays have one element for each file.

    Attributes:
        depths: For each file, the number of files of the same partition whose range of the column overlaps with its range; the file itself counts too. Ranges
            that only touch do not overlap, so that sorted files with many rows of one value do not count, and a file with one value may have 0. -1 where the
            bounds are unknown.
        files: The number of files with known bounds in the file's partition.
        is_deep: A mask of the files whose depth is at least `LEAST_DEPTH`, and that overlap with another such file, so that a sort would separate both. For a
            file that overlaps only with files of a smaller depth, a sort would write the same file again.
    """

    depths: NDArray[np.int64]
    files: NDArray[np.int64]
    is_deep: NDArray[np.bool_]

    @property
    def known(self) -> NDArray[np.bool_]:
        """A mask of the files with known bounds."""
        return self.depths >= 0

    @property
    def shares(self) -> NDArray[np.float64]:
        """The depth of each file as a share of its partition's files; 0 where it is unknown."""
        shares: NDArray[np.float64] = np.maximum(self.depths, 0) / np.maximum(self.files, 1)
        return shares


def clustering_depths(part: PlannedFiles, field_id: int, schema: Schema, partitions: NDArray[np.int64] | None = None) -> ClusteringDepths:
    """Compute for each file of a plan how its range in a column overlaps with the other files of its partition.

    Bounds count as unknown if a manifest has none, or if they may be truncated: texts and bytes of 16 characters and more.

    Args:
        part: Planned files of one partition spec, with the statistics of the column.
        field_id: The field id of the column.
        schema: The schema of the scan.
        partitions: The result of `partition_numbers` for the part, if the caller has it already.
    """
    depths = np.full(len(part), -1, dtype=np.int64)
    files = np.zeros(len(part), dtype=np.int64)
    is_deep = np.zeros(len(part), dtype=bool)
    kind = schema.find_type(field_id)
    if not isinstance(kind, PrimitiveType) or field_id not in part.statistics:
        return ClusteringDepths(depths, files, is_deep)
    columns = ManifestColumns(part.entries)
    lower, upper = valid_bounds(kind, *(column_bounds(columns, statistic, field_id, kind) for statistic in ("lower_bound", "upper_bound")))
    known = pc.and_(pc.is_valid(lower), pc.is_valid(upper))
    if isinstance(kind, StringType | BinaryType):
        for bound in (lower, upper):
            known = pc.and_(known, pc.less(pc.fill_null(pc.binary_length(bound.cast(pa.binary())), _CUT_LENGTH), _CUT_LENGTH))
    rows = np.flatnonzero(numpy_of(known))
    low, high = _ranks(lower.take(numbers_array(rows, pa.int64())), upper.take(numbers_array(rows, pa.int64())))
    numbers = (partition_numbers(part) if partitions is None else partitions)[rows]
    # The ranks of each partition are shifted to a range of their own, so that files of two partitions never overlap.
    shift = numbers * (2 * len(rows) + 2)
    low, high = low + shift, high + shift
    depths[rows] = _overlaps(low, high)
    files[rows] = np.bincount(numbers)[numbers]
    deep = np.flatnonzero(depths[rows] >= LEAST_DEPTH)
    among_deep = _overlaps(low[deep], high[deep])
    # The ranges that overlap with a range of more than one value include that range itself.
    is_deep[rows[deep]] = among_deep > (low[deep] < high[deep])
    return ClusteringDepths(depths, files, is_deep)


def partition_numbers(part: PlannedFiles) -> NDArray[np.int64]:
    """Return the number of each file's partition. The partitions that occur in `part` are numbered from 0 without gaps."""
    numbers = np.zeros(len(part), dtype=np.int64)
    for field in part.partition_type.fields:
        values = array_of_chunks(part.entries[partition_column(field.field_id)]).dictionary_encode(null_encoding="encode")
        numbers = numbers * len(values.dictionary) + numpy_of(values.indices)
        numbers = np.unique(numbers, return_inverse=True)[1].astype(np.int64)
    return numbers


def is_misplaced(part: PlannedFiles, *, order: SortOrder | CurveOrder, schema: Schema) -> NDArray[np.bool_]:
    """Return a mask of the files that a rewrite in this order would separate from other files.

    For a sort order, these are the files in `ClusteringDepths.is_deep` for the first key. If the key is a transform of a column, no file is in the mask. For a
    curve, see `is_unclustered`. Files with unknown bounds are not in the mask.

    Args:
        part: Planned files with their statistics.
        order: The sort order, or the space-filling curve.
        schema: The schema of the scan.
    """
    if isinstance(order, CurveOrder):
        return is_unclustered(part, field_ids=order.source_ids, schema=schema)
    if not isinstance(order.fields[0].transform, IdentityTransform):
        return np.zeros(len(part), dtype=bool)  # files that are sorted by a bucket or a day overlap in the column itself
    return clustering_depths(part, order.fields[0].source_id, schema).is_deep


def is_unclustered(part: PlannedFiles, *, field_ids: Sequence[int], schema: Schema) -> NDArray[np.bool_]:
    """Return a mask of the files that a curve through several columns would place differently: they overlap with most files in most of the columns.

    Args:
        part: Planned files with their statistics.
        field_ids: The field ids of the curve's columns.
        schema: The schema of the scan.
    """
    partitions = partition_numbers(part)
    by_column = [clustering_depths(part, field_id, schema, partitions) for field_id in field_ids]
    known = np.sum([column.known for column in by_column], axis=0)
    shares = np.sum([column.shares for column in by_column], axis=0) / np.maximum(known, 1)
    spread: NDArray[np.bool_] = shares >= _UNCLUSTERED_SHARE
    files, of_partition = np.bincount(partitions), np.bincount(partitions, weights=spread)
    acts = of_partition >= np.maximum(LEAST_DEPTH, files * _LEAST_SHARE_OF_FILES)
    mask: NDArray[np.bool_] = spread & acts[partitions]
    return mask


def _overlaps(low: NDArray[np.int64], high: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return for each range the number of ranges that begin before its end and end after its beginning."""
    ended = np.searchsorted(np.sort(high), low, "right")
    # A range with a single value neither begins before itself nor ends after itself: ranges of the same value are not counted as ended.
    points = np.sort(low[low == high])
    same = np.where(low == high, np.searchsorted(points, low, "right") - np.searchsorted(points, low, "left"), 0)
    overlaps: NDArray[np.int64] = np.searchsorted(np.sort(low), high, "left") - ended + same
    return overlaps


def _ranks(lower: Any, upper: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Replace the bounds by integers in the same order."""
    both = pa.concat_arrays([array_of_chunks(lower), array_of_chunks(upper)])
    ranks = numpy_of(pc.rank(both, tiebreaker="dense").cast(pa.int64()))
    return ranks[: len(lower)], ranks[len(lower) :]
