"""The retention policy: which branches, tags and snapshots of a table go when its history is cut, and which a reference still needs.

It only chooses: the commit is `kernel/commit/snapshot_expiry.py`, and which files nobody needs then `icefloe.table.expiry.file_cleanup`.
Spec: Snapshot Retention Policy; Snapshot References.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from icefloe.errors import InvalidInputError, Problem
from icefloe.kernel.metadata import table_properties
from icefloe.kernel.metadata.snapshot_ref import MAIN, SnapshotRef
from icefloe.kernel.metadata.table_history import ancestors
from icefloe.kernel.metadata.table_metadata import TableMetadata


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """What is asked for, beside what the table's properties and its references say.

    `older_than_ms` (milliseconds since 1970-01-01 UTC) stands in for `history.expire.max-snapshot-age-ms`, `retain_last` for
    `history.expire.min-snapshots-to-keep`; a branch that has settings of its own keeps to them. Snapshots of `snapshot_ids` go whatever their age, unless a
    reference names them. Without `by_policy` they alone go, and no reference does.
    """

    older_than_ms: int | None = None
    retain_last: int | None = None
    snapshot_ids: tuple[int, ...] = ()
    by_policy: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired:
    """What goes: names of branches and tags, ids of snapshots in the order of the metadata."""

    refs: tuple[str, ...] = ()
    snapshot_ids: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.refs or self.snapshot_ids)


def expired(metadata: TableMetadata, retention: Retention, now_ms: int) -> Expired:
    """What goes at a time, in milliseconds since 1970-01-01 UTC. Ids that are not in the table are passed over: they went before.

    Snapshots that no kept branch leads to and no kept tag names go by age alone.

    Raises:
        InvalidInputError: an id is that of a snapshot which a kept branch or tag names; each is listed.
        InvalidPropertyError: a property of retention is not what it may be.
    """
    refs = _kept_refs(metadata, now_ms) if retention.by_policy else metadata.refs
    _refuse_needed(refs, retention.snapshot_ids)
    gone = set(retention.snapshot_ids)
    if retention.by_policy:
        gone |= metadata.snapshots.ids() - set(_kept_snapshot_ids(metadata, refs, retention, now_ms))
    return Expired(
        refs=tuple(name for name in metadata.refs if name not in refs),
        snapshot_ids=tuple(snapshot_id for snapshot_id in metadata.snapshots.ids() if snapshot_id in gone),
    )


def _kept_refs(metadata: TableMetadata, now_ms: int) -> Mapping[str, SnapshotRef]:
    """`main`, and those whose snapshot is not older than they may be. One that names no snapshot of the table is of no use and goes."""
    by_property = table_properties.MAX_REF_AGE_MS.read(metadata.properties)
    kept = {}
    for name, ref in metadata.refs.items():
        snapshot = metadata.snapshot_by_id(ref.snapshot_id)
        most_ms = by_property if ref.max_ref_age_ms is None else ref.max_ref_age_ms
        if name == MAIN or (snapshot is not None and now_ms - snapshot.timestamp_ms <= most_ms):
            kept[name] = ref
    return kept


def _refuse_needed(refs: Mapping[str, SnapshotRef], snapshot_ids: tuple[int, ...]) -> None:
    wanted = set(snapshot_ids)
    needed = [(name, ref) for name, ref in sorted(refs.items()) if ref.snapshot_id in wanted]
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


def _kept_snapshot_ids(metadata: TableMetadata, refs: Mapping[str, SnapshotRef], retention: Retention, now_ms: int) -> Iterator[int]:
    oldest_ms = retention.older_than_ms
    if oldest_ms is None:
        oldest_ms = now_ms - table_properties.MAX_SNAPSHOT_AGE_MS.read(metadata.properties)
    least = table_properties.MIN_SNAPSHOTS_TO_KEEP.read(metadata.properties) if retention.retain_last is None else retention.retain_last
    referenced: set[int] = set()
    for ref in refs.values():
        yield ref.snapshot_id
        referenced.add(ref.snapshot_id)
        if ref.is_branch:
            referenced |= {snapshot.snapshot_id for snapshot in ancestors(metadata, ref.snapshot_id)}
            yield from _kept_of_branch(metadata, ref, oldest_ms=oldest_ms, least=least, now_ms=now_ms)
    for snapshot_id in metadata.snapshots.ids() - referenced:
        snapshot = metadata.snapshot_by_id(snapshot_id)
        if snapshot is not None and snapshot.timestamp_ms >= oldest_ms:
            yield snapshot_id


def _kept_of_branch(metadata: TableMetadata, ref: SnapshotRef, *, oldest_ms: int, least: int, now_ms: int) -> Iterator[int]:
    """From the head back, until one is both too old and beyond the number to keep: those before it go too, however young their clocks said."""
    oldest_ms = oldest_ms if ref.max_snapshot_age_ms is None else now_ms - ref.max_snapshot_age_ms
    least = least if ref.min_snapshots_to_keep is None else ref.min_snapshots_to_keep
    for count, snapshot in enumerate(ancestors(metadata, ref.snapshot_id)):
        if count >= least and snapshot.timestamp_ms < oldest_ms:
            return
        yield snapshot.snapshot_id
