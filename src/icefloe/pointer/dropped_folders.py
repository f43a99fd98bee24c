"""`DroppedFolders`: the folders of dropped tables of a file-system catalog, until their files are deleted.

A drop renames the table's folder to `.dropped/<table>/<uuid>` in the folder of its namespace, in one step. From then on no name leads to it: no name has a dot,
and to Java's HadoopCatalog it is no table of the namespace. What a process that ended early left there is deleted by the next drop, purge or creation of the
name, or by the drop of the namespace. Floor: pointer. Spec: File System Tables.
"""

import uuid
from collections.abc import Callable
from contextlib import suppress

from icefloe.errors import StorageError
from icefloe.pointer.folders import Folders
from icefloe.pointer.identifier import Identifier, dotted

# No table and no namespace can have the name, because of its dot.
DROPPED = ".dropped"


class DroppedFolders:
    """What is left of dropped tables, by the name that each had."""

    def __init__(self, location_of: Callable[[Identifier], str], folders: Folders) -> None:
        self._location_of = location_of
        self._folders = folders

    def folder(self, identifier: Identifier) -> str:
        """Return the folder that holds what is left of dropped tables of a name."""
        return f"{self._parent(identifier[:-1])}/{identifier[-1]}"

    def holds(self, identifier: Identifier) -> bool:
        """Return whether anything is left of tables of this name."""
        return self._folders.names(self.folder(identifier)) is not None

    def add(self, identifier: Identifier) -> bool:
        """Move the folder of a table here in one step. Returns False where there is none. Raises `StorageError`."""
        self._refuse_links(identifier)
        return self._folders.move(self._location_of(identifier), f"{self.folder(identifier)}/{uuid.uuid4().hex}")

    def delete(self, identifier: Identifier) -> None:
        """Delete what is left of dropped tables of a name, also where another process does the same. Raises `StorageError`."""
        self._refuse_links(identifier)
        try:
            for name in self._inside(self.folder(identifier)):
                self._folders.remove(f"{self.folder(identifier)}/{name}", with_content=True)
        except StorageError as error:
            raise type(error)(
                f"table {dotted(identifier)!r} is dropped, and not all of its files could be deleted: {error.message}",
                table=dotted(identifier),
                path=error.path,
                next_step=f"{error.next_step or 'remove the cause'}; drop_table({dotted(identifier)!r}) then deletes the rest",
            ) from error
        with suppress(StorageError):  # another drop has a folder in it
            self._folders.remove(self.folder(identifier))
            self._folders.remove(self._parent(identifier[:-1]))

    def delete_all(self, namespace: Identifier) -> None:
        """Delete what is left of the dropped tables of a namespace. Raises `StorageError`."""
        for name in self._inside(self._parent(namespace)):
            self.delete((*namespace, name))
        self._folders.remove(self._parent(namespace))

    def _parent(self, namespace: Identifier) -> str:
        return f"{self._location_of(namespace)}/{DROPPED}"

    def _inside(self, folder: str) -> list[str]:
        folders, files = self._folders.names(folder) or ([], [])
        return [*folders, *files]

    def _refuse_links(self, identifier: Identifier) -> None:
        for folder in (self._parent(identifier[:-1]), self.folder(identifier)):
            if self._folders.is_link(folder):
                raise StorageError(
                    f"{folder} is a symbolic link, and nothing behind a link is deleted: table {dotted(identifier)!r} cannot be dropped",
                    table=dotted(identifier),
                    path=folder,
                    next_step="remove the link",
                )
