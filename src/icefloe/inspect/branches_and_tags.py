"""Branches and tags of a table: their snapshots, their distance from `main`, and their retention; and the table's properties.

Spec: Snapshot References; Snapshot Retention Policy; Table Metadata Fields (`properties`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from icefloe.display.report import Column, Report, grid
from icefloe.display.reportable import MOST_LINES, Reportable
from icefloe.formatting import count_text, time_text
from icefloe.operations.loaded_table import TableReader
from icefloe.spec.metadata.snapshot import Snapshot
from icefloe.spec.metadata.snapshot_ref import MAIN
from icefloe.spec.metadata.table_history import ancestors


@dataclass(frozen=True, slots=True, kw_only=True)
class RefOverview:
    """One branch or tag.

    Attributes:
        name: The name of the branch or tag.
        type: `branch` or `tag`.
        snapshot_id: The snapshot that it names.
        timestamp_ms: The time of the snapshot in milliseconds since 1970; None if the snapshot is missing.
        operation: The operation of the snapshot; None if it is unknown.
        ahead: The number of snapshots in its history that are not in the history of `main`; None if expired snapshots hide where the histories part.
        behind: The number of snapshots in the history of `main` that are not in its history; None in the same case.
        min_snapshots_to_keep: Its retention of snapshots; None for the table's default.
        max_snapshot_age_ms: The age up to which its snapshots are kept, in milliseconds; None for the table's default.
        max_ref_age_ms: The age up to which it is kept itself, in milliseconds; None for the table's default.
    """

    name: str
    type: str
    snapshot_id: int
    timestamp_ms: int | None
    operation: str | None
    ahead: int | None
    behind: int | None
    min_snapshots_to_keep: int | None
    max_snapshot_age_ms: int | None
    max_ref_age_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Refs(Reportable):
    """Every branch and tag of a table, in this order: `main`, the other branches by name, the tags by name."""

    table: str
    refs: tuple[RefOverview, ...]

    def report(self, most: int | None = MOST_LINES) -> Report:
        columns = (
            Column("name", whole=True),
            Column("type", rank=2),
            Column("snapshot", whole=True),
            Column("made", whole=True, rank=3),
            Column("operation", rank=4),
            Column("ahead", is_number=True, rank=5),
            Column("behind", is_number=True, rank=5),
            Column("kept", rank=1),
        )
        return Report(f"branches and tags of {self.table}", (grid("", columns, [_row(ref) for ref in self.refs], most),))


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Properties(Reportable):
    """The properties that are set on a table, sorted by name."""

    table: str
    properties: Mapping[str, str]

    def report(self, most: int | None = MOST_LINES) -> Report:
        return Report(
            f"properties of {self.table}", (grid("", (Column("property", whole=True), Column("value")), [*self.properties.items()], most),)
        )


def refs(reader: TableReader) -> Refs:
    """Return a table's branches and tags, from its metadata alone.

    Args:
        reader: The table.

    Returns:
        The branches and tags, each with its distance from `main` and its retention.
    """
    metadata = reader.metadata
    of_main = list(ancestors(metadata, metadata.refs[MAIN].snapshot_id)) if MAIN in metadata.refs else []
    places = {snapshot.snapshot_id: place for place, snapshot in enumerate(of_main)}
    rows = []
    for name, ref in sorted(metadata.refs.items(), key=lambda item: (item[0] != MAIN, item[1].type, item[0])):
        ahead, behind = _distance(ancestors(metadata, ref.snapshot_id), of_main, places)
        snapshot = metadata.snapshot_by_id(ref.snapshot_id)
        rows.append(
            RefOverview(
                name=name,
                type=ref.type,
                snapshot_id=ref.snapshot_id,
                timestamp_ms=snapshot.timestamp_ms if snapshot else None,
                operation=snapshot.operation if snapshot else None,
                ahead=ahead,
                behind=behind,
                min_snapshots_to_keep=ref.min_snapshots_to_keep,
                max_snapshot_age_ms=ref.max_snapshot_age_ms,
                max_ref_age_ms=ref.max_ref_age_ms,
            )
        )
    return Refs(table=reader.full_name, refs=tuple(rows))


def properties(reader: TableReader) -> Properties:
    """Return the properties that are set on a table.

    Args:
        reader: The table.

    Returns:
        The properties, sorted by name.
    """
    return Properties(table=reader.full_name, properties=dict(sorted(reader.properties.items())))


def _distance(history: Iterable[Snapshot], of_main: Sequence[Snapshot], places: Mapping[int, int]) -> tuple[int | None, int | None]:
    """Compare the history of a branch or tag with the history of `main`.

    Args:
        history: The snapshots of the branch or tag, newest first. They are read up to the first one that `main` has too.
        of_main: The snapshots of `main`, newest first.
        places: The position of each snapshot id in `of_main`.

    Returns:
        How many snapshots only the branch or tag has, and how many only `main` has; (None, None) if expired snapshots hide it.
    """
    ahead, last = 0, None
    for last in history:
        if last.snapshot_id in places:
            return ahead, places[last.snapshot_id]
        ahead += 1
    # If the histories have no common snapshot, an expired snapshot may have been one.
    is_cut = any(oldest.parent_snapshot_id is not None for oldest in (last, *of_main[-1:]) if oldest is not None)
    return (None, None) if is_cut else (ahead, len(of_main))


def _row(ref: RefOverview) -> tuple[str, ...]:
    kept = [
        f"at least {count_text(ref.min_snapshots_to_keep, 'snapshot')}" if ref.min_snapshots_to_keep is not None else "",
        f"snapshots {duration_text(ref.max_snapshot_age_ms)}" if ref.max_snapshot_age_ms is not None else "",
        f"the {ref.type} {duration_text(ref.max_ref_age_ms)}" if ref.max_ref_age_ms is not None else "",
    ]
    return (
        ref.name,
        ref.type,
        str(ref.snapshot_id),
        time_text(ref.timestamp_ms),
        ref.operation or "unknown",
        count_text(ref.ahead),
        count_text(ref.behind),
        ", ".join(text for text in kept if text) or "by the table's properties",
    )


def duration_text(milliseconds: int) -> str:
    """Return a duration as `7d`, `12h`, `90m`, `5s` or `250ms`, in the largest unit that gives a whole number."""
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)):
        if milliseconds % size == 0:
            return f"{milliseconds // size:,}{unit}"
    return f"{milliseconds:,}ms"
