"""`Cells`: a heat map of cells in rows and columns, in which the number of a cell decides the strength of its colour."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from icefloe.display.figures.figure import COLOURS, Figure, box, label, link, picture, specification
from icefloe.display.markup import Markup

_WIDTH, _NAMES, _GAP = 960, 150, 1.0
_NAME_WIDTH = 64  # the width of a date above a column
_WIDEST, _HIGHEST, _LOWEST = 76.0, 34.0, 5.0  # the sizes of a cell, in pixels
_FAINTEST, _NOTHING = 0.15, 0.04
_EVEN = 0.2  # values whose ratio has at most this logarithm count as equal


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A cell: its row and column, its number, and the text that is shown while the mouse rests on it."""

    row: int
    column: int
    value: float
    tip: str
    target: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Cells(Figure):
    """A heat map. `concept` decides the colour: a key of `COLOURS`. If `is_log` is true, the strength of the colour follows the logarithm of the numbers."""

    title: str
    summary: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: tuple[Cell, ...]
    concept: str = "data"
    is_log: bool = True
    row_axis: str = ""
    column_axis: str = ""

    def svg(self) -> Markup:
        width = (_WIDTH - _NAMES) / max(len(self.columns), 1)
        width = min(width, _WIDEST if len(self.rows) == 1 else _HIGHEST)
        height = min(max(width, _LOWEST), _HIGHEST)
        top = 18.0
        values = [cell.value for cell in self.cells if cell.value > 0]
        least, most = min(values, default=0.0), max(values, default=0.0)
        shapes = []
        every = max(1, math.ceil(11 / height))
        for place, name in enumerate(self.rows):
            if place % every == 0:
                shapes.append(
                    label(_NAMES - 8, top + place * height + height / 2 + 3.5, name, size=10, anchor="end", dim=True, width=_NAMES - 12)
                )
        shown = max(1, math.ceil(_NAME_WIDTH / width))
        for place, name in enumerate(self.columns):
            if name and place % shown == 0:
                shapes.append(label(_NAMES + place * width, 11, name, size=10, dim=True, width=shown * width - 2))
        for cell in self.cells:
            strength = self._strength(cell.value, least, most)
            shape = box(
                _NAMES + cell.column * width,
                top + cell.row * height,
                width - _GAP,
                height - _GAP,
                self.concept,
                tip=cell.tip,
                strength=strength,
                more="cell",
            )
            shapes.append(shape if cell.target is None else link(cell.target, shape, cell.tip))
        return picture(
            self,
            _WIDTH,
            top + len(self.rows) * height + 4,
            *shapes,
            class_="figure cells",
            has_links=any(cell.target is not None for cell in self.cells),
        )

    def _strength(self, value: float, least: float, most: float) -> float:
        """Return the strength of the colour of a value, from 0 to 1. The least value of the map has the weakest colour, the greatest the strongest."""
        if value <= 0:
            return _NOTHING
        if not self.is_log:
            return round(_FAINTEST + (1 - _FAINTEST) * value / most, 2)
        spread = math.log(most / least)
        share = math.log(value / least) / spread if spread > _EVEN else 0.5
        return round(_FAINTEST + (1 - _FAINTEST) * share, 2)

    def vega_lite(self) -> Mapping[str, Any]:
        values = [
            {"row": f"{self.rows[cell.row]}", "place": cell.column, "value": cell.value, "partition": cell.tip} for cell in self.cells
        ]
        return specification(
            self.title,
            600,
            max(120, 14 * len(self.rows)),
            data={"values": values},
            mark="rect",
            encoding={
                "x": {"field": "place", "type": "ordinal", "axis": None},
                "y": {"field": "row", "type": "ordinal", "sort": None, "title": self.row_axis},
                "color": {
                    "field": "value",
                    "type": "quantitative",
                    "scale": {"type": "symlog" if self.is_log else "linear", "range": ["#eef4fa", COLOURS[self.concept]]},
                },
                "tooltip": [{"field": "partition"}],
            },
        )
