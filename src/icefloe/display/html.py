"""Conversion of a report (`report.py`) to HTML for notebooks and pages: tables, and outlines that open and close.

Every text is escaped, because content of a table must not become markup. Notebooks have no style sheet for reports, so that elements have styles of their own
there. The content security policy of a page refuses such styles, so that its elements have classes.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from icefloe.display.figures.figure import Figure
from icefloe.display.markup import Child, Markup, element, escape_text
from icefloe.display.report import Document, Facts, Grid, Mark, Outline, Part, Prose, Report
from icefloe.errors import visible

# The most lines of a JSON document on one page.
DOCUMENT_LINES = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class HtmlStyle:
    """The elements and attributes with which a report is drawn.

    Attributes:
        title: The element of a report's title; None if the title is not drawn.
        heading: The element of the title of a part.
        facts: The four elements of a list of facts, of one fact, of its name and of its value.
        attributes: The attributes of elements, by the role of the element.
        signs: The text before the label of a line, by whether its subject was kept or skipped.
        open_levels: The number of levels of an outline that are initially open.
        document_lines: The most lines of a JSON document; None for all.
        frame: Returns the frame around a table, given the table and its title.
        text: Returns a text escaped.
    """

    title: str | None
    heading: str
    facts: tuple[str, str, str, str]
    attributes: Mapping[str, Mapping[str, str]]
    signs: Mapping[Mark, str]
    open_levels: int
    document_lines: int | None
    frame: Callable[[Markup, str], Markup]
    text: Callable[[str], Markup]

    def element(self, name: str, role: str, *children: Child, **attributes: str | bool | None) -> Markup:
        """Return an element with the attributes of its role."""
        return element(name, *children, **{**attributes, **self.attributes.get(role, {})})


def _scroll_region(table: Markup, title: str) -> Markup:
    return element("div", table, class_="scrolled", tabindex=0, role="region", aria_label=title)


_LEFT, _RIGHT, _DIM, _INDENT = (
    "text-align:left;vertical-align:top",
    "text-align:right;vertical-align:top",
    "opacity:.65",
    "margin-left:1.2em",
)
NOTEBOOK = HtmlStyle(
    title="h4",
    heading="h5",
    facts=("table", "tr", "th", "td"),
    attributes={
        "cell": {"style": _LEFT},
        "number": {"style": _RIGHT},
        "head": {"style": _LEFT},
        "number head": {"style": _RIGHT},
        "dim": {"style": _DIM},
        "kept": {"style": "color:#1a7f37"},
        "skipped": {"style": "color:#b35900"},
        "leaf": {"style": _INDENT},
        "more": {"style": f"{_INDENT};{_DIM}"},
        "outline": {"style": _INDENT},
        "figure": {"style": "margin:0;max-width:60em"},
    },
    signs={Mark.KEPT: "✓ ", Mark.SKIPPED: "✗ "},
    open_levels=5,
    document_lines=None,
    frame=lambda table, _: table,
    text=lambda text: Markup(escape(visible(text))),
)
PAGE = HtmlStyle(
    title=None,
    heading="h3",
    facts=("dl", "div", "dt", "dd"),
    attributes={
        "report": {"class_": "report"},
        "facts": {"class_": "rows"},
        "number": {"class_": "number"},
        "head": {"scope": "col"},
        "number head": {"scope": "col", "class_": "number"},
        "dim": {"class_": "dim"},
        "kept": {"class_": "kept"},
        "skipped": {"class_": "skipped"},
        "leaf": {"class_": "leaf"},
        "more": {"class_": "dim"},
    },
    signs={},
    open_levels=2,
    document_lines=DOCUMENT_LINES,
    frame=_scroll_region,
    text=lambda text: Markup(escape_text(text)),
)


def html_of(report: Report) -> str:
    """Return a report as one `div` element for a notebook."""
    return str(report_markup(report, NOTEBOOK))


def report_markup(report: Report, style: HtmlStyle = PAGE) -> Markup:
    """Return a report as one `div` element."""
    title = element(style.title, style.text(report.title)) if style.title and report.title else None
    return style.element("div", "report", title, *(_part(part, style) for part in report.parts))


def _part(part: Part, style: HtmlStyle) -> Markup:
    match part:
        case Prose():
            return element("p", style.text(part.text))
        case Facts():
            around, fact, name, value = style.facts
            facts = (element(fact, _cell(name, key, style), _cell(value, text, style)) for key, text in part.pairs)
            return element("div", _heading(part.title, style), style.element(around, "facts", *facts))
        case Grid():
            numbers = frozenset(place for place, column in enumerate(part.columns) if column.is_number)
            more = style.element("p", "dim", f"… and {part.more:,} more") if part.more else None
            cells = [tuple(map(style.text, row)) for row in part.rows]
            table = table_markup([column.name for column in part.columns], cells, numbers=numbers, caption=part.title, style=style)
            return element("div", _heading(part.title, style), element("div", table, more))
        case Outline():
            return _outline(part, 0, style)
        case Document():
            return element("div", _heading(part.title, style), document_lines(document_text(part.content), 0, style))
        case Figure():
            return figure_markup(part, style)


def table_markup(
    columns: Sequence[str],
    rows: Sequence[Sequence[Child]],
    *,
    numbers: frozenset[int] = frozenset(),
    caption: str = "",
    style: HtmlStyle = PAGE,
) -> Markup:
    """Return a table.

    Args:
        columns: The headers.
        rows: The cells.
        numbers: The indices of columns with numbers, which are aligned right.
        caption: What the table lists, for screen readers.
        style: How the table is drawn.
    """
    roles = ["number" if place in numbers else "cell" for place in range(len(columns))]
    heads = [style.element("th", "head" if role == "cell" else "number head", name) for name, role in zip(columns, roles, strict=True)]
    body = [element("tr", *(style.element("td", role, cell) for cell, role in zip(row, roles, strict=True))) for row in rows]
    unseen = element("caption", caption, class_="unseen") if caption and style is PAGE else None
    table = element("table", unseen, element("thead", element("tr", *heads)), element("tbody", *body))
    return style.frame(table, caption or columns[0])


def figure_markup(figure: Figure, style: HtmlStyle = PAGE) -> Markup:
    """Return a figure with its summary below it."""
    role = "dim" if style is NOTEBOOK else ""
    return style.element("figure", "figure", figure.svg(), style.element("figcaption", role, figure.summary))


def document_text(content: object) -> list[str]:
    """Return the lines of a JSON document."""
    return json.dumps(content, indent=2, ensure_ascii=False).splitlines()


def document_lines(lines: Sequence[str], start: int, style: HtmlStyle = PAGE) -> Markup:
    """Return the lines of a document from line `start` on, at most as many as the style allows."""
    shown = lines[start:] if style.document_lines is None else lines[start : start + style.document_lines]
    return element("pre", *(element("span", style.text(line), "\n") for line in shown), tabindex=0, aria_label="JSON document")


def _heading(title: str, style: HtmlStyle) -> Markup | None:
    return element(style.heading, style.text(title)) if title else None


def _cell(name: str, text: str, style: HtmlStyle) -> Markup:
    return style.element(name, "cell", style.text(text))


def _outline(part: Outline, depth: int, style: HtmlStyle) -> Markup:
    label = style.element("span", part.mark.value, style.signs.get(part.mark, ""), style.text(part.label))
    text = (label, " ", style.element("span", "dim", style.text(part.aside)))
    if not part.children and not part.more:
        return style.element("div", "leaf", *text)
    below = [_outline(child, depth + 1, style) for child in part.children]
    if part.more:
        below.append(style.element("div", "more", f"… and {part.more:,} more"))
    return style.element("details", "outline", element("summary", *text), *below, open=depth < style.open_levels)
