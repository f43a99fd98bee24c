"""`commit_document`: a repaired metadata file in the place of the one that the catalog names, by one compare-and-swap.

The commit loop needs metadata that can be loaded, and changes it by updates; here the JSON itself is changed, because what is repaired may be neither.
The file that is replaced stays, and the new one names it, so that `undo` can go back. Spec: Table Metadata; Metastore Tables.
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

# The property of a repaired metadata file with the location of the file that it replaced.
REPLACED_KEY = "icefloe.repair.replaced-metadata"


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairedDocument:
    """A repaired metadata file that is not written yet.

    Attributes:
        document: Its JSON, without the entries of the commit.
        replaced: The file that the catalog names.
        predecessors: Earlier files that the log does not name yet, each with its time in milliseconds.
        files: Further files that it names, to be written before it.
    """

    document: Mapping[str, Any]
    replaced: str
    predecessors: Sequence[tuple[int, str]] = ()
    files: Sequence[NewFile] = ()


def as_metadata(document: Mapping[str, Any], location: str) -> TableMetadata:
    """Return JSON as metadata, by the rules of the strict reader. Raises `MetadataFormatError`."""
    return decode_whole(read_table_metadata(json.dumps(document).encode(), location))


def decode_whole(metadata: TableMetadata) -> TableMetadata:
    """Return metadata after each entry of its lists was decoded, which the reader leaves to first use. Raises `MetadataFormatError`."""
    for name in LISTS:
        deque(getattr(metadata, name), maxlen=0)
    return metadata


def commit_document(handle: TableHandle, repaired: RepairedDocument) -> str:
    """Write a repaired metadata file and swap the catalog's entry to it.

    Args:
        handle: The table.
        repaired: The file.

    Returns:
        The location of the new file.

    Raises:
        CommitInvalidatedError: The catalog names another file than the one that was planned for. Nothing was changed.
        CommitConflictError: As above, and the other writer was faster by an instant.
        CommitUnknownError: The catalog's reply was lost.
        UnsupportedFeatureError: The catalog takes no metadata file.
        LocationNotAllowedError: The file claims a folder that is not the table's own.
        MetadataFormatError: The repaired file breaks a rule of the strict reader.
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
        # Once the swap is begun, files are deleted only if the table is known not to have them: never after Ctrl-C or a lost reply.
        stored = replace_location(handle.store, handle.identifier, location, expected=repaired.replaced)
    except (CommitConflictError, StorageError):
        if _is_without(handle, location):
            delete_quietly(handle, [file.location for file in files])
        raise
    if stored != location:  # a catalog of folders has published a copy, and two files of one version would make a later search uncertain
        delete_quietly(handle, [location])
    return stored


def check_unchanged(handle: TableHandle, location: str) -> None:
    """Check that the catalog still names a file. Raises `CommitInvalidatedError`, and `NoSuchTableError` for a dropped table."""
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
    """Return whether the table neither is at a metadata file nor has it in its log; False if that is not known."""
    try:
        loaded = load_metadata(handle)
    except IcefloeError:
        return False
    return loaded.location != location and all(entry.metadata_file != location for entry in loaded.metadata.metadata_log)


def _check_location(handle: TableHandle, metadata: TableMetadata, repaired: RepairedDocument) -> None:
    """Check that a file of the table vouches for its location. Raises `LocationNotAllowedError`."""
    *others, last = (repaired.replaced, *(location for _, location in repaired.predecessors))
    for location in others:
        try:
            check_location_is_own(handle, metadata, metadata, location)
        except LocationNotAllowedError:
            continue  # a lost file vouches for nothing; the one before it may
        return
    check_location_is_own(handle, metadata, metadata, last)


def _with_commit(repaired: RepairedDocument, now_ms: int) -> dict[str, Any]:
    """Return the JSON with the time of the commit, the replaced file as property, and the log."""
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
