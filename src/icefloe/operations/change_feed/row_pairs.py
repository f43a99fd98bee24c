"""Pairs of a deleted and an inserted row: copied rows, updated rows, and rows that later changes of a range changed back.

Rows are identified by their row ids (format version 3) or by the values of columns. Spec: Reserved Field IDs (`_change_type`); Row Lineage.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.errors import InvalidInputError
from icefloe.operations.change_feed.changed_file_reader import DELETE, INSERT
from icefloe.operations.change_feed.row_words import ColumnWords, row_hashes, text_of_nested
from icefloe.spec.arrow_values import array_of, array_of_chunks, mask_array, numpy_of, positions_array
from icefloe.spec.schema.metadata_columns import CHANGE_TYPE, COMMIT_SNAPSHOT_ID, ROW_ID
from icefloe.spec.temporal_arrays import as_numbers, python_list

UPDATE_BEFORE, UPDATE_AFTER = "UPDATE_BEFORE", "UPDATE_AFTER"

# One row in this many may be out of order, or equal to two others, where a column is sorted by and not a hash.
_MANY = 32

Numbers = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Identity:
    """What identifies a row before and after a change.

    Attributes:
        has_ids: Whether rows have row ids, by which they are identified first.
        columns: The paths of columns that identify rows without ids, and rows that were deleted and inserted again with another id; empty if there are none. A
            path has one name, or the names of structs before it.
    """

    has_ids: bool
    columns: tuple[tuple[str, ...], ...]


def cancel_pairs(rows: Any, columns: Sequence[str]) -> Any:
    """Return changes without the rows that cancel out: each deleted row cancels one inserted row that is equal in some columns.

    Of equal changes the first deletes and the last inserts remain.

    Args:
        rows: The changes, in the order of the snapshots: an Arrow table with the column `_change_type`.
        columns: Names of the columns that are compared. For rows that a snapshot only copied these are the lineage columns, or all columns of the table where
            rows have no ids; for changes that other snapshots undo, all columns of the table, and the row id if all rows have one.
    """
    return rows.filter(mask_array(remaining_rows(rows, is_removed(rows), columns)))


def remaining_rows(rows: Any, removed: Mask, columns: Sequence[str]) -> Mask:
    """Return a mask of the changes that do not cancel out: each removed row cancels one added row that is equal in some columns; see `cancel_pairs`.

    Rows are brought together by a sort of one number for each row: the values of a column that are in order already, as those of copied files often are, or a
    hash. Where two rows have the number of no other row, they are compared value by value. Groups of more rows are counted by all values.

    Args:
        rows: The changes, an Arrow table.
        removed: A mask of the removed rows.
        columns: The names of the compared columns.
    """
    remains = np.ones(len(rows), np.bool_)
    if removed.all() or not removed.any():
        return remains
    words = [ColumnWords.of(rows[name]) for name in columns]
    order, is_same = _sorted_rows(words, removed)
    # Whether a row has the number of the row before it, and of the row after it.
    before, after = np.append(False, is_same), np.append(is_same, False)
    begins_pair = after & ~before & ~np.append(after[1:], False)
    places = np.flatnonzero(begins_pair)
    left, right = order[places], order[places + 1]
    is_pair = removed[left] != removed[right]
    partner = np.full(len(rows), -1, np.int64)
    partner[left[is_pair]] = right[is_pair]
    left = np.flatnonzero(partner >= 0)  # in the order of the rows, so that their memory is read in order
    right = partner[left]
    cancelled = np.ones(len(left), np.bool_)
    for column in words:
        cancelled &= column.equal(left, right)
    remains[left[cancelled]] = remains[right[cancelled]] = False
    in_pair = begins_pair.copy()
    in_pair[1:] |= begins_pair[:-1]
    crowded = np.sort(order[(before | after) & ~in_pair])
    if len(crowded):
        numbers = _row_numbers(len(crowded), rows.select(dict.fromkeys(columns)).take(positions_array(crowded)).columns)
        remains[crowded] = _surplus(numbers, removed[crowded])
    return remains


def _sorted_rows(columns: Sequence[ColumnWords], removed: Mask) -> tuple[Numbers, Mask]:
    """Return the positions of the rows, sorted so that equal rows are adjacent, and a mask of those of which the next row has the same number.

    Equal rows have the same number; rows with the same number may differ.
    """
    rows = len(removed)
    ordered = _column_in_order(columns, removed)
    if ordered is not None:
        order = np.argsort(ordered, kind="stable")  # linear for values that are almost in order
        numbers = ordered[order]
        is_same = numbers[1:] == numbers[:-1]
        if np.count_nonzero(is_same[1:] & is_same[:-1]) <= rows // _MANY:
            return order, is_same
    # The low bits of the hashes are replaced by the positions: a sort of numbers takes half the time of a sort of positions.
    bits = np.uint64(max(rows - 1, 1).bit_length())
    packed = (row_hashes(columns, rows) >> bits << bits) | np.arange(rows, dtype=np.uint64)
    packed.sort()
    hashes = packed >> bits
    return (packed & ((np.uint64(1) << bits) - np.uint64(1))).astype(np.int64), hashes[1:] == hashes[:-1]


def _column_in_order(columns: Sequence[ColumnWords], removed: Mask) -> NDArray[np.int64] | None:
    """Return the numbers of a column whose values are almost in order on both sides; None if there is none."""
    for column in columns:
        if len(column.words) != 1 or column.is_open is not None:
            continue
        numbers = column.words[0].view(np.int64)
        sides = (numbers[removed], numbers[~removed])
        if sum(np.count_nonzero(side[1:] <= side[:-1]) for side in sides) <= len(removed) // _MANY:
            return numbers
    return None


def _surplus(numbers: Numbers, removed: Mask) -> Mask:
    """Return a mask of the rows that remain if each removed row cancels an added row with the same number: the first removed rows, and the last added ones."""
    removed_counts, added_counts = _counts(numbers, removed), _counts(numbers, ~removed)
    cancelled = np.minimum(removed_counts, added_counts)
    remains = np.ones(len(numbers), np.bool_)
    remains[removed] = _rank(numbers[removed]) < (removed_counts - cancelled)[numbers[removed]]
    remains[~removed] = _rank(numbers[~removed]) >= cancelled[numbers[~removed]]
    return remains


def with_updates(rows: Any, identity: Identity, table_name: str, *, of_each_snapshot: bool) -> Any:
    """Return changes with UPDATE_BEFORE and UPDATE_AFTER for a deleted and an inserted row with the same identity.

    Args:
        rows: The changes, an Arrow table with the column `_change_type`.
        identity: What identifies a row.
        table_name: The table, for the error.
        of_each_snapshot: Whether both rows must be changes of one snapshot. If so, the rows have the column `_commit_snapshot_id`.

    Raises:
        InvalidInputError: Rows cannot be paired: several deleted or inserted rows, and at least one row of the other side, have the same identity.
    """
    removed, paired = is_removed(rows), np.zeros(len(rows), np.bool_)
    snapshots = [(COMMIT_SNAPSHOT_ID.name,)] if of_each_snapshot else []
    if identity.has_ids:
        with_id = np.flatnonzero(~numpy_of(rows[ROW_ID.name].combine_chunks().is_null()))
        paired[with_id] = _pairs(rows.take(positions_array(with_id)), [(ROW_ID.name,), *snapshots], table_name)
    if identity.columns:
        others = np.flatnonzero(~paired)
        paired[others] = _pairs(
            rows.take(positions_array(others)), [*identity.columns, *snapshots], table_name, leaves_several=identity.has_ids
        )
    texts = array_of([INSERT, DELETE, UPDATE_AFTER, UPDATE_BEFORE], pa.string()).take(positions_array(removed + 2 * paired))
    place = rows.schema.get_field_index(CHANGE_TYPE.name)
    return rows.set_column(place, rows.schema.field(place), texts)


def _pairs(rows: Any, paths: Sequence[tuple[str, ...]], table_name: str, *, leaves_several: bool = False) -> Mask:
    """Return a mask of the rows that form a pair of a deleted and an inserted row, equal in the columns at some paths; see `with_updates`.

    With `leaves_several`, rows of which several are equal are not paired, instead of an error.
    """
    columns = {".".join(path): rows[path[0]] if len(path) == 1 else pc.struct_field(rows[path[0]], list(path[1:])) for path in paths}
    numbers, removed = _row_numbers(len(rows), columns.values()), is_removed(rows)
    before, after = _counts(numbers, removed), _counts(numbers, ~removed)
    paired = (before > 0) & (after > 0)
    several = paired & ((before > 1) | (after > 1))
    if leaves_several:
        paired &= ~several
    elif several.any():
        place = int(np.flatnonzero(several[numbers])[0])
        key = {name: python_list(column.slice(place, 1))[0] for name, column in columns.items()}
        snapshot_id = key.pop(COMMIT_SNAPSHOT_ID.name, None)
        what = table_name if snapshot_id is None else f"snapshot {snapshot_id} of {table_name}"
        raise InvalidInputError(
            f"{what} changed several rows with {', '.join(f'{name} = {value}' for name, value in key.items())}",
            table=table_name,
            snapshot_id=snapshot_id,
            next_step="name identifier columns that are unique",
        )
    return np.asarray(paired[numbers])


def is_removed(rows: Any) -> Mask:
    """Return a mask of the deleted rows among changes."""
    codes = array_of_chunks(rows[CHANGE_TYPE.name]).dictionary_encode()
    if not len(rows):
        return np.zeros(0, np.bool_)
    names = np.array(codes.dictionary.to_pylist())
    return np.asarray(names[numpy_of(codes.indices)] == DELETE)


def _counts(numbers: Numbers, chosen: Mask) -> Numbers:
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


def _row_numbers(rows: int, columns: Iterable[Any]) -> Numbers:
    """Return a number for each row. Rows have the same number if they are equal in the columns; null equals null, and floats are compared by their bits."""
    numbers: Numbers = np.zeros(rows, np.int64)
    for column in columns:
        codes = _codes(array_of_chunks(column))
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
            [known.setdefault(text_of_nested(value), len(known)) for value in as_numbers(column).to_pylist()],
            np.int64,
        )
    if pa.types.is_floating(kind):
        column = column.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    encoded = column.dictionary_encode(null_encoding="encode")
    return numpy_of(encoded.indices).astype(np.int64)


def _renumber(numbers: Numbers) -> Numbers:
    """Replace the distinct numbers by 0, 1, 2, ...; equal numbers stay equal."""
    return np.unique(numbers, return_inverse=True)[1].astype(np.int64)
