"""The frame of every page: head, navigation and footer; and the list of all sections in their order."""

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from importlib import resources

from icefloe.display.markup import Child, Markup, element, fragment
from icefloe.explorer.bounds_overlap import bounds_overlap
from icefloe.explorer.checks import checks
from icefloe.explorer.comparison import comparison
from icefloe.explorer.contents import contents
from icefloe.explorer.evolution import evolution
from icefloe.explorer.file_sizes import file_sizes
from icefloe.explorer.history import history
from icefloe.explorer.overview import overview
from icefloe.explorer.partition_map import partition_map
from icefloe.explorer.query import query
from icefloe.explorer.section import PageRequest, Section, panel, panel_or_notice
from icefloe.version import __version__

SECTIONS = (
    Section(name="overview", title="Overview", content=overview),
    Section(name="history", title="History", content=history),
    Section(name="files", title="File sizes", content=file_sizes),
    Section(name="partitions", title="Partitions", content=partition_map),
    Section(name="clustering", title="Clustering", content=bounds_overlap),
    Section(name="query", title="Query", content=query),
    Section(name="checks", title="Checks", content=checks),
    Section(name="compare", title="Compare", content=comparison),
    Section(name="evolution", title="Evolution", content=evolution),
    Section(name="contents", title="Contents", content=contents),
)
STYLE, SCRIPT, ICON = "explorer.css", "explorer.js", "icon.svg"
# The most bytes of a page.
MOST_BYTES = 2_000_000


def section_of(request: PageRequest, section: Section) -> tuple[Markup, bool]:
    """Return the content of a section, and whether a part of it is still being computed. An error of the table is shown in place of the content."""
    content, waits = panel_or_notice(section.title, lambda: section.content(request))
    return content or Markup(), waits or (content or "").startswith('<div data-waits="true"')


def table_page(request: PageRequest, chosen: Section, home: str | None) -> tuple[Markup, bool]:
    """Return the page of a section, and whether the browser must load it again because a part is still being computed.

    Args:
        request: The request.
        chosen: The section.
        home: The address of the page of the catalog; None if the server shows only one table.
    """
    content, waits = section_of(request, chosen)
    snapshot = request.opened.snapshot
    tabs = [
        element(
            "a",
            section.title,
            href=request.links.to(section.name, snapshot=snapshot),
            aria_current="page" if section is chosen else None,
        )
        for section in SECTIONS
    ]
    title = f"{request.opened.name[:100]}: {chosen.title}"
    then = None
    if snapshot is not None:
        now = element("a", "show the current one", href=request.links.to(chosen.name))
        then = element("p", f"The table as of snapshot {request.opened.snapshot_id}. ", now, class_="then", role="status")
    body = fragment(
        _header(request.opened.name, home),
        element("nav", *tabs, class_="sections", aria_label="sections"),
        element("main", then, content, id="main", tabindex="-1"),
    )
    return document(title, body, linked_head()), waits


def document(title: str, body: Markup, head: Child) -> Markup:
    """Return a complete HTML document."""
    return Markup(
        "<!doctype html>\n"
        + element(
            "html",
            element(
                "head",
                element("meta", charset="utf-8"),
                element("meta", name="viewport", content="width=device-width, initial-scale=1"),
                element("meta", name="color-scheme", content="light dark"),
                element("title", title),
                head,
            ),
            element(
                "body",
                element("a", "to the content", href="#main", class_="skip"),
                body,
                element("footer", f"Icefloe {__version__}. This page only reads."),
            ),
            lang="en",
        )
    )


def linked_head() -> Markup:
    """Return the links to style sheet and script, for a page that a server sends."""
    return fragment(
        element("link", rel="icon", href=f"/assets/{ICON}", type="image/svg+xml"),
        element("link", rel="stylesheet", href=f"/assets/{STYLE}"),
        element("script", src=f"/assets/{SCRIPT}", defer=True),
    )


def inline_head() -> Markup:
    """Return style sheet and script inline, for a file without a server, and the policy that forbids everything else to run or load."""
    style, script = asset(STYLE), asset(SCRIPT)
    policy = f"default-src 'none'; img-src data:; style-src '{digest(style)}'; script-src '{digest(script)}'; base-uri 'none'; form-action 'none'"
    return fragment(
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("link", rel="icon", href="data:,"),
        element("style", Markup(style)),
        element("script", Markup(script), type="module"),
    )


def digest(text: str) -> str:
    """Return the hash of an inline style or script, as the content security policy has it."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


@cache
def asset(name: str) -> str:
    """Return the text of a file of this package that a browser loads: the style sheet or the script."""
    return resources.files("icefloe.explorer").joinpath("assets", name).read_text(encoding="utf-8")


def notice_page(title: str, *children: Child, home: str | None = None) -> Markup:
    """Return a page with a notice, such as an error."""
    return document(title, fragment(_header(None, home), element("main", panel(title, *children), id="main", tabindex="-1")), linked_head())


def catalog_page(name: str, namespaces: Sequence[tuple[str, Sequence[tuple[str, str]]]], more: int) -> Markup:
    """Return the page of a catalog.

    Args:
        name: The name of the catalog.
        namespaces: Each namespace with its tables, each table as its name and address.
        more: The number of tables that are left out.
    """
    lists = [panel(space, _tables(tables)) for space, tables in namespaces]
    rest = element("p", f"… and {more:,} more tables: open one by icefloe explore NAME", class_="dim") if more else None
    main = element("main", element("h1", f"Catalog {name}", class_="unseen"), *lists, rest, id="main", tabindex="-1")
    return document(f"Catalog {name[:100]}", fragment(_header(f"catalog {name}", None), main), linked_head())


def _tables(tables: Sequence[tuple[str, str]]) -> Markup:
    if not tables:
        return element("p", "no tables", class_="dim")
    return element("ul", *(element("li", element("a", table, href=target)) for table, target in tables), class_="tables")


def _header(name: str | None, home: str | None) -> Markup:
    mark = element(
        "svg",
        element("path", d="M12 3 5 13h14Z", class_="tip"),
        element("path", d="M3 15h18l-5 6H8Z", class_="below"),
        viewBox="0 0 24 24",
        width=26,
        height=26,
        aria_hidden="true",
    )
    brand = element("span", mark, "Icefloe")
    return element(
        "header",
        element("a", brand, href=home, class_="brand") if home else element("span", brand, class_="brand"),
        element("h1", name) if name else None,
    )
