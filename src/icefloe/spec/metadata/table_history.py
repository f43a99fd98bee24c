"""The history of a table: the snapshot log, the metadata log, the ancestors of a snapshot, the snapshot that was current at a time.

The logs are changed in `snapshot_updates.py` and `metadata_updates.py`.
Spec: Table Metadata Fields (`snapshot-log`, `metadata-log`); Appendix F, Point in Time Reads (Time Travel).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from icefloe.formatting import time_text
from icefloe.spec.metadata.raw_entries import EntryKind
from icefloe.spec.metadata.snapshot import SOURCE_SNAPSHOT_ID, Snapshot
from icefloe.spec.schema.json_shape import Key, a_long, a_string, object_problems, refuse
from icefloe.spec.schema.schema import Schema


@dataclass(frozen=True, slots=True)
class SnapshotLogEntry:
    """The time at which a snapshot became the current one, in milliseconds since 1970-01-01 UTC."""

    timestamp_ms: int
    snapshot_id: int

    def __repr__(self) -> str:
        return f"SnapshotLogEntry({self.snapshot_id} from {time_text(self.timestamp_ms)})"


@dataclass(frozen=True, slots=True)
class MetadataLogEntry:
    """An earlier metadata file, and its `last-updated-ms`."""

    timestamp_ms: int
    metadata_file: str


class Lineage(Protocol):
    """The attributes of table metadata that the functions of this module read. `TableMetadata` has them."""

    @property
    def snapshot_log(self) -> Sequence[SnapshotLogEntry]:
        """Return the snapshot log, oldest entry first."""
        ...

    @property
    def schemas(self) -> Sequence[Schema]:
        """Return the table's schemas."""
        ...

    def snapshot_by_id(self, snapshot_id: int) -> Snapshot | None:
        """Return the snapshot with this id, or None if the table does not have it."""
        ...


def ancestors(metadata: Lineage, snapshot_id: int | None) -> Iterator[Snapshot]:
    """Yield the snapshot and its ancestors, newest first, up to the first that is not in the table."""
    seen: set[int] = set()
    while snapshot_id is not None and snapshot_id not in seen:
        seen.add(snapshot_id)  # stops at a repeated snapshot: parents written by a faulty writer may form a circle
        snapshot = metadata.snapshot_by_id(snapshot_id)
        if snapshot is None:
            return
        yield snapshot
        snapshot_id = snapshot.parent_snapshot_id


def reachable_ids(metadata: Lineage, heads: Iterable[int]) -> set[int]:
    """Return the ids of these snapshots and of their ancestors, each up to the first that is not in the table."""
    reached: set[int] = set()
    for head in heads:
        snapshot_id: int | None = head
        while snapshot_id is not None and snapshot_id not in reached:
            snapshot = metadata.snapshot_by_id(snapshot_id)
            if snapshot is None:
                break
            reached.add(snapshot_id)
            snapshot_id = snapshot.parent_snapshot_id
    return reached


def snapshots_between(metadata: Lineage, start: int | None, end: int | None) -> list[Snapshot] | None:
    """Return the snapshots after `start` up to `end`, newest first.

    Args:
        metadata: The table.
        start: Exclusive start; None for all ancestors of `end`. It may have expired, as long as its child exists.
        end: Inclusive end.

    Returns:
        The snapshots; None if `start` is not an ancestor of `end`.
    """
    snapshots: list[Snapshot] = []
    for snapshot in ancestors(metadata, end):
        if snapshot.snapshot_id == start:
            return snapshots
        snapshots.append(snapshot)
    return snapshots if start is None or (snapshots and snapshots[-1].parent_snapshot_id == start) else None


def schemas_of_files(metadata: Lineage, snapshot: Snapshot | None) -> Sequence[Schema]:
    """Return the schemas that the live files of a snapshot may have been written with: its own and its ancestors'.

    If ancestors have expired, if a snapshot has no schema id, or if changes were cherry-picked from other snapshots, every schema of the table is returned.
    """
    lineage = [] if snapshot is None else list(ancestors(metadata, snapshot.snapshot_id))
    is_complete = not lineage or lineage[-1].parent_snapshot_id is None
    if not is_complete or any(ancestor.schema_id is None or SOURCE_SNAPSHOT_ID in ancestor.summary for ancestor in lineage):
        return metadata.schemas
    schema_ids = {ancestor.schema_id for ancestor in lineage}
    return [schema for schema in metadata.schemas if schema.schema_id in schema_ids]


def snapshot_as_of(metadata: Lineage, timestamp_ms: int) -> Snapshot | None:
    """Return the snapshot that was current at a time; None if there was none yet, or if it has expired.

    The snapshot log is used instead of the parents, because a rollback makes an older snapshot current again. Spec: Point in Time Reads.
    """
    snapshot_id = None
    for entry in metadata.snapshot_log:
        if entry.timestamp_ms <= timestamp_ms:
            snapshot_id = entry.snapshot_id
    return None if snapshot_id is None else metadata.snapshot_by_id(snapshot_id)


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
