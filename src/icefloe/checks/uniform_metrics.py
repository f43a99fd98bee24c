"""`statistics_are_clean`: a quick test that column statistics violate no rule, for manifests whose entries all have statistics of the same fields.

Most writers write such manifests, and most violate no rule. Their statistics are matrices, with a row for each entry and a column for each field, which are
compared without searching or sorting. Manifests that are not uniform, or could be wrong, are left to `metrics_rules.py`, which makes the findings.
Spec: Data File Fields (value_counts, null_value_counts, nan_value_counts, lower_bounds, upper_bounds); Appendix D.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.checks.manifest_entries import ManifestEntries
from icefloe.spec.arrow_values import fill_nulls, numpy_of, offsets_of, positions_array
from icefloe.spec.types import DoubleType, FloatType, PrimitiveType
from icefloe.spec.values import bound_number_type, bounds_to_array


@dataclass(frozen=True, slots=True)
class _Matrix:
    """A map column in which every entry has the same fields in the same order.

    Attributes:
        ids: The field ids of each entry, in their order.
        values: The values as an Arrow array, entry by entry: first all values of the first entry, in the order of `ids`.
        rows: The number of entries.
    """

    ids: Sequence[int]
    values: Any
    rows: int

    @property
    def numbers(self) -> NDArray[np.int64]:
        """The values as a matrix of counts, with a row for each entry and a column for each field."""
        return numpy_of(self.values).reshape(self.rows, len(self.ids))

    def columns(self, field_ids: Sequence[int]) -> list[int]:
        """Return the column numbers of some fields in the matrix."""
        places = {field_id: place for place, field_id in enumerate(self.ids)}
        return [places[field_id] for field_id in field_ids]


def statistics_are_clean(
    entries: ManifestEntries, kinds: Mapping[int, PrimitiveType], known_ids: AbstractSet[int], top_level_ids: AbstractSet[int]
) -> bool:
    """Return True if certainly no statistic of a manifest violates a rule.

    Args:
        entries: The entries of the manifest.
        kinds: The type of each column whose bounds can be compared, by field id.
        known_ids: All field ids that may have statistics.
        top_level_ids: The field ids of top-level columns.
    """
    matrices = [
        _matrix(entries, name) for name in ("value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")
    ]
    whole = [matrix for matrix in matrices if matrix is not None]
    if len(whole) < len(matrices) or any(not known_ids >= set(matrix.ids) for matrix in whole):
        return False
    values, nulls, nans, lower, upper = whole
    return _counts_fit(entries, values, (nulls, nans), top_level_ids) and _bounds_fit(lower, upper, kinds)


def _matrix(entries: ManifestEntries, name: str) -> _Matrix | None:
    """Return a map column of a manifest, such as `value_counts`, as a matrix with a row for each manifest entry and a column for each field id.

    Returns:
        The matrix; None if the entries have different field ids, or the same in different orders; if only some entries have the map; or if an id is repeated or
        null, or a value is null.
    """
    maps = entries.columns[name]
    if not entries.length or maps.null_count == entries.length:
        return _Matrix((), maps.items[:0], entries.length)
    ends = offsets_of(maps)
    start, stop, width = int(ends[0]), int(ends[-1]), int(ends[1] - ends[0])
    if maps.null_count or (np.diff(ends) != width).any():
        return None
    keys, values = maps.keys.slice(start, stop - start), maps.items.slice(start, stop - start)
    if keys.null_count or values.null_count:
        return None
    by_entry = numpy_of(keys).reshape(entries.length, width)
    ids: list[int] = by_entry[0].tolist()
    return _Matrix(ids, values, entries.length) if len(set(ids)) == width and (by_entry == by_entry[0]).all() else None


def _counts_fit(entries: ManifestEntries, values: _Matrix, others: Sequence[_Matrix], top_level_ids: AbstractSet[int]) -> bool:
    totals = values.numbers
    if any(matrix.numbers.min(initial=0) < 0 for matrix in (values, *others)):
        return False
    for other in others:
        parts, wholes = other.numbers, totals
        if list(other.ids) != list(values.ids):
            shared = [field_id for field_id in other.ids if field_id in set(values.ids)]
            parts, wholes = parts[:, other.columns(shared)], wholes[:, values.columns(shared)]
        if (parts > wholes).any():
            return False
    plain = [field_id for field_id in values.ids if field_id in top_level_ids]
    counted = totals if len(plain) == len(values.ids) else totals[:, values.columns(plain)]
    is_other = counted != entries.numbers("record_count")[:, None]
    # The value counts of a position delete file need not equal its record count.
    return not (is_other.any() and is_other[entries.file_content != 1].any())


def _bounds_fit(lower: _Matrix, upper: _Matrix, kinds: Mapping[int, PrimitiveType]) -> bool:
    by_kind: dict[PrimitiveType, list[int]] = {}
    for field_id in dict.fromkeys((*lower.ids, *upper.ids)):
        if field_id in kinds:
            by_kind.setdefault(kinds[field_id], []).append(field_id)
    for kind, field_ids in by_kind.items():
        # A field with only one bound cannot be compared here; the bound must still be checked.
        pairs = [field_id for field_id in field_ids if field_id in set(lower.ids) and field_id in set(upper.ids)]
        if len(pairs) < len(field_ids):
            return False
        number_type = bound_number_type(kind)
        if number_type is None:
            low, high = (bounds_to_array(kind, _select_fields(matrix, pairs)) for matrix in (lower, upper))
            if low.null_count or high.null_count or numpy_of(fill_nulls(pc.greater(low, high), False)).any():
                return False
            continue
        least, greatest = (_bound_numbers(matrix, pairs, number_type) for matrix in (lower, upper))
        if least is None or greatest is None or (least > greatest).any():
            return False
        if isinstance(kind, FloatType | DoubleType) and (np.isnan(least).any() or np.isnan(greatest).any()):
            return False
    return True


def _select_fields(matrix: _Matrix, field_ids: Sequence[int]) -> Any:
    """Return the values of some fields as an Arrow array, entry by entry: first all values of the first entry, in the order of `field_ids`."""
    if list(field_ids) == list(matrix.ids):
        return matrix.values
    places = np.arange(matrix.rows)[:, None] * len(matrix.ids) + np.array(matrix.columns(field_ids))
    return matrix.values.take(positions_array(places.ravel()))


def _bound_numbers(matrix: _Matrix, field_ids: Sequence[int], number_type: str) -> NDArray[Any] | None:
    """Return the bounds of some fields as a matrix of numbers; None if a bound has a different width, as one that was written before a type promotion has."""
    width = np.dtype(number_type).itemsize
    ends = np.frombuffer(matrix.values.buffers()[1], np.int32)[matrix.values.offset : matrix.values.offset + len(matrix.values) + 1]
    shape, places = (matrix.rows, len(matrix.ids)), matrix.columns(field_ids)
    if (np.diff(ends).reshape(shape)[:, places] != width).any():
        return None
    data = matrix.values.buffers()[2]
    # `numbers` has one number for each byte offset at which it could begin, so that the bounds can be gathered without a copy of the bytes.
    numbers: NDArray[Any] = np.ndarray((max(data.size - width + 1, 0),), number_type, buffer=data, strides=(1,))
    return numbers[ends[:-1].reshape(shape)[:, places]]
