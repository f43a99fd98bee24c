"""Pairs of a row that a snapshot removed and a row that it added: equal rows were only copied, rows with equal identifier columns were updated.

Spec: Reserved Field IDs (`_change_type`).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.errors import InvalidInputError
from icefloe.spec.arrow_values import array_of_chunks, mask_array, numpy_of
from icefloe.spec.schema.metadata_columns import CHANGE_TYPE
from icefloe.spec.temporal_arrays import as_numbers, python_list

INSERT, DELETE, UPDATE_BEFORE, UPDATE_AFTER = "INSERT", "DELETE", "UPDATE_BEFORE", "UPDATE_AFTER"

Numbers = NDArray[np.int64]


def without_carry_overs(rows: Any, columns: Sequence[str]) -> Any:
    """Return the changes of one snapshot without rows that were only copied: each removed row cancels one added row that is equal in `columns`."""
    numbers, removed = _row_numbers(rows, columns), _is_removed(rows)
    counts = np.minimum(_counts(numbers, removed), _counts(numbers, ~removed))
    kept = np.ones(len(rows), np.bool_)
    for side in (removed, ~removed):
        kept[side] = _rank(numbers[side]) >= counts[numbers[side]]
    return rows.filter(mask_array(kept))


def with_updates(rows: Any, identifier_columns: Sequence[str], table_name: str, snapshot_id: int) -> Any:
    """Return the changes of one snapshot, with UPDATE_BEFORE and UPDATE_AFTER for a removed and an added row that have equal identifier columns.

    Args:
        rows: The changes, an Arrow table with the column `_change_type`.
        identifier_columns: Names of the columns that identify a row.
        table_name: The table, for the error.
        snapshot_id: The snapshot, for the error.

    Raises:
        InvalidInputError: Rows cannot be paired: several removed or added rows, and at least one row of the other side, have equal identifier columns.
    """
    numbers, removed = _row_numbers(rows, identifier_columns), _is_removed(rows)
    before, after = _counts(numbers, removed), _counts(numbers, ~removed)
    paired = (before > 0) & (after > 0)
    several = paired & ((before > 1) | (after > 1))
    if several.any():
        place = int(np.flatnonzero(several[numbers])[0])
        key = {name: python_list(rows[name].slice(place, 1))[0] for name in identifier_columns}
        raise InvalidInputError(
            f"snapshot {snapshot_id} of {table_name} changed several rows with {', '.join(f'{name} = {value}' for name, value in key.items())}",
            table=table_name,
            snapshot_id=snapshot_id,
            next_step="name identifier columns that are unique",
        )
    texts = np.array([INSERT, DELETE, UPDATE_AFTER, UPDATE_BEFORE])[removed + 2 * paired[numbers]] if len(rows) else np.array([], str)
    place = rows.schema.get_field_index(CHANGE_TYPE.name)
    return rows.set_column(place, rows.schema.field(place), pa.array(texts.tolist(), pa.string()))


def _is_removed(rows: Any) -> NDArray[np.bool_]:
    codes = array_of_chunks(rows[CHANGE_TYPE.name]).dictionary_encode()
    if not len(rows):
        return np.zeros(0, np.bool_)
    names = np.array(codes.dictionary.to_pylist())
    return np.asarray(names[numpy_of(codes.indices)] == DELETE)


def _counts(numbers: Numbers, chosen: NDArray[np.bool_]) -> Numbers:
    """Return for each number, from 0 to the greatest, how many of the chosen rows have it."""
    return np.bincount(numbers[chosen], minlength=int(numbers.max(initial=-1)) + 1)


def _rank(numbers: Numbers) -> Numbers:
    """Return for each row how many earlier rows have the same number."""
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    is_first = np.ones(len(numbers), np.bool_)
    is_first[1:] = ordered[1:] != ordered[:-1]
    begins = np.maximum.accumulate(np.where(is_first, np.arange(len(numbers)), 0)) if len(numbers) else np.zeros(0, np.int64)
    ranks = np.empty(len(numbers), np.int64)
    ranks[order] = np.arange(len(numbers)) - begins
    return ranks


def _row_numbers(rows: Any, columns: Sequence[str]) -> Numbers:
    """Return a number for each row. Rows have the same number if they are equal in the columns; null equals null, and floats are compared by their bits."""
    numbers: Numbers = np.zeros(len(rows), np.int64)
    for name in columns:
        codes = _codes(array_of_chunks(rows[name]))
        numbers = _renumber(numbers * (int(codes.max(initial=0)) + 1) + codes)
    return numbers


def _codes(column: Any) -> Numbers:
    """Return a number for each value of a column. Equal values have the same number."""
    kind = column.type
    if pa.types.is_null(kind):
        return np.zeros(len(column), np.int64)
    if pa.types.is_nested(kind) or isinstance(column, pa.ExtensionArray):
        known: dict[str, int] = {}
        return np.array(
            [known.setdefault(text_of_nested(value), len(known)) for value in as_numbers(column).to_pylist(maps_as_pydicts="strict")],
            np.int64,
        )
    if pa.types.is_floating(kind):
        column = column.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    encoded = column.dictionary_encode(null_encoding="encode")
    return numpy_of(encoded.indices).astype(np.int64)


def text_of_nested(value: Any) -> str:
    """Return a nested value as text. Different values have different texts; the order of a map's entries does not matter."""
    if isinstance(value, dict):
        return "{" + ",".join(sorted(f"{key!r}:{text_of_nested(item)}" for key, item in value.items())) + "}"
    return "[" + ",".join(map(text_of_nested, value)) + "]" if isinstance(value, list) else repr(value)


def _renumber(numbers: Numbers) -> Numbers:
    """Replace the distinct numbers by 0, 1, 2, ...; equal numbers stay equal."""
    return np.unique(numbers, return_inverse=True)[1].astype(np.int64)
