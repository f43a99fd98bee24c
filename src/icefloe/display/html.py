"""Drawing of a report as HTML for notebooks: tables, and outlines that open and close. The content is in `report.py`.

Every text is escaped; nothing of a table's content is trusted as markup.
"""

import json
from collections.abc import Iterator
from html import escape

from icefloe.display.figures.figure import Figure
from icefloe.display.report import Document, Facts, Grid, Mark, Outline, Part, Prose, Report
from icefloe.errors import visible

_COLOURS = {Mark.KEPT: "#1a7f37", Mark.SKIPPED: "#b35900"}
_SIGNS = {Mark.NONE: "", Mark.KEPT: "✓ ", Mark.SKIPPED: "✗ "}
_DIM = 'style="opacity:.65"'
# Levels of an outline that are initially open.
_OPEN_LEVELS = 5


class ShownAsText:
    """A value that is displayed by its text: at a prompt as it is, in a notebook with the first line as the title and the others as paragraphs."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        head, *lines = str(self).splitlines()
        return html_of(Report(head, tuple(Prose(line.strip()) for line in lines)))


def html_of(report: Report) -> str:
    """Return a report as one `div`."""
    return "".join(["<div>", *_pieces(report), "</div>"])


def _pieces(report: Report) -> Iterator[str]:
    if report.title:
        yield f"<h4>{_escaped(report.title)}</h4>"
    for part in report.parts:
        yield from _drawn(part)


def _drawn(part: Part) -> Iterator[str]:
    match part:
        case Prose():
            yield f"<p>{_escaped(part.text)}</p>"
        case Facts():
            yield _title(part.title)
            rows = "".join(
                f"<tr><th {_left()}>{_escaped(name)}</th><td {_left()}>{_escaped(value)}</td></tr>" for name, value in part.pairs
            )
            yield f"<table>{rows}</table>"
        case Grid():
            yield _title(part.title)
            yield _grid(part)
        case Outline():
            yield _outline(part, 0)
        case Document():
            yield _title(part.title)
            yield f"<pre>{_escaped(json.dumps(part.content, indent=2, ensure_ascii=False))}</pre>"
        case Figure():
            yield f'<figure style="margin:0;max-width:60em">{part.svg()}<figcaption {_DIM}>{_escaped(part.summary)}</figcaption></figure>'


def _title(title: str) -> str:
    return f"<h5>{_escaped(title)}</h5>" if title else ""


def _left(is_number: bool = False) -> str:
    return f'style="text-align:{"right" if is_number else "left"};vertical-align:top"'


def _grid(part: Grid) -> str:
    numbers = [column.is_number for column in part.columns]
    head = "".join(f"<th {_left(column.is_number)}>{_escaped(column.name)}</th>" for column in part.columns)
    body = "".join(
        "<tr>" + "".join(f"<td {_left(number)}>{_escaped(cell)}</td>" for cell, number in zip(row, numbers, strict=True)) + "</tr>"
        for row in part.rows
    )
    more = f"<p {_DIM}>… and {part.more:,} more</p>" if part.more else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _outline(part: Outline, depth: int) -> str:
    colour = _COLOURS.get(part.mark)
    label = f"{_SIGNS[part.mark]}{_escaped(part.label)}"
    label = f'<span style="color:{colour}">{label}</span>' if colour else label
    if part.aside:
        label += f" <span {_DIM}>{_escaped(part.aside)}</span>"
    if not part.children and not part.more:
        return f'<div style="margin-left:1.2em">{label}</div>'
    inner = "".join(_outline(child, depth + 1) for child in part.children)
    if part.more:
        inner += f'<div style="margin-left:1.2em;opacity:.65">… and {part.more:,} more</div>'
    opened = " open" if depth < _OPEN_LEVELS else ""
    return f'<details style="margin-left:1.2em"{opened}><summary>{label}</summary>{inner}</details>'


def _escaped(text: str) -> str:
    return escape(visible(text))
