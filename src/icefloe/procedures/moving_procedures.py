"""The procedure that copies a table to another place. Spec: Paths in Metadata."""

from icefloe.catalog.catalog import Catalog
from icefloe.kernel.types import IntegerType, LongType, StringType
from icefloe.procedures.procedure import Flag, Rows, Text, WiderRows, procedure

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
