"""Drawing of a report in a terminal, with rich. The content is in `report.py`.

Nothing is interpreted as markup, and control characters are escaped: a column may be called `[bold]`, or have an escape sequence in its name.
"""

import io
import json
from collections.abc import Iterator
from typing import Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from icefloe.errors import visible
from icefloe.inspect.report import Document, Facts, Grid, Mark, Outline, Part, Prose, Report

# Width of output that is not a terminal, in characters: a path and its numbers fit on one line.
PLAIN_WIDTH = 140

_MARKS = {Mark.NONE: ("", ""), Mark.KEPT: ("+ ", "green"), Mark.SKIPPED: ("- ", "red")}


def renderable_of(report: Report) -> RenderableType:
    """Return a report as an object that rich can print."""
    return Group(*_pieces(report))


def text_of(report: Report, width: int = PLAIN_WIDTH) -> str:
    """Return a report as plain text, at most `width` characters wide."""
    target = io.StringIO()
    Console(file=target, width=width, color_system=None).print(renderable_of(report))
    return "\n".join(line.rstrip() for line in target.getvalue().splitlines())


def _pieces(report: Report) -> Iterator[RenderableType]:
    if report.title:
        yield Text(visible(report.title), style="bold")
    for part in report.parts:
        yield from _drawn(part)


def _drawn(part: Part) -> Iterator[RenderableType]:
    match part:
        case Prose():
            yield Text(visible(part.text))
        case Facts():
            yield from _titled(part.title, _facts(part))
        case Grid():
            if part.columns:
                yield from _titled(part.title, _grid(part))
            if part.more:
                yield Text(f"  … and {part.more:,} more", style="dim")
        case Outline():
            yield _tree(part)
        case Document():
            yield from _titled(
                part.title,
                Syntax(visible(json.dumps(part.content, indent=2, ensure_ascii=False)), "json", word_wrap=True, theme="ansi_dark"),
            )


def _titled(title: str, body: RenderableType) -> Iterator[RenderableType]:
    if title:
        yield Text()
        yield Text(visible(title), style="bold cyan")
    yield body


def _facts(part: Facts) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in part.pairs:
        table.add_row(Text(visible(f"  {name}")), Text(visible(value)))
    return table


def _grid(part: Grid) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1))
    for column in part.columns:
        table.add_column(
            Text(visible(column.name)),
            justify="right" if column.is_number else "left",
            overflow="fold",
            no_wrap=column.is_number or column.whole,
        )
    for row in part.rows:
        table.add_row(*(Text(visible(cell)) for cell in row))
    return table


def _label(part: Outline) -> Text:
    sign, style = _MARKS[part.mark]
    label = Text(sign, style=style)
    label.append(visible(part.label))
    if part.aside:
        label.append(visible(f"  {part.aside}"), style="dim")
    return label


def _tree(part: Outline) -> Tree:
    tree = Tree(_label(part), guide_style="dim")
    _grow(tree, part)
    return tree


def _grow(tree: Any, part: Outline) -> None:
    for child in part.children:
        _grow(tree.add(_label(child)), child)
    if part.more:
        tree.add(Text(f"… and {part.more:,} more", style="dim"))
