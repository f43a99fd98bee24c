"""The command `rewrite-table-path`, which stages, copies and verifies a table at another place. Spec: Paths in Metadata."""

from dataclasses import dataclass
from typing import Annotated

import typer

from icefloe.cli.table_command import changes_table
from icefloe.display.formatting import count_text, size_text
from icefloe.display.report import Facts, Report
from icefloe.inspect.inspection import MOST_LINES, View
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


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePathRewrite(View):
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
        """See `View.report`."""
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
) -> View:
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
