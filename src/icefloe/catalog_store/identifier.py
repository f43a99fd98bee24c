"""Table and namespace names: `"ns.table"` or `("ns", "table")`, checked for characters that no catalog can store."""

from collections.abc import Iterable

from icefloe.errors import InvalidIdentifierError

Identifier = tuple[str, ...]
# A name becomes a folder of the warehouse and a level of a dotted name, so it cannot contain these.
REFUSED_CHARACTERS = frozenset("./\\") | frozenset(map(chr, range(32))) | {chr(127)}
# The width of the catalog's name columns. Origin: the SQL catalog contract shared by Java and PyIceberg.
MAX_NAME_LENGTH = 255


def to_identifier(name: str | Iterable[str]) -> Identifier:
    """Return the parts of a dotted name or a tuple, each checked.

    Raises:
        InvalidIdentifierError: it is neither text nor a tuple, or a part is empty, too long, or has a character that a name may not contain.
    """
    if not isinstance(name, Iterable):
        raise InvalidIdentifierError(
            f"{name!r} is not a name", next_step='pass text, "namespace.table", or its levels: ("namespace", "table")'
        )
    parts = tuple(name.split(".")) if isinstance(name, str) else tuple(name)
    shown = name if isinstance(name, str) else ".".join(map(str, parts))
    if not parts:
        raise InvalidIdentifierError("the name is empty", next_step="write it as namespace.table")
    for part in parts:
        problem = _problem(part)
        if problem:
            raise InvalidIdentifierError(
                f"{shown!r} is not a name: {problem}", next_step="use letters, digits, '_' or '-', levels joined by dots: namespace.table"
            )
    if len(".".join(parts[:-1])) > MAX_NAME_LENGTH:
        raise InvalidIdentifierError(f"the namespace of {shown!r} is longer than {MAX_NAME_LENGTH} characters")
    return parts


def to_table_identifier(name: str | Iterable[str]) -> Identifier:
    """Return the parts of a table's name: as `to_identifier`, with at least one namespace level before the name."""
    parts = to_identifier(name)
    if len(parts) < 2:
        raise InvalidIdentifierError(
            f"{parts[0]!r} names no namespace", next_step=f"write it as namespace.table, such as default.{parts[0]}"
        )
    return parts


def dotted(identifier: Identifier) -> str:
    """Join the parts with dots, as catalogs store a namespace."""
    return ".".join(identifier)


def _problem(part: object) -> str | None:
    if not isinstance(part, str):
        return f"{part!r} is not text"
    if not part:
        return "a level is empty"
    if part != part.strip():
        return f"{part!r} begins or ends with a blank"
    if len(part) > MAX_NAME_LENGTH:
        return f"a level is longer than {MAX_NAME_LENGTH} characters"
    odd = sorted(REFUSED_CHARACTERS.intersection(part))
    return f"{odd[0]!r} is not allowed in a name" if odd else None
