"""`PartitionKeys`: the distinct partition tuples of some files, numbered, to find the files of other manifests that lie in the same partition.

Spec: Scan Planning, note 3 for floating point values.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.kernel.arrow_values import array_of_chunks, filled, numpy_of, scalar_of
from icefloe.kernel.manifest.manifest_columns import partition_column
from icefloe.kernel.types import StructType

Numbers = NDArray[np.int64]


class PartitionKeys:
    """The partition tuples of the rows of `entries` (a `ManifestColumns` table of one partition spec).

    `numbers` has the tuple's number for each row, from 0. Null equals null; floats are equal where their bits are, all NaN being one, so that -0.0 is not 0.0.
    """

    def __init__(self, entries: Any, partition_type: StructType) -> None:
        self._columns = [partition_column(field.field_id) for field in partition_type.fields]
        self._values: list[Any] = []  # of each column the distinct ones
        self._tuples: list[Numbers] = []  # of each column the distinct pairs of a tuple's number so far and a value's number
        self.numbers: Numbers = np.zeros(entries.num_rows, dtype=np.int64)
        for name in self._columns:
            column = _canonical(entries[name])
            distinct = pc.unique(column)
            pairs = self.numbers * len(distinct) + _places(column, distinct)
            found, numbers = np.unique(pairs, return_inverse=True)
            self.numbers = numbers.reshape(-1).astype(np.int64)
            self._values.append(distinct)
            self._tuples.append(found)

    def find(self, entries: Any) -> Numbers:
        """For each row of another table of the same spec the number of its tuple, -1 where none of the files has it."""
        numbers: Numbers = np.zeros(entries.num_rows, dtype=np.int64)
        for name, distinct, known in zip(self._columns, self._values, self._tuples, strict=True):
            places = _places(_canonical(entries[name]), distinct)
            pairs = numbers * len(distinct) + places
            at = np.searchsorted(known, pairs)
            same = known[np.minimum(at, len(known) - 1)] == pairs if len(known) else np.zeros(len(pairs), dtype=bool)
            numbers = np.where(same & (numbers >= 0) & (places >= 0), at, -1)
        return numbers


def _canonical(column: Any) -> Any:
    """A column in a form whose equality is that of partitions."""
    plain = array_of_chunks(column)
    if not pa.types.is_floating(plain.type):
        return plain
    one_nan = pc.if_else(pc.is_nan(plain), scalar_of(float("nan"), plain.type), plain)
    return one_nan.view(pa.int32() if plain.type == pa.float32() else pa.int64())


def _places(column: Any, distinct: Any) -> Numbers:
    """Where each value stands among the distinct ones, -1 where it does not."""
    found: Numbers = numpy_of(filled(pc.index_in(column, value_set=distinct), -1)).astype(np.int64)
    return found
