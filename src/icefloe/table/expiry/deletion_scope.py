"""`DeletionScope`: the folders in which files may be deleted because a table's metadata names them. Every deletion of this kind asks here.

Metadata is hostile: its `location`, its configured paths and every path in it may name `/etc`, a bucket, or another table's files. So a folder counts only
where something that is not the metadata vouches for it (`icefloe.table.own_location`). Files that another table of the catalog reaches are never in the scope.
The rule of paths is `icefloe.io.location_scope`. Spec: File Locations in Metadata.
"""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icefloe.catalog_store.catalog_store import KeepsFolders, TableLocation, other_tables
from icefloe.catalog_store.identifier import Identifier
from icefloe.errors import FormatError, InvalidInputError, NotFoundError, StorageError, UnsupportedError
from icefloe.io.location_policy import LocationPolicy
from icefloe.io.location_scope import LocationScope, Place, folders_of, place_of_file, place_of_folder
from icefloe.io.locations import is_relative, join, qualified
from icefloe.kernel.metadata.table_metadata import TableMetadata
from icefloe.table.expiry.file_cleanup import named_in_metadata
from icefloe.table.own_location import holds_warehouse, is_configured, own_location
from icefloe.table.table_handle import TableHandle, read_metadata_at
from icefloe.table.unreachable_files import files_of_snapshots, live_keys

# Properties that name folders of a table's files. The last three are Java's, and decide where it writes.
PATHS = ("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionScope:
    """Where files of one table may be deleted; `reached` are places of files there that other tables of the catalog reach."""

    table_name: str
    folders: LocationScope
    reached: frozenset[Place] = frozenset()

    def contains(self, location: str, real: Callable[[str], str] = os.path.realpath) -> bool:
        """Return True where the file may be deleted; ask right before it is. `real` resolves a folder."""
        place = place_of_file(location, real)
        return place is not None and self.folders.holds(place) and place.in_any_spelling not in self.reached

    def divide(self, files: Any) -> tuple[Any, Any]:
        """Return the files that may be deleted, and the others, of a table with a column `path`."""
        real = cache(os.path.realpath)
        inside = pa.array([self.contains(path, real) for path in files["path"].to_pylist()], pa.bool_())
        return files.filter(inside), files.filter(pc.invert(inside))


def deletion_scope(
    handle: TableHandle, metadata: TableMetadata, metadata_location: str, allow_outside: Iterable[str] = ()
) -> DeletionScope:
    """Return where files may be deleted that `metadata` leads to; the catalog names it by `metadata_location`.

    `allow_outside` are folders that the caller vouches for, besides those of the catalog property `io.delete-outside`.

    Raises:
        StorageError: the catalog's other tables cannot be listed.
    """
    vouched = folders_of([*handle.policy.delete_outside, *allow_outside])
    own = own_location(handle, metadata.location, metadata_location)
    counted = [] if own is None else [own]
    for place in folders_of(_configured_paths(metadata)):
        if place.is_root or holds_warehouse(handle.policy, place):
            continue
        if (own is not None and place.is_below(own)) or is_configured(handle.policy, place):
            counted.append(place)
    if not counted and not vouched:
        return DeletionScope(table_name=handle.table_name, folders=LocationScope())
    if isinstance(handle.store, KeepsFolders) and not vouched and len(counted) == 1:  # there no other table can be in the folder
        return DeletionScope(table_name=handle.table_name, folders=LocationScope(tuple(counted)))
    return _less_other_tables(handle, counted, vouched)


def _configured_paths(metadata: TableMetadata) -> list[str]:
    paths = [metadata.properties[name] for name in PATHS if metadata.properties.get(name)]
    return [join(metadata.location, path) if is_relative(path) else path for path in paths]


def _less_other_tables(handle: TableHandle, counted: list[Place], vouched: tuple[Place, ...]) -> DeletionScope:
    """The scope without the folders of other tables in it, and without the files that tables reach whose folder is the same, or one above.

    A folder with other tables in it is a table's own where its name puts it there: namespaces are nested so.
    """
    others = [(pointer, _folders_of_table(handle.policy, pointer)) for pointer in other_tables(handle.store, handle.identifier)]
    own = _folder_of_name(handle.policy, handle.identifier)
    counted = [place for place in counted if place in own or not any(_is_in(folder, place) for _, folders in others for folder in folders)]
    without: list[Place] = []
    reached: set[Place] = set()
    for pointer, folders in others:
        without += [folder for folder in folders if any(_is_in(folder, place) for place in (*counted, *vouched))]
        if not any(folder.overlaps(place) and not _is_in(folder, place) for folder in folders for place in (*counted, *vouched)):
            continue
        found = _reached_by(handle, pointer)
        if found is None:  # what it needs is not known, so nothing in the folders that it shares is deleted
            counted = [place for place in counted if not any(place.overlaps(folder) for folder in folders)]
        reached |= found or set()
    return DeletionScope(
        table_name=handle.table_name,
        folders=LocationScope((*counted, *vouched), tuple(dict.fromkeys(without))),
        reached=frozenset(reached),
    )


def _is_in(folder: Place, place: Place) -> bool:
    return folder.in_any_spelling.is_below(place.in_any_spelling)


def _folders_of_table(policy: LocationPolicy, pointer: TableLocation) -> list[Place]:
    """Where another table is, as far as the catalog knows without reading its metadata: around its metadata file, and where its name would put it.

    A folder that holds the warehouse is no table's own: else one misplaced metadata file would keep every table from deleting anything.
    """
    folder, _, name = pointer.metadata_location.rpartition("/")[0].rpartition("/")
    around = [place for place in folders_of([folder] if name == "metadata" else []) if not place.is_root]
    return [*(place for place in around if not holds_warehouse(policy, place)), *_folder_of_name(policy, pointer.identifier)]


def _folder_of_name(policy: LocationPolicy, identifier: Identifier) -> tuple[Place, ...]:
    return folders_of([join(policy.warehouse, *identifier)]) if policy.warehouse else ()


def _reached_by(handle: TableHandle, pointer: TableLocation) -> set[Place] | None:
    """The files that any snapshot of another table reaches, and its metadata files; None where not all of them can be read."""
    try:
        metadata = read_metadata_at(handle.io, pointer.metadata_location).metadata
        files = files_of_snapshots(list(metadata.snapshots), handle.io.read, must=True)
        named = [pointer.metadata_location, *named_in_metadata(metadata).to_pylist()]
        named += [*files.manifests["manifest_path"].to_pylist(), *files.lists["path"].to_pylist()]
        for keys in live_keys(files.manifests, handle.io.read):
            named += keys.to_pylist()
    except (NotFoundError, FormatError, StorageError, UnsupportedError):
        return None
    real = cache(os.path.realpath)
    return {place.in_any_spelling for place in (place_of_file(path, real) for path in named) if place is not None}


def folder_names(folders: Any, argument: str) -> tuple[str, ...]:
    """Return the folders that a caller allows. Raises `InvalidInputError` for what is no list of texts, or names no folder."""
    if isinstance(folders, str):
        raise InvalidInputError(f"{argument} is the text {folders!r}", next_step=f"pass a list of folders: {argument}=[{folders!r}]")
    names = tuple(folders)
    wrong = [name for name in names if not isinstance(name, str) or place_of_folder(name) is None]
    if wrong:
        raise InvalidInputError(
            f"{argument} names {wrong[0]!r}, which is no folder",
            next_step="give full locations such as /data/x or s3://bucket/x, without . or ..",
        )
    return tuple(map(qualified, names))
