"""A table's history: its snapshots with their summaries, the snapshot log, the metadata log, branches and tags.

Spec: Snapshots; Table Metadata Fields (`snapshot-log`, `metadata-log`, `refs`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from icefloe.display.report import Column, Report, grid
from icefloe.display.reportable import MOST_LINES, Reportable
from icefloe.formatting import count_text, size_text, time_text, within
from icefloe.inspect.table_overview import summary_number
from icefloe.operations.loaded_table import TableReader
from icefloe.spec.metadata.snapshot import Snapshot
from icefloe.spec.metadata.snapshot_ref import SnapshotRef, refs_by_snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotOverview:
    """One snapshot. `refs` are the names of the branches and tags that refer to it."""

    snapshot_id: int
    parent_snapshot_id: int | None
    sequence_number: int
    timestamp_ms: int
    operation: str | None
    schema_id: int | None
    manifest_list: str | None
    is_current: bool
    refs: tuple[str, ...]
    summary: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotLogLine:
    """One entry of the snapshot log: a snapshot and the time from which it was current."""

    timestamp_ms: int
    snapshot_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataLogLine:
    """One entry of the metadata log: a metadata file and the time from which it was current. The current file is added as the last entry."""

    timestamp_ms: int
    metadata_file: str
    is_current: bool


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SnapshotHistory(Reportable):
    """The snapshots, the snapshot log and the metadata log of a table, oldest first."""

    table: str
    location: str
    snapshots: tuple[SnapshotOverview, ...]
    snapshot_log: tuple[SnapshotLogLine, ...]
    metadata_log: tuple[MetadataLogLine, ...]

    def report(self, most: int | None = MOST_LINES) -> Report:
        """Return the report. It has a column for delete files if any snapshot has delete files.

        Args:
            most: The greatest number of lines of each list; None for all.
        """
        with_deletes = any(summary_number(snapshot.summary, "total-delete-files") for snapshot in self.snapshots)
        snapshots = grid(
            f"snapshots ({len(self.snapshots):,}, oldest first)",
            (
                Column("snapshot", whole=True),
                Column("seq", is_number=True, rank=5),
                Column("made", whole=True, rank=1),
                Column("operation"),
                Column("rows +", is_number=True, rank=3),
                Column("rows -", is_number=True, rank=4),
                Column("rows", is_number=True),
                Column("files", is_number=True, rank=2),
                *([Column("deletes", is_number=True, rank=3)] if with_deletes else []),
                Column("size", is_number=True, rank=2),
                Column("refs"),
            ),
            [_snapshot_row(snapshot, with_deletes) for snapshot in self.snapshots],
            most,
        )
        log = grid(
            "snapshot log: the time from which each snapshot was current",
            (Column("from", whole=True), Column("snapshot", whole=True)),
            [(time_text(line.timestamp_ms), str(line.snapshot_id)) for line in self.snapshot_log],
            most,
        )
        files = grid(
            "metadata log: the metadata files, the current one last",
            (Column("written", whole=True, rank=1), Column("file", whole=True)),
            [
                (time_text(line.timestamp_ms), within(line.metadata_file, self.location) + ("  (current)" if line.is_current else ""))
                for line in self.metadata_log
            ],
            most,
        )
        return Report(f"history of {self.table}", (snapshots, log, files))


def snapshots(reader: TableReader) -> SnapshotHistory:
    """Return a table's snapshots and logs, from its metadata alone.

    Args:
        reader: The table.

    Returns:
        The snapshots and both logs, oldest first.
    """
    metadata = reader.metadata
    refs = refs_by_snapshot(metadata.refs)
    current = MetadataLogLine(timestamp_ms=metadata.last_updated_ms, metadata_file=reader.metadata_location, is_current=True)
    earlier = [
        MetadataLogLine(timestamp_ms=entry.timestamp_ms, metadata_file=entry.metadata_file, is_current=False)
        for entry in metadata.metadata_log
    ]
    return SnapshotHistory(
        table=reader.full_name,
        location=metadata.location,
        snapshots=tuple(
            _overview(snapshot, metadata.current_snapshot_id, refs.get(snapshot.snapshot_id, ())) for snapshot in metadata.snapshots
        ),
        snapshot_log=tuple(
            SnapshotLogLine(timestamp_ms=entry.timestamp_ms, snapshot_id=entry.snapshot_id) for entry in metadata.snapshot_log
        ),
        metadata_log=(*earlier, current),
    )


def _overview(snapshot: Snapshot, current_id: int | None, refs: Sequence[tuple[str, SnapshotRef]]) -> SnapshotOverview:
    return SnapshotOverview(
        snapshot_id=snapshot.snapshot_id,
        parent_snapshot_id=snapshot.parent_snapshot_id,
        sequence_number=snapshot.sequence_number,
        timestamp_ms=snapshot.timestamp_ms,
        operation=snapshot.operation,
        schema_id=snapshot.schema_id,
        manifest_list=snapshot.manifest_list,
        is_current=snapshot.snapshot_id == current_id,
        refs=tuple(name for name, _ in refs),
        summary=dict(snapshot.summary),
    )


def _snapshot_row(snapshot: SnapshotOverview, with_deletes: bool) -> tuple[str, ...]:
    def number(key: str) -> int | None:
        return summary_number(snapshot.summary, key)

    return (
        str(snapshot.snapshot_id),
        str(snapshot.sequence_number),
        time_text(snapshot.timestamp_ms),
        snapshot.operation or "unknown",
        count_text(number("added-records") or 0),
        count_text(number("deleted-records") or 0),
        count_text(number("total-records")),
        count_text(number("total-data-files")),
        *([count_text(number("total-delete-files") or 0)] if with_deletes else []),
        size_text(number("total-files-size")),
        ", ".join(snapshot.refs),
    )
