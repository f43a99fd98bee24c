"""`LinkedFiles`: the targets of symbolic links in the folders of a table's files.

A data file can be a symbolic link to a file elsewhere in the table's folder, because some programs store equal files only once. It is read through the link, so
its target is needed although no metadata refers to it. Spec: File Locations in Metadata.
"""

import os
from collections.abc import Iterable, Iterator

from icefloe.errors import InvalidInputError
from icefloe.io.locations import local_path, scheme_of
from icefloe.io.storage_errors import storage_error


class LinkedFiles:
    """Finds the targets of links in the local folders of referenced files. Each folder is listed once."""

    def __init__(self) -> None:
        """Create an object that has not listed any folder yet."""
        self._listed: set[str] = set()

    def behind(self, locations: Iterable[str]) -> Iterator[str]:
        """Yield the paths of the targets of all links in the folders of these files, except in folders that were listed before.

        Raises:
            StorageError: A folder cannot be listed, so that it is unknown which of its files are links.
        """
        for folder in dict.fromkeys(location.rpartition("/")[0] for location in locations):
            # Folders of an object store are not remembered, because with hashed paths there are nearly as many folders as files.
            if scheme_of(folder) == "file" and folder not in self._listed:
                self._listed.add(folder)
                yield from _behind_links(folder)


def _behind_links(folder: str) -> Iterator[str]:
    try:
        with os.scandir(local_path(folder)) as entries:
            for entry in entries:
                if entry.is_symlink():
                    path = os.path.realpath(entry.path)
                    # A file whose name is not valid text is never counted as an orphan, so it is not needed here.
                    if path == path.encode(errors="replace").decode():
                        yield path
    except (FileNotFoundError, NotADirectoryError, InvalidInputError, ValueError):
        return  # the folder does not exist, so it has no links
    except OSError as error:
        raise storage_error(error, folder) from error
