"""Table and namespace names: `"ns.table"` or `("ns", "table")`, checked for characters that no catalog can store."""

import re
from collections.abc import Iterable

from icefloe.errors import InvalidIdentifierError

Identifier = tuple[str, ...]
_CONTROLS = frozenset(map(chr, range(32))) | {chr(127)}
# Characters that a name cannot contain, because it becomes a folder in the warehouse and a level of a dotted name.
REFUSED_CHARACTERS = frozenset("./\\") | _CONTROLS
# A level of a dotted name: a text in backquotes, which may contain dots, or everything up to the next dot.
_LEVEL = re.compile(r"`([^`]+)`(?=\.|$)|([^.]*)")
# The greatest length of a name: the width of the name columns in the SQL catalog's tables, which Java and PyIceberg share.
MAX_NAME_LENGTH = 255


def to_identifier(name: str | Iterable[str], *, of_server: bool = False) -> Identifier:
    """Return the checked levels of a name: namespaces, outermost first, and for a table its own name last.

    Args:
        name: The dotted name, or the levels.
        of_server: Whether a server stores the names. They do not become folders then, so that levels may contain dots and slashes: in a tuple, or in
            backquotes.

    Raises:
        InvalidIdentifierError: the name is neither text nor a tuple, or a level is empty, too long, or has a character that is not allowed.
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
    """Return the levels of a table's name, as `to_identifier` does. There must be at least one namespace level before the name."""
    parts = to_identifier(name, of_server=of_server)
    if len(parts) < 2:
        raise InvalidIdentifierError(
            f"{parts[0]!r} names no namespace", next_step=f"write it as namespace.table, such as default.{parts[0]}"
        )
    return parts


def dotted(identifier: Identifier) -> str:
    """Join the levels with dots, as catalogs store a namespace. A level that contains a dot or a slash is put in backquotes, which `to_identifier` reads."""
    return ".".join(f"`{part}`" if REFUSED_CHARACTERS.intersection(part) else part for part in identifier)


def _levels(text: str) -> Identifier:
    """Split a dotted name into its levels. A level in backquotes may contain dots."""
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
