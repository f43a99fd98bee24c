"""`OrphanScope`: the folder whose files may be deleted as orphans, without the parts that belong to other tables.

A table's metadata is not trusted, so that its location counts only with a proof from outside of the metadata (`icefloe.operations.own_location`). A folder from
the caller needs no such proof, but must not be shared with another table of the catalog. The table's own folder may contain the folders of other tables: these
folders are excluded, and files that these tables reference count as referenced. A folder of a table from another catalog is recognized by its metadata files.
Spec: File Locations in Metadata.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from icefloe.errors import (
    FormatError,
    InvalidInputError,
    LocationNotAllowedError,
    NoSuchFileError,
    NotFoundError,
    StorageError,
    UnsupportedError,
    UnsupportedFeatureError,
)
from icefloe.io.locations import Place, folders_of, is_relative, join, place_of_file, place_of_folder, qualify
from icefloe.operations.expiry.deletion_scope import folders_of_table
from icefloe.operations.metadata_cache import LoadedMetadata, has_no_file, metadata_of
from icefloe.operations.orphans.referenced_files import METADATA_FOLDER
from icefloe.operations.own_location import holds_warehouse, proven_location
from icefloe.operations.table_handle import TableHandle
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.metadata.table_properties import DATA_PATH, FOLDER_STORAGE_PATH, METADATA_PATH, OBJECT_STORE_PATH
from icefloe.stores.catalog_store import TableLocation, other_tables

# The number of other tables' folders that the error and the result list.
_SHOWN = 5
# The number of other tables' folders that are recognized by their metadata files; if a folder contains more, nothing is deleted.
_MOST_FOREIGN = 1_000
# A subfolder of the metadata folder, which a rewrite of the table's paths leaves there if it is killed or does not copy.
_STAGING = re.compile(r"copy-table-staging-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanScope:
    """The folder whose files may be deleted, and its exclusions.

    Attributes:
        location: The folder as spelled by the caller or the metadata.
        place: The folder with links resolved.
        own: The table's location with links resolved, if it is inside the folder, or the folder is inside it; else None.
        others: Tables of the catalog whose folders overlap with this folder.
        without: Folders of other tables inside this folder, which are excluded.
    """

    location: str
    place: Place
    own: Place | None
    others: tuple[TableLocation, ...] = ()
    without: tuple[Place, ...] = ()

    def contains(self, location: str, real: Callable[[str], str] = os.path.realpath) -> bool:
        """Return True if a file is in the scope now. Call this right before the file is deleted. `real` resolves the links of a folder."""
        place = place_of_file(location, real)
        return place is not None and place.is_below(self.place) and not any(self._is_of_other(place, folder) for folder in self.without)

    def _is_of_other(self, place: Place, folder: Place) -> bool:
        if place != folder and not place.in_any_spelling.is_below(folder.in_any_spelling):
            return False
        # A folder above the table's own folder cannot make the table's files belong to another table.
        return not (self.own is not None and self.own.is_below(folder) and place.is_below(self.own))

    @property
    def is_own(self) -> bool:
        """Return True if the folder is the table's own folder, or inside it."""
        return self.own is not None and (self.place == self.own or self.place.is_below(self.own))

    def folders_above(self) -> Iterator[str]:
        """Yield the folders above the scope that may belong to another table: up to the table's own folder if the scope is in it, else all."""
        if self.place == self.own:
            return
        folder = self.location
        if self.place.store == "file":
            folder = self.place.path
        while "/" in folder:
            folder = folder.rpartition("/")[0]
            place = place_of_folder(folder)
            if place is None or place.is_root or (self.is_own and place == self.own):
                return
            yield folder

    def folders_around(self, location: str, real: Callable[[str], str]) -> Iterator[str]:
        """Yield the folder of a file in the scope and the folders above it, up to the scope's folder. `real` resolves the links of a folder."""
        place = place_of_file(location, real)
        folder = place.path if place is not None and place.store == "file" else location
        while "/" in folder:
            folder = folder.rpartition("/")[0]
            place = place_of_folder(folder)
            if place is None or not (place == self.place or place.is_below(self.place)):
                return
            yield folder

    def excluding(self, folders: Iterable[Place]) -> "OrphanScope":
        """Return the scope with more folders of other tables excluded."""
        return replace(self, without=tuple(dict.fromkeys((*self.without, *folders))))


def cached_real() -> Callable[[str], str]:
    """Return a cached `os.path.realpath`, which resolves each folder once. Use it for one batch, because links may change."""
    known: dict[str, str] = {}

    def real(folder: str) -> str:
        if folder not in known:
            known[folder] = os.path.realpath(folder)
        return known[folder]

    return real


def orphan_scope(handle: TableHandle, loaded: LoadedMetadata, location: str | None) -> OrphanScope:
    """Determine the scope of a removal.

    Args:
        handle: The table.
        loaded: The table's loaded metadata.
        location: The folder from the caller; None for the table's location.

    Raises:
        LocationNotAllowedError: Only the metadata itself states the table's location; or the folder from the caller contains, or is in, another table's folder.
        InvalidInputError: The location from the caller is not a folder, is a whole bucket or file system, contains the warehouse, or is the table's own folder
            under a different path.
        UnsupportedFeatureError: The catalog does not return the location of the table's metadata file, so that this file would seem to be an orphan.
        StorageError: The catalog's tables cannot be listed.
    """
    if has_no_file(loaded.location):
        raise UnsupportedFeatureError(
            f"orphan files of {handle.table_name} cannot be removed: the catalog's server does not name the table's metadata file, which would seem to be one",
            table=handle.table_name,
            next_step="set the catalog property snapshot-loading-mode to all, with which some servers name it; else leave this to the server",
        )
    own = proven_location(handle, loaded.metadata.location, loaded.location)
    if location is None:
        if own is None:
            raise LocationNotAllowedError(
                f"the location {loaded.metadata.location} of {handle.table_name} is not where its metadata file is, and not the folder of its"
                " name: nothing is deleted there"
                if not handle.store.writes_metadata
                else f"the answer of the catalog's server is all that makes {loaded.metadata.location} the location of {handle.table_name}, and the server"
                " gives no credentials for it: nothing is deleted there",
                table=handle.table_name,
                path=loaded.metadata.location,
                next_step="if every file there is the table's, pass that folder as location, or add it to the catalog property io.allowed-locations",
            )
        return _with_others(handle, loaded.metadata.location, own, own)
    place = place_of_folder(qualify(location))
    if place is None or place.is_root or holds_warehouse(handle.policy, place):
        raise InvalidInputError(
            f"orphan files cannot be removed from {location}: it is no folder, or a whole bucket, or the warehouse of all tables",
            table=handle.table_name,
            path=location,
            next_step="name a folder of this table alone, such as s3://bucket/lake/db/t/data",
        )
    location = qualify(location)
    _refuse_other_spelling(handle, loaded, place)
    if own is not None and (place == own or place.is_below(own)):
        scope = _with_others(handle, location, place, own)
        others = [table for table in scope.others if _has(handle, table, place, own)]
    else:
        scope = _with_others(handle, location, place, own if own is not None and own.is_below(place) else None)
        others = list(scope.others)
    if others:
        names = ", ".join(".".join(table.identifier) for table in others[:_SHOWN])
        raise LocationNotAllowedError(
            f"orphan files of {handle.table_name} cannot be removed from {location}: it overlaps with the folders of other tables: {names}",
            table=handle.table_name,
            path=location,
            next_step="name a folder of this table alone",
        )
    return scope


def _folders_in_metadata(metadata: TableMetadata) -> list[str]:
    """Return the table's location, and the folders in its properties."""
    paths = [
        metadata.location,
        *(setting.read(metadata.properties) for setting in (DATA_PATH, OBJECT_STORE_PATH, FOLDER_STORAGE_PATH, METADATA_PATH)),
    ]
    return [join(metadata.location, path) if path and is_relative(path) and path != metadata.location else path for path in paths if path]


def _refuse_other_spelling(handle: TableHandle, loaded: LoadedMetadata, place: Place) -> None:
    """Refuse a local folder that is the table's own folder under a different path, which differs in upper and lower case or leads through a second mount.

    The paths of its files would differ from the paths in the metadata, so that every live file would seem to be an orphan.

    Raises:
        InvalidInputError: The folder is the table's own folder under a different path, or above or below it.
    """
    if place.store != "file":
        return
    folders = [*_folders_in_metadata(loaded.metadata), loaded.location.rpartition("/")[0]]
    for folder in folders_of(folders):
        if folder.store != "file" or folder.overlaps(place):
            continue
        if _is_within(folder.path, place.path) or _is_within(place.path, folder.path):
            raise InvalidInputError(
                f"orphan files of {handle.table_name} cannot be removed from {place.path}: it is {folder.path} by another name, so that no path in it"
                " would be equal to one in the metadata",
                table=handle.table_name,
                path=place.path,
                next_step=f"name the folder as the table does: {folder.path}",
            )


def _is_within(path: str, folder: str) -> bool:
    """Return whether a local path is a folder or inside it, however both are spelled."""
    with suppress(OSError):
        expected = os.stat(folder)
        while True:
            with suppress(OSError):
                if os.path.samestat(os.stat(path), expected):
                    return True
            above = os.path.dirname(path)
            if above == path:
                return False
            path = above
    return False


def _has(handle: TableHandle, table: TableLocation, place: Place, own: Place) -> bool:
    """Return whether a place is in the folder of another table that is nested in this table's own folder."""
    nested = [folder for folder in folders_of_table(handle.policy, table) if folder.is_below(own)]
    return any(place == folder or place.is_below(folder) for folder in nested)


def _with_others(handle: TableHandle, location: str, place: Place, own: Place | None) -> OrphanScope:
    others, without = [], []
    for table in other_tables(handle.store, handle.identifier):
        folders = [folder for folder in folders_of_table(handle.policy, table) if folder.overlaps(place)]
        if folders:
            others.append(table)
            without += [folder for folder in folders if folder.in_any_spelling.is_below(place.in_any_spelling)]
    return OrphanScope(
        location=location.rstrip("/") or location, place=place, own=own, others=tuple(others), without=tuple(dict.fromkeys(without))
    )


def metadata_of_others(handle: TableHandle, others: Sequence[TableLocation]) -> list[LoadedMetadata]:
    """Load the current metadata of other tables whose files may be in the folder. A table that was dropped meanwhile is skipped.

    Raises:
        LocationNotAllowedError: A table's metadata cannot be read, or its location is unknown, so that the files that the table needs are unknown.
    """
    result = []
    for table in others:
        try:
            if has_no_file(table.metadata_location):
                raise NoSuchFileError("The catalog's server does not name its metadata file.")
            result.append(metadata_of(handle.io, table))
        except (NotFoundError, FormatError, StorageError, UnsupportedError, InvalidInputError) as error:
            raise LocationNotAllowedError(
                f"no file of {handle.table_name} was deleted: {'.'.join(table.identifier)} has a folder that overlaps with it, and the files that it needs"
                f" are unknown. {error.message}",
                table=handle.table_name,
                path=table.metadata_location,
                next_step="name a location in which no other table has files",
            ) from error
    return result


def foreign_folders(loaded: LoadedMetadata, scope: OrphanScope, metadata_files: Iterable[str]) -> list[Place]:
    """Find the folders of other tables by metadata files: folders that contain a folder `metadata` which is not this table's.

    Raises:
        LocationNotAllowedError: There are too many such folders.
    """
    metadata = loaded.metadata
    files = [loaded.location, *(entry.metadata_file for entry in metadata.metadata_log)]
    folders = [join(metadata.location, METADATA_FOLDER), *_folders_in_metadata(metadata)]
    own = set(folders_of([*folders, *dict.fromkeys(file.rpartition("/")[0] for file in files)]))
    foreign: dict[Place, None] = {}
    for folder in dict.fromkeys(path.rpartition("/")[0] for path in metadata_files):
        place = place_of_folder(folder)
        if place is None or place in own or place.path.rpartition("/")[2] != METADATA_FOLDER:
            continue
        above, _, name = place.path.rpartition("/")[0].rpartition("/")
        if _STAGING.fullmatch(name) and Place(place.store, above) in own:
            continue
        foreign[Place(place.store, place.path.rpartition("/")[0])] = None
        if len(foreign) > _MOST_FOREIGN:
            raise LocationNotAllowedError(
                f"{scope.location} has the metadata of more than {_MOST_FOREIGN:,} other tables, so nothing is deleted there",
                path=scope.location,
                next_step="name a folder of this table alone",
            )
    return list(foreign)
