"""`LinkedFiles`: the files that symbolic links beside a table's files lead to.

A data file can itself be a symbolic link to a file elsewhere in the table's folder, as programs leave it that store equal files once. It is read through the
link, so that the file behind it is needed although no metadata names it. Spec: File Locations in Metadata.
"""

import os
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icefloe.errors import InvalidInputError
from icefloe.io.locations import local_path, scheme_of
from icefloe.io.storage_errors import storage_error

# Links whose files are returned at a time.
_BATCH = 20_000


class LinkedFiles:
    """The search for links in the local folders of referenced files; each folder is listed once."""

    def __init__(self) -> None:
        """Create a search that has listed no folder."""
        self._listed: set[str] = set()

    def behind(self, locations: Any) -> Iterator[Any]:
        """Yield the files that any link in the folders of files leads to, as Arrow arrays of paths.

        Args:
            locations: An Arrow array of the locations of the files.

        Raises:
            StorageError: A folder cannot be listed, so that it is not known which files are links.
        """
        parts = pc.split_pattern(locations, "/", max_splits=1, reverse=True)
        found: list[str] = []
        for folder in pc.unique(pc.list_flatten(pc.list_slice(parts, 0, 1))).to_pylist():
            if folder in self._listed or scheme_of(folder) != "file":
                continue
            self._listed.add(folder)
            for path in _behind_links(folder):
                found.append(path)
                if len(found) == _BATCH:
                    yield pa.array(found, pa.string())
                    found = []
        if found:
            yield pa.array(found, pa.string())


def _behind_links(folder: str) -> Iterator[str]:
    try:
        with os.scandir(local_path(folder)) as entries:
            for entry in entries:
                if entry.is_symlink():
                    path = os.path.realpath(entry.path)
                    # A name that is not valid text is never an orphan.
                    if path == path.encode(errors="replace").decode():
                        yield path
    except (FileNotFoundError, NotADirectoryError, InvalidInputError, ValueError):
        return  # no such folder, so that no file in it is read through a link
    except OSError as error:
        raise storage_error(error, folder) from error
