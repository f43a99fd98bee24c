"""Space-filling curves, against places that are computed bit by bit and against what defines the curves."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icefloe.spec.partitioning.space_filling_curve import MOST_BITS, CurveName, bits_of_column, curve_places, hilbert_table


def interleaved(cells: list[int], bits: int) -> int:
    """Return the place on the z-order curve from the binary texts of the cells."""
    texts = [format(cell, f"0{bits}b") for cell in cells]
    return int("".join(bit for turn in zip(*texts, strict=True) for bit in turn), 2)


@given(data=st.data(), columns=st.integers(1, 12))
def test_bits_of_the_columns_take_turns_along_the_z_order(data: st.DataObject, columns: int) -> None:
    bits = bits_of_column(CurveName.ZORDER, columns)
    rows = data.draw(st.lists(st.lists(st.integers(0, 2**bits - 1), min_size=columns, max_size=columns), min_size=1, max_size=20))
    places = curve_places(CurveName.ZORDER, list(np.array(rows, dtype=np.int64).T), bits)
    assert places.tolist() == [interleaved(row, bits) for row in rows]
    assert columns * bits <= MOST_BITS


@pytest.mark.parametrize(("columns", "steps"), [(2, 1), (3, 1), (4, 2), (5, 2), (6, 2)])
def test_the_hilbert_curve_passes_every_cell_once_and_moves_to_a_neighbour_each_time(columns: int, steps: int) -> None:
    bits = hilbert_table(columns).step_bits * steps
    cells = np.array(list(itertools.product(range(2**bits), repeat=columns)), dtype=np.int64)
    places = curve_places(CurveName.HILBERT, list(cells.T), bits)
    assert sorted(places.tolist()) == list(range(len(cells)))
    along = cells[np.argsort(places)]
    assert (np.abs(np.diff(along, axis=0)).sum(axis=1) == 1).all()


@given(cells=st.lists(st.integers(0, 2**10 - 1), min_size=2, max_size=6))
def test_a_place_on_the_hilbert_curve_begins_with_that_of_the_larger_cell(cells: list[int]) -> None:
    columns, step = len(cells), hilbert_table(len(cells)).step_bits
    fine, coarse = step * 2, step
    columns_of = [np.array([cell % 2**fine], dtype=np.int64) for cell in cells]
    (place,) = curve_places(CurveName.HILBERT, columns_of, fine)
    (outer,) = curve_places(CurveName.HILBERT, [column >> (fine - coarse) for column in columns_of], coarse)
    assert place >> (fine - coarse) * columns == outer


@pytest.mark.parametrize("name", CurveName)
def test_a_limit_of_bytes_leaves_fewer_bits_to_each_column(name: CurveName) -> None:
    assert bits_of_column(name, 2, 2) < bits_of_column(name, 2, 4) < bits_of_column(name, 2)
    assert bits_of_column(name, 2, 2**31 - 1) == bits_of_column(name, 2)
    assert bits_of_column(name, 6, 1) >= 1
