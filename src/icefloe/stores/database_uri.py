"""Handling of a catalog's database URI as text: removal of secrets for messages, and conversion of Java's URIs. SQLAlchemy is not needed."""

import re
from urllib.parse import quote, unquote_plus

from icefloe.io.storage_errors import HIDDEN

# A parameter in the query of a URI; the group is its name with the separators around it.
_SETTING = re.compile(r"((?:^|[&;])[^=&;]*=)[^&;]+")


# The prefix of URIs for Java's drivers.
JDBC = "jdbc:"


def uri_of_jdbc(uri: str, user: str | None, password: str | None) -> str:
    """Convert a URI of a Java driver, such as `jdbc:postgresql://host/lake` or `jdbc:sqlite:/lake/catalog.db`, to a URL for SQLAlchemy.

    Args:
        uri: Java's URI. Its parameters `user` and `password` are moved in front of the host; other parameters stay.
        user: The property `jdbc.user`, which overrides the parameter; None if it is not set.
        password: The property `jdbc.password`, which overrides the parameter; None if it is not set.
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
    """Return the URI without its password, for messages. The URI may be malformed, because malformed URIs are shown most often.

    A password may contain `@`, `/` and `?` although it should not. So everything before the last `@` is hidden, except a plain user name. All values in the
    query are hidden too, because drivers accept passwords there under many names.
    """
    scheme, separator, rest = uri.partition("://")
    if not separator or not re.fullmatch(r"[A-Za-z][A-Za-z0-9+._-]*", scheme):
        return HIDDEN
    user, at, place = ("", "", rest) if rest.startswith("/") else rest.rpartition("@")  # the path of an SQLite file may contain an @
    name, colon, _ = user.partition(":")
    hidden = f"{name if re.fullmatch(r'[A-Za-z0-9._%-]*', name) else HIDDEN}{f':{HIDDEN}' if colon else ''}{at}" if at else ""
    place, question, query = place.partition("?")
    host, slash, path = place.partition("/")
    machine, colon, port = host.rpartition(":")
    if colon and port and not port.isdigit() and not port.endswith("]"):  # SQLAlchemy's error quotes the text that it parses as a port
        host = f"{machine}:{HIDDEN}"
    settings = _SETTING.sub(lambda match: f"{match[1]}{HIDDEN}", query)
    return f"{scheme}://{hidden}{host}{slash}{path}{question}{settings}"
