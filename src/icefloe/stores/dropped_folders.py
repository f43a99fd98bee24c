"""`DroppedFolders`: the folders of dropped tables in a file-system catalog, from the drop until their files are deleted.

A drop renames the table's folder to `.dropped/<table>/<uuid>` in the folder of its namespace, in one step. From then on no table name leads to the folder,
because names do not contain dots, and Java's HadoopCatalog does not list it as a table. If a process ends before it has deleted the files, they are deleted by
the next drop, purge or creation of the name, or by the drop of the namespace.

The folder of the namespace is held open, and the folders below it are opened without following symbolic links, because another user could replace one of them
by a link. Spec: File System Tables.
"""

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from icefloe.errors import NoSuchFileError, StorageError
from icefloe.spec.identifier import Identifier, dotted
from icefloe.stores.store_folders import Folders, OpenFolder

# No table and no namespace can have this name, because it contains a dot.
DROPPED = ".dropped"
# The number of attempts to move a folder if another process removes the empty target folder at the same time.
TRIES = 20


class DroppedFolders:
    """Moves the folders of dropped tables of a catalog aside, and deletes their files. A dropped table is named by its former name."""

    def __init__(self, location_of: Callable[[Identifier], str], folders: Folders) -> None:
        self._location_of = location_of
        self._folders = folders

    def folder(self, identifier: Identifier) -> str:
        """Return the folder that contains the folders of dropped tables of a name."""
        return f"{self._location_of(identifier[:-1])}/{DROPPED}/{identifier[-1]}"

    def holds(self, identifier: Identifier) -> bool:
        """Return whether there are still files of a dropped table of this name."""
        return self._folders.names(self.folder(identifier)) is not None

    def add(self, identifier: Identifier, version: str) -> bool:
        """Move the folder of a table to the dropped folders in one step.

        Args:
            identifier: the name of the table.
            version: the name of the metadata file that the caller has read; a folder without this file belongs to another table.

        Returns:
            True if the folder was moved; False if it does not exist or lacks the metadata file.

        Raises:
            StorageError: the folder cannot be moved.
        """
        *_, name = identifier
        with self._folders.open_folder(self._location_of(identifier[:-1])) as namespace:
            for _ in range(TRIES):
                if namespace is None or not namespace.holds(f"{name}/metadata/{version}"):
                    return False
                with self._open_folder(namespace, name, make=True) as dropped:
                    if dropped is not None and namespace.move(name, dropped, uuid.uuid4().hex):
                        return True
        raise StorageError(
            f"table {dotted(identifier)!r} cannot be dropped: {self.folder(identifier)} is removed again and again",
            table=dotted(identifier),
            path=self.folder(identifier),
            next_step="try again",
        )

    def delete(self, identifier: Identifier) -> None:
        """Delete the remaining files of dropped tables of a name, even if another process does the same. Raises `StorageError`."""
        *_, name = identifier
        with self._folders.open_folder(self._location_of(identifier[:-1])) as namespace:
            if namespace is None:
                return
            try:
                with self._open_folder(namespace, name) as dropped:
                    if dropped is not None:
                        for table in dropped.names():
                            dropped.remove(table, with_content=True)
            except StorageError as error:
                raise type(error)(
                    f"table {dotted(identifier)!r} is dropped, and not all of its files could be deleted: {error.message}",
                    table=dotted(identifier),
                    path=error.path,
                    next_step=f"{error.next_step or 'remove the cause'}; drop_table({dotted(identifier)!r}) then deletes the rest",
                ) from error
            with suppress(StorageError, NoSuchFileError):  # another drop has put a folder into it
                with namespace.inner(DROPPED) as parent:
                    if parent is not None:
                        parent.remove(name)
                namespace.remove(DROPPED)

    def delete_all(self, namespace: Identifier) -> None:
        """Delete the remaining files of all dropped tables of a namespace. Raises `StorageError`."""
        with self._folders.open_folder(self._location_of(namespace)) as folder:
            if folder is None:
                return
            with folder.inner(DROPPED) as dropped:
                names = dropped.names() if dropped is not None else []
            for name in names:
                self.delete((*namespace, name))
            folder.remove(DROPPED)

    @contextmanager
    def _open_folder(self, namespace: OpenFolder, name: str, *, make: bool = False) -> Iterator[OpenFolder | None]:
        """Open the folder for dropped tables of a name; return None if it does not exist. Raises `StorageError` if it is a symbolic link."""
        with namespace.inner(DROPPED, make=make) as parent:
            if parent is None:
                yield None
                return
            with parent.inner(name, make=make) as folder:
                yield folder
