"""Whether a delete file can concern a data file that it is scoped to, by the bounds and counts of both: pairs in, a mask out.

What its scope is, is `delete_index.py`. Floor: kernel.scan. Spec: Scan Planning; Equality Delete Files.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.kernel.arrow_values import numpy_of
from icefloe.kernel.expressions.ranges import ColumnRange, Mask

Indices = NDArray[np.int64]
# Which of some pairs of a data file and a delete file may go together.
PairTest = Callable[[Indices, Indices], Mask]


@dataclass(frozen=True, slots=True)
class _Spans:
    """One column of some files: ranks of the least and the largest value, among the bounds of both sides; and whether there may be nulls.

    A file without an ordinary value has its least above its largest, so that it overlaps nothing.
    """

    lowest: NDArray[np.int64]
    highest: NDArray[np.int64]
    may_have_null: Mask


def column_test(data: ColumnRange, deletes: ColumnRange) -> PairTest:
    """Of one column: pairs whose values may be equal. Null equals null. Both ranges are of one type that has no NaN."""
    left, right = _ranked(data, deletes)

    def test(files: Indices, found: Indices) -> Mask:
        overlap = (left.lowest[files] <= right.highest[found]) & (right.lowest[found] <= left.highest[files])
        mask: Mask = overlap | (left.may_have_null[files] & right.may_have_null[found])
        return mask

    return test


def equality_test(data: Mapping[int, ColumnRange], deletes: Mapping[int, ColumnRange], compared: Mapping[int, Mask]) -> PairTest:
    """Pairs of which a row may be equal in every column: the ranges by field id, and whether each delete file compares that column."""
    tests = [(column_test(column, deletes[field_id]), compared[field_id]) for field_id, column in data.items()]

    def test(files: Indices, found: Indices) -> Mask:
        mask = np.ones(len(files), dtype=bool)
        for one, is_compared in tests:
            mask &= ~is_compared[found] | one(files, found)
        return mask

    return test


def path_range(paths: Any) -> ColumnRange:
    """The paths of data files as ranges of one value each."""
    none, every = np.zeros(len(paths), dtype=bool), np.ones(len(paths), dtype=bool)
    plain = paths.combine_chunks() if isinstance(paths, pa.ChunkedArray) else paths
    return ColumnRange(lower=plain, upper=plain, may_have_null=none, may_have_nan=none, may_have_value=every)


def _ranked(data: ColumnRange, deletes: ColumnRange) -> tuple[_Spans, _Spans]:
    arrays = [data.lower, data.upper, deletes.lower, deletes.upper]
    ranks = numpy_of(pc.rank(pa.concat_arrays(arrays), tiebreaker="dense").cast(pa.int64()))
    parts: Sequence[NDArray[np.int64]] = np.split(ranks, np.cumsum([len(array) for array in arrays])[:-1])
    return _spans(data, parts[0], parts[1], len(ranks)), _spans(deletes, parts[2], parts[3], len(ranks))


def _spans(column: ColumnRange, lower: NDArray[np.int64], upper: NDArray[np.int64], above_all: int) -> _Spans:
    known_lower, known_upper = numpy_of(pc.is_valid(column.lower)), numpy_of(pc.is_valid(column.upper))
    return _Spans(
        np.where(column.may_have_value, np.where(known_lower, lower, -1), above_all + 1),
        np.where(column.may_have_value, np.where(known_upper, upper, above_all), -2),
        column.may_have_null,
    )
