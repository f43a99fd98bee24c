"""Location strings: their schemes, their local paths, and how they are joined.

A location is literal text. Nothing is percent-decoded, because the names of partition folders contain `%3A` and the like, also in `file:` locations that Java
writes. The storage of each scheme is chosen by `file_io_by_scheme.py`. Spec: File Locations in Metadata; Paths in Metadata.
"""

import os
import re

from icefloe.errors import InvalidInputError

# A scheme is only the text before `://`, so that a relative path may hold a colon; `file:/x` (Hadoop's form) is the one exception.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_FILE_PREFIX = "file:"
_LOCAL_HOSTS = ("", "localhost")


def scheme_of(location: str) -> str:
    """Return the scheme in lower case; `file` for a plain path. Raises `InvalidInputError` for text that cannot be a location."""
    if not location or "\0" in location:
        raise InvalidInputError(f"{location!r} is not a location", next_step="give a path such as /data/x or a URI such as s3://bucket/x")
    match = _SCHEME.match(location)
    return match.group(1).lower() if match else "file"


def local_path(location: str) -> str:
    """Return the absolute local path of `/x`, `file:/x`, `file:///x` or a path relative to the working directory.

    Raises:
        InvalidInputError: The location has another scheme, or names another host.
    """
    if scheme_of(location) != "file":
        raise InvalidInputError(f"{location} is not a local file", next_step="give a path or a file: location")
    path = location
    if location[: len(_FILE_PREFIX)].lower() == _FILE_PREFIX:
        path = location[len(_FILE_PREFIX) :]
        if path.startswith("//"):
            host, slash, rest = path[2:].partition("/")
            if host not in _LOCAL_HOSTS:
                raise InvalidInputError(
                    f"{location} names the host {host!r}", next_step=f"for a local file write file:///{host}/{rest} or a plain path"
                )
            path = slash + rest
        if not path:
            raise InvalidInputError(f"{location!r} names no file", next_step="give a path after the scheme")
    return path if os.path.isabs(path) else os.path.abspath(path)


def is_relative(location: str) -> bool:
    """Return True if the location is a relative path: it has no scheme, and no slash at its start."""
    return scheme_of(location) == "file" and not location.startswith("/") and location[: len(_FILE_PREFIX)].lower() != _FILE_PREFIX


def qualified(location: str) -> str:
    """Return the location in the form of a table's metadata: a relative path becomes absolute, from the working directory, and others stay as they are.

    Spec: File Locations in Metadata.
    """
    return local_path(location) if is_relative(location) else location


def join(location: str, *parts: str) -> str:
    """Return the location followed by the parts that are not empty, with exactly one slash between them."""
    return "/".join([location.rstrip("/"), *(part.strip("/") for part in parts if part.strip("/"))])
