"""Procedures that expire snapshots, and rewrite data files and manifests. Spec: Snapshot Retention Policy; Snapshots (operation replace); Manifests."""

from icefloe.catalog.catalog import Catalog
from icefloe.errors import InvalidInputError
from icefloe.operations.expiry.expire_report import SHOWN_OUTSIDE
from icefloe.operations.unreachable_files import FileKind
from icefloe.procedures.procedure import Flag, Int, Longs, Names, Rows, Text, Texts, Time, WiderRows, procedure
from icefloe.procedures.snapshot_procedures import milliseconds
from icefloe.spec.metadata.snapshot_ref import MAIN
from icefloe.spec.types import IntegerType, ListType, LongType, StringType

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


@procedure(*((name, LongType()) for name, _ in _COUNTS), optional=[name for name, _ in _COUNTS])
def expire_snapshots(
    catalog: Catalog,
    table: Text,
    older_than: Time | None = None,
    retain_last: Int | None = None,
    max_concurrent_deletes: Int | None = None,
    stream_results: Flag = False,  # noqa: ARG001 an argument of Java's; here results never come to the driver as rows
    snapshot_ids: Longs = (),
    clean_expired_metadata: Flag = False,
    allow_outside: Names = (),
    dry_run: Flag = False,
) -> Rows:
    """Remove old snapshots and the files that nothing else needs."""
    if max_concurrent_deletes is not None and max_concurrent_deletes < 1:
        raise InvalidInputError(f"max_concurrent_deletes is {max_concurrent_deletes}; it counts threads, so it is 1 or more")
    report = catalog.load_table(table).expire_snapshots(
        None if older_than is None else milliseconds(older_than),
        retain_last,
        snapshot_ids,
        clean_expired_metadata=clean_expired_metadata,
        allow_outside=allow_outside,
        dry_run=dry_run,
    )
    totals = report.totals
    counts = tuple(sum(totals[kind].files for kind in kinds if kind in totals) for _, kinds in _COUNTS)
    if not report.outside_files:
        return [counts]
    # The columns of Java's procedure, and two more where files outside the table's location were kept.
    return WiderRows([(*counts, report.outside_files, report.outside["path"].slice(0, SHOWN_OUTSIDE).to_pylist())], *_OUTSIDE)


@procedure(
    ("rewritten_data_files_count", IntegerType()),
    ("added_data_files_count", IntegerType()),
    ("rewritten_bytes_count", LongType()),
    ("failed_data_files_count", IntegerType()),
    ("removed_delete_files_count", IntegerType()),
)
def rewrite_data_files(
    catalog: Catalog,
    table: Text,
    strategy: Text | None = None,
    sort_order: Text | None = None,
    options: Texts | None = None,
    where: Text | None = None,
    branch: Text = MAIN,
    dry_run: Flag = False,
) -> Rows:
    """Compact data files: small ones and those with many deletes become files of the target size with the same rows."""
    result = catalog.load_table(table).maintenance.rewrite_data_files(
        where, strategy=strategy, sort_order=sort_order, options=options or {}, branch=branch, dry_run=dry_run
    )
    return [(result.rewritten_files, result.added_files, result.rewritten_bytes, result.failed_files, result.removed_delete_files)]


@procedure(
    ("converted_equality_delete_files_count", IntegerType()),
    ("added_delete_files_count", IntegerType()),
    ("replaced_delete_files_count", IntegerType()),
    ("left_equality_delete_files_count", IntegerType()),
    ("failed_data_files_count", IntegerType()),
)
def convert_equality_deletes(
    catalog: Catalog, table: Text, options: Texts | None = None, where: Text | None = None, branch: Text = MAIN, dry_run: Flag = False
) -> Rows:
    """Turn equality deletes into deletion vectors or position deletes, without writing data files."""
    result = catalog.load_table(table).maintenance.convert_equality_deletes(where, options=options or {}, branch=branch, dry_run=dry_run)
    return [
        (
            result.converted_delete_files,
            result.added_delete_files,
            result.replaced_delete_files,
            result.left_delete_files,
            result.failed_files,
        )
    ]


@procedure(
    ("rewritten_delete_files_count", IntegerType()),
    ("added_delete_files_count", IntegerType()),
    ("rewritten_bytes_count", LongType()),
    ("added_bytes_count", LongType()),
)
def rewrite_position_delete_files(
    catalog: Catalog, table: Text, options: Texts | None = None, where: Text | None = None, branch: Text = MAIN, dry_run: Flag = False
) -> Rows:
    """Write position deletes into fewer files, or in format version 3 as deletion vectors into fewer Puffin files."""
    maintenance = catalog.load_table(table).maintenance
    result = maintenance.rewrite_position_delete_files(where, options=options or {}, branch=branch, dry_run=dry_run)
    return [(result.rewritten_files, result.added_files, result.rewritten_bytes, result.added_bytes)]


@procedure(("removed_delete_files_count", IntegerType()))
def remove_dangling_deletes(catalog: Catalog, table: Text, branch: Text = MAIN, dry_run: Flag = False) -> Rows:
    """Remove delete files that apply to no data file."""
    return [(catalog.load_table(table).maintenance.remove_dangling_deletes(branch=branch, dry_run=dry_run).removed_files,)]


@procedure(("rewritten_manifests_count", IntegerType()), ("added_manifests_count", IntegerType()))
def rewrite_manifests(
    catalog: Catalog,
    table: Text,
    use_caching: Flag = False,  # noqa: ARG001 an argument of Java's; here entries are copied as bytes and need no cache
    spec_id: Int | None = None,
    sort_by: Names | None = None,
    branch: Text = MAIN,
    dry_run: Flag = False,
) -> Rows:
    """Rewrite the manifests of one partition spec, the table's default one if none is given, so that entries of a partition are together."""
    result = catalog.load_table(table).rewrite_manifests(spec_id, sort_by, branch=branch, dry_run=dry_run)
    return [(result.rewritten_manifests, result.added_manifests)]
