"""`LinkedFiles`: the files that symbolic links beside a table's files lead to.

A data file can itself be a symbolic link to a file elsewhere in the table's folder, as programs leave it that store equal files once. It is read through the
link, so that the file behind it is needed although no metadata names it. Spec: File Locations in Metadata.
"""

import os
from collections.abc import Iterable, Iterator

from icefloe.errors import InvalidInputError
from icefloe.io.locations import local_path, scheme_of
from icefloe.io.storage_errors import storage_error


class LinkedFiles:
    """The search for links in the local folders of referenced files; each folder is listed once."""

    def __init__(self) -> None:
        """Create a search that has listed no folder."""
        self._listed: set[str] = set()

    def behind(self, locations: Iterable[str]) -> Iterator[str]:
        """Yield the paths of the files that any link in the folders of these files leads to.

        Raises:
            StorageError: A folder cannot be listed, so that it is not known which files are links.
        """
        for folder in dict.fromkeys(location.rpartition("/")[0] for location in locations):
            # Folders of an object store are not remembered: with hashed paths there are nearly as many as files.
            if scheme_of(folder) == "file" and folder not in self._listed:
                self._listed.add(folder)
                yield from _behind_links(folder)


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
