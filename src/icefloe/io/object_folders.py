"""`ObjectFolders`: listing and deletion of a store's objects by folder, for a file-system catalog whose warehouse is in the store.

Spec: File System Tables.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from icefloe.io.bulk_delete import delete_files
from icefloe.io.file_io_by_scheme import SchemeFileIO
from icefloe.io.locations import is_same_folder
from icefloe.io.object_store_file_io import ObjectStoreFileIO


@dataclass(frozen=True, slots=True)
class ObjectFolders:
    """Operations on prefixes of an object store as if they were folders."""

    io: SchemeFileIO

    def entries(self, location: str) -> tuple[list[str], Mapping[str, int]]:
        """Return the sorted names of the folders in a folder, and the sizes in bytes of the objects in it, by name."""
        folders: set[str] = set()
        sizes: dict[str, int] = {}
        for rest, entry in self._entries_below(location, is_deep=False):
            name = rest.rstrip("/")
            if not name or "/" in name:
                continue
            if entry.get("type") == "directory":
                folders.add(name)
            elif not rest.endswith("/"):  # such an object represents a folder
                sizes[name] = int(entry.get("size") or 0)
        return sorted(folders), sizes

    def is_same(self, location: str, other: str) -> bool:
        """Return whether two locations are the same folder. `s3a` is an alias of the scheme `s3`; names of objects are compared literally."""
        return is_same_folder(location, other)

    def objects_below(self, location: str) -> list[str]:
        """Return the locations of all objects below a folder."""
        top = location.rstrip("/")
        return [f"{top}/{rest}" for rest, entry in self._entries_below(location, is_deep=True) if entry.get("type") != "directory" and rest]

    def delete(self, locations: Sequence[str]) -> None:
        """Delete objects. After trying all of them, raise the first `StorageError`, if there was one."""
        for _, error in delete_files(self.io, locations):
            raise error

    def _entries_below(self, location: str, *, is_deep: bool) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield for each entry below a folder the part of its name after the folder, and the entry."""
        store = self.io.at(location)
        if not isinstance(store, ObjectStoreFileIO):
            return
        top = store.own_form(location.rstrip("/")).partition("://")[2] + "/"
        for entry in store.list_entries(location.rstrip("/"), is_deep=is_deep):
            name = str(entry["name"]).rpartition("://")[2].lstrip("/")
            if name.startswith(top):
                yield name.removeprefix(top), entry
