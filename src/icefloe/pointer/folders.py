"""What a file-system catalog needs of a storage with folders; `icefloe.io.folders` has it for this machine.

Floor: pointer. Spec: File System Tables.
"""

from contextlib import AbstractContextManager
from typing import Protocol


class OpenFolder(Protocol):
    """A folder that is held open: its names lead to the same folder after it was moved, and never into a new one of the same path."""

    def names(self) -> list[str]:
        """Return the names in the folder."""

    def read(self, name: str) -> bytes:
        """Return the content of a file. Raises `NoSuchFileError`."""

    def write(self, name: str, content: bytes, *, overwrite: bool = False) -> None:
        """Write the whole file or nothing, and make no folder. Raises `FileAlreadyExistsError`; `NoSuchFileError` where the folder was removed."""

    def delete(self, name: str) -> None:
        """Delete a file; a file that is not there is no error."""


class Folders(Protocol):
    """Folders by location."""

    def names(self, location: str) -> tuple[list[str], list[str]] | None:
        """The names of folders and of files in a folder; None where there is no such folder."""

    def opened(self, location: str) -> AbstractContextManager[OpenFolder | None]:
        """Hold a folder open; None where there is no such folder."""

    def is_link(self, location: str) -> bool:
        """Return whether a symbolic link stands there."""

    def make(self, location: str) -> bool:
        """Makes a folder; whether it was not there."""

    def move(self, location: str, target: str) -> bool:
        """Rename a folder in one step, making the folders above `target`. Returns False where there is nothing at `location`."""

    def remove(self, location: str, *, with_content: bool = False) -> None:
        """Remove a folder, an empty one unless `with_content`, and a symbolic link without what it leads to."""
