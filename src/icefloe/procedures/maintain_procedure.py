"""The procedure that keeps a table, a namespace or a whole catalog quick to read. Spec: Snapshots (operation replace); Snapshot Retention Policy."""

from icefloe.catalog.catalog import Catalog
from icefloe.errors import InvalidInputError
from icefloe.maintenance.maintain import MaintenanceArguments, maintain_table
from icefloe.maintenance.maintenance_report import MaintenanceReport
from icefloe.procedures.maintain_catalog import maintain_catalog
from icefloe.procedures.procedure import Flag, Int, Long, Rows, Text, procedure
from icefloe.spec.metadata.snapshot_ref import MAIN
from icefloe.spec.types import IntegerType, LongType, StringType


@procedure(
    ("table_name", StringType()),
    ("action", StringType()),
    ("state", StringType()),
    ("files_count", IntegerType()),
    ("rewritten_bytes_count", LongType()),
    ("detail", StringType()),
    ("left_undone", StringType()),
)
def maintain(
    catalog: Catalog,
    table: Text | None = None,
    namespace: Text | None = None,
    plan: Flag = False,
    max_bytes: Long | None = None,
    max_minutes: Int | None = None,
    min_age_minutes: Int | None = None,
    branch: Text = MAIN,
    remove_orphan_files: Flag = False,
) -> Rows:
    """Do what keeps a table, a namespace or all tables quick to read, where it pays; with plan only return the decision."""
    if table is not None and namespace is not None:
        raise InvalidInputError("a table and a namespace are given", next_step="name one of them, or none for the whole catalog")
    arguments = MaintenanceArguments(
        dry_run=plan,
        max_bytes=max_bytes,
        max_minutes=max_minutes,
        min_age_minutes=min_age_minutes,
        branch=branch,
        remove_orphan_files=remove_orphan_files or None,
    )
    reports = (
        maintain_catalog(catalog, namespace or "", arguments) if table is None else (maintain_table(catalog.load_table(table), arguments),)
    )
    return [row for report in reports for row in _rows(report)]


def _rows(report: MaintenanceReport) -> Rows:
    if report.error or report.skipped:
        return [(report.table, "", "failed" if report.error else "left", 0, 0, report.error, report.skipped)]
    return [
        (
            report.table,
            one.action.value,
            one.state.value,
            one.files,
            one.rewritten_bytes,
            one.detail,
            "; ".join(f"{piece.what}: {piece.reason}" for piece in one.left),
        )
        for one in report.actions
    ]
