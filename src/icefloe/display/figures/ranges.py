"""`Ranges`: the ranges of values that files have in one column, one below another, and below them the number of files that a filter on one value opens.

The ranges of files that are sorted by the column form a thin diagonal; otherwise they form a block. Many files are drawn in groups, as a pale range from the
lowest to the highest bound, and a strong range within it for an average file.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from icefloe.display.figures.figure import COLOURS, Figure, box, label, picture, specification
from icefloe.display.markup import Markup, element, number

_WIDTH, _LEFT, _FILES_HEIGHT, _DEPTH_HEIGHT = 960, 46, 210, 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The range of a file, or of a group of files, on an axis from 0 to 1.

    Attributes:
        lowest: The least lower bound of the group.
        highest: The greatest upper bound of the group.
        low: The lower bound of an average file of the group.
        high: The upper bound of an average file of the group.
        tip: The text that is shown while the mouse rests on the range.
    """

    lowest: float
    highest: float
    low: float
    high: float
    tip: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Ranges(Figure):
    """The ranges of files in one column.

    Attributes:
        title: The name of the figure.
        summary: A description of the figure for screen readers.
        spans: The ranges, ordered by their lower bounds.
        ticks: The ticks of the axis, each as its position from 0 to 1 and its text.
        depth: The number of files whose range contains the value, for some positions at equal distances.
        files: The number of files that have bounds.
    """

    title: str
    summary: str
    spans: tuple[Span, ...]
    ticks: tuple[tuple[float, str], ...]
    depth: tuple[int, ...]
    files: int

    def svg(self) -> Markup:
        across = _WIDTH - _LEFT - 8
        step = _FILES_HEIGHT / max(len(self.spans), 1)
        thick = max(min(step * 0.8, 7.0), 0.8)
        shapes = [label(_LEFT - 6, 12, "files", size=10.5, anchor="end", dim=True)]
        for place, span in enumerate(self.spans):
            y = 4.0 + place * step
            if span.highest - span.lowest > span.high - span.low:
                shapes.append(
                    box(_LEFT + across * span.lowest, y, across * (span.highest - span.lowest), thick, "data", strength=0.25, tip=span.tip)
                )
            shapes.append(
                box(_LEFT + across * span.low, y, max(across * (span.high - span.low), 1.2), thick, "data", tip=span.tip, more="span")
            )
        shapes += self._depth(across)
        for share, text in self.ticks:
            x = _LEFT + across * share
            anchor = "start" if share < 0.05 else "end" if share > 0.95 else "middle"
            shapes.append(
                element(
                    "line",
                    x1=x,
                    x2=x,
                    y1=_FILES_HEIGHT + 8,
                    y2=_FILES_HEIGHT + _DEPTH_HEIGHT + 22,
                    stroke="currentColor",
                    stroke_opacity=0.12,
                )
            )
            shapes.append(label(x, _FILES_HEIGHT + _DEPTH_HEIGHT + 36, text, size=10.5, anchor=anchor, dim=True, width=180))
        return picture(self, _WIDTH, _FILES_HEIGHT + _DEPTH_HEIGHT + 42, *shapes, class_="figure ranges")

    def _depth(self, across: float) -> list[Markup]:
        """Draw the number of files whose range contains each value."""
        base = _FILES_HEIGHT + _DEPTH_HEIGHT + 20.0
        most = max(self.depth, default=0) or 1
        step = across / max(len(self.depth), 1)
        points = [f"{number(_LEFT)},{number(base)}"]
        for place, count in enumerate(self.depth):
            y = base - _DEPTH_HEIGHT * count / most
            points += [f"{number(_LEFT + place * step)},{number(y)}", f"{number(_LEFT + (place + 1) * step)},{number(y)}"]
        points.append(f"{number(_LEFT + across)},{number(base)}")
        return [
            element("polygon", points=" ".join(points), fill=COLOURS["delete"], fill_opacity=0.35, class_="c-delete depth"),
            label(_LEFT - 6, base - _DEPTH_HEIGHT + 8, f"{most:,}", size=10.5, anchor="end", dim=True),
            label(_LEFT - 6, base, "0", size=10.5, anchor="end", dim=True),
            label(_LEFT + 2, base - _DEPTH_HEIGHT - 4, "files that hold a value", size=10.5, dim=True),
        ]

    def vega_lite(self) -> Mapping[str, Any]:
        values = [{"file": place, "from": span.lowest, "to": span.highest, "range": span.tip} for place, span in enumerate(self.spans)]
        return specification(
            self.title,
            600,
            200,
            data={"values": values},
            mark={"type": "bar", "color": COLOURS["data"]},
            encoding={
                "x": {
                    "field": "from",
                    "type": "quantitative",
                    "title": "place between the lowest and the highest value",
                    "axis": {"labels": False},
                },
                "x2": {"field": "to"},
                "y": {"field": "file", "type": "ordinal", "axis": None},
                "tooltip": [{"field": "range"}],
            },
        )
