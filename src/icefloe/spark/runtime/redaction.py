"""The settings of a session that are secrets: Spark shows all others in its UI, its event log, `SET`, and the command line of its JVM.

Spark hides a setting whose name or value matches `spark.redaction.regex`. Its default matches neither keys of storage accounts, nor the password in a catalog's
`uri`, nor the `credential` and the headers of a REST catalog.
"""

import logging
import re
from collections.abc import Mapping

LOG = logging.getLogger(__name__)

REDACTION = "spark.redaction.regex"
# The words of Spark's default, then those of Icefloe's catalogs and storages, then a password in a URI, for any name of the setting.
HIDDEN_SETTINGS = (
    r"(?i)secret|password|token|access[.]?key"
    r"|access-key|account[.-]?key|sas[.-]|connection-string|[.]credential$"
    r"|spark[.]sql[.]catalog[.][^.]+[.](uri$|auth[.]|header[.])"
    r"|://[^/@\s]*:[^\s]*@"
)
HIDDEN = "*********(redacted)"
_SECRET = re.compile(HIDDEN_SETTINGS)


def is_secret(name: str, value: str) -> bool:
    """Return True if neither the command line nor a message may contain the setting's value."""
    return _SECRET.search(name) is not None or _SECRET.search(value) is not None


def setting_text(name: str, value: str | None) -> str | None:
    """Return the value of a setting, or a replacement where it is a secret."""
    return HIDDEN if value is not None and is_secret(name, value) else value


def warn_of_shown_secrets(settings: Mapping[str, str], prefix: str) -> None:
    """Warn of secrets among the settings below `prefix` that the running Spark shows in its UI and its event log."""
    try:
        hides = re.compile(settings.get(REDACTION, r"(?i)secret|password|token|access[.]?key"))
    except re.error:  # a form of Java, which Python cannot parse
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
