"""Write-audit-publish (WAP): finds snapshots that were staged under a wap id, and checks that an id is staged and published only once.

`cherry_pick.py` publishes a staged snapshot; `icefloe.operations.rows.write_context` decides which writes are staged. JAVA: WapUtil.
Spec: Appendix F, Other Fields (`wap.id`, `published-wap-id`).
"""

from collections.abc import Iterable

from icefloe.errors import InvalidInputError, NoSuchSnapshotError
from icefloe.spec.metadata.snapshot import Snapshot
from icefloe.spec.metadata.table_history import ancestors
from icefloe.spec.metadata.table_metadata import TableMetadata

WAP_ID = "wap.id"
PUBLISHED_WAP_ID = "published-wap-id"


def check_wap_id_is_new(base: TableMetadata, wap_id: str) -> None:
    """Raise `InvalidInputError` if a snapshot of the table was staged or published under this id before."""
    existing = _with_wap_id(base.snapshots, wap_id)
    if existing is not None:
        raise InvalidInputError(
            f"the wap id {wap_id!r} must be new, but snapshot {existing.snapshot_id} has it already",
            snapshot_id=existing.snapshot_id,
            next_step="stage under another id; a retry does not help",
        )


def published_as(base: TableMetadata, head: int | None, wap_id: str) -> Snapshot | None:
    """Return the snapshot in the history of a branch's head that published a wap id; None if there is none."""
    return _with_wap_id(ancestors(base, head), wap_id)


def staged_as(base: TableMetadata, wap_id: str) -> Snapshot:
    """Return the snapshot that was staged under a wap id. Raises `NoSuchSnapshotError` if there is none, `InvalidInputError` if there are several."""
    staged = [snapshot for snapshot in base.snapshots if snapshot.summary.get(WAP_ID) == wap_id]
    if not staged:
        wap_ids = [snapshot.summary[WAP_ID] for snapshot in base.snapshots if WAP_ID in snapshot.summary]
        raise NoSuchSnapshotError(
            f"no snapshot was staged with the wap id {wap_id!r}", next_step=f"there are: {', '.join(wap_ids[-10:]) or 'none'}"
        )
    if len(staged) > 1:
        ids = ", ".join(str(snapshot.snapshot_id) for snapshot in staged)
        raise InvalidInputError(
            f"the wap id {wap_id!r} is not unique: {len(staged)} snapshots have it: {ids}",
            next_step="choose one of them with cherry_pick(snapshot_id)",
        )
    return staged[0]


def _with_wap_id(snapshots: Iterable[Snapshot], wap_id: str) -> Snapshot | None:
    return next(
        (snapshot for snapshot in snapshots if wap_id in (snapshot.summary.get(WAP_ID), snapshot.summary.get(PUBLISHED_WAP_ID))), None
    )
