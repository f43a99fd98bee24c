"""`EqualityKeySet`: the keys of equality deletes. A row is deleted if its values in all key columns equal those of a deleted row.

Null equals null, NaN equals NaN, and -0.0 does not equal 0.0, as in Java's comparators. `delete_file_reader.py` reads the files.
Spec: Equality Delete Files.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.spec.arrow_values import positions_array
from icefloe.spec.schema.arrow_schema import schema_to_arrow
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import NestedField, StructType

Mask = NDArray[np.bool_]


class EqualityKeySet:
    """The set of the keys of deleted rows, in which `deleted_rows` looks up the rows of data files.

    The key columns are looked up one after the other. The distinct values of a column have numbers, and so have the distinct pairs of the number of the
    columns before it and the number of its value. So a key of any length is a number of 64 bits. A row whose value in a column is in no deleted key is not
    looked up in the next columns.
    """

    def __init__(self, fields: tuple[NestedField, ...], keys: Sequence[pa.RecordBatch]) -> None:
        """Index the keys of deleted rows.

        Args:
            fields: The key columns, with their structs; every field that is not a struct is a key column.
            keys: Batches of the deleted rows, with the Arrow types of the fields.
        """
        self.fields = fields
        self._steps = _steps(fields)
        self._values: list[Any] = []
        # For each column but the first: the ascending combinations that occur in deleted rows.
        self._combinations: list[NDArray[np.int64]] = []
        table = pa.Table.from_batches(keys, schema=schema_to_arrow(Schema(*fields)))
        self.rows = table.num_rows
        numbers: NDArray[np.int64] | None = None
        for steps in self._steps:
            column = _comparable(_column(table, steps))
            values = pc.unique(column)
            self._values.append(values)
            column_numbers = _numbers(column, values)
            if numbers is None:
                numbers = column_numbers
                continue
            combined = numbers * len(values) + column_numbers
            self._combinations.append(np.unique(combined))
            numbers = np.searchsorted(self._combinations[-1], combined)

    @property
    def nbytes(self) -> int:
        """The estimated memory of the set in bytes."""
        return int(sum(values.nbytes for values in self._values) + sum(combinations.nbytes for combinations in self._combinations))

    def deleted_rows(self, rows: Any) -> Mask:
        """Return a mask of the rows of a batch whose key is in the set. The batch has the key columns with the Arrow types of `fields`."""
        deleted = np.zeros(rows.num_rows, np.bool_)
        if not self.rows:
            return deleted
        numbers = _numbers(_comparable(_column(rows, self._steps[0])), self._values[0])
        candidates = np.flatnonzero(numbers >= 0)
        numbers = numbers[candidates]
        for steps, values, combinations in zip(self._steps[1:], self._values[1:], self._combinations, strict=True):
            if not len(candidates):
                return deleted
            column = _column(rows, steps)
            key_values = column if len(candidates) == len(column) else column.take(positions_array(candidates))
            column_numbers = _numbers(_comparable(key_values), values)
            combined = numbers * len(values) + column_numbers
            nearest = np.minimum(np.searchsorted(combinations, combined), len(combinations) - 1)
            matches = (column_numbers >= 0) & (combinations[nearest] == combined)
            candidates, numbers = candidates[matches], nearest[matches]
        deleted[candidates] = True
        return deleted


def _steps(fields: tuple[NestedField, ...], above: tuple[int, ...] = ()) -> list[tuple[int, ...]]:
    """Return the path to each key column, as indexes from the top-level column down."""
    paths: list[tuple[int, ...]] = []
    for position, field in enumerate(fields):
        path = (*above, position)
        paths += _steps(field.field_type.fields, path) if isinstance(field.field_type, StructType) else [path]
    return paths


def _column(rows: Any, steps: tuple[int, ...]) -> Any:
    column = rows.column(steps[0])
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    return pc.struct_field(column, list(steps[1:])) if len(steps) > 1 else column


def _comparable(column: Any) -> Any:
    """Return the column with a single bit pattern for NaN, so that equal values have equal bits."""
    if pa.types.is_floating(column.type):
        return pc.if_else(pc.is_nan(column), pa.scalar(float("nan"), column.type), column)
    return column


def _numbers(column: Any, values: Any) -> NDArray[np.int64]:
    """Return the index of each value in `values`, or -1 if it is not among them; null is treated as a value."""
    indexes = pc.index_in(column, value_set=values)
    return np.asarray(pc.fill_null(indexes, -1)).astype(np.int64)
