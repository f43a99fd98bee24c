"""Differences that are documented: each with the statements, the text of the difference, and the reason."""

import re

# Labels of statements, a pattern of the difference's text, the reason.
KNOWN: tuple[tuple[str, str, str], ...] = ()


def reason_for(label: str, text: str) -> str:
    """Return why a difference is known; empty if it is not."""
    return next((reason for labels, pattern, reason in KNOWN if re.fullmatch(labels, label) and re.search(pattern, text)), "")
