"""`files_of`: the files of a location, which is a folder, a pattern, or a single file.

Spec: File Locations in Metadata.
"""

import glob
import os
from collections.abc import Callable, Iterable
from typing import Any

from icefloe.errors import NoSuchFileError, UnsupportedFeatureError
from icefloe.io.file_io_by_scheme import SchemeFileIO
from icefloe.io.local_file_io import LocalFileIO
from icefloe.io.locations import local_path
from icefloe.io.object_store_file_io import ObjectStoreFileIO
from icefloe.io.storage_errors import storage_error
from icefloe.spec.ports import FileIO

_PATTERN_CHARACTERS = frozenset("*?[")


def files_of(io: FileIO, location: str) -> list[str]:
    """Return the sorted files of a location: the matches of a pattern with `*`, `?` or `[`, all files in a folder and below it, or the file itself.

    In a folder, files and folders whose names begin with `_` or `.` are left out, except names of the form name=value, as in Spark and Hive. A local folder may
    be empty; in an object store a folder without files does not exist.

    Raises:
        NoSuchFileError: The location does not exist, or the pattern matches nothing.
        UnsupportedFeatureError: The storage cannot be listed.
    """
    storage = io.at(location) if isinstance(io, SchemeFileIO) else io
    if isinstance(storage, LocalFileIO):
        files = _local_files(location)
    elif isinstance(storage, ObjectStoreFileIO):
        files = _files_of_store(storage, location)
    elif io.exists(location):
        files = [location]
    else:
        raise UnsupportedFeatureError(
            f"the storage of {location} cannot be listed", path=location, next_step="pass the locations of the files one by one"
        )
    if not files and not (isinstance(storage, LocalFileIO) and os.path.isdir(local_path(location))):
        raise NoSuchFileError(f"no file is at {location}", path=location, next_step="check the folder or the pattern")
    return files


def _local_files(location: str) -> list[str]:
    path = local_path(location)
    if os.path.isfile(path):
        return [location]
    # The results have the form of the location from the caller: a `file:` prefix is kept.
    prefix = location[: len(location) - len(path)] if location.endswith(path) else ""
    try:
        if os.path.isdir(path):
            return sorted(prefix + os.path.join(folder, name) for folder, name in _walk(path))
        return sorted(prefix + name for name in glob.glob(path, recursive=True) if os.path.isfile(name))
    except OSError as error:
        raise storage_error(error, location) from error


def _walk(top: str) -> Iterable[tuple[str, str]]:
    def raise_error(error: OSError) -> None:
        raise error

    for folder, inner, names in os.walk(top, onerror=raise_error):
        inner[:] = sorted(name for name in inner if _is_data(name))
        yield from ((folder, name) for name in names if _is_data(name))


def _files_of_store(io: ObjectStoreFileIO, location: str) -> list[str]:
    store = io.connect(location)

    def call(request: Callable[[Any], Any]) -> Any:
        try:
            return request(store)
        except OSError as error:
            raise storage_error(error, location) from error

    if _PATTERN_CHARACTERS.intersection(location):
        names = call(lambda fs: fs.glob(io.own_form(location)))
    else:
        top = io.own_form(location.rstrip("/"))
        names = [
            name
            for name in call(lambda fs: fs.find(top))
            if all(map(_is_data, name.split("://")[-1][len(top.split("://")[-1]) :].strip("/").split("/")))
        ]
    return sorted(name if "://" in name else _as_in(location, name) for name in names)


def _as_in(location: str, name: str) -> str:
    """Return a location for a name that the store's library returned, with the scheme and the host of the listed location."""
    scheme, _, rest = location.partition("://")
    bucket, _, path = name.lstrip("/").partition("/")
    authority = rest.partition("/")[0]
    return f"{scheme}://{authority}/{path}" if authority.partition("@")[0] == bucket else f"{scheme}://{name}"


def _is_data(name: str) -> bool:
    return not name.startswith(("_", ".")) or "=" in name
