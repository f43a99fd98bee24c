"""The responses that hold a table's metadata: their bytes and their ETags.

A metadata file never changes, so its response is put together once and kept, and a client that has it gets a 304 after one query for the metadata location.
Spec: REST catalog, LoadTableResult, CommitTableResponse, ETag.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

import msgspec

from icefloe.bounded_cache import BoundedCache
from icefloe.operations.metadata_cache import LoadedMetadata, has_no_file
from icefloe.server.request import Answer, Call
from icefloe.spec.metadata.metadata_writer import write_table_metadata
from icefloe.spec.metadata.table_metadata import TableMetadata

# Bytes of responses that a process keeps.
KEPT_BYTES = 64 * 1024 * 1024


class SnapshotMode(StrEnum):
    """The snapshots of a response: all, or those that branches and tags name."""

    ALL = "all"
    REFS = "refs"


def entity_tag(location: str, mode: SnapshotMode, version: object = "") -> str:
    """Return the ETag of a table's response. Spec: REST catalog, etag.

    Args:
        location: The metadata file.
        mode: The snapshots of the response.
        version: What distinguishes files of the same location, where a store gives a name twice.
    """
    digest = hashlib.sha256(f"{mode}\0{location}\0{version}".encode()).hexdigest()
    return f'"{digest[:32]}"'


def is_current(call: Call, tag: str) -> bool:
    """Return whether the client has the response of this ETag, by its header `If-None-Match`."""
    header = call.headers.get("if-none-match", "")
    return any(text.strip().removeprefix("W/") == tag for text in header.split(","))


@dataclass(frozen=True, slots=True)
class KeptTable:
    """The metadata of a table as JSON, and the folder of the table, by which access to its files is given."""

    folder: str
    content: bytes


class TableBodies(BoundedCache[str, KeptTable]):
    """The metadata of the tables whose responses were made last, by ETag. What else a response has depends on its request."""

    def __init__(self, max_bytes: int = KEPT_BYTES) -> None:
        super().__init__(most_cost=max_bytes, largest=max_bytes // 4)

    def metadata_json(self, tag: str, metadata: TableMetadata, mode: SnapshotMode) -> bytes:
        """Return the metadata as JSON, and keep it under its ETag."""
        table = self.get(tag)
        if table is None:
            table = KeptTable(metadata.location, write_table_metadata(with_snapshots(metadata, mode)))
            self.put(tag, table, len(table.content))
        return table.content


def with_snapshots(metadata: TableMetadata, mode: SnapshotMode) -> TableMetadata:
    """Return the metadata with the snapshots of a response. Spec: REST catalog, loadTable (`snapshots`)."""
    if mode is SnapshotMode.ALL:
        return metadata
    named = {ref.snapshot_id for ref in metadata.refs.values()}
    return replace(metadata, snapshots=metadata.snapshots.without(metadata.snapshots.ids() - named))


def table_answer(
    bodies: TableBodies,
    loaded: LoadedMetadata,
    *,
    mode: SnapshotMode = SnapshotMode.ALL,
    version: object = "",
    extra: Mapping[str, object] | None = None,
) -> Answer:
    """Return the response with a table's metadata.

    Args:
        bodies: The responses that are kept.
        loaded: The table; its location is empty where it is staged only. The response has no ETag, and is not kept, where no location names its version.
        mode: The snapshots of the response.
        version: As for `entity_tag`.
        extra: Further keys of the response, such as `config`.
    """
    if has_no_file(loaded.location):
        content = write_table_metadata(with_snapshots(loaded.metadata, mode))
        return Answer(body=_body(loaded.location or None, content, extra), has_credentials=_has_credentials(extra))
    tag = entity_tag(loaded.location, mode, version)
    body = _body(loaded.location, bodies.metadata_json(tag, loaded.metadata, mode), extra)
    return Answer(body=body, headers={"ETag": tag}, has_credentials=_has_credentials(extra))


def kept_table_answer(table: KeptTable, location: str, tag: str, extra: Mapping[str, object]) -> Answer:
    """Return the response with a table whose metadata is kept: its file is not read. Arguments as for `table_answer`."""
    return Answer(body=_body(location, table.content, extra), headers={"ETag": tag}, has_credentials=_has_credentials(extra))


def _has_credentials(extra: Mapping[str, object] | None) -> bool:
    return bool((extra or {}).get("storage-credentials"))


def _body(location: str | None, metadata: bytes, extra: Mapping[str, object] | None) -> bytes:
    """Return the JSON of a response, into which the metadata is put as it is."""
    parts = [b"{"]
    if location is not None:
        parts += [b'"metadata-location":', msgspec.json.encode(location), b","]
    parts += [b'"metadata":', metadata]
    for key, value in (extra or {}).items():
        parts += [b",", msgspec.json.encode(key), b":", msgspec.json.encode(value)]
    return b"".join([*parts, b"}"])
