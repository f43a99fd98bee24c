"""Whether a delete file can concern a data file that it is scoped to, by the bounds and counts of both: pairs in, a mask out.

What its scope is, is `delete_file_index.py`. Spec: Scan Planning; Equality Delete Files.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.kernel.arrow_values import array_of_chunks, filled, numpy_of
from icefloe.kernel.expressions.metrics_evaluator import ColumnRange, Mask

Indices = NDArray[np.int64]
# Which of some pairs of a data file and a delete file may go together.
PairTest = Callable[[Indices, Indices], Mask]
# Bounds that are not known.
_LEAST, _LARGEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class _Spans:
    """One column of some files: numbers in the order of the least and the largest value; which may have a value at all (None: each), and which a null."""

    lowest: NDArray[np.int64]
    highest: NDArray[np.int64]
    may_have_value: Mask | None
    may_have_null: Mask


def column_test(data: ColumnRange, deletes: ColumnRange) -> PairTest:
    """Of one column: pairs whose values may be equal. Null equals null. Both ranges are of one type that has no NaN."""
    left, right = _spans_of(data, deletes)
    nulls = left.may_have_null.any() and right.may_have_null.any()

    def test(files: Indices, found: Indices) -> Mask:
        mask: Mask = (left.lowest[files] <= right.highest[found]) & (right.lowest[found] <= left.highest[files])
        for side, places in ((left, files), (right, found)):
            if side.may_have_value is not None:
                mask &= side.may_have_value[places]
        if nulls:
            mask |= left.may_have_null[files] & right.may_have_null[found]
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
    plain = array_of_chunks(paths)
    return ColumnRange(lower=plain, upper=plain, may_have_null=none, may_have_nan=none, may_have_value=every)


def _spans_of(data: ColumnRange, deletes: ColumnRange) -> tuple[_Spans, _Spans]:
    """Both sides as numbers that compare as their values do: whole numbers themselves, of other types the ranks among the bounds of both."""
    arrays = [data.lower, data.upper, deletes.lower, deletes.upper]
    if pa.types.is_integer(data.lower.type):
        numbers = [numpy_of(filled(array, 0)).astype(np.int64, copy=False) for array in arrays]
    else:
        ranks = numpy_of(pc.rank(pa.concat_arrays(arrays), tiebreaker="dense").cast(pa.int64()))
        numbers = np.split(ranks, np.cumsum([len(array) for array in arrays])[:-1])
    return _spans(data, numbers[0], numbers[1]), _spans(deletes, numbers[2], numbers[3])


def _spans(column: ColumnRange, lower: NDArray[np.int64], upper: NDArray[np.int64]) -> _Spans:
    return _Spans(
        _where_known(column.lower, lower, _LEAST),
        _where_known(column.upper, upper, _LARGEST),
        None if column.may_have_value.all() else column.may_have_value,
        column.may_have_null,
    )


def _where_known(bounds: Any, numbers: NDArray[np.int64], otherwise: int) -> NDArray[np.int64]:
    return np.where(numpy_of(pc.is_valid(bounds)), numbers, otherwise) if bounds.null_count else numbers
