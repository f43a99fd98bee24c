"""A grid as lines of text, for the `repr` of lists: every cell is in one line, and columns are aligned. `display/terminal.py` draws the output of commands."""

from icefloe.display.report import Grid
from icefloe.errors import in_one_line

_SPACE = "  "


def text_table(grid: Grid) -> str:
    """Return the title, the header and the rows of a grid as text, one line each. Control characters are escaped."""
    rows = [tuple(column.name for column in grid.columns), *grid.rows]
    cells = [[in_one_line(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        _SPACE.join(
            cell.rjust(width) if column.is_number else cell.ljust(width)
            for cell, width, column in zip(row, widths, grid.columns, strict=True)
        ).rstrip()
        for row in cells
    ]
    return "\n".join([*([in_one_line(grid.title)] if grid.title else []), *lines])
