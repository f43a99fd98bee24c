"""Translation of database errors into errors of Icefloe, and detection of errors that only mean a conflict with another transaction.

PostgreSQL identifies errors by SQLSTATE, SQLite by the name of its result code. If a server cannot be reached, or refuses the user, there is only a message.
"""

import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, unquote

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError

from icefloe.errors import IcefloeError, InvalidInputError, StorageFullError, StoragePermissionError, StorageUnavailableError
from icefloe.io.storage_errors import HIDDEN, cause_without_secrets, without_secrets
from icefloe.stores.database_uri import without_password


@dataclass(frozen=True, slots=True)
class _Case:
    kind: type[IcefloeError]
    next_step: str


_GRANT = "GRANT SELECT, INSERT, UPDATE, DELETE ON iceberg_tables, iceberg_namespace_properties"
_AWAY = _Case(StorageUnavailableError, "check that the database can be reached, then repeat: a retry makes sense")
_FULL = _Case(StorageFullError, "free space where the database lies, then repeat")
_SIGN_IN = _Case(StoragePermissionError, "check the user and the password in `uri`")
_NO_DATABASE = _Case(StorageUnavailableError, "create the database, or name another one in `uri`")
_NO_SERVER = _Case(StorageUnavailableError, "check the host and the port in `uri`, and that the server runs")
_BUSY = _Case(StorageUnavailableError, "another transaction was in the way: repeat")
_LOCKED = _Case(
    StorageUnavailableError, "another process holds the lock of the database: find it, such as by lsof, let it end, then repeat"
)
_DISK = _Case(StorageUnavailableError, "check the disk of the database file, then repeat")
# The free bytes that SQLite needs on the disk for a commit: 32 KiB of shared memory, and some pages of 4 KiB for its journal.
ROOM_OF_A_COMMIT = 64 * 1024

# By SQLSTATE. Origin: appendix A of PostgreSQL's manual; the classes are from the SQL standard.
_BY_STATE: dict[str, _Case] = {
    "28P01": _SIGN_IN,
    "28000": _SIGN_IN,
    "3D000": _NO_DATABASE,
    "42501": _Case(StoragePermissionError, f"let the owner of the catalog's tables give the user the right: {_GRANT} TO ..."),
    "25006": _Case(StoragePermissionError, "the server takes no writes, as a standby does: name one that does in `uri`"),
    "53100": _FULL,
    "53300": _Case(StorageUnavailableError, "the server has no connection left: close some, or repeat later"),
    "57P03": _Case(StorageUnavailableError, "the server is starting or stopping: repeat later"),
    "42P01": _Case(StorageUnavailableError, "the catalog's tables are gone: open the catalog again, which makes them"),
    "22001": _Case(InvalidInputError, "a text is longer than its column in the database: choose a shorter one"),
    "40001": _BUSY,
    "40P01": _BUSY,
    "55P03": _BUSY,
}
# By the prefix of the name of SQLite's result code.
_BY_SQLITE_NAME: dict[str, _Case] = {
    "SQLITE_READONLY": _Case(StoragePermissionError, "make the database file and its folder writable"),
    "SQLITE_PERM": _Case(StoragePermissionError, "make the database file and its folder writable"),
    "SQLITE_FULL": _FULL,
    "SQLITE_CANTOPEN": _Case(
        StorageUnavailableError, "make the folder of the database file, or make it writable; or name another file in `uri`"
    ),
    "SQLITE_NOTADB": _Case(StorageUnavailableError, "the file is not an SQLite database: name another one in `uri`"),
    "SQLITE_CORRUPT": _Case(StorageUnavailableError, "the database file is damaged: bring back a copy of it"),
    "SQLITE_IOERR": _DISK,
    "SQLITE_BUSY": _LOCKED,
    "SQLITE_LOCKED": _BUSY,
}
# By words in the message, in this order, for errors without a code.
_BY_WORDS: tuple[tuple[str, _Case], ...] = (
    ("password authentication failed", _SIGN_IN),
    ("no password supplied", _SIGN_IN),
    ("no pg_hba.conf entry", _SIGN_IN),
    ("role .* does not exist", _SIGN_IN),
    ("database .* does not exist", _NO_DATABASE),
    ("too many clients|remaining connection slots", _BY_STATE["53300"]),
    ("the database system is (starting|shutting)", _BY_STATE["57P03"]),
    ("resolve host|translate host name|name or service not known|connection refused|connection timeout|no route to host", _NO_SERVER),
    ("permission denied", _BY_STATE["42501"]),
    ("no space left|disk is full", _FULL),
    ("unable to open database file", _BY_SQLITE_NAME["SQLITE_CANTOPEN"]),
)


def database_error(error: DBAPIError, catalog: str, uri: str) -> IcefloeError:
    """Return the error to raise from `error`. It has the catalog, the database URI without its password, and the next step."""
    text = " ".join(str(error.orig).split()) or type(error.orig).__name__
    case = _case(error)
    if case is _DISK and _is_disk_full(uri):
        text, case = f"{text}, and its disk is full", _FULL
    return case.kind(f"catalog {catalog!r} at {without_password(uri)}: {shown_text(text, uri)}", next_step=case.next_step)


def may_be_tried_again(error: DBAPIError) -> bool:
    """Return whether a transaction that failed before its commit may be repeated: the connection was lost, or another transaction held a lock."""
    case = _case(error)
    return case in (_BUSY, _LOCKED) or (case in (_AWAY, _BY_STATE["57P03"]) and error.connection_invalidated)


def shown_text(text: str, uri: str) -> str:
    """Return the text of a driver's error without the secrets in the URI."""
    return without_secrets(text, _secrets_of(uri))


def shown_cause(error: BaseException, uri: str) -> BaseException | None:
    """Return the driver's error as the cause of the raised error, or None if it quotes a secret from the URI.

    For a database error, this is the original error that SQLAlchemy has wrapped. Its traceback is removed, because it has only frames of SQLAlchemy.
    """
    if cause_without_secrets(error, _secrets_of(uri)) is None:
        return None
    if not isinstance(error, DBAPIError) or error.orig is None:
        return error
    driver_error = error.orig.with_traceback(None)
    driver_error.__context__ = None
    return driver_error


def _secrets_of(uri: str) -> set[str]:
    """Return every text that may be a password in the URI or a part of it: a driver that parses a malformed URI differently quotes such parts."""
    rest = uri.partition("://")[2] or uri
    user, at, place = rest.rpartition("@")
    password = user.partition(":")[2] if at else ""
    query = place.partition("?")[2]
    secrets = {
        password,
        unquote(password),
        *re.split(r"[@/:?#\[\]]", password),
        *(value for _, value in parse_qsl(query, keep_blank_values=True)),
    }
    secrets |= {part.partition("=")[2] for part in re.split("[&;]", query)}
    shown = without_password(uri)
    if HIDDEN in shown:
        secrets |= {part for part in re.split(r"[@/:?#&;=\[\]]", rest) if part not in shown}
    return {text for text in secrets if text}


def _is_disk_full(uri: str) -> bool:
    """Return True if the disk of an SQLite file is full. SQLite reports an I/O error if there is no space for its shared memory or its journal."""
    try:
        path = Path((make_url(uri).database or "").removeprefix("file:").partition("?")[0])
        return shutil.disk_usage(path.parent).free < ROOM_OF_A_COMMIT
    except (ArgumentError, OSError, ValueError):
        return False


def _case(error: DBAPIError) -> _Case:
    original = error.orig
    state = getattr(original, "sqlstate", None) or getattr(original, "pgcode", None)
    if state in _BY_STATE:
        return _BY_STATE[state]
    name = str(getattr(original, "sqlite_errorname", None) or "")
    for beginning, case in _BY_SQLITE_NAME.items():
        if name.startswith(beginning):
            return case
    words = str(original)
    return next((case for pattern, case in _BY_WORDS if re.search(pattern, words, re.IGNORECASE)), _AWAY)
