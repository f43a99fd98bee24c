"""Updates of a table's history: its snapshots, and the branches and tags that refer to them.

Other updates are in `layout_updates.py`, `statistics_updates.py` and `table_updates.py`; `metadata_updates.py` applies all updates of a commit.
Spec: REST catalog, TableUpdate (names and meaning); Snapshots; Snapshot References; Snapshot Row IDs.
"""

from dataclasses import dataclass, replace

from icefloe.errors import InvalidInputError, NoSuchSnapshotError
from icefloe.spec.metadata.invariants import CLOCK_TOLERANCE_MS
from icefloe.spec.metadata.raw_entries import RawEntries
from icefloe.spec.metadata.snapshot import Snapshot
from icefloe.spec.metadata.snapshot_ref import MAIN, SnapshotRef
from icefloe.spec.metadata.table_history import SnapshotLogEntry
from icefloe.spec.metadata.table_metadata import ROW_LINEAGE_VERSION, TableMetadata


@dataclass(frozen=True, slots=True)
class AddSnapshot:
    """An update that adds a snapshot without a branch or tag. From version 3 on, it gets the table's next row ids, for any branch."""

    snapshot: Snapshot

    def apply(self, metadata: TableMetadata, now_ms: int) -> TableMetadata:
        """Return the metadata with the snapshot.

        Raises:
            InvalidInputError: its id is in use, its sequence number or its row ids were assigned before, or its time is before the table's last change.
        """
        _check_new_snapshot(metadata, self.snapshot, now_ms)
        return replace(
            metadata,
            snapshots=metadata.snapshots.with_entries(self.snapshot),
            last_sequence_number=max(metadata.last_sequence_number, self.snapshot.sequence_number),
            last_updated_ms=max(metadata.last_updated_ms, self.snapshot.timestamp_ms),
            next_row_id=_next_row_id(metadata, self.snapshot),
        )


@dataclass(frozen=True, slots=True)
class SetSnapshotRef:
    """An update that creates or moves a branch or tag. If it is `main`, the snapshot becomes the current one, and is added to the snapshot log."""

    name: str
    ref: SnapshotRef

    def apply(self, metadata: TableMetadata, now_ms: int) -> TableMetadata:
        """Return the metadata with the branch or tag.

        Raises:
            NoSuchSnapshotError: the snapshot is not in the table.
            InvalidInputError: a tag would become a branch, or a branch a tag.
        """
        if metadata.snapshots.position(self.ref.snapshot_id) is None:
            raise NoSuchSnapshotError(
                f"{self.name} cannot name snapshot {self.ref.snapshot_id}: it is not in the table", snapshot_id=self.ref.snapshot_id
            )
        existing = metadata.refs.get(self.name)
        if existing == self.ref:
            return metadata
        if (existing is not None and existing.type != self.ref.type) or (self.name == MAIN and not self.ref.is_branch):
            raise InvalidInputError(
                f"{self.name} is a branch and cannot be a tag" if existing is None or existing.is_branch else f"{self.name} is a tag"
            )
        changed = metadata.with_changes(now_ms, refs={**metadata.refs, self.name: self.ref})
        if self.name != MAIN or metadata.current_snapshot_id == self.ref.snapshot_id:
            return changed
        entry = SnapshotLogEntry(changed.last_updated_ms, self.ref.snapshot_id)
        return replace(changed, current_snapshot_id=self.ref.snapshot_id, snapshot_log=metadata.snapshot_log.with_entries(entry))


@dataclass(frozen=True, slots=True)
class RemoveSnapshots:
    """An update that removes snapshots, the branches and tags that refer to them, their statistics files, and the snapshot log up to the last of them.

    Ids that are not in the table are ignored. The retention policy (`retention.py`) determines which snapshots may be removed, not this update.
    """

    snapshot_ids: tuple[int, ...]

    def apply(self, metadata: TableMetadata, now_ms: int) -> TableMetadata:
        """Return the metadata without the snapshots."""
        removed_ids = frozenset(self.snapshot_ids)
        snapshots = metadata.snapshots.without(removed_ids)
        if snapshots is metadata.snapshots:
            return metadata
        return metadata.with_changes(
            now_ms,
            snapshots=snapshots,
            refs={name: ref for name, ref in metadata.refs.items() if ref.snapshot_id not in removed_ids},
            current_snapshot_id=None if metadata.current_snapshot_id in removed_ids else metadata.current_snapshot_id,
            snapshot_log=_log_after_removal(metadata, snapshots),
            statistics=metadata.statistics.without(removed_ids),
            partition_statistics=metadata.partition_statistics.without(removed_ids),
        )


@dataclass(frozen=True, slots=True)
class RemoveSnapshotRef:
    """An update that removes a branch or tag; without `main` the table has no current snapshot. Unknown names are ignored."""

    name: str

    def apply(self, metadata: TableMetadata, now_ms: int) -> TableMetadata:
        """Return the metadata without the branch or tag."""
        if self.name not in metadata.refs:
            return metadata
        changed = metadata.with_changes(now_ms, refs={name: ref for name, ref in metadata.refs.items() if name != self.name})
        # The log keeps its entries; it cannot represent that no snapshot is current.
        return changed if self.name != MAIN else replace(changed, current_snapshot_id=None)


def _check_new_snapshot(metadata: TableMetadata, snapshot: Snapshot, now_ms: int) -> None:
    if metadata.snapshots.position(snapshot.snapshot_id) is not None:
        raise InvalidInputError(f"the table already has a snapshot {snapshot.snapshot_id}", snapshot_id=snapshot.snapshot_id)
    if metadata.format_version == 1 and snapshot.sequence_number:
        raise InvalidInputError(f"a snapshot of format version 1 has no sequence number, and this one has {snapshot.sequence_number}")
    if has_stale_sequence_number(metadata, snapshot):
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


def has_stale_sequence_number(metadata: TableMetadata, snapshot: Snapshot) -> bool:
    """Return True if the snapshot's sequence number has been used before, which is not allowed.

    A snapshot without a parent is allowed to have such a number. It replaces all rows of the table, so that its files are not read together with older files
    and deletes; and replacing a table must not fail because the table was changed meanwhile. JAVA: TableMetadata.Builder.addSnapshot. Spec: Sequence Numbers.
    """
    is_given = metadata.format_version > 1 and snapshot.sequence_number <= metadata.last_sequence_number
    return is_given and snapshot.parent_snapshot_id is not None


def _check_row_ids(metadata: TableMetadata, snapshot: Snapshot) -> None:
    """Check that the snapshot's first row id is not below the table's next row id. Spec: Snapshot Row IDs."""
    if metadata.format_version < ROW_LINEAGE_VERSION:
        if snapshot.first_row_id is not None:
            raise InvalidInputError(
                f"snapshot {snapshot.snapshot_id} has row ids, which format version {metadata.format_version} does not support"
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
    """Return the first row id that is free after the snapshot.

    It is the snapshot's own first row id plus its rows. JAVA adds the rows to the table's counter, which is the same if the two are equal, and would assign ids
    twice if the snapshot's first row id is higher.
    """
    if snapshot.first_row_id is None or snapshot.added_rows is None:
        return metadata.next_row_id
    return max(metadata.next_row_id, snapshot.first_row_id + snapshot.added_rows)


def _log_after_removal(metadata: TableMetadata, snapshots: RawEntries[Snapshot]) -> RawEntries[SnapshotLogEntry]:
    """Truncate the snapshot log at the last removed snapshot, so that time travel never skips one. Spec: Table Metadata Fields."""
    for position in range(len(metadata.snapshot_log) - 1, -1, -1):
        if snapshots.position(metadata.snapshot_log[position].snapshot_id) is None:
            return metadata.snapshot_log.without_first(position + 1)
    return metadata.snapshot_log
