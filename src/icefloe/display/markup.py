"""`Markup`: HTML and SVG made of elements whose text and attributes are always escaped and never long.

Whatever comes from a table enters a page as plain text through `element`. A text becomes markup in no other way, so that a column may be called `<script>`.
"""

from collections.abc import Iterable
from html import escape
from typing import TypeAlias

from icefloe.errors import visible

# Characters of one text of a page. A file can have names of megabytes; a reader recognizes one by its beginning.
MOST_CHARACTERS = 1_000
# Elements of HTML that have no end tag.
_VOID = frozenset({"br", "hr", "input", "link", "meta"})


class Markup(str):
    """Text that is HTML or SVG already. Only `element`, `fragment` and the readers of the project's own files make it."""

    __slots__ = ()


Child: TypeAlias = "str | int | float | Iterable[Child] | None"


def element(name: str, /, *children: Child, **attributes: str | float | bool | None) -> Markup:
    """Return an element.

    Args:
        name: Its name, such as `p` or `rect`.
        *children: What is in it: markup as it is, other text escaped; of several levels of lists the items; nothing for None.
        **attributes: Its attributes: `class_` is `class`, and `aria_label` is `aria-label`. None and False leave one out, True has no value. Numbers are
            rounded to hundredths, which is less than a pixel.
    """
    start = f"<{name}{''.join(_attribute(key, value) for key, value in attributes.items() if value is not None and value is not False)}>"
    return Markup(start) if name in _VOID else Markup(f"{start}{fragment(*children)}</{name}>")


def fragment(*children: Child) -> Markup:
    """Return the children one after the other, as `element` takes them."""
    return Markup("".join(_text(child) for child in children))


def number(value: float) -> str:
    """Return a coordinate, rounded to hundredths, without a needless fraction."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _text(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Markup):
        return child
    if isinstance(child, str):
        return escape_text(child)
    if isinstance(child, int | float):
        return str(child)
    return "".join(_text(part) for part in child)


def escape_text(text: str) -> str:
    """Return a text of at most `MOST_CHARACTERS` characters, escaped, with visible control characters."""
    return escape(visible(text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}…"))


def _attribute(key: str, value: str | float | bool) -> str:
    name = key.rstrip("_").replace("_", "-")
    if value is True:
        return f" {name}"
    if isinstance(value, int | float):
        return f' {name}="{number(value)}"'
    # An address is never cut: it would lead elsewhere.
    return f' {name}="{escape(visible(value)) if name in ("href", "d", "points", "value") else escape_text(value)}"'
