"""Grids in lines of any width: nothing that must stay whole is cut, and what gives way is named."""

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from icefloe.display.report import Column, Grid, Report
from icefloe.inspect.grid_layout import fit_grid
from icefloe.inspect.terminal import text_of

WORDS = st.lists(st.text("abcxyz0123456789日本,", min_size=1, max_size=24), min_size=0, max_size=6).map(" ".join)


@st.composite
def grids(draw: st.DrawFn) -> Grid:
    columns = draw(
        st.lists(
            st.builds(
                Column, st.sampled_from(["id", "rows of all", "partition bounds", ""]), st.booleans(), st.booleans(), st.integers(0, 3)
            ),
            min_size=1,
            max_size=7,
        )
    )
    rows = draw(st.lists(st.tuples(*(WORDS for _ in columns)), min_size=1, max_size=4))
    return Grid("", tuple(columns), tuple(rows))


@given(grids(), st.integers(30, 200))
def test_lines_fit_whole_cells_stay_whole_and_left_out_columns_are_the_last_ranks(part: Grid, width: int) -> None:
    printed = text_of(Report("", (part,)), width)
    assert max(map(cell_len, printed.splitlines()), default=0) <= width
    layout = fit_grid(part, width)
    if layout is None:
        assert all(cell.replace(" ", "") in printed.replace(" ", "").replace("\n", "") for row in part.rows for cell in row)
        return
    shown = [part.columns[index] for index in layout.shown]
    for index in layout.shown:
        column, cells = part.columns[index], [row[index] for row in part.rows]
        fits = max(map(cell_len, (*cells, *column.name.split()))) <= width
        if column.is_number or (column.whole and fits):
            assert all(cell in printed for cell in cells)
        elif column.whole and len(part.columns) == 1:  # a name wider than the line continues in the next one
            assert all("".join(cell.split()) in "".join(printed.split()) for cell in cells)
    left_out = [column for index, column in enumerate(part.columns) if index not in layout.shown]
    assert layout.left_out == tuple(column.name for column in left_out)
    if left_out:
        assert "not shown at this width" in " ".join(printed.split())
        assert min(column.rank for column in left_out) >= max((column.rank for column in shown), default=0)
