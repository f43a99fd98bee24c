"""The URI of a catalog's database for messages, without its secrets. SQLAlchemy is not needed, so that commands can show a URI without it."""

import re

from icefloe.kernel.storage_errors import HIDDEN

# One setting of a URI's query, and its name.
_SETTING = re.compile(r"((?:^|[&;])[^=&;]*=)[^&;]+")


def without_password(uri: str) -> str:
    """Return the URI without its password, for messages. It may be malformed, since malformed URIs are shown most often.

    A password may hold `@`, `/` and `?` although it should not, so everything up to the last `@` is hidden but for a plain user name. Values of the query are
    hidden, because drivers take passwords there under many names.
    """
    scheme, separator, rest = uri.partition("://")
    if not separator or not re.fullmatch(r"[A-Za-z][A-Za-z0-9+._-]*", scheme):
        return HIDDEN
    user, at, place = ("", "", rest) if rest.startswith("/") else rest.rpartition("@")  # a path of SQLite's may hold an @
    name, colon, _ = user.partition(":")
    hidden = f"{name if re.fullmatch(r'[A-Za-z0-9._%-]*', name) else HIDDEN}{f':{HIDDEN}' if colon else ''}{at}" if at else ""
    place, question, query = place.partition("?")
    host, slash, path = place.partition("/")
    machine, colon, port = host.rpartition(":")
    if colon and port and not port.isdigit() and not port.endswith("]"):  # SQLAlchemy quotes what it takes for a port
        host = f"{machine}:{HIDDEN}"
    settings = _SETTING.sub(lambda found: f"{found[1]}{HIDDEN}", query)
    return f"{scheme}://{hidden}{host}{slash}{path}{question}{settings}"
