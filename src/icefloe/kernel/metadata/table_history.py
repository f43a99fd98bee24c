"""How a table came to be as it is: the snapshot log, the metadata log, the ancestors of a snapshot, the snapshot current at a time.

Rules for changing the logs are in `update.py` and `metadata_log.py`.
Spec: Table Metadata Fields (`snapshot-log`, `metadata-log`); Appendix F, Point in Time Reads (Time Travel).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from icefloe.kernel.metadata.raw_entries import EntryKind
from icefloe.kernel.metadata.snapshot import SOURCE_SNAPSHOT_ID, Snapshot
from icefloe.kernel.schema.json_shape import Key, a_long, a_string, object_problems, refuse
from icefloe.kernel.schema.schema import Schema


@dataclass(frozen=True, slots=True)
class SnapshotLogEntry:
    """When a snapshot became the current one, in milliseconds since 1970-01-01 UTC."""

    timestamp_ms: int
    snapshot_id: int


@dataclass(frozen=True, slots=True)
class MetadataLogEntry:
    """A metadata file that came before, and when it was the newest: its `last-updated-ms`."""

    timestamp_ms: int
    metadata_file: str


class Lineage(Protocol):
    """The part of a table's metadata that tells its history."""

    @property
    def snapshot_log(self) -> Sequence[SnapshotLogEntry]: ...

    @property
    def schemas(self) -> Sequence[Schema]: ...

    def snapshot_by_id(self, snapshot_id: int) -> Snapshot | None: ...


def ancestors(metadata: Lineage, snapshot_id: int | None) -> Iterator[Snapshot]:
    """The snapshot, its parent, its parent's parent and so on, as far as they are still in the table."""
    seen: set[int] = set()
    while snapshot_id is not None and snapshot_id not in seen:
        seen.add(snapshot_id)  # metadata of a faulty writer may go in a circle
        snapshot = metadata.snapshot_by_id(snapshot_id)
        if snapshot is None:
            return
        yield snapshot
        snapshot_id = snapshot.parent_snapshot_id


def snapshots_between(metadata: Lineage, start: int | None, end: int | None) -> list[Snapshot] | None:
    """Return the snapshots that `end` was made of after `start`, the newest first; all of them without a start. None where `start` is no ancestor of `end`.

    The start itself may have been expired: its child names it.
    """
    line: list[Snapshot] = []
    for snapshot in ancestors(metadata, end):
        if snapshot.snapshot_id == start:
            return line
        line.append(snapshot)
    return line if start is None or (line and line[-1].parent_snapshot_id == start) else None


def schemas_of_files(metadata: Lineage, snapshot: Snapshot | None) -> Sequence[Schema]:
    """The schemas that the live files of a snapshot may have been written with: its own and its ancestors'.

    Every schema, where ancestors are gone, where one does not say its schema, or where files were picked from other snapshots.
    """
    line = [] if snapshot is None else list(ancestors(metadata, snapshot.snapshot_id))
    is_known = not line or line[-1].parent_snapshot_id is None
    if not is_known or any(one.schema_id is None or SOURCE_SNAPSHOT_ID in one.summary for one in line):
        return metadata.schemas
    wanted = {one.schema_id for one in line}
    return [schema for schema in metadata.schemas if schema.schema_id in wanted]


def snapshot_as_of(metadata: Lineage, timestamp_ms: int) -> Snapshot | None:
    """The snapshot that was current at a time; None before the first one, or where the snapshot has been expired.

    The log decides, not the parents: a rollback made an older snapshot current again. Spec: Point in Time Reads.
    """
    found = None
    for entry in metadata.snapshot_log:
        if entry.timestamp_ms <= timestamp_ms:
            found = entry.snapshot_id
    return None if found is None else metadata.snapshot_by_id(found)


_SNAPSHOT_LOG_KEYS = (Key("timestamp-ms", a_long), Key("snapshot-id", a_long))
_METADATA_LOG_KEYS = (Key("timestamp-ms", a_long), Key("metadata-file", a_string))


def _snapshot_log_entry(value: Any, path: str) -> SnapshotLogEntry:
    refuse(list(object_problems(value, path, _SNAPSHOT_LOG_KEYS)), "the snapshot log")
    return SnapshotLogEntry(value["timestamp-ms"], value["snapshot-id"])


def _snapshot_log_entry_json(entry: SnapshotLogEntry) -> dict[str, Any]:
    return {"timestamp-ms": entry.timestamp_ms, "snapshot-id": entry.snapshot_id}


def _metadata_log_entry(value: Any, path: str) -> MetadataLogEntry:
    refuse(list(object_problems(value, path, _METADATA_LOG_KEYS)), "the metadata log")
    return MetadataLogEntry(value["timestamp-ms"], value["metadata-file"])


def _metadata_log_entry_json(entry: MetadataLogEntry) -> dict[str, Any]:
    return {"timestamp-ms": entry.timestamp_ms, "metadata-file": entry.metadata_file}


SNAPSHOT_LOG = EntryKind("snapshot-log", _snapshot_log_entry, _snapshot_log_entry_json, id_key="snapshot-id")
METADATA_LOG = EntryKind("metadata-log", _metadata_log_entry, _metadata_log_entry_json)
