"""`Blocks`: levels one below another, each with its blocks side by side, such as a hierarchy, or what a scan keeps and skips at each level."""

from dataclasses import dataclass, field

from icefloe.display.figures.figure import Figure, box, fit_text, label, link, picture
from icefloe.display.markup import Markup, element

_WIDTH, _NAMES, _LEVEL_HEIGHT, _LEVEL_GAP = 960, 128, 44, 12
_LEAST_WIDTH = 2.0
_STRONG = 0.8  # the strength of a block's colour from which its text is light


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A file, or several files that are drawn as one block.

    Attributes:
        concept: The kind of file, which decides the colour: a key of `COLOURS`.
        weight: The width of the block relative to the other blocks of its level.
        text: The text in the block, if the block is wide enough.
        aside: A second line of text.
        tip: The text that is shown while the mouse rests on the block.
        target: The address that a click opens; None if there is none.
        strength: The strength of the colour, from 0 to 1; newer files are stronger.
        state: `kept` or `skipped` by a scan, `fault` for a damaged or lost file; otherwise empty.
    """

    concept: str
    weight: float
    text: str = ""
    aside: str = ""
    tip: str = ""
    target: str | None = None
    strength: float = 1.0
    state: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockLevel:
    """A level: its name, a second line of text, and its blocks."""

    name: str
    aside: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Blocks(Figure):
    """Levels from top to bottom. If `waterline` is given, the levels from this position on are drawn below a line of water."""

    title: str
    summary: str
    levels: tuple[BlockLevel, ...] = field(default=())
    waterline: int | None = None

    def svg(self) -> Markup:
        height = len(self.levels) * (_LEVEL_HEIGHT + _LEVEL_GAP) + 4
        shapes: list[Markup] = []
        if self.waterline is not None:
            y = self.waterline * (_LEVEL_HEIGHT + _LEVEL_GAP) - _LEVEL_GAP / 2
            shapes.append(element("rect", x=0, y=y, width=_WIDTH, height=height - y, fill="#3b82c4", fill_opacity=0.06, class_="water"))
            shapes.append(element("line", x1=0, x2=_WIDTH, y1=y, y2=y, stroke="#3b82c4", stroke_opacity=0.5, class_="waterline"))
        for place, level in enumerate(self.levels):
            shapes += _draw_level(level, place * (_LEVEL_HEIGHT + _LEVEL_GAP) + 2)
        has_links = any(block.target is not None for level in self.levels for block in level.blocks)
        return picture(self, _WIDTH, height, *shapes, class_="figure blocks", has_links=has_links)


def _draw_level(level: BlockLevel, top: float) -> list[Markup]:
    shapes = [
        label(0, top + 18, level.name, size=12.5, width=_NAMES - 6),
        label(0, top + 33, level.aside, size=10.5, dim=True, width=_NAMES - 4),
    ]
    across = _WIDTH - _NAMES
    total = sum(block.weight for block in level.blocks) or 1.0
    # Small blocks get a least width, and the others become narrower.
    widths = [max(across * block.weight / total, _LEAST_WIDTH) for block in level.blocks]
    scale = across / max(sum(widths), across)
    x = float(_NAMES)
    for block, width in zip(level.blocks, widths, strict=True):
        shapes.append(_block(block, x, top, width * scale))
        x += width * scale
    return shapes


def _block(block: Block, x: float, top: float, width: float) -> Markup:
    gap = min(1.5, width * 0.25)
    inner = [
        box(x, top, width - gap, _LEVEL_HEIGHT, block.concept, tip=block.tip, strength=block.strength, more=f"block {block.state}".strip())
    ]
    if block.state == "skipped":
        inner.append(element("line", x1=x, x2=x + width - gap, y1=top + _LEVEL_HEIGHT, y2=top, stroke="currentColor", stroke_opacity=0.25))
    has_text = False
    is_strong = block.strength >= _STRONG and block.state != "fault"
    for line, size, y in ((block.text, 11.5, 19), (block.aside, 10, 34)):
        text = fit_text(line, width - 14, size)
        if text:
            has_text = True
            inner.append(
                element(
                    "text",
                    text,
                    x=x + 7,
                    y=top + y,
                    font_size=size,
                    class_="on-strong" if is_strong else "on-weak",
                    fill="#ffffff" if is_strong else "currentColor",
                )
            )
    # For screen readers, the name of a link is its text and the title of its shape.
    return link(block.target, inner, "" if has_text else block.tip) if block.target is not None else element("g", *inner)
