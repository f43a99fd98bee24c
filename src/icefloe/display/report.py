"""The parts of a report before it is drawn: facts, grids, outlines, figures, prose and JSON. These values need no drawing library.

`display/terminal.py` draws them in a terminal, `html.py` in a notebook.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from icefloe.display.figures.figure import Figure


class Mark(Enum):
    """Whether the subject of a line of an outline was kept or skipped by a scan."""

    NONE = ""
    KEPT = "kept"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Prose:
    """A paragraph. If `whole` is true, it is a line to copy, which is never wrapped."""

    text: str
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Facts:
    """A list of names with one value each."""

    pairs: tuple[tuple[str, str], ...]
    title: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a grid.

    Attributes:
        name: The header.
        is_number: Whether the cells are numbers, which are aligned right and never wrapped.
        whole: Whether the cells are never wrapped.
        rank: If a terminal is too narrow, columns are left out from the highest rank down; a column of rank 0 is never left out.
        least_width: The least width in characters, even if the header and all cells are narrower.
    """

    name: str
    is_number: bool = False
    whole: bool = False
    rank: int = 0
    least_width: int = 0


@dataclass(frozen=True, slots=True)
class Grid:
    """Rows under named columns. `more` is the number of rows that were left out; `has_header` is False if the rows continue another grid."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    more: int = 0
    has_header: bool = True


@dataclass(frozen=True, slots=True)
class Outline:
    """A line with further lines below it. `aside` is dimmed text after the label; `more` is the number of lines below that were left out."""

    label: str
    aside: str = ""
    children: tuple["Outline", ...] = ()
    mark: Mark = Mark.NONE
    more: int = 0


@dataclass(frozen=True, slots=True)
class Document:
    """A JSON document in a report."""

    content: Mapping[str, Any]
    title: str = ""


Part = Prose | Facts | Grid | Outline | Document | Figure


@dataclass(frozen=True, slots=True)
class Report:
    """A report before it is drawn: a title with parts below it."""

    title: str
    parts: tuple[Part, ...] = field(default=())


def grid(title: str, columns: tuple[Column, ...], rows: Sequence[tuple[str, ...]], most: int | None) -> Grid:
    """Return a grid of at most `most` rows.

    Args:
        title: The text above the grid.
        columns: The columns.
        rows: All rows.
        most: The greatest number of rows; None for all. The grid has the number of rows that are left out.
    """
    kept = rows if most is None else rows[:most]
    return Grid(title, columns, tuple(kept), len(rows) - len(kept))


def outline(label: str, aside: str, children: Sequence[Outline], most: int | None) -> Outline:
    """Return an outline of at most `most` lines.

    Args:
        label: The text of the line.
        aside: Dimmed text after the label.
        children: All lines directly below the line.
        most: The greatest number of lines directly below; None for all. The outline has the number of lines that are left out.
    """
    kept = children if most is None else children[:most]
    return Outline(label, aside, tuple(kept), more=len(children) - len(kept))
