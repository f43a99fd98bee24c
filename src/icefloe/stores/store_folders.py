"""`Folders`, `OpenFolder` and `StoredObjects`: the storage interfaces of a file-system catalog.

`icefloe.io.local_folders` implements the first two for this machine, and `icefloe.io.object_folders` the third for object stores.

Spec: File System Tables.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, Self


class OpenFolder(Protocol):
    """A folder that is held open. Names are resolved in this folder even if it is moved, and never in a new folder that has its old path."""

    def names(self) -> list[str]:
        """Return the names in the folder."""

    def read(self, name: str) -> bytes:
        """Return the content of a file. Raises `NoSuchFileError`."""

    def write(self, name: str, content: bytes, *, overwrite: bool = False) -> None:
        """Write the whole file or nothing, without creating folders. Raises `FileAlreadyExistsError`, or `NoSuchFileError` if the folder was removed."""

    def delete(self, name: str) -> None:
        """Delete a file; a file that does not exist is not an error."""

    def inner(self, name: str, *, make: bool = False) -> AbstractContextManager[Self | None]:
        """Open a folder inside this one, created if `make` is True; None if it does not exist. Raises `StorageError` for a symbolic link or a file."""

    def holds(self, path: str) -> bool:
        """Return whether a file or folder exists at this path relative to this folder."""

    def move(self, name: str, target: Self, new_name: str) -> bool:
        """Rename a folder, or a symbolic link, into the open folder `target` in one step. Return False if the folder or `target` does not exist any more."""

    def remove(self, name: str, *, with_content: bool = False) -> None:
        """Remove an empty folder, or with `with_content` any entry with its content; for a symbolic link only the link."""


class Folders(Protocol):
    """Operations on folders, which are named by location."""

    def names(self, location: str) -> tuple[list[str], list[str]] | None:
        """Return the names of the folders and of the files in a folder; None if there is no such folder."""

    def open_folder(self, location: str) -> AbstractContextManager[OpenFolder | None]:
        """Open a folder, and keep it open within a `with` block; None if there is no such folder."""

    def is_same(self, location: str, other: str) -> bool:
        """Return whether two locations are the same folder, however they are spelled."""

    def make(self, location: str) -> bool:
        """Create a folder. Return True if it did not exist."""

    def remove(self, location: str) -> None:
        """Remove an empty folder, or a symbolic link to a folder."""


class StoredObjects(Protocol):
    """The objects of a store, whose names look like paths. A folder exists as long as it contains an object."""

    def entries(self, location: str) -> tuple[list[str], Mapping[str, int]]:
        """Return the sorted names of the folders in a folder, and the sizes in bytes of the objects in it, by name."""

    def is_same(self, location: str, other: str) -> bool:
        """Return whether two locations are the same folder; aliases of the store's scheme are equal."""

    def objects_below(self, location: str) -> list[str]:
        """Return the locations of all objects below a folder."""

    def delete(self, locations: Sequence[str]) -> None:
        """Delete objects. After trying all of them, raise the first `StorageError`, if there was one."""
