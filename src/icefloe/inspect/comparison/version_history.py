"""The relation of two versions of a table, and the snapshots that led from one to the other. Spec: Snapshots."""

from collections.abc import Iterable
from dataclasses import dataclass

from icefloe.inspect.comparison.table_version import TableVersion
from icefloe.spec.metadata.snapshot import Snapshot, count_of, engine_of


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryStep:
    """A snapshot between two versions. Counts are those of its summary; None if the summary has none.

    Attributes:
        side: `before` if only the first version has the snapshot in its history, `after` if only the second version has.
        snapshot_id: The id of the snapshot.
        timestamp_ms: The time of the snapshot in milliseconds since 1970.
        operation: The operation of the snapshot; None if unknown.
        added_rows: The number of rows in data files that the snapshot added.
        removed_rows: The number of rows in data files that the snapshot removed.
        added_files: The number of data files that the snapshot added.
        removed_files: The number of data files that the snapshot removed.
        engine: The engine that committed the snapshot; None if unknown.
    """

    side: str
    snapshot_id: int
    timestamp_ms: int
    operation: str | None
    added_rows: int | None
    removed_rows: int | None
    added_files: int | None
    removed_files: int | None
    engine: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionHistory:
    """The relation of two versions of a table, and the snapshots between them.

    Attributes:
        relation: `same`, `later` (the second version follows the first), `earlier`, `diverged`, `unknown` (the history has expired) or `other table`.
        common_snapshot_id: The newest snapshot that is in the history of both versions; None if no such snapshot is known.
        steps: The snapshots that only one of the versions has in its history, oldest first.
    """

    relation: str
    common_snapshot_id: int | None
    steps: tuple[HistoryStep, ...]


def version_history(before: TableVersion, after: TableVersion, *, is_one_table: bool) -> VersionHistory:
    """Return the relation of two versions.

    Args:
        before: The first version.
        after: The second version.
        is_one_table: Whether both are versions of the same table.
    """
    if not is_one_table:
        return VersionHistory(relation="other table", common_snapshot_id=None, steps=())
    old, new = before.history(), after.history()
    old_ids, new_ids = {snapshot.snapshot_id for snapshot in old}, {snapshot.snapshot_id for snapshot in new}
    common = next((snapshot.snapshot_id for snapshot in new if snapshot.snapshot_id in old_ids), None)
    left = [snapshot for snapshot in old if snapshot.snapshot_id not in new_ids]
    right = [snapshot for snapshot in new if snapshot.snapshot_id not in old_ids]
    if not left and not right:
        relation = "same"
    elif common is None and old and new:
        relation = "unknown"
    else:
        relation = "later" if not left else "earlier" if not right else "diverged"
    steps = (*_steps(reversed(left), "before"), *_steps(reversed(right), "after"))
    return VersionHistory(relation=relation, common_snapshot_id=common, steps=steps)


def _steps(snapshots: Iterable[Snapshot], side: str) -> list[HistoryStep]:
    return [
        HistoryStep(
            side=side,
            snapshot_id=snapshot.snapshot_id,
            timestamp_ms=snapshot.timestamp_ms,
            operation=snapshot.operation,
            added_rows=count_of(snapshot.summary.get("added-records")),
            removed_rows=count_of(snapshot.summary.get("deleted-records")),
            added_files=count_of(snapshot.summary.get("added-data-files")),
            removed_files=count_of(snapshot.summary.get("deleted-data-files")),
            engine=engine_of(snapshot.summary),
        )
        for snapshot in snapshots
    ]
