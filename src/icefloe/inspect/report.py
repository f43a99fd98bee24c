"""What a look inside is made of before it is drawn: facts, grids, outlines, prose and JSON, as values without any library for drawing.

A terminal draws them with `terminal.py`, a notebook with `html.py`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class Mark(Enum):
    """What became of the thing a line stands for."""

    NONE = ""
    KEPT = "kept"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Prose:
    """A paragraph."""

    text: str


@dataclass(frozen=True, slots=True)
class Facts:
    """Names with one value each, in order."""

    pairs: tuple[tuple[str, str], ...]
    title: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a grid; numbers stand at the right. A `whole` one is never broken into lines."""

    name: str
    is_number: bool = False
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Grid:
    """Rows under named columns. `more` counts the rows left out for length."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    more: int = 0


@dataclass(frozen=True, slots=True)
class Outline:
    """A line with lines below it. `aside` is said less loudly after the label; `more` counts the lines below that were left out."""

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


Part = Prose | Facts | Grid | Outline | Document


@dataclass(frozen=True, slots=True)
class Report:
    """A title and the parts below it."""

    title: str
    parts: tuple[Part, ...] = field(default=())


def grid(title: str, columns: tuple[Column, ...], rows: Sequence[tuple[str, ...]], most: int | None) -> Grid:
    """A grid of at most `most` rows (None for all), which says how many it leaves out."""
    kept = rows if most is None else rows[:most]
    return Grid(title, columns, tuple(kept), len(rows) - len(kept))


def outline(label: str, aside: str, children: Sequence[Outline], most: int | None) -> Outline:
    """An outline with at most `most` lines directly below it (None for all), which says how many it leaves out."""
    kept = children if most is None else children[:most]
    return Outline(label, aside, tuple(kept), more=len(children) - len(kept))
