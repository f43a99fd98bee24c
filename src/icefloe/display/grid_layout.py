"""The widths of a grid's columns in a line of limited width.

Ids, numbers and names are never cut. Columns of text are wrapped first, and also names that are wider than a line. If that is not enough, columns are left out
by their rank. If the rest still does not fit, each row is drawn as a record with one line for each value.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rich.cells import cell_len

from icefloe.display.report import Column, Grid
from icefloe.errors import visible

# The number of characters between two columns.
SPACE = 3
# Words of up to this many characters are not split in a column of text; longer ones, such as paths, may continue in the next line anywhere.
_LONGEST_WORD = 20


@dataclass(frozen=True, slots=True)
class GridLayout:
    """The columns of a grid that fit into a line.

    Attributes:
        shown: The indices of the columns in the grid, in order.
        widths: The widths of these columns in characters.
        left_out: The names of the columns that do not fit.
    """

    shown: tuple[int, ...]
    widths: tuple[int, ...]
    left_out: tuple[str, ...]


def natural_width(part: Grid) -> int:
    """Return the least width in characters at which no cell of the grid is wrapped."""
    return total_width(natural_widths(part))


def natural_widths(part: Grid) -> list[int]:
    """Return for each column the least width in characters at which none of its cells is wrapped."""
    return [_natural(column, _cells(part, index)) for index, column in enumerate(part.columns)]


def fit_grid(part: Grid, width: int) -> GridLayout | None:
    """Return the layout of a grid; None if each row must be drawn as a record.

    Args:
        part: The grid.
        width: The width of a line in characters.
    """
    # A column that is wider than a line may be wrapped: a record would wrap it too, and take more lines than a row.
    columns = [
        replace(column, whole=False) if column.whole and _least(column, _cells(part, index)) > width else column
        for index, column in enumerate(part.columns)
    ]
    least = [_least(column, _cells(part, index)) for index, column in enumerate(columns)]
    shown = list(range(len(part.columns)))
    while total_width([least[index] for index in shown]) > width:
        ranked = [index for index in shown if part.columns[index].rank]
        if not ranked:
            return None
        shown.remove(max(ranked, key=lambda index: (part.columns[index].rank, index)))
    natural = [_natural(part.columns[index], _cells(part, index)) for index in shown]
    is_text = [not (columns[index].is_number or columns[index].whole) for index in shown]
    left = width - total_width([least[index] for index in shown])
    # Columns of text are widened first: of the other columns only the header can need more than the least width.
    widths, left = _widen([least[index] for index in shown], natural, is_text, left)
    widths, _ = _widen(widths, natural, [True] * len(shown), left)
    left_out = tuple(column.name for index, column in enumerate(part.columns) if index not in shown)
    return GridLayout(tuple(shown), tuple(widths), left_out)


def _cells(part: Grid, index: int) -> list[str]:
    return [visible(row[index]) for row in part.rows]


def _natural(column: Column, cells: Sequence[str]) -> int:
    return max(1, column.least_width, *(cell_len(line) for text in (visible(column.name), *cells) for line in text.split("\n")))


def _least(column: Column, cells: Sequence[str]) -> int:
    """Return the least width of a column. Its header may be wrapped between words; its cells only if they are text."""
    header = max((cell_len(word) for word in visible(column.name).split()), default=1)
    if column.is_number or column.whole:
        return max(header, *(cell_len(line) for text in cells for line in text.split("\n")), 1)
    longest_word = max((cell_len(word) for text in cells for word in text.split()), default=1)
    return max(header, min(longest_word, _LONGEST_WORD))


def _widen(widths: Sequence[int], natural: Sequence[int], may_grow: Sequence[bool], left: int) -> tuple[list[int], int]:
    """Distribute characters over columns, each to the narrowest column that needs more.

    Args:
        widths: The current widths in characters.
        natural: The widths at which nothing is wrapped.
        may_grow: Whether each column may become wider.
        left: The number of characters to distribute.

    Returns:
        The new widths, and the number of characters that no column needs.
    """
    grown = list(widths)
    while left:
        needy = [index for index, current in enumerate(grown) if may_grow[index] and current < natural[index]]
        if not needy:
            break
        grown[min(needy, key=grown.__getitem__)] += 1
        left -= 1
    return grown, left


def total_width(widths: Sequence[int]) -> int:
    """Return the width in characters of columns of these widths, including the space between them."""
    return sum(widths) + SPACE * (len(widths) - 1)
