"""`commit_document`: replaces the metadata file that the catalog names by a repaired one, by one compare-and-swap.

The commit loop needs metadata that can be loaded, and changes it by updates. A repair changes the JSON itself, because damaged metadata may not be loadable, or
no update may correct it. The replaced file stays, and the new one names it, so that `undo` can return to it. Spec: Table Metadata; Metastore Tables.
"""

import json
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from icefloe.commit.attempt import NewFile
from icefloe.errors import (
    CommitConflictError,
    CommitInvalidatedError,
    IcefloeError,
    LocationNotAllowedError,
    Problem,
    StorageError,
    UnsupportedFeatureError,
)
from icefloe.operations.commit_loop import delete_quietly
from icefloe.operations.metadata_cache import load_metadata
from icefloe.operations.own_location import check_location_is_own, check_paths_for_writes
from icefloe.operations.table_handle import TableHandle, new_metadata_location
from icefloe.spec.metadata import table_properties
from icefloe.spec.metadata.json_file import deflate
from icefloe.spec.metadata.metadata_reader import read_table_metadata
from icefloe.spec.metadata.table_metadata import LISTS, TableMetadata
from icefloe.stores.replace_location import replace_location

# The table property that a repair sets to the location of the metadata file that it replaced.
REPLACED_KEY = "icefloe.repair.replaced-metadata"


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairedDocument:
    """A repaired metadata file that is not written yet.

    Attributes:
        document: The JSON of the file, without the fields that the commit sets.
        replaced: The location of the metadata file that the catalog names.
        predecessors: Earlier metadata files that the log does not have yet, each as its time in milliseconds and its location.
        files: Further new files that the metadata file names, which are written before it.
    """

    document: Mapping[str, Any]
    replaced: str
    predecessors: Sequence[tuple[int, str]] = ()
    files: Sequence[NewFile] = ()


def as_metadata(document: Mapping[str, Any], location: str) -> TableMetadata:
    """Convert JSON to metadata by the rules of the strict reader.

    Raises:
        MetadataFormatError: The JSON violates a rule of the format.
    """
    return decode_whole(read_table_metadata(json.dumps(document).encode(), location))


def decode_whole(metadata: TableMetadata) -> TableMetadata:
    """Decode every entry of the lists of metadata, which the reader leaves to first use, and return the metadata.

    Raises:
        MetadataFormatError: An entry violates a rule of the format.
    """
    for name in LISTS:
        deque(getattr(metadata, name), maxlen=0)
    return metadata


def commit_document(handle: TableHandle, repaired: RepairedDocument) -> str:
    """Write a repaired metadata file and swap the catalog's entry to it.

    Args:
        handle: The table.
        repaired: The new metadata file.

    Returns:
        The location of the new file.

    Raises:
        CommitInvalidatedError: The catalog names a different metadata file than the plan was made for. Nothing was changed.
        CommitConflictError: Another writer committed between the check of the catalog's entry and the swap. Nothing was changed.
        CommitUnknownError: The catalog's reply was lost.
        UnsupportedFeatureError: The catalog does not accept a metadata file.
        LocationNotAllowedError: The file claims a folder that is not the table's own.
        MetadataFormatError: The repaired file violates a rule of the strict reader.
    """
    check_unchanged(handle, repaired.replaced)
    if handle.store.writes_metadata:
        raise UnsupportedFeatureError(
            f"catalog {handle.store.name} writes metadata files itself, and takes none from a repair",
            table=handle.table_name,
            path=repaired.replaced,
            next_step="repair the table in the catalog that the server keeps its tables in, or register a repaired metadata file",
        )
    document = _with_commit(repaired, handle.clock.now_ms())
    metadata = as_metadata(document, repaired.replaced)
    _check_location(handle, metadata, repaired)
    check_paths_for_writes(handle, metadata)
    location = new_metadata_location(handle.ids, metadata, previous_location=repaired.replaced)
    handle.store.check(handle.identifier, location, metadata)
    text = json.dumps(document, ensure_ascii=False).encode()
    is_gzip = table_properties.METADATA_CODEC.read(metadata.properties) == "gzip"
    files = [*repaired.files, NewFile(location=location, content=deflate(text) if is_gzip else text)]
    try:
        for file in files:
            handle.io.write(file.location, file.content)
    except BaseException:
        delete_quietly(handle, [file.location for file in files])
        raise
    try:
        # After the start of the swap, files are deleted only if the table certainly does not refer to them: never after Ctrl-C or a lost reply.
        stored = replace_location(handle.store, handle.identifier, location, expected=repaired.replaced)
    except (CommitConflictError, StorageError):
        if _is_without(handle, location):
            delete_quietly(handle, [file.location for file in files])
        raise
    if stored != location:  # a folder catalog published a copy: two files of one version would confuse a search
        delete_quietly(handle, [location])
    return stored


def check_unchanged(handle: TableHandle, location: str) -> None:
    """Check that the catalog still names a metadata file.

    Raises:
        CommitInvalidatedError: The catalog names a different file.
        NoSuchTableError: The table was dropped.
    """
    current = handle.store.load(handle.identifier).metadata_location
    if current != location:
        raise CommitInvalidatedError(
            "another writer has changed the table since the repair was planned",
            table=handle.table_name,
            path=current,
            problems=(
                Problem(where="expected", what=f"the metadata file {location}"),
                Problem(where="found", what=f"the metadata file {current}"),
            ),
            next_step="a retry makes sense: nothing was changed; plan the repair again",
        )


def _is_without(handle: TableHandle, location: str) -> bool:
    """Return whether the table certainly does not refer to a metadata file, neither as its current file nor in its log."""
    try:
        loaded = load_metadata(handle)
    except IcefloeError:
        return False
    return loaded.location != location and all(entry.metadata_file != location for entry in loaded.metadata.metadata_log)


def _check_location(handle: TableHandle, metadata: TableMetadata, repaired: RepairedDocument) -> None:
    """Check that one of the metadata files that the repaired file replaces or succeeds confirms the location of the table.

    Raises:
        LocationNotAllowedError: No file confirms it.
    """
    *others, last = (repaired.replaced, *(location for _, location in repaired.predecessors))
    for location in others:
        try:
            check_location_is_own(handle, metadata, metadata, location)
        except LocationNotAllowedError:
            continue  # a lost file cannot confirm a location; the file before it may
        return
    check_location_is_own(handle, metadata, metadata, last)


def _with_commit(repaired: RepairedDocument, now_ms: int) -> dict[str, Any]:
    """Return the JSON with the fields that the commit sets: the time, the metadata log, and the property that names the replaced file."""
    document = dict(repaired.document)
    updated = document.get("last-updated-ms")
    last_ms = updated if isinstance(updated, int) else 0
    listed = document.get("metadata-log")
    log = list(listed) if isinstance(listed, list) else []
    logged_ms = max((entry["timestamp-ms"] for entry in log if isinstance(entry, dict)), default=0)
    for time_ms, location in (*repaired.predecessors, (last_ms, repaired.replaced)):
        logged_ms = max(logged_ms, time_ms)
        log.append({"timestamp-ms": logged_ms, "metadata-file": location})
    properties = document.get("properties")
    document["properties"] = {**(properties if isinstance(properties, dict) else {}), REPLACED_KEY: repaired.replaced}
    most = max(1, table_properties.METADATA_PREVIOUS_VERSIONS_MAX.read(document["properties"]))
    document["metadata-log"] = log[-most:]
    document["last-updated-ms"] = max(now_ms, last_ms, logged_ms)
    return document
