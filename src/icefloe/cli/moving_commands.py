"""The commands `rewrite-table-path`, which copies a table to another place, and `snapshot` and `migrate`, which make a table of files.

Spec: Paths in Metadata.
"""

from dataclasses import dataclass
from typing import Annotated

import typer

from icefloe.catalog.catalog import Catalog
from icefloe.cli.shared_options import pairs_of
from icefloe.cli.table_command import changes_table, changes_tables_of_catalog
from icefloe.display.report import Column, Facts, Report, grid
from icefloe.display.reportable import MOST_LINES, Reportable
from icefloe.formatting import count_text, size_text
from icefloe.migration.migrate_table import migrate_table
from icefloe.migration.snapshot_table import snapshot_table
from icefloe.spec.schema.schema import Schema
from icefloe.table.table import Table

Source = Annotated[str, typer.Argument(metavar="SOURCE", help="The prefix of all paths of the table, such as its location.")]
Target = Annotated[str, typer.Argument(metavar="TARGET", help="The prefix that replaces it.")]
StartVersion = Annotated[
    str | None, typer.Option("--start-version", metavar="NAME", help="The metadata file of a version that is at the target already.")
]
EndVersion = Annotated[
    str | None, typer.Option("--end-version", metavar="NAME", help="The metadata file of the last version to copy; the current one.")
]
Staging = Annotated[
    str | None, typer.Option("--staging", metavar="FOLDER", help="The folder of the rewritten files; by default a new one of the table.")
]
NoList = Annotated[bool, typer.Option("--no-file-list", help="Write no list of the files to copy.")]
Copy = Annotated[bool, typer.Option("--copy", help="Copy the files too; files that are there already are compared.")]
Verify = Annotated[bool, typer.Option("--verify", help="Compare the copy with the table: metadata, manifests, bytes and deletes.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be copied, and write nothing.")]
Folder = Annotated[
    str, typer.Argument(metavar="SOURCE", help="The folder of Parquet or ORC files, with folders name=value for partitions.")
]
NewTable = Annotated[str, typer.Argument(metavar="TABLE", help="The name of the new table, such as db.t.")]
Location = Annotated[str | None, typer.Option("--location", metavar="FOLDER", help="The folder of the new table's own files.")]
Properties = Annotated[list[str] | None, typer.Option("--property", metavar="NAME=VALUE", help="A property of the table; may be repeated.")]
CheckOnly = Annotated[bool, typer.Option("--dry-run", help="Check the files, and create nothing.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePathRewrite(Reportable):
    """The result of a run, or with `dry_run` what it would do. Counts of a part that did not run are None."""

    table: str
    dry_run: bool
    latest_version: str
    metadata_location: str
    staging_location: str | None
    file_list_location: str | None
    files: int
    bytes: int
    rewritten_manifests: int
    rewritten_delete_files: int
    missing_versions: tuple[str, ...]
    copied_files: int | None
    present_files: int | None
    verified_files: int | None
    verified_bytes: int | None
    verified_rows: int | None

    def report(self, most: int | None = MOST_LINES) -> Report:  # noqa: ARG002  the report has no list
        rewritten = f"{count_text(self.rewritten_manifests, 'manifest')}, {count_text(self.rewritten_delete_files, 'delete file')}"
        pairs = [
            ("files", f"{count_text(self.files, 'file')}, {size_text(self.bytes)}"),
            ("would be rewritten" if self.dry_run else "rewritten", rewritten),
            ("to be registered as", self.metadata_location),
        ]
        if self.staging_location is not None:
            pairs.append(("staged in", self.staging_location))
        if self.file_list_location is not None:
            pairs.append(("list of files", self.file_list_location))
        if self.missing_versions:
            pairs.append(("left out of the log", f"{count_text(len(self.missing_versions), 'metadata file')} that do not exist"))
        if self.copied_files is not None:
            pairs.append(("copied", f"{count_text(self.copied_files, 'file')}; {self.present_files or 0:,} were there already"))
        if self.verified_files is not None:
            same = f"{count_text(self.verified_files, 'file')}, {size_text(self.verified_bytes or 0)}, {self.verified_rows or 0:,} rows"
            pairs.append(("equal", same))
        return Report(f"paths of {self.table}", (Facts(tuple(pairs)),))


@changes_table
def rewrite_table_path(
    opened: Table,
    source: Source,
    target: Target,
    start_version: StartVersion = None,
    end_version: EndVersion = None,
    staging: Staging = None,
    no_file_list: NoList = False,
    copy: Copy = False,
    verify: Verify = False,
    dry_run: DryRun = False,
) -> Reportable:
    """Prepare a copy of a table at another place, and with --copy and --verify make and compare it. The table does not change."""
    result = opened.maintenance.rewrite_table_path(
        source,
        target,
        start_version=start_version,
        end_version=end_version,
        staging_location=staging,
        create_file_list=not no_file_list,
        copy=copy,
        verify=verify,
        dry_run=dry_run,
    )
    same = result.verified
    return TablePathRewrite(
        table=opened.full_name,
        dry_run=result.dry_run,
        latest_version=result.latest_version,
        metadata_location=result.metadata_location,
        staging_location=result.staging_location,
        file_list_location=result.file_list_location,
        files=result.files,
        bytes=result.bytes,
        rewritten_manifests=result.rewritten_manifests,
        rewritten_delete_files=result.rewritten_delete_files,
        missing_versions=result.missing_versions,
        copied_files=result.copied_files if copy and not dry_run else None,
        present_files=result.present_files if copy and not dry_run else None,
        verified_files=None if same is None else same.files,
        verified_bytes=None if same is None else same.bytes,
        verified_rows=None if same is None else same.records,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOfFiles(Reportable):
    """The result of a table made of files, or with `dry_run` what it would be. Columns are names and types."""

    action: str
    table: str
    dry_run: bool
    location: str
    imported_files: int
    imported_bytes: int
    imported_records: int
    columns: tuple[tuple[str, str], ...]
    partition_columns: tuple[str, ...]

    def report(self, most: int | None = MOST_LINES) -> Report:
        pairs = (
            ("would have" if self.dry_run else "files", f"{count_text(self.imported_files, 'file')}, {size_text(self.imported_bytes)}"),
            ("rows", f"{self.imported_records:,}"),
            ("partitioned by", ", ".join(self.partition_columns) or "nothing"),
            ("new files at", self.location),
        )
        columns = grid("columns", (Column("name"), Column("type")), list(self.columns), most)
        return Report(f"{self.action} {self.table}", (Facts(pairs), columns))


@changes_tables_of_catalog
def snapshot(
    opened: Catalog, source: Folder, table: NewTable, location: Location = None, properties: Properties = None, dry_run: CheckOnly = False
) -> Reportable:
    """Create a table over the files of a folder. No file is copied, and the table never deletes one of them."""
    result = snapshot_table(opened, source, table, location=location, properties=pairs_of(properties), dry_run=dry_run)
    return TableOfFiles(
        action="snapshot",
        table=result.table,
        dry_run=result.dry_run,
        location=result.location,
        imported_files=result.imported_files,
        imported_bytes=result.imported_bytes,
        imported_records=result.imported_records,
        columns=_columns(result.schema),
        partition_columns=result.partition_columns,
    )


@changes_tables_of_catalog
def migrate(opened: Catalog, source: Folder, table: NewTable, properties: Properties = None, dry_run: CheckOnly = False) -> Reportable:
    """Make a table of a folder of files in its place: the files become the table's. No file is copied, and the table deletes them with its rows."""
    result = migrate_table(opened, source, table, properties=pairs_of(properties), dry_run=dry_run)
    return TableOfFiles(
        action="migrate",
        table=result.table,
        dry_run=result.dry_run,
        location=result.location,
        imported_files=result.migrated_files,
        imported_bytes=result.migrated_bytes,
        imported_records=result.migrated_records,
        columns=_columns(result.schema),
        partition_columns=result.partition_columns,
    )


def _columns(schema: Schema) -> tuple[tuple[str, str], ...]:
    return tuple((column.name, str(column.field_type)) for column in schema.fields)
