"""Which of a session's settings are secrets: Spark shows all others in its UI, its event log, `SET`, and the command line of its JVM.

Spark hides a setting whose name or value `spark.redaction.regex` finds. Its default knows neither keys of storage accounts nor the password in a catalog's
`uri`.
"""

import logging
import re
from collections.abc import Mapping

LOG = logging.getLogger(__name__)

REDACTION = "spark.redaction.regex"
# Spark's own words, then what catalogs and storages of Icefloe have besides, then a password in a URI, whatever the setting is called.
HIDDEN_SETTINGS = (
    r"(?i)secret|password|token|access[.]?key"
    r"|access-key|account[.-]?key|sas[.-]|connection-string"
    r"|spark[.]sql[.]catalog[.][^.]+[.]uri"
    r"|://[^/@\s]*:[^\s]*@"
)
HIDDEN = "*********(redacted)"
_SECRET = re.compile(HIDDEN_SETTINGS)


def is_secret(name: str, value: str) -> bool:
    """Return True where neither the command line nor a message may hold the setting's value."""
    return _SECRET.search(name) is not None or _SECRET.search(value) is not None


def shown(name: str, value: str | None) -> str | None:
    """Return the value of a setting as it may be shown."""
    return HIDDEN if value is not None and is_secret(name, value) else value


def warn_of_shown_secrets(settings: Mapping[str, str], prefix: str) -> None:
    """Warn of settings below `prefix` that are secrets and that this Spark shows in its UI and its event log, because it was started to do so."""
    try:
        hides = re.compile(settings.get(REDACTION, r"(?i)secret|password|token|access[.]?key"))
    except re.error:  # Java's form, which Spark understands and Python does not
        return
    seen = [
        name
        for name, value in settings.items()
        if name.startswith(prefix) and is_secret(name, value) and not (hides.search(name) or hides.search(value))
    ]
    if seen:
        LOG.warning(
            "Spark shows the values of %s in its UI and its event log: start it with %s=%s, or pass the catalog to attach in Python",
            ", ".join(sorted(seen)),
            REDACTION,
            HIDDEN_SETTINGS,
        )
