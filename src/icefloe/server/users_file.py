"""The file of a server's users: each user with the SHA-256 of the token and the roles, as YAML. The file contains no tokens.

users:
  etl:
    token-sha256: 2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae
    grants: [write:sales, read]
"""

import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import yaml

if sys.platform != "win32":
    import fcntl

from icefloe.errors import InvalidInputError, NoSuchFileError, StoragePermissionError
from icefloe.io.storage_errors import storage_error
from icefloe.server.access_control import SHORTEST_TOKEN, Grant, User, Users, new_token, token_digest

_DIGEST = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(r"[A-Za-z0-9._@-]{1,128}")
# The rights that others must not have on a file of users: with write access they could add users, with read access they only learn names.
_CHANGED_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
# The rights that others must not have on a file with a token. The file's group may read it, because orchestrators pass secrets to processes by a group.
_READ_BY_OTHERS = _CHANGED_BY_OTHERS | stat.S_IROTH


def read_users(path: str) -> Users:
    """Return the users in a file.

    Args:
        path: The path of the file.

    Raises:
        NoSuchFileError: There is no such file.
        StoragePermissionError: Other users of the machine may change the file.
        InvalidInputError: It is not a file of users, or an entry is wrong, which the message names.
    """
    entries = _entries(path)
    return Users.of(_user(name, entry, path) for name, entry in entries.items())


def read_token(path: str) -> Users:
    """Return a single user, an admin of the whole catalog, whose token is the first line of a file.

    Args:
        path: The path of the file, such as a secret that an orchestrator mounts.

    Raises:
        NoSuchFileError: There is no such file.
        StoragePermissionError: Other users of the machine may read or change the file.
        InvalidInputError: The token is too short to be random, or contains a blank.
    """
    token = _text(path, _READ_BY_OTHERS).strip().split("\n", 1)[0].strip()
    if len(token) < SHORTEST_TOKEN or any(sign.isspace() for sign in token):
        raise InvalidInputError(
            f"the token in the file has fewer than {SHORTEST_TOKEN} characters, or a blank",
            path=path,
            next_step="make one: openssl rand -hex 32",
        )
    return Users.of([User(name="admin", token_sha256=token_digest(token), grants=(Grant.of("admin"),))])


def add_user(path: str, name: str, grants: tuple[Grant, ...]) -> str:
    """Add a user to a file, or give an existing user a new token and new roles. A missing file is created with rights only for the current user of the machine.

    Args:
        path: The path of the file.
        name: The name of the user.
        grants: The roles of the user.

    Returns:
        The new token, which is stored nowhere.

    Raises:
        InvalidInputError: The name has characters other than letters, digits and `._@-`, `grants` is empty, or the file is not a file of users.
        StoragePermissionError: Other users of the machine may change the file, or the current user may not.
        StorageError: The file cannot be written.
    """
    if not _NAME.fullmatch(name):
        raise InvalidInputError(f"{name!r} is no name of a user", next_step="use letters, digits, '.', '_', '@' and '-'")
    if not grants:
        raise InvalidInputError(
            f"the user {name!r} is granted nothing", next_step="give --grant read, --grant write:sales or --grant admin"
        )
    token = new_token()
    with _lock(path):
        entries = _entries(path) if os.path.exists(path) else {}
        entries[name] = {"token-sha256": token_digest(token), "grants": [str(grant) for grant in grants]}
        _replace(path, yaml.safe_dump({"users": entries}, sort_keys=False))
    return token


def _replace(path: str, text: str) -> None:
    """Replace the file of users. The caller must hold its lock."""
    part = f"{path}.part"
    try:
        # A process that died here has left its part file. It is removed, so that the new file has fresh rights and no link is followed.
        with suppress(FileNotFoundError):
            os.unlink(part)
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError as error:
        raise storage_error(error, path) from error


@contextmanager
def _lock(path: str) -> Iterator[None]:
    """Hold the lock of a file of users in a `with` block, so that two processes which add users do not lose a user.

    The lock is on a separate file, because the file of users is replaced. The lock file is never deleted, because another process may be waiting for it.
    Windows has no such lock.
    """
    lock = f"{path}.lock"
    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise storage_error(error, lock) from error
    try:
        if sys.platform != "win32":
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _text(path: str, forbidden: int) -> str:
    """Return the content of a file after checking its access rights.

    Args:
        path: The path of the file.
        forbidden: The mode bits that the file must not have.

    Raises:
        NoSuchFileError: There is no such file.
        StoragePermissionError: The file has a forbidden right.
        InvalidInputError: The file cannot be read.
    """
    try:
        with open(path, encoding="utf-8") as file:
            mode = os.fstat(file.fileno()).st_mode
            text = file.read()
    except FileNotFoundError:
        raise NoSuchFileError(
            f"there is no file {path}", path=path, next_step="make it: icefloe server-user FILE NAME --grant read"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"the file cannot be read: {error}", path=path, next_step="check its rights") from error
    if mode & forbidden & _CHANGED_BY_OTHERS:
        raise StoragePermissionError("other users of this machine may change the file", path=path, next_step=f"chmod go-w {path}")
    if mode & forbidden:
        raise StoragePermissionError(
            "other users of this machine may read the token in the file", path=path, next_step=f"chmod o-r {path}, then use a new token"
        )
    return text


def _entries(path: str) -> dict[str, Any]:
    try:
        # Scalars stay text, because YAML would convert a digest of only digits to a number.
        content = yaml.load(_text(path, _CHANGED_BY_OTHERS), Loader=yaml.BaseLoader)  # noqa: S506  BaseLoader creates only texts, lists and mappings
    except yaml.YAMLError:
        raise InvalidInputError("the file of users is not YAML", path=path, next_step="make one: icefloe server-user FILE NAME") from None
    entries = content.get("users") if isinstance(content, dict) else None
    if not isinstance(entries, dict):
        raise InvalidInputError(
            "the file has no mapping `users`", path=path, next_step="make one: icefloe server-user FILE NAME --grant read"
        )
    return entries


def _user(name: str, entry: Any, path: str) -> User:
    digest, grants = (entry.get("token-sha256"), entry.get("grants")) if isinstance(entry, dict) else (None, None)
    if not _NAME.fullmatch(name) or not isinstance(digest, str) or not _DIGEST.fullmatch(digest.lower()) or not isinstance(grants, list):
        raise InvalidInputError(
            f"the user {name!r} has no name of letters and digits, no token-sha256 of 64 hexadecimal digits, or no list of grants",
            path=path,
            next_step=f"make the entry again: icefloe server-user {path} NAME --grant read",
        )
    return User(name=name, token_sha256=digest.lower(), grants=tuple(Grant.of(str(grant)) for grant in grants))
