"""`Bars`: a histogram with one bar for each class, in which small numbers stay visible beside large ones."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from icefloe.display.figures.figure import COLOURS, Figure, box, label, picture, specification
from icefloe.display.markup import Markup, element

_WIDTH, _HEIGHT, _HEAD, _FOOT = 640, 190, 22, 34
_DIGIT_WIDTH = 6.2
_LEAST_HEIGHT = 2.0  # the least height of a bar that is not empty


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """The bar of one class: the name of the class, its count, and whether it needs care."""

    name: str
    count: int
    tip: str = ""
    needs_care: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Bars(Figure):
    """A histogram. `unit` is the name of the counted things, and `axis` the name of what the classes divide, such as "size"."""

    title: str
    summary: str
    bars: tuple[Bar, ...]
    unit: str
    axis: str
    mark: int | None = None  # the number of classes to the left of a dashed line, which shows for example the right file size
    mark_text: str = ""

    def svg(self) -> Markup:
        step = _WIDTH / max(len(self.bars), 1)
        full = _HEIGHT - _HEAD - _FOOT
        most = max((bar.count for bar in self.bars), default=0) or 1
        shapes = [element("line", x1=0, x2=_WIDTH, y1=_HEIGHT - _FOOT, y2=_HEIGHT - _FOOT, stroke="currentColor", stroke_opacity=0.25)]
        for place, bar in enumerate(self.bars):
            height = max(full * bar.count / most, _LEAST_HEIGHT) if bar.count else 0
            left, top = place * step + step * 0.1, _HEIGHT - _FOOT - height
            concept = "care" if bar.needs_care else "data"
            shapes.append(
                element(
                    "text",
                    bar.name,
                    x=left + step * 0.4,
                    y=_HEIGHT - 18,
                    font_size=10.5,
                    text_anchor="middle",
                    fill="currentColor",
                    class_="dim",
                )
            )
            if bar.count:
                shapes.append(
                    box(left, top, step * 0.8, height, concept, tip=bar.tip or f"{bar.name}: {bar.count:,} {self.unit}", more="bar")
                )
                text = f"{bar.count:,}"
                if bar.count == most or len(text) * _DIGIT_WIDTH <= step:  # wider numbers would overlap
                    shapes.append(label(left + step * 0.4, top - 5, text, size=10.5, anchor="middle"))
        if self.mark is not None:
            x = self.mark * step
            shapes.append(
                element("line", x1=x, x2=x, y1=6, y2=_HEIGHT - _FOOT, stroke="currentColor", stroke_opacity=0.5, stroke_dasharray="3 3")
            )
            shapes.append(label(x + 5, 13, self.mark_text, size=10.5, dim=True))
        shapes.append(label(_WIDTH / 2, _HEIGHT - 3, self.axis, size=10.5, anchor="middle", dim=True))
        return picture(self, _WIDTH, _HEIGHT, *shapes, class_="figure bars")

    def vega_lite(self) -> Mapping[str, Any]:
        return specification(
            self.title,
            480,
            160,
            data={"values": [{"class": bar.name, "count": bar.count} for bar in self.bars]},
            mark={"type": "bar", "color": COLOURS["data"]},
            encoding={
                "x": {"field": "class", "type": "ordinal", "sort": None, "title": self.axis},
                "y": {"field": "count", "type": "quantitative", "title": self.unit},
                "tooltip": [{"field": "class"}, {"field": "count"}],
            },
        )


def mini_bars(counts: tuple[int, ...], title: str, names: tuple[str, ...]) -> Markup:
    """Return a small histogram, as high as a line of text.

    Args:
        counts: The count of each class.
        title: The title, for screen readers.
        names: The name of each class.
    """
    step, height = 9, 20
    most = max(counts, default=0) or 1
    bars = [
        box(
            place * step,
            height - max(height * count / most, _LEAST_HEIGHT),
            step - 1.5,
            max(height * count / most, _LEAST_HEIGHT),
            "data",
            tip=f"{name}: {count:,}",
        )
        for place, (count, name) in enumerate(zip(counts, names, strict=True))
        if count
    ]
    base = element("line", x1=0, x2=step * len(counts), y1=height, y2=height, stroke="currentColor", stroke_opacity=0.3)
    return element(
        "svg",
        element("title", title),
        base,
        *bars,
        viewBox=f"0 0 {step * len(counts)} {height + 1}",
        width=step * len(counts),
        height=height + 1,
        role="img",
        aria_label=title,
        class_="mini",
    )
