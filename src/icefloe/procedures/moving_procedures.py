"""Procedures that copy a table to another place, and that create a table from existing files, either beside the original table or in place of it.

Spec: Paths in Metadata; Column Projection.
"""

from typing import Annotated

from icefloe.catalog.catalog import Catalog
from icefloe.errors import InvalidInputError
from icefloe.maintenance.rewrite_table_path import RewriteTablePathResult
from icefloe.migration.existing_files import SourceFolders
from icefloe.migration.migrate_table import MigrateTableResult, migrate_table
from icefloe.migration.snapshot_table import SnapshotTableResult, snapshot_table
from icefloe.procedures.file_procedures import check_parallelism, path_of_source
from icefloe.procedures.procedure import Flag, Int, ProcedureOption, Rows, Source, Text, Texts, WiderRows, procedure, row_of
from icefloe.spec.types import IntegerType, LongType, StringType
from icefloe.table.table import Table

_COPIED = (("copied_files_count", LongType()), ("present_files_count", LongType()), ("metadata_file", StringType()))
_VERIFIED = (("verified_files_count", LongType()), ("verified_bytes_count", LongType()), ("verified_rows_count", LongType()))
# The text that Java's procedure returns if it wrote no list of files.
_NOT_APPLICABLE = "N/A"


DryRun = Annotated[Flag, ProcedureOption("--dry-run", "Check the files, and create nothing.")]
Folder = Annotated[Source, ProcedureOption("SOURCE", "The folder of Parquet or ORC files, with folders name=value for partitions.")]
Properties = Annotated[Texts | None, ProcedureOption("--property", "A property of the table; may be repeated.", metavar="NAME=VALUE")]


def _path_rows(result: RewriteTablePathResult) -> Rows:
    counts = (result.rewritten_manifests, result.rewritten_delete_files)
    row = (result.latest_version, result.file_list_location or _NOT_APPLICABLE, *counts)
    same = result.verified
    if not result.copies and same is None:
        return [row]
    # The columns of Java's procedure. There are more for a copy or a comparison.
    copied = (result.copied_files, result.present_files, result.metadata_location) if result.copies else ()
    verified = () if same is None else (same.files, same.bytes, same.records)
    return WiderRows([(*row, *copied, *verified)], *(_COPIED if result.copies else ()), *(_VERIFIED if same is not None else ()))


@procedure(
    ("latest_version", StringType()),
    ("file_list_location", StringType()),
    ("rewritten_manifest_file_paths_count", IntegerType()),
    ("rewritten_delete_file_paths_count", IntegerType()),
    rows=_path_rows,
    command_help="Prepare a copy of a table at another place, and with --copy and --verify make and compare it. The table does not change.",
)
def rewrite_table_path(
    table: Table,
    source_prefix: Annotated[Text, ProcedureOption("SOURCE", "The prefix of all paths of the table, such as its location.")],
    target_prefix: Annotated[Text, ProcedureOption("TARGET", "The prefix that replaces it.")],
    start_version: Annotated[
        Text | None, ProcedureOption("--start-version", "The metadata file of a version that is at the target already.", metavar="NAME")
    ] = None,
    end_version: Annotated[
        Text | None, ProcedureOption("--end-version", "The metadata file of the last version to copy; the current one.", metavar="NAME")
    ] = None,
    staging_location: Annotated[
        Text | None, ProcedureOption("--staging", "The folder of the rewritten files; by default a new one of the table.", metavar="FOLDER")
    ] = None,
    create_file_list: Annotated[Flag, ProcedureOption("--no-file-list", "Write no list of the files to copy.")] = True,
    copy: Annotated[Flag, ProcedureOption("--copy", "Copy the files too; files that are there already are compared.")] = False,
    verify: Annotated[
        Flag, ProcedureOption("--verify", "Compare the copy with the table: metadata, manifests, bytes and deletes.")
    ] = False,
    dry_run: Annotated[Flag, ProcedureOption("--dry-run", "Show what would be copied, and write nothing.")] = False,
) -> RewriteTablePathResult:
    """Prepare a copy of a table at another place: write metadata files with the new paths, and list the files to copy; on request, copy and verify them."""
    return table.maintenance.rewrite_table_path(
        source_prefix,
        target_prefix,
        start_version=start_version,
        end_version=end_version,
        staging_location=staging_location,
        create_file_list=create_file_list,
        copy=copy,
        verify=verify,
        dry_run=dry_run,
    )


@procedure(
    ("imported_files_count", LongType()),
    rows=row_of("imported_files"),
    command_help="Create a table over the files of a folder. No file is copied, and the table never deletes one of them.",
)
def snapshot(
    catalog: Catalog,
    source_table: Folder,
    table: Annotated[Text, ProcedureOption("TABLE", "The name of the new table, such as db.t.")],
    location: Annotated[Text | None, ProcedureOption("--location", "The folder of the new table's own files.", metavar="FOLDER")] = None,
    properties: Properties = None,
    parallelism: Int | None = None,
    ignore_missing_files: Flag = False,
    dry_run: DryRun = False,
) -> SnapshotTableResult:
    """Create a table from the files of a folder, `parquet.`s3://bucket/folder``, or in SQL a table in Spark's session catalog, without copying the files."""
    check_parallelism(parallelism)
    return snapshot_table(
        catalog,
        path_of_source(source_table) if isinstance(source_table, str) else source_table,
        table,
        location=location,
        properties=properties,
        ignore_missing_files=ignore_missing_files,
        dry_run=dry_run,
    )


@procedure(
    ("migrated_files_count", LongType()),
    rows=row_of("migrated_files"),
    command_help="Make a table of a folder of files in its place: the files become the table's. No file is copied, and the table deletes them with its rows.",
)
def migrate(
    catalog: Catalog,
    table: Folder,
    properties: Properties = None,
    drop_backup: Flag = False,
    backup_table_name: Text | None = None,
    parallelism: Int | None = None,
    ignore_missing_files: Flag = False,
    new_table: Annotated[Text | None, ProcedureOption("TABLE", "The name of the new table, such as db.t.")] = None,
    dry_run: DryRun = False,
) -> MigrateTableResult:
    """Turn a folder, `parquet.`s3://bucket/folder``, or in SQL a table in Spark's session catalog into an Iceberg table in its place. No file is copied."""
    check_parallelism(parallelism)
    if isinstance(table, str) and new_table is None and _is_table(catalog, table):
        raise InvalidInputError(f"{table} is an Iceberg table already", next_step="name a folder, or a table of Spark's session catalog")
    return migrate_table(
        catalog,
        table if isinstance(table, SourceFolders) else path_of_source(str(table)),
        new_table,
        properties=properties,
        drop_backup=drop_backup,
        backup_table_name=backup_table_name,
        ignore_missing_files=ignore_missing_files,
        dry_run=dry_run,
    )


def _is_table(catalog: Catalog, text: str) -> bool:
    parts = tuple(text.removeprefix(f"{catalog.name}.").split("."))
    return len(parts) > 1 and all(parts) and "/" not in text and catalog.table_exists(parts)
