"""The page that shows a table, from its catalog to the bytes of its files: its sections as HTML, a server for them, and one self-contained file of them all.

A public package:

    from icefloe.explorer import html_page

`html_page(table)` returns the page as one file: `write` it, or display it in a notebook. `icefloe explore` serves the same sections.
"""

from typing import TYPE_CHECKING

from icefloe.lazy_imports import lazy_exports

if TYPE_CHECKING:
    from icefloe.explorer.standalone import HtmlPage as HtmlPage
    from icefloe.explorer.standalone import html_page as html_page
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "icefloe.explorer.standalone": "HtmlPage, html_page",
        },
    )
