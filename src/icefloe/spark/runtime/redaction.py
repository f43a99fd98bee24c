"""Secrets among a session's settings, which must not be shown.

Spark shows settings in its UI, its event log, `SET`, and the command line of its JVM. It hides those whose name or value matches `spark.redaction.regex`. The
default value does not match keys of storage accounts, the password in a catalog's `uri`, and the `credential` and headers of a REST catalog. So this module
extends it.
"""

import logging
import re
from collections.abc import Mapping

LOG = logging.getLogger(__name__)

REDACTION = "spark.redaction.regex"
# The words in Spark's default, then the secrets of Icefloe's catalogs and storages, then passwords in URIs, for any name of a setting.
HIDDEN_SETTINGS = (
    r"(?i)secret|password|token|access[.]?key"
    r"|access-key|account[.-]?key|sas[.-]|connection-string|[.]credential$"
    r"|spark[.]sql[.]catalog[.][^.]+[.](uri$|auth[.]|header[.])"
    r"|://[^/@\s]*:[^\s]*@"
)
HIDDEN = "*********(redacted)"
_SECRET = re.compile(HIDDEN_SETTINGS)


def is_secret(name: str, value: str) -> bool:
    """Return whether a setting is a secret, whose value must not appear in the command line or in a message."""
    return _SECRET.search(name) is not None or _SECRET.search(value) is not None


def setting_text(name: str, value: str | None) -> str | None:
    """Return the value of a setting, or a placeholder if it is a secret."""
    return HIDDEN if value is not None and is_secret(name, value) else value


def warn_of_shown_secrets(settings: Mapping[str, str], prefix: str) -> None:
    """Warn about secrets in settings whose names begin with `prefix`, if the running Spark shows them in its UI and its event log."""
    try:
        hides = re.compile(settings.get(REDACTION, r"(?i)secret|password|token|access[.]?key"))
    except re.error:  # a regular expression in Java's syntax that Python cannot parse
        return
    shown_names = [
        name
        for name, value in settings.items()
        if name.startswith(prefix) and is_secret(name, value) and not (hides.search(name) or hides.search(value))
    ]
    if shown_names:
        LOG.warning(
            "Spark shows the values of %s in its UI and its event log: start it with %s=%s, or pass the catalog to attach in Python",
            ", ".join(sorted(shown_names)),
            REDACTION,
            HIDDEN_SETTINGS,
        )
