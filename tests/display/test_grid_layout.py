"""Grids in lines of any width: nothing that must stay whole is cut, and what gives way is named."""

import io
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from rich.syntax import Syntax

from icefloe.display import terminal
from icefloe.display.grid_layout import fit_grid, natural_width
from icefloe.display.report import Column, Document, Grid, Report
from icefloe.display.terminal import text_of

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


# Whatever a cell may have: line breaks, blanks at both ends, wide and combining characters, controls, other separators of lines.
ANY_TEXT = st.text(st.sampled_from(" ab,\n\t日é\u0301\u200b\u2028\x1b\x85👩\u200d🚀\ufe0f[bold]"), max_size=12)


@st.composite
def grids_of_any_text(draw: st.DrawFn) -> Grid:
    kinds = st.builds(Column, ANY_TEXT, st.booleans(), st.booleans(), st.integers(0, 3), st.integers(0, 9))
    columns = draw(st.lists(kinds, min_size=1, max_size=4))
    rows = draw(st.lists(st.tuples(*(ANY_TEXT for _ in columns)), min_size=0, max_size=4))
    return Grid("", tuple(columns), tuple(rows), has_header=draw(st.booleans()))


def drawn_by_rich(body: Any, width: int) -> str:
    target = io.StringIO()
    Console(file=target, width=width, color_system=None, force_jupyter=False).print(body, crop=False)
    return "\n".join(line.rstrip() for line in target.getvalue().splitlines())


@given(grids_of_any_text(), st.integers(0, 40))
@example(Grid("", (Column("n", is_number=True), Column("x")), (("1 ", "a\n\nb"), ("1,000\n2", ""))), 0)
def test_a_file_gets_the_lines_that_rich_draws(part: Grid, more: int) -> None:
    width = natural_width(part) + more
    layout = fit_grid(part, width)
    assert layout is not None
    assert text_of(Report("", (part,)), width) == drawn_by_rich(terminal._grid(part, layout), width)


@given(st.dictionaries(ANY_TEXT, st.one_of(ANY_TEXT, st.integers(), st.lists(ANY_TEXT)), max_size=4))
def test_a_file_gets_the_json_that_rich_draws(content: dict[str, Any]) -> None:
    part = Document(content)
    body = Syntax(terminal._json_text(part), "json", word_wrap=True, theme="ansi_dark")
    assert text_of(Report("", (part,))) == drawn_by_rich(body, terminal.PLAIN_WIDTH)


def test_a_file_gets_long_lists_without_the_cost_of_a_table_of_rich(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(terminal, "Table")
    part = Grid("", (Column("id", is_number=True), Column("name")), tuple((str(number), "a 日") for number in range(10_000)))
    lines = text_of(Report("", (part,))).splitlines()
    assert (len(lines), lines[0], lines[2], lines[-1]) == (10_002, "  id   name", "   0   a 日", "9999   a 日")
