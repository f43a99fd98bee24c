"""Table and namespace names: `"ns.table"` or `("ns", "table")`, checked for characters that no catalog can store."""

import re
from collections.abc import Iterable

from icefloe.errors import InvalidIdentifierError

Identifier = tuple[str, ...]
_CONTROLS = frozenset(map(chr, range(32))) | {chr(127)}
# A name becomes a folder of the warehouse and a level of a dotted name, so it cannot contain these.
REFUSED_CHARACTERS = frozenset("./\\") | _CONTROLS
# A level of a text: between backquotes, where it may have dots, or up to the next dot.
_LEVEL = re.compile(r"`([^`]+)`(?=\.|$)|([^.]*)")
# The width of the catalog's name columns. Origin: the SQL catalog contract shared by Java and PyIceberg.
MAX_NAME_LENGTH = 255


def to_identifier(name: str | Iterable[str], *, of_server: bool = False) -> Identifier:
    """Return the parts of a dotted name or a tuple, each checked.

    Args:
        name: The name.
        of_server: Whether a server keeps the names, so that they become no folders here and may have dots and slashes: in a tuple, or between backquotes.

    Raises:
        InvalidIdentifierError: it is neither text nor a tuple, or a part is empty, too long, or has a character that a name may not contain.
    """
    if not isinstance(name, Iterable):
        raise InvalidIdentifierError(
            f"{name!r} is not a name", next_step='pass text, "namespace.table", or its levels: ("namespace", "table")'
        )
    parts = (_levels(name) if of_server else tuple(name.split("."))) if isinstance(name, str) else tuple(name)
    shown = name if isinstance(name, str) else ".".join(map(str, parts))
    if not parts:
        raise InvalidIdentifierError("the name is empty", next_step="write it as namespace.table")
    for part in parts:
        problem = _problem(part, _CONTROLS if of_server else REFUSED_CHARACTERS)
        if problem:
            raise InvalidIdentifierError(
                f"{shown!r} is not a name: {problem}", next_step="use letters, digits, '_' or '-', levels joined by dots: namespace.table"
            )
    if len(".".join(parts[:-1])) > MAX_NAME_LENGTH:
        raise InvalidIdentifierError(f"the namespace of {shown!r} is longer than {MAX_NAME_LENGTH} characters")
    return parts


def to_table_identifier(name: str | Iterable[str], *, of_server: bool = False) -> Identifier:
    """Return the parts of a table's name: as `to_identifier`, with at least one namespace level before the name."""
    parts = to_identifier(name, of_server=of_server)
    if len(parts) < 2:
        raise InvalidIdentifierError(
            f"{parts[0]!r} names no namespace", next_step=f"write it as namespace.table, such as default.{parts[0]}"
        )
    return parts


def dotted(identifier: Identifier) -> str:
    """Join the parts with dots, as catalogs store a namespace; a part with a dot or a slash of its own is between backquotes, as `to_identifier` reads it."""
    return ".".join(f"`{part}`" if REFUSED_CHARACTERS.intersection(part) else part for part in identifier)


def _levels(text: str) -> Identifier:
    """Return the levels of a text, of which those between backquotes may have dots."""
    levels, end = [], -1
    while end < len(text):
        match = _LEVEL.match(text, end + 1)
        assert match is not None  # noqa: S101  the second form matches everything
        levels.append(match[1] if match[1] and REFUSED_CHARACTERS.intersection(match[1]) else match[0])
        end = match.end()
    return tuple(levels)


def _problem(part: object, refused: frozenset[str]) -> str | None:
    if not isinstance(part, str):
        return f"{part!r} is not text"
    if not part:
        return "a level is empty"
    if part != part.strip():
        return f"{part!r} begins or ends with a blank"
    if len(part) > MAX_NAME_LENGTH:
        return f"a level is longer than {MAX_NAME_LENGTH} characters"
    odd = sorted(refused.intersection(part))
    return f"{odd[0]!r} is not allowed in a name" if odd else None
