"""`Section`: a part of a table's page; and `PageRequest`: what a section is made from.

A section works without scripts: whatever a reader can choose is a link or a form, and a part of the address.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from icefloe.display.markup import Child, Markup, element
from icefloe.errors import IcefloeError
from icefloe.explorer.opened_table import OpenedTable, StillRunningError
from icefloe.formatting import age_text

# Lines of a list on one page.
PAGE_LINES = 100


class Links:
    """Addresses of pages; a file without a server has few of them."""

    @abstractmethod
    def to(self, page: str, **query: object) -> str | None:
        """Return the address of a page of the table; None if there is none. Empty and None values of the query are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """The table, and what the reader has chosen.

    Attributes:
        opened: The table.
        links: The addresses of other pages.
        query: The query of the page's address.
        now_ms: The time, for ages.
        is_file: True for a file without a server, in which all sections follow each other.
    """

    opened: OpenedTable
    links: Links
    query: Mapping[str, str]
    now_ms: int
    is_file: bool = False

    def age(self, timestamp_ms: int) -> str:
        """Return how long ago a time was."""
        return f"{age_text(self.now_ms - timestamp_ms)} ago"

    def number(self, name: str, default: int = 0, most: int = 1 << 31) -> int:
        """Return the number that a parameter of the query has; the default if the parameter is missing or not a number."""
        text = self.query.get(name, "")
        return min(int(text), most) if text.isascii() and text.isdecimal() and len(text) < 12 else default

    def span(self, name: str, count: int) -> tuple[int, int]:
        """Return the range that a parameter of the query has, such as `3-17` for (2, 17): a first index from 0, and an end within `count`.

        The whole range (0, `count`) if the parameter is missing or not a range.
        """
        first, _, last = self.query.get(name, "").partition("-")
        if not (first.isascii() and first.isdecimal() and last.isascii() and last.isdecimal() and len(first) < 12 and len(last) < 12):
            return 0, count
        start, end = max(int(first) - 1, 0), min(int(last), count)
        return (start, end) if start < end else (0, count)


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A section: its name in addresses, its title, and the function that makes its content."""

    name: str
    title: str
    content: Callable[[PageRequest], Markup]


def panel(title: str, *children: Child, about: str = "", id_: str | None = None) -> Markup:
    """Return a part of a section with a title and a sentence about it."""
    return element(
        "section", element("h2", title), element("p", about, class_="about") if about else None, *children, class_="panel", id=id_
    )


def panel_or_notice(title: str, content: Callable[[], Markup | None]) -> tuple[Markup | None, bool]:
    """Return a content, and whether it is not there yet: then a notice is in its place. An error of the table is shown in its place too."""
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
    """Return names with their values."""
    return element(
        "dl", *(element("div", element("dt", name), element("dd", value)) for name, value in pairs), class_=class_, aria_label=label
    )


def tabs(label: str, choices: Iterable[tuple[str | None, Child, bool]], more: Child = None) -> Markup:
    """Return links of which one is chosen.

    Args:
        label: What is chosen, for readers who do not see it.
        choices: The address, the text, and whether it is the chosen one.
        more: What follows the links.
    """
    links = [element("a", text, href=target, aria_current="true" if is_chosen else None) for target, text, is_chosen in choices]
    return element("nav", *links, more, class_="tabs", aria_label=label)


def anchor(target: str | None, text: Child, class_: str | None = None) -> Markup:
    """Return a link; the text alone where there is no target."""
    return element("span", text, class_=class_) if target is None else element("a", text, href=target, class_=class_)


def pager(
    request: PageRequest, page: str, name: str, start: int, count: int, size: int = PAGE_LINES, query: Mapping[str, object] | None = None
) -> Markup | None:
    """Return links to the lines before and after; None if all are on this page.

    Args:
        request: The table, and what the reader has chosen.
        page: The page that shows the lines.
        name: The parameter of the query that has the first line.
        start: The first line, from 0.
        count: The number of all lines.
        size: The lines of a page.
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
    """Return a command to copy, which a button copies where scripts run."""
    return element(
        "span",
        element("code", command),
        element("button", "copy", type="button", class_="copy", data_copy=command, hidden=True),
        class_="command",
    )
