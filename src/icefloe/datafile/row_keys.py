"""`RowKeys`: rows by the values of their key columns: which row of a source has the key of a table's row.

A key with a null is no row's: null equals nothing, as in `MERGE ... ON a = b`. NaN equals NaN, and 0.0 equals -0.0. Comparing other columns is
`same_values.py`; the keys of equality deletes, where null equals null, are `equality_key_set.py`. Spec: Identifier Field IDs.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.kernel.arrow_values import array_of_chunks, mask_array, numpy_of
from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.types import NestedField, StructType

Places = NDArray[np.int64]


class RowKeys:
    """The keys of a source's rows, each at most once.

    A key is looked up column by column: each column's values are numbered, and the numbers so far, combined with the next, are numbered anew, so that they
    never outgrow 64 bits. Memory: the distinct values of each column, and 8 bytes a row.
    """

    def __init__(self, columns: Sequence[Any]) -> None:
        """`columns` are Arrow arrays of one length, one for each key column."""
        ready = [_comparable(column) for column in columns]
        self.rows = len(ready[0])
        known = np.logical_and.reduce([numpy_of(column.is_valid()) for column in ready])
        self._places: Places = np.flatnonzero(known)
        whole = len(self._places) == self.rows
        self._values: list[Any] = []
        # For each column but the first: the combinations that stand in a row, ascending.
        self._combined: list[Places] = []
        numbers: Places = np.zeros(len(self._places), np.int64)
        for place, column in enumerate(ready):
            chosen = column if whole else column.filter(mask_array(known))
            values = pc.unique(chosen)
            self._values.append(values)
            found = _numbers(chosen, values)
            if not place:
                numbers = found
                continue
            combinations, numbers = np.unique(numbers * len(values) + found, return_inverse=True)
            self._combined.append(combinations)
        keys = len(self._combined[-1]) if self._combined else len(self._values[0])
        self._numbers = numbers
        self._row_of = np.empty(keys, np.int64)
        # Written backwards, so that the first row of a key is the one that stays.
        self._row_of[numbers[::-1]] = self._places[::-1]

    @property
    def values(self) -> Sequence[Any]:
        """The distinct values of each key column among the rows whose key is whole."""
        return tuple(self._values)

    @property
    def count(self) -> int:
        """How many keys there are."""
        return len(self._row_of)

    def repeated(self) -> Places:
        """The rows, from 0, whose key a row before them has, ascending; rows with a null in their key are never among them."""
        found: Places = self._places[self._row_of[self._numbers] != self._places]
        return found

    def rows_of(self, columns: Sequence[Any]) -> Places:
        """For each row of a table's key columns, the source's row of the same key; -1 where there is none."""
        length = len(columns[0])
        found = np.full(length, -1, np.int64)
        if not len(self._row_of):
            return found
        candidates = np.arange(length)
        numbers: Places = np.zeros(length, np.int64)
        for place, (column, values) in enumerate(zip(columns, self._values, strict=True)):
            chosen = column if len(candidates) == length else array_of_chunks(column).take(pa.array(candidates))
            these = _numbers(_comparable(chosen), values)
            there = these >= 0
            if place:
                known = self._combined[place - 1]
                combined = numbers * len(values) + these
                spots = np.minimum(np.searchsorted(known, combined), len(known) - 1)
                there &= known[spots] == combined
                these = spots.astype(np.int64)
            candidates, numbers = candidates[there], these[there]
            if not len(candidates):
                return found
        found[candidates] = self._row_of[numbers]
        return found


def key_columns(rows: Any, schema: Schema, field_ids: Sequence[int]) -> list[Any]:
    """The key columns of a table or batch in the Arrow form of the schema, or of a part of it: inside structs too, null where a struct around is."""
    return [_column(rows, _steps(schema.fields, field_id)) for field_id in field_ids]


def _steps(fields: tuple[NestedField, ...], field_id: int) -> tuple[int, ...]:
    """The way to a field, as positions from the top-level column down through structs; empty where it is not there."""
    for position, field in enumerate(fields):
        if field.field_id == field_id:
            return (position,)
        if isinstance(field.field_type, StructType) and (inner := _steps(field.field_type.fields, field_id)):
            return (position, *inner)
    return ()


def _column(rows: Any, steps: tuple[int, ...]) -> Any:
    column = array_of_chunks(rows.column(steps[0]))
    return pc.struct_field(column, list(steps[1:])) if len(steps) > 1 else column


def _comparable(column: Any) -> Any:
    """The column in one piece, so that equal values have equal bits: NaN is one, and so is zero."""
    column = array_of_chunks(column)
    column = column.storage if isinstance(column, pa.ExtensionArray) else column
    if pa.types.is_floating(column.type):
        column = pc.add(column, pa.scalar(0.0, column.type))
        return pc.if_else(pc.is_nan(column), pa.scalar(float("nan"), column.type), column)
    return column


def _numbers(column: Any, values: Any) -> Places:
    """The place of each value among `values`, -1 where it is none of them or null."""
    found = pc.index_in(column, value_set=values, skip_nulls=True)
    return np.asarray(pc.fill_null(found, -1)).astype(np.int64)
