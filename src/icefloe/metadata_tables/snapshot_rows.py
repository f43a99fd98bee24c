"""The metadata tables that need only the metadata file: `history`, `metadata_log_entries`, `snapshots` and `refs`.

Spec: Snapshots; Snapshot References; Table Metadata Fields (`snapshot-log`, `metadata-log`).
"""

from typing import Any

from icefloe.metadata_tables.request import Request, micros, table_of_columns
from icefloe.spec.metadata.table_history import MetadataLogEntry, ancestors, snapshot_as_of


def history_rows(request: Request) -> Any:
    """Return the rows of `history`: one for each time at which a snapshot became current, oldest first. Rolled-back snapshots are not current ancestors."""
    metadata = request.metadata
    log = list(metadata.snapshot_log)
    current = {snapshot.snapshot_id for snapshot in ancestors(metadata, metadata.current_snapshot_id)}
    logged = [metadata.snapshot_by_id(entry.snapshot_id) for entry in log]
    return table_of_columns(
        request,
        {
            "made_current_at": micros([entry.timestamp_ms for entry in log]),
            "snapshot_id": [entry.snapshot_id for entry in log],
            "parent_id": [None if snapshot is None else snapshot.parent_snapshot_id for snapshot in logged],
            "is_current_ancestor": [entry.snapshot_id in current for entry in log],
        },
    )


def metadata_log_rows(request: Request) -> Any:
    """Return the rows of `metadata_log_entries`: the earlier metadata files that are still in the log, then the current metadata file.

    Each row has the snapshot that was current at the time of the file, according to the snapshot log.
    """
    metadata = request.metadata
    files = [*metadata.metadata_log, MetadataLogEntry(metadata.last_updated_ms, request.table.metadata_location)]
    latest = [snapshot_as_of(metadata, entry.timestamp_ms) for entry in files]
    return table_of_columns(
        request,
        {
            "timestamp": micros([entry.timestamp_ms for entry in files]),
            "file": [entry.metadata_file for entry in files],
            "latest_snapshot_id": [_logged_id(request, entry.timestamp_ms) for entry in files],
            "latest_schema_id": [None if snapshot is None else snapshot.schema_id for snapshot in latest],
            "latest_sequence_number": [None if snapshot is None else snapshot.sequence_number for snapshot in latest],
        },
    )


def _logged_id(request: Request, timestamp_ms: int) -> int | None:
    """Return the id of the snapshot that was current at a time, according to the snapshot log; the snapshot may have expired."""
    snapshot_id = None
    for entry in request.metadata.snapshot_log:
        if entry.timestamp_ms <= timestamp_ms:
            snapshot_id = entry.snapshot_id
    return snapshot_id


def snapshot_rows(request: Request) -> Any:
    """Return the rows of `snapshots`: every snapshot of the table. The operation has a column of its own, and is not in `summary`."""
    snapshots = list(request.metadata.snapshots)
    summaries = [{key: value for key, value in snapshot.summary.items() if key != "operation"} for snapshot in snapshots]
    return table_of_columns(
        request,
        {
            "committed_at": micros([snapshot.timestamp_ms for snapshot in snapshots]),
            "snapshot_id": [snapshot.snapshot_id for snapshot in snapshots],
            "parent_id": [snapshot.parent_snapshot_id for snapshot in snapshots],
            "operation": [snapshot.operation for snapshot in snapshots],
            "manifest_list": [snapshot.manifest_list for snapshot in snapshots],
            "summary": [
                list(summary.items()) if snapshot.summary else None for snapshot, summary in zip(snapshots, summaries, strict=True)
            ],
        },
    )


def ref_rows(request: Request) -> Any:
    """Return the rows of `refs`: every branch and tag, sorted by name."""
    refs = sorted(request.metadata.refs.items())
    return table_of_columns(
        request,
        {
            "name": [name for name, _ in refs],
            "type": [ref.type.upper() for _, ref in refs],
            "snapshot_id": [ref.snapshot_id for _, ref in refs],
            "max_reference_age_in_ms": [ref.max_ref_age_ms for _, ref in refs],
            "min_snapshots_to_keep": [ref.min_snapshots_to_keep for _, ref in refs],
            "max_snapshot_age_in_ms": [ref.max_snapshot_age_ms for _, ref in refs],
        },
    )
