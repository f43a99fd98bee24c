"""`MetadataSearch`: the search for a metadata file with which a table can continue after its current metadata file was lost.

It searches the folder of the lost file and the folder of the table's name. A folder may have files of failed commits, of other tables, and of a dropped table
of the same name. A file counts only if it is complete, claims the folder that it is in, and all files of the folder are of one table.
Spec: Table Metadata; Metastore Tables.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from icefloe.errors import (
    FormatError,
    IcefloeError,
    InvalidInputError,
    NoSuchFileError,
    StoragePermissionError,
    StorageUnavailableError,
    UnsupportedError,
)
from icefloe.formatting import file_name
from icefloe.io.file_tree import HiddenNames, files_below
from icefloe.io.locations import join, place_of_folder
from icefloe.operations.own_location import own_location
from icefloe.operations.table_handle import TableHandle, metadata_folder
from icefloe.repair.metadata_commit import decode_whole
from icefloe.spec.metadata.json_file import inflate, parse_json
from icefloe.spec.metadata.metadata_reader import read_table_metadata
from icefloe.spec.metadata.naming import metadata_version
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.stores.catalog_store import other_tables

# The most metadata files of a folder that are read, newest first.
MOST_FILES = 200
_UNREADABLE = (FormatError, UnsupportedError, NoSuchFileError, StoragePermissionError, InvalidInputError)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundMetadata:
    """A complete metadata file: its location, version, decoded metadata and JSON."""

    location: str
    version: int
    metadata: TableMetadata
    document: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidate:
    """A complete metadata file of the folder: its location and version, the uuid of its table, and the files in its metadata log."""

    location: str
    version: int
    table_uuid: str | None
    logged: frozenset[str]


@dataclass(slots=True)
class MetadataSearch:
    """The result of the search for a metadata file with which a table can continue after its own was lost.

    Attributes:
        folder: The metadata folder that was searched; empty if there is none.
        names: The names of all files in the folder, each with the time of its last change in milliseconds; None if the time is unknown.
        newest: The file with which the table can continue; None if there is none, or if several could be it.
        why: The reason if `newest` is None.
    """

    folder: str = ""
    names: dict[str, int | None] = field(default_factory=dict)
    newest: FoundMetadata | None = None
    why: str = ""


def search_metadata(handle: TableHandle, location: str) -> MetadataSearch:
    """Search for the newest metadata file that is older than a lost one.

    Args:
        handle: The table.
        location: The lost file, which the catalog names.

    Raises:
        StorageUnavailableError: The storage does not respond.
    """
    search = MetadataSearch()
    for folder in _folders(handle, location):
        search.names = _list_names(handle, folder)
        if search.names:
            search.folder = folder
            break
    else:
        search.why = "no folder with its metadata files is known, or can be listed"
        return search
    owner = _other_owner(handle, search.folder)
    if owner is not None:
        search.why = f"its metadata folder is also that of the table {owner}"
        return search
    _choose(handle, location, search)
    return search


def _folders(handle: TableHandle, location: str) -> Iterator[str]:
    folder = location.rpartition("/")[0]
    if folder:
        yield folder
    if handle.policy.warehouse:
        yield join(handle.policy.warehouse, *handle.identifier, "metadata")


def _list_names(handle: TableHandle, folder: str) -> dict[str, int | None]:
    names: dict[str, int | None] = {}
    try:
        for files in files_below(handle.io, folder, HiddenNames()):
            if files.folder == folder.rstrip("/"):
                times = files.modified_ms or [None] * len(files.names)
                names.update(zip(files.names, times, strict=True))
    except StorageUnavailableError:
        raise
    except IcefloeError:
        return {}
    return names


def _other_owner(handle: TableHandle, folder: str) -> str | None:
    """Return the name of a different table of the catalog whose metadata file is in the folder; None if there is none."""
    place = place_of_folder(folder)
    for table in other_tables(handle.store, handle.identifier, folder.rpartition("/")[2]):
        if place_of_folder(table.metadata_location.rpartition("/")[0]) == place:
            return ".".join(table.identifier)
    return None


def _choose(handle: TableHandle, location: str, search: MetadataSearch) -> None:
    lost_version = metadata_version(location)
    named = [(metadata_version(name), name) for name in search.names]
    versions = sorted(((version, name) for version, name in named if version is not None), reverse=True)
    readable = [
        candidate for candidate in (_candidate(handle, search.folder, *pair) for pair in versions[:MOST_FILES]) if candidate is not None
    ]
    readable = [candidate for candidate in readable if candidate.location != location]
    previous = handle.store.load(handle.identifier).previous_metadata_location
    before = next((candidate for candidate in readable if candidate.location == previous), None)
    if before is not None:
        search.newest = _read(handle, search.folder, before.version, file_name(before.location))
        return
    if len({candidate.table_uuid for candidate in readable}) > 1:
        search.why = "its metadata folder has files of several tables"
        return
    # A file with the version of the lost file or a later one is probably of a failed commit, because the catalog does not name it.
    earlier = [candidate for candidate in readable if lost_version is None or candidate.version < lost_version]
    newest = [candidate for candidate in earlier if candidate.version == earlier[0].version]
    if len(newest) > 1:
        logged = frozenset[str]().union(*(candidate.logged for candidate in readable))
        newest = [candidate for candidate in newest if candidate.location in logged]
    if len(newest) == 1:
        search.newest = _read(handle, search.folder, newest[0].version, file_name(newest[0].location))
    else:
        search.why = (
            "its metadata folder has several files of the newest version"
            if newest
            else "its metadata folder has no other readable metadata file"
        )


def _candidate(handle: TableHandle, folder: str, version: int, name: str) -> _Candidate | None:
    """Return the few values of a metadata file that the choice needs, because a folder can have many large files; None if it is not usable."""
    document = _read(handle, folder, version, name)
    if document is None:
        return None
    logged = frozenset(entry.metadata_file for entry in document.metadata.metadata_log)
    return _Candidate(location=document.location, version=version, table_uuid=document.metadata.table_uuid, logged=logged)


def _read(handle: TableHandle, folder: str, version: int, name: str) -> FoundMetadata | None:
    """Return a metadata file of the folder; None if it is damaged, or claims a different folder."""
    path = f"{folder}/{name}"
    try:
        content = handle.io.read(path)
        metadata = decode_whole(read_table_metadata(content, path))
        document = parse_json(inflate(content, path), path)
    except _UNREADABLE:
        return None
    own = own_location(handle, metadata.location, path)
    is_here = place_of_folder(metadata_folder(metadata)) == place_of_folder(folder)
    return FoundMetadata(location=path, version=version, metadata=metadata, document=document) if own is not None and is_here else None


def lists_of_lost_commits(search: MetadataSearch, known: Sequence[int]) -> list[str]:
    """Return the names of the manifest lists in the folder whose snapshot is not among the known ones."""
    ids = set(known)
    return sorted(name for name in search.names if name.startswith("snap-") and name.endswith(".avro") and _snapshot_id(name) not in ids)


def _snapshot_id(name: str) -> int | None:
    text = name.split("-")[1]
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else None
