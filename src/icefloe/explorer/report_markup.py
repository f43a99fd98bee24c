"""Reports of `icefloe.inspect` as parts of a page: without styles of their own, which the page's policy refuses. Notebooks have `display/html.py`."""

import json
from typing import assert_never

from icefloe.display.figures.figure import Figure
from icefloe.display.markup import MOST_CHARACTERS, Markup, element
from icefloe.display.report import Document, Facts, Grid, Mark, Outline, Part, Prose, Report
from icefloe.explorer.section import drawn, facts, table

# Lines of a JSON document on one page.
DOCUMENT_LINES = 2_000


def report_markup(report: Report, *, title: bool = False) -> Markup:
    """Return a report. `title`: with its title."""
    return element("div", element("h2", report.title) if title and report.title else None, *map(_part, report.parts), class_="report")


def _part(part: Part) -> Markup:
    match part:
        case Prose():
            return element("p", part.text)
        case Facts():
            return element("div", _heading(part.title), facts(part.pairs, "rows"))
        case Grid():
            return element("div", _heading(part.title), _grid(part))
        case Outline():
            return _outline(part, 0)
        case Document():
            return element("div", _heading(part.title), document_lines(document_text(part.content), 0))
        case Figure():
            return drawn(part)
        case _:
            assert_never(part)


def document_text(content: object) -> list[str]:
    """Return a JSON document as lines."""
    return json.dumps(content, indent=2, ensure_ascii=False).splitlines()


def document_lines(lines: list[str], start: int) -> Markup:
    """Return a page of a document's lines, each of at most `MOST_CHARACTERS` characters."""
    shown = lines[start : start + DOCUMENT_LINES]
    return element("pre", *(element("span", line[:MOST_CHARACTERS], "\n") for line in shown), tabindex=0, aria_label="JSON document")


def _heading(title: str) -> Markup | None:
    return element("h3", title) if title else None


def _grid(part: Grid) -> Markup:
    numbers = frozenset(place for place, column in enumerate(part.columns) if column.is_number)
    more = element("p", f"… and {part.more:,} more", class_="dim") if part.more else None
    return element("div", table(tuple(column.name for column in part.columns), part.rows, numbers=numbers, caption=part.title), more)


def _outline(part: Outline, depth: int) -> Markup:
    text = [
        element("span", part.label, class_={Mark.KEPT: "kept", Mark.SKIPPED: "skipped"}.get(part.mark)),
        " ",
        element("span", part.aside, class_="dim"),
    ]
    if not part.children and not part.more:
        return element("div", *text, class_="leaf")
    below = [_outline(child, depth + 1) for child in part.children]
    if part.more:
        below.append(element("div", f"… and {part.more:,} more", class_="dim"))
    return element("details", element("summary", *text), *below, open=depth < 2)
