"""A table as one HTML file without a server: all sections one after the other, with style sheet and script inside."""

from icefloe.display.markup import Markup, element, joined
from icefloe.explorer.opened_table import OpenedTable, Results
from icefloe.explorer.page import MOST_BYTES, SECTIONS, document, inline_head, section_of
from icefloe.explorer.section import Links, Request, panel
from icefloe.table.table_reader import TableReader


class _InPage(Links):
    """Links within the file: to its sections only."""

    def to(self, page: str, **query: object) -> str | None:
        """See `Links.to`."""
        return None if any(value not in (None, "") for value in query.values()) else f"#{page}"


def standalone(
    reader: TableReader, now_ms: int, *, typed: str, where: str | None = None, snapshot: str | None = None, arguments: str = ""
) -> Markup:
    """Return the file.

    Args:
        reader: The table.
        now_ms: The time, for ages.
        typed: The name of the table as commands take it.
        where: The filter of a query whose trace is shown; None for no trace.
        snapshot: The snapshot, a branch or a tag; None for the current one.
        arguments: The options of commands that name the catalog.
    """
    results = Results(patience_s=None)
    try:
        opened = OpenedTable(reader, results, typed, arguments, snapshot)
        parts: list[Markup] = []
        names: list[Markup] = []
        size = 0
        for section in SECTIONS:
            if section.name == "query" and where is None:
                continue
            query = {"kind": "metadata"} if section.name == "contents" else {} if where is None else {"where": where}
            request = Request(opened=opened, links=_InPage(), query=query, now_ms=now_ms, is_file=True)
            content, _ = section_of(request, section)
            if size + len(content.encode()) > MOST_BYTES * 9 // 10:
                content = panel(
                    section.title,
                    element("p", "Left out, because the file would be too large. A page with a server has it: icefloe explore."),
                )
            size += len(content.encode())
            parts.append(element("section", element("h2", section.title, class_="section"), content, id=section.name))
            names.append(element("a", section.title, href=f"#{section.name}"))
    finally:
        results.close()
    body = joined(
        element("header", element("span", "Icefloe", class_="brand"), element("h1", reader.full_name)),
        element("nav", *names, class_="sections", aria_label="sections"),
        element("main", *parts, id="main", tabindex="-1"),
    )
    return document(reader.full_name[:100], body, inline_head())
