"""The retention policy: selects the branches, tags and snapshots of a table that expire.

`commit/snapshot_expiry.py` commits the removal, and `icefloe.operations.expiry.file_cleanup` deletes the files that become unreachable.
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
    """The arguments of an expiry of snapshots. The properties of the table, and the settings of its branches and tags, apply in addition.

    Attributes:
        older_than_ms: Snapshots before this time expire, in milliseconds since 1970-01-01 UTC; replaces `history.expire.max-snapshot-age-ms`. A branch's own
            setting has precedence.
        retain_last: Number of snapshots to keep for each branch; replaces `history.expire.min-snapshots-to-keep`. A branch's own setting has precedence.
        snapshot_ids: Snapshots that expire regardless of their age. It is an error if a kept reference refers to one of them.
        by_policy: Whether the retention policy applies. If False, only `snapshot_ids` expire, and no references.
    """

    older_than_ms: int | None = None
    retain_last: int | None = None
    snapshot_ids: tuple[int, ...] = ()
    by_policy: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired:
    """The names of the branches and tags that expire, and the ids of the snapshots that expire, in the order of the metadata."""

    refs: tuple[str, ...] = ()
    snapshot_ids: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.refs or self.snapshot_ids)


def select_expired(metadata: TableMetadata, retention: Retention, now_ms: int) -> Expired:
    """Select the branches, tags and snapshots that expire at a time.

    Snapshots that are not in the history of a kept branch, and not those of a kept tag, expire by their age alone. Ids that are not in the table are ignored,
    because they have expired already.

    Args:
        metadata: The table.
        retention: The arguments of the expiry.
        now_ms: The time, in milliseconds since 1970-01-01 UTC.

    Raises:
        InvalidInputError: kept branches or tags refer to snapshots of `snapshot_ids`; the error lists each.
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
    """Return the branches and tags to keep: `main`, and those whose snapshot is in the table and is not older than their maximum age."""
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
    """Yield the ids of a branch's snapshots to keep: from its head back, up to the first that is both too old and beyond the number to keep."""
    oldest_ms = oldest_ms if ref.max_snapshot_age_ms is None else now_ms - ref.max_snapshot_age_ms
    min_count = min_count if ref.min_snapshots_to_keep is None else ref.min_snapshots_to_keep
    for count, snapshot in enumerate(ancestors(metadata, ref.snapshot_id)):
        if count >= min_count and snapshot.timestamp_ms < oldest_ms:
            return
        yield snapshot.snapshot_id
