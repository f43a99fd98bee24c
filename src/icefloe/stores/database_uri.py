"""The URI of a catalog's database for messages, without its secrets. SQLAlchemy is not needed, so that commands can show a URI without it."""

import re
from urllib.parse import quote, unquote_plus

from icefloe.io.storage_errors import HIDDEN

# One setting of a URI's query, and its name.
_SETTING = re.compile(r"((?:^|[&;])[^=&;]*=)[^&;]+")


# The beginning of a URI of Java's drivers.
JDBC = "jdbc:"


def uri_of_jdbc(uri: str, user: str | None, password: str | None) -> str:
    """Return the URI of a database in SQLAlchemy's form for one of a Java driver, such as `jdbc:postgresql://host/lake`, `jdbc:sqlite:/lake/catalog.db`.

    Args:
        uri: Java's URI. Its settings `user` and `password` are moved to their place in the new one; others stay.
        user: The property `jdbc.user`, which takes precedence; None where it is not set.
        password: The property `jdbc.password`.
    """
    dialect, _, rest = uri.removeprefix(JDBC).partition(":")
    if not rest.startswith("//"):
        path = rest.removeprefix("file:")
        return f"{dialect}:///{path}"
    place, _, query = rest.removeprefix("//").partition("?")
    settings = [setting.partition("=") for setting in query.split("&") if setting]
    values = {name: unquote_plus(text) for name, _, text in settings}
    user, password = user or values.get("user"), password or values.get("password")
    login = f"{quote(user or '', safe='')}{':' + quote(password, safe='') if password else ''}@" if user or password else ""
    other_settings = "&".join(f"{name}={text}" for name, _, text in settings if name not in ("user", "password"))
    return f"{dialect}://{login}{place}{'?' + other_settings if other_settings else ''}"


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
    settings = _SETTING.sub(lambda match: f"{match[1]}{HIDDEN}", query)
    return f"{scheme}://{hidden}{host}{slash}{path}{question}{settings}"
