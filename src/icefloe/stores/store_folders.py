"""`Folders` and `OpenFolder`, `StoredObjects`: the interfaces to the storage of a file-system catalog.

`icefloe.io.local_folders` implements the first for this machine, and `icefloe.io.object_folders` the other for object stores.

Spec: File System Tables.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, Self


class OpenFolder(Protocol):
    """A folder that is held open: names are resolved in the same folder after a move, never in a new folder of the same path."""

    def names(self) -> list[str]:
        """Return the names in the folder."""

    def read(self, name: str) -> bytes:
        """Return the content of a file. Raises `NoSuchFileError`."""

    def write(self, name: str, content: bytes, *, overwrite: bool = False) -> None:
        """Write the whole file or nothing, and create no folder. Raises `FileAlreadyExistsError`, or `NoSuchFileError` if the folder was removed."""

    def delete(self, name: str) -> None:
        """Delete a file; a file that is not there is no error."""

    def inner(self, name: str, *, make: bool = False) -> AbstractContextManager[Self | None]:
        """Hold a folder in this one open, created with `make`; None if it does not exist. Raises `StorageError` for a symbolic link or a file."""

    def holds(self, path: str) -> bool:
        """Return whether there is a file or folder of that path below this folder."""

    def move(self, name: str, target: Self, new_name: str) -> bool:
        """Rename a folder, or the link in its place, into `target` in one step. Returns False where either is not there."""

    def remove(self, name: str, *, with_content: bool = False) -> None:
        """Remove an empty folder, or with `with_content` any entry with its content; of a symbolic link only the link."""


class Folders(Protocol):
    """Folders by location."""

    def names(self, location: str) -> tuple[list[str], list[str]] | None:
        """Return the names of folders and of files in a folder; None if there is no such folder."""

    def open_folder(self, location: str) -> AbstractContextManager[OpenFolder | None]:
        """Hold a folder open; None where there is no such folder."""

    def is_same(self, location: str, other: str) -> bool:
        """Return whether two locations name one folder, whatever their spelling."""

    def make(self, location: str) -> bool:
        """Create a folder; return whether it did not exist."""

    def remove(self, location: str) -> None:
        """Remove an empty folder, or the symbolic link in its place."""


class StoredObjects(Protocol):
    """The objects of a store, whose names look like paths; a folder is there as long as an object is in it."""

    def entries(self, location: str) -> tuple[list[str], Mapping[str, int]]:
        """Return the names of the folders in a folder, sorted, and the sizes of the objects in it by their names."""

    def is_same(self, location: str, other: str) -> bool:
        """Return whether two locations name one folder, whatever the alias of the store's scheme."""

    def objects_below(self, location: str) -> list[str]:
        """Return the locations of all objects below a folder."""

    def delete(self, locations: Sequence[str]) -> None:
        """Delete objects. Raises the first `StorageError`, after it has tried all."""
