"""Changes of a table's history: its snapshots, the branches and tags that name them, the statistics files that go with them.

Other changes are in `update_layout.py` and `table_updates.py`; all of one commit are joined in `update.py`.
Spec: REST catalog, TableUpdate (names and meaning); Snapshots; Snapshot References; Snapshot Row IDs.
"""

from dataclasses import dataclass, replace

from icefloe.errors import InvalidInputError, NoSuchSnapshotError
from icefloe.kernel.metadata.invariants import CLOCK_TOLERANCE_MS
from icefloe.kernel.metadata.raw_entries import RawEntries
from icefloe.kernel.metadata.snapshot import Snapshot
from icefloe.kernel.metadata.snapshot_ref import MAIN, SnapshotRef
from icefloe.kernel.metadata.table_history import SnapshotLogEntry
from icefloe.kernel.metadata.table_metadata import ROW_LINEAGE_VERSION, TableMetadata


@dataclass(frozen=True, slots=True)
class AddSnapshot:
    """Adds a snapshot that no branch or tag names yet. From v3 on the row ids it gives are the table's next ones, whatever branch it is for."""

    snapshot: Snapshot

    def apply(self, metadata: TableMetadata, now_ms: int) -> TableMetadata:
        """Raises `InvalidInputError` where its id is taken, its sequence number or its row ids were given before, or its time is before the table's."""
        _check_new_snapshot(metadata, self.snapshot, now_ms)
        return replace(
            metadata,
            snapshots=metadata.snapshots.appended(self.snapshot),
            last_sequence_number=max(metadata.last_sequence_number, self.snapshot.sequence_number),
            last_updated_ms=max(metadata.last_updated_ms, self.snapshot.timestamp_ms),
            next_row_id=_next_row_id(metadata, self.snapshot),
        )


@dataclass(frozen=True, slots=True)
class SetSnapshotRef:
    """Makes a branch or tag, or moves it. For `main` the snapshot becomes the table's current one, which the snapshot log notes."""

    name: str
    ref: SnapshotRef

    def apply(self, metadata: TableMetadata, now_ms: int) -> TableMetadata:
        """Raises `NoSuchSnapshotError` where the snapshot is not in the table, `InvalidInputError` where a tag would become a branch or the reverse."""
        if metadata.snapshots.position(self.ref.snapshot_id) is None:
            raise NoSuchSnapshotError(
                f"{self.name} cannot name snapshot {self.ref.snapshot_id}: it is not in the table", snapshot_id=self.ref.snapshot_id
            )
        known = metadata.refs.get(self.name)
        if known == self.ref:
            return metadata
        if (known is not None and known.type != self.ref.type) or (self.name == MAIN and not self.ref.is_branch):
            raise InvalidInputError(
                f"{self.name} is a branch and cannot be a tag" if known is None or known.is_branch else f"{self.name} is a tag"
            )
        changed = metadata.changed(now_ms, refs={**metadata.refs, self.name: self.ref})
        if self.name != MAIN or metadata.current_snapshot_id == self.ref.snapshot_id:
            return changed
        entry = SnapshotLogEntry(changed.last_updated_ms, self.ref.snapshot_id)
        return replace(changed, current_snapshot_id=self.ref.snapshot_id, snapshot_log=metadata.snapshot_log.appended(entry))


@dataclass(frozen=True, slots=True)
class RemoveSnapshots:
    """Removes snapshots, the branches and tags that name them, their statistics files, and the part of the snapshot log before them.

    Ids that are not there are no error. Which snapshots may go is the retention policy's to say, not this update's.
    """

    snapshot_ids: tuple[int, ...]

    def apply(self, metadata: TableMetadata, now_ms: int) -> TableMetadata:
        gone = frozenset(self.snapshot_ids)
        snapshots = metadata.snapshots.without(gone)
        if snapshots is metadata.snapshots:
            return metadata
        return metadata.changed(
            now_ms,
            snapshots=snapshots,
            refs={name: ref for name, ref in metadata.refs.items() if ref.snapshot_id not in gone},
            current_snapshot_id=None if metadata.current_snapshot_id in gone else metadata.current_snapshot_id,
            snapshot_log=_log_after_removal(metadata, snapshots),
            statistics=metadata.statistics.without(gone),
            partition_statistics=metadata.partition_statistics.without(gone),
        )


@dataclass(frozen=True, slots=True)
class RemoveSnapshotRef:
    """Removes a branch or tag; without `main` the table has no current snapshot. A name that is not there is no error."""

    name: str

    def apply(self, metadata: TableMetadata, now_ms: int) -> TableMetadata:
        if self.name not in metadata.refs:
            return metadata
        changed = metadata.changed(now_ms, refs={name: ref for name, ref in metadata.refs.items() if name != self.name})
        # The log keeps which snapshots were current up to now: it is history, and cannot say that none is.
        return changed if self.name != MAIN else replace(changed, current_snapshot_id=None)


def _check_new_snapshot(metadata: TableMetadata, snapshot: Snapshot, now_ms: int) -> None:
    if metadata.snapshots.position(snapshot.snapshot_id) is not None:
        raise InvalidInputError(f"the table already has a snapshot {snapshot.snapshot_id}", snapshot_id=snapshot.snapshot_id)
    if metadata.format_version == 1 and snapshot.sequence_number:
        raise InvalidInputError(f"a snapshot of format version 1 has no sequence number, and this one has {snapshot.sequence_number}")
    if metadata.format_version > 1 and snapshot.sequence_number <= metadata.last_sequence_number:
        raise InvalidInputError(
            f"snapshot {snapshot.snapshot_id} has sequence number {snapshot.sequence_number}, and {metadata.last_sequence_number} "
            "is already given: it was made for an older version of the table"
        )
    if metadata.format_version > 1 and snapshot.manifest_list is None:
        raise InvalidInputError(
            f"snapshot {snapshot.snapshot_id} has no manifest list, which format version {metadata.format_version} requires"
        )
    _check_row_ids(metadata, snapshot)
    if snapshot.timestamp_ms < metadata.last_updated_ms - CLOCK_TOLERANCE_MS:
        raise InvalidInputError(
            f"snapshot {snapshot.snapshot_id} is of {snapshot.timestamp_ms} ms, more than a minute before the table's last change "
            f"at {metadata.last_updated_ms} ms",
            next_step="set this machine's clock",
        )
    if snapshot.timestamp_ms > now_ms + CLOCK_TOLERANCE_MS and snapshot.timestamp_ms > metadata.last_updated_ms:
        raise InvalidInputError(f"snapshot {snapshot.snapshot_id} is of {snapshot.timestamp_ms} ms, and now is {now_ms} ms")


def _check_row_ids(metadata: TableMetadata, snapshot: Snapshot) -> None:
    """Spec: Snapshot Row IDs."""
    if metadata.format_version < ROW_LINEAGE_VERSION:
        if snapshot.first_row_id is not None:
            raise InvalidInputError(
                f"snapshot {snapshot.snapshot_id} gives row ids, which format version {metadata.format_version} has not"
            )
        return
    if snapshot.first_row_id is None or snapshot.added_rows is None:
        raise InvalidInputError(
            f"snapshot {snapshot.snapshot_id} has no first-row-id or no added-rows; format version {metadata.format_version} requires both"
        )
    if snapshot.added_rows < 0:
        raise InvalidInputError(f"snapshot {snapshot.snapshot_id} adds {snapshot.added_rows} rows")
    if snapshot.first_row_id < metadata.next_row_id:
        raise InvalidInputError(
            f"snapshot {snapshot.snapshot_id} gives row ids from {snapshot.first_row_id} on, and those below {metadata.next_row_id} "
            "are already given: it was made for an older version of the table"
        )


def _next_row_id(metadata: TableMetadata, snapshot: Snapshot) -> int:
    """The first row id that is free after the snapshot. It counts from the snapshot's own first id: JAVA adds its rows to the table's counter, which is the
    same where the two are equal, and would give ids twice where the snapshot began later.
    """
    if snapshot.first_row_id is None or snapshot.added_rows is None:
        return metadata.next_row_id
    return max(metadata.next_row_id, snapshot.first_row_id + snapshot.added_rows)


def _log_after_removal(metadata: TableMetadata, snapshots: RawEntries[Snapshot]) -> RawEntries[SnapshotLogEntry]:
    """The log from after its last entry of a snapshot that is gone: time travel must not pass over a hole. Spec: Table Metadata Fields."""
    for position in range(len(metadata.snapshot_log) - 1, -1, -1):
        if snapshots.position(metadata.snapshot_log[position].snapshot_id) is None:
            return metadata.snapshot_log.without_first(position + 1)
    return metadata.snapshot_log
