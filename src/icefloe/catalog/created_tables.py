"""`CreatedTables`: the folders of the tables that this process created in a catalog whose server may choose the folders. Their files may be deleted.

A faulty server can return the folder of another program as that of a new table, and files must never be deleted there. So a folder is recorded only if the
caller chose it, or if it contains nothing but the first metadata file when the table is created. See `icefloe.operations.own_location`.
"""

import logging

from icefloe.errors import FormatError, InvalidInputError, NoSuchFileError, StorageError, UnsupportedError
from icefloe.io.file_tree import FolderFiles, FolderPart, HiddenNames, files_for
from icefloe.io.locations import Place, place_of_file, place_of_folder
from icefloe.operations.own_location import is_of_metadata_file, own_location
from icefloe.operations.table_handle import TableHandle
from icefloe.spec.identifier import Identifier
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.ports import FileIO
from icefloe.stores.catalog_store import TableLocation

LOG = logging.getLogger(__name__)
# Seconds after which the listing of a new table's folder is given up.
_LISTING_S = 5.0
# The greatest number of tables whose folders are remembered.
_MOST = 10_000
_NOTHING_HIDDEN = HiddenNames(("_", "."))


class CreatedTables:
    """The folders of tables that this process created or registered, and may therefore delete files in. Any number of threads may use it."""

    def __init__(self) -> None:
        self._folders: dict[Identifier, Place] = {}

    def folder(self, identifier: Identifier) -> Place | None:
        """Return the folder of a table if this process may delete files in it; None if it did not create or register the table, or the folder is not safe."""
        return self._folders.get(identifier)

    def add(self, handle: TableHandle, stored: TableLocation, chosen: str | None) -> None:
        """Remember the folder of a new table if it is safe to delete the table's files in it later.

        It is safe if the caller chose the folder, or if the folder has no file except the first metadata file. A folder that `own_location` already counts as
        the table's need not be remembered.

        Args:
            handle: The table.
            stored: The entry of the table that the server returned.
            chosen: The folder that the caller chose; None where the server chose it.
        """
        self._folders.pop(handle.identifier, None)
        metadata = stored.metadata
        place = place_of_folder(metadata.location) if isinstance(metadata, TableMetadata) else None
        if metadata is None or place is None or place.is_root:
            return
        is_chosen = chosen is not None and place_of_folder(chosen) == place
        if is_chosen or (
            own_location(handle, metadata.location, "") is None and _is_new(handle.io, metadata.location, stored.metadata_location)
        ):
            self._remember(handle.identifier, place)

    def add_registered(self, stored: TableLocation, metadata_file: str) -> None:
        """Remember the folder of a registered table, if the metadata file that the caller registered is in the `metadata` folder below it."""
        self._folders.pop(stored.identifier, None)
        place = place_of_folder(stored.metadata.location) if stored.metadata is not None else None
        if place is not None and not place.is_root and is_of_metadata_file(place, metadata_file):
            self._remember(stored.identifier, place)

    def drop(self, identifier: Identifier) -> None:
        """Remove the record of a dropped table's folder, since others may write to the folder from now on."""
        self._folders.pop(identifier, None)

    def rename(self, source: Identifier, target: Identifier) -> None:
        """Record a table's folder under the new name of the table."""
        place = self._folders.pop(source, None)
        self._folders.pop(target, None)
        if place is not None:
            self._remember(target, place)

    def _remember(self, identifier: Identifier, place: Place) -> None:
        self._folders[identifier] = place
        if len(self._folders) > _MOST:
            self._folders.pop(next(iter(self._folders)), None)


def _is_new(io: FileIO, folder: str, metadata_file: str) -> bool:
    """Return whether a folder contains nothing but the first metadata file of a table; False if it cannot be listed within a few seconds."""
    first = place_of_file(metadata_file) if metadata_file else None
    try:
        for listed in files_for(io, [FolderPart(folder.rstrip("/"))], _NOTHING_HIDDEN, _LISTING_S):
            if not isinstance(listed, FolderFiles) or any(place_of_file(f"{listed.folder}/{name}") != first for name in listed.names):
                return False
    except NoSuchFileError:
        return True  # a local folder, which the first write will create
    except (StorageError, UnsupportedError, InvalidInputError, FormatError) as error:
        LOG.debug("the folder %s of a new table cannot be listed: %s", folder, error.message)
        return False
    return True
