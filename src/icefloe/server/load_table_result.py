"""The responses that contain a table's metadata, and their ETags.

A metadata file never changes. Its JSON is therefore created once and cached, and a client that has it already gets status 304 after one query for the metadata
location. Spec: REST catalog, LoadTableResult, CommitTableResponse, ETag.
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

# The most bytes of metadata that a process caches.
KEPT_BYTES = 64 * 1024 * 1024


class SnapshotMode(StrEnum):
    """The snapshots in a response: all snapshots, or only those that branches and tags name."""

    ALL = "all"
    REFS = "refs"


def entity_tag(location: str, mode: SnapshotMode, version: object = "") -> str:
    """Return the ETag of a table's response. Spec: REST catalog, etag.

    Args:
        location: The location of the metadata file.
        mode: The snapshots in the response.
        version: Distinguishes different files at the same location, for stores that may use a name twice.
    """
    digest = hashlib.sha256(f"{mode}\0{location}\0{version}".encode()).hexdigest()
    return f'"{digest[:32]}"'


def is_current(call: Call, tag: str) -> bool:
    """Return whether the client has the response with this ETag already, according to its header `If-None-Match`."""
    header = call.headers.get("if-none-match", "")
    return any(text.strip().removeprefix("W/") == tag for text in header.split(","))


@dataclass(frozen=True, slots=True)
class KeptTable:
    """The cached metadata of a table as JSON, with the folder of the table, which is needed to give access to its files."""

    folder: str
    content: bytes


class TableBodies(BoundedCache[str, KeptTable]):
    """A cache of the JSON of recently sent tables' metadata, by ETag. The rest of a response depends on its request."""

    def __init__(self, max_bytes: int = KEPT_BYTES) -> None:
        super().__init__(most_cost=max_bytes, largest=max_bytes // 4)

    def metadata_json(self, tag: str, metadata: TableMetadata, mode: SnapshotMode) -> bytes:
        """Return the metadata as JSON, from the cache or newly created.

        Args:
            tag: The ETag.
            metadata: The metadata.
            mode: The snapshots in the response.
        """
        table = self.get(tag)
        if table is None:
            table = KeptTable(metadata.location, write_table_metadata(with_snapshots(metadata, mode)))
            self.put(tag, table, len(table.content))
        return table.content


def with_snapshots(metadata: TableMetadata, mode: SnapshotMode) -> TableMetadata:
    """Return metadata with only the snapshots that the response should have. Spec: REST catalog, loadTable (`snapshots`)."""
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
        bodies: The cache of metadata.
        loaded: The table. The location of a staged table is empty. If no location identifies the version, the response has no ETag and is not cached.
        mode: The snapshots in the response.
        version: The `version` of `entity_tag`.
        extra: Further keys of the response, such as `config`.
    """
    if has_no_file(loaded.location):
        content = write_table_metadata(with_snapshots(loaded.metadata, mode))
        return Answer(body=_body(loaded.location or None, content, extra), has_credentials=_has_credentials(extra))
    tag = entity_tag(loaded.location, mode, version)
    body = _body(loaded.location, bodies.metadata_json(tag, loaded.metadata, mode), extra)
    return Answer(body=body, headers={"ETag": tag}, has_credentials=_has_credentials(extra))


def kept_table_answer(table: KeptTable, location: str, tag: str, extra: Mapping[str, object]) -> Answer:
    """Return the response with a table whose metadata is cached, so that its file is not read.

    Args:
        table: The cached metadata.
        location: The location of the metadata file.
        tag: The ETag.
        extra: Further keys of the response, such as `config`.
    """
    return Answer(body=_body(location, table.content, extra), headers={"ETag": tag}, has_credentials=_has_credentials(extra))


def _has_credentials(extra: Mapping[str, object] | None) -> bool:
    return bool((extra or {}).get("storage-credentials"))


def _body(location: str | None, metadata: bytes, extra: Mapping[str, object] | None) -> bytes:
    """Return the JSON of a response. The JSON of the metadata is inserted as it is."""
    parts = [b"{"]
    if location is not None:
        parts += [b'"metadata-location":', msgspec.json.encode(location), b","]
    parts += [b'"metadata":', metadata]
    for key, value in (extra or {}).items():
        parts += [b",", msgspec.json.encode(key), b":", msgspec.json.encode(value)]
    return b"".join([*parts, b"}"])
