"""`maintain_catalog`: maintenance of every table of a catalog or a namespace, within one budget.

A table that cannot be loaded or maintained does not stop the others. Spec: Snapshots (operation replace).
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from icefloe.catalog.catalog import Catalog
from icefloe.inspect.catalog_contents import table_names
from icefloe.maintenance.maintain import MaintenanceArguments, TableMaintenanceRun, within_budget
from icefloe.maintenance.maintenance_action import MaintenanceProgress
from icefloe.maintenance.maintenance_report import MaintenanceReport, PlannedWork, in_words, log_failure
from icefloe.spec.identifier import dotted

LOG = logging.getLogger(__name__)


def maintain_catalog(
    catalog: Catalog, namespace: str = "", arguments: MaintenanceArguments | None = None, progress: MaintenanceProgress | None = None
) -> tuple[MaintenanceReport, ...]:
    """Run the work of `table.maintenance.maintain` on every table of a catalog, or of a namespace and the namespaces below it.

    If `arguments.max_bytes` is set, it limits the bytes that are rewritten in all tables together: the work on every table is planned first, and the budget is
    spent on the most valuable work. A table that cannot be maintained does not stop the others; its report contains the error.

    Args:
        catalog: The catalog.
        namespace: The dotted name of the namespace; empty for the whole catalog.
        arguments: The limits and choices of the run; None for the defaults.
        progress: Counts the work that is planned and done; it is updated during the run. None if it is not needed.

    Returns:
        A report for each table, sorted by the names of the tables.

    Raises:
        InvalidInputError: A limit is negative.
        NoSuchNamespaceError: The namespace does not exist.
    """
    arguments = arguments or MaintenanceArguments()
    arguments.check()
    progress = progress or MaintenanceProgress()
    deadline = None if arguments.max_minutes is None else time.monotonic() + arguments.max_minutes * 60
    names = [dotted(name) for name in table_names(catalog, namespace)]
    budgets: Mapping[str, int] | None = None
    if arguments.max_bytes is not None:
        budgets = _budgets(catalog, names, arguments)
        names.sort(key=lambda name: -budgets.get(name, 0))
    reports = []
    for name in names:
        own = arguments if budgets is None else replace(arguments, max_bytes=budgets.get(name, 0))

        def run(name: str = name, own: MaintenanceArguments = own) -> MaintenanceReport:
            return TableMaintenanceRun(catalog.load_table(name), own, deadline, progress).run()

        reports.append(_report_of(name, run, dry_run=arguments.dry_run))
    return tuple(sorted(reports, key=lambda report: report.table))


def _budgets(catalog: Catalog, names: Sequence[str], arguments: MaintenanceArguments) -> dict[str, int]:
    """Divide the budget `max_bytes` among the tables. Return the bytes that may be rewritten in each table, by its name; tables without a share are missing."""
    work: list[tuple[str, PlannedWork]] = []
    for name in names:
        try:
            run = TableMaintenanceRun(catalog.load_table(name), arguments, None, MaintenanceProgress())
            work += [(name, piece) for piece in run.work()]
        except Exception:
            LOG.info("%s cannot be looked at, which the run reports", name, exc_info=True)
    names_of = {id(piece): name for name, piece in work}
    budgets: dict[str, int] = {}
    for piece in within_budget([piece for _, piece in work], arguments.max_bytes):
        budgets[names_of[id(piece)]] = budgets.get(names_of[id(piece)], 0) + piece.cost_bytes
    return budgets


def _report_of(name: str, run: Callable[[], MaintenanceReport], *, dry_run: bool) -> MaintenanceReport:
    try:
        return run()
    except Exception as error:  # noqa: BLE001  the report has the error
        log_failure(name, "it cannot be maintained", error)
        return MaintenanceReport(table=name, dry_run=dry_run, error=in_words(error))
