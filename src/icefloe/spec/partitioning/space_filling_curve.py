"""Space-filling curves: the place of a row on a curve through the cells of several columns. Rows that are close in every column are close on the curve.

The z-order curve (Morton order) interleaves the bits of the columns. The Hilbert curve moves only to neighbouring cells, so that a section of it is more
compact. `curve_cells.py` computes the cells. The specification does not define these curves; only the layout of files depends on them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

import numpy as np
from numpy.typing import NDArray

# The number of bits of a place: 63, so that it is a positive 64-bit integer.
MOST_BITS = 63
# The greatest number of bits of one column: offsets within a column are computed as doubles, which have 53 bits.
MOST_COLUMN_BITS = 31
# The greatest number of columns of a Hilbert curve, whose table has `columns * 2 ** (columns - 1)` states with `2 ** columns` cells each.
MOST_HILBERT_COLUMNS = 6
_MOST_ENTRIES = 4096


class CurveName(StrEnum):
    """The names of the space-filling curves."""

    ZORDER = "zorder"
    HILBERT = "hilbert"


@dataclass(frozen=True, slots=True)
class HilbertTable:
    """A table for computing places on the Hilbert curve in steps: `entries[state << width | cells]` is `next_state << width | place`.

    Attributes:
        step_bits: The number of bits of each column in one step; steps begin with the highest bits.
        width: The number of bits of the cells of one step, and of its part of the place.
        entries: The table. The first state is 0.
    """

    step_bits: int
    width: int
    entries: tuple[int, ...]


def bits_of_column(name: CurveName, columns: int, most_bytes: int | None = None) -> int:
    """Return the number of bits of the cells of each column.

    Args:
        name: The curve.
        columns: The number of columns.
        most_bytes: The greatest number of bytes of a place; None for 8.
    """
    bits = min(MOST_COLUMN_BITS, MOST_BITS // columns, MOST_BITS if most_bytes is None else max(1, most_bytes * 8 // columns))
    step = hilbert_table(columns).step_bits if name is CurveName.HILBERT else 1
    return max(step, bits // step * step)


def curve_places(name: CurveName, cells: Sequence[NDArray[np.int64]], bits: int) -> NDArray[np.int64]:
    """Return the place of each row on the curve.

    Args:
        name: The curve.
        cells: For each column the cells of the rows, from 0 to `2 ** bits - 1`.
        bits: The bits of each column, as `bits_of_column` returns them.
    """
    if name is CurveName.ZORDER:
        places = np.zeros(len(cells[0]), dtype=np.int64)
        for bit in reversed(range(bits)):
            for column in cells:
                places = places << 1 | column >> bit & 1
        return places
    table = hilbert_table(len(cells))
    entries, mask = np.array(table.entries, dtype=np.int64), (1 << table.width) - 1
    places = state = np.zeros(len(cells[0]), dtype=np.int64)
    for shift in range(bits - table.step_bits, -1, -table.step_bits):
        chunk = np.zeros(len(cells[0]), dtype=np.int64)
        for column in cells:
            chunk = chunk << table.step_bits | column >> shift & (1 << table.step_bits) - 1
        entry = entries[state << table.width | chunk]
        places, state = places << table.width | entry & mask, entry >> table.width
    return places


@cache
def hilbert_table(columns: int) -> HilbertTable:
    """Return the table of the Hilbert curve for 2 to `MOST_HILBERT_COLUMNS` columns.

    A state consists of the corner at which the curve enters a cell, and the column along which it crosses the cell. (Hamilton and Rau-Chaplin, Compact Hilbert
    Indices.)
    """
    numbers, waiting = {(0, 0): 0}, [(0, 0)]
    single: list[list[tuple[int, int]]] = []  # for each state and each cell of one bit per column: the next state, and the place
    for corner, column in waiting:
        row = []
        for cell in range(1 << columns):
            place = _gray_rank(_rotate(cell ^ corner, -column - 1, columns))
            entry, along = _corner_and_column(place, columns)
            following = (corner ^ _rotate(entry, column + 1, columns), (column + along + 1) % columns)
            if following not in numbers:
                numbers[following] = len(numbers)
                waiting.append(following)
            row.append((numbers[following], place))
        single.append(row)
    step_bits = 1
    while len(numbers) << columns * (step_bits + 1) <= _MOST_ENTRIES:
        step_bits += 1
    width = columns * step_bits
    entries = (_entry(single, state, chunk, columns, step_bits) for state in range(len(numbers)) for chunk in range(1 << width))
    return HilbertTable(step_bits, width, tuple(entries))


def _entry(single: Sequence[Sequence[tuple[int, int]]], state: int, chunk: int, columns: int, step_bits: int) -> int:
    """Return one entry of the table for a state and the bits of the cells in `chunk`, first column first. It is computed with `step_bits` steps of one bit."""
    places = 0
    for bit in reversed(range(step_bits)):
        cell = 0
        for column in range(columns):
            cell = cell << 1 | chunk >> (columns - 1 - column) * step_bits + bit & 1
        state, place = single[state][cell]
        places = places << columns | place
    return state << columns * step_bits | places


def _gray_rank(code: int) -> int:
    """Return the number whose Gray code is `code`."""
    rank = 0
    while code:
        rank ^= code
        code >>= 1
    return rank


def _rotate(bits: int, left: int, width: int) -> int:
    left %= width
    return (bits << left | bits >> (width - left)) & (1 << width) - 1


def _corner_and_column(place: int, columns: int) -> tuple[int, int]:
    """Return the corner at which the curve enters the cell at a place, and the column along which it crosses the cell."""
    if not place:
        return 0, 0
    before = 2 * ((place - 1) // 2)
    odd = place if place % 2 else place - 1
    return before ^ before >> 1, ((odd ^ odd + 1).bit_length() - 1) % columns
