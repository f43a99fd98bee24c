"""Translation of an operating system's errors into Icefloe's errors, for every user of the `FileIO` protocol.

`FileIO` raises storage errors that name the location, but a `pyarrow.NativeFile` that it opened raises a plain `OSError` later. Code that reads or writes such
a file translates these errors with this module.
"""

import errno
import re
from collections.abc import Collection

from icefloe.errors import (
    FileAlreadyExistsError,
    IcefloeError,
    NoSuchFileError,
    StorageError,
    StorageFullError,
    StoragePermissionError,
    StorageUnavailableError,
)

_Case = tuple[type[IcefloeError], str, str]

_FULL = (StorageFullError, "no space is left to write {location}", "free space, or use another location")
_DENIED = (StoragePermissionError, "access to {location} is denied", "check the owner and the permissions of the file and its folder")
_UNAVAILABLE = (StorageUnavailableError, "storage did not respond for {location}", "try again; check the network and the mount if it lasts")

_BY_ERRNO: dict[int, _Case] = {
    errno.ENOENT: (NoSuchFileError, "there is no file {location}", "check the path; the file may have been deleted or moved"),
    errno.ENOTDIR: (NoSuchFileError, "there is no file {location}: a part of its path is a file, not a folder", "check the path"),
    errno.EEXIST: (FileAlreadyExistsError, "{location} exists already", "choose another name, or delete the file if nothing uses it"),
    errno.EISDIR: (StorageError, "{location} is a folder, not a file", "name a file"),
    errno.ENAMETOOLONG: (
        StorageError,
        "the path {location} is too long for this file system",
        "use a shorter location or shorter partition values",
    ),
    errno.EROFS: (StoragePermissionError, "{location} is on a read-only file system", "use a location that can be written"),
    errno.EACCES: _DENIED,
    errno.EPERM: _DENIED,
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EFBIG: (
        StorageFullError,
        "{location} is larger than this file system allows a file to be",
        "set a smaller write.target-file-size-bytes",
    ),
    errno.EMFILE: (StorageUnavailableError, "too many files are open to open {location}", "raise the limit on open files (ulimit -n)"),
    errno.ETIMEDOUT: _UNAVAILABLE,
    errno.ECONNREFUSED: _UNAVAILABLE,
    errno.ECONNRESET: _UNAVAILABLE,
    errno.EHOSTUNREACH: _UNAVAILABLE,
    errno.ENETUNREACH: _UNAVAILABLE,
    errno.ESTALE: _UNAVAILABLE,
}


def storage_error(error: OSError, location: str, secrets: Collection[str] = ()) -> IcefloeError:
    """Return the error of Icefloe for an operating system's error at `location`; the caller raises it from `error`.

    Built-in subclasses of `OSError` without an errno, which libraries of object stores raise, are recognized by their type. Any other error becomes a
    `StorageError` with the text of the original error.

    Args:
        error: The operating system's error.
        location: The location that was read or written.
        secrets: Values that are removed from the error's text.
    """
    number = error.errno
    if number is None:
        number = next((n for kind, n in _BY_TYPE if isinstance(error, kind)), None)
    case = _BY_ERRNO.get(number) if number is not None else None
    if case is None:
        return StorageError(f"storage failed at {location}: {without_secrets(str(error), secrets)}", path=location)
    kind, text, next_step = case
    return kind(text.format(location=location), path=location, next_step=next_step)


# Secrets that libraries quote in errors: signatures and tokens in URLs and headers, keys in connection strings.
_SIGNED = re.compile(
    r"((?:[?&;\s](?:sig|signature|token|x-amz-(?:signature|credential|security-token)|x-goog-(?:signature|credential))|\bAccountKey|\bSharedAccessSignature)=)[^&;\s'\"]+"
    r"|(\b(?:Bearer|SharedKey)\s+)[^\s'\"]+",
    re.IGNORECASE,
)
# Shorter values are not replaced, because they would be found in ordinary words.
SHORTEST_SECRET = 4
HIDDEN = "***"


def without_secrets(text: str, secrets: Collection[str] = ()) -> str:
    """Return the text of a library's error without these values, and without signatures and keys in the forms that object stores use."""
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= SHORTEST_SECRET:
            text = text.replace(secret, HIDDEN)
    return _SIGNED.sub(lambda match: f"{match[1] or match[2]}{HIDDEN}", text)


def cause_without_secrets(error: BaseException, secrets: Collection[str] = ()) -> BaseException | None:
    """Return the error as the cause of another error, or None if its text, or that of an error in its own chain of causes, contains a secret.

    Tracebacks print the whole chain.
    """
    link: BaseException | None = error
    seen: set[int] = set()
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        if (text := f"{link} {link!r}") != without_secrets(text, secrets):
            return None
        link = link.__cause__ or link.__context__
    return error


_BY_TYPE: tuple[tuple[type[OSError], int], ...] = (
    (FileNotFoundError, errno.ENOENT),
    (FileExistsError, errno.EEXIST),
    (PermissionError, errno.EACCES),
    (IsADirectoryError, errno.EISDIR),
    (NotADirectoryError, errno.ENOTDIR),
    (TimeoutError, errno.ETIMEDOUT),
    (ConnectionError, errno.ECONNRESET),
)
