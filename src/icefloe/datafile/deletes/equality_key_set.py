"""Equality deletes as sets of keys: which rows of a batch have the values of a deleted row in every key column.

Null equals null and NaN equals NaN, as Java's comparators have it, which also tell -0.0 from 0.0. Reading the files is `delete_files.py`.
Spec: Equality Delete Files.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.kernel.schema.arrow_schema import schema_to_arrow
from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.types import NestedField, StructType

Mask = NDArray[np.bool_]


class KeySet:
    """The keys of deleted rows. `fields` are the key columns, inside the structs they lie in; every end of `fields` is a key column.

    A key is looked up column by column: each column's values are numbered, and the numbers seen so far, combined with the next, are numbered anew, so that they
    never outgrow 64 bits. Rows whose value in one column is no deleted one are out before the next column is looked at.
    """

    def __init__(self, fields: tuple[NestedField, ...], keys: Sequence[pa.RecordBatch]) -> None:
        """`keys` are batches of the deleted rows, in the Arrow form of the fields."""
        self.fields = fields
        self._steps = _steps(fields)
        self._values: list[Any] = []
        # For each column but the first: the combinations that stand in a deleted row, ascending.
        self._known: list[NDArray[np.int64]] = []
        table = pa.Table.from_batches(keys, schema=schema_to_arrow(Schema(*fields)))
        self.rows = table.num_rows
        numbers: NDArray[np.int64] | None = None
        for steps in self._steps:
            column = _comparable(_column(table, steps))
            values = pc.unique(column)
            self._values.append(values)
            found = _numbers(column, values)
            if numbers is None:
                numbers = found
                continue
            combined = numbers * len(values) + found
            self._known.append(np.unique(combined))
            numbers = np.searchsorted(self._known[-1], combined)

    @property
    def nbytes(self) -> int:
        """What the set takes in memory, about."""
        return int(sum(values.nbytes for values in self._values) + sum(known.nbytes for known in self._known))

    def deleted_rows(self, rows: Any) -> Mask:
        """For each row of a batch in the Arrow form of `fields`, whether its key is in the set."""
        deleted = np.zeros(rows.num_rows, np.bool_)
        if not self.rows:
            return deleted
        numbers = _numbers(_comparable(_column(rows, self._steps[0])), self._values[0])
        candidates = np.flatnonzero(numbers >= 0)
        numbers = numbers[candidates]
        for steps, values, known in zip(self._steps[1:], self._values[1:], self._known, strict=True):
            if not len(candidates):
                return deleted
            column = _column(rows, steps)
            chosen = column if len(candidates) == len(column) else column.take(pa.array(candidates))
            found = _numbers(_comparable(chosen), values)
            combined = numbers * len(values) + found
            places = np.minimum(np.searchsorted(known, combined), len(known) - 1)
            there = (found >= 0) & (known[places] == combined)
            candidates, numbers = candidates[there], places[there]
        deleted[candidates] = True
        return deleted


def _steps(fields: tuple[NestedField, ...], above: tuple[int, ...] = ()) -> list[tuple[int, ...]]:
    """The way to each key column, as positions from the top-level column down."""
    found: list[tuple[int, ...]] = []
    for position, field in enumerate(fields):
        way = (*above, position)
        found += _steps(field.field_type.fields, way) if isinstance(field.field_type, StructType) else [way]
    return found


def _column(rows: Any, steps: tuple[int, ...]) -> Any:
    column = rows.column(steps[0])
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    return pc.struct_field(column, list(steps[1:])) if len(steps) > 1 else column


def _comparable(column: Any) -> Any:
    """The column so that equal values have equal bits: NaN is one."""
    if pa.types.is_floating(column.type):
        return pc.if_else(pc.is_nan(column), pa.scalar(float("nan"), column.type), column)
    return column


def _numbers(column: Any, values: Any) -> NDArray[np.int64]:
    """The place of each value among `values`, -1 where it is none of them; null is looked up like any other."""
    found = pc.index_in(column, value_set=values)
    return np.asarray(pc.fill_null(found, -1)).astype(np.int64)
