"""Procedures that copy a table to another place, and that make a table of existing files beside them or in their place.

Spec: Paths in Metadata; Column Projection.
"""

from icefloe.catalog.catalog import Catalog
from icefloe.errors import InvalidInputError
from icefloe.migration.existing_files import SourceFolders
from icefloe.migration.migrate_table import migrate_table
from icefloe.migration.snapshot_table import snapshot_table
from icefloe.procedures.file_procedures import path_of_source
from icefloe.procedures.procedure import Flag, Int, Rows, Source, Text, Texts, WiderRows, procedure
from icefloe.spec.types import IntegerType, LongType, StringType

_COPIED = (("copied_files_count", LongType()), ("present_files_count", LongType()), ("metadata_file", StringType()))
_VERIFIED = (("verified_files_count", LongType()), ("verified_bytes_count", LongType()), ("verified_rows_count", LongType()))
# Java's text where there is no list of files.
_NOT_APPLICABLE = "N/A"


@procedure(
    ("latest_version", StringType()),
    ("file_list_location", StringType()),
    ("rewritten_manifest_file_paths_count", IntegerType()),
    ("rewritten_delete_file_paths_count", IntegerType()),
)
def rewrite_table_path(
    catalog: Catalog,
    table: Text,
    source_prefix: Text,
    target_prefix: Text,
    start_version: Text | None = None,
    end_version: Text | None = None,
    staging_location: Text | None = None,
    create_file_list: Flag = True,
    copy: Flag = False,
    verify: Flag = False,
    dry_run: Flag = False,
) -> Rows:
    """Stage the files of a table with the paths of another place, list the files to copy, and on request copy and verify them."""
    result = catalog.load_table(table).maintenance.rewrite_table_path(
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
    counts = (result.rewritten_manifests, result.rewritten_delete_files)
    row = (result.latest_version, result.file_list_location or _NOT_APPLICABLE, *counts)
    if not copy and result.verified is None:
        return [row]
    # The columns of Java's procedure, and more columns for a copy or a comparison.
    same = result.verified
    copied = (result.copied_files, result.present_files, result.metadata_location) if copy else ()
    verified = () if same is None else (same.files, same.bytes, same.records)
    return WiderRows([(*row, *copied, *verified)], *(_COPIED if copy else ()), *(_VERIFIED if same is not None else ()))


@procedure(("imported_files_count", LongType()))
def snapshot(
    catalog: Catalog,
    source_table: Source,
    table: Text,
    location: Text | None = None,
    properties: Texts | None = None,
    parallelism: Int | None = None,
    ignore_missing_files: Flag = False,
    dry_run: Flag = False,
) -> Rows:
    """Create a table over the files of a folder, of `parquet.`s3://bucket/folder``, or in SQL of a table in Spark's session catalog; no file is copied."""
    _check_parallelism(parallelism)
    result = snapshot_table(
        catalog,
        path_of_source(source_table) if isinstance(source_table, str) else source_table,
        table,
        location=location,
        properties=properties,
        ignore_missing_files=ignore_missing_files,
        dry_run=dry_run,
    )
    return [(result.imported_files,)]


@procedure(("migrated_files_count", LongType()))
def migrate(
    catalog: Catalog,
    table: Source,
    properties: Texts | None = None,
    drop_backup: Flag = False,
    backup_table_name: Text | None = None,
    parallelism: Int | None = None,
    ignore_missing_files: Flag = False,
    new_table: Text | None = None,
    dry_run: Flag = False,
) -> Rows:
    """Make an Iceberg table in its place of a folder, of `parquet.`s3://bucket/folder``, or in SQL of a table in Spark's session catalog; no file is copied."""
    _check_parallelism(parallelism)
    if isinstance(table, str) and new_table is None and _is_table(catalog, table):
        raise InvalidInputError(f"{table} is an Iceberg table already", next_step="name a folder, or a table of Spark's session catalog")
    result = migrate_table(
        catalog,
        table if isinstance(table, SourceFolders) else path_of_source(str(table)),
        new_table,
        properties=properties,
        drop_backup=drop_backup,
        backup_table_name=backup_table_name,
        ignore_missing_files=ignore_missing_files,
        dry_run=dry_run,
    )
    return [(result.migrated_files,)]


def _is_table(catalog: Catalog, text: str) -> bool:
    parts = tuple(text.removeprefix(f"{catalog.name}.").split("."))
    return len(parts) > 1 and all(parts) and "/" not in text and catalog.table_exists(parts)


def _check_parallelism(parallelism: int | None) -> None:
    if parallelism is not None and parallelism < 1:
        raise InvalidInputError(f"parallelism is {parallelism}; it counts threads, so it is 1 or more")
