"""Procedures that move branches between snapshots, and the one that lists ancestors. Spec: Snapshot References."""

from datetime import UTC, datetime

from icefloe.catalog.catalog import Catalog
from icefloe.errors import InvalidInputError
from icefloe.kernel.types import LongType, StringType
from icefloe.procedures.procedure import Long, Rows, Text, Time, procedure

_BEFORE_AND_AFTER = (("previous_snapshot_id", LongType()), ("current_snapshot_id", LongType()))
_PICKED = (("source_snapshot_id", LongType()), ("current_snapshot_id", LongType()))


@procedure(*_BEFORE_AND_AFTER)
def rollback_to_snapshot(catalog: Catalog, table: Text, snapshot_id: Long) -> Rows:
    """Puts main back at an ancestor of its head."""
    found = catalog.load_table(table)
    before = found.metadata.current_snapshot_id
    found.manage_snapshots().rollback_to_snapshot(snapshot_id).commit()
    return [(before, found.metadata.current_snapshot_id)]


@procedure(*_BEFORE_AND_AFTER)
def rollback_to_timestamp(catalog: Catalog, table: Text, timestamp: Time) -> Rows:
    """Puts main back at its newest ancestor that is older than a time."""
    found = catalog.load_table(table)
    before = found.metadata.current_snapshot_id
    found.manage_snapshots().rollback_to_timestamp(milliseconds(timestamp)).commit()
    return [(before, found.metadata.current_snapshot_id)]


@procedure(*_BEFORE_AND_AFTER, optional=["previous_snapshot_id"])
def set_current_snapshot(catalog: Catalog, table: Text, snapshot_id: Long | None = None, ref: Text | None = None) -> Rows:
    """Puts main at any snapshot, by its id or by a branch or tag."""
    found = catalog.load_table(table)
    before = found.metadata.current_snapshot_id
    found.manage_snapshots().set_current_snapshot(snapshot_id, ref).commit()
    return [(before, found.metadata.current_snapshot_id)]


@procedure(*_PICKED)
def cherrypick_snapshot(catalog: Catalog, table: Text, snapshot_id: Long) -> Rows:
    """Makes the change of a snapshot again on main."""
    found = catalog.load_table(table)
    found.manage_snapshots().cherry_pick(snapshot_id).commit()
    return [(snapshot_id, found.metadata.current_snapshot_id)]


@procedure(*_PICKED)
def publish_changes(catalog: Catalog, table: Text, wap_id: Text) -> Rows:
    """Picks the snapshot that was staged under a wap id."""
    found = catalog.load_table(table)
    staged = [one.snapshot_id for one in found.snapshots() if one.summary.get("wap.id") == wap_id]
    found.manage_snapshots().publish_changes(wap_id).commit()
    return [(staged[-1], found.metadata.current_snapshot_id)]


@procedure(("branch_updated", StringType()), ("previous_ref", LongType()), ("updated_ref", LongType()), optional=["previous_ref"])
def fast_forward(catalog: Catalog, table: Text, branch: Text, to: Text) -> Rows:
    """Moves a branch on to the head of another one that has grown out of it."""
    found = catalog.load_table(table)
    before = found.refs().get(branch)
    found.manage_snapshots().fast_forward(branch, to).commit()
    return [(branch, None if before is None else before.snapshot_id, found.refs()[branch].snapshot_id)]


@procedure(("snapshot_id", LongType()), ("timestamp", LongType()), optional=["snapshot_id", "timestamp"])
def ancestors_of(catalog: Catalog, table: Text, snapshot_id: Long | None = None) -> Rows:
    """The snapshot, its parent, its parent's parent and so on, with their times in milliseconds; from the current one where none is named."""
    return [(one.snapshot_id, one.timestamp_ms) for one in catalog.load_table(table).ancestors(snapshot_id)]


def milliseconds(time: datetime | int) -> int:
    """A time in milliseconds since 1970-01-01 UTC. Raises `InvalidInputError` for one without a time zone."""
    if isinstance(time, int):
        return time
    if time.tzinfo is None:
        raise InvalidInputError(f"the time {time} has no time zone", next_step="give it one, such as datetime.timezone.utc")
    since = time - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000
