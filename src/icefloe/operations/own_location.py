"""Functions that check whether a location or a metadata file in a table's metadata really belongs to the table.

Metadata is not trusted: its location may be the folder of another table, a home folder or a whole bucket, and every file there would seem to be the table's;
its log may contain any file. So something other than the metadata must prove that a location is the table's own. Usually the proof is that the catalog's
metadata location is in the folder. But if a server sends the metadata together with the metadata location, neither proves the other. Then one of these must
prove the location: the user's configuration; that this process created the table; or that files are deleted with credentials that the server sends.
`icefloe.operations.expiry.deletion_scope` uses these checks for the files in the location.
Spec: Table Metadata Fields (`location`, `metadata-log`).
"""

import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from icefloe.errors import FormatError, LocationNotAllowedError, NotFoundError, StorageError, UnsupportedError, in_one_line
from icefloe.io.file_io_by_scheme import SchemeFileIO
from icefloe.io.locations import LocationPolicy, LocationScope, Place, folders_of, is_relative, join, place_of_file, place_of_folder
from icefloe.operations.metadata_cache import read_metadata_at
from icefloe.operations.table_handle import TableHandle
from icefloe.spec.identifier import Identifier
from icefloe.spec.metadata.naming import metadata_version
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.metadata.table_properties import DATA_PATH, METADATA_PATH
from icefloe.stores.catalog_store import KeepsFolders, TableLocation, other_tables

LOG = logging.getLogger(__name__)
_WARNED: set[tuple[str, str]] = set()


@dataclass(frozen=True, slots=True, kw_only=True)
class OldMetadataFiles:
    """The result of `own_metadata_files`.

    Attributes:
        own: The locations of old metadata files that may be deleted.
        others: The locations of old metadata files that may not be deleted, because they may belong to other tables.
        folders: The folders of the files in `own`.
    """

    own: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    folders: LocationScope = field(default_factory=LocationScope)


def is_configured(policy: LocationPolicy, place: Place) -> bool:
    """Return whether the user has allowed a folder: it is in the warehouse, is or is in an allowed location, or this process created the table in it.

    The `location` of a namespace does not count, because every user who may create a namespace can set it.
    """
    return place == policy.created or policy.trusted_folders().holds(place) or place in folders_of(policy.allowed_locations)


def own_location(handle: TableHandle, location: str, metadata_location: str) -> Place | None:
    """Return the folder of a table's location if it is certain that the location is the table's own; None otherwise.

    A location is the table's own if `is_configured` allows it, or if the catalog's metadata location is in its folder `metadata`. A bucket, and a folder that
    is or contains the warehouse, are never the table's own; a top-level folder of a machine only if `is_configured` allows it. In a file-system catalog, the
    folder of the table's name is the table's own; if it is a link, its target is not, because another user may have made the link. If a server sends the
    metadata, the metadata location proves nothing; then the location is the table's own if files in it are deleted with the server's credentials.
    """
    if isinstance(handle.store, KeepsFolders):
        return _folder_in_place(handle.store.table_location(handle.identifier), handle.identifier)
    place = place_of_folder(location)
    if place is None or place.is_root or holds_warehouse(handle.policy, place):
        return None
    if is_configured(handle.policy, place):
        return place
    if handle.store.writes_metadata:
        return place if _is_given(handle, location) else None
    is_deep = place.store != "file" or place.path.count("/") > 1
    return place if is_deep and is_of_metadata_file(place, metadata_location) else None


def _is_given(handle: TableHandle, location: str) -> bool:
    """Return whether the catalog's server sends the credentials for a folder. Such a server could delete the files itself, so deleting them adds no risk."""
    access = handle.io.access if isinstance(handle.io, SchemeFileIO) else None
    return access is not None and access.reserves(location)


def proven_location(handle: TableHandle, location: str, metadata_location: str) -> Place | None:
    """Return the folder of a table's location if all files in it may be treated as the table's files; None otherwise.

    It is not enough that the location is in the warehouse, which may also contain folders of other programs and catalogs. One of these must be true: the
    catalog's metadata location is in its folder `metadata`; the server sends the credentials for it; it is the folder of the table's name; the configuration
    names exactly this folder; or this process created the table in it.
    """
    own = own_location(handle, location, metadata_location)
    if own is None or isinstance(handle.store, KeepsFolders) or own == handle.policy.created:
        return own
    if _is_given(handle, location) if handle.store.writes_metadata else is_of_metadata_file(own, metadata_location):
        return own
    return own if own in (*folder_of_name(handle.policy, handle.identifier), *folders_of(handle.policy.allowed_locations)) else None


def folder_of_name(policy: LocationPolicy, identifier: Identifier) -> tuple[Place, ...]:
    """Return a tuple with the folder in the warehouse for a table's name; an empty tuple if there is no warehouse, or a level cannot be a folder's name."""
    if not policy.warehouse or any("/" in level or level in ("", ".", "..") for level in identifier):
        return ()
    return folders_of([join(policy.warehouse, *identifier)])


def check_location_is_proven(handle: TableHandle, location: str, metadata_location: str) -> None:
    """Raise an error before a table's files are deleted if only the response of the catalog's server shows that the location is the table's own.

    Raises:
        LocationNotAllowedError: the location is not proven.
    """
    if own_location(handle, location, metadata_location) is None:
        raise LocationNotAllowedError(
            f"the files of {handle.table_name} in {location} are not deleted: the answer of the catalog's server is all that makes it the table's location,"
            " and the server gives no credentials for it",
            table=handle.table_name,
            path=location,
            next_step="if its files may be deleted, add it, or a folder above it, to the catalog property io.allowed-locations; or drop the table's name alone",
        )


def holds_warehouse(policy: LocationPolicy, place: Place) -> bool:
    """Return whether a folder is the warehouse, or contains the warehouse with all its tables."""
    warehouse = place_of_folder(policy.warehouse) if policy.warehouse else None
    return warehouse is not None and (place == warehouse or warehouse.is_below(place))


def check_view_location(name: str, policy: LocationPolicy, location: str, metadata_location: str) -> None:
    """Raise an error before a write to a registered view if nothing but the view's metadata shows that its location is its own.

    Raises:
        LocationNotAllowedError: the location is not proven.
    """
    place = place_of_folder(location)
    if place is not None and (is_of_metadata_file(place, metadata_location) or is_configured(policy, place)):
        return
    raise _not_own("view", name, location, metadata_location)


def is_of_metadata_file(place: Place, metadata_location: str) -> bool:
    """Return whether a metadata file is directly in the folder `metadata` of the folder `place`.

    A local file must exist, and no folder in its path may be a link, because a folder may have been replaced by a link since the file was read.
    """
    file = place_of_file(metadata_location) if metadata_location else None
    if file is None or Place(file.store, file.path.rpartition("/")[0]) != Place(place.store, f"{place.path}/metadata"):
        return False
    return file.store != "file" or (os.path.isfile(file.path) and os.path.realpath(file.path) == file.path)


def _folder_in_place(location: str, identifier: Identifier) -> Place | None:
    """Return the folder of a table in a file-system catalog; None if it is, or is below, a link inside the warehouse that leads elsewhere."""
    below = "/" + "/".join(identifier)
    place, base = place_of_folder(location), place_of_folder(location.removesuffix(below) or "/")
    return place if base is not None and place == Place(base.store, base.path + below) else None


def _not_own(noun: str, name: str, location: str, metadata_location: str) -> LocationNotAllowedError:
    return LocationNotAllowedError(
        f"the location {location} of {noun} {name} is not where its metadata file is, and not in the warehouse, so nothing is written there",
        table=name,
        path=metadata_location,
        next_step=f"if the {noun} may have that folder, add it to the catalog property io.allowed-locations; otherwise give it another location",
    )


def check_location_is_own(handle: TableHandle, base: TableMetadata, new: TableMetadata, metadata_location: str) -> None:
    """Raise an error before a write to a registered table if nothing but the table's metadata shows that its location is its own.

    A location that this commit sets is allowed, because the caller chose it. `metadata_location` is the catalog's metadata location.

    Raises:
        LocationNotAllowedError: the location is not proven.
    """
    place = place_of_folder(new.location)
    if new.location != base.location or (place is not None and is_of_metadata_file(place, metadata_location)):
        return  # a whole bucket is allowed as the location, because nothing is deleted here
    if handle.store.writes_metadata and not metadata_location:
        return  # a server need not report the location of the file, and can report any location
    if own_location(handle, new.location, metadata_location) is not None:
        return
    # The metadata location may be an address that only the server can read. A folder that the server itself gives access to is allowed.
    access = handle.io.access if isinstance(handle.io, SchemeFileIO) else None
    if access is not None and access.gives(new.location):
        return
    # With `write.metadata.path`, metadata files need not be in the table's location, but each is in the folder of the previous metadata file.
    path = METADATA_PATH.read(base.properties)
    if path and place_of_folder(metadata_location.rpartition("/")[0]) in folders_of(
        [join(base.location, path) if is_relative(path) else path]
    ):
        return
    raise _not_own("table", handle.table_name, new.location, metadata_location)


def check_paths_for_writes(handle: TableHandle, metadata: TableMetadata) -> None:
    """Warn once about each table property that puts new files outside the table's location; raise an error if the catalog's policy is strict.

    Raises:
        LocationNotAllowedError: the catalog property `io.location-policy` is `strict`.
    """
    for text, folder in _paths_outside(handle, metadata):
        if handle.policy.is_strict:
            raise LocationNotAllowedError(
                text,
                table=handle.table_name,
                next_step="add the folder to the catalog property io.allowed-locations, or remove the property",
            )
        _warn_once(handle, folder, text)


def warn_of_places(handle: TableHandle, metadata: TableMetadata, metadata_location: str) -> None:
    """Warn when a table is registered if its location is not proven to be the table's own, or a property puts new files outside its location."""
    if own_location(handle, metadata.location, metadata_location) is None:
        text = (
            f"the location {metadata.location} of table {handle.table_name} is not where its metadata file is, and not in the warehouse: nothing"
            " will be written or deleted there"
        )
        _warn_once(handle, metadata.location, text)
    for text, folder in _paths_outside(handle, metadata):
        _warn_once(handle, folder, text)


def _paths_outside(handle: TableHandle, metadata: TableMetadata) -> Iterator[tuple[str, str]]:
    """Yield for each property that puts new files in a folder outside the table's location the text of a warning, and the folder."""
    for name, path in ((setting.name, setting.read(metadata.properties)) for setting in (DATA_PATH, METADATA_PATH)):
        folder = join(metadata.location, path) if path and is_relative(path) else path
        if folder and not _is_inside(handle, metadata.location, folder):
            text = f"the property {name} of table {handle.table_name} sends new files to {folder}, outside the table's location"
            yield f"{text} {metadata.location}", folder


def _warn_once(handle: TableHandle, folder: str, text: str) -> None:
    if (handle.table_name, folder) not in _WARNED:
        _WARNED.add((handle.table_name, folder))
        LOG.warning("%s", in_one_line(text))


def _is_inside(handle: TableHandle, location: str, folder: str) -> bool:
    place, own = place_of_folder(folder), place_of_folder(location)
    if place is None:
        return False
    if own is not None and (place == own or place.is_below(own)):
        return True
    return is_configured(handle.policy, place)


def own_metadata_files(handle: TableHandle, current: Iterable[str], dropped: Sequence[str]) -> OldMetadataFiles:
    """Divide the files `dropped`, which were removed from a table's metadata log, into files that may be deleted and files that may not.

    A file may be deleted if it has the name of a metadata file, is in the folder of one of the `current` metadata files, and is not in the log of another table
    in this folder. Only names in the catalog are read, unless another table has its metadata in the same folder, because this runs after every commit of a
    table with `write.metadata.delete-after-commit.enabled`.
    """
    folders = {place for place in (place_of_folder(location.rpartition("/")[0]) for location in current if location) if place is not None}
    own: list[str] = []
    others: list[str] = []
    reached: set[Place] | None = None
    for location in dropped:
        place = place_of_file(location)
        if place is None or metadata_version(location) is None or _folder_of(place) not in folders:
            others.append(location)
            continue
        if reached is None:
            try:
                reached = _metadata_files_of_others(handle, folders)
            except (NotFoundError, FormatError, StorageError, UnsupportedError):
                return OldMetadataFiles(others=tuple(dropped))  # the files that the other tables need are unknown, so none is deleted
        (others if place in reached else own).append(location)
    return OldMetadataFiles(own=tuple(own), others=tuple(others), folders=LocationScope(tuple(folders)))


def _folder_of(place: Place) -> Place:
    return Place(place.store, place.path.rpartition("/")[0])


def _metadata_files_of_others(handle: TableHandle, folders: Iterable[Place]) -> set[Place]:
    """Return the metadata files of those other tables whose current metadata file is in one of the folders. Raises the errors of `read_metadata_at`."""
    places: set[Place] = set()
    for folder in folders:
        naming = f"/{'/'.join(folder.path.split('/')[-2:]).strip('/')}/"
        for table in other_tables(handle.store, handle.identifier, naming):
            if _names_file_in(table, folder):
                log = read_metadata_at(handle.io, table.metadata_location).metadata.metadata_log
                locations = [table.metadata_location, *(entry.metadata_file for entry in log)]
                places |= {place for place in map(place_of_file, locations) if place is not None}
    return places


def _names_file_in(table: TableLocation, folder: Place) -> bool:
    place = place_of_file(table.metadata_location)
    return place is not None and _folder_of(place) == folder
