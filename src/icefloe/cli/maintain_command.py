"""`icefloe maintain`: keeps a table, a namespace or a whole catalog quick to read. Spec: Snapshots (operation replace); Snapshot Retention Policy."""

import sys
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from icefloe.catalog.catalog import Catalog
from icefloe.cli.screen import step
from icefloe.cli.shared_options import complete_name
from icefloe.cli.table_command import changes_tables_of_catalog
from icefloe.display.report import Column, Part, Prose, Report, grid
from icefloe.display.reportable import MOST_LINES, Reportable, json_ready
from icefloe.errors import NoSuchNamespaceError
from icefloe.formatting import count_text, shortened, size_text
from icefloe.maintenance.maintain import MaintenanceArguments, maintain_table
from icefloe.maintenance.maintenance_action import MaintenanceProgress
from icefloe.maintenance.maintenance_report import ActionReport, MaintenanceReport
from icefloe.procedures.maintain_catalog import maintain_catalog
from icefloe.stores.identifier import dotted

Name = Annotated[
    str,
    typer.Argument(
        metavar="[TABLE|NAMESPACE]",
        help="A table, or a namespace; without it the whole catalog.",
        show_default=False,
        autocompletion=complete_name,
    ),
]
PlanOnly = Annotated[bool, typer.Option("--plan", help="Print the decision with its figures, and change nothing.")]
MaxBytes = Annotated[
    int | None, typer.Option("--max-bytes", metavar="N", min=0, help="Rewrite files of at most so many bytes, those that pay most first.")
]
MaxMinutes = Annotated[float | None, typer.Option("--max-minutes", metavar="N", min=0, help="Start no further work after so many minutes.")]
MinAge = Annotated[
    float | None,
    typer.Option("--min-age-minutes", metavar="N", min=0, help="Leave partitions alone that younger commits changed; 10 by default."),
]
Orphans = Annotated[
    bool, typer.Option("--remove-orphan-files", help="List orphan files too, and delete those of lists that are seven days old.")
]
OfBranch = Annotated[str, typer.Option("--branch", metavar="NAME", help="The branch that is maintained.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintenance(Reportable):
    """What a run did, or with `dry_run` would do, by table."""

    name: str
    dry_run: bool
    tables: tuple[MaintenanceReport, ...]

    @property
    def has_faults(self) -> bool:
        """Whether an action of a table failed."""
        return any(one.has_failures for one in self.tables)

    def to_dict(self) -> dict[str, Any]:
        """Return every field; actions and states have the names that the properties and the procedure have."""
        return {
            **json_ready(self),
            "tables": [{**json_ready(table), "actions": [_named(one) for one in table.actions]} for table in self.tables],
        }

    def report(self, most: int | None = MOST_LINES) -> Report:
        parts: list[Part] = []
        for table in self.tables:
            parts += _parts(table, most)
        failed = sum(one.has_failures for one in self.tables)
        planned = ". Nothing was changed. Each action is planned for the present table; earlier actions may leave it less to do."
        parts.append(Prose(f"{count_text(len(self.tables), 'table')}, {failed:,} with failures" + (planned if self.dry_run else "")))
        return Report(f"{'plan of maintenance' if self.dry_run else 'maintenance'} of {self.name}", tuple(parts))


def _named(one: ActionReport) -> dict[str, Any]:
    left = [{**json_ready(piece), "action": piece.action.value} for piece in one.left]
    return {**json_ready(one), "action": one.action.value, "state": one.state.value, "left": left}


def _parts(table: MaintenanceReport, most: int | None) -> list[Part]:
    if table.error or table.skipped:
        return [Prose(f"{table.table}: " + (f"failed: {table.error}" if table.error else f"left alone: {table.skipped}"))]
    columns = (
        Column("action"),
        Column("state"),
        Column("detail", rank=1),
        Column("bytes rewritten", is_number=True, rank=3),
        Column("files less a scan", is_number=True, rank=4),
        Column("bytes less a scan", is_number=True, rank=5),
        Column("worth", is_number=True, rank=2),
    )
    parts: list[Part] = [grid(table.table, columns, [_line(one) for one in table.actions], None)]
    left = [(one.action.value, piece.what, piece.reason) for one in table.actions for piece in one.left]
    if left:
        parts.append(grid("left undone", (Column("action"), Column("what"), Column("reason")), left, most))
    return parts


def _line(one: ActionReport) -> tuple[str, ...]:
    figures = (
        size_text(one.rewritten_bytes),
        count_text(one.files_less),
        size_text(one.bytes_less),
        f"{one.worth:.3g}" if one.rewritten_bytes else "",
    )
    has_figures = one.rewritten_bytes or one.files_less or one.bytes_less
    return one.action.value, one.state.value, shortened(one.detail), *(figures if has_figures else ("",) * 4)


@changes_tables_of_catalog
def maintain(
    opened: Catalog,
    name: Name = "",
    plan: PlanOnly = False,
    max_bytes: MaxBytes = None,
    max_minutes: MaxMinutes = None,
    min_age_minutes: MinAge = None,
    branch: OfBranch = "main",
    orphans: Orphans = False,
) -> Reportable:
    """Do what keeps tables quick to read, where it pays: expiry, deletes, compaction, manifests, statistics."""
    arguments = MaintenanceArguments(
        dry_run=plan,
        max_bytes=max_bytes,
        max_minutes=max_minutes,
        min_age_minutes=min_age_minutes,
        branch=branch,
        remove_orphan_files=orphans or None,
    )
    progress = MaintenanceProgress()
    shown = step(f"Maintaining {name or opened.name}", lambda: (progress.done, progress.total), "pieces of work")
    with shown if sys.stderr.isatty() else nullcontext():
        if _is_namespace(opened, name):
            reports = maintain_catalog(opened, name, arguments, progress)
        else:
            reports = (maintain_table(opened.load_table(name), arguments, progress),)
    return Maintenance(name=name or opened.name, dry_run=plan, tables=reports)


def _is_namespace(opened: Catalog, name: str) -> bool:
    """Return whether a name is that of a namespace, or empty; one of several levels that does not exist is taken for a table.

    Raises:
        NoSuchNamespaceError: The name has one level, and there is no such namespace.
    """
    if name and len(opened.levels(name)) > 1:
        return not opened.table_exists(name) and opened.namespace_exists(name)
    if name and not opened.namespace_exists(name):
        namespaces = ", ".join(dotted(one) for one in opened.list_namespaces()[:MOST_LINES]) or "none"
        raise NoSuchNamespaceError(
            f"there is no namespace {name!r} in catalog {opened.name!r}",
            next_step=f"write a table as namespace.table; the namespaces are: {namespaces}",
        )
    return True
