"""Warnings of settings that have no effect: one line for each name, however many tables and queries it is met in."""

import logging
from collections.abc import Mapping

from icefloe.errors import in_one_line

LOG = logging.getLogger(__name__)
# The names warned of, each with the session that it was met in; empty for this process.
_WARNED: set[tuple[str, str]] = set()


def is_repeated(session: str, text: str) -> bool:
    """Return True from the second call on with a text in a session; of an empty one, in this process."""
    if (session, text) in _WARNED:
        return True
    _WARNED.add((session, text))
    return False


def warn_once(session: str, kind: str, name: str, reason: str) -> None:
    """Log that a setting, option or property has no effect, and why; nothing where that was logged in the session already."""
    if not is_repeated(session, f"{kind} {name}"):
        LOG.warning("the %s %s has no effect: %s", kind, in_one_line(name), in_one_line(reason))


def warn_of_properties(unused: Mapping[str, str], table_name: str) -> None:
    """Warn of table properties that Icefloe keeps and does not act on, each once in this process; `unused` has the reasons by name."""
    for name, reason in unused.items():
        warn_once("", "table property", name, f"{reason} (first met in {table_name})")
