"""Procedures that move branches between snapshots, and `ancestors_of`, which lists the ancestors of a snapshot. Spec: Snapshot References."""

from icefloe.procedures.procedure import Long, Rows, Text, Time, procedure
from icefloe.procedures.time_arguments import milliseconds
from icefloe.spec.types import LongType, StringType
from icefloe.table.table import Table

_BEFORE_AND_AFTER = (("previous_snapshot_id", LongType()), ("current_snapshot_id", LongType()))
_PICKED = (("source_snapshot_id", LongType()), ("current_snapshot_id", LongType()))


@procedure(*_BEFORE_AND_AFTER)
def rollback_to_snapshot(table: Table, snapshot_id: Long) -> Rows:
    """Move the main branch back to a snapshot, which must be an ancestor of its head."""
    before = table.metadata.current_snapshot_id
    table.manage_snapshots().rollback_to_snapshot(snapshot_id).commit()
    return [(before, table.metadata.current_snapshot_id)]


@procedure(*_BEFORE_AND_AFTER)
def rollback_to_timestamp(table: Table, timestamp: Time) -> Rows:
    """Move the main branch back to the newest ancestor of its head that is older than a time."""
    before = table.metadata.current_snapshot_id
    table.manage_snapshots().rollback_to_timestamp(milliseconds(timestamp)).commit()
    return [(before, table.metadata.current_snapshot_id)]


@procedure(*_BEFORE_AND_AFTER, optional=["previous_snapshot_id"])
def set_current_snapshot(table: Table, snapshot_id: Long | None = None, ref: Text | None = None) -> Rows:
    """Move the main branch to any snapshot; snapshot_id is its id, or ref is a branch or tag that refers to it."""
    before = table.metadata.current_snapshot_id
    table.manage_snapshots().set_current_snapshot(snapshot_id, ref).commit()
    return [(before, table.metadata.current_snapshot_id)]


@procedure(*_PICKED)
def cherrypick_snapshot(table: Table, snapshot_id: Long) -> Rows:
    """Apply the change that a snapshot made to the main branch."""
    table.manage_snapshots().cherry_pick(snapshot_id).commit()
    return [(snapshot_id, table.metadata.current_snapshot_id)]


@procedure(*_PICKED)
def publish_changes(table: Table, wap_id: Text) -> Rows:
    """Apply the change of a staged snapshot to the main branch. The snapshot is found by the WAP id under which it was staged."""
    staged = [snapshot.snapshot_id for snapshot in table.snapshots() if snapshot.summary.get("wap.id") == wap_id]
    table.manage_snapshots().publish_changes(wap_id).commit()
    return [(staged[-1], table.metadata.current_snapshot_id)]


@procedure(("branch_updated", StringType()), ("previous_ref", LongType()), ("updated_ref", LongType()), optional=["previous_ref"])
def fast_forward(table: Table, branch: Text, to: Text) -> Rows:
    """Move a branch forward to the head of another branch or tag that descends from it. A branch that does not exist is created there."""
    before = table.refs().get(branch)
    table.manage_snapshots().fast_forward(branch, to).commit()
    return [(branch, None if before is None else before.snapshot_id, table.refs()[branch].snapshot_id)]


@procedure(("snapshot_id", LongType()), ("timestamp", LongType()), optional=["snapshot_id", "timestamp"])
def ancestors_of(table: Table, snapshot_id: Long | None = None) -> Rows:
    """Return a snapshot (by default the current one) and its ancestors, newest first, with their times in milliseconds since 1970-01-01 UTC."""
    return [(snapshot.snapshot_id, snapshot.timestamp_ms) for snapshot in table.ancestors(snapshot_id)]
