"""Drawing of a report (`display/report.py`) in a terminal, with rich. `grid_layout.py` computes the widths of a grid's columns.

Nothing is interpreted as markup, and control characters are escaped: a column may be called `[bold]`, or have an escape sequence in its name. Nothing is cut:
text that is too wide for a line continues in the next line.

In a file or a pipe a report may have lists of 100,000 lines, and nothing is coloured or wrapped. Grids and documents are drawn without rich there, as the same
text.
"""

import io
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from icefloe.display.figures.figure import Figure
from icefloe.display.grid_layout import SPACE, GridLayout, fit_grid, natural_width, natural_widths, total_width
from icefloe.display.report import Document, Facts, Grid, Mark, Outline, Part, Prose, Report
from icefloe.errors import visible
from icefloe.optional_packages import optional_module

# The least width in characters of output that is not a terminal, so that a path and its numbers fit on one line.
PLAIN_WIDTH = 140

_FACTS_SPACE = 2
# The least width of a value in a list of facts. An id of 19 digits, a time and a size fit into it; longer words, such as paths, are split.
_LEAST_VALUE_WIDTH = 24
# The number of characters that rich draws before a branch of a tree.
_GUIDE_WIDTH = 4

# Characters whose width rich measures in its own way: tabs, and characters that join or vary their neighbours.
_CHANGED = re.compile("[\t\u200d\ufe0f]")

_MARKS = {Mark.NONE: ("", ""), Mark.KEPT: ("+ ", "green"), Mark.SKIPPED: ("- ", "red")}


def renderable_of(report: Report) -> RenderableType:
    """Return a report as an object that rich can print."""
    return Group(*_pieces(report))


def text_of(report: Report, width: int | None = None) -> str:
    """Return a report as plain text.

    Args:
        report: The report.
        width: The greatest width of a line in characters. If None, nothing is wrapped except prose of more than `PLAIN_WIDTH` characters.
    """
    if width is None:
        titles = (report.title, *(part.title for part in report.parts if isinstance(part, Facts | Grid | Document)))
        width = max([PLAIN_WIDTH, *(cell_len(visible(title)) for title in titles), *map(_natural_width, report.parts)])
    target = io.StringIO()
    Console(file=target, width=width, color_system=None, force_jupyter=False).print(renderable_of(report), crop=False)
    return "\n".join(line.rstrip() for line in target.getvalue().splitlines())


def texts_of_blocks(blocks: Iterable[Grid]) -> Iterator[str]:
    """Yield the text of a grid that arrives in blocks of its rows, block by block.

    The columns have the widths that the first block needs; in a block with wider cells they are wider.
    """
    widths: list[int] | None = None
    for block in blocks:
        if widths is None:
            widths = natural_widths(block)
            yield text_of(Report("", (block,)))
        else:
            columns = tuple(replace(column, least_width=width) for column, width in zip(block.columns, widths, strict=True))
            yield text_of(Report("", (replace(block, columns=columns, has_header=False),)))


def _pieces(report: Report) -> Iterator[RenderableType]:
    if report.title:
        yield Text(visible(report.title), style="bold")
    for part in report.parts:
        yield from _renderables(part)


def _renderables(part: Part) -> Iterator[RenderableType]:
    match part:
        case Prose():
            yield Text(visible(part.text), no_wrap=part.whole, overflow="ignore" if part.whole else None)
        case Facts():
            yield from _with_title(part.title, _FittedFacts(part))
        case Grid():
            if part.columns:
                yield from _with_title(part.title, _FittedGrid(part))
            if part.more:
                yield Text(f"  … and {part.more:,} more", style="dim")
        case Outline():
            yield _tree(part)
        case Document():
            yield from _with_title(part.title, _FittedDocument(part))
        case Figure():
            pass  # a figure is not drawn in a terminal: the other parts have its values


def _with_title(title: str, body: RenderableType) -> Iterator[RenderableType]:
    if title:
        yield Text()
        yield Text(visible(title), style="bold cyan")
    yield body


@dataclass(frozen=True, slots=True)
class _FittedFacts:
    """Names with their values beside them; if the line is too narrow, the values are below the names."""

    part: Facts

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        names = [visible(f"  {name}") for name, _ in self.part.pairs]
        values = [visible(value) for _, value in self.part.pairs]
        longest_word = max((cell_len(word) for value in values for word in value.split()), default=0)
        is_beside = max(map(cell_len, names), default=0) + _FACTS_SPACE + min(longest_word, _LEAST_VALUE_WIDTH) <= options.max_width
        table = Table.grid(padding=(0, _FACTS_SPACE))
        if is_beside:
            table.add_column(style="dim", no_wrap=True)
        table.add_column(overflow="fold")
        for name, value in zip(names, values, strict=True):
            if is_beside:
                table.add_row(Text(name), Text(value))
            else:
                table.add_row(Text(name, style="dim"))
                table.add_row(Padding(Text(value, overflow="fold"), (0, 0, 0, 2 * _FACTS_SPACE)))
        yield table


@dataclass(frozen=True, slots=True)
class _FittedGrid:
    """A grid that is laid out when it is drawn, for the width of the console."""

    part: Grid

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        if not options.is_terminal and not _is_changed(self.part):
            widths = natural_widths(self.part)
            if total_width(widths) <= options.max_width:
                yield Segment(_plain_grid(self.part, widths))
                return
        layout = fit_grid(self.part, options.max_width)
        if layout is None:
            yield from _records(self.part)
            return
        yield _grid(self.part, layout)
        if layout.left_out:
            names = ", ".join(layout.left_out)
            yield Text(visible(f"  not shown at this width: {names} (a wider terminal or --json shows them)"), style="dim")


@dataclass(frozen=True, slots=True)
class _FittedDocument:
    """A JSON document, coloured in a terminal."""

    part: Document

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        text = _json_text(self.part)
        if not options.is_terminal and not _CHANGED.search(text) and max(map(cell_len, text.splitlines())) <= options.max_width:
            yield Segment(f"{text}\n")
            return
        # Imported only for a document, because the import takes longer than all other imports for drawing.
        syntax = optional_module("rich.syntax", extra=None, feature="a coloured document")
        yield syntax.Syntax(text, "json", word_wrap=True, theme="ansi_dark")


def _is_changed(part: Grid) -> bool:
    rows = ([column.name for column in part.columns], *part.rows)
    return any(_CHANGED.search(cell) for row in rows for cell in row)


def _plain_grid(part: Grid, widths: Sequence[int]) -> str:
    """Return the text of a grid in which no cell is wrapped. It equals what `_grid` draws without colours."""
    between = " " * SPACE
    lines = []

    def add(row: Sequence[str], *, is_header: bool) -> None:
        cells = [visible(cell).split("\n") for cell in row]
        height = max(map(len, cells))
        for cell in cells:
            space = [""] * (height - len(cell))
            cell[:] = space + cell if is_header else cell + space
        for texts in zip(*cells, strict=True):
            pairs = zip(texts, part.columns, widths, strict=True)
            lines.append(between.join(_pad(text, width, is_number=column.is_number) for text, column, width in pairs))

    if part.has_header:
        add([column.name for column in part.columns], is_header=True)
        lines.append("─" * total_width(widths))
    for row in part.rows:
        add(row, is_header=False)
    return "".join(f"{line}\n" for line in lines)


def _pad(text: str, width: int, *, is_number: bool) -> str:
    if is_number:
        text = text.rstrip()
    space = " " * (width - cell_len(text))
    return space + text if is_number else text + space


def _grid(part: Grid, layout: GridLayout) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_header=part.has_header, pad_edge=False, show_edge=False, padding=(0, (SPACE - 1) // 2))
    for index, width in zip(layout.shown, layout.widths, strict=True):
        column = part.columns[index]
        table.add_column(Text(visible(column.name)), justify="right" if column.is_number else "left", overflow="fold", width=width)
    for row in part.rows:
        table.add_row(*(Text(visible(row[index])) for index in layout.shown))
    return table


def _records(part: Grid) -> Iterator[RenderableType]:
    """Yield each row as a record, with one line for each name and value, and an empty line after each record but the last."""
    names: Sequence[str] = [column.name for column in part.columns]
    for number, row in enumerate(part.rows):
        if number:
            yield Text()
        yield _FittedFacts(Facts(tuple((name, cell) for name, cell in zip(names, row, strict=True) if name or cell)))


def _natural_width(part: Part) -> int:
    """Return the width at which no line of a part is wrapped; for prose the width of its longest word."""
    match part:
        case Prose():
            return max(map(cell_len, visible(part.text).split("\n" if part.whole else None)), default=0)
        case Facts():
            names, values = zip(*part.pairs, strict=True) if part.pairs else ((), ())
            return 2 + _FACTS_SPACE + sum(max((cell_len(visible(text)) for text in texts), default=0) for texts in (names, values))
        case Grid():
            return natural_width(part)
        case Outline():
            children = (_GUIDE_WIDTH + _natural_width(child) for child in part.children)
            return max([_label(part).cell_len, *children])
        case Document():
            return max(map(cell_len, _json_text(part).splitlines()))
        case Figure():
            return 0


def _json_text(part: Document) -> str:
    return visible(json.dumps(part.content, indent=2, ensure_ascii=False))


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
