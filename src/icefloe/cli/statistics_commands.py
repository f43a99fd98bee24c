"""The commands `compute-table-stats` and `compute-partition-stats`, which print what `show statistics` does. Spec: Table Statistics; Partition Statistics."""

from dataclasses import dataclass
from typing import Annotated

import typer

import icefloe.inspect as look
from icefloe.cli.maintenance_commands import fields_of
from icefloe.cli.shared_options import SnapshotName
from icefloe.cli.table_command import changes_table
from icefloe.display.report import Facts, Report
from icefloe.display.reportable import MOST_LINES, Reportable
from icefloe.formatting import count_text, size_text
from icefloe.inspect.lookup import snapshot_id_of
from icefloe.operations.statistics_plan import StatisticsPlan
from icefloe.table.table import Table

Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--column", metavar="NAME", help="A column to count; may be repeated. By default all top-level columns of primitive types."
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be read, and change nothing.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedStatistics(Reportable):
    """What a computation of statistics would read, as `statistics_plan.py` describes it. `files` are of the kind `of`."""

    table: str
    of: str
    snapshot_id: int | None = None
    columns: tuple[str, ...] = ()
    files: int = 0
    size_in_bytes: int = 0
    based_on: int | None = None

    def report(self, most: int | None = MOST_LINES) -> Report:  # noqa: ARG002  the report has no list
        is_there = self.snapshot_id is not None and self.based_on == self.snapshot_id
        read = f"{count_text(self.files, self.of)} of {size_text(self.size_in_bytes)}"
        pairs = (
            ("snapshot", "none" if self.snapshot_id is None else str(self.snapshot_id)),
            ("columns", ", ".join(self.columns)),
            ("would be read", "nothing: the snapshot has these statistics already" if is_there else read),
            ("on top of", "" if self.based_on is None or is_there else f"the statistics of snapshot {self.based_on}"),
        )
        return Report(f"statistics of {self.table}", (Facts(tuple(pair for pair in pairs if pair[1])),))


def _planned(table: Table, plan: StatisticsPlan | None, of: str) -> PlannedStatistics:
    return PlannedStatistics(table=table.full_name, of=of, **({} if plan is None else fields_of(plan)))


@changes_table
def compute_table_stats(opened: Table, columns: Columns = None, snapshot: SnapshotName = None, dry_run: DryRun = False) -> Reportable:
    """Count the distinct values of columns, and commit them as statistics of the snapshot."""
    snapshot_id = snapshot_id_of(opened, snapshot)
    if dry_run:
        return _planned(opened, opened.plan_statistics(columns or None, snapshot_id), "data file")
    opened.compute_statistics(columns or None, snapshot_id)
    return look.statistics(opened, snapshot_id)


@changes_table
def compute_partition_stats(opened: Table, snapshot: SnapshotName = None, dry_run: DryRun = False) -> Reportable:
    """Count rows, files and deletes of each partition, on top of the last such statistics, and commit them."""
    snapshot_id = snapshot_id_of(opened, snapshot)
    if dry_run:
        return _planned(opened, opened.plan_partition_statistics(snapshot_id), "manifest")
    opened.compute_partition_statistics(snapshot_id)
    return look.statistics(opened, snapshot_id)
