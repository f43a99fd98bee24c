"""Write, audit, publish: snapshots that are staged under an id of their own, looked at, and then published, once.

Publishing is `cherry_pick.py`; who asks for staging is `icefloe.table.rows.staged_writes`.
Spec: Appendix F, Other Fields (`wap.id`, `published-wap-id`).
"""

from collections.abc import Iterable

from icefloe.errors import InvalidInputError, NoSuchSnapshotError
from icefloe.kernel.metadata.snapshot import Snapshot
from icefloe.kernel.metadata.table_history import ancestors
from icefloe.kernel.metadata.table_metadata import TableMetadata

WAP_ID = "wap.id"
PUBLISHED_WAP_ID = "published-wap-id"


def check_wap_id_is_new(base: TableMetadata, wap_id: str) -> None:
    """Raises `InvalidInputError` where a snapshot of the table was staged or published under this id before."""
    taken = _with_wap_id(base.snapshots, wap_id)
    if taken is not None:
        raise InvalidInputError(
            f"the wap id {wap_id!r} was to be new, and snapshot {taken.snapshot_id} has it already",
            snapshot_id=taken.snapshot_id,
            next_step="stage under another id; a retry does not help",
        )


def published_as(base: TableMetadata, head: int | None, wap_id: str) -> Snapshot | None:
    """The ancestor of a branch's head by which a wap id was published; None where it was not."""
    return _with_wap_id(ancestors(base, head), wap_id)


def staged_as(base: TableMetadata, wap_id: str) -> Snapshot:
    """The one snapshot that was staged under a wap id. Raises `NoSuchSnapshotError` for none, `InvalidInputError` for several."""
    found = [snapshot for snapshot in base.snapshots if snapshot.summary.get(WAP_ID) == wap_id]
    if not found:
        known = [snapshot.summary[WAP_ID] for snapshot in base.snapshots if WAP_ID in snapshot.summary]
        raise NoSuchSnapshotError(
            f"no snapshot was staged with the wap id {wap_id!r}", next_step=f"there are: {', '.join(known[-10:]) or 'none'}"
        )
    if len(found) > 1:
        ids = ", ".join(str(snapshot.snapshot_id) for snapshot in found)
        raise InvalidInputError(
            f"the wap id {wap_id!r} was to be one snapshot's, and {len(found)} have it: {ids}",
            next_step="choose one of them with cherry_pick(snapshot_id)",
        )
    return found[0]


def _with_wap_id(snapshots: Iterable[Snapshot], wap_id: str) -> Snapshot | None:
    return next(
        (snapshot for snapshot in snapshots if wap_id in (snapshot.summary.get(WAP_ID), snapshot.summary.get(PUBLISHED_WAP_ID))), None
    )
