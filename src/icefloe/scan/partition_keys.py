"""`PartitionKeys`: numbers for the distinct partition tuples of some files, to find files of other manifests in the same partition.

Spec: Scan Planning, note 3 for floating point values.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.spec.arrow_values import array_of_chunks, filled, numpy_of, scalar_of
from icefloe.spec.manifest.manifest_columns import partition_column
from icefloe.spec.types import StructType

Numbers = NDArray[np.int64]


class PartitionKeys:
    """The distinct partition tuples of the rows of a table, numbered from 0.

    Null equals null. Floats are compared by their bits, with one form of NaN, so that -0.0 is not 0.0.

    Args:
        entries: A `ManifestColumns` table of one partition spec.
        partition_type: The type of the spec's partition tuples.

    Attributes:
        numbers: The number of the tuple of each row.
    """

    def __init__(self, entries: Any, partition_type: StructType) -> None:
        self._columns = [partition_column(field.field_id) for field in partition_type.fields]
        self._values: list[Any] = []  # the distinct values of each column
        self._tuples: list[
            Numbers
        ] = []  # for each column the distinct pairs of the number of the tuple up to it and the number of its value
        self.numbers: Numbers = np.zeros(entries.num_rows, dtype=np.int64)
        for name in self._columns:
            column = _canonical(entries[name])
            distinct = pc.unique(column)
            pairs = self.numbers * len(distinct) + _places(column, distinct)
            distinct_pairs, numbers = np.unique(pairs, return_inverse=True)
            self.numbers = numbers.reshape(-1).astype(np.int64)
            self._values.append(distinct)
            self._tuples.append(distinct_pairs)

    def find(self, entries: Any) -> Numbers:
        """Return for each entry the number of its partition tuple here; -1 if no file has it. The entries are of the same spec."""
        numbers: Numbers = np.zeros(entries.num_rows, dtype=np.int64)
        for name, distinct, distinct_pairs in zip(self._columns, self._values, self._tuples, strict=True):
            places = _places(_canonical(entries[name]), distinct)
            pairs = numbers * len(distinct) + places
            at = np.searchsorted(distinct_pairs, pairs)
            last = len(distinct_pairs) - 1
            same = distinct_pairs[np.minimum(at, last)] == pairs if len(distinct_pairs) else np.zeros(len(pairs), dtype=bool)
            numbers = np.where(same & (numbers >= 0) & (places >= 0), at, -1)
        return numbers


def _canonical(column: Any) -> Any:
    """Return a column in a form in which equal values are equal partition values."""
    plain = array_of_chunks(column)
    if not pa.types.is_floating(plain.type):
        return plain
    one_nan = pc.if_else(pc.is_nan(plain), scalar_of(float("nan"), plain.type), plain)
    return one_nan.view(pa.int32() if plain.type == pa.float32() else pa.int64())


def _places(column: Any, distinct: Any) -> Numbers:
    """Return the place of each value among the distinct values, -1 where it is not among them."""
    places: Numbers = numpy_of(filled(pc.index_in(column, value_set=distinct), -1)).astype(np.int64)
    return places
