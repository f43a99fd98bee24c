"""The commands `compute-table-stats` and `compute-partition-stats`, which print what `show statistics` does. Spec: Table Statistics; Partition Statistics."""

from typing import Annotated

import typer

import icefloe.inspect as look
from icefloe.cli.catalog_choice import chosen_snapshot
from icefloe.cli.shared_options import SnapshotName
from icefloe.cli.table_command import changes_table
from icefloe.inspect.inspection import View
from icefloe.table.table import Table

Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--column", metavar="NAME", help="A column to count; may be repeated. By default all top-level columns of primitive types."
    ),
]


@changes_table
def compute_table_stats(opened: Table, columns: Columns = None, snapshot: SnapshotName = None) -> View:
    """Count the distinct values of columns, and commit them as statistics of the snapshot."""
    snapshot_id = chosen_snapshot(opened, snapshot)
    opened.compute_statistics(columns or None, snapshot_id)
    return look.statistics(opened, snapshot_id)


@changes_table
def compute_partition_stats(opened: Table, snapshot: SnapshotName = None) -> View:
    """Count rows, files and deletes of each partition, on top of the last such statistics, and commit them."""
    snapshot_id = chosen_snapshot(opened, snapshot)
    opened.compute_partition_statistics(snapshot_id)
    return look.statistics(opened, snapshot_id)
