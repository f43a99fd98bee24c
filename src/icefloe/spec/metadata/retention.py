"""The retention policy: which branches, tags and snapshots of a table expire, and which a reference still needs.

This module only selects: the commit is `commit/snapshot_expiry.py`, and the files that become unreachable are in `icefloe.operations.expiry.file_cleanup`.
Spec: Snapshot Retention Policy; Snapshot References.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from icefloe.errors import InvalidInputError, Problem
from icefloe.spec.metadata import table_properties
from icefloe.spec.metadata.snapshot_ref import MAIN, SnapshotRef
from icefloe.spec.metadata.table_history import ancestors
from icefloe.spec.metadata.table_metadata import TableMetadata


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """The arguments of an expiry, beside the table's properties and the settings of its references.

    Attributes:
        older_than_ms: Snapshots before this time expire, in milliseconds since 1970-01-01 UTC; replaces `history.expire.max-snapshot-age-ms`. A branch with
            settings of its own keeps to these.
        retain_last: Number of snapshots to keep per branch; replaces `history.expire.min-snapshots-to-keep`. A branch with settings of its own keeps to these.
        snapshot_ids: Snapshots that expire regardless of their age, unless a reference names them.
        by_policy: False expires only `snapshot_ids`, and no reference.
    """

    older_than_ms: int | None = None
    retain_last: int | None = None
    snapshot_ids: tuple[int, ...] = ()
    by_policy: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired:
    """The expired names of branches and tags, and ids of snapshots in the order of the metadata."""

    refs: tuple[str, ...] = ()
    snapshot_ids: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.refs or self.snapshot_ids)


def select_expired(metadata: TableMetadata, retention: Retention, now_ms: int) -> Expired:
    """Select what expires at a time.

    Snapshots that no kept branch leads to and no kept tag names expire by age alone. Ids that are not in the table are ignored: they have expired already.

    Args:
        metadata: The table.
        retention: The arguments of the expiry.
        now_ms: The time, in milliseconds since 1970-01-01 UTC.

    Raises:
        InvalidInputError: a snapshot id is one that a kept branch or tag names; lists each.
        InvalidPropertyError: a property of the retention policy has an invalid value.
    """
    refs = _retained_refs(metadata, now_ms) if retention.by_policy else metadata.refs
    _refuse_referenced(refs, retention.snapshot_ids)
    expired_ids = set(retention.snapshot_ids)
    if retention.by_policy:
        expired_ids |= metadata.snapshots.ids() - set(_retained_snapshot_ids(metadata, refs, retention, now_ms))
    return Expired(
        refs=tuple(name for name in metadata.refs if name not in refs),
        snapshot_ids=tuple(snapshot_id for snapshot_id in metadata.snapshots.ids() if snapshot_id in expired_ids),
    )


def _retained_refs(metadata: TableMetadata, now_ms: int) -> Mapping[str, SnapshotRef]:
    """Return `main` and the references within their maximum age. A reference to a snapshot that is not in the table expires."""
    default_age_ms = table_properties.MAX_REF_AGE_MS.read(metadata.properties)
    retained = {}
    for name, ref in metadata.refs.items():
        snapshot = metadata.snapshot_by_id(ref.snapshot_id)
        max_age_ms = default_age_ms if ref.max_ref_age_ms is None else ref.max_ref_age_ms
        if name == MAIN or (snapshot is not None and now_ms - snapshot.timestamp_ms <= max_age_ms):
            retained[name] = ref
    return retained


def _refuse_referenced(refs: Mapping[str, SnapshotRef], snapshot_ids: tuple[int, ...]) -> None:
    requested_ids = set(snapshot_ids)
    needed = [(name, ref) for name, ref in sorted(refs.items()) if ref.snapshot_id in requested_ids]
    if needed:
        names = ", ".join(f"{'branch' if ref.is_branch else 'tag'} {name}" for name, ref in needed)
        raise InvalidInputError(
            f"snapshots that are still referenced cannot be expired: {names}",
            snapshot_id=needed[0][1].snapshot_id,
            problems=[
                Problem(where=f"snapshot {ref.snapshot_id}", what=f"{'branch' if ref.is_branch else 'tag'} {name} names it")
                for name, ref in needed
            ],
            next_step="remove the branch or tag first, or leave these snapshots out",
        )


def _retained_snapshot_ids(metadata: TableMetadata, refs: Mapping[str, SnapshotRef], retention: Retention, now_ms: int) -> Iterator[int]:
    oldest_ms = retention.older_than_ms
    if oldest_ms is None:
        oldest_ms = now_ms - table_properties.MAX_SNAPSHOT_AGE_MS.read(metadata.properties)
    min_count = table_properties.MIN_SNAPSHOTS_TO_KEEP.read(metadata.properties) if retention.retain_last is None else retention.retain_last
    referenced: set[int] = set()
    for ref in refs.values():
        yield ref.snapshot_id
        referenced.add(ref.snapshot_id)
        if ref.is_branch:
            referenced |= {snapshot.snapshot_id for snapshot in ancestors(metadata, ref.snapshot_id)}
            yield from _retained_of_branch(metadata, ref, oldest_ms=oldest_ms, min_count=min_count, now_ms=now_ms)
    for snapshot_id in metadata.snapshots.ids() - referenced:
        snapshot = metadata.snapshot_by_id(snapshot_id)
        if snapshot is not None and snapshot.timestamp_ms >= oldest_ms:
            yield snapshot_id


def _retained_of_branch(metadata: TableMetadata, ref: SnapshotRef, *, oldest_ms: int, min_count: int, now_ms: int) -> Iterator[int]:
    """Yield a branch's snapshots from its head to the first that is too old and beyond the number to keep; that one and its ancestors expire."""
    oldest_ms = oldest_ms if ref.max_snapshot_age_ms is None else now_ms - ref.max_snapshot_age_ms
    min_count = min_count if ref.min_snapshots_to_keep is None else ref.min_snapshots_to_keep
    for count, snapshot in enumerate(ancestors(metadata, ref.snapshot_id)):
        if count >= min_count and snapshot.timestamp_ms < oldest_ms:
            return
        yield snapshot.snapshot_id
