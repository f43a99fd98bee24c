"""The display of snapshots: a snapshot as one line, a list of snapshots as a table; in notebooks as HTML.

`inspect/snapshot_history.py` has the complete history of a table. Spec: Snapshots (summary).
"""

from collections.abc import Iterable, Mapping, Sequence

from icefloe.display.figures.bars import Bar, Bars
from icefloe.display.html import html_of
from icefloe.display.report import Column, Grid, Report
from icefloe.display.text_table import text_table
from icefloe.formatting import MOST_SHOWN, count_text, short_text, time_text
from icefloe.operations.pyiceberg_compat import TableSnapshot
from icefloe.spec.metadata.snapshot import Snapshot, count_of
from icefloe.spec.metadata.snapshot_ref import MAIN, SnapshotRef

_LEAST_BARS = 2
_SECONDS = len("2026-01-31 12:00:00")
_COLUMNS = (
    Column("snapshot", is_number=True),
    Column("committed (UTC)"),
    Column("operation"),
    Column("rows +", is_number=True),
    Column("rows -", is_number=True),
    Column("rows", is_number=True),
    Column("files", is_number=True),
)


class SnapshotList(list[TableSnapshot]):
    """A list of snapshots that is displayed as a table."""

    def __init__(self, snapshots: Iterable[TableSnapshot], table_name: str, *, newest_first: bool = False) -> None:
        super().__init__(snapshots)
        self._table_name = table_name
        self._newest_first = newest_first

    def __repr__(self) -> str:
        return text_table(self._grid())

    def _repr_html_(self) -> str:
        return html_of(Report("", (self._grid(),)))

    def _grid(self) -> Grid:
        shown: Sequence[TableSnapshot] = self[:MOST_SHOWN] if self._newest_first else self[-MOST_SHOWN:]
        number = count_text(len(self), "snapshot") if self else "no snapshots"
        which = "" if len(shown) == len(self) else f", the newest {len(shown)}"
        order = "" if len(self) < 2 else ", newest first" if self._newest_first else ", oldest first"
        # A column of refs is shown only if there are tags or other branches than `main`.
        refs = self[0].table_metadata.refs if self else {}
        with_refs = any(name != MAIN for name in refs)
        rows = tuple(_row(snapshot) + ((_refs_text(snapshot, refs),) if with_refs else ()) for snapshot in shown)
        return Grid(f"{number} of {self._table_name}{which}{order}", (*_COLUMNS, *([Column("refs")] if with_refs else [])), rows)


def growth_figure(snapshots: Sequence[Snapshot], table_name: str) -> Bars | None:
    """Return a bar chart of how many rows the table had after each of its newest snapshots. Return None if fewer than two summaries have a row count.

    Args:
        snapshots: The snapshots, the oldest first.
        table_name: The name of the table, for the title.
    """
    counted = [(snapshot, count_of(snapshot.summary.get("total-records"))) for snapshot in snapshots[-MOST_SHOWN:]]
    known = [(snapshot, count) for snapshot, count in counted if count is not None]
    if len(known) < _LEAST_BARS:
        return None
    bars = tuple(
        Bar(
            name=f"{snapshot.sequence_number}",
            count=count,
            tip=f"{time_text(snapshot.timestamp_ms)}, {snapshot.operation or 'unknown'}: {count:,} rows",
        )
        for snapshot, count in known
    )
    last = known[-1][1]
    return Bars(
        title=f"Rows of {short_text(table_name)}",
        summary=f"{count_text(last, 'row')} after the newest of {count_text(len(snapshots), 'snapshot')}, deleted ones included.",
        bars=bars,
        unit="rows",
        axis="snapshots by their sequence numbers",
    )


def _refs_text(snapshot: Snapshot, refs: Mapping[str, SnapshotRef]) -> str:
    return short_text(", ".join(sorted(name for name, ref in refs.items() if ref.snapshot_id == snapshot.snapshot_id)))


def _row(snapshot: Snapshot) -> tuple[str, ...]:
    return (
        str(snapshot.snapshot_id),
        time_text(snapshot.timestamp_ms)[:_SECONDS],
        short_text(snapshot.operation or "unknown"),
        *(count_text(count_of(snapshot.summary.get(key, "0"))) for key in ("added-records", "deleted-records")),
        *(count_text(count_of(snapshot.summary.get(key))) for key in ("total-records", "total-data-files")),
    )
