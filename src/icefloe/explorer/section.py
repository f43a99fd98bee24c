"""`Section`: a part of a table's page; and `PageRequest`: the table and the choices of the reader, from which a section is made.

A section works without scripts: every choice of the reader is a link or a form, and a part of the address.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from icefloe.display.markup import Child, Markup, element
from icefloe.errors import IcefloeError
from icefloe.explorer.computed_results import OpenedTable, StillRunningError
from icefloe.formatting import age_text

# The number of lines of a list on one page.
PAGE_LINES = 100


class Links:
    """Addresses of the pages of a table. A file without a server has only addresses of its sections."""

    @abstractmethod
    def to(self, page: str, **query: object) -> str | None:
        """Return the address of a page of the table; None if it has no address.

        Args:
            page: The name of the page.
            **query: The parameters of the query. Empty and None values are left out.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """The table, and the choices of the reader.

    Attributes:
        opened: The table.
        links: The addresses of other pages.
        query: The parameters of the page's address.
        now_ms: The current time in milliseconds since 1970, from which ages are computed.
        is_file: Whether the page is a file without a server, in which all sections follow each other.
    """

    opened: OpenedTable
    links: Links
    query: Mapping[str, str]
    now_ms: int
    is_file: bool = False

    def age(self, timestamp_ms: int) -> str:
        """Return the age of a time as text."""
        return f"{age_text(self.now_ms - timestamp_ms)} ago"

    def number(self, name: str, default: int = 0, most: int = 1 << 31) -> int:
        """Return a parameter of the query as a number of at most `most`; the default if the parameter is missing or is not a number."""
        text = self.query.get(name, "")
        return min(int(text), most) if text.isascii() and text.isdecimal() and len(text) < 12 else default

    def span(self, name: str, count: int) -> tuple[int, int]:
        """Return a range that a parameter of the query has, such as `3-17`, as a first index from 0 and an end: (2, 17). The end is at most `count`.

        If the parameter is missing or is not a range, return the whole range (0, `count`).
        """
        first, _, last = self.query.get(name, "").partition("-")
        if not (first.isascii() and first.isdecimal() and last.isascii() and last.isdecimal() and len(first) < 12 and len(last) < 12):
            return 0, count
        start, end = max(int(first) - 1, 0), min(int(last), count)
        return (start, end) if start < end else (0, count)


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A section: its name in addresses, its title, and the function that returns its content."""

    name: str
    title: str
    content: Callable[[PageRequest], Markup]


def panel(title: str, *children: Child, about: str = "", id_: str | None = None) -> Markup:
    """Return a part of a section with a title and a sentence that explains it."""
    return element(
        "section", element("h2", title), element("p", about, class_="about") if about else None, *children, class_="panel", id=id_
    )


def panel_or_notice(title: str, content: Callable[[], Markup | None]) -> tuple[Markup | None, bool]:
    """Call `content`, and show a notice in its place if it is still being computed or the table has an error.

    Returns:
        The content or the notice; and True if the content is still being computed, so that the browser must load the page again.
    """
    try:
        return content(), False
    except StillRunningError as running:
        return panel(title, element("p", f"{running} …", class_="waiting", role="status")), True
    except IcefloeError as error:
        return panel(title, fault(error)), False


def fault(error: IcefloeError) -> Markup:
    """Return an error of the table as a notice: what failed, where, and what to do."""
    where = error.path or error.table
    problems = [element("li", str(problem)) for problem in error.problems[:10]]
    return element(
        "div",
        element("p", element("strong", error.message)),
        element("p", where, class_="dim path") if where else None,
        element("ul", *problems) if problems else None,
        element("p", "Next: ", error.next_step) if error.next_step else None,
        class_="fault",
        role="alert",
    )


def facts(pairs: Iterable[tuple[str, str]], class_: str = "facts", label: str | None = None) -> Markup:
    """Return a list of names with their values."""
    return element(
        "dl", *(element("div", element("dt", name), element("dd", value)) for name, value in pairs), class_=class_, aria_label=label
    )


def tabs(label: str, choices: Iterable[tuple[str | None, Child, bool]], more: Child = None) -> Markup:
    """Return links, one of which is marked as chosen.

    Args:
        label: What the reader chooses, for screen readers.
        choices: The address and the text of each link, and whether it is the chosen one.
        more: What follows the links.
    """
    links = [element("a", text, href=target, aria_current="true" if is_chosen else None) for target, text, is_chosen in choices]
    return element("nav", *links, more, class_="tabs", aria_label=label)


def anchor(target: str | None, text: Child, class_: str | None = None) -> Markup:
    """Return a link; only its text if there is no target."""
    return element("span", text, class_=class_) if target is None else element("a", text, href=target, class_=class_)


def pager(
    request: PageRequest, page: str, name: str, start: int, count: int, size: int = PAGE_LINES, query: Mapping[str, object] | None = None
) -> Markup | None:
    """Return links to the previous and next lines of a list, or in a file without a server the number of further lines; None if there are no further lines.

    Args:
        request: The table, and the choices of the reader.
        page: The name of the page that shows the lines.
        name: The parameter of the query that has the first line.
        start: The first line, from 0.
        count: The number of all lines.
        size: The number of lines on one page.
        query: The other parameters.
    """
    rest = {"snapshot": request.opened.snapshot} if query is None else query
    if count <= size or request.is_file:
        return element("p", f"… and {count - size:,} more", class_="dim") if count > size else None
    before = request.links.to(page, **rest, **{name: max(start - size, 0)}) if start else None
    after = request.links.to(page, **rest, **{name: start + size}) if start + size < count else None
    shown = f"{start + 1:,} to {min(start + size, count):,} of {count:,}"
    return element(
        "nav",
        anchor(before, "← earlier"),
        element("span", shown, class_="dim"),
        anchor(after, "later →"),
        class_="pager",
        aria_label="lines",
    )


def copyable(command: str) -> Markup:
    """Return a command, with a button that copies it if scripts run."""
    return element(
        "span",
        element("code", command),
        element("button", "copy", type="button", class_="copy", data_copy=command, hidden=True),
        class_="command",
    )
