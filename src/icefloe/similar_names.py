"""Detection of misspelt names of properties, options and settings.

Users may add names of their own, so that an unknown name is refused only if it is similar to a known one. A misspelt name that is silently ignored would seem
to have an effect.
"""

from collections.abc import Iterable
from difflib import get_close_matches

# Similarity (difflib's ratio) from which an unknown name counts as a misspelling.
LEAST_SIMILARITY = 0.85


def similar_name(name: str, known: Iterable[str]) -> str | None:
    """Return the known name of which an unknown name seems to be a misspelling.

    Names that differ only in letter case, or have underscores for hyphens, count as similar. If known names begin with the first part of the name, such as
    `s3.`, only these are compared.

    Args:
        name: The unknown name.
        known: The known names. A name that ends with a dot is the beginning of any number of names.

    Returns:
        The known name; None if the name is known itself, or is not similar to any.
    """
    names = list(known)
    if name in names or any(prefix.endswith(".") and name.startswith(prefix) for prefix in names):
        return None
    first, dot, _ = name.partition(".")
    related = [other for other in names if dot and other.startswith(first + dot)]
    by_plain_name = {_plain(other): other for other in related or names}
    similar = get_close_matches(_plain(name), list(by_plain_name), 1, LEAST_SIMILARITY)
    if similar:
        return by_plain_name[similar[0]]
    # The part of a name that the user chooses is not compared.
    prefixes = (prefix for prefix in by_plain_name if prefix.endswith("."))
    return next((by_plain_name[prefix] for prefix in prefixes if _begins_similarly(_plain(name), prefix)), None)


def _begins_similarly(name: str, prefix: str) -> bool:
    parts, length = name.split("."), prefix.count(".")
    return len(parts) > length and bool(get_close_matches(".".join(parts[:length]), [prefix.removesuffix(".")], 1, LEAST_SIMILARITY))


def _plain(name: str) -> str:
    return name.lower().replace("_", "-")
