"""Procedures that keep tables quick to read: expiry, rewrites of files and manifests, orphan files, statistics; and `maintain`, which runs what is worth it.

Spec: Snapshot Retention Policy; Snapshots (operation replace); Manifests; Table Statistics; Partition Statistics; File System Operations (deletes).
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated

from icefloe.catalog.catalog import Catalog
from icefloe.errors import InvalidInputError
from icefloe.maintenance.convert_equality_deletes import ConvertEqualityDeletesResult
from icefloe.maintenance.dangling_deletes import RemoveDanglingDeletesResult
from icefloe.maintenance.maintain import MaintenanceArguments, maintain_table
from icefloe.maintenance.maintenance_action import MaintenanceProgress
from icefloe.maintenance.maintenance_report import MaintenanceReport
from icefloe.maintenance.orphan_report import OrphanMode, RemoveOrphanFilesResult
from icefloe.maintenance.rewrite_data_files import RewriteDataFilesResult
from icefloe.maintenance.rewrite_position_deletes import RewritePositionDeleteFilesResult
from icefloe.operations.expiry.expire_report import SHOWN_OUTSIDE, ExpireReport
from icefloe.operations.files.manifest_rewrite import RewriteManifestsResult
from icefloe.operations.partition_statistics import find_partition_statistics
from icefloe.operations.unreachable_files import FileKind
from icefloe.procedures.maintain_catalog import maintain_catalog
from icefloe.procedures.procedure import (
    Filter,
    Flag,
    Int,
    Long,
    Longs,
    Minutes,
    Names,
    ProcedureOption,
    Rows,
    Text,
    Texts,
    Time,
    View,
    WiderRows,
    procedure,
    row_of,
)
from icefloe.procedures.time_arguments import milliseconds, older_than_age_or_time, older_than_time
from icefloe.spec.metadata.snapshot_ref import MAIN
from icefloe.spec.types import IntegerType, ListType, LongType, StringType
from icefloe.table.table import Table

Where = Annotated[
    Filter | None,
    ProcedureOption("--where", "Rewrite only files that may have such rows, such as \"day = '2024-01-31'\".", metavar="FILTER"),
]
Options = Annotated[
    Texts | None,
    ProcedureOption("--option", "An option of Java's action, such as min-input-files=2; may be repeated.", metavar="NAME=VALUE"),
]
RewrittenBranch = Annotated[Text, ProcedureOption("--branch", "The branch whose files are rewritten.", metavar="NAME")]
DryRun = Annotated[Flag, ProcedureOption("--dry-run", "Show what would be rewritten, and change nothing.")]

_COUNTS = (
    ("deleted_data_files_count", (FileKind.DATA,)),
    ("deleted_position_delete_files_count", (FileKind.POSITION_DELETES, FileKind.DELETION_VECTORS)),
    ("deleted_equality_delete_files_count", (FileKind.EQUALITY_DELETES,)),
    ("deleted_manifest_files_count", (FileKind.MANIFESTS,)),
    ("deleted_manifest_lists_count", (FileKind.MANIFEST_LISTS,)),
    ("deleted_statistics_files_count", (FileKind.STATISTICS, FileKind.PARTITION_STATISTICS)),
)

_OUTSIDE = (
    ("kept_outside_files_count", LongType()),
    ("kept_outside_files", ListType(element_id=1_000, element=StringType(), element_required=True)),
)


# ---- expiry ----


def _deleted_counts(report: ExpireReport) -> Rows:
    totals = report.totals
    counts = tuple(sum(totals[kind].files for kind in kinds if kind in totals) for _, kinds in _COUNTS)
    if not report.outside_files:
        return [counts]
    # The columns of Java's procedure. There are two more if files outside the table's location were kept.
    return WiderRows([(*counts, report.outside_files, report.outside["path"].slice(0, SHOWN_OUTSIDE).to_pylist())], *_OUTSIDE)


@procedure(*((name, LongType()) for name, _ in _COUNTS), optional=[name for name, _ in _COUNTS], rows=_deleted_counts)
def expire_snapshots(
    table: Table,
    older_than: Annotated[
        Time | None,
        ProcedureOption(
            "--older-than",
            "Such as 7d, 12h or 2024-05-01T12:00 (UTC); by default the table's maximum snapshot age.",
            metavar="AGE|TIME",
            parse=older_than_age_or_time,
        ),
    ] = None,
    retain_last: Annotated[
        Int | None, ProcedureOption("--retain-last", "Keep this many snapshots of each branch regardless of their age.", metavar="N")
    ] = None,
    max_concurrent_deletes: Int | None = None,
    stream_results: Flag = False,  # noqa: ARG001 an argument of Java's procedure; here the driver never receives results as rows
    snapshot_ids: Annotated[
        Longs,
        ProcedureOption(
            "--snapshot",
            "Expire this snapshot regardless of its age; may be repeated. Without other options, only these.",
            metavar="ID",
        ),
    ] = (),
    clean_expired_metadata: Annotated[Flag, ProcedureOption("--clean-metadata", "Also remove unused partition specs and schemas.")] = False,
    allow_outside: Annotated[
        Names,
        ProcedureOption(
            "--allow-outside",
            "Also delete files in this folder outside the table's location; may be repeated. Without it they are kept and listed.",
            metavar="FOLDER",
        ),
    ] = (),
    dry_run: Annotated[Flag, ProcedureOption("--dry-run", "Show what would be removed, and change nothing.")] = False,
    delete_files: Annotated[Flag, ProcedureOption("--keep-files", "Change the metadata and delete no file.", in_sql=False)] = True,
) -> ExpireReport:
    """Remove old snapshots, and delete the files that nothing else needs."""
    if max_concurrent_deletes is not None and max_concurrent_deletes < 1:
        raise InvalidInputError(f"max_concurrent_deletes is {max_concurrent_deletes}; it counts threads, so it is 1 or more")
    return table.expire_snapshots(
        None if older_than is None else milliseconds(older_than),
        retain_last,
        snapshot_ids,
        dry_run=dry_run,
        delete_files=delete_files,
        clean_expired_metadata=clean_expired_metadata,
        allow_outside=allow_outside,
    )


# ---- rewrites ----


@procedure(
    ("rewritten_data_files_count", IntegerType()),
    ("added_data_files_count", IntegerType()),
    ("rewritten_bytes_count", LongType()),
    ("failed_data_files_count", IntegerType()),
    ("removed_delete_files_count", IntegerType()),
    rows=row_of("rewritten_files", "added_files", "rewritten_bytes", "failed_files", "removed_delete_files"),
)
def rewrite_data_files(
    table: Table,
    strategy: Annotated[
        Text | None, ProcedureOption("--strategy", "binpack keeps the order of rows; sort sorts them.", metavar="NAME")
    ] = None,
    sort_order: Annotated[
        Text | None,
        ProcedureOption(
            "--sort-order",
            "Sort by these keys, such as 'day DESC, id', or 'hilbert(day, id)'; by default by the table's order.",
            metavar="KEYS",
        ),
    ] = None,
    options: Options = None,
    where: Where = None,
    branch: RewrittenBranch = MAIN,
    dry_run: DryRun = False,
) -> RewriteDataFilesResult:
    """Compact data files: small ones and those with many deletes become files of the target size with the same rows."""
    return table.maintenance.rewrite_data_files(
        where, strategy=strategy, sort_order=sort_order, options=options or {}, branch=branch, dry_run=dry_run
    )


@procedure(
    ("converted_equality_delete_files_count", IntegerType()),
    ("added_delete_files_count", IntegerType()),
    ("replaced_delete_files_count", IntegerType()),
    ("left_equality_delete_files_count", IntegerType()),
    ("failed_data_files_count", IntegerType()),
    rows=row_of("converted_delete_files", "added_delete_files", "replaced_delete_files", "left_delete_files", "failed_files"),
)
def convert_equality_deletes(
    table: Table, options: Options = None, where: Where = None, branch: RewrittenBranch = MAIN, dry_run: DryRun = False
) -> ConvertEqualityDeletesResult:
    """Turn equality deletes into deletion vectors or position deletes. Version 3 has deletion vectors, version 2 position deletes. No data file changes."""
    return table.maintenance.convert_equality_deletes(where, options=options or {}, branch=branch, dry_run=dry_run)


@procedure(
    ("rewritten_delete_files_count", IntegerType()),
    ("added_delete_files_count", IntegerType()),
    ("rewritten_bytes_count", LongType()),
    ("added_bytes_count", LongType()),
    rows=row_of("rewritten_files", "added_files", "rewritten_bytes", "added_bytes"),
)
def rewrite_position_delete_files(
    table: Table, options: Options = None, where: Where = None, branch: RewrittenBranch = MAIN, dry_run: DryRun = False
) -> RewritePositionDeleteFilesResult:
    """Write position deletes into fewer files; in version 3 as deletion vectors into fewer Puffin files."""
    return table.maintenance.rewrite_position_delete_files(where, options=options or {}, branch=branch, dry_run=dry_run)


@procedure(("removed_delete_files_count", IntegerType()), rows=row_of("removed_files"))
def remove_dangling_deletes(table: Table, branch: RewrittenBranch = MAIN, dry_run: DryRun = False) -> RemoveDanglingDeletesResult:
    """Remove delete files that apply to no data file. No row changes."""
    return table.maintenance.remove_dangling_deletes(branch=branch, dry_run=dry_run)


@procedure(
    ("rewritten_manifests_count", IntegerType()),
    ("added_manifests_count", IntegerType()),
    rows=row_of("rewritten_manifests", "added_manifests"),
)
def rewrite_manifests(
    table: Table,
    use_caching: Flag = False,  # noqa: ARG001 an argument of Java's procedure; here entries are copied as bytes and need no cache
    spec_id: Annotated[
        Int | None, ProcedureOption("--spec-id", "The partition spec whose manifests are rewritten; the current one.", metavar="N")
    ] = None,
    sort_by: Annotated[
        Names | None,
        ProcedureOption("--sort-by", "A partition field to sort the entries by; may be repeated. By default all of them.", metavar="FIELD"),
    ] = None,
    branch: Annotated[Text, ProcedureOption("--branch", "The branch whose manifests are rewritten.", metavar="NAME")] = MAIN,
    dry_run: DryRun = False,
) -> RewriteManifestsResult:
    """Put the entries of small or unsorted manifests into manifests of the target size. No data file is read or written."""
    return table.rewrite_manifests(spec_id, sort_by, branch=branch, dry_run=dry_run)


# ---- orphan files ----


def _orphan_rows(result: RemoveOrphanFilesResult) -> Rows:
    if result.mode is OrphanMode.UNDO:
        return [(location,) for location in result.lists]
    paths = result.files["path"].to_pylist()
    if not result.undeleted_files:
        return [(path,) for path in paths]
    # The column of Java's procedure. There is one more if files could not be deleted.
    problems = {problem.where: problem.what for problem in result.undeleted}
    return WiderRows([(path, problems.get(path, "")) for path in paths], ("not_deleted_because", StringType()))


@procedure(
    ("orphan_file_location", StringType()),
    rows=_orphan_rows,
    command_help="Delete files in the table's folder that nothing references; or list them with --quarantine, and delete them later with --purge.",
)
def remove_orphan_files(
    table: Table,
    older_than: Annotated[
        Time | None,
        ProcedureOption(
            "--older-than",
            "Only files older than this time, such as 2026-01-31; by default three days ago.",
            metavar="TIME",
            parse=older_than_time,
        ),
    ] = None,
    location: Annotated[Text | None, ProcedureOption("--location", "Search this folder; by default the table's.", metavar="FOLDER")] = None,
    dry_run: Annotated[Flag, ProcedureOption("--dry-run", "Show the orphan files, and change nothing.")] = False,
    quarantine: Annotated[Flag, ProcedureOption("--quarantine", "Write a list of the files, and delete none.", in_sql=False)] = False,
    purge: Annotated[
        Flag, ProcedureOption("--purge", "Delete the files of lists that are old enough, each after another check.", in_sql=False)
    ] = False,
    undo: Annotated[Flag, ProcedureOption("--undo", "Drop the lists; no file is deleted.", in_sql=False)] = False,
    max_concurrent_deletes: Annotated[
        Int | None, ProcedureOption("--max-concurrent-deletes", "The number of deletions that are under way at once.", metavar="N")
    ] = None,
    file_list_view: View | None = None,
    equal_schemes: Texts | None = None,
    equal_authorities: Texts | None = None,
    prefix_mismatch_mode: Annotated[
        Text,
        ProcedureOption(
            "--prefix-mismatch-mode",
            "For files that the table names with another scheme or authority: ERROR, IGNORE keeps them, DELETE.",
            metavar="MODE",
        ),
    ] = "ERROR",
    prefix_listing: Flag = False,  # noqa: ARG001 an argument of Java's procedure; here object stores are always listed by prefix
    stream_results: Flag = False,
    mode: Text = OrphanMode.DELETE,
    purge_delay_days: Annotated[Int, ProcedureOption("--delay-days", "With --purge: the least age of a list, in days.", metavar="N")] = 7,
    force: Annotated[Flag, ProcedureOption("--force", "Allow files younger than 24 hours: only where no other program writes.")] = False,
    engine: Annotated[
        Text | None,
        ProcedureOption(
            "--engine",
            "spark lists the files by a Spark session that is started, and in-process here, the default.",
            metavar="ENGINE",
        ),
    ] = None,
) -> RemoveOrphanFilesResult:
    """Delete files in the table's folder that nothing references; or list them first, and delete them later."""
    flags = ((OrphanMode.QUARANTINE, quarantine), (OrphanMode.PURGE, purge), (OrphanMode.UNDO, undo))
    modes = [flag for flag, is_chosen in flags if is_chosen]
    if len(modes) > 1:
        raise InvalidInputError(
            f"--{modes[0]} and --{modes[1]} exclude each other", next_step="run one after the other: first --quarantine, days later --purge"
        )
    return table.maintenance.remove_orphan_files(
        older_than,
        location,
        mode=modes[0] if modes else mode,
        dry_run=dry_run,
        max_concurrent_deletes=max_concurrent_deletes,
        stream_results=stream_results,
        file_list_view=file_list_view,
        equal_schemes=equal_schemes,
        equal_authorities=equal_authorities,
        prefix_mismatch_mode=prefix_mismatch_mode,
        purge_delay=timedelta(days=purge_delay_days),
        force=force,
        engine=engine,
    )


# ---- statistics ----


@procedure(("statistics_file", StringType()))
def compute_table_stats(
    table: Table,
    snapshot_id: Long | None = None,
    columns: Annotated[
        Names | None,
        ProcedureOption(
            "--column", "A column to count; may be repeated. By default all top-level columns of primitive types.", metavar="NAME"
        ),
    ] = None,
) -> Rows:
    """Count the distinct values of columns, all top-level ones of primitive types if none is named, and commit them as the snapshot's statistics file."""
    statistics = table.compute_statistics(columns, snapshot_id)
    return [] if statistics is None else [(statistics.statistics_path,)]


@procedure(("partition_statistics_file", StringType()))
def compute_partition_stats(table: Table, snapshot_id: Long | None = None) -> Rows:
    """Count rows, files and deletes of each partition, starting from the last partition statistics, and commit them as the snapshot's statistics file."""
    table.compute_partition_statistics(snapshot_id)
    file = find_partition_statistics(table.metadata, table.full_name, snapshot_id)
    return [] if file is None else [(file.statistics_path,)]


# ---- maintenance that pays ----


def _action_rows(reports: Sequence[MaintenanceReport]) -> Rows:
    return [row for report in reports for row in _rows_of_table(report)]


def _rows_of_table(report: MaintenanceReport) -> Rows:
    if report.error or report.skipped:
        return [(report.table, "", "failed" if report.error else "left", 0, 0, report.error, report.skipped)]
    return [
        (
            report.table,
            action.action.value,
            action.state.value,
            action.files,
            action.rewritten_bytes,
            action.detail,
            "; ".join(f"{piece.what}: {piece.reason}" for piece in action.left),
        )
        for action in report.actions
    ]


@procedure(
    ("table_name", StringType()),
    ("action", StringType()),
    ("state", StringType()),
    ("files_count", IntegerType()),
    ("rewritten_bytes_count", LongType()),
    ("detail", StringType()),
    ("left_undone", StringType()),
    rows=_action_rows,
)
def maintain(
    catalog: Catalog,
    table: Text | None = None,
    namespace: Text | None = None,
    plan: Annotated[Flag, ProcedureOption("--plan", "Print the decision with its figures, and change nothing.")] = False,
    max_bytes: Annotated[
        Long | None,
        ProcedureOption("--max-bytes", "Rewrite files of at most so many bytes, those that pay most first.", metavar="N", minimum=0),
    ] = None,
    max_minutes: Annotated[
        Minutes | None, ProcedureOption("--max-minutes", "Start no further work after so many minutes.", metavar="N", minimum=0)
    ] = None,
    min_age_minutes: Annotated[
        Minutes | None,
        ProcedureOption("--min-age-minutes", "Leave partitions alone that younger commits changed; 10 by default.", metavar="N", minimum=0),
    ] = None,
    branch: Annotated[Text, ProcedureOption("--branch", "The branch that is maintained.", metavar="NAME")] = MAIN,
    remove_orphan_files: Annotated[
        Flag, ProcedureOption("--remove-orphan-files", "List orphan files too, and delete those of lists that are seven days old.")
    ] = False,
    *,
    progress: MaintenanceProgress | None = None,
) -> Sequence[MaintenanceReport]:
    """Run the maintenance work that is worth its cost on a table, a namespace or all tables. With plan => true, only return what would be done."""
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
    if table is None:
        return maintain_catalog(catalog, namespace or "", arguments, progress)
    return (maintain_table(catalog.load_table(table), arguments, progress),)
