"""The order of entries in new manifests, from which a planner skips most manifests: by one partition field after another, or along a curve through all.

A manifest list has the range of each partition field in a manifest, and a planner skips the manifests whose range does not contain the value of a filter.
Sorted by day and then by bucket, all manifests have every bucket. So some orders are compared by the share of manifests that a filter by one value of a field
opens, over all fields. `clustered_entries.py` uses the order. Spec: Manifest Lists (`field_summary`); Scan Planning.
"""

from collections.abc import Iterator, Sequence
from itertools import permutations
from math import factorial
from typing import Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.spec.arrow_values import array_of_chunks, numpy_of

Numbers = NDArray[np.int64]
# Most partitions that are sorted for the comparison of all orders of their fields, each counted once for each order: about a second of work. Above it only
# the order of the spec, that by ascending number of values, and the curve are compared.
MOST_SORTED = 2_000_000
# Bits of all fields together in a position along the curve.
_CURVE_BITS = 62


def ranks_of(values: Any) -> Numbers:
    """Return the rank of each value of an Arrow array among its distinct values, null last."""
    encoded = array_of_chunks(values).dictionary_encode(null_encoding="encode")
    order = numpy_of(pc.sort_indices(encoded.dictionary).cast("int64"))
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return ranks[numpy_of(encoded.indices).astype(np.int64)]


def sorted_rows(ranks: Sequence[Numbers]) -> Numbers:
    """Return the row numbers in the order of the ranks, the first most significant; equal rows keep their order."""
    return np.lexsort(ranks[::-1]).astype(np.int64)


def clustered_rows(ranks: Sequence[Numbers], rows_per_manifest: int) -> Numbers:
    """Return the row numbers in the order whose manifests of `rows_per_manifest` rows a filter by one value of a field opens the fewest of.

    Args:
        ranks: The ranks of the rows' values, for each partition field in the order of the spec.
        rows_per_manifest: The number of rows of a new manifest.
    """
    rows = len(ranks[0])
    if len(ranks) < 2 or rows <= rows_per_manifest:
        return sorted_rows(ranks)
    partitions, place, counts = np.unique(np.stack(ranks, axis=1), axis=0, return_inverse=True, return_counts=True)
    columns = list(np.ascontiguousarray(partitions.T))
    # The first of equal ones is taken, and the first is the order of the spec.
    best = min(_orders(columns), key=lambda order: opened_share(columns, counts, order, rows_per_manifest))
    position = np.empty(len(best), np.int64)
    position[best] = np.arange(len(best))
    return np.argsort(position[place.ravel()], kind="stable").astype(np.int64)


def opened_share(columns: Sequence[Numbers], counts: Numbers, order: Numbers, rows_per_manifest: int) -> float:
    """Return the share of manifests that a filter by one value of a field opens, as the sum over all fields.

    Args:
        columns: The ranks of the partitions' values by field.
        counts: The rows of each partition.
        order: The order of the partitions.
        rows_per_manifest: The number of rows of a manifest.
    """
    ends = np.cumsum(counts[order])
    first, last = (ends - counts[order]) // rows_per_manifest, (ends - 1) // rows_per_manifest
    manifests = int(last[-1]) + 1
    share = 0.0
    for column in columns:
        values = column[order]
        low, high = np.full(manifests, np.iinfo(np.int64).max), np.full(manifests, -1, np.int64)
        for manifest in (first, last):
            np.minimum.at(low, manifest, values)
            np.maximum.at(high, manifest, values)
        # A manifest between the first and the last one of a partition has that partition alone.
        alone = high < 0
        opened = int((high - low + 1)[~alone].sum()) + int(alone.sum())
        share += opened / (manifests * (int(values.max()) + 1))
    return share


def _orders(columns: Sequence[Numbers]) -> Iterator[Numbers]:
    """Yield the orders of partitions to compare."""
    yield sorted_rows(columns)
    if factorial(len(columns)) * len(columns[0]) <= MOST_SORTED:
        yield from map(sorted_rows, list(permutations(columns))[1:])
    else:
        yield sorted_rows(sorted(columns, key=lambda column: int(column.max())))
    yield np.lexsort((*columns[::-1], _curve(columns))).astype(np.int64)


def _curve(columns: Sequence[Numbers]) -> NDArray[np.uint64]:
    """Return the position of each partition along a Z-shaped curve: the bits of all ranks in turn, each rank scaled to the same range."""
    bits = _CURVE_BITS // len(columns)
    position = np.zeros(len(columns[0]), np.uint64)
    scaled = [(column.astype(np.float64) / (int(column.max()) + 1) * (1 << min(bits, 50))).astype(np.uint64) for column in columns]
    for bit in range(min(bits, 50)):
        for place, column in enumerate(scaled):
            position |= ((column >> np.uint64(bit)) & np.uint64(1)) << np.uint64(bit * len(columns) + len(columns) - 1 - place)
    return position
