"""Which of the metadata files that leave a table's log are the table's own, and so may be deleted after a commit.

The log is hostile: its entries may name any file. The check runs after each commit of a table with `write.metadata.delete-after-commit.enabled`, so it
reads nothing but the catalog's names unless another table has its metadata in the same folder. Spec: Table Metadata Fields (`metadata-log`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from icefloe.catalog_store.catalog_store import TableLocation, other_tables
from icefloe.errors import FormatError, NotFoundError, StorageError, UnsupportedError
from icefloe.io.locations import LocationScope, Place, place_of_file, place_of_folder
from icefloe.kernel.metadata.naming import metadata_version
from icefloe.table.table_handle import TableHandle, read_metadata_at


@dataclass(frozen=True, slots=True, kw_only=True)
class OldMetadataFiles:
    """The files that may be deleted, the others, and the folders that contain the former."""

    own: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    folders: LocationScope = field(default_factory=LocationScope)


def own_metadata_files(handle: TableHandle, current: Iterable[str], dropped: Sequence[str]) -> OldMetadataFiles:
    """Divide the files of `dropped` into those that may be deleted and the others.

    A file may be deleted if it has the name of a metadata file, is in the folder of one of the `current` files, and is in the log of no other table there.
    """
    folders = {place for place in (place_of_folder(location.rpartition("/")[0]) for location in current if location) if place is not None}
    own: list[str] = []
    others: list[str] = []
    reached: set[Place] | None = None
    for location in dropped:
        place = place_of_file(location)
        if place is None or metadata_version(location) is None or _folder(place) not in folders:
            others.append(location)
            continue
        if reached is None:
            try:
                reached = _metadata_files_of_others(handle, folders)
            except (NotFoundError, FormatError, StorageError, UnsupportedError):
                return OldMetadataFiles(others=tuple(dropped))  # the files that those tables need are unknown
        (others if place in reached else own).append(location)
    return OldMetadataFiles(own=tuple(own), others=tuple(others), folders=LocationScope(tuple(folders)))


def _folder(place: Place) -> Place:
    return Place(place.store, place.path.rpartition("/")[0])


def _metadata_files_of_others(handle: TableHandle, folders: Iterable[Place]) -> set[Place]:
    """Return the metadata files of other tables that have theirs in these folders. Raises as `read_metadata_at`."""
    places: set[Place] = set()
    for folder in folders:
        naming = f"/{'/'.join(folder.path.split('/')[-2:]).strip('/')}/"
        for table in other_tables(handle.store, handle.identifier, naming):
            if _is_in(table, folder):
                log = read_metadata_at(handle.io, table.metadata_location).metadata.metadata_log
                locations = [table.metadata_location, *(entry.metadata_file for entry in log)]
                places |= {place for place in map(place_of_file, locations) if place is not None}
    return places


def _is_in(table: TableLocation, folder: Place) -> bool:
    place = place_of_file(table.metadata_location)
    return place is not None and _folder(place) == folder
