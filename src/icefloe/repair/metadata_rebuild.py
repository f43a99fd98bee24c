"""`rebuild_document`: rebuilds a metadata file from the manifest lists and manifests of a metadata folder, based on an older metadata file if there is one.

Each manifest list names its snapshot, the snapshot's parent and its sequence number, so that the lists show the history. Manifests have the schema and the
partition spec. Everything that no file of the folder has is lost: properties, branches, tags, dropped columns, sort orders, times.
Spec: Table Metadata Fields; Manifest Lists; Manifests.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from icefloe.errors import FormatError, IcefloeError, NoSuchFileError, StorageUnavailableError, UnsupportedError
from icefloe.operations.table_handle import TableHandle
from icefloe.repair.metadata_commit import as_metadata
from icefloe.repair.metadata_search import MetadataSearch, lists_of_lost_commits
from icefloe.spec.manifest.manifest_reader import read_manifest_header
from icefloe.spec.manifest_list.manifest_file import ManifestContent, ManifestFile
from icefloe.spec.manifest_list.manifest_list_reader import read_manifest_list
from icefloe.spec.metadata.snapshot import Operation
from icefloe.spec.schema.schema_json import schema_from_json

# The most manifest lists of a folder that are read.
MOST_LISTS = 10_000
_NEVER_ASSIGNED = 999  # `last-partition-id` of a table that never had partition fields
_UNREADABLE = (FormatError, UnsupportedError, NoSuchFileError)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredList:
    """A manifest list in the metadata folder: its snapshot, as its header describes it, and its manifests. `time_ms` is the time of the snapshot."""

    path: str
    snapshot_id: int
    parent_id: int | None
    sequence_number: int
    format_version: int
    first_row_id: int | None
    time_ms: int
    manifests: tuple[ManifestFile, ...]


def rebuild_document(handle: TableHandle, location: str, search: MetadataSearch) -> tuple[dict[str, Any] | None, list[StoredList], str]:
    """Rebuild a lost metadata file.

    Args:
        handle: The table.
        location: The location of the lost file.
        search: The files of the metadata folder.

    Returns:
        The metadata as JSON; the manifest lists of those of its snapshots that no other metadata file has; and an empty text. If the file cannot be rebuilt:
        None, an empty list, and the reason.

    Raises:
        StorageUnavailableError: The storage does not respond.
    """
    base = None if search.newest is None else search.newest.document
    known = [] if search.newest is None else [snapshot.snapshot_id for snapshot in search.newest.metadata.snapshots]
    names = lists_of_lost_commits(search, known)
    if not search.folder or not names or len(names) > MOST_LISTS:
        return None, [], search.why or "the metadata folder has no manifest list of another snapshot"
    lists = [stored_list for stored_list in (_read_list(handle, search, name) for name in names) if stored_list is not None]
    chain, why = _chain(lists, None if search.newest is None else search.newest.metadata.current_snapshot_id, bool(known))
    if not chain:
        return None, [], why
    try:
        document = _first_document(handle, search, chain) if base is None else dict(base)
        for stored_list in chain:
            document = _with_snapshot(document, stored_list)
        _check_schemas(handle, document, chain)
        as_metadata(document, location)
    except StorageUnavailableError:
        raise
    except (IcefloeError, KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        return None, [], f"the manifests do not describe a whole table: {error}"
    return document, chain, ""


def _read_list(handle: TableHandle, search: MetadataSearch, name: str) -> StoredList | None:
    path = f"{search.folder}/{name}"
    try:
        content = handle.io.read(path)
        header = read_manifest_header(content, path)
        parent = header.get("parent-snapshot-id", "null")
        row_id = header.get("first-row-id", "null")
        return StoredList(
            path=path,
            snapshot_id=int(header["snapshot-id"]),
            parent_id=None if parent == "null" else int(parent),
            sequence_number=int(header.get("sequence-number", "0")),
            format_version=int(header.get("format-version", "1")),
            first_row_id=None if row_id == "null" else int(row_id),
            time_ms=search.names[name] or 0,
            manifests=tuple(read_manifest_list(content, path)),
        )
    except (*_UNREADABLE, KeyError, ValueError):
        return None


def _chain(lists: Sequence[StoredList], head: int | None, has_base: bool) -> tuple[list[StoredList], str]:
    """Return the manifest lists of one linear history from the oldest to the newest, and an empty text; or an empty list and the reason.

    Args:
        lists: The manifest lists to order.
        head: The current snapshot of the newest metadata file. Only the lists of its descendants are returned.
        has_base: Whether there is a metadata file; without one, the lists of a whole history are returned.
    """
    by_id = {listed.snapshot_id: listed for listed in lists}
    parents = {listed.parent_id for listed in lists}
    if has_base:
        newer = [listed for listed in lists if _descends(listed, head, by_id)]
        tips = [stored_list for stored_list in newer if stored_list.snapshot_id not in parents]
    else:
        tips = [stored_list for stored_list in by_id.values() if stored_list.snapshot_id not in parents]
    if len(tips) != 1:
        what = (
            "several manifest lists of the metadata folder have no successor"
            if tips
            else "no manifest list follows the newest known snapshot"
        )
        return [], what
    chain: list[StoredList] = []
    stored_list: StoredList | None = tips[0]
    while stored_list is not None and stored_list not in chain:
        chain.append(stored_list)
        stored_list = None if stored_list.parent_id is None else by_id.get(stored_list.parent_id)
    return chain[::-1], ""


def _descends(stored_list: StoredList, head: int | None, by_id: Mapping[int, StoredList]) -> bool:
    seen = set()
    current: StoredList | None = stored_list
    while current is not None and current.snapshot_id not in seen:
        if current.parent_id == head:
            return True
        seen.add(current.snapshot_id)
        current = None if current.parent_id is None else by_id.get(current.parent_id)
    return False


def _with_snapshot(document: Mapping[str, Any], stored_list: StoredList) -> dict[str, Any]:
    """Return the metadata with the snapshot of a manifest list added as the current snapshot."""
    changed = dict(document)
    time_ms = max(stored_list.time_ms, document.get("last-updated-ms", 0))
    snapshot: dict[str, Any] = {
        "snapshot-id": stored_list.snapshot_id,
        "timestamp-ms": time_ms,
        "summary": {"operation": _operation(stored_list).value},
        "manifest-list": stored_list.path,
        "schema-id": document["current-schema-id"],
    }
    if stored_list.parent_id is not None:
        snapshot["parent-snapshot-id"] = stored_list.parent_id
    if stored_list.format_version > 1:
        snapshot["sequence-number"] = stored_list.sequence_number
        changed["last-sequence-number"] = max(stored_list.sequence_number, document.get("last-sequence-number", 0))
    if document["format-version"] > 2 and stored_list.first_row_id is not None:
        end = max([stored_list.first_row_id, *(_end_of_row_ids(manifest) for manifest in stored_list.manifests)])
        snapshot |= {"first-row-id": stored_list.first_row_id, "added-rows": end - stored_list.first_row_id}
        changed["next-row-id"] = max(end, document.get("next-row-id", 0))
    changed["snapshots"] = [*document.get("snapshots", ()), snapshot]
    changed["snapshot-log"] = [*document.get("snapshot-log", ()), {"timestamp-ms": time_ms, "snapshot-id": stored_list.snapshot_id}]
    changed["current-snapshot-id"] = stored_list.snapshot_id
    refs = document.get("refs") or {}
    changed["refs"] = {**refs, "main": {**refs.get("main", {}), "snapshot-id": stored_list.snapshot_id, "type": "branch"}}
    changed["last-updated-ms"] = time_ms
    return changed


def _end_of_row_ids(manifest: ManifestFile) -> int:
    return 0 if manifest.first_row_id is None else manifest.first_row_id + manifest.live_rows_count


def _operation(stored_list: StoredList) -> Operation:
    """Derive the operation of a snapshot from the manifests that it created. A rewrite of files counts as an overwrite, of which readers assume less."""
    created = [manifest for manifest in stored_list.manifests if manifest.added_snapshot_id == stored_list.snapshot_id]
    adds = any(manifest.has_added_files and manifest.content is ManifestContent.DATA for manifest in created)
    removes = any(manifest.has_deleted_files or manifest.content is ManifestContent.DELETES for manifest in created)
    if removes:
        return Operation.OVERWRITE if adds else Operation.DELETE
    return Operation.APPEND if adds else Operation.OVERWRITE


def _headers(handle: TableHandle, chain: Sequence[StoredList]) -> list[Mapping[str, str]]:
    """Return the properties of the manifests of several manifest lists, those of the newest list last. Manifests that cannot be read are skipped."""
    paths = dict.fromkeys(manifest.manifest_path for stored_list in chain for manifest in reversed(stored_list.manifests))
    headers: list[Mapping[str, str]] = []
    for path in paths:
        try:
            headers.append(read_manifest_header(handle.io.read(path), path))
        except _UNREADABLE:
            continue
    return headers


def _check_schemas(handle: TableHandle, document: dict[str, Any], chain: Sequence[StoredList]) -> None:
    """Add the schemas and partition specs of manifests that the metadata does not have. The last added ones become the current schema and the default spec."""
    schemas = {schema["schema-id"]: schema for schema in document["schemas"]}
    specs = {spec["spec-id"]: spec for spec in document["partition-specs"]}
    for header in _headers(handle, chain):
        schema = json.loads(header["schema"])
        schema_id = int(header.get("schema-id", schema.get("schema-id", 0)))
        if schema_id not in schemas:
            schemas[schema_id] = {**schema, "schema-id": schema_id}
            document["current-schema-id"] = schema_id
        spec_id = int(header.get("partition-spec-id", "0"))
        if spec_id not in specs:
            specs[spec_id] = {"spec-id": spec_id, "fields": json.loads(header["partition-spec"])}
            document["default-spec-id"] = spec_id
    document["schemas"] = list(schemas.values())
    document["partition-specs"] = list(specs.values())
    highest = max(schema_from_json(schema).highest_field_id for schema in schemas.values())
    document["last-column-id"] = max(highest, document["last-column-id"])
    fields = [field.get("field-id", 0) for spec in specs.values() for field in spec["fields"]]
    document["last-partition-id"] = max([document["last-partition-id"], *fields])
    if document["format-version"] == 1:
        document["schema"] = schemas[document["current-schema-id"]]
        document["partition-spec"] = specs[document["default-spec-id"]]["fields"]


def _first_document(handle: TableHandle, search: MetadataSearch, chain: Sequence[StoredList]) -> dict[str, Any]:
    """Return metadata without snapshots, from the manifests of the newest list and the location of their folder. The uuid is new: that of the table is lost."""
    headers = _headers(handle, chain)
    newest = headers[-1]
    schema = json.loads(newest["schema"])
    schema_id = int(newest.get("schema-id", schema.get("schema-id", 0)))
    spec_id = int(newest.get("partition-spec-id", "0"))
    version = max(stored_list.format_version for stored_list in chain)
    document: dict[str, Any] = {
        "format-version": version,
        "table-uuid": handle.ids.uuid(),
        "location": search.folder.removesuffix("/metadata"),
        "last-updated-ms": 0,
        "last-column-id": 0,
        "current-schema-id": schema_id,
        "schemas": [{**schema, "schema-id": schema_id}],
        "default-spec-id": spec_id,
        "partition-specs": [{"spec-id": spec_id, "fields": json.loads(newest["partition-spec"])}],
        "last-partition-id": _NEVER_ASSIGNED,
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": {},
        "snapshots": [],
        "snapshot-log": [],
        "metadata-log": [],
    }
    if version > 1:
        document["last-sequence-number"] = 0
    if version > 2:
        document["next-row-id"] = 0
    return document
