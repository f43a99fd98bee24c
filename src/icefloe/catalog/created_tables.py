"""`CreatedTables`: the folders of the tables that this process created in a catalog whose server chooses them, so that their files may be deleted.

A server that names another program's folder as that of a new table must not have files deleted there later. So a folder counts if the caller chose it, or
if it has no file but the first metadata file when the table is created. See `icefloe.operations.own_location`.
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
# Seconds after which no other folder of a new table is listed.
_LISTING_S = 5.0
# Tables that are remembered.
_MOST = 10_000
_NOTHING_HIDDEN = HiddenNames(("_", "."))


class CreatedTables:
    """The folders by the tables' names. Any number of threads may use it."""

    def __init__(self) -> None:
        self._folders: dict[Identifier, Place] = {}

    def folder(self, identifier: Identifier) -> Place | None:
        """Return the folder in which this process created a table; None for another table."""
        return self._folders.get(identifier)

    def add(self, handle: TableHandle, stored: TableLocation, chosen: str | None) -> None:
        """Remember the folder of a new table if it is safe to delete the table's files in it later.

        It is safe if the caller chose the folder, or if the folder has no file except the first metadata file. A folder that `own_location` already counts as
        the table's need not be remembered.

        Args:
            handle: The table.
            stored: The server's answer.
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
        """Remember the folder of a table that was registered, if the metadata file that the caller named is in its folder `metadata`."""
        self._folders.pop(stored.identifier, None)
        place = place_of_folder(stored.metadata.location) if stored.metadata is not None else None
        if place is not None and not place.is_root and is_of_metadata_file(place, metadata_file):
            self._remember(stored.identifier, place)

    def drop(self, identifier: Identifier) -> None:
        """Drop the folder of a table that was dropped: what is in it from now on need not be the table's own."""
        self._folders.pop(identifier, None)

    def rename(self, source: Identifier, target: Identifier) -> None:
        """Move a table's folder to its new name."""
        place = self._folders.pop(source, None)
        self._folders.pop(target, None)
        if place is not None:
            self._remember(target, place)

    def _remember(self, identifier: Identifier, place: Place) -> None:
        self._folders[identifier] = place
        if len(self._folders) > _MOST:
            self._folders.pop(next(iter(self._folders)), None)


def _is_new(io: FileIO, folder: str, metadata_file: str) -> bool:
    """Return whether a folder has no file but a table's first metadata file; False where it cannot be listed in a few seconds."""
    first = place_of_file(metadata_file) if metadata_file else None
    try:
        for listed in files_for(io, [FolderPart(folder.rstrip("/"))], _NOTHING_HIDDEN, _LISTING_S):
            if not isinstance(listed, FolderFiles) or any(place_of_file(f"{listed.folder}/{name}") != first for name in listed.names):
                return False
    except NoSuchFileError:
        return True  # a local folder that is made by the first write
    except (StorageError, UnsupportedError, InvalidInputError, FormatError) as error:
        LOG.debug("the folder %s of a new table cannot be listed: %s", folder, error.message)
        return False
    return True
