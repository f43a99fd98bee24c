"""The widths of a grid's columns in a line of limited width.

Ids, numbers and names are never cut. Text wraps first, and so do names wider than a line; then columns give way by their rank; what still does not fit is
drawn as records.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rich.cells import cell_len

from icefloe.display.report import Column, Grid
from icefloe.errors import visible

# Characters between two columns.
SPACE = 3
# A word of this many characters stays whole in a column of text; of longer ones, such as paths, any part may continue in the next line.
_LONGEST_WORD = 20


@dataclass(frozen=True, slots=True)
class GridLayout:
    """The columns that fit.

    Attributes:
        shown: Their indices in the grid, in order.
        widths: Their widths in characters.
        left_out: The names of the others.
    """

    shown: tuple[int, ...]
    widths: tuple[int, ...]
    left_out: tuple[str, ...]


def natural_width(part: Grid) -> int:
    """Return the width in characters at which no cell of the grid is wrapped."""
    return total_width(natural_widths(part))


def natural_widths(part: Grid) -> list[int]:
    """Return the width of each column in characters at which none of its cells is wrapped."""
    return [_natural(column, _cells(part, index)) for index, column in enumerate(part.columns)]


def fit_grid(part: Grid, width: int) -> GridLayout | None:
    """Return the layout of a grid; None if its rows must be drawn as records.

    Args:
        part: The grid.
        width: The width of a line in characters.
    """
    # What is wider than a line is wrapped in a record too, which takes more lines than a row.
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
    # Text first: of a column that is never wrapped only the header is wider than its least width.
    widths, left = _widen([least[index] for index in shown], natural, is_text, left)
    widths, _ = _widen(widths, natural, [True] * len(shown), left)
    left_out = tuple(column.name for index, column in enumerate(part.columns) if index not in shown)
    return GridLayout(tuple(shown), tuple(widths), left_out)


def _cells(part: Grid, index: int) -> list[str]:
    return [visible(row[index]) for row in part.rows]


def _natural(column: Column, cells: Sequence[str]) -> int:
    return max(1, column.least_width, *(cell_len(line) for text in (visible(column.name), *cells) for line in text.split("\n")))


def _least(column: Column, cells: Sequence[str]) -> int:
    """Return the least width of a column: its header may wrap between words; its cells only if they are text."""
    header = max((cell_len(word) for word in visible(column.name).split()), default=1)
    if column.is_number or column.whole:
        return max(header, *(cell_len(line) for text in cells for line in text.split("\n")), 1)
    longest_word = max((cell_len(word) for text in cells for word in text.split()), default=1)
    return max(header, min(longest_word, _LONGEST_WORD))


def _widen(widths: Sequence[int], natural: Sequence[int], may_grow: Sequence[bool], left: int) -> tuple[list[int], int]:
    """Return the widths with `left` more characters among them, always to the narrowest that needs more, and how many characters are left."""
    grown = list(widths)
    while left:
        needy = [index for index, current in enumerate(grown) if may_grow[index] and current < natural[index]]
        if not needy:
            break
        grown[min(needy, key=grown.__getitem__)] += 1
        left -= 1
    return grown, left


def total_width(widths: Sequence[int]) -> int:
    """Return the width in characters of columns of these widths, with the space between them."""
    return sum(widths) + SPACE * (len(widths) - 1)
