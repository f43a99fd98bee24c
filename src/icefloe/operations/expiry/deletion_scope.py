"""`DeletionScope`: the folders in which files of a table may be deleted. Every deletion of a file that metadata refers to is checked here.

Metadata is not trusted: its `location`, its configured paths and every path in it may name `/etc`, a whole bucket, or files of another table. So a folder is in
the scope only if something other than the metadata proves that it is the table's (`icefloe.operations.own_location`). Files that another table of the catalog
uses are never in the scope. `icefloe.io.locations` compares paths. Spec: File Locations in Metadata.
"""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icefloe.errors import FormatError, InvalidInputError, NotFoundError, StorageError, UnsupportedError
from icefloe.io.locations import (
    LocationPolicy,
    LocationScope,
    Place,
    folders_of,
    is_relative,
    join,
    place_of_file,
    place_of_folder,
    qualify,
)
from icefloe.operations.expiry.file_cleanup import named_in_metadata
from icefloe.operations.metadata_cache import metadata_of
from icefloe.operations.own_location import folder_of_name, holds_warehouse, is_configured, own_location
from icefloe.operations.table_handle import TableHandle
from icefloe.operations.unreachable_files import files_of_snapshots, live_keys
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.stores.catalog_store import KeepsFolders, TableLocation, other_tables

# Table properties with folders of the table's files. The last three are properties of Java, which determine where Java writes.
PATHS = ("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionScope:
    """The folders in which files of one table may be deleted.

    Attributes:
        table_name: The table.
        folders: The folders.
        reached: The files in these folders that other tables of the catalog use, so that they must not be deleted.
        unproven: The table's location, if only the response of the catalog's server shows that it belongs to the table; otherwise empty.
    """

    table_name: str
    folders: LocationScope
    reached: frozenset[Place] = frozenset()
    unproven: str = ""

    def contains(self, location: str, real: Callable[[str], str] = os.path.realpath) -> bool:
        """Return whether the file at a location may be deleted. Call it right before the deletion. `real` resolves the symbolic links in a path."""
        place = place_of_file(location, real)
        return place is not None and self.folders.holds(place) and place.in_any_spelling not in self.reached

    def divide(self, files: Any) -> tuple[Any, Any]:
        """Divide a `pyarrow.Table` of files, with a column `path`, into two: the files that may be deleted, and the files that may not."""
        real = cache(os.path.realpath)
        inside = pa.array([self.contains(path, real) for path in files["path"].to_pylist()], pa.bool_())
        return files.filter(inside), files.filter(pc.invert(inside))


def deletion_scope(
    handle: TableHandle, metadata: TableMetadata, metadata_location: str, allow_outside: Iterable[str] = ()
) -> DeletionScope:
    """Return the scope for deleting files to which a table's metadata refers.

    Args:
        handle: the table.
        metadata: its metadata.
        metadata_location: the location of the current metadata file in the catalog.
        allow_outside: further folders in which the caller allows deletions, besides those of the catalog property `io.delete-outside`.

    Raises:
        StorageError: the catalog's other tables cannot be listed.
    """
    vouched = folders_of([*handle.policy.delete_outside, *allow_outside])
    own = own_location(handle, metadata.location, metadata_location)
    unproven = metadata.location if own is None and handle.store.writes_metadata else ""
    own_folders = [] if own is None else [own]
    for place in folders_of(_configured_paths(metadata)):
        if place.is_root or holds_warehouse(handle.policy, place):
            continue
        if (own is not None and place.is_below(own)) or is_configured(handle.policy, place):
            own_folders.append(place)
    if not own_folders and not vouched:
        return DeletionScope(table_name=handle.table_name, folders=LocationScope(), unproven=unproven)
    if (
        isinstance(handle.store, KeepsFolders) and not vouched and len(own_folders) == 1
    ):  # in such a store the folder cannot contain another table
        return DeletionScope(table_name=handle.table_name, folders=LocationScope(tuple(own_folders)))
    return replace(_without_other_tables(handle, own_folders, vouched), unproven=unproven)


def _configured_paths(metadata: TableMetadata) -> list[str]:
    paths = [metadata.properties[name] for name in PATHS if metadata.properties.get(name)]
    return [join(metadata.location, path) if is_relative(path) else path for path in paths]


def _without_other_tables(handle: TableHandle, own_folders: list[Place], vouched: tuple[Place, ...]) -> DeletionScope:
    """Return the scope of these folders, without the folders of other tables in them, and without the files in them that other tables use.

    Folders in `own_folders` that contain other tables are left out, except the folder of the table's name, because nested namespaces have such folders.
    """
    others = [(table, folders_of_table(handle.policy, table)) for table in other_tables(handle.store, handle.identifier)]
    named = folder_of_name(handle.policy, handle.identifier)
    own_folders = [
        place for place in own_folders if place in named or not any(_is_in(folder, place) for _, folders in others for folder in folders)
    ]
    without: list[Place] = []
    reached: set[Place] = set()
    for table, folders in others:
        without += [folder for folder in folders if any(_is_in(folder, place) for place in (*own_folders, *vouched))]
        if not any(folder.overlaps(place) and not _is_in(folder, place) for folder in folders for place in (*own_folders, *vouched)):
            continue
        files = _reached_by(handle, table)
        if files is None:  # the files that the other table needs are unknown, so nothing is deleted in folders that both tables use
            own_folders = [place for place in own_folders if not any(place.overlaps(folder) for folder in folders)]
        reached |= files or set()
    return DeletionScope(
        table_name=handle.table_name,
        folders=LocationScope((*own_folders, *vouched), tuple(dict.fromkeys(without))),
        reached=frozenset(reached),
    )


def _is_in(folder: Place, place: Place) -> bool:
    return folder.in_any_spelling.is_below(place.in_any_spelling)


def folders_of_table(policy: LocationPolicy, table: TableLocation) -> list[Place]:
    """Return the folders of another table that are known without reading its metadata: the folder of its metadata file, and the folder of its name.

    A folder that contains the warehouse is left out: otherwise one misplaced metadata file would prevent all deletions of all tables.
    """
    folder, _, name = table.metadata_location.rpartition("/")[0].rpartition("/")
    claimed = [folder] if name == "metadata" else []
    if table.folder:
        claimed.append(table.folder)
    if table.metadata is not None:  # a server sends the metadata with the table, and need not report the location of its file
        claimed.append(table.metadata.location)
    around = [place for place in dict.fromkeys(folders_of(claimed)) if not place.is_root]
    return [*(place for place in around if not holds_warehouse(policy, place)), *folder_of_name(policy, table.identifier)]


def _reached_by(handle: TableHandle, table: TableLocation) -> set[Place] | None:
    """Return the locations of all files that another table uses: those of its snapshots and of its metadata; None if not all of its metadata can be read."""
    try:
        metadata = metadata_of(handle.io, table).metadata
        files = files_of_snapshots(list(metadata.snapshots), handle.io.read, must=True)
        paths = [*([table.metadata_location] if table.metadata_location else []), *named_in_metadata(metadata).to_pylist()]
        paths += [*files.manifests["manifest_path"].to_pylist(), *files.lists["path"].to_pylist()]
        for keys in live_keys(files.manifests, handle.io.read):
            paths += keys.to_pylist()
    except (NotFoundError, FormatError, StorageError, UnsupportedError, InvalidInputError):
        return None
    real = cache(os.path.realpath)
    return {place.in_any_spelling for place in (place_of_file(path, real) for path in paths) if place is not None}


def folder_names(folders: Any, argument: str) -> tuple[str, ...]:
    """Check an argument that must be a list of folders, and return the folders. Raises `InvalidInputError`, which contains the argument's name."""
    if isinstance(folders, str):
        raise InvalidInputError(f"{argument} is the text {folders!r}", next_step=f"pass a list of folders: {argument}=[{folders!r}]")
    names = tuple(folders)
    wrong = [name for name in names if not isinstance(name, str) or place_of_folder(name) is None]
    if wrong:
        raise InvalidInputError(
            f"{argument} names {wrong[0]!r}, which is no folder",
            next_step="give full locations such as /data/x or s3://bucket/x, without . or ..",
        )
    return tuple(map(qualify, names))
