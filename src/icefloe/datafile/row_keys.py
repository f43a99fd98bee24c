"""`RowKeys`: an index of source rows by their key columns, in which the rows of a table are looked up for an upsert.

A key with a null matches no row, because null equals nothing in `MERGE ... ON a = b`. NaN equals NaN, and 0.0 equals -0.0. `same_values.py` compares the other
columns; `deletes/equality_key_set.py` is a similar index for equality deletes, in which null equals null. Spec: Identifier Field IDs.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.spec.arrow_values import array_of_chunks, mask_array, numpy_of, positions_array
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import NestedField, StructType

Positions = NDArray[np.int64]


class RowKeys:
    """An index of source rows by their keys, in which `rows_of` looks up the rows of a table.

    The key columns are looked up one after the other. The distinct values of a column have numbers, and so have the distinct pairs of the number of the
    columns before it and the number of its value. So a key of any length is a number of 64 bits. The index needs memory for the distinct values of each
    column, and 8 bytes for each row.
    """

    def __init__(self, columns: Sequence[Any]) -> None:
        """Index the rows. `columns` are Arrow arrays of one length, one for each key column."""
        comparable = [_comparable(column) for column in columns]
        self.rows = len(comparable[0])
        not_null = np.logical_and.reduce([numpy_of(column.is_valid()) for column in comparable])
        self._positions: Positions = np.flatnonzero(not_null)
        has_nulls = len(self._positions) < self.rows
        self._values: list[Any] = []
        # For each column but the first: the ascending combinations that occur in a row.
        self._combined: list[Positions] = []
        numbers: Positions = np.zeros(len(self._positions), np.int64)
        for place, column in enumerate(comparable):
            key_values = column.filter(mask_array(not_null)) if has_nulls else column
            values = pc.unique(key_values)
            self._values.append(values)
            column_numbers = _numbers(key_values, values)
            if not place:
                numbers = column_numbers
                continue
            combinations, numbers = np.unique(numbers * len(values) + column_numbers, return_inverse=True)
            self._combined.append(combinations)
        keys = len(self._combined[-1]) if self._combined else len(self._values[0])
        self._numbers = numbers
        self._row_of = np.empty(keys, np.int64)
        # Assigned backwards, so that the first row of a repeated key remains.
        self._row_of[numbers[::-1]] = self._positions[::-1]

    @property
    def values(self) -> Sequence[Any]:
        """The distinct values of each key column as Arrow arrays, without rows whose key has a null."""
        return tuple(self._values)

    @property
    def count(self) -> int:
        """The number of distinct keys without nulls."""
        return len(self._row_of)

    def repeated_rows(self) -> Positions:
        """Return the ascending numbers, counted from 0, of the rows whose key occurs in an earlier row. Rows with a null in their key are left out."""
        rows: Positions = self._positions[self._row_of[self._numbers] != self._positions]
        return rows

    def rows_of(self, columns: Sequence[Any]) -> Positions:
        """Return for each row of a table the number of the first source row with the same key, or -1. `columns` are the table's key columns."""
        length = len(columns[0])
        source_rows = np.full(length, -1, np.int64)
        if not len(self._row_of):
            return source_rows
        candidates = np.arange(length)
        numbers: Positions = np.zeros(length, np.int64)
        for place, (column, values) in enumerate(zip(columns, self._values, strict=True)):
            key_values = column if len(candidates) == length else array_of_chunks(column).take(positions_array(candidates))
            column_numbers = _numbers(_comparable(key_values), values)
            matches = column_numbers >= 0
            if place:
                combinations = self._combined[place - 1]
                combined = numbers * len(values) + column_numbers
                nearest = np.minimum(np.searchsorted(combinations, combined), len(combinations) - 1)
                matches &= combinations[nearest] == combined
                column_numbers = nearest.astype(np.int64)
            candidates, numbers = candidates[matches], column_numbers[matches]
            if not len(candidates):
                return source_rows
        source_rows[candidates] = self._row_of[numbers]
        return source_rows


def key_columns(rows: Any, schema: Schema, field_ids: Sequence[int]) -> list[Any]:
    """Return the key columns of a table or batch that has the schema's Arrow columns. A key column in a struct is null where the struct is null."""
    return [_column(rows, _steps(schema.fields, field_id)) for field_id in field_ids]


def _steps(fields: tuple[NestedField, ...], field_id: int) -> tuple[int, ...]:
    """Return the path to a field, as indexes from the top-level column down through structs; empty if there is no such field."""
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
    """Return the column as one array in which equal values have equal bits, with one bit pattern for NaN and one for zero."""
    column = array_of_chunks(column)
    column = column.storage if isinstance(column, pa.ExtensionArray) else column
    if pa.types.is_floating(column.type):
        column = pc.add(column, pa.scalar(0.0, column.type))
        return pc.if_else(pc.is_nan(column), pa.scalar(float("nan"), column.type), column)
    return column


def _numbers(column: Any, values: Any) -> Positions:
    """Return the index of each value in `values`; -1 if it is null or not among them."""
    indexes = pc.index_in(column, value_set=values, skip_nulls=True)
    return np.asarray(pc.fill_null(indexes, -1)).astype(np.int64)
