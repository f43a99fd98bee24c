"""Warnings about settings that have no effect. Each warning is logged once, even if the setting occurs in many tables and queries."""

import logging
from collections.abc import Mapping

from icefloe.errors import in_one_line

LOG = logging.getLogger(__name__)
# The warnings that were logged, as pairs of session and text. The session is empty for warnings of the whole process.
_WARNED: set[tuple[str, str]] = set()


def is_repeated(session: str, text: str) -> bool:
    """Return whether this function was called before with the same arguments. `session` identifies the session; it is empty for the whole process."""
    if (session, text) in _WARNED:
        return True
    _WARNED.add((session, text))
    return False


def warn_once(session: str, kind: str, name: str, reason: str) -> None:
    """Log that a setting has no effect, and the reason, unless this was logged in the session already. `kind` and `name` name the setting in the message."""
    if not is_repeated(session, f"{kind} {name}"):
        LOG.warning("the %s %s has no effect: %s", kind, in_one_line(name), in_one_line(reason))


def warn_of_properties(unused: Mapping[str, str], table_name: str) -> None:
    """Log that table properties have no effect in Icefloe, once for each property and process. `unused` maps the name of each property to the reason."""
    for name, reason in unused.items():
        warn_once("", "table property", name, f"{reason} (first met in {table_name})")
