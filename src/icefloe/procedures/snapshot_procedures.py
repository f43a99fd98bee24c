"""Procedures that move branches between snapshots, and the one that lists ancestors. Spec: Snapshot References."""

from datetime import UTC, datetime

from icefloe.catalog.catalog import Catalog
from icefloe.errors import InvalidInputError
from icefloe.procedures.procedure import Long, Rows, Text, Time, procedure
from icefloe.spec.types import LongType, StringType

_BEFORE_AND_AFTER = (("previous_snapshot_id", LongType()), ("current_snapshot_id", LongType()))
_PICKED = (("source_snapshot_id", LongType()), ("current_snapshot_id", LongType()))


@procedure(*_BEFORE_AND_AFTER)
def rollback_to_snapshot(catalog: Catalog, table: Text, snapshot_id: Long) -> Rows:
    """Set the main branch back to an ancestor of its head."""
    loaded_table = catalog.load_table(table)
    before = loaded_table.metadata.current_snapshot_id
    loaded_table.manage_snapshots().rollback_to_snapshot(snapshot_id).commit()
    return [(before, loaded_table.metadata.current_snapshot_id)]


@procedure(*_BEFORE_AND_AFTER)
def rollback_to_timestamp(catalog: Catalog, table: Text, timestamp: Time) -> Rows:
    """Set the main branch back to its newest ancestor that is older than a time."""
    loaded_table = catalog.load_table(table)
    before = loaded_table.metadata.current_snapshot_id
    loaded_table.manage_snapshots().rollback_to_timestamp(milliseconds(timestamp)).commit()
    return [(before, loaded_table.metadata.current_snapshot_id)]


@procedure(*_BEFORE_AND_AFTER, optional=["previous_snapshot_id"])
def set_current_snapshot(catalog: Catalog, table: Text, snapshot_id: Long | None = None, ref: Text | None = None) -> Rows:
    """Set the main branch to any snapshot, by its id or by a branch or tag."""
    loaded_table = catalog.load_table(table)
    before = loaded_table.metadata.current_snapshot_id
    loaded_table.manage_snapshots().set_current_snapshot(snapshot_id, ref).commit()
    return [(before, loaded_table.metadata.current_snapshot_id)]


@procedure(*_PICKED)
def cherrypick_snapshot(catalog: Catalog, table: Text, snapshot_id: Long) -> Rows:
    """Apply the change of a snapshot to the main branch."""
    loaded_table = catalog.load_table(table)
    loaded_table.manage_snapshots().cherry_pick(snapshot_id).commit()
    return [(snapshot_id, loaded_table.metadata.current_snapshot_id)]


@procedure(*_PICKED)
def publish_changes(catalog: Catalog, table: Text, wap_id: Text) -> Rows:
    """Apply the change of the snapshot that was staged under a WAP id to the main branch."""
    loaded_table = catalog.load_table(table)
    staged = [snapshot.snapshot_id for snapshot in loaded_table.snapshots() if snapshot.summary.get("wap.id") == wap_id]
    loaded_table.manage_snapshots().publish_changes(wap_id).commit()
    return [(staged[-1], loaded_table.metadata.current_snapshot_id)]


@procedure(("branch_updated", StringType()), ("previous_ref", LongType()), ("updated_ref", LongType()), optional=["previous_ref"])
def fast_forward(catalog: Catalog, table: Text, branch: Text, to: Text) -> Rows:
    """Move a branch forward to the head of another one that descends from it."""
    loaded_table = catalog.load_table(table)
    before = loaded_table.refs().get(branch)
    loaded_table.manage_snapshots().fast_forward(branch, to).commit()
    return [(branch, None if before is None else before.snapshot_id, loaded_table.refs()[branch].snapshot_id)]


@procedure(("snapshot_id", LongType()), ("timestamp", LongType()), optional=["snapshot_id", "timestamp"])
def ancestors_of(catalog: Catalog, table: Text, snapshot_id: Long | None = None) -> Rows:
    """Return the ancestors of a snapshot, itself first, with their times in milliseconds; those of the current snapshot if none is named."""
    return [(snapshot.snapshot_id, snapshot.timestamp_ms) for snapshot in catalog.load_table(table).ancestors(snapshot_id)]


def milliseconds(time: datetime | int) -> int:
    """Return a time in milliseconds since 1970-01-01 UTC. Raises `InvalidInputError` for one without a time zone."""
    if isinstance(time, int):
        return time
    if time.tzinfo is None:
        raise InvalidInputError(f"the time {time} has no time zone", next_step="give it one, such as datetime.timezone.utc")
    since = time - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000
