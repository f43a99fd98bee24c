"""`DeletionScope`: the folders in which files may be deleted because a table's metadata names them. Every deletion of this kind asks here.

Metadata is hostile: its `location`, its configured paths and every path in it may name `/etc`, a bucket, or another table's files. So a folder counts only
where something that is not the metadata vouches for it (`icefloe.table.own_location`). Files that another table of the catalog reaches are never in the scope.
The rule of paths is `icefloe.io.location_scope`. Floor: table. Spec: File Locations in Metadata.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icefloe.errors import FormatError, InvalidInputError, NotFoundError, StorageError, UnsupportedError
from icefloe.io.location_scope import LocationScope, Place, folders_of, place_of_file, place_of_folder
from icefloe.io.locations import is_relative, join, qualified
from icefloe.kernel.metadata.table_metadata import TableMetadata
from icefloe.pointer.pointer import KeepsFolders, TablePointer, other_tables
from icefloe.table.expiry.cleaning import named_in_metadata
from icefloe.table.expiry.unreachable_files import files_of_snapshots, live_keys
from icefloe.table.handle import TableHandle, read_metadata_at
from icefloe.table.own_location import holds_warehouse, is_vouched, own_location

# Properties that name folders of a table's files. The last three are Java's, and decide where it writes.
PATHS = ("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionScope:
    """Where files of one table may be deleted; `reached` are places of files there that other tables of the catalog reach."""

    table_name: str
    folders: LocationScope
    reached: frozenset[Place] = frozenset()

    def contains(self, location: str) -> bool:
        """Return True where the file may be deleted; ask right before it is."""
        place = place_of_file(location)
        return place is not None and self.folders.holds(place) and place not in self.reached

    def divide(self, files: Any) -> tuple[Any, Any]:
        """Return the files that may be deleted, and the others, of a table with a column `path`."""
        inside = pa.array([self.contains(path) for path in files["path"].to_pylist()], pa.bool_())
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
        if (own is not None and place.is_below(own)) or is_vouched(handle, place):
            counted.append(place)
    if isinstance(handle.store, KeepsFolders) and not vouched and len(counted) == 1:  # there no other table can be in the folder
        return DeletionScope(table_name=handle.table_name, folders=LocationScope(tuple(counted)))
    return _less_other_tables(handle, counted, vouched)


def _configured_paths(metadata: TableMetadata) -> list[str]:
    paths = [metadata.properties[name] for name in PATHS if metadata.properties.get(name)]
    return [join(metadata.location, path) if is_relative(path) else path for path in paths]


def _less_other_tables(handle: TableHandle, counted: Sequence[Place], vouched: tuple[Place, ...]) -> DeletionScope:
    """The scope without the folders of other tables in it, and without the files that tables reach whose folder is the same, or one above."""
    without: list[Place] = []
    shared: dict[str, TablePointer] = {}
    for pointer in other_tables(handle.store, handle.identifier) if counted or vouched else ():
        for folder in _folders_of_table(handle, pointer):
            for place in (*counted, *vouched):
                if folder.is_below(place):
                    without.append(folder)
                elif folder.overlaps(place):
                    shared[pointer.metadata_location] = pointer
    reached: set[Place] = set()
    for pointer in shared.values():
        found = _reached_by(handle, pointer)
        if found is None:
            # What it needs is not known, so nothing in the folders that it shares is deleted.
            taken = _folders_of_table(handle, pointer)
            counted = [place for place in counted if not any(place.overlaps(folder) for folder in taken)]
        else:
            reached |= found
    return DeletionScope(
        table_name=handle.table_name,
        folders=LocationScope((*counted, *vouched), tuple(dict.fromkeys(without))),
        reached=frozenset(reached),
    )


def _folders_of_table(handle: TableHandle, pointer: TablePointer) -> list[Place]:
    """Where another table is, as far as the catalog knows without reading its metadata: around its metadata file, and where its name would put it.

    A folder that holds the warehouse is no table's own: else one misplaced metadata file would keep every table from deleting anything.
    """
    folder, _, name = pointer.metadata_location.rpartition("/")[0].rpartition("/")
    warehouse = handle.policy.warehouse
    found = folders_of([*([folder] if name == "metadata" else []), *([join(warehouse, *pointer.identifier)] if warehouse else [])])
    return [place for place in found if not place.is_root and not holds_warehouse(handle.policy, place)]


def _reached_by(handle: TableHandle, pointer: TablePointer) -> set[Place] | None:
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
    return {place for place in map(place_of_file, named) if place is not None}


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
