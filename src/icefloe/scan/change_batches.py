"""`ChangeBatchPlanner`: divides the changes of a table's snapshots into batches of a stream.

A stream of changes begins with the rows of the table's snapshot, which are its first changes, or with the changes of a first snapshot. Then it has the changes
of each later snapshot of the branch. The changes of a snapshot are never divided, so that the two rows of an update are in one batch; only the rows of the
first snapshot are. `micro_batches.py` has the offsets and the order of snapshots. Spec: Snapshots (`operation`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from icefloe.errors import InvalidInputError, NoSuchSnapshotError
from icefloe.formatting import time_text
from icefloe.scan.change_planner import removes_rows
from icefloe.scan.micro_batches import MicroBatchPlanner, SnapshotPart, unite_plans
from icefloe.scan.scan_plan import NO_FILES, FileCounts, ScanPlan
from icefloe.scan.stream_rules import AFTER_MISSING, ReadLimits
from icefloe.scan.streaming_offset import StreamingOffset
from icefloe.spec.metadata.snapshot import Operation, Snapshot, count_of
from icefloe.spec.schema.schema import Schema

# The keys of a summary that count files, rows and bytes that changed. Writers leave out what is 0.
_SUMMARY_KEYS = (
    ("added-data-files", "deleted-data-files", "added-delete-files"),
    ("added-records", "deleted-records", "added-position-deletes", "added-equality-deletes"),
    ("added-files-size", "removed-files-size"),
)


class BatchOfChanges(NamedTuple):
    """What a batch of a stream of changes has.

    Attributes:
        snapshot: The snapshot with whose rows the stream begins; None if the batch does not have them.
        rows: The plan of the rows of that snapshot that the batch has.
        snapshots: The snapshots whose changes the batch has, oldest first.
    """

    snapshot: Snapshot | None
    rows: ScanPlan | None
    snapshots: Sequence[Snapshot]


@dataclass(frozen=True, kw_only=True)
class ChangeBatchPlanner(MicroBatchPlanner):
    """Plans the batches of a stream of changes for one state of a table.

    Of the rules only the time of the first snapshot and `on_missing` are used: deletes and overwrites are changes as others.

    Attributes:
        first_snapshots: Returns the snapshots with whose changes the stream begins, oldest first; empty if there are none yet. None to begin by the rules.
    """

    first_snapshots: Callable[[], Sequence[Snapshot]] | None = None
    _after_rollback = "begin with a new checkpointLocation; without a start, the stream begins with the current rows of the table"
    _after_replacement = _after_rollback

    def changes(self, start: StreamingOffset, end: StreamingOffset, schema: Schema) -> BatchOfChanges:
        """Return what a batch has.

        Args:
            start: The begin of the batch, or `START`.
            end: The end of the batch, which `next_offset` has returned for it.
            schema: The schema that the rows of the first snapshot are read with.

        Raises:
            InvalidInputError: The end has no begin or is that of a stream of rows, within a snapshot; the table is another, or was rolled back.
            NoSuchSnapshotError: A snapshot of the batch, or the one before it, was expired.
            ManifestFormatError: A manifest violates the format.
        """
        parts = self._read_parts(start, end)
        first = [part for part in parts if part.kind == "all"]
        rows = unite_plans(list(self._plans(first, schema)), first[0].snapshot.snapshot_id, schema) if first else None
        return BatchOfChanges(first[0].snapshot if first else None, rows, [part.snapshot for part in parts if part.kind == "added"])

    def begin(self) -> StreamingOffset | None:
        """Return the offset at which the stream begins; None if there is no snapshot to read yet."""
        if self._end is None or self.first_snapshots is None:
            return super().begin()
        later = {snapshot.snapshot_id for snapshot in self._later}
        snapshots = [snapshot for snapshot in self.first_snapshots() if snapshot.snapshot_id not in later]
        return self._offset(snapshots[0], 0, scan_all_files=False, is_complete=False) if snapshots else None

    def _kind(self, part: SnapshotPart) -> Literal["all", "added", "none"]:
        snapshot = part.snapshot
        if part.kind != "added":
            return part.kind
        if not part.is_whole:
            raise InvalidInputError(
                f"the checkpoint of the stream of {self.table_name} is that of a stream of rows, which ended within snapshot {snapshot.snapshot_id}; "
                "changes of a snapshot are not divided",
                table=self.table_name,
                snapshot_id=snapshot.snapshot_id,
                next_step="continue the stream of rows to the end of the snapshot first, or begin with a new checkpointLocation",
            )
        if snapshot.operation == Operation.REPLACE:
            return "none"
        parent_id = snapshot.parent_snapshot_id
        if parent_id is None or self.metadata.snapshot_by_id(parent_id) is not None or not removes_rows(snapshot, self.read):
            return "added"
        return self._without_parent(snapshot, parent_id)

    def _without_parent(self, snapshot: Snapshot, parent_id: int) -> Literal["none"]:
        """Return that a snapshot is not read whose removed rows are unknown. Raises `NoSuchSnapshotError` unless the rules allow it."""
        text = (
            f"the stream of {self.table_name} needs snapshot {parent_id}, which was expired or removed: it has the rows that snapshot "
            f"{snapshot.snapshot_id} of {time_text(snapshot.timestamp_ms)} removed"
        )
        if self.rules.on_missing == "fail":
            raise NoSuchSnapshotError(
                text,
                table=self.table_name,
                snapshot_id=parent_id,
                next_step=AFTER_MISSING,
            )
        self.warn(f"{text}; the stream continues after snapshot {snapshot.snapshot_id}, whose changes are lost to it")
        return "none"

    def _summary_counts(self, part: SnapshotPart) -> FileCounts | None:
        if part.kind != "added":
            return super()._summary_counts(part)
        if part.snapshot.operation == Operation.REPLACE:
            return NO_FILES
        summary = part.snapshot.summary
        counts = [[count_of(summary[key]) for key in keys if key in summary] for keys in _SUMMARY_KEYS]
        if not any(counts):  # a summary without counts
            return None
        files, records, size = (sum(count or 0 for count in of_kind) for of_kind in counts)
        return FileCounts(files=files, records=records, bytes=size)

    def _admit(self, part: SnapshotPart, total: FileCounts, limits: ReadLimits) -> tuple[int | None, FileCounts]:
        if part.kind != "added":
            return super()._admit(part, total, limits)
        if total.files:
            return part.start, NO_FILES
        counts = self._summary_counts(part) or NO_FILES
        return None, counts + FileCounts(files=0 if counts.files else 1)
