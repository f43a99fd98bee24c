"""Tests whether a delete file can delete a row of a data file in its scope, by comparing the bounds and counts of both files.

`delete_file_index.py` determines the scope. Spec: Scan Planning; Equality Delete Files.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.spec.arrow_values import array_of_chunks, fill_nulls, numpy_of
from icefloe.spec.expressions.metrics_evaluator import ColumnRange, Mask

Indices = NDArray[np.int64]
# A test of pairs: receives row numbers of data files and of delete files, and returns a mask of the pairs that may have a row in common.
PairTest = Callable[[Indices, Indices], Mask]
# Replacements for unknown bounds.
_LEAST, _LARGEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class _Spans:
    """The bounds of one column in several files, as numbers that have the same order as the values.

    Attributes:
        lowest: A number for the lower bound of each file.
        highest: A number for the upper bound of each file.
        may_have_value: A mask of the files that may have a value other than null; None for all files.
        may_have_null: A mask of the files that may have a null.
    """

    lowest: NDArray[np.int64]
    highest: NDArray[np.int64]
    may_have_value: Mask | None
    may_have_null: Mask


def column_test(data: ColumnRange, deletes: ColumnRange) -> PairTest:
    """Return a test whether the two files of a pair may have an equal value in one column; null equals null.

    Args:
        data: Bounds of the data files.
        deletes: Bounds of the delete files, of the same type. The type has no NaN.
    """
    left, right = _spans_of(data, deletes)
    nulls = left.may_have_null.any() and right.may_have_null.any()

    def test(files: Indices, delete_files: Indices) -> Mask:
        mask: Mask = (left.lowest[files] <= right.highest[delete_files]) & (right.lowest[delete_files] <= left.highest[files])
        for side, places in ((left, files), (right, delete_files)):
            if side.may_have_value is not None:
                mask &= side.may_have_value[places]
        if nulls:
            mask |= left.may_have_null[files] & right.may_have_null[delete_files]
        return mask

    return test


def equality_test(data: Mapping[int, ColumnRange], deletes: Mapping[int, ColumnRange], compared: Mapping[int, Mask]) -> PairTest:
    """Return a test whether the two files of a pair may have rows with equal values in every compared column.

    Args:
        data: Bounds of the data files, by field id.
        deletes: Bounds of the delete files, by field id.
        compared: For each field id a mask of the delete files that compare the column.
    """
    tests = [(column_test(column, deletes[field_id]), compared[field_id]) for field_id, column in data.items()]

    def test(files: Indices, delete_files: Indices) -> Mask:
        mask = np.ones(len(files), dtype=bool)
        for test_of_column, is_compared in tests:
            mask &= ~is_compared[delete_files] | test_of_column(files, delete_files)
        return mask

    return test


def path_range(paths: Any) -> ColumnRange:
    """Return the ranges of the path column for data files: each file has one value, its own path."""
    none, every = np.zeros(len(paths), dtype=bool), np.ones(len(paths), dtype=bool)
    plain = array_of_chunks(paths)
    return ColumnRange(lower=plain, upper=plain, may_have_null=none, may_have_nan=none, may_have_value=every)


def _spans_of(data: ColumnRange, deletes: ColumnRange) -> tuple[_Spans, _Spans]:
    """Return the bounds of both sides as numbers with the order of the values: integers unchanged, other types as ranks among all bounds."""
    arrays = [data.lower, data.upper, deletes.lower, deletes.upper]
    if pa.types.is_integer(data.lower.type):
        numbers = [numpy_of(fill_nulls(array, 0)).astype(np.int64, copy=False) for array in arrays]
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
