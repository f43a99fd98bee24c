"""The parts of a report before it is drawn: facts, grids, outlines, figures, prose and JSON, as values that need no drawing library.

A terminal draws them with `display/terminal.py`, a notebook with `html.py`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from icefloe.display.figures.figure import Figure


class Mark(Enum):
    """Whether the subject of a line was kept or skipped."""

    NONE = ""
    KEPT = "kept"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Prose:
    """A paragraph; `whole`: a line to copy, never wrapped."""

    text: str
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Facts:
    """Names with one value each, in order."""

    pairs: tuple[tuple[str, str], ...]
    title: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a grid.

    Attributes:
        name: The header.
        is_number: Aligned right, and never wrapped.
        whole: Never wrapped.
        rank: In which order columns give way where a terminal is too narrow: the highest first; one of rank 0 never does.
        least_width: The width in characters that it has even where its header and cells are narrower.
    """

    name: str
    is_number: bool = False
    whole: bool = False
    rank: int = 0
    least_width: int = 0


@dataclass(frozen=True, slots=True)
class Grid:
    """Rows under named columns. `more` counts the rows that were left out; `has_header` is False for rows that continue another grid."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    more: int = 0
    has_header: bool = True


@dataclass(frozen=True, slots=True)
class Outline:
    """A line with lines below it. `aside` is dimmed text after the label; `more` counts the lines below that were left out."""

    label: str
    aside: str = ""
    children: tuple["Outline", ...] = ()
    mark: Mark = Mark.NONE
    more: int = 0


@dataclass(frozen=True, slots=True)
class Document:
    """A JSON document."""

    content: Mapping[str, Any]
    title: str = ""


Part = Prose | Facts | Grid | Outline | Document | Figure


@dataclass(frozen=True, slots=True)
class Report:
    """A title and the parts below it."""

    title: str
    parts: tuple[Part, ...] = field(default=())


def grid(title: str, columns: tuple[Column, ...], rows: Sequence[tuple[str, ...]], most: int | None) -> Grid:
    """Return a grid of at most `most` rows.

    Args:
        title: Text above the grid.
        columns: The columns.
        rows: All rows.
        most: Maximum number of rows, None for all; the grid counts those that are left out.
    """
    kept = rows if most is None else rows[:most]
    return Grid(title, columns, tuple(kept), len(rows) - len(kept))


def outline(label: str, aside: str, children: Sequence[Outline], most: int | None) -> Outline:
    """Return an outline.

    Args:
        label: Text of the line.
        aside: Dimmed text after it.
        children: All lines directly below it.
        most: Maximum number of lines directly below it, None for all; the outline counts those that are left out.
    """
    kept = children if most is None else children[:most]
    return Outline(label, aside, tuple(kept), more=len(children) - len(kept))
