"""Differences that are documented: each with the statements, the text of the difference, and the reason."""

import re

# Labels of statements, a pattern of the difference's text, the reason.
KNOWN: tuple[tuple[str, str, str], ...] = (
    (
        ".*",
        "^fails: .*before 1677 or after 2262, which cannot be stored in ORC",
        "Arrow's ORC writer has nanoseconds since 1970 in 64 bits",
    ),
    (
        ".*",
        "^fails: .*before 1970 with a fraction of a second, which ORC cannot",
        "Arrow's ORC writer stores times that other engines read wrongly",
    ),
)


def reason_for(label: str, text: str) -> str:
    """Return why a difference is known; empty if it is not."""
    return next((reason for labels, pattern, reason in KNOWN if re.fullmatch(labels, label) and re.search(pattern, text)), "")
