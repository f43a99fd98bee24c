"""`HtmlPage`: a table as one HTML file without a server, with all sections one after another, and with style sheet and script inline."""

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from html import escape
from pathlib import Path

from icefloe.display.markup import Markup, element, fragment
from icefloe.errors import IcefloeError, InvalidFilterError, InvalidInputError, StorageError
from icefloe.explorer.computed_results import OpenedTable, Results
from icefloe.explorer.page import MOST_BYTES, SECTIONS, document, inline_head, section_of
from icefloe.explorer.section import Links, PageRequest, panel
from icefloe.operations.loaded_table import TableReader

_FRAME_HEIGHT = 720  # the height in pixels of the frame in a notebook


@dataclass(frozen=True, slots=True, kw_only=True)
class HtmlPage:
    """The page of a table as one self-contained file: write it, or display it in a notebook.

    Attributes:
        name: The name of the table.
        html: The content of the file.
    """

    name: str
    html: str

    def write(self, path: str | Path) -> Path:
        """Write the file. A concurrent reader of the path never sees a part of it.

        Args:
            path: The path of the file, in a folder that exists.

        Returns:
            The path.

        Raises:
            StorageError: The file cannot be written.
            InvalidInputError: The path has no file name.
        """
        target = Path(path)
        if not target.name:
            raise InvalidInputError(f"{path} is no path of a file", next_step="pass the path of the file to write")
        unfinished = target.with_name(f".{target.name[:100]}.{os.getpid()}")
        try:
            unfinished.write_text(self.html, encoding="utf-8", errors="replace")
            unfinished.replace(target)
        except (OSError, ValueError) as error:  # Python raises ValueError for a path with a null character
            with suppress(OSError, ValueError):
                unfinished.unlink()
            reason = getattr(error, "strerror", None) or str(error)
            raise StorageError(
                f"cannot write {path}: {reason}",
                path=str(path),
                next_step="choose a folder that you may write to, on a disk with free space",
            ) from error
        return target

    def __repr__(self) -> str:
        return f"HtmlPage(name={self.name!r}, {len(self.html):,} characters)"

    def _repr_html_(self) -> str:
        """Return a frame with the page, for notebooks. In the frame, the page's style sheet and script cannot affect the notebook."""
        # Links to sections must stay within the frame, and not open the address of the notebook.
        page = self.html.replace("<head>", '<head><base href="about:srcdoc">', 1)
        attributes = f'sandbox="allow-scripts" style="width:100%;height:{_FRAME_HEIGHT}px;border:0" title="{escape(self.name[:100])}"'
        return f'<iframe srcdoc="{escape(page)}" {attributes}></iframe>'


def html_page(table: TableReader, *, where: str | None = None, snapshot: int | str | None = None) -> HtmlPage:
    """Return the page of a table as one self-contained HTML file, as `icefloe explore --html` writes it.

    Args:
        table: The table.
        where: A filter as in SQL's WHERE, whose scan the page explains too; None for no explanation.
        snapshot: A snapshot id, a branch or a tag; the current snapshot by default.

    Returns:
        The page.

    Raises:
        NoSuchSnapshotError: The table does not have the snapshot.
        InvalidFilterError: The filter cannot be parsed, or names a column that the table does not have.
    """
    chosen = None if snapshot is None else str(snapshot)
    page = standalone(table, time.time_ns() // 1_000_000, typed=table.full_name, where=where, snapshot=chosen)
    return HtmlPage(name=table.full_name, html=page)


class _InPage(Links):
    """Links within the file, which has addresses of its sections only."""

    def to(self, page: str, **query: object) -> str | None:
        return None if any(value not in (None, "") for value in query.values()) else f"#{page}"


def standalone(
    reader: TableReader, now_ms: int, *, typed: str, where: str | None = None, snapshot: str | None = None, arguments: str = ""
) -> Markup:
    """Return the content of the file.

    Args:
        reader: The table.
        now_ms: The current time in milliseconds since 1970, from which ages are computed.
        typed: The name of the table as commands accept it.
        where: The filter of a scan whose trace is shown; None for no trace.
        snapshot: A snapshot id, a branch or a tag; None for the current snapshot.
        arguments: The options of commands that select the catalog.

    Raises:
        NoSuchSnapshotError: The table does not have the snapshot.
        InvalidFilterError: The filter cannot be parsed, or names a column that the table does not have.
    """
    results = Results(patience_s=None)
    try:
        opened = OpenedTable(reader, results, typed, arguments, snapshot)
        _check(opened, where)
        parts: list[Markup] = []
        names: list[Markup] = []
        size = 0
        for section in SECTIONS:
            if section.name == "query" and where is None:
                continue
            query = {"kind": "metadata"} if section.name == "contents" else {} if where is None else {"where": where}
            request = PageRequest(opened=opened, links=_InPage(), query=query, now_ms=now_ms, is_file=True)
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
    body = fragment(
        element("header", element("span", "Icefloe", class_="brand"), element("h1", reader.full_name)),
        element("nav", *names, class_="sections", aria_label="sections"),
        element("main", *parts, id="main", tabindex="-1"),
    )
    return document(reader.full_name[:100], body, inline_head())


def _check(opened: OpenedTable, where: str | None) -> None:
    """Raise an error if the arguments of the file are wrong. Errors of the table are not raised, because the file shows them."""
    _ = opened.snapshot_id
    if where is None:
        return
    try:
        opened.trace(where)
    except InvalidFilterError:
        raise
    except IcefloeError:
        return
