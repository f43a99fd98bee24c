"""The commands that maintain, move and create tables, made from the procedures of the same names; and `maintain`, which shows its progress.

Spec: Snapshot Retention Policy; Snapshots (operation replace); Manifests; Table Statistics; Partition Statistics; Paths in Metadata.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

import icefloe.inspect as look
from icefloe.catalog.catalog import Catalog
from icefloe.cli.failure_output import AFTER_EXPIRY
from icefloe.cli.screen import step
from icefloe.cli.shared_options import SnapshotName, complete_name
from icefloe.cli.table_command import changes_table, changes_tables_of_catalog, procedure_command, takes_options_of
from icefloe.display.report import Part, Prose, Report
from icefloe.display.reportable import MOST_LINES, Reportable, json_ready
from icefloe.errors import NoSuchNamespaceError
from icefloe.formatting import count_text
from icefloe.inspect.lookup import snapshot_id_of
from icefloe.maintenance.maintenance_action import MaintenanceProgress
from icefloe.maintenance.maintenance_report import MaintenanceReport
from icefloe.operations.statistics_plan import StatisticsPlan
from icefloe.procedures import maintenance_procedures, moving_procedures
from icefloe.spec.identifier import dotted
from icefloe.table.table import Table

expire = procedure_command(maintenance_procedures.expire_snapshots, after_interrupt=AFTER_EXPIRY)
rewrite_data_files = procedure_command(maintenance_procedures.rewrite_data_files)
convert_equality_deletes = procedure_command(maintenance_procedures.convert_equality_deletes)
rewrite_position_delete_files = procedure_command(maintenance_procedures.rewrite_position_delete_files)
remove_dangling_deletes = procedure_command(maintenance_procedures.remove_dangling_deletes)
rewrite_manifests = procedure_command(maintenance_procedures.rewrite_manifests)
remove_orphan_files = procedure_command(maintenance_procedures.remove_orphan_files)
rewrite_table_path = procedure_command(moving_procedures.rewrite_table_path)
snapshot = procedure_command(moving_procedures.snapshot)
migrate = procedure_command(moving_procedures.migrate)

DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be read, and change nothing.")]
TableOrNamespace = Annotated[
    str,
    typer.Argument(
        metavar="[TABLE|NAMESPACE]",
        help="A table, or a namespace; without it the whole catalog.",
        show_default=False,
        autocompletion=complete_name,
    ),
]


@changes_table
@takes_options_of(maintenance_procedures.compute_table_stats)
def compute_table_stats(
    opened: Table, *, columns: Sequence[str] | None = None, snapshot: SnapshotName = None, dry_run: DryRun = False
) -> Reportable:
    """Count the distinct values of columns, and commit them as statistics of the snapshot."""
    snapshot_id = snapshot_id_of(opened, snapshot)
    if dry_run:
        return opened.plan_statistics(columns or None, snapshot_id) or StatisticsPlan(table=opened.full_name, of="data file")
    opened.compute_statistics(columns or None, snapshot_id)
    return look.statistics(opened, snapshot_id)


@changes_table
def compute_partition_stats(opened: Table, snapshot: SnapshotName = None, dry_run: DryRun = False) -> Reportable:
    """Count rows, files and deletes of each partition, on top of the last such statistics, and commit them."""
    snapshot_id = snapshot_id_of(opened, snapshot)
    if dry_run:
        return opened.plan_partition_statistics(snapshot_id) or StatisticsPlan(table=opened.full_name, of="manifest")
    opened.compute_partition_statistics(snapshot_id)
    return look.statistics(opened, snapshot_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintenance(Reportable):
    """The reports of a maintenance run, one for each table; with `dry_run` they state what the run would do."""

    name: str
    dry_run: bool
    tables: tuple[MaintenanceReport, ...]

    @property
    def has_faults(self) -> bool:
        """Whether an action failed for any table."""
        return any(table.has_faults for table in self.tables)

    def to_dict(self) -> dict[str, Any]:
        """Return every field, including those of the tables' reports."""
        return {**json_ready(self), "tables": [table.to_dict() for table in self.tables]}

    def report(self, most: int | None = MOST_LINES) -> Report:
        parts: list[Part] = [part for table in self.tables for part in table.parts(most)]
        failed = sum(table.has_faults for table in self.tables)
        planned = ". Nothing was changed. Each action is planned for the present table; earlier actions may leave it less to do."
        parts.append(Prose(f"{count_text(len(self.tables), 'table')}, {failed:,} with failures" + (planned if self.dry_run else "")))
        return Report(f"{'plan of maintenance' if self.dry_run else 'maintenance'} of {self.name}", tuple(parts))


@changes_tables_of_catalog
@takes_options_of(maintenance_procedures.maintain)
def maintain(opened: Catalog, name: TableOrNamespace = "", **arguments: Any) -> Reportable:
    """Do what keeps tables quick to read, where it pays: expiry, deletes, compaction, manifests, statistics."""
    progress = MaintenanceProgress()
    with step(f"Maintaining {name or opened.name}", lambda: (progress.done, progress.total), "pieces of work", in_pipes=False):
        place = {"namespace" if _is_namespace(opened, name) else "table": name}
        reports = maintenance_procedures.maintain.function(opened, **place, **arguments, progress=progress)
    return Maintenance(name=name or opened.name, dry_run=arguments["plan"], tables=tuple(reports))


def _is_namespace(opened: Catalog, name: str) -> bool:
    """Return whether a name is empty or the name of a namespace. A name of several levels that is not a namespace counts as the name of a table.

    Raises:
        NoSuchNamespaceError: The name has one level, and there is no such namespace.
    """
    if name and len(opened.levels(name)) > 1:
        return not opened.table_exists(name) and opened.namespace_exists(name)
    if name and not opened.namespace_exists(name):
        namespaces = ", ".join(dotted(namespace) for namespace in opened.list_namespaces()[:MOST_LINES]) or "none"
        raise NoSuchNamespaceError(
            f"there is no namespace {name!r} in catalog {opened.name!r}",
            next_step=f"write a table as namespace.table; the namespaces are: {namespaces}",
        )
    return True
