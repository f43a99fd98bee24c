"""`Figure`: the base of every figure: SVG with a title for screen readers, a text for when nothing can be drawn, and a description in Vega-Lite.

Shapes have a class for their concept (`c-data`, `c-delete`, `c-manifest`, `c-snapshot`, `c-metadata`), by which the style sheet of a page colours them, and a
colour of their own that is used without a style sheet. Text has the colour of the surrounding text, so that a figure fits into light and dark pages.
"""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from icefloe.display.markup import Child, Markup, element, number

VEGA_LITE = "application/vnd.vegalite.v5+json"
_VEGA_LITE_SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
# The colour of each concept, readable on white and on black.
COLOURS = {
    "catalog": "#64748b",
    "metadata": "#8b6bb8",
    "snapshot": "#0f9b8e",
    "manifest": "#d08a1d",
    "data": "#3b82c4",
    "delete": "#d1495b",
    "care": "#c2643a",
    "quiet": "#94a3b8",
}
# The average width of a character relative to the font size, for fonts without serifs.
_CHARACTER_WIDTH = 0.56


class Figure:
    """A frozen value that draws itself. `title` names the figure, and `summary` describes it for screen readers."""

    __slots__ = ()

    title: str
    summary: str

    @abstractmethod
    def svg(self) -> Markup:
        """Return the figure as one `svg` element."""

    def vega_lite(self) -> Mapping[str, Any] | None:
        """Return the figure with its values as a Vega-Lite specification; None if the figure is not a plot."""
        return None

    def __str__(self) -> str:
        return f"{self.title}: {self.summary}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self})"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:  # noqa: ARG002  the protocol of notebooks
        plot = self.vega_lite()
        drawn = {"text/plain": str(self), "text/html": str(element("figure", self.svg(), element("figcaption", self.summary)))}
        return drawn if plot is None else {**drawn, VEGA_LITE: dict(plot)}


def picture(figure: Figure, width: float, height: float, *shapes: Child, class_: str = "figure", has_links: bool = False) -> Markup:
    """Return the `svg` element of a figure, which is as wide as the page allows.

    If it has links, its role is a group and not an image, because screen readers do not see links in an image.
    """
    return element(
        "svg",
        element("title", figure.title),
        element("desc", figure.summary),
        *shapes,
        viewBox=f"0 0 {number(width)} {number(height)}",
        width="100%",
        class_=class_,
        role="group" if has_links else "img",
        aria_label=f"{figure.title}: {figure.summary}",
        font_family="inherit",
    )


def box(x: float, y: float, width: float, height: float, concept: str, *, tip: str = "", strength: float = 1.0, more: str = "") -> Markup:
    """Return a rectangle in the colour of a concept.

    Args:
        x: The left edge.
        y: The upper edge.
        width: The width; at least half a pixel is drawn.
        height: The height.
        concept: A key of `COLOURS`.
        tip: The text that is shown while the mouse rests on the rectangle.
        strength: The strength of the colour, from 0 to 1.
        more: Further classes of the element.
    """
    return element(
        "rect",
        element("title", tip) if tip else None,
        x=x,
        y=y,
        width=max(width, 0.5),
        height=height,
        fill=COLOURS[concept],
        fill_opacity=strength if strength < 1 else None,
        class_=f"c-{concept} {more}".strip(),
    )


def label(
    x: float, y: float, text: str, *, size: float = 11, anchor: str = "start", dim: bool = False, width: float | None = None
) -> Markup:
    """Return a line of text, cut to `width` pixels."""
    return element(
        "text",
        text if width is None else fit_text(text, width, size),
        x=x,
        y=y,
        font_size=size,
        text_anchor=None if anchor == "start" else anchor,
        fill="currentColor",
        fill_opacity=0.65 if dim else None,
        class_="dim" if dim else None,
    )


def fit_text(text: str, width: float, size: float = 11) -> str:
    """Return the beginning of a text that fits into a width in pixels; empty if almost nothing fits."""
    most = int(width / (size * _CHARACTER_WIDTH))
    if len(text) <= most:
        return text
    return f"{text[: most - 1]}…" if most >= 4 else ""


def link(target: str | None, shape: Child, tip: str = "") -> Markup:
    """Return a shape as a link to a target; the shape alone if there is no target."""
    return element("g", shape) if target is None else element("a", shape, href=target, aria_label=tip or None)


def specification(title: str, width: int, height: int, **rest: Any) -> dict[str, Any]:
    """Return a Vega-Lite specification."""
    return {"$schema": _VEGA_LITE_SCHEMA, "title": title, "width": width, "height": height, **rest}
