"""`Markup`: HTML and SVG, made of elements whose text and attributes are always escaped and limited in length.

Every value of a table enters a page as plain text through `element`. No other function converts text to markup, so that a column may be called `<script>`.
"""

from collections.abc import Iterable
from html import escape
from typing import TypeAlias

from icefloe.errors import visible

# The most characters of one text on a page. A file can have names of megabytes; a reader recognizes a name by its beginning.
MOST_CHARACTERS = 1_000
# Elements of HTML that have no end tag.
_VOID = frozenset({"br", "hr", "input", "link", "meta"})


class Markup(str):
    """Text that is already HTML or SVG. Only `element`, `fragment` and the functions that read the package's own files create it."""

    __slots__ = ()


Child: TypeAlias = "str | int | float | Iterable[Child] | None"


def element(name: str, /, *children: Child, **attributes: str | float | bool | None) -> Markup:
    """Return an element.

    Args:
        name: The name of the element, such as `p` or `rect`.
        *children: The content: markup is kept, other text is escaped, lists are flattened, and None is left out.
        **attributes: The attributes. `class_` becomes `class`, and `aria_label` becomes `aria-label`. An attribute that is None or False is left out; one that
            is True has no value. Numbers are rounded to hundredths, which is less than a pixel.
    """
    start = f"<{name}{''.join(_attribute(key, value) for key, value in attributes.items() if value is not None and value is not False)}>"
    return Markup(start) if name in _VOID else Markup(f"{start}{fragment(*children)}</{name}>")


def fragment(*children: Child) -> Markup:
    """Return several children one after another, converted as `element` converts them."""
    return Markup("".join(_text(child) for child in children))


def number(value: float) -> str:
    """Return a coordinate as text, rounded to hundredths, without trailing zeros."""
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
    """Escape a text for HTML, cut to at most `MOST_CHARACTERS` characters, with control characters made visible."""
    return escape(visible(text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}…"))


def _attribute(key: str, value: str | float | bool) -> str:
    name = key.rstrip("_").replace("_", "-")
    if value is True:
        return f" {name}"
    if isinstance(value, int | float):
        return f' {name}="{number(value)}"'
    # An address is never cut, because it would lead elsewhere.
    return f' {name}="{escape(visible(value)) if name in ("href", "d", "points", "value") else escape_text(value)}"'
