"""A table's snapshots as a commit graph: parents, operations, branches and tags.

`graph_layout.py` makes the drawing; `snapshot_history.py` has the snapshots by age, with both logs. Spec: Snapshots; Snapshot References.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from icefloe.commit.staged_snapshot import PUBLISHED_WAP_ID, WAP_ID
from icefloe.display.report import Column, Grid, Report
from icefloe.display.reportable import MOST_LINES, Reportable
from icefloe.formatting import count_text, time_text
from icefloe.inspect.graph_layout import draw, newest_first
from icefloe.inspect.table_overview import summary_number
from icefloe.operations.loaded_table import TableReader
from icefloe.spec.metadata.snapshot import SOURCE_SNAPSHOT_ID, Snapshot, engine_of
from icefloe.spec.metadata.snapshot_ref import MAIN, SnapshotRef, refs_by_snapshot
from icefloe.spec.metadata.table_history import reachable_ids


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One snapshot of a commit graph. Counts are of rows; None if the summary has none.

    Attributes:
        parent_snapshot_id: The id of the parent, even if the parent has expired; None if there is none.
        parent_is_expired: Whether the table no longer has the parent.
        branches: The branches whose newest snapshot this is.
        tags: The tags that name this snapshot.
        is_current: Whether this is the current snapshot.
        is_staged: Whether the snapshot has a WAP id and is in the history of no branch or tag.
        is_reachable: Whether the snapshot is in the history of a branch or tag.
        wap_id: The id under which the snapshot was staged (write-audit-publish).
        published_wap_id: The id of the staged snapshot that this snapshot publishes.
        source_snapshot_id: The snapshot that this snapshot was cherry-picked from.
        lines: The lines of the drawing for this snapshot: its own line and the lines below it.
    """

    snapshot_id: int
    parent_snapshot_id: int | None
    parent_is_expired: bool
    timestamp_ms: int
    operation: str | None
    added_records: int | None
    deleted_records: int | None
    total_records: int | None
    branches: tuple[str, ...]
    tags: tuple[str, ...]
    is_current: bool
    is_staged: bool
    is_reachable: bool
    wap_id: str | None
    published_wap_id: str | None
    source_snapshot_id: str | None
    engine: str | None
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CommitGraph(Reportable):
    """The snapshots of a commit graph, from the newest to the oldest; each comes after all of its children."""

    table: str
    is_graph: bool
    commits: tuple[Commit, ...]

    def report(self, most: int | None = MOST_LINES) -> Report:
        """Return the report, with the lines of the drawing if `is_graph` is true.

        Args:
            most: The greatest number of snapshots; None for all.
        """
        kept = self.commits if most is None else self.commits[:most]
        columns: tuple[Column, ...] = (
            Column("snapshot", whole=True),
            Column("made", whole=True, rank=1),
            Column("operation"),
            Column("rows +", is_number=True, rank=3),
            Column("rows -", is_number=True, rank=4),
            Column("rows", is_number=True, rank=2),
            Column("refs"),
        )
        rows = []
        for commit in kept:
            cells = _cells(commit)
            rows += (
                [(line, *(cells if line is commit.lines[0] else ("",) * len(cells))) for line in commit.lines] if self.is_graph else [cells]
            )
        if self.is_graph:
            columns = (Column("", whole=True), *columns)
        shown = Grid("", columns, tuple(rows), len(self.commits) - len(kept))
        return Report(f"{'commits' if self.is_graph else 'history'} of {self.table}", (shown,))


def log(reader: TableReader, ref: str | int | None = None, *, graph: bool = False) -> CommitGraph:
    """Return the snapshots that lead to a branch, a tag or a snapshot.

    Args:
        reader: The table.
        ref: A branch, a tag or a snapshot id; `main` by default.
        graph: Return every snapshot of the table, with the drawing.

    Returns:
        The snapshots, newest first.

    Raises:
        NoSuchSnapshotError: The snapshot, branch or tag does not exist.
    """
    metadata = reader.metadata
    listed: Mapping[int, Snapshot] = {
        snapshot.snapshot_id: snapshot for snapshot in (metadata.snapshots if graph and ref is None else reader.ancestors(ref))
    }
    parents = {snapshot_id: snapshot.parent_snapshot_id for snapshot_id, snapshot in listed.items()}
    in_order = sorted(listed.values(), key=lambda snapshot: (snapshot.timestamp_ms, snapshot.sequence_number))
    age = {snapshot.snapshot_id: (snapshot.timestamp_ms << 20) + place for place, snapshot in enumerate(in_order)}
    order = newest_first(parents, age)
    reached = reachable_ids(metadata, (ref.snapshot_id for ref in metadata.refs.values()))
    refs = refs_by_snapshot(metadata.refs)
    lines = draw(order, parents)
    return CommitGraph(
        table=reader.full_name,
        is_graph=graph,
        commits=tuple(
            _commit(reader, listed[snapshot_id], refs.get(snapshot_id, ()), snapshot_id in reached, (line, *below))
            for snapshot_id, (line, below) in zip(order, lines, strict=True)
        ),
    )


def _commit(
    reader: TableReader, snapshot: Snapshot, refs: Sequence[tuple[str, SnapshotRef]], is_reachable: bool, lines: tuple[str, ...]
) -> Commit:
    summary, parent = snapshot.summary, snapshot.parent_snapshot_id
    return Commit(
        snapshot_id=snapshot.snapshot_id,
        parent_snapshot_id=parent,
        parent_is_expired=parent is not None and reader.metadata.snapshots.position(parent) is None,
        timestamp_ms=snapshot.timestamp_ms,
        operation=snapshot.operation,
        added_records=summary_number(summary, "added-records"),
        deleted_records=summary_number(summary, "deleted-records"),
        total_records=summary_number(summary, "total-records"),
        branches=tuple(sorted((name for name, ref in refs if ref.is_branch), key=lambda name: (name != MAIN, name))),
        tags=tuple(name for name, ref in refs if not ref.is_branch),
        is_current=snapshot.snapshot_id == reader.metadata.current_snapshot_id,
        is_staged=WAP_ID in summary and not is_reachable,
        is_reachable=is_reachable,
        wap_id=summary.get(WAP_ID),
        published_wap_id=summary.get(PUBLISHED_WAP_ID),
        source_snapshot_id=summary.get(SOURCE_SNAPSHOT_ID),
        engine=engine_of(summary),
        lines=lines,
    )


def _cells(commit: Commit) -> tuple[str, ...]:
    notes = [*commit.branches, *(f"tag {name}" for name in commit.tags)]
    if commit.is_staged:
        notes.append(f"staged as {commit.wap_id}")
    elif not commit.is_reachable:
        notes.append("on no branch")
    if commit.published_wap_id is not None:
        notes.append(f"published {commit.published_wap_id}")
    if commit.source_snapshot_id is not None:
        notes.append(f"picked from {commit.source_snapshot_id}")
    if commit.parent_is_expired:
        notes.append(f"parent {commit.parent_snapshot_id} expired")
    return (
        str(commit.snapshot_id),
        time_text(commit.timestamp_ms),
        commit.operation or "unknown",
        count_text(commit.added_records or 0),
        count_text(commit.deleted_records or 0),
        count_text(commit.total_records),
        ", ".join(notes),
    )
